"""The numbers of one benchmark: text, CSV, HTML, and a DataFrame where pandas is installed."""

from __future__ import annotations

import csv
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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

    def x_positions(self) -> list[Any]:
        """The first x value of each row (its position on the axis)."""
        return [row[0] for row in self.rows]

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
