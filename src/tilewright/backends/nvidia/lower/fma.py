"""Lower fp32 MMAs without tensor cores (SIMT): a register tile per thread, operands in shared memory.

For every four elements along k, a thread loads its rows of A and columns of B with 16-byte accesses and computes
their outer product; eight elements are unrolled inside a loop over k. With swizzled rows, the swizzled address
bits are the XOR of a per-thread and a per-register term, so that few addresses serve all loads and the rest are
constant offsets.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from tilewright.backends.llvm.blocks import counted_loop
from tilewright.backends.llvm.types import F32, I8, I32, Value, load_elements
from tilewright.backends.nvidia.lower import KernelCodegen
from tilewright.backends.nvidia.lower.asynchronous import stage_address
from tilewright.dialects import gpu
from tilewright.layouts import Layout
from tilewright.layouts.shared import SWIZZLE_ATOM_BYTES, SharedLayout
from tilewright.passes.gpu.select_mma import SHARED_FMA

_WIDE = 4
"""Elements of one read."""
_STEP = 8
"""Elements along k after which the swizzle pattern repeats; twice as many are unrolled if that is at most
`_MAX_FMAS_PER_STEP` multiply-adds."""
_MAX_FMAS_PER_STEP = 1024


def is_shared_fma(value: SSAValue) -> bool:
    """Whether a layout is the accumulator of an MMA without tensor cores."""
    op = value.owner
    return isinstance(op, gpu.WgmmaOp) and op.instruction.data == SHARED_FMA


def lower_shared_fma(gen: KernelCodegen, op: gpu.WgmmaOp) -> None:
    """All multiply-adds of the tile: a loop over k, some at a time."""
    layout, b = gen.layout(op.result), gen.builder
    left = _Operand(gen, op.lhs, op.lhs_stage, layout, 0)
    right = _Operand(gen, op.rhs, op.rhs_stage, layout, 1)
    accumulators, extent = list(gen.parts(op.acc)), left.shared.columns
    step = (
        2 * _STEP
        if 2 * _STEP * len(accumulators) <= _MAX_FMAS_PER_STEP and extent % (2 * _STEP) == 0
        else _STEP
    )

    def multiply(k: Value, values: list[Value]) -> list[Value]:
        left.go_to(k)
        right.go_to(k)
        return _steps(gen, layout, left, right, min(step, extent), values)

    made = counted_loop(b, extent, step, multiply, accumulators, I32)
    gen.bind(op.result, made)


def _steps(
    gen: KernelCodegen,
    layout: Layout,
    left: _Operand,
    right: _Operand,
    count: int,
    accumulators: list[Value],
) -> list[Value]:
    """The multiply-adds of `count` elements of k from where both operands are."""
    places = layout.register_offsets
    for start in range(0, count, _WIDE):
        steps = range(start, min(start + _WIDE, count))
        a, b = left.read(steps), right.read(steps)
        for k in steps:
            for r, (m, n) in enumerate(places):
                accumulators[r] = gen.math.intrinsic(
                    gen.builder, "fma", a[m, k], b[n, k], accumulators[r]
                )
    return accumulators


class _Operand:
    """A thread's part of one operand: the rows of A or columns of B of its accumulator."""

    def __init__(
        self, gen: KernelCodegen, buffer: SSAValue, slot: SSAValue, accumulators: Layout, dim: int
    ) -> None:
        self.gen, self.dim = gen, dim
        self.shared: SharedLayout = gpu.shared_layout_of(buffer)
        self.by_k = self.shared.major_dim == 1 - dim
        self.lines = sorted({offset[dim] for offset in accumulators.register_offsets})
        self.thread = gen.threads.coordinate(accumulators, dim)
        self.width = max(SWIZZLE_ATOM_BYTES, self.shared.swizzle_bytes)
        self.first = gen.builder.add(stage_address(gen, buffer, slot), self._thread_bytes())
        self.key = self._thread_key()
        self._bases: dict[int, Value] = {}

    def go_to(self, k: Value) -> None:
        """Read from `k` on, a multiple of `_STEP`."""
        b, shared = self.gen.builder, self.shared
        self._bases = {}
        self._start, self._chunk = self.first, self.key
        if not self.by_k:
            self._start = b.add(self.first, b.mul(k, self.width))
            return
        panel = b.udiv(k, shared.width)
        inside = b.urem(k, shared.width)
        self._start = b.add(self.first, b.mul(panel, shared.panel_bytes))
        self._chunk = b.xor(self.key, b.udiv(inside, SWIZZLE_ATOM_BYTES // 4))

    def read(self, steps: range) -> dict[tuple[int, int], Value]:
        """Elements by (line, k), k from where the operand is."""
        found: dict[tuple[int, int], Value] = {}
        for group in self._groups(steps):
            line, k = group[0]
            pointer, count = self._pointer(line, k), len(group)
            loaded = load_elements(self.gen.builder, pointer, F32, count, 4 * count)
            found |= zip(group, loaded, strict=True)
        return found

    def _groups(self, steps: range) -> list[list[tuple[int, int]]]:
        """Elements that lie side by side in a chunk, up to `_WIDE` of them."""
        if self.by_k:
            return [[(line, k) for k in steps] for line in self.lines]
        runs: list[list[int]] = []
        for line in self.lines:
            last = runs[-1] if runs else []
            if last and line == last[-1] + 1 and last[0] % _WIDE == 0 and len(last) < _WIDE:
                last.append(line)
            else:
                runs.append([line])
        runs = [
            part
            for run in runs
            for part in ([run] if len(run) in (2, _WIDE) else [[x] for x in run])
        ]
        return [[(line, k) for line in run] for k in steps for run in runs]

    # ---- addresses: shared + thread + ((key ^ thread's bits) << 4) + constant ----

    def _bits(self, line: int) -> int:
        """Bits of a line that its chunks are exchanged by."""
        if not self.shared.swizzle_bytes:
            return 0
        return line * self.width >> 7 & self.shared.swizzle_bytes // SWIZZLE_ATOM_BYTES - 1

    def _field(self, shift: int, count: int) -> Value:
        """`count` bits of the thread's coordinate from bit `shift` on."""
        b = self.gen.builder
        moved = b.lshr(self.thread, shift) if shift else self.thread
        return b.and_(moved, count - 1)

    def _thread_bytes(self) -> Value:
        """Address term of the thread's coordinate besides chunk position and byte in the chunk."""
        b = self.gen.builder
        if self.by_k:
            return b.mul(self.thread, self.width)
        panel = b.udiv(self.thread, self.shared.width)
        inside = b.mul(self._field(0, SWIZZLE_ATOM_BYTES // 4), 4)
        return b.add(b.mul(panel, self.shared.panel_bytes), inside)

    def _thread_key(self) -> Value:
        """The thread's term of a chunk's position in its row."""
        if self.by_k:
            lines = 128 // self.width  # that share the same bits
            chunks = max(1, self.shared.swizzle_bytes // SWIZZLE_ATOM_BYTES)
            return self._field(lines.bit_length() - 1, chunks)
        return self._field(2, self.width // SWIZZLE_ATOM_BYTES)

    def _pointer(self, line: int, k: int) -> Value:
        b, shared = self.gen.builder, self.shared
        along, row = (k, line) if self.by_k else (line, k)
        panel, inside = divmod(along, shared.width)
        chunk, rest = divmod(inside * 4, SWIZZLE_ATOM_BYTES)
        key = chunk ^ self._bits(row)
        if key not in self._bases:
            place = b.xor(self._chunk, key)
            address = b.add(self._start, b.shl(place, 4))
            self._bases[key] = b.inttoptr(address, self.gen.shared_pointer)
        constant = panel * shared.panel_bytes + row * self.width + rest
        return b.gep(self._bases[key], [constant], source_etype=I8)
