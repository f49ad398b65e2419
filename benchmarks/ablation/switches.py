"""The optimisations that an ablation switches, and the build that a set of them stands for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tilewright.backends import registry
from tilewright.generator import MatmulConfig
from tilewright.targets import Feature, TargetInfo
from tilewright.targets.instructions import WGMMA


@dataclass(frozen=True)
class Switch:
    """One optimisation. `off`: passes (or passes with options) that its absence leaves out.

    `needs`: passes without which this version of the compiler does not have it. `depends_on`: an optimisation
    without which it means nothing, so that both go together.
    """

    key: str
    title: str
    section: str
    """Of arXiv 2108.13191; "" beyond the paper."""
    off: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    depends_on: str = ""


GPU_SWITCHES = (
    Switch("tiles", "two-level tiling", "3.2"),
    Switch("tensor cores", "tensor cores, mma.sync", "3.4", ("select-mma",)),
    Switch("buffers", "shared-memory buffers", "3.3", ("promote-shared",)),
    Switch("padding", "padded buffers", "3.3", ("swizzle-shared",), ("swizzle-shared",)),
    Switch(
        "hoisting", "sums kept in registers", "3.4", ("promote-accumulator",), ("promote-accumulator",)
    ),
    Switch("fresh", "zero-initialized accumulator, single store", "3.4", depends_on="hoisting"),
    Switch("latency", "latency hiding, two stages", "3.5", ("pipeline-loads",)),
    Switch("barriers", "barriers only where needed", "3.6", ("insert-barriers",)),
    Switch("copies", "vectorised copies", "3.7", ("vectorize-accesses",), ("vectorize-accesses",)),
    Switch("order", "programs in groups of rows", "3.9"),
    Switch(
        "swizzle", "swizzled buffers", "", ('swizzle-shared{mode="pad"}',), ("swizzle-shared",),
        depends_on="padding",
    ),
    Switch("warp groups", "wgmma", "", ("select-mma{wgmma=false}",)),
    Switch(
        "boxes", "tensor memory accelerator", "",
        ("pipeline-loads{tma=false}", "specialize-warps"),
    ),
    Switch("stages", "four stages", "", depends_on="latency"),
    Switch("large tiles", "tiles of 128 x 256", "", depends_on="tiles"),
    Switch("store boxes", "results through shared memory", "", ("lower-stores-to-tma",), ("lower-stores-to-tma",)),
    Switch("persistent", "one program per SM", ""),
    Switch(
        "warp roles", "warp specialization", "", ("specialize-warps",), ("specialize-warps",),
        depends_on="persistent",
    ),
)  # fmt: skip
CPU_SWITCHES = (
    Switch("tiles", "two-level tiling", "3.2"),
    Switch("registers", "register tile", "3.2", ("lower-dot{register-tile=false}",)),
    Switch("unrolling", "inner loop unrolled", "3.4", ("lower-dot{unroll=false}",)),
    Switch("vectors", "vectors of full width", "3.4", ("lower-dot{full-width-vectors=false}",)),
    Switch(
        "hoisting", "sums kept out of C's memory", "3.4", ("promote-accumulator",), ("promote-accumulator",)
    ),
    Switch("fresh", "zero-initialized accumulator, single store", "3.4", depends_on="hoisting"),
    Switch("invariants", "loop-invariant code motion", "3.4", ("licm",)),
    Switch("bounds", "full tiles without masks", "3.7", ("vectorize{partition-loops=false}",)),
    Switch("prefetch", "prefetching", "3.5", ("vectorize{prefetch=false}",)),
    Switch("order", "programs in groups of rows", "3.9"),
)  # fmt: skip
#: what not every GPU has
_TMA, _WGMMA = ("boxes", "store boxes"), ("warp groups", "warp roles")
SWITCHES = {"cpu": CPU_SWITCHES, "nvidia": GPU_SWITCHES}


@dataclass(frozen=True)
class Build:
    """How one variant is compiled."""

    blocks: tuple[int, int, int]
    warps: int = 1
    stages: int = 1
    group: int = 1
    form: str = "listing1"
    off: tuple[str, ...] = ()
    persistent: bool = False

    @property
    def config(self) -> MatmulConfig:
        """For the generator: the paper's listing 1 in these tiles, or with sums in registers."""
        return MatmulConfig(
            *self.blocks, self.group, num_warps=self.warps, num_stages=self.stages, form=self.form,
            persistent=self.persistent,
        )  # fmt: skip


def switches_of(target: TargetInfo) -> tuple[Switch, ...]:
    """The optimisations there are on a target, in order."""
    names = _passes(target)
    missing = () if target.has(Feature.TMA) else _TMA
    missing += () if target.mma_unit(WGMMA) else _WGMMA
    found = [
        s for s in SWITCHES[target.family] if names.issuperset(s.needs) and s.key not in missing
    ]
    keys = {s.key for s in found}
    return tuple(s if s.depends_on in keys else replace(s, depends_on="") for s in found)


def _passes(target: TargetInfo) -> set[str]:
    return {p.name for p in registry.get(target.name).passes()}


def build_for(on: Collection[str], target: TargetInfo) -> Build:
    """The build with just the optimisations in `on`."""
    off = [name for s in switches_of(target) if s.key not in on for name in s.off]
    plain = {name for name in off if "{" not in name}
    # a pass that is left out takes no options
    off = [name for name in off if name in plain or name.partition("{")[0] not in plain]
    base = Build((16, 16, 16), off=tuple(off))
    build = _gpu(on, base) if target.is_gpu else _cpu(on, base)
    form = "tiled" if "fresh" in on else "listing1"
    order = 8 if "order" in on else 1
    return replace(build, group=order, form=form)


def without(key: str, target: TargetInfo) -> list[str]:
    """The full set less one optimisation and those that mean nothing without it."""
    gone = {key}
    for s in switches_of(target):  # what depends stands behind what it depends depends_on
        if s.depends_on in gone:
            gone.add(s.key)
    return [s.key for s in switches_of(target) if s.key not in gone]


def paper_endpoint(target: TargetInfo) -> Build:
    """The paper's own end: mma.sync in fragments of 16 × 16 × 16, padded buffers within 48 KB."""
    on = [s.key for s in switches_of(target) if s.key in PAPERS_END]
    return replace(build_for(on, target), blocks=(64, 64, 32), warps=4)


def _cpu(on: Collection[str], base: Build) -> Build:
    return replace(base, blocks=(256, 256, 128)) if "tiles" in on else base


def _gpu(on: Collection[str], base: Build) -> Build:
    stages = 1 if "latency" not in on else 4 if "stages" in on else 2
    base = replace(base, persistent="persistent" in on)
    if "tiles" not in on:
        return replace(base, stages=stages)
    blocks = (128, 256 if "large tiles" in on else 128, 64 if "warp groups" in on else 32)
    return replace(base, blocks=blocks, warps=8, stages=stages)


PAPERS_END = (
    "tiles", "tensor cores", "buffers", "padding", "hoisting", "fresh", "latency", "barriers", "copies",
    "order",
)  # fmt: skip
#: static shared memory that the paper keeps to
PAPERS_SHARED_BYTES = 48 << 10
