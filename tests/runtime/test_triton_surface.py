"""What test suites and tutorials written for Triton ask of kernels and of their errors."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import numpy as np
import pytest
from tests.engines import ON_CPU, run

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.errors import CompilationError, KernelNameError
from tilewright.runtime.async_compile import AsyncCompileMode


@tw.jit
def template(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)  # noqa: F841
    out = GENERATE_TEST_HERE  # noqa: F821
    tl.store(out_ptr + at, out)


@tw.jit
def tripled(x):
    return 3 * x


def patched(expression):
    kernel = tw.JITFunction(template.fn)
    kernel._unsafe_update_src(kernel.src.replace("GENERATE_TEST_HERE", expression))
    return kernel


@pytest.mark.parametrize("engine", ON_CPU)
def test_replaced_source(engine):
    x = np.arange(8, dtype=np.float32)
    for expression, expected in (("x + 1", x + 1), ("tripled(x)", 3 * x), ("tl.where(x > 3, x, 0)", x * (x > 3))):  # fmt: skip
        kernel = patched(expression)
        _, out = run(engine, kernel, (1,), x, x, 8)
        np.testing.assert_array_equal(out, expected)
    kernel._unsafe_update_src(kernel.src.replace("x > 3", "x > 5"))
    _, out = run(engine, kernel, (1,), x, x, 8)
    np.testing.assert_array_equal(out, x * (x > 5))
    assert "GENERATE_TEST_HERE" in template.src


def test_errors_in_replaced_source_show_it():
    with pytest.raises(KernelNameError, match="'nothing' is not defined") as caught:
        patched("x + nothing")[(1,)](np.zeros(8, np.float32), np.zeros(8, np.float32), 8)
    assert "out = x + nothing" in str(caught.value)


@tw.jit
def outer(out_ptr):
    tl.store(out_ptr, inner(1))


@tw.jit
def inner(x):
    return tl.expand_dims(tl.arange(0, 8), -3)


def test_errors_have_a_cause(monkeypatch):
    monkeypatch.setattr(dtypes, "language_module", "tilewright.language")
    with pytest.raises(CompilationError) as caught:
        outer[(1,)](np.zeros(8, np.float32))
    assert caught.value.__cause__ is None
    monkeypatch.setattr(dtypes, "language_module", "triton.language")
    with pytest.raises(CompilationError) as caught:
        outer[(1,)](np.zeros(8, np.float32))
    cause = caught.value.__cause__
    assert isinstance(cause, TypeError) and not isinstance(cause, CompilationError)
    assert "invalid axis -3" in str(cause) and caught.value.error_message == caught.value.message
    assert "called from" in str(caught.value)


def test_integers_beyond_64_bits():
    for value in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError, match=r"argument 'n'.*does not fit 64 bits"):
            takes_number[(1,)](np.zeros(1), value)


def test_integers_beyond_64_bits_after_a_launch_with_one_of_64():
    takes_number[(1,)](np.zeros(1), 1 << 63)
    with pytest.raises(OverflowError, match=r"argument 'n'.*does not fit 64 bits"):
        takes_number[(1,)](np.zeros(1), 1 << 64)


@tw.jit
def takes_number(out_ptr, n):
    tl.store(out_ptr, n)


def test_resources_of_kernels_on_a_cpu_divide():
    out = np.zeros(1)
    kernel = takes_number.warmup(out, 5, grid=(1,))
    kernel._init_handles()
    chip = {"registers": 32, "shared": tw.backends.registry.get("cpu").target().l2_bytes}
    assert chip["registers"] // (kernel.n_regs * 8) >= 1
    assert chip["shared"] // kernel.metadata.shared >= 1
    assert (
        takes_number.compile({"out_ptr": "*fp64", "n": "i32"}, target="sm_90a").metadata.shared == 0
    )


class Queue(Executor):
    """Runs what it is given when told to."""

    def __init__(self):
        self.waiting = []

    def submit(self, fn, *args):
        future = Future()
        self.waiting.append(lambda: _settle(future, fn, args))
        return future

    def run(self):
        while self.waiting:
            self.waiting.pop(0)()


def _settle(future, fn, args):
    try:
        future.set_result(fn(*args))
    except Exception as error:
        future.set_exception(error)


@tw.jit
def stores_constant(x, C: tl.constexpr):
    tl.static_assert(C != 2)
    tl.store(x, C)


def test_compilations_in_an_executor():
    x, queue = np.zeros(1, np.int32), Queue()
    with AsyncCompileMode(queue):
        first = stores_constant.warmup(x, 0, grid=(1,))
        assert stores_constant.warmup(x, 0, grid=(1,)) is first and len(queue.waiting) == 1
        stores_constant.warmup(x, 1, grid=(1,))
        assert not stores_constant.compiled_kernels and len(queue.waiting) == 2
        stores_constant[(1,)](x, 3)  # nobody has begun to
        assert x[0] == 3 and len(stores_constant.compiled_kernels) == 1
        queue.run()
    assert len(stores_constant.compiled_kernels) == 3 and first.name == first.result().name
    with pytest.raises(tw.CompilationError), AsyncCompileMode(queue):
        stores_constant.warmup(x, 2, grid=(1,))
        queue.run()
    with AsyncCompileMode(queue, ignore_errors=True):
        stores_constant.warmup(x, 2, grid=(1,))
        queue.run()


def test_the_scope_that_a_kernel_captures():
    factor = tl.constexpr(3)

    @tw.jit
    def scaled(x_ptr):
        tl.store(x_ptr, tl.load(x_ptr) * factor)

    scope = scaled.get_capture_scope()
    assert scope["factor"] is factor and scope["tl"] is tl
