"""Every access of the seed programs' kernels becomes a view, and the results stay as they are."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline
from tilewright.passes.pipeline import shared_passes
from tilewright.targets.info import GENERIC

HERE = Path(__file__).parent


def from_file(path):
    spec = importlib.util.spec_from_file_location(f"pass_tests_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


loader = from_file(HERE.parents[1] / "examples" / "seeds_loader.py")
oracle = from_file(HERE / "oracle.py")


def floats(count, kind=np.float32):
    return np.random.default_rng(count).standard_normal(count).astype(kind)


def kernel(program, name, hip=None):
    """The kernel function `name` of a seed program, without its decorators."""
    found = getattr(loader.load(program, hip=hip, stand_in=True), name)
    while not isinstance(found, KernelFunction):
        found = found.fn
    return found


def module_of(fn, arguments, constants):
    """Tile IR for arrays and integers in `arguments`; integers named in `constants` are folded."""
    signature = {}
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            element = dtypes.float16 if value.dtype == np.float16 else dtypes.float32
            signature[name] = dtypes.pointer_type(element)
        else:
            signature[name] = dtypes.int32
    signature.update({name: constexpr(value) for name, value in constants.items()})
    return str(build(fn, signature).module)


def vector_add():
    x = {"x_ptr": floats(90), "y_ptr": floats(90)}
    one = {**x, "output_ptr": floats(90), "n_elements": 83}
    several = {**x, "o_ptr": floats(90), "n_elements": 83, "num_blocks_per_CTA": 3}
    yield "add_kernel_one_block", one, {"BLOCK_SIZE": 16}, (6, 1, 1)
    yield "add_kernel_several_blocks", several, {"BLOCK_SIZE": 16}, (2, 1, 1)


def blocked_matmul():
    m, n, k = 19, 21, 13
    arrays = {"A": floats(m * k), "B": floats(k * n), "C": floats(m * n)}
    blocks = {"BLOCK_M": 8, "BLOCK_N": 16, "BLOCK_K": 4}
    yield "matmul_kernel", {**arrays, "M": m, "N": n, "K": k}, blocks, (3, 2, 1)


def tutorial_matmul():
    for even, group in ((True, 1), (False, 2)):
        m, n, k = 19, 37, 12 if even else 11
        arrays = {
            "a_ptr": floats(m * k, np.float16),
            "b_ptr": floats(k * n, np.float16),
            "c_ptr": floats(m * n, np.float16),
        }
        sizes = {"M": m, "N": n, "K": k, "stride_am": k, "stride_bk": n, "stride_cm": n}
        constants = {
            "stride_ak": 1, "stride_bn": 1, "stride_cn": 1, "EVEN_K": even, "GROUP_SIZE_M": group,
            "BLOCK_SIZE_M": 8, "BLOCK_SIZE_N": 16, "BLOCK_SIZE_K": 4, "ACTIVATION": "leaky_relu",
        }  # fmt: skip
        yield "matmul_kernel", {**arrays, **sizes}, constants, (9, 1, 1)


def rope():
    arrays = {"Q": floats(6 * 64), "Q_row_stride": 64, "cos": floats(96), "cos_row_stride": 16}
    more = {"sin": floats(97)[1:], "sin_row_stride": 16, "seqlen": 3}
    constants = {"head_dim": 16, "n_heads": 4, "BLOCK_SIZE": 8}
    yield "_rope_embedding", {**arrays, **more}, constants, (6, 1, 1)


def softmax():
    arguments = {
        "x_ptr": floats(180), "x_row_stride": 41, "y_ptr": floats(181)[1:], "y_row_stride": 45, "n_cols": 37,
    }  # fmt: skip
    yield "kernel_softmax_fuse", arguments, {"BLOCK_SIZE": 64}, (4, 1, 1)
    for name in ("kernel_softmax_tile", "kernel_softmax_online"):
        for cache in (True, False):
            yield name, arguments, {"BLOCK_SIZE": 16, "CACHE_OPT": cache}, (4, 1, 1)


PROGRAMS = (vector_add, blocked_matmul, tutorial_matmul, rope, softmax)
CASES = [(make.__name__, *case) for make in PROGRAMS for case in make()]


def raised(text):
    module = parse_ir(text)
    run_pipeline(module, shared_passes(), GENERIC, verify="each")
    left = [op for op in module.walk() if op.name in ("tile.load", "tile.store")]
    assert not left, str(module)
    return module


@pytest.mark.parametrize(("program", "name", "arguments", "constants", "grid"), CASES)
def test_kernels_raise_and_keep_their_results(program, name, arguments, constants, grid):
    text = module_of(kernel(program, name), arguments, constants)
    before = oracle.execute(parse_ir(text), list(arguments.values()), grid)
    after = oracle.execute(raised(text), list(arguments.values()), grid)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, rtol=3e-3, atol=1e-4)


def test_rocm_branch_raises():
    _, arguments, constants, _ = list(tutorial_matmul())[1]
    raised(module_of(kernel("tutorial_matmul", "matmul_kernel", hip="6.0"), arguments, constants))
