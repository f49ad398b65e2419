"""Dimensions of Inductor's kernels for a CPU.

Inductor merges the dimensions of a pointwise kernel, or of a reduction, into one index and recovers them by division
(`xindex // 784`). Where no block of a vector's length divides these numbers, the accesses of a block do not lie side by
side. Such kernels get a dimension for the innermost loop instead: batch normalization of 8x32x28x28 took 370 us with one
dimension and 140 us with two (AVX-512, one thread). Transposing kernels have two dimensions already, and get a third where
the one that the others run along stands for several: transposing 16 matrices of 100x300 took 440 us with two, 235 with three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.integrations.inductor.replacements import Replacement, config, graph

_SCHEDULING = "torch._inductor.codegen.simd"
_PATTERNS = "torch._inductor.codegen.block_analysis"

#: extents of the innermost dimension that blocks of one dimension divide: these need no second one
_DIVIDED_BY = 64
#: the same of the dimension that loads of transposing kernels run along
_TRANSPOSED_BY = 16
#: the least extent of the innermost dimension that is worth a loop
_LEAST = 7
#: reductions that may have two dimensions
_REDUCTIONS = frozenset(("sum", "prod", "max", "min", "any", "welford_reduce", "welford_combine"))


def _with_inner_dimension(module: Any, original: Any) -> Any:
    plain: Callable[..., tuple[Mapping[str, Any], Any]] = original.__func__

    def get_tiling_and_scores(
        cls: Any, node_schedule: Any, numel: Any, reduction_numel: Any = 1, *rest: Any, **more: Any
    ) -> tuple[Mapping[str, Any], Any]:
        found = plain(cls, node_schedule, numel, reduction_numel, *rest, **more)
        nodes = list(module.EnableReduction.filter(node_schedule))
        transposes = len(_extents(found[0], "")) == 2 and not _extents(found[0], "r")
        if len(found[0]) > 2 and not transposes:
            return found
        if not _are_for_cpu(nodes) or not _are_tileable(nodes):
            return found
        inner = [e for e in parts(module, nodes) if e != numel * reduction_numel]
        symbols = any(map(_is_symbol, inner))
        if not any(_is_worth_a_loop(e, symbols) for e in inner):
            return found
        options: dict[str, Any] = {"triton.prefer_nd_tiling": True, "triton.tile_reductions": True}
        if transposes:
            options["triton.max_tiles"] = 3
        with config().patch(options):
            tiled = plain(cls, node_schedule, numel, reduction_numel, *rest, **more)
        return tiled if is_better(found[0], tiled[0], symbols) else found

    return classmethod(get_tiling_and_scores)


def _are_for_cpu(nodes: list[Any]) -> bool:
    if config().cpu_backend != "triton":
        return False
    return all(getattr(node.get_device(), "type", None) == "cpu" for node in nodes)


def _are_tileable(nodes: list[Any]) -> bool:
    """Whether all reductions among `nodes` combine elements in any order and forget their indices."""
    for node in nodes:
        if not node.is_reduction():
            continue
        get_type = getattr(node.node, "get_reduction_type", None)
        if get_type is None or get_type() not in _REDUCTIONS:
            return False
    return True


def parts(simd: Any, nodes: list[Any]) -> set[Any]:
    """Extents of which Inductor makes the inner dimensions of tilings: of loops, and what indices are divided by.

    `simd` is the module of Inductor's tilings. It matches every index with patterns, a quarter of the time that it takes to
    choose tilings for a Transformer, of which only some have an extent that is worth a dimension.
    """
    found: set[Any] = set()
    for node in nodes:
        if not isinstance(node, simd.scheduler.SchedulerNode):
            continue
        found.update(extent for extents in node.get_ranges() for extent in extents)
        for access in node.read_writes.reads_and_writes():
            if isinstance(access, simd.MemoryDep):
                found.update(access.ranges.values())
                divisions = access.index.atoms(simd.FloorDiv, simd.ModularIndexing)
                found.update(divisor for each in divisions for divisor in each.args[1:])
    return found


def is_better(merged: Mapping[str, Any], tiled: Mapping[str, Any], symbols: bool = False) -> bool:
    """Whether `tiled` (dimension -> extent, the innermost of each kind last) splits what `merged` has in one.

    `symbols`: the merged index may be divided by numbers that are known at run time only.
    """
    for kind in ("r", ""):
        before = _extents(merged, kind)
        after = _extents(tiled, kind)
        if len(before) == 1 and len(after) == 2:
            return _is_worth_a_loop(after[-1], symbols)
    # a transposing kernel whose outer dimension stands for several, of which no block divides the inner one
    if len(before) == 2 and len(after) == 3 and before[-1] == after[-1]:
        divided = not _is_symbol(after[1]) and after[1] % _TRANSPOSED_BY == 0
        return not divided and _is_worth_a_loop(after[1], symbols)
    return False


def _extents(tiling: Mapping[str, Any], kind: str) -> list[Any]:
    """Of the dimensions that are reduced ("r") or kept (""), those with more than one element."""
    return [
        extent
        for name, extent in tiling.items()
        if name.startswith("r") == (kind == "r") and extent != 1
    ]


def _is_symbol(extent: Any) -> bool:
    try:
        int(extent)
    except TypeError:
        return True
    return False


def _is_worth_a_loop(extent: Any, symbols: bool) -> bool:
    """Whether an extent is long and not known to be a multiple of the blocks of one dimension.

    Lanes would be divided one by one by a number that is known at run time only.
    """
    if _is_symbol(extent):
        return graph().sizevars.optimization_hint(extent, fallback=0) >= _LEAST
    return extent >= _LEAST and (symbols or extent % _DIVIDED_BY != 0)


def _matched_once(_: Any, original: Any) -> Any:
    """`match_mod_div_block_expr` with a memory per graph: Inductor matches every index again for each fusion it considers,
    two seconds of the compilation of a bicubic interpolation.
    """
    match: Callable[..., Any] = original.__func__

    def match_mod_div_block_expr(cls: Any, *given: Any) -> Any:
        known = vars(graph().sizevars).setdefault("_tilewright_matches", {})
        if given not in known:
            known[given] = match(cls, *given)
        return known[given]

    return classmethod(match_mod_div_block_expr)


REPLACEMENTS = (
    Replacement(_PATTERNS, "BlockPatternMatcher.match_mod_div_block_expr", _matched_once),
    Replacement(_SCHEDULING, "SIMDScheduling.get_tiling_and_scores", _with_inner_dimension),
)
