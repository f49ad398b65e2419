"""`tilewright export`: a kernel compiled ahead of time, as files that C programs build with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.cli import signature as signatures
from tilewright.cli.loading import find_kernel
from tilewright.cli.signature import parsed_options
from tilewright.runtime.compiler import compile_kernel


def export(
    place: str,
    signature: str,
    folder: Path,
    name: str | None,
    grid: str | None,
    target: str,
    options: Sequence[str],
    disabled: Sequence[str],
) -> None:
    """Compile what `place` names and write its files; see `tilewright export --help`."""
    machine = registry.machine(target)
    found = find_kernel(place)
    types = signatures.of_kernel(found, signature)
    if types.guesses:
        typer.echo(f"types guessed, --signature says others: {types.guesses}", err=True)
    chosen = replace(Options(**parsed_options(options)), disable=tuple(disabled))
    compiled = compile_kernel(found.kernel, types.types, chosen, machine)
    made = compiled.export(folder, name, None if grid is None else signatures.commas(grid))
    typer.echo(f"{made.prototype};\n{made.header}\n{made.code}")
