"""Report the form of each load and store of a kernel on a target, and the missing facts for a better one.

The forms are read off the IR after the last pass; the reasons are the remarks of the passes that chose them
(`passes/analysis/remarks.py`). An access is identified by its source location, even if passes have duplicated it.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tilewright.backends import registry
from tilewright.backends.base import Options, TargetInfo
from tilewright.dialects import cpu, gpu, tile
from tilewright.errors import SourceLocation
from tilewright.ir.location import location_of
from tilewright.passes.analysis.remarks import Remark, recorded
from tilewright.passes.gpu.analysis.accesses import contiguous_dim, tile_of, vector_of
from tilewright.runtime.compiler import build_ir, compiling_for
from tilewright.runtime.specialize import ArgumentType

_RANKS = {
    "strided": 1,
    "vector": 2,
    "4 bytes": 2,
    "8 bytes": 2,
    "16 bytes": 2,
    "asynchronous copy": 3,
    "copy in a pipeline": 4,
    "TMA tile": 5,
}
"""Forms that remarks name, from the weakest."""


@dataclass(frozen=True)
class MissedForm:
    """A better form, the fact that is missing for it, and what provides the fact."""

    form: str
    code: str
    fact: str
    help: str


@dataclass(frozen=True)
class AccessReport:
    """A load, store or atomic of a kernel."""

    kind: str
    """"load", "store" or "atomic"."""
    type: str
    """Shape and data type of the tile, e.g. `128x64xf16`."""
    file: str
    line: int
    column: int
    """From 1, as editors count."""
    source: str
    """The line."""
    forms: tuple[str, ...]
    """In program order; several where passes made several versions of the access."""
    stages: int
    """Stages of the pipeline in which it is copied ahead; 1: none."""
    missed: tuple[MissedForm, ...]
    """Better forms, the next one first."""


def report_accesses(
    kernel: Any, signature: Mapping[str, ArgumentType], options: Options, machine: TargetInfo
) -> list[AccessReport]:
    """The accesses of a kernel (a JITFunction) compiled for these types, in the order of the source.

    Compiles as far as the last level of IR. Raises CompilationError and its kin.
    """
    with compiling_for(machine, options.num_warps):
        module = build_ir(kernel, signature, options)
    accesses: dict[_Key, tuple[str, str, SourceLocation]] = {}
    for op in module.walk():
        kind, where = _kind(op), location_of(op)
        if kind is not None and where is not None:
            accesses.setdefault((kind, _place(where)), (kind, _type(op), where))
    with recorded() as remarks:
        registry.get(machine.name).lower(module, options, machine)
    lowered = _lowered(module)
    about: dict[tuple[Any, ...], list[Remark]] = {}
    for remark in remarks:
        if remark.location is not None:
            about.setdefault(_place(remark.location), []).append(remark)
    found = [
        _report(*access, lowered.get(key, []), about.get(key[1], []))
        for key, access in accesses.items()
    ]
    return sorted(found, key=lambda a: (a.file, a.line, a.column))


_Key = tuple[str, tuple[Any, ...]]


def _place(where: SourceLocation) -> tuple[Any, ...]:
    callers: list[tuple[str, int, int]] = []
    current: SourceLocation | None = where
    while current is not None:
        callers.append((current.file, current.line, current.column))
        current = current.caller
    return tuple(callers)


def _kind(op: Operation) -> str | None:
    """The kind of global memory access of a front-end operation, or None."""
    if isinstance(op, tile.LoadOp | tile.LoadViewOp):
        return "load"
    if isinstance(op, tile.StoreOp | tile.StoreViewOp):
        return "store"
    return "atomic" if isinstance(op, tile.AtomicRMWOp | tile.AtomicCASOp) else None


def _type(op: Any) -> str:
    value = op.results[0] if op.results else op.value
    return "x".join([*map(str, tile.shape_of(value)), str(tile.element_of(value))])


def _lowered(module: Any) -> dict[_Key, list[tuple[str, int]]]:
    """Form and pipeline stages of all accesses of a module after the last pass."""
    found: dict[_Key, list[tuple[str, int]]] = {}
    for op in module.walk():
        form = _form(op)
        where = location_of(op) if form is not None else None
        if form is not None and where is not None:
            forms = found.setdefault((form[0], _place(where)), [])
            if form[1:] not in forms:
                forms.append(form[1:])
    return found


def _form(op: Any) -> tuple[str, str, int] | None:
    """Kind, form and stages of an operation after the last pass; None if it is not an access."""
    match op:
        case gpu.TmaLoadOp():
            checked = ", range-checked" if list(tile.ints(op.range_checked)) else ""
            return "load", f"TMA tile{checked}", _stages(op.buffer)
        case gpu.TmaStoreOp():
            return "store", "TMA tile", 1
        case gpu.AsyncCopyOp():
            return "load", f"cp.async of {_bytes(op)} bytes", _stages(op.buffer)
        case gpu.LocalLoadOp():
            return "load", _IN_SHARED, 1
        case tile.LoadViewOp():
            return "load", _global_form(op, "ld.global"), 1
        case tile.StoreViewOp():
            return "store", _global_form(op, "st.global"), 1
        case tile.LoadOp() | tile.StoreOp():
            kind = "load" if op.results else "store"
            return kind, _pointer_form(op), 1
        case tile.AtomicRMWOp() | tile.AtomicCASOp():
            return "atomic", _atomic_form(op), 1
        case cpu.VectorLoadOp():
            return "load", f"vector of {cpu.lanes_of(op.results[0])} lanes", 1
        case cpu.VectorStoreOp():
            return "store", f"vector of {cpu.lanes_of(op.value)} lanes", 1
        case cpu.GatherOp():
            return "load", f"gather of {cpu.lanes_of(op.results[0])} lanes", 1
        case cpu.ScatterOp():
            return "store", "scatter", 1
        case _:
            return None


def _stages(buffer: Any) -> int:
    return buffer.type.stages.data


def _bytes(op: Any) -> int:
    return vector_of(op) * tile.element_bytes(tile_of(op))


def _global_form(op: Any, name: str) -> str:
    if "indexed" in tile.view_kinds(op):
        how = "gather" if op.results else "scatter"
    else:
        how = "" if contiguous_dim(op) is not None else "strided"
    return f"{name} of {_bytes(op)} bytes" + (f" ({how})" if how else "")


def _pointer_form(op: Any) -> str:
    if not tile.shape_of(op.pointer):
        return "scalar"
    size = tile.element_bytes(op.results[0] if op.results else op.value)
    return f"{'gather' if op.results else 'scatter'} of elements of {size} bytes"


def _atomic_form(op: Any) -> str:
    width = vector_of(op)
    return f"red of {width} elements" if width > 1 else "one element at a time"


_IN_SHARED = "shared memory (copied or cached)"


def _report(
    kind: str,
    type_: str,
    where: SourceLocation,
    lowered: Sequence[tuple[str, int]],
    remarks: Sequence[Remark],
) -> AccessReport:
    forms = [form for form, _ in lowered]
    if len(forms) > 1 and any(form.startswith(("TMA", "cp.async")) for form in forms):
        forms = [form for form in forms if form != _IN_SHARED]
    stages = max((count for _, count in lowered), default=1)
    text = linecache.getline(where.file, where.line).strip()
    return AccessReport(
        kind, type_, where.file, where.line, where.column + 1, text,
        tuple(forms) or ("none left: unused, merged, or read by a dot's micro-kernel",),
        stages, tuple(_missed(forms, stages, remarks)),
    )  # fmt: skip


def _missed(forms: Sequence[str], stages: int, remarks: Sequence[Remark]) -> Iterator[MissedForm]:
    """The remarks about better forms than the access has in the end, the next one first."""
    have = max((_rank(form, stages) for form in forms), default=max(_RANKS.values()))
    found = {MissedForm(r.form, r.code, r.fact, r.help): None for r in remarks}
    for missed in sorted(found, key=lambda m: _RANKS.get(m.form, 0)):
        if _RANKS.get(missed.form, 0) > have or missed.code == "range-check":
            yield missed


def _rank(form: str, stages: int) -> int:
    if form.startswith("TMA"):
        return _RANKS["TMA tile"]
    if form.startswith("cp.async"):
        narrow = not form.endswith(" 16 bytes")
        return _RANKS["strided"] if narrow else _RANKS["copy in a pipeline"] - (stages == 1)
    if "16 bytes" in form or form.startswith("vector"):
        return _RANKS["16 bytes"]
    return _RANKS["strided"] if "gather" not in form and "scatter" not in form else 0
