"""`tilewright compare`: a program's kernels under Triton and under tilewright."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from tilewright.compare.report import GOOD, html_of, json_of, print_table
from tilewright.compare.session import Choice, Limits, compare_program


def compare(
    program: str,
    arguments: Sequence[str],
    choice: Choice,
    limits: Limits,
    json_to: Path | None,
    html_to: Path | None,
) -> bool:
    """Compare, print the table, write the files; gives whether all results agree."""

    def progress(row: dict[str, Any]) -> None:
        ratio = f" {row['ratio']:.2f}" if row["ratio"] is not None else ""
        typer.echo(f"{row['kernel']}: {row['status']}{ratio}", err=True)

    found = compare_program(program, tuple(arguments), limits, choice, progress)
    print_table(found)
    if json_to is not None:
        json_to.write_text(json_of(found), encoding="utf-8")
    if html_to is not None:
        html_to.write_text(html_of(found), encoding="utf-8")
    return all(row["status"] in GOOD for row in found.rows)
