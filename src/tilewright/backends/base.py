"""What a back end is, and what a compiled kernel needs from its host (`LaunchPlan`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any, ClassVar, Protocol

from tilewright.targets import TargetInfo

MEANWHILE: ContextVar[Callable[[], object] | None] = ContextVar("meanwhile", default=None)
"""What whoever compiles has to do anyway: a back end may call it once while it waits for a tool."""


@dataclass(frozen=True)
class Argument:
    """One runtime argument slot. `kind`: "pointer", "int", "uint" or "float"; `type` as in signatures."""

    name: str
    kind: str
    type: str
    written: bool = True
    """Whether the kernel may write through this pointer (stores or atomics can reach it)."""
    divisible: int = 1
    """What the code takes the address or the integer to be a multiple of."""


@dataclass(frozen=True)
class AssertSite:
    """One `device_assert` of a kernel; a fault record names its index in `LaunchPlan.asserts`."""

    message: str
    file: str
    line: int
    column: int
    """Counts from 0, as that of a `SourceLocation`."""
    function: str = ""


@dataclass(frozen=True)
class AccessSite:
    """One checked access; a fault record names its index in `LaunchPlan.accesses`, after all asserts."""

    what: str
    """"tl.load"."""
    file: str
    line: int
    column: int
    arguments: tuple[int, ...]
    """Indices into `LaunchPlan.arguments` of the arrays that its pointer may come from."""


@dataclass(frozen=True)
class Extent:
    """An integer that the host computes from a kernel's arguments: `Σ coefficient * Π arguments`."""

    terms: tuple[tuple[int, tuple[int, ...]], ...]
    """(coefficient, indices into `LaunchPlan.arguments`)."""

    def value(self, arguments: Sequence[Any]) -> int:
        """The integer, given the values of all arguments."""
        return sum(c * prod(int(arguments[i]) for i in factors) for c, factors in self.terms)


@dataclass(frozen=True)
class TensorMap:
    """An array of 2 to 5 dimensions that TMA tiles are copied from (CUDA driver API, `cuTensorMapEncodeTiled`).

    It is one more parameter of the kernel, after the arguments. Sizes in elements, x (contiguous)
    first; a box is one element long in dimensions after the second.
    """

    argument: int
    """Index into `LaunchPlan.arguments` of the address of element (0, 0, …)."""
    element_bytes: int
    global_dims: tuple[Extent, ...]
    """One per dimension. One that is 0 or less is encoded as 1: the kernel reads nothing there."""
    global_strides: tuple[Extent, ...]
    """From element to element of each dimension but the first. Where one after the first is 0, the
    kernel asks for coordinate 0, and any other may be encoded."""
    box_dims: tuple[int, int]
    swizzle_bytes: int
    """Width of the swizzle in bytes (0: none)."""

    LARGEST_EXTENT: ClassVar[int] = 1 << 31
    """Coordinates have 32 bits with sign; the host refuses what is longer."""

    def sizes(self, arguments: Sequence[Any]) -> tuple[list[int], list[int]] | None:
        """Extents in elements and pitches in bytes to encode, given the values of all arguments; None
        where coordinates cannot reach the end."""
        extents = [max(1, e.value(arguments)) for e in self.global_dims]
        pitches = [p.value(arguments) * self.element_bytes for p in self.global_strides]
        if max(extents) > self.LARGEST_EXTENT:
            return None
        return extents, [pitches[0], *(p or pitches[0] for p in pitches[1:])]


@dataclass(frozen=True)
class LaunchPlan:
    """What the host must know to launch a compiled kernel. Plain data: stored as JSON in the cache."""

    name: str
    arguments: tuple[Argument, ...]
    scratch_bytes: int = 0
    program_cost: float = 0.0
    """Estimated nanoseconds of one program (0: unknown); small grids run inline."""
    asserts: tuple[AssertSite, ...] = ()
    prints: bool = False
    """Whether the kernel calls back to print."""
    serial: bool = False
    """Whether all programs run on one thread: the kernel has exclusive atomics."""
    checked: bool = False
    """Whether accesses are checked: the extents of the pointer arguments, in their order, are further
    arguments (address of the first byte, number of bytes)."""
    accesses: tuple[AccessSite, ...] = ()
    """The accesses that are checked."""
    threads: int = 0
    """Threads of a block (0 on a CPU, where a program is one thread's work)."""
    shared_bytes: int = 0
    """Dynamic shared memory of a block."""
    cluster_size: int = 1
    """Blocks of a program, which are a cluster: each has `threads` threads."""
    programmatic_launch: bool = False
    """Whether it may be started before the kernel before it is over: it waits for that itself."""
    cooperative: bool = False
    """Whether all programs must run at the same time: larger grids are refused."""
    tensor_maps: tuple[TensorMap, ...] = ()
    """What the host prepares for TMA loads and stores."""
    registers: int = 0
    """Registers of a thread, where an assembler has said so (0: unknown)."""
    spills: int = 0
    """32-bit registers that are kept in memory for want of registers."""
    options: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> LaunchPlan:
        data: dict[str, Any] = json.loads(text)
        data["arguments"] = tuple(Argument(**a) for a in data["arguments"])
        data["asserts"] = tuple(AssertSite(**a) for a in data["asserts"])
        data["accesses"] = tuple(
            AccessSite(**dict[str, Any]({**a, "arguments": tuple(a["arguments"])}))
            for a in data["accesses"]
        )
        data["tensor_maps"] = tuple(_tensor_map(m) for m in data.get("tensor_maps", ()))
        return LaunchPlan(**data)


def _tensor_map(data: dict[str, Any]) -> TensorMap:
    """A `TensorMap` from its JSON form."""
    facts: dict[str, Any] = {**data, "box_dims": tuple(data["box_dims"])}
    facts |= {
        name: tuple(
            Extent(tuple((c, tuple(factors)) for c, factors in item["terms"]))
            for item in data[name]
        )
        for name in ("global_dims", "global_strides")
    }
    return TensorMap(**facts)


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel: relocatable object code (or cubin), its entry symbol, its plan, its texts."""

    entry: str
    object_code: bytes
    plan: LaunchPlan
    asm: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    """Launch options that change code. Unknown vendor options never get here."""

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    debug: bool = False
    launch_cooperative_grid: bool = False
    """Programs wait for each other: a grid whose programs cannot all run at the same time is refused."""
    assert_traps: bool = False
    """On a GPU: a failed assertion ends the kernel and invalidates the CUDA context, as `assert` in CUDA, instead of
    being recorded for the launch, which waits for the kernel then."""
    disable: tuple[str, ...] = ()
    """Names of passes to leave out."""
    check: tuple[str, ...] = ()
    """Checks in compiled code: "bounds", "views" (see `docs/debugging.md`)."""


class Backend(Protocol):
    """One target family. Implementations live in `backends/<name>/` and are found by `registry`."""

    name: str

    def target(self) -> TargetInfo:
        """The machine at hand, or the default machine of this family."""
        ...

    def compile(self, module: Any, options: Options, target: TargetInfo) -> Artifact:
        """Lower a tile IR module (consumed) to machine code."""
        ...

    def texts(self, module: Any, options: Options, target: TargetInfo) -> dict[str, str]:
        """The IR of a tile IR module (consumed) by level, for people."""
        ...
