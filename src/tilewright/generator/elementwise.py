"""Bodies of element-wise `linalg.generic` operations: as epilogue steps, or element-wise on tiles."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS, CMPI_COMPARISON_OPERATIONS
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, TensorType, f32, f64
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from tilewright.errors import CompilationError
from tilewright.generator.accumulator_types import language_type
from tilewright.interpreter.registry import names
from tilewright.ir.context import op_class
from tilewright.ir.location import location_of
from tilewright.ir.types import defining_op
from tilewright.language.builtin import active_semantics


@dataclass(frozen=True)
class Simple:
    """A step that has a name: `operands` are indices of the body's arguments."""

    kind: str
    operands: tuple[int, ...] = ()


class ElementwiseBody:
    """A body that has no name, as a function of tiles: `arguments[0]` is the result so far.

    Equal texts are equal functions. Kernels call it as a function that runs at compile time (`tl.core.extern`).
    """

    __tl_extern__ = True

    def __init__(self, block: Block, arguments: tuple[int, ...], name: str) -> None:
        self.block, self.arguments = block, arguments
        self.name = self.__name__ = name
        self.text = str(block.parent_op())
        self.location = location_of(block.first_op) if block.first_op is not None else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ElementwiseBody):
            return False
        return self.text == other.text and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash((self.text, self.arguments))

    @property
    def digest(self) -> str:
        """A hash of everything that decides what it computes."""
        captured = [str(op) for op in _captured(self.block)]
        return hashlib.sha256("\n".join([self.text, *captured]).encode()).hexdigest()

    def __call__(self, *values: Any) -> Any:
        """The body on tiles: `values` for `arguments`, all of the shape of the first."""
        semantics = active_semantics.get()
        shape = values[0].shape
        known: dict[SSAValue, SSAValue] = {}
        for position, value in zip(self.arguments, values, strict=True):
            argument = self.block.args[position]
            kind = language_type(argument.type)
            tile = semantics.broadcast_shape(value, shape)
            known[argument] = semantics.convert(tile, kind).handle
        for op in self.block.ops:
            if op.name == "linalg.yield":
                kind = language_type(op.operands[0].type)
                handle = _lookup(op.operands[0], known, semantics.builder, shape)
                return semantics.tensor(handle, kind.with_shape(shape))
            operands = [_lookup(v, known, semantics.builder, shape) for v in op.operands]
            known[op.results[0]] = _lane_wise(op, operands, semantics.builder, shape)
        raise CompilationError("a body yields nothing", location=self.location)


def _lookup(value: SSAValue, known: dict[SSAValue, SSAValue], builder: Any, shape: Any) -> SSAValue:
    """The tile for a value of the body; constants are made where they are first used."""
    if value not in known:
        constant = value.owner
        assert isinstance(constant, arith.ConstantOp)  # `check_body` has seen to it
        scalar = builder.insert(constant.clone()).results[0]
        kind = TensorType(value.type, list(shape))
        known[value] = _make(builder, "tile.splat", [scalar], kind, {})
    return known[value]


def _lane_wise(op: Operation, operands: list[SSAValue], builder: Any, shape: Any) -> SSAValue:
    kind = TensorType(op.results[0].type, list(shape))
    properties = dict(op.properties)
    name = op.name
    if name in ("arith.cmpf", "arith.cmpi"):
        floats = name == "arith.cmpf"
        names = CMPF_COMPARISON_OPERATIONS if floats else CMPI_COMPARISON_OPERATIONS
        index: Any = properties["predicate"]
        properties = {"predicate": StringAttr(names[index.value.data])}
        name = name.replace("arith", "tile")
    elif name == "arith.select":
        name = "tile.select"
    elif name == "arith.constant":
        scalar = builder.insert(op.clone()).results[0]
        return _make(builder, "tile.splat", [scalar], kind, {})
    return _make(builder, name, operands, kind, properties)


def _make(
    builder: Any, name: str, operands: list[SSAValue], kind: Any, properties: Any
) -> SSAValue:
    op = op_class(name).create(operands=operands, result_types=[kind], properties=properties)
    return builder.insert(op).results[0]


def _captured(block: Block) -> list[Operation]:
    """Constants that a body takes from outside."""
    inside = set(block.ops)
    found = dict.fromkeys(
        v.owner
        for op in block.ops
        for v in op.operands
        if isinstance(v.owner, Operation) and v.owner not in inside
    )
    return list(found)


def check_body(block: Block) -> None:
    """Raise CompilationError at the first operation that tiles do not have."""
    functions = names()

    for op in (*block.ops, *_captured(block)):
        captured = op.parent is not block
        scalar = len(op.results) == 1 and not op.regions
        lanes = {"arith.cmpf", "arith.cmpi", "arith.select", "arith.constant"}
        usable = op.name in lanes or (
            op.name.startswith(("arith.", "math.")) and op.name in functions
        )
        if op.name == "linalg.yield":
            continue
        if not scalar or not usable or (captured and op.name != "arith.constant"):
            raise CompilationError(
                f"{op.name} cannot be part of an epilogue",
                location=location_of(op),
                help="an epilogue consists of arith and math operations on its arguments",
            )


def simple_steps(block: Block, current: int) -> list[Simple] | None:
    """The body as steps that have names, if it is a chain of them; `current` is the accumulator's position."""
    steps: list[Simple] = []
    value: SSAValue = block.args[current]
    for op in block.ops:
        if op.name == "linalg.yield":
            return steps if _plain(op.operands[0]) is value else None
        if op.name in ("arith.constant", "arith.extf", "arith.truncf"):
            continue
        step = _named(op, value, block.args[current].type)
        if step is None:
            return None
        steps.append(step)
        value = op.results[0]
    return None


def _plain(value: SSAValue) -> SSAValue:
    """`value` before widening, and before the last rounding (epilogues compute in fp32)."""
    while isinstance(value.owner, arith.ExtFOp) or _last_rounding(value):
        value = defining_op(value).operands[0]
    return value


def _last_rounding(value: SSAValue) -> bool:
    op = value.owner
    users = [use.operation.name for use in value.uses]
    return isinstance(op, arith.TruncFOp) and users == ["linalg.yield"]


def _named(op: Operation, value: SSAValue, accumulator: Attribute) -> Simple | None:
    if op.name not in ("arith.addf", "arith.mulf", "arith.maximumf"):
        return None
    kind = op.results[0].type
    if kind != f32 and not (kind == f64 and accumulator == f64):
        return (
            None  # rounded at every step, or more exact than the accumulator: kept as it is written
        )
    sides = [_plain(v) for v in op.operands]
    if value not in sides or sides[0] is sides[1]:
        return None
    other = sides[1] if sides[0] is value else sides[0]
    if isinstance(other, BlockArgument) and other.owner is op.parent:
        kinds = {"arith.addf": "add", "arith.mulf": "multiply"}
        return Simple(kinds[op.name], (other.index,)) if op.name in kinds else None
    if op.name == "arith.maximumf" and _constant(other) == 0.0:
        return Simple("relu")
    return None


def _constant(value: SSAValue) -> float | None:
    op = value.owner
    if not isinstance(op, arith.ConstantOp):
        return None
    attribute = op.value
    if isinstance(attribute, FloatAttr | IntegerAttr):
        return float(attribute.value.data)
    return None


def zero_like(value: SSAValue) -> bool:
    """Whether a scalar is the constant 0."""
    return _constant(value) == 0.0
