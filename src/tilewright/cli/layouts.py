"""`tilewright show --layouts`: which thread holds which element, as a table and as a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tilewright.dialects import gpu
from tilewright.errors import LaunchError
from tilewright.layouts import Layout
from tilewright.layouts.layout import Vector, parse_layout
from tilewright.layouts.shared import SharedLayout, parse_shared

_NAMED = 6
_WRITTEN = 512
"""Cells of a picture that are large enough for numbers, along a side at most these."""
_SIDE = 32
_COLUMNS = 3
_LEGEND = 16
"""Most warps in a legend."""


@dataclass
class Drawn:
    """One layout of a kernel and the values that have it; `stages` of a buffer in shared memory."""

    layout: Layout | SharedLayout
    stages: int = 0
    values: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        if isinstance(self.layout, SharedLayout):
            return f"{self.layout.rows}x{self.layout.columns} shared"
        return "x".join(map(str, self.layout.shape))


def layouts_in(module: Any) -> list[Drawn]:
    """The distinct layouts of a module's tiles and buffers, in order of appearance."""
    found: dict[str, Drawn] = {}

    def note(value: SSAValue, maker: str) -> None:
        kind: Any = value.type
        if isinstance(kind, gpu.SharedType):
            entry = Drawn(gpu.shared_layout_of(value), kind.stages.data)
        else:
            layout = gpu.layout_of(value)
            if layout is None:
                return
            entry = Drawn(layout)
        entry = found.setdefault(f"{entry.stages} {entry.layout}", entry)
        entry.values.append(f"{value.name_hint} ({maker})" if value.name_hint else maker)

    for op in module.walk():
        for result in op.results:
            note(result, op.name)
        for region in op.regions:
            for block in region.blocks:
                for arg in block.args:
                    note(arg, f"carried by {op.name}")
    return list(found.values())


def table_of(found: list[Drawn]) -> str:
    """The layouts as text: sizes, copies of elements, basis vectors, values."""
    if not found:
        return "no tile of this kernel has a layout: only GPU targets assign them\n"
    lines = []
    for number, entry in enumerate(found, 1):
        lines.append(f"{number:>3}  {_facts(entry)}")
        lines.append(f"     {entry.layout}")
        names = list(dict.fromkeys(entry.values))
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        if names:
            lines.append(f"     {', '.join(names[:_NAMED])}{more}")
    return "\n".join(lines) + "\n"


def _facts(entry: Drawn) -> str:
    layout = entry.layout
    if isinstance(layout, SharedLayout):
        swizzle = (
            f"swizzled over {layout.swizzle_bytes} bytes" if layout.swizzled else "not swizzled"
        )
        if layout.pad:
            swizzle = f"lines padded by {layout.pad} elements"
        return (
            f"{layout.rows}x{layout.columns} of {layout.size} bytes in shared memory, "
            f"contiguous along dimension {layout.major_dim}, {swizzle}, {entry.stages} stages, "
            f"{layout.bytes * entry.stages} bytes"
        )
    copies = 1 << sum(len(layout.replicated(k)) for k in ("registers", "lanes", "warps"))
    copies *= layout.groups if layout.same_in_groups else 1
    each = f", each element {copies} times" if copies > 1 else ""
    return (
        f"{entry.title}: {layout.registers_per_thread} registers in each of 32 lanes of "
        f"{layout.warp_count} warps{each}"
    )


# ---- pictures -------------------------------------------------------------------------------------


def owners(layout: Layout) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(register, lane, warp) of each element, as matrices; of more dimensions one slice below the other."""
    rows, columns = layout.shape[-2:] if layout.rank > 1 else (1, *layout.shape)
    before: Vector = layout.shape[:-2]
    cells = np.zeros((3, *before, rows, columns), np.int64)
    for place in np.ndindex(*before, rows, columns):
        cells[(slice(None), *place)] = layout.holder(place if layout.rank > 1 else place[1:])
    register, lane, warp = cells.reshape(3, -1, columns)
    return register, lane, warp


def from_text(text: str) -> Drawn | None:
    """A layout as tables and dumps write it; None for other text."""
    for parse in (parse_layout, parse_shared):
        try:
            return Drawn(parse(" ".join(text.split())), stages=int(parse is parse_shared))
        except ValueError:
            continue
    return None


def draw(found: list[Drawn], path: Path) -> None:
    """Write a picture: color says the warp (see the legend), shade the lane; of shared memory, color says the bank.

    Raises LaunchError without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise LaunchError(
            "pictures need matplotlib, which is not installed",
            help="pip install 'tilewright[report]', or --layouts - for the table alone",
        ) from None
    columns = min(_COLUMNS, max(1, len(found)))
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(6 * columns, 5 * max(1, rows)), layout="constrained")
    for number, entry in enumerate(found, 1):
        axes = figure.add_subplot(rows, columns, number)
        names = list(dict.fromkeys(entry.values))
        axes.set_title(f"{number}: {entry.title}  {', '.join(names[:2])}".rstrip(), fontsize=9)
        if isinstance(entry.layout, SharedLayout):
            _draw_shared(axes, entry.layout)
        else:
            _draw_registers(axes, entry.layout)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def _draw_registers(axes: Any, layout: Layout) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Patch

    register, lane, warp = owners(layout)
    colours = colormaps["tab10"](warp % 10)[..., :3]
    shade = (0.35 + 0.65 * lane / 31)[..., None]
    axes.imshow(1 - shade * (1 - colours), interpolation="nearest", aspect="auto")
    _whole_ticks(axes)
    for edge in range(layout.shape[-2], len(lane), layout.shape[-2]) if layout.rank > 2 else ():
        axes.axhline(edge - 0.5, color="black", linewidth=0.8)
    axes.set_xlabel("shade: lane" + (", text: lane.register" if _room(lane) else ""))
    warps = sorted({int(w) for w in np.unique(warp)})
    listed = warps if len(warps) <= _LEGEND else [*warps[: _LEGEND - 1], warps[-1]]
    handles = [Patch(color=colormaps["tab10"](w % 10)[:3], label=f"warp {w}") for w in listed]
    axes.legend(handles=handles, fontsize=6, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    if _room(lane):
        for row, column in np.ndindex(*lane.shape):
            text = f"{lane[row, column]}.{register[row, column]}"
            axes.text(column, row, text, ha="center", va="center", fontsize=5)


def _draw_shared(axes: Any, layout: SharedLayout) -> None:
    banks = np.array(
        [
            [layout.offset(row, column) // 4 % 32 for column in range(layout.columns)]
            for row in range(layout.rows)
        ]
    )
    axes.imshow(banks, cmap="twilight", interpolation="nearest", aspect="auto")
    _whole_ticks(axes)
    axes.set_xlabel("color: bank" + (", text: bank" if _room(banks) else ""))
    if _room(banks):
        for row, column in np.ndindex(*banks.shape):
            text = str(banks[row, column])
            axes.text(column, row, text, ha="center", va="center", fontsize=5)


def _whole_ticks(axes: Any) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.get_major_locator().set_params(integer=True)


def _room(cells: np.ndarray) -> bool:
    return cells.size <= _WRITTEN and max(cells.shape) <= _SIDE
