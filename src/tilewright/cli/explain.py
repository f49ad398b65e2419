"""`tilewright explain`: specialization, effects of the passes and resulting code of a kernel."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import typer

from tilewright.backends import registry
from tilewright.backends.base import LaunchPlan
from tilewright.cli import signature as signatures
from tilewright.cli.loading import find_kernel
from tilewright.cli.signature import Signature, launch_options, parsed_options
from tilewright.cli.stages import Trace, trace
from tilewright.dtypes import constexpr
from tilewright.passes.pipeline import shared_passes
from tilewright.runtime.access_report import AccessReport, report_accesses
from tilewright.runtime.interface import innermost


def explain(
    place: str,
    signature: str,
    disabled: Sequence[str] = (),
    target: str | None = None,
    options: Sequence[str] = (),
) -> None:
    """Print the explanation of the kernel at `place`, for this CPU or a target, as a launch with `options`."""
    found = find_kernel(place)
    types = signatures.of_kernel(found, signature)
    machine = registry.machine(target) if target else None
    given_launch = target is not None or bool(options)
    launch = launch_options(found, parsed_options(options)) if given_launch else None
    result = trace(found.kernel, types, disabled=disabled, target=machine, options=launch)
    typer.echo(f"{found.name}, {found.kernel.file}:{found.kernel.first_line}")
    for title, lines in (
        ("parameters", _parameters(types)),
        ("also compiled in", _dependencies(result)),
        ("memory accesses", _accesses(result)),
        ("passes", _passes(result)),
        ("launch plan", _plan(result)),
    ):
        lines = list(lines)
        if lines:
            typer.echo(f"\n{title}")
            for line in lines:
                typer.echo(f"  {line}")


def _parameters(types: Signature) -> Iterator[str]:
    width = max(map(len, types.types), default=0)
    for name, item in types.types.items():
        if isinstance(item.type, constexpr):
            what = "compiled in"
            if types.reasons[name] == "given" and item.type.value == 1:
                what += " (1 always is)"
        elif isinstance(item.type, tuple):
            what = "a tuple: its numbers are passed, the rest is compiled in"
        elif item.type.is_ptr():
            what = "an address" + (", 16-byte aligned" if item.divisible else "")
        else:
            what = "passed" + (", divisible by 16" if item.divisible else "")
        reason = types.reasons[name]
        yield f"{name:<{width}}  {types.text(name):<10}  {what}; {reason}"


def _dependencies(result: Trace) -> Iterator[str]:
    for (function, path), value in result.built.globals_read.items():
        yield f"{path} = {value!r}, read by {function.fn.__name__}"
    for callee in result.built.callees:
        yield f"{callee.fn.__name__}, inlined, {callee.file}:{callee.first_line}"


def _accesses(result: Trace) -> Iterator[str]:
    """Count structured and element-wise loads and stores.

    Counted after the target-independent passes, before tiles are lowered to loops.
    """
    shared = sum(p.name not in result.dropped for p in shared_passes())
    text = result.stages[: shared + 1][-1].text
    counts = Counter(re.findall(r"\btile\.(load|store|load_view|store_view|atomic_\w+)\b", text))
    structured = counts["load_view"], counts["store_view"]
    single = counts["load"], counts["store"]
    atomics = sum(n for name, n in counts.items() if name.startswith("atomic"))
    yield f"structured (strides and bounds known): {structured[0]} loads, {structured[1]} stores"
    yield f"by single addresses (gathers, scatters, scalars): {single[0]} loads, {single[1]} stores"
    if atomics:
        yield f"atomics: {atomics}"


def _passes(result: Trace) -> Iterator[str]:
    changed = [s.name for s in result.stages[1:] if s.changed]
    idle = [s.name for s in result.stages[1:] if not s.changed]
    total = sum(s.seconds for s in result.stages) * 1e3
    yield f"changed the IR: {', '.join(changed) or 'none'}"
    if idle:
        yield f"found nothing to do: {', '.join(idle)}"
    if result.dropped:
        yield f"left out: {', '.join(result.dropped)}"
    yield f"time: {total:.1f} ms without machine code"


def _plan(result: Trace) -> Iterator[str]:
    artifact = result.artifact()
    plan, target = artifact.plan, result.target
    if target.is_gpu:
        yield from _gpu_plan(result, plan)
        return
    features = f"{target.vector_bits}-bit vectors, {target.cores} threads"
    yield f"target: {target.name}, {target.cpu}, {features}"
    yield f"entry: {plan.name}, {len(artifact.object_code)} bytes of object code"
    for a in plan.arguments:
        written = ", may be written" if a.kind == "pointer" and a.written else ""
        yield f"slot: {a.name}, {a.kind} {a.type}{written}"
    yield f"scratch: {plan.scratch_bytes} bytes per thread"
    yield f"estimate: {plan.program_cost:.0f} ns a program (small grids run on one thread)"
    for site in plan.asserts:
        yield f"device_assert at {site.file}:{site.line}: {site.message}"
    if plan.prints:
        yield "prints: it calls back to print"


def _gpu_plan(result: Trace, plan: LaunchPlan) -> Iterator[str]:
    several = f"{plan.cluster_size} CTAs (a cluster) of " if plan.cluster_size > 1 else ""
    yield f"target: {result.target.name}"
    yield f"a program: {several}{plan.threads} threads, {plan.shared_bytes} bytes of shared memory"
    if plan.cluster_size > 1 and result.options.num_ctas == 1:
        yield "cluster: its CTAs hold rows in registers that one has not enough of"
    if plan.registers:
        yield f"registers: {plan.registers} a thread, {plan.spills} spilled"
    yield from (f"slot: {a.name}, {a.kind} {a.type}" for a in plan.arguments)


def explain_accesses(
    place: str,
    signature: str,
    disabled: Sequence[str] = (),
    target: str | None = None,
    options: Sequence[str] = (),
    json_to: Path | None = None,
) -> None:
    """Print the accesses of the kernel at `place`, or write them as JSON (`-`: print that)."""
    found = find_kernel(place)
    types = signatures.of_kernel(found, signature)
    machine = registry.machine(target or "cpu")
    launch = launch_options(found, parsed_options(options))
    launch = replace(launch, disable=(*launch.disable, *disabled))
    accesses = report_accesses(innermost(found.kernel), types.types, launch, machine)
    if json_to is not None:
        content = {
            "kernel": found.name,
            "target": machine.name,
            "signature": {name: types.text(name) for name in types.types},
            "accesses": list(map(asdict, accesses)),
        }
        text = json.dumps(content, indent=2) + "\n"
        if str(json_to) == "-":
            typer.echo(text, nl=False)
        else:
            json_to.write_text(text, encoding="utf-8")
        return
    typer.echo(f"kernel {found.name}({types.line()}) on {machine.name}")
    if types.guesses:
        typer.echo(f"types guessed, --signature says others: {types.guesses}")
    for access in accesses:
        for line in lines_of(access):
            typer.echo(line)


def lines_of(access: AccessReport) -> Iterator[str]:
    """An access for the terminal."""
    yield f"\n{access.file}:{access.line}:{access.column}"
    yield f"    {access.source}"
    stages = f", {access.stages} stages ahead" if access.stages > 1 else ""
    yield f"  {access.kind} of {access.type}: {' / '.join(access.forms)}{stages}"
    for missed in access.missed:
        yield f"  no {missed.form}: {missed.fact} [{missed.code}]"
        if missed.help:
            yield f"    help: {missed.help}"
