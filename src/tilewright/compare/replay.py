"""Replay one recorded launch under Triton and under tilewright: a row of the comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.compare.agreement import Difference, compare_tensors, verdict
from tilewright.compare.record import Launch
from tilewright.compare.snapshot import is_tensor, tensors_in
from tilewright.compare.translate import Translator
from tilewright.errors import TilewrightError

_SHOWN = 60
"""Characters of an argument in a row."""
_TUNING_SHARE = 0.5
"""Fraction of the seconds for timing a kernel in which each compiler chooses a configuration."""


@dataclass
class Side:
    """Results of one compiler for a kernel."""

    error: str = ""
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    gpu_us: float | None = None
    host_us: float | None = None
    configuration: str = ""
    """The fastest one of the kernel's autotuner."""
    failed: dict[str, str] = field(default_factory=dict)
    """Errors of other configurations."""


@dataclass
class Row:
    """One kernel's comparison."""

    kernel: str
    file: str = ""
    line: int = 0
    launches: int = 0
    grid: tuple[int, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict)
    status: str = ""
    """agrees, nondeterministic, differs; triton fails, tilewright fails, fault, time limit."""
    error: float | None = None
    tolerance: float | None = None
    worst: str = ""
    triton_error: float | None = None
    """Relative difference of two runs of Triton."""
    ratio: float | None = None
    """Triton's time over tilewright's: above 1 tilewright is faster."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    target: str = ""
    configurations: int = 1
    """Number of the autotuner's configurations."""
    triton: Side = field(default_factory=Side)
    tilewright: Side = field(default_factory=Side)
    accesses: list[dict[str, Any]] = field(default_factory=list)


def row_of(launch: Launch) -> Row:
    """A row that identifies the replayed launch."""
    code = launch.kernel.fn.__code__
    shown = {name: brief(value) for name, value in launch.named().items()}
    return Row(
        launch.key, code.co_filename, code.co_firstlineno, launch.launches, launch.grid, shown
    )


def brief(value: Any) -> str:
    """An argument on one line."""
    if is_tensor(value):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if is_tensor(base := getattr(value, "base", None)):
        return f"{type(value).__name__}({brief(base)})"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@dataclass
class Candidate:
    """A launch in one configuration, compiled by both; None where a compiler refuses it."""

    launch: Launch
    triton: Any = None
    tilewright: Any = None


_STATUSES = ("differs", "nondeterministic", "agrees")
"""The worst first."""


@dataclass
class Replay:
    """Replays a launch, in each configuration of its autotuner."""

    launch: Launch
    translator: Translator
    candidates: Sequence[Launch]
    row: Row = field(init=False)
    _compiled: list[Candidate] = field(default_factory=list)
    _noise: Difference | None = None

    def __post_init__(self) -> None:
        self.row = row_of(self.launch)
        self.row.configurations = len(self.candidates)

    @property
    def can_be_timed(self) -> bool:
        """Whether the results agree."""
        return self.row.status in ("agrees", "nondeterministic")

    def check(self, report: Callable[[Row], None]) -> Row:
        """Compare results, and hand the row to `report` after every step that may not return."""
        row, statuses = self.row, set[str]()
        for launch in self.candidates:
            candidate = Candidate(launch)
            reference = self._triton(candidate)
            report(row)
            if reference is not None:
                self._compiled.append(candidate)
                statuses.add(self._tilewright(candidate, reference))
                report(row)
        row.status = "tilewright fails" if self._compiled else "triton fails"
        for status in _STATUSES:
            if status in statuses:
                row.status = status
                break
        for side, bad in ((row.triton, "triton fails"), (row.tilewright, "tilewright fails")):
            if row.status == bad:
                side.error = next(iter(side.failed.values()), "")
        for name in ("triton", "tilewright"):
            self._show(name, next((c for c in self._compiled if getattr(c, name)), None))
        return row

    def time(self, seconds: float) -> None:
        """Time the fastest configuration of each compiler."""
        from tilewright.compare.timing import fastest, time_against

        calls: list[Callable[[], Any]] = []
        share = seconds * _TUNING_SHARE if len(self._compiled) > 1 else 0.0
        for name in ("triton", "tilewright"):
            usable = [c for c in self._compiled if getattr(c, name) is not None]
            given = self.launch.fresh(*(x for c in usable for x in (c.launch.arguments, c.launch.options)))  # fmt: skip
            pairs = zip(usable, given[::2], given[1::2], strict=True)
            made = [self._call(name, c, arguments, options) for c, arguments, options in pairs]
            chosen = fastest(made, share / 2)
            self._show(name, usable[chosen])
            calls.append(made[chosen])
        times = time_against(calls[0], calls[1], seconds - share)
        row = self.row
        row.ratio, row.ratio_low, row.ratio_high = times.ratio, times.low, times.high
        row.triton.gpu_us, row.tilewright.gpu_us = times.gpu
        row.triton.host_us, row.tilewright.host_us = times.host

    def _call(self, name: str, candidate: Candidate, arguments: Any, options: Any) -> Any:
        kernel = self.launch.kernel
        if name == "tilewright":
            kernel = self.translator.kernel(kernel)
            arguments, options = self._translated(arguments, options)
        run = kernel[candidate.launch.grid]
        return lambda: run(*arguments, **options)

    def _show(self, name: str, candidate: Candidate | None) -> None:
        """Set the results of a configuration in the row."""
        if candidate is None:
            return
        side, compiled = getattr(self.row, name), getattr(candidate, name)
        metadata = getattr(compiled, "metadata", None)
        side.registers = _number(getattr(compiled, "n_regs", None))
        side.spills = _number(getattr(compiled, "n_spills", None))
        side.shared_bytes = _number(getattr(metadata, "shared", None))
        side.configuration = candidate.launch.configuration
        if name == "tilewright":
            self._explain(compiled)

    def _triton(self, candidate: Candidate) -> list[Any] | None:
        """The results of a Triton run; for the first configuration, also the difference from a second run."""
        try:
            candidate.triton, first = self._launch_triton(candidate.launch)
            if self._noise is None:
                second = self._launch_triton(candidate.launch)[1]
                self._noise = compare_tensors(second, first)
                self.row.triton_error = self._noise.error if self._noise is not None else None
        except Exception as error:
            self.row.triton.failed[candidate.launch.configuration] = _first_lines(error)
            return None
        return first

    def _tilewright(self, candidate: Candidate, reference: list[Any]) -> str:
        row, launch = self.row, candidate.launch
        try:
            kernel = self.translator.kernel(launch.kernel)
            arguments, options = self._translated(*self._fresh(launch))
            compiled = kernel[launch.grid](*arguments, **options)
            synchronize(self.launch.device)
        except Exception as error:
            row.tilewright.failed[launch.configuration] = _first_lines(error)
            return ""
        candidate.tilewright = compiled
        difference = compare_tensors(list(tensors_in((arguments, options))), reference)
        status = verdict(difference, self._noise)
        if difference is not None and (
            row.error is None
            or difference.error != difference.error
            or difference.error > row.error
        ):
            row.error, row.tolerance = difference.error, difference.tolerance
            row.worst = f"tensor {difference.index} ({difference.dtype})"
        if status == "differs":
            row.tilewright.failed[launch.configuration] = "other results"
        return status

    def _fresh(self, launch: Launch) -> tuple[Any, Any]:
        return self.launch.fresh(launch.arguments, launch.options)

    def _translated(
        self, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        value = self.translator.value
        return [value(a) for a in arguments], {name: value(v) for name, v in options.items()}

    def _launch_triton(self, launch: Launch) -> tuple[Any, list[Any]]:
        """The compiled kernel and its results."""
        arguments, options = self._fresh(launch)
        compiled = launch.kernel[launch.grid](*arguments, **options)
        synchronize(self.launch.device)
        return _Ran() if compiled is None else compiled, list(tensors_in((arguments, options)))

    def _explain(self, compiled: Any) -> None:
        """The form of each access of tilewright's kernel."""
        from tilewright.runtime.access_report import report_accesses

        row, kernel = self.row, self.translator.kernel(self.launch.kernel)
        row.target = compiled.target.name
        try:
            found = report_accesses(kernel, compiled.signature, compiled.options, compiled.target)
        except TilewrightError as error:
            row.accesses = [{"error": _first_lines(error)}]
        else:
            row.accesses = list(map(asdict, found))


class _Ran:
    """Stand-in for a compiled kernel under an interpreter."""


def synchronize(device: Any) -> None:
    """Synchronize with the GPU. Raises the error of a failed kernel."""
    if device is not None and device.type == "cuda":
        import torch

        torch.cuda.synchronize()


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _first_lines(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:4])}"[:500]
