"""Compile, check and time the variants of an ablation."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from benchmarks.ablation.switches import (
    PAPERS_END,
    PAPERS_SHARED_BYTES,
    Build,
    build_for,
    paper_endpoint,
    switches_of,
    without,
)
from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.dtypes import bfloat16, float16, float32
from tilewright.errors import OutOfResources
from tilewright.generator import Contraction, Operand
from tilewright.runtime.export.matmul import argument_types
from tilewright.runtime.matmul.kernels import kernels
from tilewright.runtime.timing import do_bench
from tilewright.targets import TargetInfo

#: largest error allowed, against the sum of the products' magnitudes (fp32 sums of exact products)
TOLERANCE = 1e-5
_GAP_SECONDS = 0.02


@dataclass
class Row:
    """One variant. `ir` is its last level; `changed` whether that differs from the row it is held against."""

    title: str
    section: str
    on: tuple[str, ...]
    build: Build
    ir: str = ""
    changed: bool = True
    milliseconds: float = 0.0
    error: float = 0.0
    """Largest difference from float64, against the sum of magnitudes."""
    compile_seconds: float = 0.0
    registers: int = 0
    spills: int = 0
    shared_bytes: int = 0
    failure: str = ""
    """Why a variant with something taken out cannot be built: it asks for more than the target has."""

    def rate(self, flops: float) -> float:
        """TFLOP/s."""
        return flops / self.milliseconds * 1e-9 if self.milliseconds else 0.0


@dataclass
class Study:
    """An ablation: `added` one after the other, `removed` each from the full set."""

    target: str
    machine: str
    size: tuple[int, int, int]
    dtype: str
    added: list[Row] = field(default_factory=list)
    removed: list[Row] = field(default_factory=list)
    extra: list[Row] = field(default_factory=list)
    """Rows beside the tables: the paper's own end point."""
    peer: str = ""
    peer_milliseconds: float = 0.0

    @property
    def flops(self) -> float:
        m, n, k = self.size
        return 2.0 * m * n * k

    @property
    def rows(self) -> list[Row]:
        return [*self.added, *self.removed, *self.extra]


class _Bench:
    """One product: its arrays, once `fill` has made them, and the launch of a variant on them."""

    def __init__(self, target: TargetInfo, size: tuple[int, int, int], dtype: str) -> None:
        self.target, self.size, self.dtype = target, size, dtype
        self.gpu = target.is_gpu
        self.a: Any = None
        self.b: Any = None
        self.c: Any = None
        self.want: Any = None
        self.scale = 1.0

    def fill(self) -> None:
        """Random operands, and the product and its sums of magnitudes in float64."""
        m, n, k = self.size
        if self.gpu:
            import torch  # pyright: ignore[reportMissingImports]  # optional

            kind = getattr(torch, self.dtype)
            torch.manual_seed(0)
            self.a = torch.randn(m, k, device="cuda").to(kind)
            self.b = torch.randn(k, n, device="cuda").to(kind)
            self.c = torch.zeros(m, n, device="cuda")
            wide: tuple[Any, Any] = self.a.double(), self.b.double()
        else:
            import numpy as np

            random = np.random.default_rng(0)
            self.a = random.standard_normal((m, k), dtype=np.float32).astype(self.dtype)
            self.b = random.standard_normal((k, n), dtype=np.float32).astype(self.dtype)
            self.c = np.zeros((m, n), np.float32)
            wide = self.a.astype(np.float64), self.b.astype(np.float64)
        self.want = wide[0] @ wide[1]
        self.scale = float((abs(wide[0]) @ abs(wide[1])).max())

    def compiled(self, build: Build) -> Any:
        """The generator's program of a build, compiled."""
        kind = {"float16": float16, "bfloat16": bfloat16, "float32": float32}[self.dtype]
        contraction = Contraction(Operand(kind), Operand(kind), Operand(float32))
        (kernel,) = kernels(contraction, build.config, noalias_output=not self.gpu)
        aligned = all(extent % 16 == 0 for extent in self.size)
        options = Options(num_warps=build.warps, num_stages=build.stages, disable=build.off)
        found = kernel.compile(argument_types(kernel.program, aligned), None, self.target, options)
        found.check_fits()
        return found

    def launch(self, kernel: Any, build: Build) -> Callable[[], Any]:
        m, n, k = self.size
        values = {
            "a": self.a, "b": self.b, "out": self.c, "M": m, "N": n, "K": k, "a_m": k, "b_k": n,
            "out_m": n,
        }  # fmt: skip
        given = [values[argument.name] for argument in kernel.plan.arguments]
        programs = -(-m // build.blocks[0]) * -(-n // build.blocks[1])
        grid = (min(programs, self.target.cores) if build.persistent else programs,)
        return lambda: kernel.run(grid, *given)

    def error(self, call: Callable[[], Any]) -> float:
        """Of one launch."""
        self.c[...] = float("nan")
        call()
        found = self.c.double() if self.gpu else self.c.astype("float64")
        return float(abs(found - self.want).max()) / self.scale

    @property
    def peer(self) -> tuple[str, Callable[[], Any]]:
        if self.gpu:
            import torch  # pyright: ignore[reportMissingImports]  # optional

            out = torch.empty(self.size[:2], device="cuda", dtype=self.a.dtype)
            return "cuBLAS (torch.mm)", lambda: torch.mm(self.a, self.b, out=out)
        import numpy as np

        return "NumPy", lambda: np.matmul(self.a, self.b, out=self.c)


def run_study(
    target: str = "cpu",
    size: tuple[int, int, int] | None = None,
    dtype: str = "",
    *,
    rounds: int = 3,
    milliseconds: float = 20.0,
    only_compile: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    keep: Callable[[Study], None] = lambda study: None,
) -> Study:
    """Build, check and time every variant.

    Args:
        target: "cpu", "cuda" (the GPU at hand) or, with `only_compile`, any target.
        size: M, N, K; default 4096³ on a GPU and 1024³ on a CPU.
        dtype: of the operands, "float16" or "bfloat16" on a GPU (default the first), "float32" on a CPU.
        rounds, milliseconds: every variant is timed in so many rounds, interleaved, so long in each.
        tell: called with a line for each variant.
        keep: called with everything that was measured, also where something is wrong.

    Raises AssertionError, at the end, where a result is wrong or a step leaves the IR as it was, and what the
    compiler raises.
    """
    machine = registry.machine(target)
    gpu = machine.is_gpu
    extents = size or ((4096, 4096, 4096) if gpu else (1024, 1024, 1024))
    bench = _Bench(machine, extents, dtype or ("float16" if gpu else "float32"))
    study = Study(machine.name, _machine_name(machine, only_compile), extents, bench.dtype)
    _plan(study, machine)
    kernels, wrong = _compile(study, bench, tell)
    if not only_compile:
        wrong += _run(study, bench, kernels, rounds, milliseconds, tell)
    keep(study)
    if wrong:
        raise AssertionError("\n".join(wrong))
    return study


def _machine_name(machine: TargetInfo, only_compile: bool) -> str:
    if not machine.is_gpu:
        return f"{machine.cpu}, {machine.cores} cores, {machine.vector_bits}-bit vectors"
    if only_compile:
        return machine.name
    from tilewright.runtime.drivers.cuda import driver

    return driver().device(driver().current_device()).name


def _plan(study: Study, machine: TargetInfo) -> None:
    """The rows of all tables, nothing compiled yet."""
    switches = switches_of(machine)
    on: list[str] = []

    def row(title: str, section: str, chosen: Collection[str]) -> Row:
        return Row(title, section, tuple(chosen), build_for(chosen, machine))

    study.added.append(row("listing 1: C loaded and stored at every step", "listing 1", ()))
    for switch in switches:
        on.append(switch.key)
        study.added.append(row(f"+ {switch.title}", switch.section, on))
    for switch in switches:
        rest = without(switch.key, machine)
        study.removed.append(row(f"- {switch.title}", switch.section, rest))
    if machine.is_gpu:
        title = "the paper's end point: mma.sync, padded buffers within 48 KB"
        study.extra.append(Row(title, "4", PAPERS_END, paper_endpoint(machine)))


def _compile(
    study: Study, bench: _Bench, tell: Callable[[str], None]
) -> tuple[dict[int, Any], list[str]]:
    """Every variant compiled once, and what is not as it should be: a step that changes nothing in the IR."""
    level = "cpu" if study.target == "cpu" else "gpu"
    made: dict[Build, tuple[Any, Row]] = {}
    kernels: dict[int, Any] = {}
    for row in study.rows:
        start = time.perf_counter()
        if row.build not in made:
            try:
                made[row.build] = bench.compiled(row.build), row
            except OutOfResources as error:
                if row not in study.removed:
                    raise
                row.failure = error.message
                tell(f"{row.title}: {error.message}")
                continue
        kernel, first = made[row.build]
        row.compile_seconds = first.compile_seconds or time.perf_counter() - start
        row.ir = kernel.asm[level]
        row.registers, row.spills = kernel.n_regs, kernel.n_spills
        row.shared_bytes = kernel.plan.shared_bytes
        kernels[id(row)] = kernel
        tell(f"{row.title}: compiled in {row.compile_seconds:.2f} s")
    for before, row in zip(study.added, study.added[1:], strict=False):
        row.changed = row.ir != before.ir
    for row in study.removed:
        row.changed = row.ir != study.added[-1].ir  # no IR at all is a change too
    large = [row.title for row in study.extra if row.shared_bytes > PAPERS_SHARED_BYTES]
    wrong = [f"{title}: more than {PAPERS_SHARED_BYTES} bytes" for title in large]
    wrong += [f"{row.title}: the IR is as before" for row in study.rows if not row.changed]
    return kernels, wrong


def _run(
    study: Study,
    bench: _Bench,
    kernels: dict[int, Any],
    rounds: int,
    milliseconds: float,
    tell: Callable[[str], None],
) -> list[str]:
    """Check and time every variant that could be built; which are wrong (they are not timed)."""
    bench.fill()
    rows, calls, wrong = list[Row](), list[Callable[[], Any]](), list[str]()
    for row in (row for row in study.rows if not row.failure):
        call = bench.launch(kernels[id(row)], row.build)
        row.error = bench.error(call)
        if row.error <= TOLERANCE:
            rows.append(row)
            calls.append(call)
            continue
        row.failure = f"wrong by {row.error:.2g} of the sum of magnitudes"
        wrong.append(f"{row.title}: {row.failure}")
        tell(wrong[-1])
    study.peer, peer = bench.peer
    times: list[list[float]] = [[] for _ in (*calls, peer)]
    for turn in range(rounds):
        order = list(enumerate((*calls, peer)))
        for index, call in order if turn % 2 == 0 else order[::-1]:
            time.sleep(_GAP_SECONDS)  # a GPU that has just worked hard runs slower
            found: Any = do_bench(call, warmup=5, rep=milliseconds, return_mode="median")
            times[index].append(found)
    for row, found in zip(rows, times, strict=False):
        row.milliseconds = statistics.median(found)
        tell(f"{row.title}: {row.milliseconds:.4f} ms, {row.rate(study.flops):.2f} TFLOP/s")
    study.peer_milliseconds = statistics.median(times[-1])
    return wrong
