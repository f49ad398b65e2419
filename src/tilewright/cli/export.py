"""`tilewright export`: a kernel compiled ahead of time, as files that C programs build with."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import typer

from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.cli import signature as signatures
from tilewright.cli.loading import find_kernel
from tilewright.errors import LaunchError


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
    from tilewright.runtime.compiler import compile_kernel

    machine = registry.machine(target)
    found = find_kernel(place)
    types = signatures.resolve(
        found.kernel, signatures.split(signature), found.decorated, vars(found.module)
    )
    if types.guesses:
        typer.echo(f"types guessed, --signature says others: {types.guesses}", err=True)
    chosen = replace(Options(**_options(options)), disable=tuple(disabled))
    compiled = compile_kernel(found.kernel, types.types, chosen, machine)
    made = compiled.export(folder, name, None if grid is None else signatures.commas(grid))
    typer.echo(f"{made.prototype};\n{made.header}\n{made.code}")


def _options(texts: Sequence[str]) -> dict[str, Any]:
    known = {field.name for field in fields(Options)} - {"disable"}
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key.strip() not in known:
            raise LaunchError(f"'{text}' is no option", help=f"options: {', '.join(sorted(known))}")
        try:
            found[key.strip()] = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError):
            raise LaunchError(f"'{value}' is no value for {key}") from None
    return found
