"""Compiled kernels as files that C programs build with: ahead of time, without Python at run time.

For a CPU: `NAME.h` and `NAME.o`, a relocatable object with the kernel and its launch code, made for
the target's features. For a GPU: `NAME.h` and `NAME.c`, the machine code and its launcher in C, which
needs the driver's library and no toolkit. Both declare one function `int NAME(…)`; the header says all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.export.interface import Part, header_of, interface_of


@dataclass(frozen=True)
class Exported:
    """The files that `export_kernel` wrote. `code` is the object file, or the C file of a GPU kernel."""

    name: str
    prototype: str
    header: Path
    code: Path


def export_kernel(
    compiled: CompiledKernel,
    folder: str | Path,
    name: str | None = None,
    grid: Sequence[str | int] | str | int | None = None,
    sizes: Sequence[str] = (),
) -> Exported:
    """Write a compiled kernel as a C header and an object file (CPU) or a C file (GPU) into `folder`.

    Args:
        name: of the C function and the files; default: the kernel's.
        grid: one to three extents, each an expression of the kernel's integer arguments and its
            constexprs such as `"cdiv(n, BLOCK)"`; without it the C function takes the extents.
        sizes: names of integers that the grid has and the kernel does not: parameters more.

    Raises LaunchError for a name or grid that cannot be, UnsupportedTarget for a CPU system without
    pthreads.
    """
    extents = [grid] if isinstance(grid, (str, int)) else grid
    return export_parts([Part(compiled, extents)], folder, name or compiled.name, sizes=sizes)


def export_parts(
    parts: Sequence[Part],
    folder: str | Path,
    name: str,
    *,
    sizes: Sequence[str] = (),
    workspaces: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
) -> Exported:
    """The same for kernels that one C function launches in order; see `interface.interface_of`."""
    interface = interface_of(parts, name, sizes, workspaces, order)
    header = header_of(interface)
    if interface.gpu:
        from tilewright.runtime.export.cuda import launcher_source

        code, suffix = launcher_source(interface).encode(), ".c"
    else:
        from tilewright.runtime.export.cpu import object_file

        code, suffix = object_file(interface), ".o"
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    header_path, code_path = place / f"{name}.h", place / f"{name}{suffix}"
    header_path.write_text(header, encoding="utf-8")
    code_path.write_bytes(code)
    return Exported(name, interface.prototype, header_path, code_path)
