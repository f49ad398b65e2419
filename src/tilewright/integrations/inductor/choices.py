"""Block sizes of Inductor's kernels on a CPU: one configuration a kernel, from its sizes and its hints.

Inductor lists configurations for GPUs and measures them when a kernel is first launched. On a CPU a program is one
thread's loop, and what decides is whether its vectors run along memory and its accumulators fit in registers:

- pointwise: some hundred elements a program; of two dimensions whole rows where all accesses run along them, otherwise
  transposes, in tiles of some cache lines each way, of three one matrix after the other;
- reductions along memory: one row a program, a few vectors of accumulators;
- reductions across memory: some cache lines of columns, row by row, so that the accumulators are vectors of columns;
- reductions whose stores run across their loads: blocks of both.

The numbers were measured with `benchmarks/inductor.py` on AVX-512; with narrower vectors they differ little.
"""

from __future__ import annotations

import collections
import functools
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.integrations.inductor.aliasing import noalias_arguments, terms
from tilewright.integrations.inductor.replacements import Replacement

#: `xindex // 64`, `(r0_index % 784)`
_DIVISOR = re.compile(r"\b(\w+?)index\s*(?://|%)\s*(\d+)")
#: `xnumel = 96`
_EXTENT = re.compile(r"^ +(\w+?)numel = (\d+)$", re.MULTILINE)
#: the index that a load runs along: `x1` in `tl.load(in_ptr0 + (x1 + 200*r0_2)`
_ALONG_MEMORY = re.compile(r"tl\.load\(\w+ \+ \((?:[^\n]*? \+ )??([xyzr]\d*_?)\d+[ )]")
#: an access whose address is no scalar
_ACCESS = re.compile(r"tl\.(load|store)\(\w+ \+ \((.*)\n")
_Y, _X = re.compile(r"y\d+"), re.compile(r"\bx\d+")
_KEPT, _REDUCED = re.compile(r"\b[xyz]\d+"), re.compile(r"\br\d_\d+")

_GENERATED = ("pointwise", "reduction", "persistent_reduction")
_POINTWISE = 512
_TRANSPOSE = {"ZBLOCK": 1, "YBLOCK": 32, "XBLOCK": 128}
_ROW = 512
_ROWS = 4096
"""Elements of a program that goes along rows: enough that it takes longer than what is done once per program."""
_ALONG = 64
"""Accumulators of a reduction along memory: four vectors of fp32."""
_LONG_ALONG = 1024
_SCAN_ALONG = 256
_VECTOR = 16
"""Elements that are worth a program, or an iteration of a loop."""
_SHORT_VECTOR = 4
_COLUMNS = 128
_TRANSPOSED = {"XBLOCK": 64, "R0_BLOCK": 16}
"""Blocks of a reduction that are transposed in registers: a vector along what is reduced, and some along what is kept."""
_LONG = 4096
"""Rows from which on one running sum would lose too many digits."""
_SMALL_ROWS = 256
"""Elements that the rows of one program have together, where a row is short."""
_TILE = 1 << 14
"""Most elements of a reduction's tile, which is kept in L1."""


@dataclass(frozen=True)
class Work:
    """What a kernel computes, as Inductor describes it."""

    kind: str
    """`HeuristicType` in lower case."""
    sizes: Mapping[str, int]
    """Extents by dimension ("x", "y", "r0_" …), powers of two."""
    across: bool = False
    """Of reductions: whether neighbors in memory belong to different results."""
    transposes: bool = False
    """Of reductions: whether stores run along what is reduced, and loads across it, or the other way round."""
    scans: bool = False
    scatters: bool = False
    """Whether it adds to elements given by indices: rows of a tile may go to the same elements."""
    in_rows: bool = False
    """Of two pointwise dimensions: whether all accesses run along the inner one."""
    passes: int = 1
    """How many reductions follow each other: each is a loop over the row."""
    threads: int = 1
    divisors: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """What the kernel divides the index of a dimension by, where that stands for several of a tensor."""
    extents: Mapping[str, int] = field(default_factory=dict)
    """The extents that are constants of the kernel."""


def blocks(work: Work, given: Mapping[str, int]) -> dict[str, int] | None:
    """Values for the block sizes in `given` (a configuration of Inductor's); None: leave them."""
    names = [name for name in given if name.endswith("BLOCK")]
    sizes = {name: work.sizes.get(_dimension(name), 0) for name in names}
    if not names or len(names) != len(given) or 0 in sizes.values():
        return None
    if work.kind == "pointwise":
        chosen = _pointwise(names, work)
    elif work.kind == "reduction" and "R0_BLOCK" in names:
        chosen = _reduction(names, work)
    elif work.kind == "persistent_reduction" and "XBLOCK" in names:
        chosen = {**dict.fromkeys(names, 1), "XBLOCK": _rows(work)}
    else:
        return None
    return {name: min(chosen[name], sizes[name]) for name in names}


def _dimension(name: str) -> str:
    """ "XBLOCK" -> "x", "R0_BLOCK" -> "r0_"."""
    return name.removesuffix("BLOCK").lower()


def _pointwise(names: Sequence[str], work: Work) -> Mapping[str, int]:
    if len(names) == 1:
        return {names[0]: _undivided(_POINTWISE, "x", work)}
    if len(names) == 2 and work.in_rows and not work.scatters:
        return _whole_rows(work)
    found = {name: _TRANSPOSE[name] for name in names}
    if work.scatters:
        found = {name: size if name == "XBLOCK" else 1 for name, size in found.items()}
    return {
        name: _filled(_undivided(size, _dimension(name), work), _dimension(name), work)
        for name, size in found.items()
    }


def _whole_rows(work: Work) -> Mapping[str, int]:
    """Rows as long as they are, up to a limit: loops end with the row, whatever the block. Fewer of them where not all
    threads would have some."""
    row = min(_ROW, work.sizes["x"])
    rows = max(1, _ROWS // row)
    while rows > 1 and work.sizes["y"] * (work.sizes["x"] // row) < 4 * rows * work.threads:
        rows //= 2
    return {"XBLOCK": _undivided(row, "x", work), "YBLOCK": rows}


def _filled(block: int, dimension: str, work: Work) -> int:
    """`block`, or a smaller one where blocks of that size reach at least a tenth less far beyond the end."""
    extent = work.extents.get(dimension, 0)
    chosen = smaller = block
    while extent and (smaller := smaller // 2) >= _VECTOR:
        if 1.1 * (-(-extent // smaller) * smaller) <= -(-extent // chosen) * chosen:
            chosen = smaller
    return chosen


def _undivided(block: int, dimension: str, work: Work) -> int:
    """`block`, or the largest smaller one that divides all divisors: its lanes then have one quotient, and lie
    side by side in memory. `block` where that is less than a vector.
    """
    common = math.gcd(block, *work.divisors.get(dimension, ()))
    return common if common >= _VECTOR else block


def _reduction(names: Sequence[str], work: Work) -> Mapping[str, int]:
    """One row a program, or some columns: blocks of the innermost dimensions, 1 of the others."""
    found = dict.fromkeys(names, 1)
    inner = "R1_BLOCK" if "R1_BLOCK" in names else "R0_BLOCK"
    if work.transposes and not work.scans and not work.scatters and inner == "R0_BLOCK":
        found |= {**_TRANSPOSED, "XBLOCK": min(_TRANSPOSED["XBLOCK"], _columns(work))}
    elif work.across:
        long = work.sizes["r0_"] > _LONG and not work.scans
        found |= {"XBLOCK": _columns(work), inner: _ALONG if long else 1}
    elif inner == "R1_BLOCK":
        found[inner] = _LONG_ALONG
    else:
        block = _SCAN_ALONG if work.scans else _LONG_ALONG if work.passes > 1 else _ALONG
        found[inner] = _undivided(block, "r0_", work)
        if not work.scans and not work.scatters:
            found["XBLOCK"] = max(1, _SMALL_ROWS // work.sizes["r0_"])
    return found


def _columns(work: Work) -> int:
    """Columns of a program: fewer where there are not enough for all threads, but a cache line's."""
    columns = _COLUMNS
    while columns > 16 and work.sizes["x"] < columns * work.threads:
        columns //= 2
    common = math.gcd(columns, *work.divisors.get("x", ()))
    # a short vector of columns beats lanes that are gathered from rows far apart
    return common if common >= _SHORT_VECTOR else columns


def _rows(work: Work) -> int:
    """Results of a program that holds its whole rows (or columns) in one tile."""
    length = work.sizes.get("r0_", 1) * work.sizes.get("r1_", 1)
    if work.scatters:
        return 1
    if not work.across:
        return max(_VECTOR if work.transposes else 1, _SMALL_ROWS // length)
    return max(1, min(_columns(work), _TILE // length))


# ---- what torch calls ----------------------------------------------------------------------------------


def _choosing(module: Any, original: Any) -> Any:
    """`cached_autotune` with configurations chosen here for kernels on the CPU."""

    @functools.wraps(original)
    def choosing(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        device = getattr(given["triton_meta"].get("device"), "type", None)
        if device == "cpu" and given.get("inductor_meta"):
            # a search along num_warps and num_stages, which change nothing here
            given["inductor_meta"] = {**given["inductor_meta"], "coordinate_descent_tuning": False}

        def decorate(fn: Any) -> Any:
            if device == "cpu" and given["heuristic_type"].name.lower() in _GENERATED:
                meta = given.get("inductor_meta") or {}
                fn.noalias = noalias_arguments(fn.arg_names, meta, fn.src)
            configs = choose(module.Config, source=fn.src, **given)
            return original(**{**given, "configs": configs})(fn)

        return decorate

    return choosing


def choose(
    config: Callable[..., Any],
    size_hints: Mapping[str, int] | None,
    configs: Sequence[Any],
    triton_meta: Mapping[str, Any],
    heuristic_type: Any,
    inductor_meta: Mapping[str, Any] | None = None,
    source: str = "",
    **_: Any,
) -> Sequence[Any]:
    """The configurations to compile: ours for a kernel on the CPU (up to three to measure under max-autotune),
    all of `configs` for others.

    The arguments are those of torch's `cached_autotune`; `config` makes a configuration, `source` is the kernel.
    """
    meta = inductor_meta or {}
    if getattr(triton_meta.get("device"), "type", None) != "cpu" or not configs:
        return configs
    if not size_hints:
        return configs
    directions = [(access, _direction(text)) for access, text in _ACCESS.findall(source)]
    work = Work(
        kind=heuristic_type.name.lower(),
        sizes=size_hints,
        across=_is_across(meta, source, directions),
        transposes=_transposes(directions),
        scans=bool(meta.get("num_reduction", 1) == 0),
        scatters=bool(meta.get("atomic_add_found")),
        in_rows=not any(_is_along_y(text) for _, text in _ACCESS.findall(source)),
        passes=meta.get("num_reduction", 1),
        divisors=_divisors(source),
        extents={name: int(extent) for name, extent in _EXTENT.findall(source)},
        threads=getattr(triton_meta["device"], "multi_processor_count", None) or 1,
    )
    found = blocks(work, configs[0].kwargs)
    if found is None:
        return configs[:1] if work.kind in _GENERATED else configs
    if meta.get("no_x_dim"):
        found["XBLOCK"] = 1
    tunes = meta.get("max_autotune") or meta.get("max_autotune_pointwise")
    tried = neighbors(found, size_hints) if tunes else [found]
    return [config(blocks, num_warps=1, num_stages=1) for blocks in tried]


def _is_along_y(text: str) -> bool:
    """Whether neighbors along `y` are neighbors in memory, and those along `x` are not the same: `y` is a term without
    a factor of the index that `text` begins with."""
    parts = terms(text)
    return any(map(_X.search, parts)) and any(map(_Y.fullmatch, parts))


def _transposes(directions: Sequence[tuple[str, str]]) -> bool:
    """Whether stores run in a direction in which no load does."""
    loads, stores = (
        {direction for access, direction in directions if access == name and direction}
        for name in ("load", "store")
    )
    return bool(loads) and not stores <= loads


def _direction(text: str) -> str:
    """Whether neighbors in memory are neighbors along a kept or a reduced dimension, of an access with indices of both that
    `text` begins with; "" if it has not."""
    parts = terms(text)
    if not any(map(_KEPT.search, parts)) or not any(map(_REDUCED.search, parts)):
        return ""
    if any(map(_REDUCED.fullmatch, parts)):
        return "reduced"
    return "kept" if any(map(_KEPT.fullmatch, parts)) else ""


def _divisors(source: str) -> dict[str, list[int]]:
    """`Work.divisors` of a kernel."""
    found: dict[str, list[int]] = {}
    for dimension, number in _DIVISOR.findall(source):
        found.setdefault(dimension, []).append(int(number))
    return found


def neighbors(found: Mapping[str, int], sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Block sizes to measure: `found`, and with its largest block doubled, and halved."""
    name = max(found, key=lambda n: found[n])
    other = (2 * found[name], found[name] // 2)
    near = [size for size in other if _VECTOR <= size <= sizes[_dimension(name)]]
    return [dict(found), *({**found, name: size} for size in near)]


def _is_across(meta: Mapping[str, Any], source: str, directions: Sequence[tuple[str, str]]) -> bool:
    """Whether most accesses run along a dimension that is kept: as Inductor scored them, which it does for kernels with
    one kept dimension, or as the kernel's loads say. Stores take part once, loads in each pass over what is reduced."""
    loads = collections.Counter(along for access, along in directions if access == "load")
    if loads["kept"] and ("store", "reduced") in directions:
        return loads["kept"] > loads["reduced"]
    hint = getattr(meta.get("reduction_hint"), "name", "DEFAULT")
    scores = meta.get("tiling_scores") or {}
    if hint != "DEFAULT":
        return hint.startswith("OUTER")
    if not scores:
        scores = collections.Counter(_ALONG_MEMORY.findall(source))
    reduced = sum(score for name, score in scores.items() if name.startswith("r"))
    return sum(scores.values()) - reduced > reduced


REPLACEMENTS = (
    Replacement("torch._inductor.runtime.triton_heuristics", "cached_autotune", _choosing),
)
