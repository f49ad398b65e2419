"""Data of the matmul cost model: the problem, its division into tiles, and the estimated cost."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.generator.hardware_rates import LINE

#: bytes of an element of each type
SIZES = {
    "fp64": 8, "i64": 8, "fp32": 4, "tf32": 4, "i32": 4, "fp16": 2, "bf16": 2, "i16": 2,
    "fp8e4nv": 1, "fp8e5": 1, "i8": 1, "u8": 1, "i1": 1, "u16": 2, "u32": 4, "u64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Workload:
    """A matmul `out[b, m, n] = Σ_k a[b, m, k] · b[b, k, n]`, as far as its cost goes.

    `element` is the type that is multiplied ("fp16", "tf32", "i8" …), `out` the stored type,
    `accumulator` "fp32", "fp16", "i32" or "fp64". `epilogue_bytes`: read per element of the result for
    the epilogue (a residual, an old C).
    """

    m: int
    n: int
    k: int
    batch: int = 1
    element: str = "fp16"
    out: str = "fp16"
    accumulator: str = "fp32"
    epilogue_bytes: float = 0.0
    packable: bool = False
    """Whether operands may be packed once for all programs (CPU)."""
    mn_major: str = ""
    """Operands that lie across k in memory: "", "a" (column-major), "b" (row-major) or "ab"."""
    row_alignment: tuple[int, int] = (LINE, LINE)
    """Bytes, up to a line of the caches, that rows of A and of B in memory begin at multiples of."""

    @property
    def macs(self) -> int:
        return self.batch * self.m * self.n * self.k

    @property
    def operand_bytes(self) -> int:
        return self.batch * (self.m + self.n) * self.k * SIZES[self.element]

    @property
    def result_bytes(self) -> float:
        return self.batch * self.m * self.n * (SIZES[self.out] + self.epilogue_bytes)


@dataclass(frozen=True)
class Tiling:
    """The tiling of a matmul. `warps` per program; 0 stages: no pipeline (a CPU)."""

    block_m: int
    block_n: int
    block_k: int
    warps: int = 4
    stages: int = 0
    group: int = 1
    """Rows of tiles that programs go through before they move on by a column."""
    split_k: int = 1
    packed: bool = False
    """Operands are packed once, before, for all programs (a CPU)."""
    persistent: bool = False
    """A program per SM, which computes many tiles; a producer warp loads their operands."""
    two_ctas: bool = False
    """Stages are so few that two CTAs are resident per SM."""
    multicast: str = ""
    """The operand, "a" or "b", that the CTAs of a cluster of two fetch once, for adjacent tiles; "": no cluster."""

    def __str__(self) -> str:
        text = f"{self.block_m}x{self.block_n}x{self.block_k}"
        text += ", packed once" if self.packed else ""
        if self.stages:
            text += f", {self.warps} warps, {self.stages} stages, groups of {self.group}"
        text += ", persistent" if self.persistent else ""
        text += f", {self.multicast.upper()} by multicast" if self.multicast else ""
        return text + (f", K in {self.split_k} parts" if self.split_k > 1 else "")


@dataclass(frozen=True)
class Estimate:
    """The model's estimate of a tiling."""

    tiling: Tiling
    nanoseconds: float
    programs: int
    waves: int
    wave_utilization: float
    """Wave utilization: programs per CTA slot of all waves."""
    mma_utilization: float
    """MMA utilization of a step."""
    ctas_per_sm: int
    """Resident CTAs per SM."""
    shared_bytes: int
    memory_bytes: float
    bound: str
    """The bottleneck: "tensor cores", "shared memory", "L2" or "memory"."""
    notes: tuple[str, ...] = ()
    """Further reasons, for `explain`."""

    def rate(self, work: Workload) -> float:
        """TFLOP/s."""
        return 2e-3 * work.macs / self.nanoseconds
