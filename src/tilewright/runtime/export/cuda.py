"""The C file of an exported GPU kernel: its machine code as an array, and its launcher."""

from __future__ import annotations

from typing import Any

from tilewright.backends.base import Artifact, Extent, TensorMap
from tilewright.runtime.drivers.tensor_map_ir import DATA_TYPES, SWIZZLES
from tilewright.runtime.export import grids
from tilewright.runtime.export.interface import Interface, asserts_of, render


def launcher_source(artifact: Artifact, interface: Interface) -> str:
    """The C file: for any C11 compiler, with the driver's library."""
    code = artifact.object_code
    if code[:4] != b"\x7fELF" and not code.endswith(b"\0"):
        code += b"\0"  # the driver takes PTX as a C string
    return render(
        "launcher.c.jinja",
        f=interface,
        plan=interface.plan,
        asserts=asserts_of(interface.plan),
        size=len(code),
        image=_bytes(code),
        grid=[grids.c_text(e) for e in interface.extents],
        maps=[_tensor_map(m, interface) for m in interface.plan.tensor_maps],
    )


def _bytes(code: bytes) -> str:
    rows = (code[i : i + 32] for i in range(0, len(code), 32))
    return "\n".join("".join(f"{b}," for b in row) for row in rows)


def _tensor_map(recipe: TensorMap, interface: Interface) -> dict[str, Any]:
    """What the template needs of a tensor map."""

    def text(extent: Extent) -> str:
        terms = [
            " * ".join(
                [f"INT64_C({c})", *(f"(int64_t){interface.arguments[i].name}" for i in factors)]
            )
            for c, factors in extent.terms
        ]
        return " + ".join(terms) or "0"

    return {
        "type": DATA_TYPES[recipe.element_bytes],
        "address": interface.arguments[recipe.argument].name,
        "width": text(recipe.width),
        "height": text(recipe.height),
        "pitch": text(recipe.pitch),
        "element_bytes": recipe.element_bytes,
        "box": recipe.box,
        "swizzle": SWIZZLES[recipe.span],
    }
