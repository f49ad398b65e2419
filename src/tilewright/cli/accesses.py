"""`tilewright explain --access`: the form of each load and store, and what a better one would need."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import typer

from tilewright.backends import registry
from tilewright.cli import signature as signatures
from tilewright.cli.loading import find_kernel
from tilewright.cli.options import launch_options, parsed_options
from tilewright.runtime.access_report import AccessReport, report_accesses
from tilewright.runtime.interface import innermost


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
    given = signatures.split(signature)
    types = signatures.resolve(found.kernel, given, found.decorated, vars(found.module))
    machine = registry.machine(target) if target else registry.get("cpu").target()
    launch = launch_options(found, parsed_options(options))
    launch = replace(launch, disable=(*launch.disable, *disabled))
    accesses = report_accesses(innermost(found.kernel), types.types, launch, machine)
    if json_to is not None:
        content = {
            "kernel": found.name,
            "target": machine.name,
            "signature": {name: types.text(name) for name in types.types},
            "accesses": [access.as_dict() for access in accesses],
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
