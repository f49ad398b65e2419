"""Running a list of passes over a module: switches, verification, observation."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

from tilewright.errors import PassError
from tilewright.ir.location import internal_errors
from tilewright.ir.text import verify_ir
from tilewright.passes.base import Pass
from tilewright.passes.registry import lookup, parse_pipeline
from tilewright.targets import TargetInfo

Observer = Callable[[str, float, bool, ModuleOp], None]
"""Called after each pass with its name, its seconds, whether the text of the IR changed, and the module."""


@dataclass(frozen=True)
class PipelineResult:
    """What `run_pipeline` did: the passes it ran, and those it left out (switched off, or dependent)."""

    ran: tuple[str, ...]
    dropped: tuple[str, ...]


def without_disabled(
    passes: Sequence[Pass], disabled: Collection[str]
) -> tuple[tuple[Pass, ...], tuple[str, ...]]:
    """`passes` less those named in `disabled` and those that (transitively) require one of them.

    Passes that stay take the options that they declare for the absence of others (`Pass.fallback_options`).
    An entry with options, `select-mma{wgmma=false}`, leaves the pass in and gives it these.
    Returns what is left, and the names of what was dropped. A name that no pass has is an error, and
    so is a pass that cannot be left out (`Pass.mandatory_reason`).
    """
    if not disabled:
        return tuple(passes), ()
    names = {p.name for p in passes}
    for name in disabled:
        if name not in names:
            lookup(name.partition("{")[0])
    changed = [name for name in disabled if "{" in name]
    passes = _with_options(passes, changed)
    off = {name for name in disabled if name not in changed}
    while True:
        more = {p.name for p in passes if p.name not in off and off.intersection(p.requires)}
        if not more:
            break
        off |= more
    for current in passes:
        if current.name in off and current.mandatory_reason:
            raise PassError(f"{current.name} cannot be switched off: {current.mandatory_reason}")
    dropped = tuple(dict.fromkeys(p.name for p in passes if p.name in off))
    return tuple(_in_absence(p, off) for p in passes if p.name not in off), dropped


def _with_options(passes: Sequence[Pass], specs: Collection[str]) -> Sequence[Pass]:
    """`passes` with the options that `specs` give some of them."""
    for spec in specs:
        (given,) = parse_pipeline(spec)
        options = {
            f.name: value
            for f in dataclasses.fields(given)
            if (value := getattr(given, f.name)) != f.default
        }
        passes = [dataclasses.replace(p, **options) if p.name == given.name else p for p in passes]
    return passes


def _in_absence(current: Pass, off: Collection[str]) -> Pass:
    """A pass with the options that it takes when those in `off` do not run."""
    options = {
        k: v
        for name, chosen in current.fallback_options.items()
        if name in off
        for k, v in chosen.items()
    }
    return dataclasses.replace(current, **options) if options else current


def run_pipeline(
    module: ModuleOp,
    passes: Sequence[Pass],
    target: TargetInfo,
    *,
    disabled: Collection[str] = (),
    verify: Literal["level", "each", "off"] = "level",
    observer: Observer | None = None,
    stop_after: str | None = None,
) -> PipelineResult:
    """Run `passes` on `module` in place.

    `verify`: "level" checks the IR once at the end, "each" after every pass, "off" never; IR that does
    not verify raises InternalError naming the pass, as does a pass that fails. `stop_after` is a pass name, or `name:n` for its n-th
    run in the pipeline (counted from 1).
    """
    chosen, dropped = without_disabled(passes, disabled)
    chosen = _until(chosen, stop_after, dropped)
    text = str(module) if observer is not None else ""
    present: set[str] | None = None
    latest: Pass | None = None
    for current in chosen:
        start = time.perf_counter()
        if current.relevant_ops and present is None:
            present = {op.name for op in module.walk()}
        idle = (
            current.relevant_ops
            and present is not None
            and present.isdisjoint(current.relevant_ops)
        )
        if not idle and not (current.idempotent and current == latest):
            present, latest = None, current  # what is present after it is not known
            with internal_errors(f"in pass {current.name}"):
                current.apply(module, target)
        seconds = time.perf_counter() - start
        if observer is not None:
            before, text = text, str(module)
            observer(current.name, seconds, before != text, module)
        if verify == "each":
            _verify(module, current.name)
    if verify == "level":
        _verify(module, ", ".join(p.name for p in chosen))
    return PipelineResult(tuple(p.name for p in chosen), dropped)


def _verify(module: ModuleOp, after: str) -> None:
    with internal_errors("to keep its own IR in order"):
        verify_ir(module, after)


def _until(
    passes: tuple[Pass, ...], stop_after: str | None, dropped: tuple[str, ...]
) -> tuple[Pass, ...]:
    """The beginning of `passes` up to and with the one that `stop_after` names."""
    if stop_after is None:
        return passes
    name, _, count = stop_after.partition(":")
    wanted = int(count) if count.isdigit() else 1
    for position, current in enumerate(passes):
        wanted -= current.name == name
        if wanted == 0:
            return passes[: position + 1]
    if name in dropped:
        raise PassError(f"cannot stop after {stop_after}: the pass is switched off")
    raise PassError(
        f"cannot stop after {stop_after}: the pipeline does not have it",
        help=f"passes in order: {', '.join(p.name for p in passes)}",
    )
