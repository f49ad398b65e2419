"""`check_passes` passes right compilers and names the step that is wrong."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import InternalError, LaunchError
from tilewright.testing import check_passes


@tw.autotune(configs=[tw.Config({"BLOCK": 64})], key=["n"])
@tw.jit
def softmax(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + i, e / tl.sum(e, 0), mask=i < n)


def arrays():
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    return x, np.zeros_like(x)


def test_a_right_compiler():
    x, out = arrays()
    steps = check_passes(softmax, lambda meta: (3,), x, out, 50, 50, BLOCK=64, tolerance=1e-5)
    names = [step.name for step in steps]
    assert names[-1] == "machine code" and "vectorize" in names
    assert sum(step.changed for step in steps) > 4
    assert not out.any()


class Arrays(NamedTuple):
    x: Any
    out: Any


@tw.jit
def double(arrays):
    i = tl.arange(0, 16)
    tl.store(arrays.out + i, tl.load(arrays.x + i) * 2)


def test_named_tuples():
    found = Arrays(np.arange(16.0), np.zeros(16))
    assert check_passes(double, (1,), found)[-1].name == "machine code"
    assert not found.out.any()


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.randn(2, 33, dtype=torch.bfloat16)
    out = torch.zeros_like(x)
    check_passes(softmax, (2,), x, out, 33, 33, BLOCK=64)
    assert not out.any()


def test_a_pass_that_breaks_results(monkeypatch):
    from xdsl.dialects import arith

    from tilewright.passes.licm import Licm

    whole = Licm.apply

    def apply(self, module, target):
        whole(self, module, target)
        for op in list(module.walk()):
            if isinstance(op, arith.SubfOp):
                op.result.replace_all_uses_with(op.lhs)

    monkeypatch.setattr(Licm, "apply", apply)
    x, out = arrays()
    with pytest.raises(InternalError) as caught:
        check_passes(softmax, (3,), x + 3, out, 50, 50, BLOCK=64, tolerance=1e-9)
    text = str(caught.value)
    assert "tilewright failed in pass licm: ArithmeticError: it changes what the kernel" in text
    assert "element [" in text and "of 'out_ptr' is" in text
    assert f"{__file__}:{softmax.fn.first_line}:1" in text


def test_arguments_that_do_not_fit():
    x, out = arrays()
    with pytest.raises(LaunchError, match="check_passes of softmax: missing a required argument"):
        check_passes(softmax, (3,), x, out, 50, 50)
