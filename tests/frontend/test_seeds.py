"""The seeds' kernels, as written, build to IR that verifies and survives text, for every dtype."""

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest

import tilewright.language as tl
from tilewright import dtypes
from tilewright.frontend import build
from tilewright.ir.text import parse_ir, print_ir, verify_ir
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(4, full=2)

_SEEDS = Path(__file__).parents[2] / "examples" / "seeds"
_CONSTANTS = {
    "BLOCK_SIZE": 128, "BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16, "BLOCK_SIZE_M": 32,
    "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 16, "GROUP_SIZE_M": 8, "ACTIVATION": "leaky_relu",
    "head_dim": 128, "n_heads": 32,
}  # fmt: skip
_POINTERS = ("A", "B", "C", "Q", "cos", "sin")


def kernels_of(name: str, hip: str | None = None) -> list[KernelFunction]:
    """The kernels of a seed program, without the decorators that need a runtime."""
    path = _SEEDS / f"{name}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    scope = {
        "tl": tl,
        "triton": SimpleNamespace(language=tl),
        "torch": SimpleNamespace(version=SimpleNamespace(hip=hip)),
    }
    found = []
    for node in tree.body:
        uses = {n.value.id for n in ast.walk(node) if isinstance(n, ast.Attribute)
                and isinstance(n.value, ast.Name)}  # fmt: skip
        if not isinstance(node, ast.FunctionDef) or "tl" not in uses:
            continue
        node.decorator_list = []
        code = compile(ast.Module([node], []), str(path), "exec")
        exec(code, scope)
        scope[node.name] = KernelFunction(scope[node.name])
        found.append(scope[node.name])
    return [fn for fn in found if fn.fn.__name__ != "leaky_relu"]


def signature_of(fn: KernelFunction, element: dtypes.dtype, flag: bool) -> dict:
    found = {}
    for p in fn.params:
        if p.is_constexpr:
            found[p.name] = dtypes.constexpr(_CONSTANTS.get(p.name, flag))
        elif p.name.endswith("_ptr") or p.name in _POINTERS:
            found[p.name] = dtypes.pointer_type(element)
        else:
            found[p.name] = dtypes.float32 if p.name == "eps" else dtypes.int32
    return found


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("element", ["fp32", "fp16", "bf16", "fp64", "i8"])
@pytest.mark.parametrize(
    "name", ["vector_add", "blocked_matmul", "tutorial_matmul", "rope", "softmax"]
)
def test_seed(name, element, flag):
    if name == "softmax" and element == "i8":
        pytest.skip("exp has no integer form")
    fns = kernels_of(name, hip="6.0" if flag else None)
    assert fns
    for fn in fns:
        kernel = build(fn, signature_of(fn, dtypes.from_short_name(element), flag))
        verify_ir(kernel.module)
        text = print_ir(kernel.module, locations=True)
        assert print_ir(parse_ir(text), locations=True) == text
        if name == "tutorial_matmul":
            assert [c.fn.__name__ for c in kernel.callees] == ["leaky_relu"]
            read = {path: value for (_, path), value in kernel.globals_read.items()}
            assert read == {"torch.version.hip": "6.0" if flag else None}
