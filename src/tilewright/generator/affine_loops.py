"""Recognising a contraction in a nest of `affine.for` (the start of arXiv 2108.13191, section 3.1).

    affine.for %i = 0 to %M {
      affine.for %j = 0 to %N {
        affine.for %k = 0 to %K {
          %c' = C[i, j] + A[i, k] * B[k, j], each converted to the type of C
          affine.store %c', %C[%i, %j]

Loops stand in any order, since sums have none; one more for each batch axis.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineSymExpr

from tilewright.errors import CompilationError
from tilewright.generator.description import Access, Argument, Description, roles_of
from tilewright.generator.element_types import CONVERSIONS, language_type
from tilewright.ir.location import location_of

_PRODUCTS = (arith.MulfOp, arith.MuliOp)
_SUMS = (arith.AddfOp, arith.AddiOp)


def has_loops(function: FuncOp) -> bool:
    """Whether a function is for this module."""
    return any(isinstance(op, affine.ForOp) for op in function.body.block.ops)


def recognise(function: FuncOp, typed: bool = True) -> Description:
    """The contraction that a function's loops compute. Raises CompilationError at what is none.

    Without `typed` element types are not the loops' to say: any will do.
    """
    loops, body = _nest(function)
    store = _only_store(body)
    names = {loop: loop.body.block.args[0].name_hint or "?" for loop in loops}
    total = _through(store.value)
    if not isinstance(total.owner, _SUMS):
        raise _wrong(store, "what is stored is no sum")
    product, old = _terms(total.owner, store)
    left, right = (_load(v, product) for v in product.operands)
    subscripts = [_subscript(op, loops) for op in (left, right, store)]
    if old.memref is not store.memref or _subscript(old, loops) != subscripts[2]:
        raise _wrong(old, "the sum does not start from the element that is stored")
    for op in (left, right):
        if op.memref is store.memref:
            raise _wrong(op, "the result is an operand of its own product")
    roles = roles_of(subscripts[0], subscripts[1], subscripts[2], names, location_of(store))
    missing = [names[loop] for loop in loops if loop not in roles]
    if missing:
        raise _wrong(store, f"nothing depends on loop '{missing[0]}'")
    a, b, out = (
        Access(_argument(op.memref, function, op), tuple(roles[x] for x in subscript))
        for op, subscript in zip((left, right, store), subscripts, strict=True)
    )
    sizes = {roles[loop]: _bound(loop, function) for loop in loops}
    arguments = tuple(_describe(arg, typed) for arg in function.body.block.args)
    place = location_of(loops[0]) or location_of(function)
    if place is None:
        raise _wrong(function, "it has no place")
    return Description(function.sym_name.data, place, arguments, a, b, out, addend=out, sizes=sizes)


def _wrong(op: Operation, text: str) -> CompilationError:
    return CompilationError(
        f"these loops are no product of matrices: {text}",
        location=location_of(op),
        help="write three loops around C[i, j] += A[i, k] * B[k, j]",
    )


def _nest(function: FuncOp) -> tuple[list[affine.ForOp], list[Operation]]:
    """The loops from the outside in, and the operations of the innermost body."""
    ops = [op for op in function.body.block.ops if not isinstance(op, ReturnOp)]
    loops: list[affine.ForOp] = []
    while True:
        inner = [op for op in ops if isinstance(op, affine.ForOp)]
        if not inner:
            return loops, ops
        if len(inner) > 1:
            raise _wrong(inner[1], "a second loop stands beside the first")
        others = [op for op in ops if op is not inner[0] and not _harmless(op)]
        if others:
            raise _wrong(others[0], f"{others[0].name} stands between the loops")
        loop = inner[0]
        if loop.inits:
            raise _wrong(loop, "a loop carries values (iter_args)")
        if loop.step.value.data != 1:
            raise _wrong(loop, f"a loop has step {loop.step.value.data}, not 1")
        loops.append(loop)
        ops = [op for op in loop.body.block.ops if not isinstance(op, affine.YieldOp)]


def _harmless(op: Operation) -> bool:
    return op.name in ("arith.constant", "memref.dim")


def _only_store(body: list[Operation]) -> affine.StoreOp:
    stores = [op for op in body if isinstance(op, affine.StoreOp)]
    if len(stores) != 1:
        at = stores[1] if stores else body[-1] if body else None
        text = f"the innermost body stores {len(stores)} times"
        raise _wrong(at, text) if at is not None else CompilationError(text)
    known = (affine.LoadOp, affine.StoreOp, *CONVERSIONS, *_PRODUCTS, *_SUMS)
    for op in body:
        if not isinstance(op, known) and not _harmless(op):
            raise _wrong(op, f"{op.name} has no place in it")
    return stores[0]


def _through(value: SSAValue) -> SSAValue:
    """`value` before conversions."""
    while isinstance(value.owner, CONVERSIONS):
        value = value.owner.operands[0]
    return value


def _terms(total: Any, store: Operation) -> tuple[Operation, affine.LoadOp]:
    """The product and the old value that are added."""
    sides = [_through(v).owner for v in total.operands]
    for product, old in (sides, sides[::-1]):
        if isinstance(product, _PRODUCTS) and isinstance(old, affine.LoadOp):
            return product, old
    raise _wrong(store, "what is stored is not the old element plus a product")


def _load(value: SSAValue, product: Operation) -> affine.LoadOp:
    op = _through(value).owner
    if not isinstance(op, affine.LoadOp):
        raise _wrong(product, "a factor is not an element of an array")
    return op


def _subscript(op: Any, loops: list[affine.ForOp]) -> tuple[affine.ForOp, ...]:
    """The loops whose indices subscript an access, axis by axis."""
    found = []
    by_index = {loop.body.block.args[0]: loop for loop in loops}
    for expression in op.map.data.results:
        place = _position(expression, op.map.data)
        index = op.indices[place] if place is not None else None
        if not isinstance(index, BlockArgument) or index not in by_index:
            raise _wrong(op, "a subscript is not the index of a loop by itself")
        found.append(by_index[index])
    return tuple(found)


def _position(expression: Any, whole: Any) -> int | None:
    """Which operand of a map an expression is, if it is one by itself."""
    if isinstance(expression, AffineDimExpr):
        return expression.position
    if isinstance(expression, AffineSymExpr):
        return whole.num_dims + expression.position
    return None


def _argument(memref: SSAValue, function: FuncOp, op: Operation) -> int:
    if not isinstance(memref, BlockArgument) or memref.owner is not function.body.block:
        raise _wrong(op, "an array is no argument of the function")
    kind = memref.type
    if isinstance(kind, MemRefType) and not isinstance(kind.layout, NoneAttr):
        raise _wrong(op, f"the array has layout {kind.layout}; arrays must be packed")
    return memref.index


def _bound(loop: affine.ForOp, function: FuncOp) -> int | tuple[int]:
    """Iterations of a loop: a constant, or the integer argument that bounds it."""
    lower = loop.lowerBoundMap.data.results
    if len(lower) != 1 or not isinstance(lower[0], AffineConstantExpr) or lower[0].value != 0:
        raise _wrong(loop, "a loop does not start at 0")
    upper = loop.upperBoundMap.data.results
    if len(upper) == 1:
        expression = upper[0]
        if isinstance(expression, AffineConstantExpr):
            return expression.value
        place = _position(expression, loop.upperBoundMap.data)
        if place is not None:
            value = loop.upperBoundOperands[place]
            if isinstance(value, BlockArgument) and value.owner is function.body.block:
                return (value.index,)
    raise _wrong(loop, "the end of a loop is neither a constant nor an argument of the function")


def _describe(argument: BlockArgument, typed: bool) -> Argument:
    name = argument.name_hint or f"argument{argument.index}"
    kind = argument.type
    if not isinstance(kind, MemRefType):
        return Argument(name, False)
    shape = tuple(None if n < 0 else n for n in kind.get_shape())
    element = language_type(kind.get_element_type()) if typed else None
    return Argument(name, True, element, shape)
