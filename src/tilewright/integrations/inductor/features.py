"""What Inductor may generate for a CPU: all it generates for GPUs but sorting.

Its sorting kernel is a network over whole rows, made for registers shared by a block's threads. On a CPU it takes
seconds to compile and is slower than torch's own `sort`, which Inductor calls where a back end cannot sort.
"""

from __future__ import annotations

import sys
from typing import Any

from tilewright.integrations import after_import

_TRITON = "torch._inductor.codegen.triton"


def install() -> None:
    """Limit the features whenever torch's module of Triton kernels is there."""
    if not after_import.is_waiting(_TRITON, _limit):
        after_import.call_after_import(_TRITON, _limit)


def uninstall() -> None:
    """Give torch its own method back."""
    after_import.forget(_TRITON, _limit)
    scheduling = getattr(sys.modules.get(_TRITON), "TritonScheduling", None)
    original = getattr(vars(scheduling or object).get("get_backend_features"), "original", None)
    if scheduling is not None and original is not None:
        scheduling.get_backend_features = original


class _WithoutSort(classmethod):  # pyright: ignore[reportMissingTypeArgument]
    original: Any = None
    """torch's own class method."""


def _limit(module: Any) -> None:
    scheduling = module.TritonScheduling
    original = vars(scheduling)["get_backend_features"]
    if isinstance(original, _WithoutSort):
        return

    def get_backend_features(cls: Any, device: Any) -> Any:
        features = original.__func__(cls, device)
        if getattr(device, "type", device) != "cpu":
            return features
        return type(features)(f for f in features if f.name != "SORT")

    method = _WithoutSort(get_backend_features)
    method.original = original
    scheduling.get_backend_features = method
