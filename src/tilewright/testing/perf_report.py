"""`perf_report`: run a benchmark function over sizes and providers; tables, plots, CSV and HTML.

Sources: the arguments of `Benchmark` and `Mark.run` are those of `triton.testing`. matplotlib is
imported when a plot is asked for, pandas only for `return_df`.
"""

from __future__ import annotations

import csv
import html
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(eq=False)
class Benchmark:
    """What to measure and how to draw it.

    Args:
        x_names: argument names of the benchmark function that vary along the x axis.
        x_vals: values; a tuple or list gives one value to each name, a scalar the same to all.
        line_arg: argument name whose values are different lines (e.g. "provider").
        line_vals, line_names: its values and their labels.
        plot_name: title, and name of the files.
        args: fixed arguments.
        xlabel, ylabel, x_log, y_log: the axes; `xlabel` is the first x name by default.
        styles: `(color, line style)` a line.
        color: accepted for Triton's sake.
    """

    x_names: Sequence[str]
    x_vals: Sequence[Any]
    line_arg: str
    line_vals: Sequence[Any]
    line_names: Sequence[str]
    plot_name: str
    args: Mapping[str, Any]
    xlabel: str = ""
    ylabel: str = ""
    x_log: bool = False
    y_log: bool = False
    color: Any = None
    styles: Sequence[tuple[str | None, str | None]] | None = None

    def __post_init__(self) -> None:
        for name in ("x_names", "x_vals", "line_vals", "line_names"):  # which may be iterators
            setattr(self, name, list(getattr(self, name)))
        if len(self.line_vals) != len(self.line_names):
            raise ValueError(
                f"benchmark {self.plot_name!r}: {len(self.line_vals)} line_vals and "
                f"{len(self.line_names)} line_names; give one name a value"
            )

    def x_arguments(self, x: Any) -> tuple[Any, ...]:
        """One value for each of `x_names`."""
        values = tuple(x) if isinstance(x, (tuple, list)) else (x,) * len(self.x_names)
        if len(values) != len(self.x_names):
            raise ValueError(f"{len(self.x_names)} x_names need as many values, got {x!r}")
        return values


@dataclass
class Mark:
    """A benchmark function with its `Benchmark`s; made by `perf_report`."""

    fn: Callable[..., Any]
    benchmarks: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Measure one point: the function itself."""
        return self.fn(*args, **kwargs)

    def run(
        self,
        show_plots: bool = False,
        print_data: bool = False,
        save_path: str | Path = "",
        return_df: bool = False,
        *,
        diff_col: bool = False,
        save_precision: int = 6,
        **kwargs: Any,
    ) -> Any:
        """Measure everything.

        Args:
            show_plots: draw and show (where there is no display nothing is shown).
            print_data: print a table for each benchmark.
            save_path: folder for `<plot name>.png`, `.csv` and one `results.html`; "" saves none.
            return_df: return a pandas DataFrame (a list of them for several benchmarks).
            diff_col: add a column "Diff", second line minus first, when there are two lines.
            save_precision: decimal places in the CSV.
            kwargs: further arguments of the benchmark function.

        The function returns a number, or `(value, lowest, highest)` which are drawn as a band.

        Raises:
            ImportError: `return_df` without pandas; the numbers are in `tables()` without it.
        """
        single = isinstance(self.benchmarks, Benchmark)
        benches = [self.benchmarks] if single else list(self.benchmarks)
        if return_df:
            _need_pandas()
        tables = [self._measure(bench, diff_col, kwargs) for bench in benches]
        folder = Path(save_path) if str(save_path) else None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        for bench, table in zip(benches, tables, strict=True):
            if show_plots or folder is not None:
                _draw(bench, table, show_plots, folder)
            if print_data:
                print(f"{bench.plot_name}:\n{table.to_text()}")
            if folder is not None:
                table.write_csv(folder / f"{bench.plot_name}.csv", save_precision)
        if folder is not None:
            _write_html(folder, benches, tables)
        if not return_df:
            return None
        frames = [table.to_dataframe() for table in tables]
        return frames[0] if single else frames

    def tables(self, **kwargs: Any) -> list[ResultTable]:
        """Measure everything and return plain tables, one per benchmark."""
        benches = [self.benchmarks] if isinstance(self.benchmarks, Benchmark) else self.benchmarks
        return [self._measure(bench, False, kwargs) for bench in benches]

    def _measure(self, bench: Benchmark, diff_col: bool, kwargs: dict[str, Any]) -> ResultTable:
        rows: list[list[Any]] = []
        lows: list[list[Any]] = []
        highs: list[list[Any]] = []
        for x in bench.x_vals:
            values = bench.x_arguments(x)
            fixed = {**dict(zip(bench.x_names, values, strict=True)), **bench.args, **kwargs}
            points = [_point(self.fn(**fixed, **{bench.line_arg: v})) for v in bench.line_vals]
            rows.append([*values, *(p[0] for p in points)])
            lows.append([p[1] for p in points])
            highs.append([p[2] for p in points])
        unit = f" ({bench.ylabel})" if bench.ylabel else ""
        table = ResultTable(
            [*bench.x_names, *(f"{name}{unit}" for name in bench.line_names)],
            rows,
            lows,
            highs,
            len(bench.x_names),
        )
        if diff_col and len(bench.line_vals) == 2:
            table.add_difference()
        return table


def _point(result: Any) -> tuple[Any, Any, Any]:
    """Value, lowest, highest of what a benchmark function returned."""
    if isinstance(result, (tuple, list)):
        if len(result) == 3:
            return result[0], result[1], result[2]
        raise ValueError(
            f"a benchmark function returned {len(result)} values; return a number or "
            "(value, lowest, highest)"
        )
    return result, None, None


def _need_pandas() -> None:
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise ImportError(
            "return_df=True needs pandas, which is not installed; install it "
            "(pip install 'tilewright[report]') or use .tables(), which does not need it"
        ) from None


def _draw(bench: Benchmark, table: ResultTable, show: bool, folder: Path | None) -> None:
    """Plot lines and bands; save them under `folder` and show them where a display exists."""
    figure, finish = _new_figure(show)
    axes = figure.subplots()
    xs = [row[0] for row in table.rows]
    for number, name in enumerate(bench.line_names):
        ys = table.line(number)
        color, style = bench.styles[number] if bench.styles else (None, None)
        (line,) = axes.plot(xs, ys, label=name, color=color, linestyle=style)
        low, high = table.band(number)
        if low is not None and high is not None:
            axes.fill_between(xs, low, high, alpha=0.15, color=line.get_color())
    axes.legend()
    axes.set_xlabel(bench.xlabel or bench.x_names[0])
    axes.set_ylabel(bench.ylabel)
    axes.set_xscale("log" if bench.x_log else "linear")
    axes.set_yscale("log" if bench.y_log else "linear")
    if folder is not None:
        figure.savefig(folder / f"{bench.plot_name}.png")
    finish()


def _new_figure(show: bool) -> tuple[Any, Callable[[], None]]:
    """A matplotlib figure and what shows and closes it.

    Only showing needs pyplot and a window toolkit (it falls back to Agg without a display).
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "plots need matplotlib, which is not installed: pip install 'tilewright[report]', "
            "or run without show_plots and save_path"
        ) from None
    if not show:
        return Figure(), lambda: None
    import matplotlib.pyplot as pyplot

    figure = pyplot.figure()

    def show_and_close() -> None:
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            pyplot.show()
        pyplot.close(figure)

    return figure, show_and_close


def _write_html(folder: Path, benches: Sequence[Benchmark], tables: Sequence[ResultTable]) -> None:
    parts = ["<html><head><meta charset='utf-8'><title>results</title></head><body>"]
    for bench, table in zip(benches, tables, strict=True):
        name = html.escape(bench.plot_name)
        parts.append(f"<h2>{name}</h2>\n<img src='{name}.png' alt='{name}'/>\n{table.to_html()}")
    parts.append("</body></html>\n")
    (folder / "results.html").write_text("\n".join(parts), encoding="utf-8")


def perf_report(benchmarks: Benchmark | Sequence[Benchmark]) -> Callable[[Any], Mark]:
    """Decorate a function that measures one point; `.run(...)` then measures all of them.

    Args:
        benchmarks: one `Benchmark` or a list of them. The function takes every name in `x_names`,
            `line_arg` and the keys of `args`.
    """

    def decorate(fn: Callable[..., Any]) -> Mark:
        return Mark(fn, benchmarks)

    return decorate


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6f}" if 1e-4 <= abs(value) < 1e9 or value == 0 else f"{value:.6g}"
    return "" if value is None else str(value)


@dataclass
class ResultTable:
    """Rows of `x_count` sizes followed by one value a line; `lows` and `highs` bound the values.

    A value is a number, or None where a benchmark function gave nothing.
    """

    columns: list[str]
    rows: list[list[Any]]
    lows: list[list[Any]]
    highs: list[list[Any]]
    x_count: int

    def line(self, number: int) -> list[float]:
        """Values of one line; NaN where there is none."""
        return [_or_nan(row[self.x_count + number]) for row in self.rows]

    def band(self, number: int) -> tuple[list[float] | None, list[float] | None]:
        """Lowest and highest values of one line, None when no row has them."""
        low = [row[number] for row in self.lows]
        high = [row[number] for row in self.highs]
        if all(value is None for value in (*low, *high)):
            return None, None
        return [_or_nan(v) for v in low], [_or_nan(v) for v in high]

    def add_difference(self) -> None:
        """Append the column "Diff": second line minus first."""
        self.columns.append("Diff")
        for row in self.rows:
            first, second = row[self.x_count], row[self.x_count + 1]
            known = _is_number(first) and _is_number(second)
            row.append(second - first if known else None)

    def to_text(self) -> str:
        """Aligned columns with row numbers, as pandas prints them."""
        numbered = [["", *self.columns]]
        numbered += [[str(i), *map(_text, row)] for i, row in enumerate(self.rows)]
        widths = [max(len(row[c]) for row in numbered) for c in range(len(numbered[0]))]
        lines = [
            "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True))
            for row in numbered
        ]
        return "\n".join(lines)

    def write_csv(self, path: Path, precision: int) -> None:
        """Comma separated, numbers with `precision` decimal places."""
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(self.columns)
            for row in self.rows:
                writer.writerow(
                    f"{cell:.{precision}f}" if isinstance(cell, float) else _text(cell)
                    for cell in row
                )

    def to_html(self) -> str:
        """An HTML table."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = "\n".join(
            "<tr>" + "".join(f"<td>{html.escape(_text(cell))}</td>" for cell in row) + "</tr>"
            for row in self.rows
        )
        return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"

    def to_dataframe(self) -> Any:
        """A pandas DataFrame of the rows. Raises ImportError without pandas."""
        import pandas

        return pandas.DataFrame(self.rows, columns=_unique(self.columns))


def _or_nan(value: Any) -> float:
    return float("nan") if value is None else value


def _unique(names: Sequence[str]) -> list[str]:
    """Names with " (2)" … appended where one repeats, which DataFrames and CSV readers mind."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result
