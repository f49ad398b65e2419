"""Select the CPU micro-kernel of a `dot`, its element types, buffer layouts and register tile.

Operands of a dot are in 64-byte-aligned per-thread scratch buffers. The left operand is row-major. The right
operand and the accumulator are *panels*: groups of `width` columns, each stored row by row, so that one row of a
register tile is a sequence of aligned vectors. Code that fills a buffer uses `BufferLayout.offset` only. Other
arrangements (interleaved pairs for integer and AMX kernels, the two halves of fp16 values) are packed inside the
dot function, in the `extra` elements after the matrix.

A plan is plain data and round-trips through text, so that it can be an IR attribute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tilewright.errors import PassError
from tilewright.targets import TargetInfo

#: bits per buffer element, by the IR name of the type
ELEMENT_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32,
                "f64": 64, "f8E4M3FN": 8, "f8E5M2": 8, "i1": 8}  # fmt: skip

#: rows of the right operand per step of the inner loop
GROUP = {"fma": 1, "int": 1, "int_pairs": 2, "int_quads": 4, "bf16_pairs": 2,
         "amx_bf16": 2, "amx_fp16": 2, "amx_int8": 4}  # fmt: skip


@dataclass(frozen=True)
class BufferLayout:
    """Map element (i, j) of a `rows` × `columns` matrix to its offset in a buffer, in elements.

    kind "row":   i·width + j, `width` being the leading dimension;
    kind "panel": (j // width)·rows·width + (i // group)·group·width + (j % width)·group + i % group.

    The last panel is padded to `width` columns; the padding may hold any value. The `extra` elements after the
    matrix are workspace of the dot function. `group` rows of a panel are interleaved (1, or the rows that one
    instruction of the kernel consumes). `in_place`: the matrix is not a scratch buffer but an operand in memory,
    read-only and aligned to its elements.
    """

    kind: str
    rows: int
    columns: int
    width: int
    extra: int = 0
    group: int = 1
    in_place: bool = False

    @staticmethod
    def row(rows: int, columns: int, width: int | None = None, extra: int = 0) -> BufferLayout:
        """Return a row-major layout with leading dimension `width` (default `columns`)."""
        return BufferLayout("row", rows, columns, columns if width is None else width, extra)

    @staticmethod
    def panel(rows: int, columns: int, width: int, extra: int = 0) -> BufferLayout:
        """Return a layout of panels of `width` columns."""
        return BufferLayout("panel", rows, columns, width, extra)

    def offset(self, i: int, j: int) -> int:
        """Elements from the start of the buffer to element (i, j)."""
        if self.kind == "row":
            return i * self.width + j
        line = j // self.width * self.rows + i // self.group * self.group
        return line * self.width + j % self.width * self.group + i % self.group

    @property
    def run(self) -> int:
        """Number of columns that are contiguous in memory, starting at multiples of it."""
        return min(self.width, self.columns)

    @property
    def matrix_size(self) -> int:
        """Elements of the matrix including padding, without `extra`."""
        if self.kind == "row":
            return self.rows * self.width
        return -(-self.columns // self.width) * self.width * self.rows

    @property
    def size(self) -> int:
        """Elements of the whole buffer."""
        return self.matrix_size + self.extra

    def __str__(self) -> str:
        group = f".{self.group}" if self.group > 1 else ""
        text = f"{self.kind}:{self.width}{group}[{self.rows}x{self.columns}]"
        text += f"+{self.extra}" if self.extra else ""
        return text + "@" if self.in_place else text

    @staticmethod
    def parse(text: str) -> BufferLayout:
        """The layout that `str` printed. Raises `PassError` for other text."""
        found = re.fullmatch(r"(row|panel):(\d+)(?:\.(\d+))?\[(\d+)x(\d+)\](?:\+(\d+))?(@?)", text)
        if found is None:
            raise PassError(f"not a buffer layout: {text!r}")
        width, group, rows, columns, extra = (int(g or 0) for g in found.groups()[1:6])
        return BufferLayout(found[1], rows, columns, width, extra, max(1, group), bool(found[7]))


@dataclass(frozen=True)
class DotPlan:
    """One `acc[m, n] += a[m, k] @ b[k, n]` on buffers.

    `a_type`, `b_type`, `acc_type` are the element types of the buffers (IR names); code that fills the buffers
    converts to them. `fetch_a`/`fetch_b` are (rows, bytes per row) of the global tiles of the *next* step. The
    kernel prefetches them if their addresses are passed; (0, 0) disables prefetching.
    """

    kind: str
    """"fma"; "int", "int_pairs", "int_quads", "bf16_pairs"; "amx_bf16", "amx_fp16" or "amx_int8"."""
    m: int
    n: int
    k: int
    a_type: str
    b_type: str
    acc_type: str
    micro: MicroTile
    a_layout: BufferLayout
    b_layout: BufferLayout
    acc_layout: BufferLayout
    fetch_a: tuple[int, int] = (0, 0)
    fetch_b: tuple[int, int] = (0, 0)

    @property
    def uses_amx(self) -> bool:
        return self.kind.startswith("amx")

    def __str__(self) -> str:
        t = self.micro
        fields = [
            self.kind, f"{self.m}x{self.n}x{self.k}", f"{self.a_type},{self.b_type},{self.acc_type}",
            f"{t.rows}x{t.vectors}x{t.lanes}u{t.unroll}", str(self.a_layout), str(self.b_layout),
            str(self.acc_layout), *(f"{r}x{b}" for r, b in (self.fetch_a, self.fetch_b)),
        ]  # fmt: skip
        return " ".join(fields)

    @staticmethod
    def parse(text: str) -> DotPlan:
        """The plan that `str` printed. Raises `PassError` for other text."""
        parts = text.split(" ")
        micro = re.fullmatch(r"(\d+)x(\d+)x(\d+)u(\d+)", parts[3]) if len(parts) == 9 else None
        if micro is None or parts[0] not in GROUP:
            raise PassError(f"not a dot plan: {text!r}")
        m, n, k = (int(v) for v in parts[1].split("x"))
        a_type, b_type, acc_type = parts[2].split(",")
        layouts = [BufferLayout.parse(p) for p in parts[4:7]]
        fetch = [(int(p.split("x")[0]), int(p.split("x")[1])) for p in parts[7:9]]
        tile = MicroTile(*(int(g) for g in micro.groups()))
        return DotPlan(
            parts[0],
            m,
            n,
            k,
            a_type,
            b_type,
            acc_type,
            tile,
            *layouts,
            fetch_a=fetch[0],
            fetch_b=fetch[1],
        )


def plan_dot(
    m: int, n: int, k: int, a_type: str, b_type: str, acc_type: str, target: TargetInfo,
    prefetch: bool = True,
) -> DotPlan:  # fmt: skip
    """Choose the micro-kernel, conversions, layouts and register tile for a dot of these extents (each ≥ 1).

    Types are IR names as in the tile IR; integers are signed. Floating-point products are exact in the type of
    the accumulation, or wider than `acc_type`; integer accumulation wraps. Raises `PassError` for extents below 1
    and for unsupported combinations of types.
    """
    if min(m, n, k) < 1:
        raise PassError(f"dot of extents {m}x{n}x{k}")
    kind, element, acc = _kernel(m, n, k, a_type, b_type, acc_type, target)
    if kind.startswith("amx"):
        plan = _amx_plan(kind, m, n, k, element, acc)
    else:
        plan = _vector_plan(kind, m, n, k, element, acc, target)
    if not prefetch:
        return plan
    a_bytes, b_bytes = (ELEMENT_BITS[t] // 8 for t in (a_type, b_type))
    return _replace(plan, fetch_a=(m, k * a_bytes), fetch_b=(k, n * b_bytes))


def simpler_plan(plan: DotPlan, register_tile: bool, unroll: bool, wide: bool) -> DotPlan:
    """Return a vector plan with register tiling, unrolling or vectors wider than 128 bits disabled (ablations)."""
    tile = plan.micro
    lanes = tile.lanes if wide else min(tile.lanes, 128 // ELEMENT_BITS[plan.acc_type])
    rows, vectors = (tile.rows, tile.vectors) if register_tile else (1, 1)
    micro = MicroTile(rows, vectors, lanes, tile.unroll if unroll else 1)
    return _on_panels(plan, micro)


def _on_panels(plan: DotPlan, tile: MicroTile) -> DotPlan:
    """Return `plan` with a register tile and the matching buffer layouts."""
    m, n, k, width, group = plan.m, plan.n, plan.k, tile.columns, GROUP[plan.kind]
    extra = 0
    if group > 1:
        # one panel with interleaved groups of rows; for bytes one i32 per column in addition
        copy = width * -(-k // group) * group
        copy += width * 4 if plan.kind == "int_quads" else 0
        extra = _extra(-(-n // width) * width * k, copy, plan.b_type)
    return _replace(
        plan,
        micro=tile,
        b_layout=BufferLayout.panel(k, n, width, extra),
        acc_layout=BufferLayout.panel(m, n, width),
    )


def _replace(plan: DotPlan, **changes: object) -> DotPlan:
    return replace(plan, **changes)


def _kernel(
    m: int, n: int, k: int, a: str, b: str, acc: str, target: TargetInfo
) -> tuple[str, str, str]:
    """(kind, element type of both operand buffers, element type of the accumulator)."""
    unknown = [t for t in (a, b, acc) if t not in ELEMENT_BITS]
    if unknown or (a[0] == "i") != (b[0] == "i"):
        raise PassError(f"no dot of {a} and {b} into {acc}")
    if a[0] == "i":
        return _integer_kernel(m, n, k, a, b, acc, target)
    if "f64" in (a, b, acc):
        return "fma", "f64", "f64"
    # bf16 represents both 8-bit formats exactly, and products of bf16 values are exact in f32
    narrow = {"bf16", "f8E4M3FN", "f8E5M2"}
    if {a, b} <= narrow and target.has("amx-tile", "amx-bf16") and amx_tile(m, n, k, 2):
        return "amx_bf16", "bf16", "f32"
    if {a, b} <= narrow and _pairs_pay(target):
        return "bf16_pairs", "bf16", "f32"
    halves = {"f16", "f8E4M3FN", "f8E5M2"}
    if {a, b} <= halves and target.has("amx-tile", "amx-bf16") and amx_tile(m, n, k, 2):
        return "amx_fp16", "f16", "f32"
    return "fma", "f32", "f32"


def _pairs_pay(target: TargetInfo) -> bool:
    """Return whether vdpbf16ps is profitable: twice the fp32 rate on AMD, half of it on Intel (measured).

    `clzero` identifies AMD cores; Intel's do not have it.
    """
    return target.vector_bits == 512 and target.has("avx512bf16", "avx512vl", "clzero")


def _integer_kernel(
    m: int, n: int, k: int, a: str, b: str, acc: str, target: TargetInfo
) -> tuple[str, str, str]:
    bits = max(ELEMENT_BITS[a], ELEMENT_BITS[b])
    if acc == "i64" or bits == 64:
        return "int", "i64", "i64"
    if bits == 8 and target.has("amx-tile", "amx-int8") and amx_tile(m, n, k, 4):
        return "amx_int8", "i8", "i32"
    if bits == 8 and target.vector_bits == 512 and target.has("avx512vnni", "avx512vl"):
        return "int_quads", "i8", "i32"
    if bits <= 16 and target.triple.startswith("x86_64"):
        return "int_pairs", "i16", "i32"
    return ("int", "i16", "i32") if bits <= 16 else ("int", "i32", "i32")


def _vector_plan(
    kind: str, m: int, n: int, k: int, element: str, acc: str, target: TargetInfo
) -> DotPlan:
    tile = choose_micro_tile(
        m, n, -(-k // GROUP[kind]), ELEMENT_BITS[acc], target.vector_bits,
        target.vector_registers, is_fused(kind, acc, target),
    )  # fmt: skip
    layout = BufferLayout.row(m, k)
    plan = DotPlan(kind, m, n, k, element, element, acc, tile, layout, layout, layout)
    return _on_panels(plan, tile)


def is_fused(kind: str, acc: str, target: TargetInfo) -> bool:
    """Return whether the target has a fused multiply-add instruction for a kernel and accumulator type."""
    if not target.triple.startswith("x86_64"):
        return acc != "i64"
    if kind in ("int_quads", "bf16_pairs"):
        return True
    if kind == "int_pairs":
        return target.has("avx512vnni") if target.vector_bits == 512 else False
    return kind == "fma" and (target.has("fma") or target.has("avx512f"))


def _amx_plan(kind: str, m: int, n: int, k: int, element: str, acc: str) -> DotPlan:
    group = GROUP[kind]
    found = amx_tile(m, n, k, group)
    if found is None:
        raise PassError(f"no AMX tile for {m}x{n}x{k}")
    if kind == "amx_fp16":  # both operands are split in two halves
        a_extra, b_extra = _extra(m * k, 2 * m * k, element), _extra(k * n, 2 * k * n, element)
    else:  # one panel of b, interleaved
        a_extra, b_extra = 0, _extra(k * n, k * found.columns, element)
    return DotPlan(
        kind, m, n, k, element, element, acc, found,
        BufferLayout.row(m, k, extra=a_extra), BufferLayout.panel(k, n, found.columns, b_extra),
        BufferLayout.panel(m, n, found.columns),
    )  # fmt: skip


def _extra(matrix: int, copy: int, element: str) -> int:
    """Return the extra elements after a matrix for a copy that starts and ends at a cache-line boundary.

    Batched matrices are contiguous, so the size of each must keep the next one aligned.
    """
    line = 64 * 8 // ELEMENT_BITS[element]
    return -(-matrix // line) * line + -(-copy // line) * line - matrix


@dataclass(frozen=True)
class MicroTile:
    """`rows` × (`vectors`·`lanes`) accumulators; `unroll` steps of the inner loop per iteration.

    For AMX kernels `rows` and `lanes` are the extents of one hardware tile, `vectors` is the
    number of adjacent tiles, and `unroll` is the depth (K) of one tile product in elements.
    """

    rows: int
    vectors: int
    lanes: int
    unroll: int

    @property
    def columns(self) -> int:
        """Columns per panel."""
        return self.vectors * self.lanes


def choose_micro_tile(
    m: int, n: int, k: int, bits: int, vector_bits: int, registers: int, fused: bool = True
) -> MicroTile:
    """Choose the register tile for accumulators of `bits` bits.

    Considers widths whose accumulators, one row of the right operand and a broadcast fit in `registers`
    without spilling. Prefers the least column padding, then the fewest loads per multiply-add. `fused`:
    whether multiply and add are one instruction. If not, LLVM's scheduler needs registers for products in
    flight and for broadcasts (limits found by counting spills).
    """
    lanes = vector_bits // bits
    # Narrow matrices: shorter vectors rather than padding, down to 128 bits.
    while lanes > 128 // bits and lanes // 2 >= n:
        lanes //= 2
    limit = _accumulators(vector_bits, registers, fused)
    best: tuple[float, MicroTile] | None = None
    for vectors in (1, 2, 3, 4) if fused else (1, 2):
        rows = min(8, limit // vectors, m)
        rows = -(-m // -(-m // rows))  # equal blocks instead of full blocks and a small remainder
        if (vectors > 1 and (vectors - 1) * lanes >= n) or rows * vectors + vectors + 1 > registers:
            continue
        cost = _cost(m, n, rows, vectors, lanes)
        if best is None or cost < best[0] * 0.999:
            best = cost, MicroTile(rows, vectors, lanes, choose_unroll(k, 4 if fused else 2))
    assert best is not None
    return best[1]


def _accumulators(vector_bits: int, registers: int, fused: bool) -> int:
    """Return the maximum number of live accumulator vectors."""
    wide = registers >= 32
    return ((18 if vector_bits > 128 else 16) if wide else 12) if fused else (8 if wide else 6)


def tile_of_width(
    tile: MicroTile, columns: int, m: int, vector_bits: int, registers: int, fused: bool
) -> MicroTile | None:
    """Return `tile` adapted to panels of `columns` columns, or None if there is no such register tile."""
    vectors, rest = divmod(columns, tile.lanes)
    if rest or not 1 <= vectors <= 4:
        return None
    rows = min(8, _accumulators(vector_bits, registers, fused) // vectors, m)
    if rows < 1 or rows * vectors + vectors + 1 > registers:
        return None
    return MicroTile(-(-m // -(-m // rows)), vectors, tile.lanes, tile.unroll)


#: cost of loading a vector of the right operand, relative to a broadcast of the left operand
_VECTOR_WEIGHT = 2.5


def _cost(m: int, n: int, rows: int, vectors: int, lanes: int) -> float:
    """Estimate the cycles of one K step over the whole tile: two FMAs or two loads per cycle, latency 4.

    Panel vectors cost more than broadcasts. A panel that exceeds L1 is read from L2 for every block of rows, one
    cache line per vector, while a cache line of a row serves 16 steps.
    """
    panels = -(-n // (vectors * lanes))

    def block(r: int) -> float:
        return max(r * vectors / 2, (r + vectors) / 2, 4.0) + 0.05 * (r + _VECTOR_WEIGHT * vectors)

    full, rest = divmod(m, rows)
    return panels * (full * block(rows) + (block(rest) if rest else 0.0))


def choose_unroll(k: int, most: int) -> int:
    """Return the unroll factor of the inner loop: a divisor of `k` close to `most` if there is one, else `most`."""
    if k <= most:
        return k
    for unroll in (most, most + 1, most - 1):
        if unroll > 1 and k % unroll == 0:
            return unroll
    return most


def amx_tile(m: int, n: int, k: int, group: int) -> MicroTile | None:
    """Return the AMX tile that divides the extents evenly, or None if AMX is not profitable.

    `group` rows of the right operand share a 32-bit lane: 2 for 16-bit elements, 4 for 8-bit ones.
    """
    rows = _divisor(m, 16, 1)
    columns = _divisor(n, 16, 8)
    depth = _divisor(k, 16 * group, group)
    # below half of the tile capacity the fp32 kernel is as fast and needs no tile configuration
    if rows * columns * depth * 2 < 16 * 16 * 16 * group:
        return None
    return MicroTile(rows, 2 if n % (2 * columns) == 0 else 1, columns, depth)


def _divisor(extent: int, most: int, step: int) -> int:
    """Return the largest divisor of `extent` that is a multiple of `step` and at most `most`, or 0."""
    for value in range(most, 0, -step):
        if value % step == 0 and extent % value == 0:
            return value
    return 0
