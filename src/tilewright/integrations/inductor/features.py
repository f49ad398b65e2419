"""What Inductor may generate for a CPU: all it generates for GPUs but sorts, sums over indices and cooperative reductions.

Its sorting kernel is a network over whole rows, made for registers shared by a block's threads. On a CPU it takes
seconds to compile and is slower than torch's own `sort`, which Inductor calls where a back end cannot sort.

Sums into elements given by indices (`index_put` with accumulation, `scatter_add`, gradients of embeddings) become one
atomic addition per element, each a locked instruction of some 20 ns on x86: 16 times the time of torch's
own operators, which Inductor calls where a type has no atomic addition. `index_add` stays what it is instead of
becoming `index_put`, which is four times slower in torch (773 against 190 us for 512 rows of 1024), and adds in place
to a copy, which Inductor makes together with what comes before.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement

_TRITON = "torch._inductor.codegen.triton"
_DECOMPOSITIONS = "torch._inductor.decomposition"
_CHOICES = "torch._inductor.choices"
_UTILS, _LOWERING = "torch._inductor.utils", "torch._inductor.lowering"


def _without_sort(_: Any, original: Any) -> Any:
    def get_backend_features(cls: Any, device: Any) -> Any:
        features = original.__func__(cls, device)
        if getattr(device, "type", device) != "cpu":
            return features
        return type(features)(f for f in features if f.name != "SORT")

    return classmethod(get_backend_features)


def _without_cooperation(_: Any, original: Callable[..., bool]) -> Any:
    """`should_use_cooperative_reduction`, which holds for no reduction on a CPU, even where the settings force it.

    Its programs wait for each other; on a CPU they run one after another on each thread.
    """

    def use(device: Any, *sizes: Any) -> bool:
        return device.type != "cpu" and original(device, *sizes)

    return staticmethod(use)


def _without_atomics(_: Any, original: Callable[[Any], bool]) -> Any:
    """`needs_fallback_due_to_atomic_add_limitations`, which holds for all types in kernels for the CPU."""

    def needs_fallback(dtype: Any) -> bool:
        return original(dtype) or _lowers_for_cpu()

    return needs_fallback


def _without_scatter(_: Any, original: Callable[..., bool]) -> Any:
    """`use_scatter_fallback`, which holds for all sums in kernels for the CPU."""

    def use(operator: Any, kind: str | None, own: Any, given: Any, device: str, *rest: Any) -> bool:
        if kind in ("sum", "add") and device == "cpu" and _lowers_for_cpu():
            return True
        return original(operator, kind, own, given, device, *rest)

    return use


def _without_index_put(_: Any, decompositions: dict[Any, Callable[..., Any]]) -> Any:
    """The table of decompositions, in place: torch has other names for it.

    What is put into it defers to torch's functions where kernels for the CPU are not Triton's, so it may stay.
    """
    ops = sys.modules["torch"].ops.aten
    operator = ops.index_add.default
    decompose = decompositions.get(operator)
    if decompose is not None and not hasattr(decompose, "__tilewright_original__"):
        decompositions[operator] = _unless_for_cpu(decompose)
    return decompositions


def _unless_for_cpu(decompose: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(decompose)
    def unless_for_cpu(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if tensor.device.type == "cpu" and _generates_triton():
            return NotImplemented
        return decompose(tensor, *args, **kwargs)

    vars(unless_for_cpu)["__tilewright_original__"] = decompose
    return unless_for_cpu


def _with_index_add(module: Any, lowerings: dict[Any, Any]) -> dict[Any, Any]:
    """The table of lowerings with one for `index_add`, which is needed where it was not decomposed."""
    ops, ir = sys.modules["torch"].ops.aten, sys.modules["torch._inductor.ir"]

    def index_add(given: Any, *args: Any, **kwargs: Any) -> Any:
        result = module.clone(given)
        result.realize()
        ir.FallbackKernel.create(ops.index_add_.default, result, *args, **kwargs)
        module.V.graph.mark_buffer_mutated(result.get_name())  # else constants are read as before
        return result

    if ops.index_add.default not in lowerings:
        module.register_lowering(ops.index_add.default, type_promotion_kind=None)(index_add)
    return lowerings


def _generates_triton() -> bool:
    return sys.modules["torch._inductor.config"].cpu_backend == "triton"


def _lowers_for_cpu() -> bool:
    """Whether the operation that is lowered now becomes a Triton kernel for the CPU."""
    if not _generates_triton():
        return False
    graph = sys.modules["torch._inductor.virtualized"].V.graph
    value = getattr(getattr(graph, "current_node", None), "meta", {}).get("val")
    return getattr(getattr(value, "device", None), "type", None) == "cpu"


_NAME = "needs_fallback_due_to_atomic_add_limitations"
REPLACEMENTS = (
    Replacement(_DECOMPOSITIONS, "decompositions", _without_index_put),
    Replacement(_TRITON, "TritonScheduling.get_backend_features", _without_sort),
    Replacement(_CHOICES, "InductorChoices.should_use_cooperative_reduction", _without_cooperation),
    Replacement(_UTILS, _NAME, _without_atomics),
    Replacement(_LOWERING, _NAME, _without_atomics),
    Replacement(_LOWERING, "use_scatter_fallback", _without_scatter),
    Replacement(_LOWERING, "lowerings", _with_index_add),
)
