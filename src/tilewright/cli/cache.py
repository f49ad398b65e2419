"""`tilewright cache`: what the disk cache holds."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import typer

from tilewright.runtime.cache import disk_cache


@dataclass(frozen=True)
class Contents:
    """The number of entries and bytes in a cache folder."""

    entries: int
    bytes: int


def contents(directory: Path) -> Contents:
    """Count the entries of a cache folder; one that does not exist holds nothing."""
    count = total = 0
    for path in directory.glob("*/*.entry"):
        with contextlib.suppress(OSError):  # another process may delete it meanwhile
            total += path.stat().st_size
            count += 1
    return Contents(count, total)


def size_text(size: int) -> str:
    """`1.5 MiB`."""
    amount, unit = float(size), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def info() -> None:
    """Print where the cache is and how full."""
    cache = disk_cache()
    found = contents(cache.directory)
    typer.echo(f"folder   {cache.directory}")
    typer.echo(f"entries  {found.entries}")
    typer.echo(f"size     {size_text(found.bytes)} of at most {size_text(cache.limit_bytes)}")


def clear() -> None:
    """Delete all entries and say how many there were."""
    cache = disk_cache()
    before = contents(cache.directory)
    cache.clear()
    left = contents(cache.directory)
    typer.echo(f"deleted {before.entries - left.entries} entries, {size_text(before.bytes)}")
