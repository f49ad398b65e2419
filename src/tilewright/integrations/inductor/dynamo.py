"""`torch.compile(model, backend="tilewright")`: the entry point `torch_dynamo_backends`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.integrations.inductor import flex, settings, state

flex.install_front_end()


def compile_graph(graph: Any, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a graph with Inductor and tilewright's kernels; other graphs are left alone.

    Takes Inductor's `mode` and `options`. Raises IntegrationError where Inductor cannot be given another Triton.
    """
    state.serve()
    inductor: Any = importlib.import_module("torch._inductor")
    compile_fx: Any = importlib.import_module("torch._inductor.compile_fx")
    patches: dict[str, Any] = dict(inductor.list_mode_options(options.get("mode") or "default"))
    patches.update(options.get("options") or {})
    patches["cpu_backend"] = "triton"
    if not settings.workers_find_us():
        patches["compile_threads"] = 1
    return compile_fx.compile_fx(graph, inputs, config_patches=patches)
