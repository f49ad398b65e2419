"""Representations of kernels, compiled kernels and autotuners at a prompt and in a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.dtypes import constexpr

if TYPE_CHECKING:
    from tilewright.runtime.autotune import Autotuner
    from tilewright.runtime.compiled import CompiledKernel
    from tilewright.runtime.jit import JITFunction


def kernel_name(kernel: Any) -> str:
    """The name of a kernel or of what holds one."""
    from tilewright.runtime.interface import innermost

    return getattr(innermost(kernel), "__name__", "kernel")


def _parameters(kernel: JITFunction) -> str:
    texts = []
    for p in kernel.params:
        kind = ": constexpr" if p.is_constexpr else ""
        texts.append(f"{p.name}{kind}" + (f"={p.default!r}" if p.has_default else ""))
    return ", ".join(texts)


def _place(kernel: JITFunction) -> str:
    return f"{kernel.fn.__code__.co_filename}:{kernel.definition_line}"


def kernel_text(kernel: JITFunction) -> str:
    """Name, parameters, place, and for how many specializations it was compiled."""
    head = f"{kernel.module}:{kernel.fn.__qualname__}({_parameters(kernel)})"
    count = len(kernel.compiled_kernels)
    compiled = f", {count} specialization{'s' * (count != 1)} compiled" if count else ""
    return f"JITFunction({head}, {_place(kernel)}{compiled})"


def kernel_html(kernel: JITFunction) -> str:
    try:
        source = kernel.src
    except Exception as error:  # a notebook shows the object all the same
        source = str(error)
    compiled = "".join(f"<li>{html.escape(repr(k))}</li>" for k in kernel.compiled_kernels.values())
    head = html.escape(f"{kernel.fn.__qualname__}({_parameters(kernel)})")
    return (
        f"<b>kernel <code>{head}</code></b> <small>{html.escape(_place(kernel))}</small>"
        f"<pre>{html.escape(source)}</pre>" + (f"<ul>{compiled}</ul>" if compiled else "")
    )


def _signature(compiled: CompiledKernel) -> str:
    """The types it was compiled for, as launches' signatures spell them."""
    from tilewright.runtime.specialize import signature_text

    parts = []
    for name, item in compiled.signature.items():
        if isinstance(item.type, constexpr):
            parts.append(f"{name}={item.type.value!r}")
        else:
            parts.append(f"{name}: {signature_text(item.type)}{':16' if item.divisible else ''}")
    if not parts:
        parts = [f"{a.name}: {a.type}" for a in compiled.plan.arguments]
    return f"{compiled.name}({', '.join(parts)})"


def _figures(compiled: CompiledKernel) -> list[tuple[str, str]]:
    plan, target = compiled.plan, compiled.target
    rows = [("target", target.name)]
    if not target.is_gpu:
        rows.append(("scratch", f"{plan.scratch_bytes} bytes per thread"))
        if plan.program_cost:
            rows.append(("estimate", f"{plan.program_cost:.3g} ns per program"))
    else:
        o = compiled.options
        registers = str(compiled.n_regs) if compiled.n_regs else "not assembled yet"
        rows.append(("registers", registers))
        if compiled.n_spills:
            rows.append(("spilled", str(compiled.n_spills)))
        rows.append(("shared", f"{plan.shared_bytes} bytes"))
        if plan.cluster_size > 1:
            rows.append(("cluster", f"{plan.cluster_size} CTAs of {plan.threads} threads"))
        rows.append(("options", f"num_warps={o.num_warps}, num_stages={o.num_stages}"))
    rows.append(("code", f"{len(compiled.artifact.object_code)} bytes"))
    rows.append(("from", "the disk cache" if compiled.from_cache else "the compiler"))
    return rows


def compiled_text(compiled: CompiledKernel) -> str:
    """Signature, target, registers and shared bytes."""
    figures = dict(_figures(compiled))
    shown = [
        f"{figures[name]} {name}"
        for name in ("registers", "spilled", "shared", "scratch")
        if name in figures
    ]
    return f"<CompiledKernel {_signature(compiled)} for {compiled.target.name}: {', '.join(shown)}>"


def compiled_html(compiled: CompiledKernel) -> str:
    rows = [*_figures(compiled), ("asm", ", ".join(compiled.asm))]
    return f"<b>compiled <code>{html.escape(_signature(compiled))}</code></b>{_table((), rows)}"


def autotuner_text(tuner: Autotuner) -> str:
    """The number of configurations, what was tuned, the best so far."""
    count = len(tuner.configs)
    parts = [f"{count} configuration{'s' * (count != 1)}"]
    if tuner.keys:
        parts.append(f"key {', '.join(tuner.keys)}")
    if tuner.cache:
        parts.append(f"{len(tuner.cache)} tuned")
    if tuner.best_config is not None:
        times = tuner.configs_timings.get(tuner.best_config)
        took = f" ({times[0]:.3g} ms)" if times and math.isfinite(times[0]) else ""
        parts.append(f"best so far: {tuner.best_config}{took}")
    return f"<Autotuner of {kernel_name(tuner)}: {'; '.join(parts)}>"


def autotuner_html(tuner: Autotuner) -> str:
    rows = []
    known = tuner.configs_timings
    for config in sorted(tuner.configs, key=lambda c: known[c][0] if c in known else math.inf):
        times = known.get(config)
        took = tuner.failures.get(config, "")
        if times and math.isfinite(times[0]):
            took = f"{times[0]:.4g} ms"
        best = "best" if config is tuner.best_config else ""
        rows.append((str(config), took, best))
    head = f"<b>{html.escape(autotuner_text(tuner)[1:-1])}</b>"
    return head + _table(("configuration", "latest tuning", ""), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    return f"<table>{row(head, 'th') if head else ''}{''.join(row(r, 'td') for r in rows)}</table>"
