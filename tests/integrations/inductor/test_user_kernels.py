"""Which tensors a kernel writes, as torch asks before it compiles a function that launches it."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from tests.integrations.inductor.test_install import run

import tilewright as tw
import tilewright.language as tl
from tilewright.integrations.inductor import user_kernels
from tilewright.integrations.inductor.user_kernels import written_tensors


@tw.jit
def kernel(x_ptr, y_ptr, count_ptr, n, bias, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n)
    if bias is not None:
        x += bias
    tl.store(y_ptr + i, x, i < n)
    tl.atomic_add(count_ptr, 1)


tuned = tw.autotune([tw.Config({"BLOCK": 64})], key=["n"])(kernel)


@pytest.mark.parametrize("symbol", [7, SimpleNamespace()])
def test_written_tensors(symbol):
    tensors = {"x_ptr": tl.float32, "y_ptr": tl.float32, "count_ptr": tl.int32}
    given = {**dict.fromkeys(tensors, object()), "n": symbol, "bias": None, "BLOCK": 32}
    assert written_tensors(kernel, given, tensors) == ["y_ptr", "count_ptr"]
    del given["BLOCK"]
    assert written_tensors(tuned, given, tensors) == ["y_ptr", "count_ptr"]


def test_what_cannot_be_found_out():
    assert written_tensors(kernel, {"x_ptr": 1, "BLOCK": 32}, {}) is None
    assert written_tensors(object(), {}, {}) is None


def test_what_is_written_is_restored_after_measuring():
    """Two arguments may be one tensor; what `restore_value` names stays first."""
    x, y = object(), object()
    node = SimpleNamespace(kernel_args={"a": y, "b": x, "o": x, "n": 3})
    for configs, before, wanted in ((2, [], ["b", "o"]), (2, ["o"], ["o", "b"]), (1, [], [])):
        found = user_kernels._restoring(
            None, lambda _, n=configs, r=before: ("kernel", [None] * n, r, ["zeroed"])
        )
        node.mutable_args = []
        assert found(node) == ("kernel", [None] * configs, before, ["zeroed"])
        node.mutable_args = [x]
        assert found(node) == ("kernel", [None] * configs, wanted, ["zeroed"])


def test_autotuners_that_torch_makes_of_others():
    """torch names an autotuner's attributes, of which `configs_top_k` is `top_k` to a program."""
    hooks = {"perf_model": None, "early_config_prune": None}
    configs = [tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 32})]
    found = tw.autotune(configs, key=[], prune_configs_by={**hooks, "configs_top_k": 1})(kernel)
    assert found.configs_top_k == 1
    both = {**hooks, "top_k": 2, "configs_top_k": 1}
    assert tw.autotune(configs, key=[], prune_configs_by=both)(kernel).configs_top_k == 2


class Compiler:
    """Stands for `torch.compiler`."""

    compiling = False

    def is_compiling(self):
        return self.compiling


def test_heuristics_in_code_that_is_traced(monkeypatch):
    """Dynamo follows the launch to that of the kernel below; otherwise it is `run` as ever."""
    compiler = Compiler()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(compiler=compiler))
    bind = user_kernels._traceable(None, None)
    launches = []

    class Launched(SimpleNamespace):
        def __getitem__(self, grid):
            return lambda *args, **kwargs: launches.append((grid, args, kwargs))

    heuristic = SimpleNamespace(
        fn=Launched(), arg_names=["x", "n", "EVEN"], _defaults={"BLOCK": 8},
        values={"EVEN": lambda given: given["n"] % given["BLOCK"] == 0},
        run=lambda *args, grid, **kwargs: launches.append("run"),
    )  # fmt: skip
    bind(heuristic, (3,))("x", 24, num_warps=2)
    compiler.compiling = True
    bind(heuristic, (3,))("x", 24, num_warps=2)
    assert launches == ["run", ((3,), ("x", 24), {"EVEN": True, "num_warps": 2})]


@pytest.mark.long
def test_launches_in_compiled_functions(tmp_path):
    """Traced without a graph break, with grids of any kind, alone and as a `triton_op`; no warnings of torch's."""
    pytest.importorskip("torch")
    (tmp_path / "user_kernels.py").write_text(
        "import tilewright as tw\n"
        "import tilewright.language as tl\n"
        "@tw.jit\n"
        "def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(o_ptr + i, tl.load(x_ptr + i, i < n) + tl.load(y_ptr + i, i < n), i < n)\n"
    )
    run(
        tmp_path,
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import logging, torch
        import tilewright as tw
        from torch.library import triton_op, wrap_triton
        from user_kernels import add
        warned = []
        logging.getLogger("torch._higher_order_ops.triton_kernel_wrap").addFilter(warned.append)

        def raw(x, y):
            out = torch.empty_like(x)
            add[lambda given: (tw.cdiv(x.numel(), given["BLOCK"]),)](x * 2, y, out, x.numel(), BLOCK=64)
            return out + 1

        @triton_op("tilewright_test::add", mutates_args={{}})
        def operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            wrap_triton(add)[(tw.cdiv(x.numel(), 64),)](x, y, out, x.numel(), 64)
            return out

        heuristic = tw.heuristics({{"BLOCK": lambda given: 128}})(add)

        def with_heuristics(x, y):
            out = torch.empty_like(x)
            heuristic[(8,)](x, y, out, x.numel())
            return out

        x, y = torch.randn(1000), torch.randn(1000)
        torch.testing.assert_close(torch.compile(with_heuristics, fullgraph=True)(x, y), x + y)
        torch.testing.assert_close(with_heuristics(x, y), x + y)
        torch.testing.assert_close(torch.compile(raw, fullgraph=True)(x, y), 2 * x + y + 1)
        torch.testing.assert_close(operator(x, y), x + y)
        both = torch.compile(lambda x, y: operator(x * 2, y) + y, fullgraph=True)
        torch.testing.assert_close(both(x, y), 2 * x + 2 * y)

        tuned = tw.autotune([tw.Config({{"BLOCK": 64}}), tw.Config({{"BLOCK": 128}})], key=[])(add)

        def accumulated(x, y):
            out = torch.zeros_like(x)
            tuned[lambda given: (tw.cdiv(x.numel(), given["BLOCK"]),)](x, y, out, x.numel(), num_warps=2)
            tuned[lambda given: (tw.cdiv(x.numel(), given["BLOCK"]),)](out, x, out, x.numel(), num_warps=2)
            return out

        torch.testing.assert_close(torch.compile(accumulated, fullgraph=True)(x, y), 2 * x + y)
        assert not warned
        """,
        TILEWRIGHT_INDUCTOR="cpu",
    )
