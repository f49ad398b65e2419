"""What semantics asks for is IR that verifies, for every type."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

import tilewright.language as tl
from tilewright import dtypes as t
from tilewright.errors import KernelTypeError
from tilewright.frontend.ir_builder import IRBuilder
from tilewright.ir.types import ir_type
from tilewright.language.core import active_semantics
from tilewright.semantics import Semantics

SYMBOLS = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", ">=")
FUNCTIONS = ("exp", "log2", "sqrt", "rsqrt", "tanh", "erf", "floor", "abs", "sigmoid")


@pytest.fixture
def function():
    """`function(kinds)` gives arguments of these types; `.verify()` closes and checks the module."""

    class Function:
        def __call__(self, *kinds):
            types = [ir_type(kind) for kind in kinds]
            self.block = Block(arg_types=types)
            self.semantics = Semantics(IRBuilder(self.block), debug=True)
            self.types = types
            active_semantics.set(self.semantics)
            pairs = zip(self.block.args, kinds, strict=True)
            return [self.semantics.tensor(arg, kind) for arg, kind in pairs]

        def verify(self):
            self.block.add_op(ReturnOp())
            body = Region(self.block)
            ModuleOp([FuncOp("f", (self.types, []), body)]).verify()

    token = active_semantics.set(None)
    yield Function()
    active_semantics.reset(token)


@pytest.mark.parametrize("a", t.ALL_SCALARS, ids=str)
@pytest.mark.parametrize("b", t.ALL_SCALARS, ids=str)
def test_operators_and_conversions(function, a, b):
    x, y = function(t.block_type(a, (4, 1)), t.block_type(b, (8,)))
    for symbol in SYMBOLS:
        try:
            result = function.semantics.binary(symbol, x, y)
        except KernelTypeError:
            floats = a.is_floating() or b.is_floating()
            mixed = a.is_int_unsigned() != b.is_int_unsigned()
            assert symbol in "&|^<<>>//" if floats else symbol in "//%" and mixed
            continue
        assert result.shape == (4, 8)
    tl.where(x, x, y)
    tl.maximum(x, y, tl.PropagateNan.ALL)
    assert x.to(b).dtype == b
    function.verify()


@pytest.mark.parametrize("kind", t.ALL_SCALARS, ids=str)
def test_tiles_of_every_type(function, kind):
    x, pointer = function(t.block_type(kind, (4, 8)), t.pointer_type(kind))
    tiles = pointer + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)
    y = tl.load(tiles, mask=tl.arange(0, 8) < 5, other=1)
    tl.store(tiles, x.T.T, mask=tl.arange(0, 4)[:, None] < 3)
    assert y.type == x.type
    for reduction in (tl.sum, tl.max, tl.min):
        reduction(x), reduction(x, 1), reduction(x, 0, keep_dims=True)
    tl.argmax(x, 1), tl.cumsum(x, 1), tl.cumprod(x, 0, reverse=True)
    tl.flip(x), tl.join(x, x), tl.split(x.reshape(16, 2)), x[1], x[:, ::2], x[0, 0], x.ravel()
    +x, -x, abs(x), ~(x == x), x**2
    if kind.is_floating():
        for name in FUNCTIONS:
            assert getattr(tl, name)(x).dtype == kind
        assert tl.softmax(x).dtype == (t.float64 if kind.is_fp64() else t.float32)
        tl.fma(x, x, 1.0), tl.libdevice.asin(x), tl.libdevice.isnan(x), x / 2, x % 3
    if not kind.is_bool():
        tl.dot(x, x.T), tl.dot(x[None], x.T[None])
    if not (kind.is_bool() or kind.is_fp8()):
        tl.atomic_add(tiles, x), tl.atomic_max(tiles, x, mask=True), tl.atomic_xchg(pointer, 1)
        tl.atomic_cas(pointer, 0, 1)
    tl.device_print("x", x)
    tl.device_assert(x == x, "x")
    function.verify()
