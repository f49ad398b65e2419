"""Matrix products and convolutions under max-autotune on a CPU: the candidates and their block sizes.

Inductor's candidates are ATen's operators, Triton templates, and C++ templates. The last need a C++ compiler and do
not go with Triton kernels, so they are left out where kernels for the CPU are ours. Triton templates get a few block
sizes from the extents instead of a list for GPUs, and the generated matmul (`tilewright.matmul`) is one more candidate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tilewright.integrations.inductor.replacements import (
    LoweringReplacement,
    Replacement,
    config,
    copied,
    graph,
)

_UTILS = "torch._inductor.utils"
_INTERFACES = "torch._dynamo.device_interface"
_OVERRIDES = "torch._inductor.codegen.cpu_device_op_overrides"
_SELECTION = "torch._inductor.select_algorithm"
_HEURISTICS = "torch._inductor.template_heuristics.triton"
_MM, _BMM = "torch._inductor.kernel.mm", "torch._inductor.kernel.bmm"
_CONVOLUTION = "torch._inductor.kernel.conv"

_SMALLEST = 16
_MOST_ROWS = 128
#: columns and steps of k of a tile, the best first: measured on AVX-512 against the rows that a matmul has
_TILES = ((256, 256), (128, 256), (256, 64), (128, 64))


def _is_tuned() -> bool:
    """Whether kernels for the CPU are ours and matmuls are chosen by measurement."""
    return config().cpu_backend == "triton" and (
        config().max_autotune or config().max_autotune_gemm
    )


# ---- candidates --------------------------------------------------------------------------------------


def _without_cpp(_: Any, original: Callable[[str], bool]) -> Any:
    def is_used(backend: str) -> bool:
        if backend.upper() == "CPP" and config().cpu_backend == "triton":
            return False
        return original(backend)

    return is_used


def tilewright_matmul(a: Any, b: Any, *, out: Any) -> Any:
    """`out = a @ b` by a generated program; compiled graphs call it as `extern_kernels.tilewright_matmul`."""
    from tilewright.runtime.matmul import matmul

    return matmul(a, b, out)


_choice: list[Any] = []
"""torch's `ExternKernelChoice` of `tilewright_matmul`; torch 2.11 cannot be asked for it by name."""


def _registered(module: Any, extern_kernels: Any) -> Any:
    """`extern_kernels`, which knows our function also where a graph comes from a cache."""
    if not hasattr(extern_kernels, tilewright_matmul.__name__):
        _choice.append(module.ExternKernelChoice(tilewright_matmul))
    return extern_kernels


def _with_generated(module: Any, original: Callable[..., Any]) -> Any:
    """`autotune_select_algorithm` with the generated matmul among the candidates of plain matmuls."""

    def select(
        name: str, choices: list[Any], nodes: Sequence[Any], layout: Any, **more: Any
    ) -> Any:
        if (
            name in ("mm", "bmm")
            and choices
            and _takes_generated(layout)
            and not graph().cpp_wrapper
            and len({layout.dtype, *(node.get_dtype() for node in nodes)}) == 1
        ):
            choices = [*choices, _choice[-1].bind(nodes, layout)]
        return original(name, choices, nodes, layout, **more)

    return select


def _takes_generated(layout: Any) -> bool:
    """Whether the generated matmul is a candidate for a matmul with this result.

    On a GPU it multiplies 16-bit floats, and not in graphs that torch records: a matmul may allocate memory of its own.
    """
    if layout.device.type == "cpu":
        return _is_tuned()
    from tilewright.integrations.inductor import state

    settings = config()
    narrow = str(layout.dtype) in ("torch.float16", "torch.bfloat16")
    tuned = settings.max_autotune or settings.max_autotune_gemm
    ours = layout.device.type in state.devices()
    return bool(ours and narrow and tuned and not settings.triton.cudagraphs)


# ---- convolutions ------------------------------------------------------------------------------------


def _with_bias_apart(_: Any, original: Callable[..., Any]) -> Any:
    """The lowering of convolutions, which adds the bias afterwards where Triton templates compete.

    They have no bias, and on a CPU torch leaves it to ATen's convolution alone.
    """
    generic = copied(original, {"cpu": "no device"})

    def lower(*args: Any, **kwargs: Any) -> Any:
        return (generic if _is_tuned() else original)(*args, **kwargs)

    return lower


# ---- block sizes -------------------------------------------------------------------------------------


def tiles(m: int, n: int, k: int, threads: int) -> list[tuple[int, int, int]]:
    """Extents of tiles (m, n, k) to measure for a matmul."""
    rows = min(_MOST_ROWS, _power_of_two(m))
    found: dict[tuple[int, int, int], None] = {}
    for columns, steps in _TILES:
        tile = (rows, min(columns, _power_of_two(n)), min(steps, _power_of_two(k)))
        found[tile] = None
    programs = -(-m // rows) * -(-n // min(_TILES[0][0], _power_of_two(n)))
    if programs < 2 * threads:  # too few for all threads to get the same share
        found[max(_SMALLEST, rows // 2), min(64, _power_of_two(n)), min(256, _power_of_two(k))] = (
            None
        )
    return [*found]


def _power_of_two(n: int) -> int:
    return max(_SMALLEST, 1 << (n - 1).bit_length())


def _few_tiles(_: Any, original: Callable[..., Any]) -> Any:
    """`preprocess_mm_configs(self, m, n, k, configs, …)`: our tiles instead of all that are listed."""

    def preprocess(self: Any, m: Any, n: Any, k: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        settings = config()
        every = settings.max_autotune_gemm_search_space == "EXHAUSTIVE"
        if settings.cpu_backend != "triton" or every:
            yield from original(self, m, n, k, *args, **kwargs)
            return
        import torch

        sizes = graph().sizevars
        hint = getattr(sizes, "optimization_hint", None) or sizes.size_hint
        order = {} if kwargs.get("op_name") == "conv" else {"GROUP_M": 8}
        extents = int(hint(m)), int(hint(n)), int(hint(k))
        for rows, columns, steps in tiles(*extents, torch.get_num_threads()):
            blocks = {"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": steps}
            yield self.triton_config(1, 1, **blocks, hint_override=None, **order)

    return preprocess


# ---- measurements ------------------------------------------------------------------------------------


def _stream_in_one_line(_: Any, __: Any) -> Any:
    """torch indents the first of several lines that define this in the program that measures a fused kernel."""
    return lambda self, name: f"{name} = lambda device: 0"


def _no_device_to_enter(_: Any, __: Any) -> Any:
    """`with interface.device(…)` around measurements, which torch does not define for CPUs."""
    return contextlib.nullcontext


REPLACEMENTS = (
    Replacement(_UTILS, "_use_autotune_backend", _without_cpp),
    Replacement(_SELECTION, "extern_kernels", _registered),
    Replacement(_MM, "autotune_select_algorithm", _with_generated),
    Replacement(_BMM, "autotune_select_algorithm", _with_generated),
    Replacement(_HEURISTICS, "CPUConfigHeuristic.preprocess_mm_configs", _few_tiles),
    Replacement(_INTERFACES, "CpuInterface.device", _no_device_to_enter),
    Replacement(_OVERRIDES, "CpuDeviceOpOverrides.import_get_raw_stream_as", _stream_in_one_line),
    LoweringReplacement(_CONVOLUTION, "convolution", _with_bias_apart),
)
