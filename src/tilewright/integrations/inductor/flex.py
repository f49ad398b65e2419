"""flex_attention on a CPU, forward and backward, from Inductor's Triton templates.

torch lowers flex_attention on a CPU to a C++ template, for inference only, and rejects inputs that require
gradients before anything is compiled. Where kernels for the CPU are tilewright's, the lowering of GPUs is used
instead: the branches for CPUs are taken out of copies of torch's functions.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement, config, copied, graph

_FRONT_END = "torch.nn.attention.flex_attention"
_LOWERING = "torch._inductor.kernel.flex.flex_attention"
_DECODING = "torch._inductor.kernel.flex.flex_decoding"
_DYNAMO = "tilewright.integrations.inductor.dynamo"
_HEURISTICS = "torch._inductor.template_heuristics.triton"

#: matches no device, so comparisons with it are always false
_NO_DEVICE = {"cpu": "no device"}


def install() -> None:
    """Replace torch's functions, now or when their modules are imported."""
    install_front_end()
    for each in _LOWERINGS:
        each.install()


def install_front_end() -> None:
    """Replace only the functions that Dynamo traces, because it runs before the backend."""
    for each in _CHECKS:
        each.install()


def uninstall() -> None:
    """Restore torch's functions; the front end's only if no `backend="tilewright"` may still be traced."""
    for each in _LOWERINGS:
        each.uninstall()
    if _DYNAMO not in sys.modules:
        for each in _CHECKS:
            each.uninstall()


# ---- front end ---------------------------------------------------------------------------------------


def is_wanted() -> bool:
    """Whether kernels for the CPU in the function that Dynamo traces now are tilewright's."""
    if "torch._inductor.config" in sys.modules and config().cpu_backend == "triton":
        return True
    convert = sys.modules.get("torch._dynamo.symbolic_convert")
    if convert is None:
        return False
    try:
        output = convert.InstructionTranslator.current_tx().output
    except AttributeError:  # nothing is traced
        return False
    ours = sys.modules.get(_DYNAMO)
    return ours is not None and _innermost(output.compiler_fn) is ours.compile_graph


# Dynamo calls the function and treats its result as a constant
vars(is_wanted)["_dynamo_marked_constant"] = True


def _innermost(function: Any) -> Any:
    """The back end that Dynamo's wrappers call."""
    for name in ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable", "compiler_fn"):
        inner = getattr(function, name, None)
        if inner is not None:
            return _innermost(inner)
    return function


def _for_training(_: Any, original: Callable[..., Any]) -> Any:
    """`original`, or where kernels are ours, `original` without its restrictions for CPUs."""
    unrestricted = copied(original, _NO_DEVICE)

    def chosen(*args: Any, **kwargs: Any) -> Any:
        if is_wanted():
            return unrestricted(*args, **kwargs)
        return original(*args, **kwargs)

    return chosen


# ---- lowering ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """The parameters that determine block sizes."""

    queries: int
    keys: int
    """Lengths of the sequences; a likely value where they are symbols."""
    mask_queries: int
    mask_keys: int
    """Extents of a block of the block mask."""
    shared_heads: int = 1
    """Heads of queries with the same keys."""


def current_problem() -> Problem:
    """The problem of the graph's operation that is being lowered."""
    node = graph().current_node
    query, key = node.args[:2]
    *_, mask_queries, mask_keys, _ = next(a for a in node.args if isinstance(a, (tuple, list)))
    _, heads, queries, _ = query.meta["val"].shape
    _, key_heads, keys, _ = key.meta["val"].shape
    sizes = (queries, keys, mask_queries, mask_keys, heads // key_heads)
    return Problem(*map(_likely, sizes))


def _likely(size: Any) -> int:
    """A size that may be a symbol, or a node of the graph that stands for one."""
    size = getattr(size, "meta", {}).get("val", size)
    return size if isinstance(size, int) else int(size.node.hint or 1024)


def _templates(module: Any, cpp: Callable[..., Any]) -> Any:
    """The CPU lowering: the generic one without its CPU branch, unless C++ is selected."""

    def lower(*args: Any) -> Any:
        if config().cpu_backend != "triton":
            return cpp(*args)
        decoding = sys.modules[_DECODING]
        decode = copied(decoding.create_flex_decoding_kernel, get_split_k=_splits)
        generic = copied(
            inspect.unwrap(module.flex_attention),
            _NO_DEVICE,
            create_flex_decoding_kernel=decode,
            _use_flex_decoding=functools.partial(_can_decode, module._use_flex_decoding),
            sympy=_WithoutLimits(module.sympy),
        )
        return generic(*args)

    return lower


class _WithoutLimits:
    """Replacement of sympy in the lowering, which uses it only to test if the head is too small for tensor cores."""

    def __init__(self, sympy: Any) -> None:
        self._sympy = sympy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sympy, name)

    def Lt(self, size: Any, limit: Any) -> Any:
        return self._sympy.false


def _can_decode(original: Callable[..., bool], query: Any, *rest: Any) -> bool:
    """Whether the template for few queries can be used: one tile of it holds the queries of all shared heads."""
    if not original(query, *rest):
        return False
    problem = current_problem()
    rows = max(16, 1 << (problem.queries * problem.shared_heads - 1).bit_length())
    return problem.mask_queries % rows == 0


def _splits(batches: int, heads: int, _: Any) -> int:
    """Parts of the keys in which one query's attention is computed, so that all threads have some."""
    import torch

    return max(1, torch.get_num_threads() // max(1, batches * heads))


# ---- block sizes -------------------------------------------------------------------------------------


def forward_blocks(problem: Problem, head_dim: int, narrow: bool) -> tuple[int, int]:
    """Queries and keys of a tile. `narrow`: elements of less than 32 bits."""
    rows, columns = (128 if narrow else 64), 64
    if head_dim > 256:
        rows, columns = rows // 2, columns // 2
    return (
        _fit(rows, problem.queries, problem.mask_queries),
        _fit(columns, problem.keys, problem.mask_keys),
    )


def backward_blocks(problem: Problem, head_dim: int) -> tuple[int, int, int, int]:
    """Queries and keys of a tile of the key's and the value's gradient, and of the query's.

    The dimension that a program stays at is a multiple of the one along which it runs.
    """
    stays, runs = (128, 64) if head_dim <= 128 else (64, 32)
    keys = _fit(stays, problem.keys, problem.mask_keys)
    queries = _fit(stays, problem.queries, problem.mask_queries)
    return (
        min(keys, _fit(runs, problem.queries, problem.mask_queries)),
        keys,
        queries,
        min(queries, _fit(runs, problem.keys, problem.mask_keys)),
    )


def _fit(block: int, length: int, mask_block: int) -> int:
    """The largest power of two up to `block` that divides the mask's blocks and is not mostly padding."""
    while block > 16 and block >= 2 * length:
        block //= 2
    return min(block, mask_block & -mask_block)


def _configured(kind: str, blocks: Callable[[int, Any], Sequence[int]]) -> Any:
    """A function that lists one configuration, of torch's class `kind`; `blocks`: of a head's extent and data type."""

    def make(module: Any, _: Any) -> Any:
        def configurations(self: Any, head_dim: int, dtype: Any) -> list[Any]:
            return [getattr(module, kind)(*blocks(head_dim, dtype), num_stages=1, num_warps=1)]

        return configurations

    return make


_forward = _configured(
    "FlexConfig", lambda dim, dtype: forward_blocks(current_problem(), dim, dtype.itemsize < 4)
)
_backward = _configured("FlexBwDConfig", lambda dim, _: backward_blocks(current_problem(), dim))
_decode = _configured("FlexDecodeConfig", lambda *_: (64,))


_CHECKS = (
    Replacement(_FRONT_END, "_validate_device", _for_training),
    Replacement(_FRONT_END, "_apply_kernel_options", _for_training),
)
_LOWERINGS = (
    Replacement(_LOWERING, "lower_cpu", _templates),
    Replacement(_HEURISTICS, "CPUConfigHeuristic.get_flex_attn_fwd_configs", _forward),
    Replacement(_HEURISTICS, "CPUConfigHeuristic.get_flex_attn_bwd_configs", _backward),
    Replacement(_HEURISTICS, "CPUConfigHeuristic.get_flex_decode_configs", _decode),
)
