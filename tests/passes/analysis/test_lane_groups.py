"""What `LaneGroups` says of random index arithmetic holds of the values that it computes."""

import random

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr

from tilewright.dialects import tile
from tilewright.ir.text import parse_ir
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.lane_groups import Kind, LaneGroups

N = 64
T, M = f"tensor<{N}xi32>", f"tensor<{N}xi1>"
ARGUMENTS = {
    "a": "{tile.divisibility = 16 : i32, tile.nonnegative}",
    "b": "{tile.nonnegative}",
    "c": "",
}
_BINARY = [
    "addi",
    "addi",
    "addi",
    "subi",
    "muli",
    "divsi",
    "remsi",
    "divui",
    "remui",
    "andi",
    "ori",
    "xori",
    "shrsi",
    "shrui",
    "shli",
    "minsi",
    "maxsi",
]


def program(seed):
    """The text of a function of scalars a, b and c: an arange, splats, constants, and arithmetic on them."""
    draw = random.Random(seed)
    lines = [f"%v0 = tile.arange 0 : i32, {N} : i32 : {T}"]
    values = ["%v0"]
    for name in ARGUMENTS:
        lines.append(f"%s{name} = tile.splat %{name} : i32 to {T}")
        values.append(f"%s{name}")
    for number in (1, 3, 4, 16, 48, 15, 2):
        lines.append(f"%k{number} = arith.constant dense<{number}> : {T}")
        values.append(f"%k{number}")
    masks = []
    for i in range(1, 25):
        kind, (x, y) = draw.random(), (draw.choice([*values, *values[-4:]]) for _ in "xy")
        if kind < 0.12:
            predicate = draw.choice(
                ["slt", "sge", "ult", "uge", "sgt", "sle", "ugt", "ule", "eq", "ne"]
            )
            lines.append(f'%m{i} = tile.cmpi "{predicate}", {x}, {y} : {T}, {T} to {M}')
            masks.append(f"%m{i}")
        elif kind < 0.2 and masks:
            lines.append(
                f"%v{i} = tile.select {draw.choice(masks)}, {x}, {y} : {M}, {T}, {T} to {T}"
            )
            values.append(f"%v{i}")
        else:
            lines.append(f"%v{i} = arith.{draw.choice(_BINARY)} {x}, {y} : {T}")
            values.append(f"%v{i}")
    arguments = ", ".join(f"%{name}: i32 {known}" for name, known in ARGUMENTS.items())
    return f"func.func @k({arguments}) {{\n" + "\n".join(lines) + "\nfunc.return\n}"


def _signed(x):
    return x.astype(np.uint64).astype(np.uint32).astype(np.int32).astype(np.int64)


def _unsigned(x):
    return x.astype(np.int64) & 0xFFFFFFFF


def _truncated(x, y):
    quotient = abs(x) // np.maximum(abs(y), 1)
    return np.where((x < 0) == (y < 0), quotient, -quotient)


def _binary(name, x, y):
    """The value of an operation, and where it is specified."""
    u, v = _unsigned(x), _unsigned(y)
    nonzero = (y != 0) & ~((x == -(2**31)) & (y == -1))
    amount = np.minimum(v, 31)
    table = {
        "addi": (x + y, True), "subi": (x - y, True), "muli": (x * y, True),
        "divsi": (_truncated(x, y), nonzero), "remsi": (x - _truncated(x, y) * y, nonzero),
        "divui": (u // np.maximum(v, 1), v != 0), "remui": (u % np.maximum(v, 1), v != 0),
        "andi": (x & y, True), "ori": (x | y, True), "xori": (x ^ y, True),
        "shrsi": (x >> amount, v < 32), "shrui": (u >> amount, v < 32), "shli": (x << amount, v < 32),
        "minsi": (np.minimum(x, y), True), "maxsi": (np.maximum(x, y), True),
    }  # fmt: skip
    value, specified = table[name]
    return _signed(value), np.broadcast_to(specified, x.shape)


def _compared(predicate, x, y):
    if predicate[0] == "u":
        x, y = _unsigned(x), _unsigned(y)
    compare = {"lt": np.less, "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal}
    return {"eq": np.equal, "ne": np.not_equal}.get(predicate, compare.get(predicate[1:]))(x, y)


def evaluate(block, arguments):
    """Value -> (numbers, where they are specified), for all tiles of a block."""
    found = {
        v: (np.full(N, n), np.full(N, True)) for v, n in zip(block.args, arguments, strict=True)
    }
    for op in block.ops:
        operands = [found[v] for v in op.operands]
        sure = np.logical_and.reduce([s for _, s in operands]) if operands else np.full(N, True)
        if isinstance(op, tile.ArangeOp):
            value = np.arange(N)
        elif isinstance(op, tile.SplatOp):
            value = operands[0][0]
        elif isinstance(op, arith.ConstantOp):
            held = op.value
            number = (
                held.get_values()[0]
                if isinstance(held, DenseIntOrFPElementsAttr)
                else held.value.data
            )
            assert isinstance(held, DenseIntOrFPElementsAttr | IntegerAttr)
            value = np.full(N, number)
        elif isinstance(op, tile.CmpIOp):
            value = _compared(op.predicate.data, operands[0][0], operands[1][0])
        elif isinstance(op, tile.SelectOp):
            value = np.where(operands[0][0], operands[1][0], operands[2][0])
        elif op.name == "func.return":
            continue
        else:
            value, specified = _binary(op.name.removeprefix("arith."), *(v for v, _ in operands))
            sure = sure & specified
        found[op.results[0]] = value, sure
    return found


def holds(group, values, sure, size):
    """Whether a relation holds of the groups all of whose elements are specified."""
    values, sure = values.reshape(-1, size), sure.reshape(-1, size).all(1)
    first = values[sure][:, :1]
    steps = np.arange(size) if group.kind is Kind.COUNTING else 0
    return (values[sure] == first + steps).all() and (
        first % (1 << min(group.zeros, 31)) == 0
    ).all()


def check(seed):
    """Evaluate a program for several arguments; return the number of relations that say more than a splat's."""
    function = parse_ir(program(seed)).body.block.first_op
    groups, draw, news = LaneGroups(Facts()), random.Random(seed), 0
    for _ in range(4):
        a = 16 * draw.choice([0, 1, 2, 3, 5, 1000, 2**26])
        b = draw.choice([0, 1, 2, 4, 7, 16, 24, 2**31 - 1])
        c = draw.choice([-1, -16, -5, 0, 3, 16, 2**31 - 1, -(2**31)])
        for value, (numbers, sure) in evaluate(function.body.block, (a, b, c)).items():
            for size in (2, 4, 8, 16, 32) if tile.is_tile(value) else ():
                group = groups.of(value, 0, size)
                if group is not None:
                    assert holds(group, numbers.astype(np.int64), sure, size), (
                        seed,
                        value,
                        size,
                        group,
                    )
                    news += not isinstance(value.owner, tile.SplatOp | arith.ConstantOp)
    return news


@pytest.mark.parametrize("part", range(4))
def test_random_arithmetic(part):
    assert sum(check(seed) for seed in range(part * 60, part * 60 + 60)) > 2000


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_more_random_arithmetic(part):
    """In parts, each of which ends long before its time is over, on a busy machine too."""
    for seed in range(1000 + part * 500, 1500 + part * 500):
        check(seed)
