"""`gpu.local_transpose`, element-wise: its code is evaluated on numbers, with `ldmatrix`, `stmatrix` and byte permutations
as the PTX ISA has them. Every element arrives, and no access asks shared memory oftener than it must."""

import re
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from llvmlite import ir
from tests.layouts.bank_conflicts import min_wavefronts
from xdsl.dialects import test as made
from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, f8E4M3FN, f32, i32
from xdsl.utils.exceptions import VerifyException

from tilewright.backends.nvidia.lower.local_transpose import lower_turn
from tilewright.dialects import gpu
from tilewright.errors import PassError
from tilewright.layouts.shared import SharedLayout, is_transposable, wavefronts

pytestmark = pytest.mark.sampled(3)

LANES = 32


def number(value):
    if isinstance(value, ir.Constant):
        value = value.constant
    return np.broadcast_to(np.asarray(value, np.int64), (LANES,))


class Words(np.ndarray):
    """32-bit integers of the lanes."""

    type = ir.IntType(32)


class Lanes:
    """In the place of an IR builder: computes with the values of 32 lanes at once."""

    def __init__(self, memory):
        self.memory, self.active, self.extra = memory, True, 0
        self.module = SimpleNamespace(globals={"llvm.nvvm.prmt": "llvm.nvvm.prmt"})

    def icmp_unsigned(self, how, x, y):
        x, y = number(x), number(y)
        return {"<": x < y, "!=": x != y}[how].astype(np.int64)

    def select(self, condition, yes, no):
        return np.where(number(condition) != 0, number(yes), number(no))

    @contextmanager
    def if_then(self, condition):
        (self.active,) = {bool(c) for c in condition}  # the same in a warp
        yield
        self.active = True

    def inttoptr(self, value, kind):
        return value

    def load(self, pointer, typ, align):
        pointer = number(pointer)
        assert not (pointer % align).any() and typ.width == 32
        if not self.active:
            return (pointer * 0).view(Words)
        self._count(pointer, 4)
        return self.memory.view(np.uint32)[pointer // 4].astype(np.int64).view(Words)

    def insert_element(self, vector, value, at):
        parts = [] if isinstance(vector, ir.Constant) else vector
        return [*parts, value]

    def store(self, vector, pointer, align):
        pointer = number(pointer)
        assert not (pointer % align).any()
        if self.active:
            self._count(pointer, 4 * len(vector))
            for i, word in enumerate(vector):
                self.memory.view(np.uint32)[pointer // 4 + i] = number(word)

    def _count(self, addresses, size):
        self.extra += wavefronts(addresses.tolist(), size) - min_wavefronts(size)

    def asm(self, text, operands):
        """`ldmatrix.trans` and `stmatrix` of four matrices of 8 rows of 16 bytes."""
        rows = number(operands[0])
        assert not (rows % 16).any()
        if not self.active:
            return [rows * 0] * 4
        lane = np.arange(LANES)
        made = []
        halves = self.memory.view(np.uint16)
        for matrix in range(4):
            starts = rows[8 * matrix : 8 * matrix + 8]
            self.extra += wavefronts(starts.tolist(), 16) - 1
            if text.startswith("ldmatrix"):
                assert ".trans" in text  # row r of the turned matrix is column r
                low, high = (
                    halves[starts[2 * (lane % 4) + i] // 2 + lane // 4].astype(np.int64)
                    for i in (0, 1)
                )
                made.append(low | high << 16)
            else:
                assert ".trans" not in text
                places = starts[lane // 4] // 4 + lane % 4
                self.memory.view(np.uint32)[places] = number(operands[1 + matrix])
        return made

    def extract_value(self, made, i):
        return made[i]

    def call(self, function, operands):
        """`prmt`: byte i of the result is the one of eight that nibble i names."""
        assert function == "llvm.nvvm.prmt"
        low, high, order = map(number, operands)
        eight = low | high << 32
        result = np.zeros(LANES, np.int64)
        for i in range(4):
            which = order >> 4 * i & 15
            assert (which < 8).all()
            result |= (eight >> 8 * which & 255) << 8 * i
        return result


def _computes(name, function):
    setattr(Lanes, name, lambda self, x, y: function(number(x), number(y)))


for _name, _function in {
    "add": np.add, "mul": np.multiply, "udiv": np.floor_divide, "urem": np.remainder,
    "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": np.left_shift, "lshr": np.right_shift,
}.items():  # fmt: skip
    _computes(_name, _function)


class Generator:
    """What `lower_turn` needs of a code generator, for one warp."""

    reads_asynchronously, shared_pointer = False, None

    def __init__(self, memory, places, warp, warps):
        self.builder, self.places, self.warps = Lanes(memory), places, warps
        self.threads = self
        self.lane, self._warp = np.arange(LANES), warp

    def uniform_warp(self):
        return self._warp

    def scalar(self, value):
        return 0

    def buffer_address(self, buffer):
        return self.places[buffer]

    def emit_convergent_asm(self, text, operands, result=None):
        count = len(re.findall(r"\$\d", text))
        assert count == 5
        return self.builder.asm(text, operands)


def turned(lines, length, size, spans, warps):
    """Turn a tile of numbers; the tile read from the other buffer, and passes beyond the fewest."""
    kind = {1: f8E4M3FN, 4: f32}[size]
    layouts = (
        SharedLayout(lines, length, size, 1, spans[0]),
        SharedLayout(lines, length, size, 0, spans[1]),
    )
    held = TensorType(kind, [lines, length])
    kinds = [gpu.SharedType(held, StringAttr(str(x)), IntAttr(1)) for x in layouts]
    source, target, slot = made.TestOp(result_types=[*kinds, i32]).results
    op = gpu.LocalTransposeOp.create(operands=[source, slot, target, slot])
    places = {source: 0, target: layouts[0].bytes}
    memory = np.zeros(layouts[0].bytes + layouts[1].bytes, np.uint8)
    random = np.random.default_rng(lines)
    wanted = random.integers(0, 256, (lines, length, size), np.uint8)
    where = [
        np.array([[x.offset(i, j) for j in range(length)] for i in range(lines)])[..., None]
        + np.arange(size)
        for x in layouts
    ]
    memory[where[0]] = wanted
    extra = 0
    for warp in range(warps):
        gen = Generator(memory, places, warp, warps)
        lower_turn(gen, op)
        extra += gen.builder.extra
    np.testing.assert_array_equal(memory[where[0]], wanted)
    return memory[layouts[0].bytes + where[1]], wanted, extra


SHAPES = [
    (1, 64, 64, (64, 64)), (1, 128, 128, (128, 128)), (1, 128, 256, (128, 128)),
    (1, 32, 128, (128, 32)), (1, 64, 32, (32, 64)), (1, 96, 64, (64, 32)),
    (4, 32, 64, (128, 128)), (4, 32, 128, (128, 128)), (4, 64, 256, (128, 128)),
    (4, 16, 64, (128, 64)), (4, 8, 32, (128, 32)), (4, 24, 96, (128, 32)),
]  # fmt: skip


@pytest.mark.parametrize("warps", [4, 8, 12])
@pytest.mark.parametrize(("size", "lines", "length", "spans"), SHAPES)
def test_every_element_arrives_without_bank_conflicts(size, lines, length, spans, warps):
    assert is_transposable(lines, length, size)
    found, wanted, extra = turned(lines, length, size, spans, warps)
    np.testing.assert_array_equal(found, wanted)
    assert extra == 0


@pytest.mark.parametrize(("size", "lines", "length"), [(1, 64, 64), (4, 32, 64)])
def test_without_swizzles_every_element_arrives(size, lines, length):
    found, wanted, _ = turned(lines, length, size, (0, 0), 4)
    np.testing.assert_array_equal(found, wanted)


def test_what_cannot_be_turned_is_refused():
    # by the operation, or before it by the type of such a buffer
    with pytest.raises((PassError, VerifyException), match=r"gpu\.(local_transpose|shared)"):
        turned(30, 64, 4, (128, 0), 4)
