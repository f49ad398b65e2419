"""Recognising a contraction in a nest of `affine.for` (the start of arXiv 2108.13191, section 3.1).

    affine.for %i = 0 to %M {
      affine.for %j = 0 to %N {
        affine.for %k = 0 to %K {
          %c' = C[i, j] + A[i, k] * B[k, j], each converted to the type of C
          affine.store %c', %C[%i, %j]

Loops stand in any order, since sums have none; one more for each batch axis. Where a 0 is stored in the loops of
`%i` and `%j`, before that of `%k`, sums begin with it, otherwise with what is in C.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, NoneAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSymExpr

from tilewright.errors import CompilationError
from tilewright.generator.accumulator_types import (
    ADDITIONS,
    CONVERSIONS,
    PRODUCTS,
    check_accumulator_type,
    check_conversions,
    language_type,
    plain,
    without_signs,
)
from tilewright.generator.description import Access, Argument, Bound, Description, Loop, roles_of
from tilewright.generator.elementwise import zero_like
from tilewright.ir.location import location_of


def has_loops(function: FuncOp) -> bool:
    """Whether a function is for this module."""
    return any(isinstance(op, affine.ForOp) for op in function.body.block.ops)


def recognize(function: FuncOp, typed: bool = True) -> Description:
    """The contraction that a function's loops compute. Raises CompilationError at what is none.

    Without `typed` element types are not the loops' to say: any will do.
    """
    loops, body, zeros = _nest(function)
    store = _only_store(body, function)
    names = {loop: loop.body.block.args[0].name_hint or "?" for loop in loops}
    total = plain(store.value)
    if not isinstance(total.owner, ADDITIONS):
        raise _wrong(store, "the stored value is not a sum")
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
    _check_zeros(zeros, store, loops)
    a, b, out = (
        Access(_argument(op.memref, function, op), tuple(roles[x] for x in subscript))
        for op, subscript in zip((left, right, store), subscripts, strict=True)
    )
    sizes = {roles[loop]: _values(loop, function) for loop in loops}
    place = location_of(loops[0]) or location_of(function)
    if place is None:
        raise _wrong(function, "it has no place")
    arguments = [_describe(arg, typed, place) for arg in function.body.block.args]
    unsigned = check_conversions(store.value, total.owner, old.results[0], product, _wrong)
    if typed:
        kinds: list[Any] = [op.memref.type for op in (left, right, store)]
        elements = [kind.get_element_type() for kind in kinds]
        check_accumulator_type(elements[:2], elements[2], product, place, _wrong)
    if unsigned:
        without_signs(arguments, (a, b))
    for access, op in ((a, left), (b, right), (out, store)):
        _check_extents(arguments[access.argument], access, sizes, op)
    addend = None if zeros else out
    return Description(
        function.sym_name.data, place, tuple(arguments), a, b, out, addend, sizes=sizes
    )


def _check_zeros(
    zeros: list[tuple[affine.StoreOp, int]], store: affine.StoreOp, loops: list[affine.ForOp]
) -> None:
    """Zeros are stored where the sum is, once for each element."""
    subscript = _subscript(store, loops)
    for op, depth in zeros:
        if op.memref is not store.memref or _subscript(op, loops) != subscript:
            raise _wrong(op, "another element than that of the sum is set to 0")
        if set(loops[:depth]) != set(subscript):
            raise _wrong(
                op, "the element is set to 0 again and again, outside the loops of its subscripts"
            )


def _check_extents(argument: Argument, access: Access, sizes: Any, op: Operation) -> None:
    """Loops with constant bounds stay inside an array whose extents are known."""
    for role, extent in zip(access.roles, argument.shape, strict=True):
        size = sizes[role]
        if isinstance(size, Loop):
            if not size.constant:
                continue
            size = max((x + 1 for x in size.values(())), default=0)
        if extent is not None and size > extent:
            raise _wrong(op, f"a loop goes to {size}, '{argument.name}' has extent {extent}")


def _wrong(op: Operation, text: str) -> CompilationError:
    return CompilationError(
        f"these loops are not a matmul: {text}",
        location=location_of(op),
        help="write three loops around C[i, j] += A[i, k] * B[k, j]",
    )


def _nest(
    function: FuncOp,
) -> tuple[list[affine.ForOp], list[Operation], list[tuple[affine.StoreOp, int]]]:
    """The loops from the outside in, the operations of the innermost body, and where zeros are stored before: in how
    many loops."""
    zeros: list[tuple[affine.StoreOp, int]] = []
    ops = [op for op in function.body.block.ops if not isinstance(op, ReturnOp)]
    loops: list[affine.ForOp] = []
    while True:
        inner = [op for op in ops if isinstance(op, affine.ForOp)]
        if not inner:
            return loops, ops, zeros
        if len(inner) > 1:
            raise _wrong(inner[1], "two loops at the same depth: the nest must be perfect")
        before = ops[: ops.index(inner[0])]
        zeros += [(op, len(loops)) for op in before if _stores_zero(op)]
        stored = {op for op, _ in zeros}
        others = [op for op in ops if op not in (inner[0], *stored) and not _harmless(op)]
        if others:
            raise _wrong(others[0], f"{others[0].name} between the loops: the nest must be perfect")
        loop = inner[0]
        if loop.inits:
            raise _wrong(loop, "a loop carries values (iter_args)")
        loops.append(loop)
        ops = [op for op in loop.body.block.ops if not isinstance(op, affine.YieldOp)]


def _stores_zero(op: Operation) -> TypeGuard[affine.StoreOp]:
    return isinstance(op, affine.StoreOp) and zero_like(op.value)


def _harmless(op: Operation) -> bool:
    return op.name in ("arith.constant", "memref.dim")


def _only_store(body: list[Operation], function: FuncOp) -> affine.StoreOp:
    stores = [op for op in body if isinstance(op, affine.StoreOp)]
    if len(stores) != 1:
        at = stores[1] if stores else body[-1] if body else function
        raise _wrong(at, f"the innermost body stores {len(stores)} times")
    known = (affine.LoadOp, affine.StoreOp, *CONVERSIONS, *PRODUCTS, *ADDITIONS)
    for op in body:
        if not isinstance(op, known) and not _harmless(op):
            raise _wrong(op, f"{op.name} has no place in it")
    return stores[0]


def _terms(total: Any, store: Operation) -> tuple[Operation, affine.LoadOp]:
    """The product and the old value that are added."""
    sides = [plain(v).owner for v in total.operands]
    for product, old in (sides, sides[::-1]):
        if isinstance(product, PRODUCTS) and isinstance(old, affine.LoadOp):
            return product, old
    raise _wrong(store, "what is stored is not the old element plus a product")


def _load(value: SSAValue, product: Operation) -> affine.LoadOp:
    op = plain(value).owner
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
        raise _wrong(op, "an array is not an argument of the function")
    kind = memref.type
    if isinstance(kind, MemRefType) and not isinstance(kind.layout, NoneAttr):
        raise _wrong(op, f"the array has layout {kind.layout}; arrays must be packed")
    return memref.index


def _values(loop: affine.ForOp, function: FuncOp) -> int | Loop:
    """The values of a loop's index; a number of them where they begin at 0."""
    start = _bound(loop.lowerBoundMap.data, loop.lowerBoundOperands, loop, function, "beginning")
    stop = _bound(loop.upperBoundMap.data, loop.upperBoundOperands, loop, function, "end")
    found = Loop(start, stop, loop.step.value.data)
    if not found.constant:
        return found
    values = found.values(())
    return len(values) if values.start == 0 and values.step == 1 else found


def _bound(bound: Any, operands: Any, loop: Any, function: FuncOp, what: str) -> Bound:
    """A bound as an expression of the function's arguments. Raises CompilationError for any other."""
    arguments = [_number(x, function) for x in operands]
    if len(bound.results) != 1 or None in arguments:
        raise _wrong(
            loop,
            f"the {what} of a loop is neither a constant nor an argument of the function, nor affine in these",
        )
    dims = [AffineExpr.dimension(i) for i in range(len(arguments))]
    count = bound.num_dims
    expression = bound.results[0].replace_dims_and_symbols(dims[:count], dims[count:])
    return Bound(expression, tuple(x for x in arguments if x is not None))


def _number(value: SSAValue, function: FuncOp) -> int | tuple[int, int] | None:
    """The argument, or the extent of an argument's axis, that a value is; None for any other."""
    op = value.owner
    if isinstance(op, memref.DimOp) and isinstance(op.source, BlockArgument):
        axis = op.index.owner
        if isinstance(axis, arith.ConstantOp) and isinstance(axis.value, IntegerAttr):
            return op.source.index, axis.value.value.data
    if isinstance(value, BlockArgument) and value.owner is function.body.block:
        return value.index
    return None


def _describe(argument: BlockArgument, typed: bool, place: Any) -> Argument:
    name = argument.name_hint or f"argument{argument.index}"
    kind = argument.type
    if not isinstance(kind, MemRefType):
        return Argument(name, False)
    shape = tuple(None if n < 0 else n for n in kind.get_shape())
    element = language_type(kind.get_element_type(), place) if typed else None
    return Argument(name, True, element, shape)
