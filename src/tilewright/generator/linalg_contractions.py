"""Recognising a contraction in `linalg`: a product, what it is added to, element-wise consumers.

The product is a named one, or a `linalg.generic` with one reduction.

    %p = linalg.matmul ins(%A, %B : …) outs(%C : …) -> …           %C: filled with 0, or an argument
    %r = linalg.generic { … parallel … } ins(%p, %bias : …) outs(%o : …) { … } -> …

on tensors (the last value is returned) or on memrefs (written in place).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from tilewright.errors import CompilationError
from tilewright.generator.accumulator_types import (
    ADDITIONS,
    PRODUCTS,
    check_accumulator_type,
    check_conversions,
    language_type,
    plain,
    without_signs,
)
from tilewright.generator.description import (
    RESULT,
    Access,
    Argument,
    DescribedStep,
    Description,
    Loop,
    roles_of,
)
from tilewright.generator.elementwise import ElementwiseBody, check_body, simple_steps, zero_like
from tilewright.generator.linalg_named_ops import NamedMatmulOp
from tilewright.ir.location import location_of


def recognize(function: FuncOp) -> Description:
    """The contraction of a function. Raises CompilationError at what does not belong to one."""
    return _Reader(function).read()


def _wrong(op: Operation, text: str, help: str = "") -> CompilationError:
    return CompilationError(text, location=location_of(op), help=help)


class _Reader:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.zero: dict[SSAValue, Operation] = {}
        """Arrays known to hold zeros, and what filled them."""
        self.unsigned = False
        self.product: Any = None
        self.current: SSAValue | None = None
        """The value, or memref, that holds the result so far."""
        self.roles: tuple[str, ...] = ()
        self.steps: list[DescribedStep] = []
        self.addend: SSAValue | None = None
        self.returned: SSAValue | None = None

    def read(self) -> Description:
        for op in self.function.body.block.ops:
            if isinstance(op, NamedMatmulOp):
                self._product(op)
            elif isinstance(op, FillOp):
                self._fill(op)
            elif isinstance(op, GenericOp):
                reduces = any(kind.data == "reduction" for kind in op.iterator_types)
                (self._generic_product if reduces and self.product is None else self._generic)(op)
            elif isinstance(op, ReturnOp):
                self._return(op)
            elif op.name not in ("arith.constant", "tensor.empty"):
                raise _wrong(op, f"{op.name} is not part of a matmul with an element-wise epilogue")
        if self.product is None or self.current is None:
            raise _wrong(
                self.function,
                f"function {self.function.sym_name.data} holds no product",
                "write linalg.matmul, linalg.batch_matmul, or three affine.for loops",
            )
        return self._description(self.product, self.current)

    # ---- operations ------------------------------------------------------------------------------

    def _fill(self, op: FillOp) -> None:
        if not zero_like(op.inputs[0]):
            raise _wrong(op, "the result is filled with something else than 0")
        if op.outputs[0] is self.current:
            raise _wrong(op, "the result is overwritten")
        self.zero |= dict.fromkeys((op.outputs[0], *op.results), op)

    def _product(self, op: NamedMatmulOp) -> None:
        if op.indexing_maps is not None:
            raise _wrong(op, "indexing_maps of a named product", "use linalg.matmul_transpose_b …")
        if len(op.inputs) != 2 or len(op.outputs) != 1:
            raise _wrong(op, f"{op.name} takes two operands and one result")
        for value, axes in zip((*op.inputs, *op.outputs), op.axes, strict=True):
            kind: Any = value.type
            rank = len(kind.get_shape())
            if rank != len(axes):
                raise _wrong(op, f"{op.name}: an array has {rank} axes, not {len(axes)}")
        a, b, c = op.axes
        self._contract(op, a, b, c, {letter: letter for letter in "bmnk"})

    def _generic_product(self, op: GenericOp) -> None:
        """A `linalg.generic` that sums products."""
        if len(op.inputs) != 2 or len(op.outputs) != 1:
            raise _wrong(op, "a product takes two operands and one result")
        a, b, c = (self._map(m.data, op) for m in op.indexing_maps)
        self.unsigned = _is_multiply_accumulate(op)
        names = {d: f"d{d}" for d in (*a, *b, *c)}
        for d, kind in enumerate(op.iterator_types):
            if (kind.data == "parallel") != (d in c):
                raise _wrong(op, f"iterator d{d} is {kind.data}")
        self._contract(op, a, b, c, names)

    def _contract(self, op: Any, a: Any, b: Any, c: Any, names: Mapping[Any, str]) -> None:
        if self.product is not None:
            raise _wrong(op, "a second product: one function is one product")
        roles = roles_of(a, b, c, names, location_of(op))
        self.product, self.roles = op, tuple(roles[x] for x in c)
        self.operand_roles = [tuple(roles[x] for x in axes) for axes in (a, b)]
        self._check_extents(op)
        elements = [v.type.get_element_type() for v in (*op.inputs, *op.outputs)]
        check_accumulator_type(elements[:2], elements[2], op, location_of(op), _wrong)
        for value in op.inputs:
            if value in self.zero:
                raise _wrong(self.zero[value], "an operand of the product is filled")
        start = op.outputs[0]
        if start not in self.zero:
            if not isinstance(start, BlockArgument):
                raise _wrong(
                    op, "the accumulator starts from an uninitialized array", "linalg.fill it"
                )
            self.addend = start
        self.current = op.results[0] if op.results else start

    def _check_extents(self, op: Any) -> None:
        sizes: dict[str, int] = {}
        for value, roles in zip(
            (*op.inputs, *op.outputs), (*self.operand_roles, self.roles), strict=True
        ):
            for role, extent in zip(roles, value.type.get_shape(), strict=True):
                if extent >= 0 and sizes.setdefault(role, extent) != extent:
                    raise _wrong(
                        op, f"{op.name}: extents {sizes[role]} and {extent} of '{role}' differ"
                    )

    def _generic(self, op: GenericOp) -> None:
        if self.current is None or self.current not in (*op.inputs, *op.outputs):
            raise _wrong(op, "this operation does not use the product's result")
        if any(str(t.data) != "parallel" for t in op.iterator_types):
            raise _wrong(op, "an epilogue is element-wise: all iterators must be parallel")
        if len(op.outputs) != 1:
            raise _wrong(op, "an epilogue has one result")
        values = [*op.inputs, *op.outputs]
        maps = [self._map(m.data, op) for m in op.indexing_maps]
        position = values.index(self.current)
        if sorted(maps[position]) != list(range(len(self.roles))) or maps[-1] != maps[position]:
            raise _wrong(
                op, "result and operand of an epilogue must be indexed alike, axis by axis"
            )
        by_dimension = {d: self.roles[i] for i, d in enumerate(maps[position])}
        if not op.results and op.outputs[0] is not self.current:
            raise _wrong(
                op,
                "the product stays in one array, what follows it goes to another: one function has one result",
                "write what follows into the product's array",
            )
        self._steps(op, values, maps, position, by_dimension)
        self.current = op.results[0] if op.results else op.outputs[0]

    def _map(self, affine_map: Any, op: Operation) -> tuple[int, ...]:
        if not all(isinstance(e, AffineDimExpr) for e in affine_map.results):
            raise _wrong(op, "an indexing map of an epilogue may only name dimensions")
        return tuple(e.position for e in affine_map.results)

    def _steps(
        self,
        op: GenericOp,
        values: list[SSAValue],
        maps: list[tuple[int, ...]],
        position: int,
        by_dimension: dict[int, str],
    ) -> None:
        block = op.body.block
        check_body(block)
        used = [i for i, arg in enumerate(block.args) if i != position and list(arg.uses)]

        def access(i: int) -> Access:
            value = values[i]
            if value is self.current:
                raise _wrong(
                    op, "the matmul's result occurs twice among the operands", "use one of them"
                )
            if value in self.zero:
                raise _wrong(self.zero[value], "an operand of the epilogue is filled")
            if not isinstance(value, BlockArgument):
                raise _wrong(op, "an operand of an epilogue is not an argument of the function")
            return Access(value.index, tuple(by_dimension[d] for d in maps[i]))

        simple = simple_steps(block, position)
        if simple is not None:
            self.steps += [
                DescribedStep(s.kind, tuple(access(i) for i in s.operands)) for s in simple
            ]
            return
        body = ElementwiseBody(block, (position, *used), self.function.sym_name.data)
        step = DescribedStep("function", tuple(access(i) for i in used), function=body)
        self.steps.append(step)

    def _return(self, op: ReturnOp) -> None:
        if len(op.operands) > 1:
            raise _wrong(op, "one function gives one result")
        if op.operands:
            if op.operands[0] is not self.current:
                raise _wrong(op, "what is returned is not the product's result")
            self.returned = op.operands[0]

    # ---- the whole -------------------------------------------------------------------------------

    def _description(self, product: Any, current: SSAValue) -> Description:
        place = location_of(product) or location_of(self.function)
        if place is None:
            raise _wrong(product, "it has no place")
        arguments = [_argument(arg, place) for arg in self.function.body.block.args]
        a, b = (
            Access(self._index(value, product), roles)
            for value, roles in zip(product.inputs, self.operand_roles, strict=True)
        )
        if self.unsigned:
            without_signs(arguments, (a, b))
        for value, op in self.zero.items():
            argument = isinstance(value, BlockArgument) and not isinstance(value.type, TensorType)
            if argument and value not in (product.outputs[0], current):
                raise _wrong(op, "what is filled is not the product's result")
        result = None
        if self.returned is None:
            out = Access(self._index(current, product), self.roles)
        else:
            kind: Any = self.returned.type
            shape = tuple(None if n < 0 else n for n in kind.get_shape())
            result = Argument("result", True, language_type(kind.get_element_type(), place), shape)
            out = Access(RESULT, self.roles)
        addend = None
        if self.addend is not None:
            addend = Access(self._index(self.addend, product), self.roles)
        sizes = self._sizes(product)
        return Description(
            self.function.sym_name.data, place, tuple(arguments), a, b, out, addend, tuple(self.steps),
            sizes, result,
        )  # fmt: skip

    def _sizes(self, product: Any) -> dict[str, int | Loop]:
        found: dict[str, int | Loop] = {}
        values = (*product.inputs, *product.outputs)
        for value, roles in zip(values, (*self.operand_roles, self.roles), strict=True):
            shape = value.type.get_shape()
            found |= {r: n for r, n in zip(roles, shape, strict=True) if n >= 0}
        return found

    def _index(self, value: SSAValue, op: Operation) -> int:
        if not isinstance(value, BlockArgument):
            raise _wrong(op, "an array is not an argument of the function")
        return value.index


def _is_multiply_accumulate(op: GenericOp) -> bool:
    """Check that a body yields its third argument plus the product of the others; whether they are unsigned."""
    block: Any = op.body.block
    stored = block.last_op.operands[0]
    a, b, out = block.args
    total = plain(stored).owner
    if isinstance(total, ADDITIONS):
        for side, old in (total.operands, total.operands[::-1]):
            product = plain(side).owner
            factors = product.operands if isinstance(product, PRODUCTS) else ()
            if plain(old) is out and {plain(v) for v in factors} == {a, b}:
                return check_conversions(stored, total, out, product, _wrong)
    raise _wrong(op, "the body of a reduction must yield out + a * b, up to conversions")


def _argument(argument: BlockArgument, place: Any) -> Argument:
    name = argument.name_hint or f"argument{argument.index}"
    kind: Any = argument.type
    if not hasattr(kind, "get_shape"):
        return Argument(name, False)
    layout = getattr(kind, "layout", None)
    if layout is not None and not isinstance(layout, NoneAttr):
        raise CompilationError(
            f"argument {name} has layout {layout}; arrays must be packed", location=place
        )
    shape = tuple(None if n < 0 else n for n in kind.get_shape())
    return Argument(name, True, language_type(kind.get_element_type(), place), shape)
