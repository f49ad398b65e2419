"""Build tile IR from Python: language semantics on the IR builder, loops, calls of jit functions.

    trace = Tracer(place)
    x = trace.argument("x", pointer_type(float32))
    (total,) = trace.loop(0, n, [zeros], lambda i, total: [total + trace.semantics.load(...)])
    module = trace.module("name", divisibility)

Values are `TensorValue`s, whose Python operators are those of the kernel language.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from tilewright import dtypes
from tilewright.errors import SourceLocation, TilewrightError
from tilewright.frontend.calls import KernelBuilder
from tilewright.frontend.carried import hint_attributes
from tilewright.frontend.ir_builder import IRBuilder
from tilewright.frontend.values import constant
from tilewright.ir.location import location_attribute
from tilewright.ir.types import ir_type
from tilewright.semantics import Semantics
from tilewright.semantics.values import TensorValue


class _Place:
    """Location of operations outside the user's functions: that of the description."""

    fn = None
    arguments: dict[str, Any] = {}

    def __init__(self, place: SourceLocation) -> None:
        self.place = place
        self.node: Any = None
        self.attribute = location_attribute(place)

    def location(self, node: Any = None) -> SourceLocation:
        return self.place


class Tracer(KernelBuilder):
    """Builds one function of tile IR. `place`: location for the errors of its operations."""

    def __init__(self, place: SourceLocation) -> None:
        self.block = Block()
        self.builder = IRBuilder(self.block, self._location)
        self.semantics = Semantics(self.builder, call=self.call_back)
        self.debug = False
        self.frame: Any = _Place(place)
        self.frames = [self.frame]
        self.globals_read = {}
        self.callees = {}
        self.copied = 0
        self._arguments: list[tuple[str, Any]] = []

    def _location(self) -> Attribute:
        frame = self.frame
        if isinstance(frame, _Place):
            return frame.attribute
        node = frame.node if hasattr(frame.node, "lineno") else frame.tree
        key = (node.lineno, node.col_offset)
        found = frame.locations.get(key)
        if found is None:
            found = frame.locations[key] = location_attribute(frame.location(node))
        return found

    def argument(self, name: str, kind: Any) -> Any:
        """A parameter of type `kind`; a Python value for a `constexpr`."""
        if isinstance(kind, dtypes.constexpr):
            return kind.value
        handle = self.block.insert_arg(ir_type(kind), len(self.block.args))
        handle.name_hint = name
        self._arguments.append((name, kind))
        return self.tensor(handle, kind)

    def loop(
        self,
        start: Any,
        stop: Any,
        carried: Sequence[TensorValue],
        body: Callable[..., Sequence[TensorValue]],
        step: Any = 1,
        name: str = "k",
        parallel_iterations: bool = False,
    ) -> list[TensorValue]:
        """Emit `for name in tl.range(start, stop, step)`; return the final values of `body(index, *carried)`.

        Bounds are Python integers or i32 scalars; values keep their types.
        """
        bounds = [self._bound(value) for value in (start, stop, step)]
        block = Block(arg_types=[ir_type(dtypes.int32), *(v.handle.type for v in carried)])
        block.args[0].name_hint = name
        with self.builder.block(block):
            inside = [
                self.tensor(arg, value.type)
                for arg, value in zip(block.args[1:], carried, strict=True)
            ]
            ends = body(self.tensor(block.args[0], dtypes.int32), *inside)
            self.builder.op("scf.yield", [value.handle for value in ends])
        op = scf.ForOp.create(
            operands=[*bounds, *(value.handle for value in carried)],
            result_types=[value.handle.type for value in carried],
            regions=[Region(block)],
            attributes=hint_attributes({"parallel_iterations": parallel_iterations}),
        )
        self.builder.insert(op)
        return [
            self.tensor(result, value.type)
            for result, value in zip(op.results, carried, strict=True)
        ]

    def _bound(self, value: Any) -> SSAValue:
        if isinstance(value, TensorValue):
            return self.semantics.convert(value, dtypes.int32).handle
        return constant(self, value, dtypes.int32).handle

    def user_function(self, function: Any, args: Sequence[Any]) -> Any:
        """Inline a jit function of the user and return its value."""
        try:
            return self.call(function, list(args), {}, None)  # type: ignore[arg-type]
        except TilewrightError as error:
            if error.location is None:
                error.location = self.frame.location()
            raise

    def module(
        self,
        name: str,
        divisibility: Mapping[str, int],
        noalias: Collection[str] = (),
    ) -> ModuleOp:
        """Finish the function, whose pointer arguments `noalias` do not alias, and return its module."""
        self.builder.op("func.return", [])
        types = [ir_type(kind) for _, kind in self._arguments]
        attributes = [
            self._attributes(n, divisibility.get(n), n in noalias) for n, _ in self._arguments
        ]
        function = func.FuncOp.create(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(types, []),
                "arg_attrs": ArrayAttr(attributes),
            },
            regions=[Region(self.block)],
            location=cast(Any, self.frames[0]).attribute,
        )
        return ModuleOp([function])

    @staticmethod
    def _attributes(name: str, divisor: int | None, noalias: bool) -> DictionaryAttr:
        found: dict[str, Attribute] = {"tile.noalias": UnitAttr()} if noalias else {}
        if divisor is not None and divisor > 1:
            found["tile.divisibility"] = IntegerAttr(divisor, i32)
        found["tile.name"] = StringAttr(name)
        return DictionaryAttr(found)
