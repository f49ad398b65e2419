"""What Inductor may generate for a CPU: all it generates for GPUs but sorts, cooperative reductions and split scans.

Its sorting kernel is a network over whole rows, made for registers shared by a block's threads. On a CPU it takes
seconds to compile and is slower than torch's own `sort`, which Inductor calls where a back end cannot sort.

Additions to elements given by indices (`index_put` with accumulation, `index_add`, `scatter_add`, gradients of embeddings)
are Inductor's atomic additions, in kernels that run on one thread without locked instructions (`corrections.py`),
whatever the number of threads: torch's own operators, which the C++ back end calls where several threads add, are serial too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement, config, graph, is_for_cpu

_TRITON = "torch._inductor.codegen.triton"
_CHOICES = "torch._inductor.choices"
_LOWERING = "torch._inductor.lowering"
_OVERRIDES = "torch._inductor.codegen.cpu_device_op_overrides"
_COMPILE = "torch._inductor.compile_fx"
_INTERFACE = "torch._dynamo.device_interface"


def _without_sort(_: Any, original: Any) -> Any:
    def get_backend_features(cls: Any, device: Any) -> Any:
        features = original.__func__(cls, device)
        if getattr(device, "type", device) != "cpu":
            return features
        return type(features)(f for f in features if f.name != "SORT")

    return classmethod(get_backend_features)


def _without_cooperation(_: Any, original: Callable[..., bool]) -> Any:
    """`should_use_cooperative_reduction`, which holds for no reduction on a CPU, even where the settings force it.

    Its programs wait for each other; on a CPU they run one after another on each thread. Torch 2.13 gives the device and
    the sizes, 2.11 and 2.12 the features of a kernel, whose device is the graph's.
    """

    def use(first: Any, *sizes: Any) -> bool:
        on_cpu = first.type == "cpu" if hasattr(first, "type") else is_for_cpu(graph())
        return not on_cpu and original(first, *sizes)

    return staticmethod(use)


def _in_one_program(_: Any, original: Any) -> Any:
    """`Scan.num_splits`, which is 1 on a CPU: one program scans a row.

    The programs of a split scan wait for each other as well, in loops, so that threads scan one after another; their kernels
    have several configurations to measure; and torch's wrapper fails for a CPU where such a kernel is the last one.
    """
    count: Callable[..., tuple[Any, Any]] = original.__func__

    def num_splits(cls: Any, device: Any, *args: Any, **more: Any) -> tuple[Any, Any]:
        hint, splits = count(cls, device, *args, **more)
        return hint, 1 if device.type == "cpu" else splits

    return classmethod(num_splits)


def _with_guard(_: Any, original: Callable[..., str]) -> Any:
    """`CpuDeviceOpOverrides.device_guard`, which torch 2.11 lets be `pass` where a context manager is wanted: max-autotune's
    timing of fused kernels did not compile. Later versions give the same text as this."""

    def device_guard(self: Any, index: Any) -> str:
        text = original(self, index)
        return "torch._ops.contextlib.nullcontext()" if text == "pass" else text

    return device_guard


def _one_device(_: Any, original: Any) -> Any:
    """`CpuInterface.exchange_device` and `maybe_exchange_device`: there is one CPU, "cpu:0" where a program numbers it.

    torch raises NotImplementedError when it loads a kernel of a graph on "cpu:0".
    """
    return staticmethod(lambda device: 0)


def _with_scatter(_: Any, original: Callable[..., bool]) -> Any:
    """`use_scatter_fallback`, which holds for no sum in kernels for the CPU that one thread can do."""
    torch = sys.modules["torch"]

    def use(operator: Any, kind: str | None, own: Any, given: Any, device: str, *rest: Any) -> bool:
        if kind in ("sum", "add") and device == "cpu" and _lowers_for_cpu() and own != torch.bool:
            return bool(torch.are_deterministic_algorithms_enabled())
        return original(operator, kind, own, given, device, *rest)

    return use


def _with_cpp_kernels(module: Any, original: Callable[..., dict[str, object]]) -> Any:
    """`get_cpp_wrapper_config`, with which graphs are compiled whose wrapper is a C++ program: their kernels for a CPU are C++.

    torch's C++ wrapper passes Triton kernels for a CPU no grid. It needs a C++ compiler itself.
    """

    def wrapper_config(*args: Any, **options: Any) -> dict[str, object]:
        found = original(*args, **options)
        settings = module.config
        if getattr(settings, "fx_wrapper", False) and not settings.cpp_wrapper:
            return found
        return {**found, "cpu_backend": "cpp"} if settings.cpu_backend == "triton" else found

    return wrapper_config


def _lowers_for_cpu() -> bool:
    """Whether the operation that is lowered now becomes a Triton kernel for the CPU."""
    if config().cpu_backend != "triton":
        return False
    value = getattr(getattr(graph(), "current_node", None), "meta", {}).get("val")
    return getattr(getattr(value, "device", None), "type", None) == "cpu"


REPLACEMENTS = (
    Replacement(_TRITON, "TritonScheduling.get_backend_features", _without_sort),
    Replacement(_CHOICES, "InductorChoices.should_use_cooperative_reduction", _without_cooperation),
    Replacement("torch._inductor.ir", "Scan.num_splits", _in_one_program),
    Replacement(_OVERRIDES, "CpuDeviceOpOverrides.device_guard", _with_guard),
    Replacement(_LOWERING, "use_scatter_fallback", _with_scatter),
    Replacement(_INTERFACE, "CpuInterface.exchange_device", _one_device),
    Replacement(_INTERFACE, "CpuInterface.maybe_exchange_device", _one_device),
    Replacement(_COMPILE, "get_cpp_wrapper_config", _with_cpp_kernels),
)
