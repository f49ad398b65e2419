"""A nest of `affine.for` (the start of arXiv 2108.13191, section 3.1) as a `linalg.generic`.

    affine.for %i = 0 to %M {                         linalg.fill ins(%zero) outs(%C)
      affine.for %j = 0 to %N {                       linalg.generic {indexing_maps = [(i, j, k) -> (i, k), …],
        affine.store %zero, %C[%i, %j]        →           iterator_types = ["parallel", "parallel", "reduction"]}
        affine.for %k = 0 to %K {                         ins(%A, %B) outs(%C) { … yield what is stored }
          affine.store …, %C[%i, %j]

Loops stand in any order, since sums have none; one more for each batch axis. The ranges of the loops are next to the
operation: they may depend on arguments, and reach parts of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from xdsl.dialects import affine, arith, memref
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, MemRefType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from tilewright.errors import CompilationError
from tilewright.generator.accumulator_types import ADDITIONS, CONVERSIONS, PRODUCTS
from tilewright.generator.description import Bound, Loop, LoopNest
from tilewright.generator.elementwise import zero_like
from tilewright.ir.location import location_of
from tilewright.ir.types import defining_op
from tilewright.ir.walk import closure, sources


def raise_loops(function: FuncOp, typed: bool = True) -> LoopNest:
    """Replace the loops of a function by a `linalg.generic`, whose dimensions are the loops from the outside in.

    Without `typed` element types are not the loops' to say. Raises CompilationError at what has no form in `linalg`.
    """
    loops, body, zeros = _nest(function)
    store = _only_store(body, function)
    subscript = _subscript(store, loops)
    elements = _elements(store.value)
    for op in elements:
        if op.memref is store.memref and _subscript(op, loops) != subscript:
            raise wrong_loops(op, "the sum does not start from the element that is stored")
    _check_zeros(zeros, store, loops)
    accesses = [*(op for op in elements if op.memref is not store.memref), store]
    ranges = [_values(loop, function) for loop in loops]
    for op in accesses:
        _check_extents(op, _subscript(op, loops), ranges, function)
    count = len(loops)
    maps = [
        AffineMapAttr(AffineMap(count, 0, tuple(map(AffineExpr.dimension, _subscript(op, loops)))))
        for op in accesses
    ]
    kinds = [
        IteratorTypeAttr.parallel() if d in subscript else IteratorTypeAttr.reduction()
        for d in range(count)
    ]
    names = tuple(loop.body.block.args[0].name_hint or "?" for loop in loops)
    nest = LoopNest(tuple(ranges), names, location_of(loops[0]), typed)
    *inputs, out = [op.memref for op in accesses]
    generic = _at(store, GenericOp(inputs, [out], _body(body, accesses), maps, kinds))
    added = [generic]
    for op, _ in zeros[:1]:
        zero = defining_op(op.value).clone()
        added = [zero, _at(op, FillOp(zero.results, [out], [])), generic]
    function.body.block.insert_ops_before(added, loops[0])
    loops[0].detach()
    loops[0].erase(safe_erase=False)
    return nest


def _body(body: list[Operation], accesses: list[Any]) -> Region:
    """The element-wise computation of the innermost loop, as the body of a `linalg.generic`."""
    block = Block(arg_types=[op.memref.type.element_type for op in accesses])
    for op in body:
        op.detach()
        if isinstance(op, affine.LoadOp):
            argument = block.args[accesses.index(op) if op in accesses else -1]
            op.result.replace_all_uses_with(argument)
        elif isinstance(op, affine.StoreOp):
            block.add_op(_at(op, YieldOp(op.value)))
        else:
            block.add_op(op)
    return Region(block)


def _at(place: Operation, op: Operation) -> Operation:
    op.location = place.location
    return op


def _elements(value: SSAValue) -> list[affine.LoadOp]:
    """Elements of arrays that a value is computed from, in the order of operands."""

    def operands(value: SSAValue) -> Sequence[SSAValue]:
        return () if isinstance(value.owner, affine.LoadOp) else sources(value)[::-1]

    owners = (each.owner for each in closure([value], operands))
    return [op for op in owners if isinstance(op, affine.LoadOp)]


def _check_zeros(
    zeros: list[tuple[affine.StoreOp, int]], store: affine.StoreOp, loops: list[affine.ForOp]
) -> None:
    """Zeros are stored where the sum is, once for each element."""
    subscript = _subscript(store, loops)
    for op, depth in zeros:
        if op.memref is not store.memref or _subscript(op, loops) != subscript:
            raise wrong_loops(op, "another element than that of the sum is set to 0")
        if set(range(depth)) != set(subscript):
            raise wrong_loops(
                op, "the element is set to 0 again and again, outside the loops of its subscripts"
            )


def _check_extents(
    op: affine.LoadOp | affine.StoreOp,
    subscript: tuple[int, ...],
    ranges: list[int | Loop],
    function: FuncOp,
) -> None:
    """Loops with constant bounds stay inside an array whose extents are known."""
    array = _argument(op, function)
    shape = array.type.get_shape() if isinstance(array.type, MemRefType) else ()
    for d, extent in zip(subscript, shape, strict=True):
        size = ranges[d]
        if isinstance(size, Loop):
            if not size.constant:
                continue
            size = max((x + 1 for x in size.values(())), default=0)
        if 0 <= extent < size:
            name = array.name_hint or f"argument{array.index}"
            raise wrong_loops(op, f"a loop goes to {size}, '{name}' has extent {extent}")


def wrong_loops(op: Operation, text: str) -> CompilationError:
    """An error at an operation of loops that are no contraction."""
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
            raise wrong_loops(inner[1], "two loops at the same depth: the nest must be perfect")
        before = ops[: ops.index(inner[0])]
        zeros += [(op, len(loops)) for op in before if _stores_zero(op)]
        stored = {op for op, _ in zeros}
        others = [op for op in ops if op not in (inner[0], *stored) and not _harmless(op)]
        if others:
            raise wrong_loops(
                others[0], f"{others[0].name} between the loops: the nest must be perfect"
            )
        loop = inner[0]
        if loop.inits:
            raise wrong_loops(loop, "a loop carries values (iter_args)")
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
        raise wrong_loops(at, f"the innermost body stores {len(stores)} times")
    known = (affine.LoadOp, affine.StoreOp, *CONVERSIONS, *PRODUCTS, *ADDITIONS)
    for op in body:
        if not isinstance(op, known) and not _harmless(op):
            raise wrong_loops(op, f"{op.name} has no place in it")
    return stores[0]


def _subscript(op: Any, loops: list[affine.ForOp]) -> tuple[int, ...]:
    """The loops whose indices subscript an access, axis by axis, counted from the outside in."""
    found = []
    by_index = {loop.body.block.args[0]: depth for depth, loop in enumerate(loops)}
    for expression in op.map.data.results:
        place = _position(expression, op.map.data)
        index = op.indices[place] if place is not None else None
        if not isinstance(index, BlockArgument) or index not in by_index:
            raise wrong_loops(op, "a subscript is not the index of a loop by itself")
        found.append(by_index[index])
    return tuple(found)


def _position(expression: Any, whole: Any) -> int | None:
    """Which operand of a map an expression is, if it is one by itself."""
    if isinstance(expression, AffineDimExpr):
        return expression.position
    if isinstance(expression, AffineSymExpr):
        return whole.num_dims + expression.position
    return None


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
        raise wrong_loops(
            loop,
            f"the {what} of a loop is neither a constant nor an argument of the function, nor affine in these",
        )
    dims = [AffineExpr.dimension(i) for i in range(len(arguments))]
    count = bound.num_dims
    expression = bound.results[0].replace_dims_and_symbols(dims[:count], dims[count:])
    return Bound(expression, tuple(x for x in arguments if x is not None))


def _argument(op: affine.LoadOp | affine.StoreOp, function: FuncOp) -> BlockArgument:
    """The array that is accessed."""
    array = op.memref
    if not isinstance(array, BlockArgument) or array.owner is not function.body.block:
        raise wrong_loops(op, "an array is not an argument of the function")
    return array


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
