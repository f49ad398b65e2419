"""Products to be measured on a GPU: compiled first, in worker processes, then checked and timed one by one.

A benchmark lists `Case`s. `compile_all` goes through the list once with arrays that have no memory and
compiles what the calls will need (so nothing is compiled while something is timed); `measured` then checks
each case's results against each other and against float64, and times its contestants in interleaved
rounds. `Budget` says when to stop, `rehearsing` lets the same code run on a CPU with small sizes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

import gpu_kernels
import tilewright as tw
from gpu_kernels import Call, error_of
from tilewright.errors import TilewrightError
from tilewright.runtime.matmul import kernels_of
from tilewright.runtime.matmul.described import signature_of
from tilewright.runtime.matmul.epilogues import parts_of
from tilewright.runtime.matmul.kernels import GeneratedKernel
from tilewright.runtime.matmul.prepare import Call as Product
from tilewright.runtime.matmul.prepare import prepare
from tilewright.runtime.workers import side_by_side

Row = dict[str, Any]
#: largest relative error (Frobenius norm) against the peer, by the type of the result
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-3, torch.int32: 0.0}
#: rows and columns of the result where they meet it is compared with float64
CHECKED_ROWS, CHECKED_COLUMNS = 64, 1024


@dataclass
class Case:
    """One row of a table. The first contestant is ours, ratios are the others' times over it.

    Attributes:
        calls: contestants; each writes `out` or returns its result.
        exact: the result in float64, where the rows and the columns given meet.
        beside: calls that are timed with the others, and not checked.
        finish: adds to the row what is estimated from it.
    """

    kind: str
    work: str
    calls: dict[str, Call]
    out: Any
    flops: float = 0.0
    bytes_: float = 0.0
    exact: Callable[[Any, Any], Any] | None = None
    loose: float | None = None
    beside: dict[str, Call] = field(default_factory=dict)
    finish: Callable[[Row], None] | None = None

    @property
    def name(self) -> str:
        return f"{self.kind} {self.work}"


class WrongResult(Exception):
    """A contestant's result is not what it should be."""


class Budget:
    """How long a run may go on: nothing new is begun after it."""

    def __init__(self, seconds: float) -> None:
        self.start = time.perf_counter()
        self.seconds = seconds
        self.left_out: list[str] = []

    @property
    def spent(self) -> float:
        return time.perf_counter() - self.start

    def allows(self, what: str) -> bool:
        """Whether there is time to begin something; what there is none for is remembered."""
        if self.spent < self.seconds:
            return True
        self.left_out.append(what)
        return False


# ---- what device, and whether in earnest -----------------------------------------------------------------


@dataclass
class Stage:
    """Where arrays are made, and what multiplies them."""

    device: str = "cuda"
    matmul: Callable[..., Any] = tw.matmul
    shrink: int = 1
    """Extents are divided by it (a rehearsal)."""


STAGE = Stage()


def matmul(*arguments: Any, **options: Any) -> None:
    """`tilewright.matmul`, or what stands in for it while kernels are collected."""
    STAGE.matmul(*arguments, **options)


def extent(n: int) -> int:
    """An extent as this run takes it."""
    return n if STAGE.shrink == 1 or n <= 16 else max(16, n // STAGE.shrink)


def random(*shape: int, dtype: Any = torch.float16, order: str = "N") -> Any:
    """Normal data of the given extents; `order` "T": stored transposed."""
    if order == "T":
        return random(*shape[:-2], shape[-1], shape[-2], dtype=dtype).transpose(-1, -2)
    sizes = [extent(n) for n in shape]
    if dtype in (torch.int8,):
        return torch.randint(-16, 16, sizes, device=STAGE.device, dtype=dtype)
    return torch.randn(sizes, device=STAGE.device).to(dtype)


def empty(*shape: int, dtype: Any) -> Any:
    """Memory for a result; `shape` is that of arrays made before."""
    return torch.empty(shape, device=STAGE.device, dtype=dtype)


@contextmanager
def rehearsing(shrink: int = 16) -> Iterator[None]:
    """Small arrays on the CPU, each call timed once: to see that a benchmark runs."""
    device, STAGE.device, STAGE.shrink = STAGE.device, "cpu", shrink
    try:
        yield
    finally:
        STAGE.device, STAGE.shrink = device, 1


# ---- compiling -------------------------------------------------------------------------------------------


@dataclass
class Compiled:
    """What became of one kernel. `failure`: why there is none."""

    name: str
    registers: int = 0
    spills: int = 0
    shared_bytes: int = 0
    failure: str = ""


class Collector:
    """Stands in for `matmul`: notes which kernels a call would launch, as packed aligned arrays give them."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.found: dict[Any, tuple[GeneratedKernel, dict[str, Any]]] = {}
        self.failures: list[Compiled] = []

    def __call__(self, a: Any, b: Any, out: Any = None, **given: Any) -> None:
        epilogue = given.get("epilogue")
        call = Product(
            a, b, out, parts_of(epilogue) if epilogue is not None else (),
            given.get("accumulate", False), given.get("out_dtype"), False, False, None,
            given.get("alpha"), given.get("c"), given.get("precision"), given.get("config"),
        )  # fmt: skip
        try:
            prepared = prepare(call, self.target)
        except TilewrightError as error:
            self.failures.append(Compiled(str(given.get("config")), failure=error.message))
            return
        for kernel in kernels_of(prepared):
            types = signature_of(kernel, prepared)
            self.found.setdefault((kernel.program, repr(types)), (kernel, types))


def collected(cases: Iterable[Case], target: Any) -> Collector:
    """The kernels that these cases need; `cases` are made while arrays have no memory."""
    collector = Collector(target)
    device, STAGE.device, STAGE.matmul = STAGE.device, "meta", collector
    try:
        for case in cases:
            next(iter(case.calls.values()))()
            if "ours, plain" in case.beside:
                case.beside["ours, plain"]()
    finally:
        STAGE.device, STAGE.matmul = device, tw.matmul
    return collector


def compile_all(collector: Collector, processors: int = 0) -> list[Compiled]:
    """Compile what was collected into the disk cache, side by side; a line about it is printed."""
    start = time.perf_counter()
    jobs, cores = list(collector.found.values()), processors or os.cpu_count() or 1

    def compile_one(job: tuple[GeneratedKernel, dict[str, Any]]) -> Compiled:
        kernel, types = job
        name = kernel.program.name
        options = kernel.launch_options() if collector.target.name != "cpu" else {}
        try:
            made = kernel.compile(types, target=collector.target, options=options)
            made.check_fits()
        except TilewrightError as error:
            return Compiled(name, failure=error.message)
        return Compiled(name, made.n_regs, made.n_spills, made.plan.shared_bytes)

    with side_by_side(len(jobs), cores), ThreadPoolExecutor(cores) as pool:
        done = [*pool.map(compile_one, jobs), *collector.failures]
    seconds = time.perf_counter() - start
    failed = [each for each in done if each.failure]
    print(f"compiled {len(done) - len(failed)} kernels in {seconds:.1f} s", flush=True)
    for each in failed:
        print(f"  {each.name}: {each.failure}", flush=True)
    for each in done:
        if each.spills:
            print(f"  {each.name}: {each.spills} registers spilled", flush=True)
    return done


# ---- checking and timing ---------------------------------------------------------------------------------


def milliseconds(calls: dict[str, Call]) -> dict[str, float]:
    """Median time of one call of each contestant, in interleaved rounds."""
    if STAGE.device == "cuda":
        return gpu_kernels.milliseconds(calls)
    times = {}
    for name, call in calls.items():
        start = time.perf_counter()
        call()
        times[name] = 1e3 * (time.perf_counter() - start)
    return times


def checked(case: Case) -> dict[str, float]:
    """Run each call once; errors against float64, at some rows and columns.

    Raises WrongResult, also where results are further from each other than from what they should be.
    """
    loose = TOLERANCE.get(case.out.dtype, 1e-2) if case.loose is None else case.loose
    results, out = {}, case.out
    for contestant, call in case.calls.items():
        out.fill_(0 if not out.is_floating_point() else float("nan"))
        found = call()
        results[contestant] = (out if found is None else found).clone()
    reference = results[list(case.calls)[-1]]
    rows = torch.randint(0, out.shape[-2], (CHECKED_ROWS,), device=out.device)
    columns = torch.randint(0, out.shape[-1], (CHECKED_COLUMNS,), device=out.device)
    exact = None if case.exact is None else case.exact(rows, columns)
    errors = {}
    for contestant, result in results.items():
        apart = error_of(result, reference)
        if exact is not None:
            errors[contestant] = error_of(result[..., rows, :][..., columns], exact)
        error = max(apart, errors.get(contestant, 0.0))
        if not error <= loose:
            raise WrongResult(f"{case.name}: {contestant} is wrong by {error:.2e}")
    return errors


def measured(case: Case) -> Row:
    """The case's row: checked, then timed, and told. Raises WrongResult."""
    errors = checked(case)
    times = milliseconds({**case.calls, **case.beside})
    ours = times["tilewright"]
    row: Row = {"kind": case.kind, "work": case.work, "ms": times, "errors": errors}
    row["x"] = {name: t / ours for name, t in times.items() if name not in ("tilewright", "copy")}
    if case.flops:
        row["TFLOP/s"] = {name: case.flops / t / 1e9 for name, t in times.items()}
    if case.bytes_:
        row["GB/s"] = {name: case.bytes_ / t / 1e6 for name, t in times.items() if name != "copy"}
    if case.finish is not None:
        case.finish(row)
    return told(row)


def told(row: Row) -> Row:
    """`row`, after a line about it."""
    rates = row.get("TFLOP/s") or row.get("GB/s") or row["ms"]
    shown = "  ".join(f"{name} {rate:.3g}" for name, rate in rates.items())
    ratios = "  ".join(f"/{name} {ratio:.3f}" for name, ratio in row["x"].items())
    print(f"{row['kind']:14} {row['work']:24} {shown}   {ratios}", flush=True)
    return row


def summary(rows: list[Row]) -> list[str]:
    """Geometric mean and lowest ratio of each kind against each contestant, as rows of a table."""
    lines = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        for peer in dict.fromkeys(name for row in mine for name in row["x"]):
            ratios = {row["work"]: row["x"][peer] for row in mine if peer in row["x"]}
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            worst = min(ratios, key=lambda work: ratios[work])
            lines.append(
                f"| {kind} | {peer} | {mean:.3f} | {ratios[worst]:.3f} ({worst}) | {len(ratios)} |"
            )
    return lines


def spread(items: list[Any]) -> list[Any]:
    """The same in an order whose beginnings cover the whole evenly: a run that is cut off has seen all parts."""
    order, step = [], 1 << max(0, (len(items) - 1).bit_length())
    while step:
        order += [i for i in range(0, len(items), step) if i not in order]
        step //= 2
    return [items[i] for i in order]
