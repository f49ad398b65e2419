"""`tilewright bench`: the project's tables, a file's `perf_report`s, or one kernel."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import typer

from tilewright import dtypes
from tilewright.cli import signature as signatures
from tilewright.cli.loading import find_kernel, kernels_in, load_place
from tilewright.errors import LaunchError

_ARRAY = re.compile(r"\*(k?[a-z0-9]+)\[([\d\s,_]+)\]")
#: the project's tables, in a checkout
_TABLES = (Path("benchmarks", "cpu_kernels.py"), Path("benchmarks", "costs.py"))


def bench(
    place: str | None, signature: str, grid: str | None, milliseconds: int, save: Path | None
) -> None:
    """Measure what `place` names; see `tilewright bench --help`."""
    if place is None:
        if not all(table.is_file() for table in _TABLES):
            raise LaunchError(
                "nothing to benchmark",
                help="in a checkout: its tables; else tilewright bench FILE.py[:NAME]",
            )
        codes = [subprocess.run([sys.executable, str(t)], check=False).returncode for t in _TABLES]
        raise SystemExit(max(codes))
    from tilewright.testing import Mark

    module, name = load_place(place, placeholders=False)
    chosen = {name: getattr(module, name, None)} if name else vars(module)
    marks = {n: value for n, value in chosen.items() if isinstance(value, Mark)}
    for mark in marks.values():
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
        mark.run(print_data=True, save_path=str(save) if save else "")
    if marks:
        return
    if not name and not kernels_in(module):
        raise LaunchError(f"{place} has no perf_report and no kernel")
    _bench_kernel(place, signatures.split(signature), grid, milliseconds)


def _bench_kernel(place: str, given: dict[str, str], grid: str | None, milliseconds: int) -> None:
    from tilewright.testing import do_bench

    found = find_kernel(place, placeholders=False)
    if grid is None:
        raise LaunchError("a kernel needs a grid", help="add --grid 97 or --grid 8,8")
    try:
        extents = tuple(int(part) for part in grid.split(","))
    except ValueError:
        raise LaunchError(f"'{grid}' is not a valid grid", help="write 97 or 8,8,2") from None
    arrays = {n: _array(t) for n, t in given.items() if t.startswith("*")}
    rest = {n: t for n, t in given.items() if n not in arrays}
    short = {n: t.partition("[")[0] for n, t in given.items() if n in arrays}
    types = signatures.resolve(found.kernel, {**short, **rest}, found.decorated, vars(found.module))
    from_outside = {n: v for n, v in types.values.items() if types.reasons[n] == "given"}
    arguments = {**from_outside, **arrays}
    for name, reason in types.reasons.items():
        if reason == signatures.GUESS or (name in rest and name not in arguments):
            raise LaunchError(
                f"'{name}' needs a value", help=f'add -s "{name}=*fp32[1024]" or "{name}=1024"'
            )
    low, median, high = do_bench(
        lambda: found.decorated[extents](**arguments),
        warmup=25, rep=milliseconds, quantiles=[0.2, 0.5, 0.8],
    )  # fmt: skip
    size = sum(array.nbytes for array in arrays.values())
    typer.echo(f"{found.name}: {median:.4f} ms (20 % {low:.4f}, 80 % {high:.4f})")
    typer.echo(f"its arrays hold {size} bytes: {size / median / 1e6:.1f} GB/s if touched once")


def _array(text: str) -> Any:
    """`*fp32[1024,1024]` as an array of random numbers (small integers for integer types)."""
    import ml_dtypes  # noqa: F401  (registers bfloat16 and fp8 with NumPy)
    import numpy as np

    match = _ARRAY.fullmatch(text.replace(" ", ""))
    if match is None:
        raise LaunchError(f"'{text}' has no extents", help='write "*fp32[1024,1024]"')
    try:
        kind = dtypes.from_short_name(match[1].removeprefix("k"))
    except KeyError:
        raise LaunchError(f"'{match[1]}' is not an element type") from None
    shape = tuple(int(part) for part in match[2].split(",") if part)
    random = np.random.default_rng(0)
    if isinstance(kind, dtypes.pointer_type):
        raise LaunchError(f"'{text}' is an array of pointers")
    if kind.is_floating():
        return random.standard_normal(shape, dtype=np.float32).astype(np.dtype(kind.array_name))
    top = 2 if kind.is_bool() else 100
    return random.integers(0, top, shape).astype(np.dtype(kind.array_name))
