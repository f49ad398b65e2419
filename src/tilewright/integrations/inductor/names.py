"""What torch asks of Triton beyond what kernel authors do, and which file of torch asks.

Read in torch 2.13; 2.11 and 2.12 ask for the same unless a line says otherwise. Paths are below `torch/`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.integrations import triton_names
from tilewright.integrations.triton_names import Names, extended

_HERE = "tilewright.integrations.inductor"
_DRIVERS, _KERNELS = f"{_HERE}.drivers", f"{_HERE}.kernels"

_COMPILER = {
    # _inductor/runtime/triton_heuristics.py: `TritonCompileResult` pickles and launches a CompiledKernel
    "CompiledKernel": f"{_KERNELS}:CompiledKernel",
    "compile": f"{_KERNELS}:compile",
    # utils/_triton.py: `triton_backend`; _inductor/utils.py: 8-bit floats of a target
    "make_backend": f"{_DRIVERS}:make_backend",
    # _inductor/runtime/triton_compat.py before 2.12
    "triton_key": f"{_DRIVERS}:triton_key",
}


def tables() -> Mapping[str, Names]:
    """Module name -> the table of the stand-in that torch gets."""
    found = (
        extended(
            "triton",
            # _inductor/runtime/triton_heuristics.py: `triton.compile(source, target=, options=)`
            {"compile": _COMPILER["compile"]},
            # _inductor/runtime/triton_compat.py: `from triton import knobs`, hooks around launches
            ("knobs",),
        ),
        extended("triton.compiler", _COMPILER),
        extended("triton.compiler.compiler", _COMPILER),
        extended(
            "triton.runtime",
            {},
            # _inductor/runtime/runtime_utils.py: `_base64` (missing: names of folders are the hashes then);
            # _library/triton.py, _inductor/runtime/triton_heuristics.py: InterpretedFunction
            ("cache", "interpreter"),
        ),
        extended(
            "triton.runtime.cache",
            # _inductor/runtime/triton_compat.py; utils/_triton.py
            {"triton_key": f"{_DRIVERS}:triton_key"},
            ("knobs",),
        ),
        extended(
            "triton.runtime.interpreter", {"InterpretedFunction": f"{_KERNELS}:InterpretedFunction"}
        ),
        # _inductor/codegen/wrapper.py: what it writes out again of a user's kernel
        extended(
            "triton.runtime.jit", {"ConstexprFunction": f"{_HERE}.user_kernels:ConstexprFunction"}
        ),
        # _dynamo/device_interface.py and _inductor/runtime/triton_helpers.py: `backends["cpu"]`, `["nvidia"]`
        extended("triton.backends", {"backends": f"{_DRIVERS}:backends"}),
    )
    return {table.module: table for table in found}


def is_served() -> bool:
    """Whether torch is given these tables now."""
    return "triton.backends" in triton_names.overlay
