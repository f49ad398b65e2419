"""Replay one recorded launch under Triton and under tilewright: a row of the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.compare.agreement import Difference, compare_tensors, verdict
from tilewright.compare.record import Launch
from tilewright.compare.snapshot import is_tensor, tensors_in
from tilewright.compare.translate import Translator
from tilewright.errors import TilewrightError

_SHOWN = 60
"""Characters of an argument in a row."""


@dataclass
class Side:
    """What one compiler made of a kernel."""

    error: str = ""
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    gpu_us: float | None = None
    host_us: float | None = None


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
    """Relative error of Triton's results from those of another run of it."""
    ratio: float | None = None
    """Triton's time over tilewright's: above 1 tilewright is faster."""
    ratio_low: float | None = None
    ratio_high: float | None = None
    target: str = ""
    triton: Side = field(default_factory=Side)
    tilewright: Side = field(default_factory=Side)
    accesses: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def row_of(launch: Launch) -> Row:
    """A row that says which launch is replayed."""
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
class Replay:
    """Replays a launch. `seconds`: for timing; 0: results only."""

    launch: Launch
    translator: Translator
    seconds: float = 0.0

    def run(self, report: Callable[[Row], None]) -> Row:
        """Fill the row, and hand it to `report` after every step that may not return."""
        row = row_of(self.launch)
        reference = self._triton(row)
        if reference is None:
            return row
        report(row)
        ours = self._tilewright(row, reference)
        report(row)
        if ours is not None and self.seconds and row.status in ("agrees", "nondeterministic"):
            self._time(row, ours)
        return row

    def _triton(self, row: Row) -> list[Any] | None:
        """The results of a run of Triton, and their difference from those of another."""
        try:
            (compiled, first), (_, second) = self._launch_triton(), self._launch_triton()
            row.triton = _facts(compiled)
        except Exception as error:
            row.status, row.triton.error = "triton fails", _first_lines(error)
            return None
        again = compare_tensors(second, first)
        row.triton_error = again.error if again is not None else None
        self._noise = again
        return first

    _noise: Difference | None = None

    def _tilewright(self, row: Row, reference: list[Any]) -> Any:
        try:
            kernel = self.translator.kernel(self.launch.kernel)
            arguments, options = self._translated(*self.launch.fresh())
            compiled = kernel[self.launch.grid](*arguments, **options)
            synchronize(self.launch.device)
        except Exception as error:
            row.status, row.tilewright.error = "tilewright fails", _first_lines(error)
            return None
        row.tilewright = _facts(compiled)
        difference = compare_tensors(list(tensors_in((arguments, options))), reference)
        if difference is not None:
            row.error, row.tolerance = difference.error, difference.tolerance
            row.worst = f"tensor {difference.index} ({difference.dtype})"
        row.status = verdict(difference, self._noise)
        self._explain(row, kernel, compiled)
        return kernel

    def _translated(
        self, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        value = self.translator.value
        return [value(a) for a in arguments], {name: value(v) for name, v in options.items()}

    def _launch_triton(self) -> tuple[Any, list[Any]]:
        """The compiled kernel and its results."""
        arguments, options = self.launch.fresh()
        compiled = self.launch.kernel[self.launch.grid](*arguments, **options)
        synchronize(self.launch.device)
        return compiled, list(tensors_in((arguments, options)))

    def _explain(self, row: Row, kernel: Any, compiled: Any) -> None:
        """The form of each access of tilewright's kernel."""
        from tilewright.runtime.access_report import report_accesses

        row.target = compiled.target.name
        try:
            found = report_accesses(kernel, compiled.signature, compiled.options, compiled.target)
        except TilewrightError as error:
            row.accesses = [{"error": _first_lines(error)}]
        else:
            row.accesses = [access.as_dict() for access in found]

    def _time(self, row: Row, kernel: Any) -> None:
        from tilewright.compare.timing import time_against

        theirs, their_options = self.launch.fresh()
        arguments, options = self._translated(*self.launch.fresh())
        first = self.launch.kernel[self.launch.grid]
        second = kernel[self.launch.grid]
        times = time_against(
            lambda: first(*theirs, **their_options),
            lambda: second(*arguments, **options),
            self.seconds,
        )
        row.ratio, row.ratio_low, row.ratio_high = times.ratio, times.low, times.high
        row.triton.gpu_us, row.tilewright.gpu_us = times.gpu
        row.triton.host_us, row.tilewright.host_us = times.host


def synchronize(device: Any) -> None:
    """Wait for the GPU. Raises what a kernel has done wrong there."""
    if device is not None and device.type == "cuda":
        import torch

        torch.cuda.synchronize()


def _facts(compiled: Any) -> Side:
    """Registers, spills and shared memory of a compiled kernel of either; None where it has no such facts."""
    metadata = getattr(compiled, "metadata", None)
    return Side(
        "",
        _number(getattr(compiled, "n_regs", None)),
        _number(getattr(compiled, "n_spills", None)),
        _number(getattr(metadata, "shared", None)),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _first_lines(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines[:4])}"[:500]
