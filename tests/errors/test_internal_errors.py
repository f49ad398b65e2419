"""What goes wrong inside the compiler reaches the user as one error at the kernel's line."""

import traceback
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import InternalError, PassError

PACKAGE = str(Path(tw.__file__).parent)


@tw.jit
def _double(x):
    return x * 2.0


@tw.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, _double(x), mask=offsets < n)


@pytest.fixture(autouse=True)
def _always_compile(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")
    kernel.launcher.compiled.clear()


def message() -> str:
    with pytest.raises(InternalError) as caught:
        kernel[(1,)](np.zeros(8, np.float32), 8, BLOCK=8)
    kernel.launcher.compiled.clear()
    text = str(caught.value)
    assert "this is a bug in tilewright" in text
    assert "compiled for kernel(x_ptr: *fp32, n: i32, BLOCK=8)" in text
    shown = "".join(traceback.format_exception(caught.value))
    assert PACKAGE not in shown and "contextlib" not in shown
    return text


def fails_at(kind):
    """A function of a pass that fails at the first operation of this kind."""

    def apply(self, module, target):
        for op in module.walk():
            if isinstance(op, kind):
                raise KeyError("nothing known of it")

    return apply


@pytest.mark.parametrize(
    "error", [KeyError("x"), ValueError("x"), RecursionError(), PassError("x")]
)
def test_any_exception_of_a_pass(monkeypatch, error):
    from tilewright.passes.cse import Cse

    def apply(self, module, target):
        raise error

    monkeypatch.setattr(Cse, "apply", apply)
    text = message()
    assert "tilewright failed in pass cse" in text
    assert f"{__file__}:{kernel.first_line}:1" in text


def test_a_pass_names_operation_line_and_callers(monkeypatch):
    from xdsl.dialects import arith

    from tilewright.passes.cse import Cse

    monkeypatch.setattr(Cse, "apply", fails_at(arith.MulfOp))
    text = message()
    assert "in pass cse, at arith.mulf: KeyError: 'nothing known of it'" in text
    assert f"{__file__}:{_double.first_line + 1}:12" in text
    assert f"{_double.first_line + 1:>5} |     return x * 2.0\n{' ' * 19}^\n" in text
    assert f"called from {__file__}:{kernel.first_line + 3}" in text


def test_ir_that_does_not_verify(monkeypatch):
    from tilewright.passes.cse import Cse

    def apply(self, module, target):
        block = module.body.block.first_op.body.block
        block.last_op.detach()

    monkeypatch.setattr(Cse, "apply", apply)
    monkeypatch.setenv("TILEWRIGHT_VERIFY_EACH_PASS", "1")
    assert "after cse" in message()


def test_code_generation(monkeypatch):
    from tilewright.backends.cpu import backend

    def emit(*arguments):
        raise NotImplementedError

    monkeypatch.setattr(backend, "emit_module", emit)
    text = message()
    assert "tilewright failed to write LLVM IR: NotImplementedError: no message" in text


def test_what_llvm_rejects(monkeypatch):
    from tilewright.backends.cpu import backend

    monkeypatch.setattr(backend, "emit_module", lambda *a: ("kernel", "define nonsense"))
    assert "tilewright failed to make machine code: RuntimeError: " in message()


def test_the_front_end(monkeypatch):
    from tilewright.semantics import Semantics

    def load(*arguments, **keywords):
        raise IndexError("list index out of range")

    monkeypatch.setattr(Semantics, "load", load)
    text = message()
    assert "tilewright failed to read the kernel: IndexError: list index out of range" in text
    assert f"{__file__}:{kernel.first_line + 2}:9" in text
    assert "^" * len("tl.load(x_ptr + offsets, mask=offsets < n)") in text


def test_passes_that_were_switched_off_are_named(monkeypatch):
    from tilewright.passes.simplify import Simplify

    monkeypatch.setattr(Simplify, "apply", fails_at(object))
    monkeypatch.setenv("TILEWRIGHT_DISABLE", "cse")
    assert "help: these passes were switched off: cse." in message()


def test_where_it_happened_on_request(monkeypatch):
    from tilewright.passes.cse import Cse

    monkeypatch.setattr(Cse, "apply", fails_at(object))
    monkeypatch.setenv("TILEWRIGHT_FULL_TRACEBACK", "1")
    with pytest.raises(InternalError) as caught:
        kernel[(1,)](np.zeros(8, np.float32), 8, BLOCK=8)
    assert isinstance(caught.value.original, KeyError)
    shown = "".join(traceback.format_exception(caught.value))
    assert "passes/manager.py" in shown
    assert "nothing known of it" in shown


def test_an_unknown_pass_is_the_users_fault(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_DISABLE", "nonsense")
    with pytest.raises(PassError, match="unknown pass 'nonsense'") as caught:
        kernel[(1,)](np.zeros(8, np.float32), 8, BLOCK=8)
    assert not isinstance(caught.value, InternalError)
