"""Recognizing a contraction in `linalg`: a product, what it is added to, element-wise consumers.

The product is a named one, or a `linalg.generic` with one reduction, which loops become, too (`affine_loops`).

    %p = linalg.matmul ins(%A, %B : …) outs(%C : …) -> …           %C: filled with 0, or an argument
    %r = linalg.generic { … parallel … } ins(%p, %bias : …) outs(%o : …) { … } -> …

on tensors (the last value is returned) or on memrefs (written in place).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.affine import ForOp
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
from tilewright.generator.affine_loops import raise_loops, wrong_loops
from tilewright.generator.contraction import Part
from tilewright.generator.description import (
    RESULT,
    Access,
    Argument,
    Description,
    Loop,
    LoopNest,
    roles_of,
)
from tilewright.generator.elementwise import ElementwiseBody, check_body, simple_steps, zero_like
from tilewright.generator.linalg_named_ops import NamedMatmulOp
from tilewright.ir.location import location_of


def recognize(function: FuncOp, typed: bool = True) -> Description:
    """The contraction of a function, whose loops are replaced. Raises CompilationError at what does not belong to one.

    Without `typed` the function is loops whose element types are not theirs to say: any will do.
    """
    loops = not typed or any(isinstance(op, ForOp) for op in function.body.block.ops)
    return _Reader(function, raise_loops(function, typed) if loops else None).read()


def _wrong(op: Operation, text: str, help: str = "") -> CompilationError:
    return CompilationError(text, location=location_of(op), help=help)


class _Reader:
    def __init__(self, function: FuncOp, nest: LoopNest | None = None) -> None:
        self.function, self.nest = function, nest
        self.wrong = _wrong if nest is None else wrong_loops
        self.typed = nest is None or nest.typed
        self.zero: dict[SSAValue, Operation] = {}
        """Arrays known to hold zeros, and what filled them."""
        self.unsigned = False
        self.product: Any = None
        self.operands: tuple[SSAValue, ...] = ()
        """Operands of the product: both factors and the addend."""
        self.current: SSAValue | None = None
        """The value, or memref, that holds the result so far."""
        self.roles: tuple[str, ...] = ()
        self.operand_roles: tuple[tuple[str, ...], ...] = ()
        self.sizes: dict[str, int | Loop] = {}
        self.steps: list[Part] = []
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
            elif op.name not in ("arith.constant", "tensor.empty", "memref.dim"):
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
        names = {letter: letter for letter in "bmnk"}
        self._contract(op, op, (*op.inputs, *op.outputs), (a, b, c), names)

    def _generic_product(self, op: GenericOp) -> None:
        """A `linalg.generic` that sums products."""
        if len(op.outputs) != 1:
            raise self.wrong(op, "a product has one result")
        product = self._multiply_accumulate(op)
        factors = [i for i, x in enumerate(op.body.block.args) if x in map(plain, product.operands)]
        if factors != list(range(len(op.inputs))):
            raise self.wrong(op, "a product takes two operands and one result")
        maps = [self._map(m.data, op) for m in op.indexing_maps]
        axes = maps[0], maps[len(factors) - 1], maps[-1]
        count = len(op.iterator_types)
        names = self.nest.names if self.nest else tuple(f"d{d}" for d in range(count))
        for d, kind in enumerate(op.iterator_types):
            if (kind.data == "parallel") != (d in axes[2]):
                raise self.wrong(op, f"iterator {names[d]} is {kind.data}")
        operands = (op.inputs[0], op.inputs[-1], op.outputs[0])
        self._contract(op, product, operands, axes, dict(enumerate(names)))

    def _multiply_accumulate(self, op: GenericOp) -> Any:
        """The product of inputs that a body adds to its output's element."""
        stored = op.body.block.last_op.operands[0]  # type: ignore[union-attr]
        out = op.body.block.args[-1]
        total: Any = plain(stored).owner
        sides = total.operands if isinstance(total, ADDITIONS) else ()
        for side, old in (sides, sides[::-1]) if sides else ():
            product: Any = plain(side).owner
            if plain(old) is not out or not isinstance(product, PRODUCTS):
                continue
            for factor in map(plain, product.operands):
                if factor is out:
                    raise self.wrong(product, "the result is an operand of its own product")
                if factor not in op.body.block.args:
                    raise self.wrong(product, "a factor is not an element of an array")
            self.unsigned = check_conversions(stored, total, out, product, self.wrong)
            return product
        raise self.wrong(
            op, "what is stored is not the old element plus a product, up to conversions"
        )

    def _contract(
        self, op: Any, product: Operation, operands: tuple[SSAValue, ...], axes: Any, names: Mapping[Any, str]
    ) -> None:  # fmt: skip
        """`op` adds to its output the product `product` of two operands."""
        if self.product is not None:
            raise _wrong(op, "a second product: one function is one product")
        roles = roles_of(axes[0], axes[1], axes[2], names, location_of(op))
        for loop, name in names.items() if op is not product else ():
            if loop not in roles:
                raise self.wrong(op, f"nothing depends on loop '{name}'")
        self.product, self.operands = op, operands
        a, b, self.roles = (tuple(roles[x] for x in each) for each in axes)
        self.operand_roles = a, b, self.roles
        if self.nest is None:
            self.sizes = self._extents(op)
        else:
            self.sizes = {roles[d]: size for d, size in enumerate(self.nest.ranges)}
        if self.typed:
            kinds: list[Any] = [v.type for v in operands]
            elements = [kind.get_element_type() for kind in kinds]
            check_accumulator_type(elements[:2], elements[2], product, location_of(op), self.wrong)
        *factors, start = operands
        for value in factors:
            if value in self.zero:
                raise _wrong(self.zero[value], "an operand of the product is filled")
        if start not in self.zero:
            if not isinstance(start, BlockArgument):
                raise _wrong(
                    op, "the accumulator starts from an uninitialized array", "linalg.fill it"
                )
            self.addend = start
        self.current = op.results[0] if op.results else start

    def _extents(self, op: Any) -> dict[str, int | Loop]:
        """The known extents of axes, which operands agree on."""
        sizes: dict[str, int | Loop] = {}
        for value, roles in zip(self.operands, self.operand_roles, strict=True):
            kind: Any = value.type
            for role, extent in zip(roles, kind.get_shape(), strict=True):
                if extent >= 0 and sizes.setdefault(role, extent) != extent:
                    raise _wrong(
                        op, f"{op.name}: extents {sizes[role]} and {extent} of '{role}' differ"
                    )
        return sizes

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
            self.steps += [Part(s.kind, tuple(access(i) for i in s.operands)) for s in simple]
            return
        body = ElementwiseBody(block, (position, *used), self.function.sym_name.data)
        step = Part("function", tuple(access(i) for i in used), function=body)
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
        if self.nest is not None:
            place = self.nest.place
        if place is None:
            raise _wrong(product, "it has no place")
        arguments = [self._argument(arg, place) for arg in self.function.body.block.args]
        a, b = (
            Access(self._index(value, product), roles)
            for value, roles in zip(self.operands[:2], self.operand_roles, strict=False)
        )
        start = self.addend
        addend = None if start is None else Access(self._index(start, product), self.roles)
        if self.unsigned:
            without_signs(arguments, (a, b))
        for value, op in self.zero.items():
            argument = isinstance(value, BlockArgument) and not isinstance(value.type, TensorType)
            if argument and value not in (self.operands[2], current):
                raise _wrong(op, "what is filled is not the product's result")
        result = None
        if self.returned is None:
            out = Access(self._index(current, product), self.roles)
        else:
            kind: Any = self.returned.type
            shape = tuple(None if n < 0 else n for n in kind.get_shape())
            result = Argument("result", True, language_type(kind.get_element_type(), place), shape)
            out = Access(RESULT, self.roles)
        return Description(
            self.function.sym_name.data, place, tuple(arguments), a, b, out, addend, tuple(self.steps), self.sizes,
            result,
        )  # fmt: skip

    def _index(self, value: SSAValue, op: Operation) -> int:
        if not isinstance(value, BlockArgument):
            raise _wrong(op, "an array is not an argument of the function")
        return value.index

    def _argument(self, argument: BlockArgument, place: Any) -> Argument:
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
        element = language_type(kind.get_element_type(), place) if self.typed else None
        return Argument(name, True, element, shape)
