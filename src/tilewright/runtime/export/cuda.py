"""The C file of exported GPU kernels: machine code as arrays, and the launcher."""

from __future__ import annotations

from typing import Any

from tilewright.backends.base import Extent, TensorMap
from tilewright.runtime.drivers.cuda_api import FREE_SHARED, PORTABLE_CLUSTER
from tilewright.runtime.export.grids import c_text
from tilewright.runtime.export.interface import Interface, Launch, asserts_of, render
from tilewright.runtime.native.tensor_maps import DATA_TYPES, SWIZZLES


def launcher_source(interface: Interface) -> str:
    """The C file: for any C11 compiler, with the driver's library."""
    launches = [_launch(launch, interface) for launch in interface.launches]
    return render(
        "launcher.c.jinja",
        f=interface,
        stream=interface.parameters[-1].name,
        asserts=asserts_of(interface),
        launches=launches,
        extended=any(_is_extended(launch) for launch in interface.launches),
        plain=any(not _is_extended(launch) for launch in interface.launches),
        maps=any(each["maps"] for each in launches),
        large=any(launch.plan.shared_bytes > FREE_SHARED for launch in interface.launches),
        wide=any(launch.plan.cluster_size > PORTABLE_CLUSTER for launch in interface.launches),
        portable=PORTABLE_CLUSTER,
        memory=[{"name": w.name, "size": c_text(w.size)} for w in interface.workspaces],
    )


def _is_extended(launch: Launch) -> bool:
    """Whether a launch needs attributes."""
    return launch.plan.cluster_size > 1 or launch.plan.cooperative


def _launch(launch: Launch, interface: Interface) -> dict[str, Any]:
    """A kernel as the template's input."""
    code = launch.artifact.object_code
    if code[:4] != b"\x7fELF" and not code.endswith(b"\0"):
        code += b"\0"  # the driver takes PTX as a C string
    return {
        "plan": launch.plan,
        "names": launch.arguments,
        "first_assert": launch.first_assert,
        "size": len(code),
        "image": _bytes(code),
        "grid": [c_text(e) for e in interface.extents(launch)],
        "maps": [_tensor_map(m, launch) for m in launch.plan.tensor_maps],
    }


def _bytes(code: bytes) -> str:
    rows = (code[i : i + 32] for i in range(0, len(code), 32))
    return "\n".join("".join(f"{b}," for b in row) for row in rows)


def _tensor_map(recipe: TensorMap, launch: Launch) -> dict[str, Any]:
    """A tensor map as the template's input."""

    def text(extent: Extent) -> str:
        terms = [
            " * ".join([f"INT64_C({c})", *(f"(int64_t){launch.arguments[i]}" for i in factors)])
            for c, factors in extent.terms
        ]
        return " + ".join(terms) or "0"

    return {
        "type": DATA_TYPES[recipe.element_bytes],
        "address": launch.arguments[recipe.argument],
        "extents": [text(e) for e in recipe.global_dims],
        "pitches": [text(p) for p in recipe.global_strides],
        "element_bytes": recipe.element_bytes,
        "box": recipe.box_dims,
        "swizzle": SWIZZLES[recipe.swizzle_bytes],
    }
