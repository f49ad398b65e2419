"""The speed table of the CPU: kernels of the seed documents, as written there, against torch.

    python benchmarks/cpu_kernels.py                 every row (about ten minutes)
    python benchmarks/cpu_kernels.py --quick         a few sizes of every row
    python benchmarks/cpu_kernels.py --only softmax --only rope
    python benchmarks/cpu_kernels.py --threads 1

Writes `benchmarks/results/cpu_kernels.{json,md}` (`--only` replaces the rows it measured and keeps
the others). The protocol is in `protocol.py`. Without torch the rows show our times and no ratios.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import protocol
from protocol import Call, Point, Row

NAME = "cpu_kernels"
#: block sizes of the element-wise kernels; 1024 is the seeds'
BLOCKS = (1024, 4096, 16384)


@dataclass
class Settings:
    """What a row function needs: torch or None, the size of the run, and a random source."""

    torch: Any
    quick: bool
    rng: Any

    def pick(self, everything: list[Any], few: list[Any]) -> list[Any]:
        return few if self.quick else everything

    def array(self, *shape: int, dtype: str = "float32", random: bool = True) -> Any:
        """A touched buffer: random numbers (int8: all values) or zeros; torch's where it is there."""
        import ml_dtypes
        import numpy as np

        if dtype == "int8":
            values = self.rng.integers(-128, 128, shape, dtype=np.int8)
        else:
            values = self.rng.standard_normal(shape, dtype=np.float32)
        if not random:
            values = values * 0
        if self.torch is not None:
            return self.torch.from_numpy(values).to(getattr(self.torch, dtype))
        return values.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def check(ours: Any, wanted: Any, tolerance: float, what: str) -> None:
    """Refuse to time a wrong result."""
    import numpy as np

    a, b = (
        np.asarray(v.double() if hasattr(v, "double") else v, np.float64) for v in (ours, wanted)
    )
    error = float(np.abs(a - b).max()) / max(1.0, float(np.abs(b).max()))
    if not error <= tolerance:
        raise SystemExit(f"{what}: wrong result, error {error:.1e}")


def verify(ours: Call, peer: Call | None, out: Any, tolerance: float, what: str) -> None:
    """Run both into their common output and compare. (One buffer for both: same pages, same speed.)"""
    if peer is None:
        ours()
        return
    peer()
    wanted = out.clone()
    out.zero_()
    ours()
    check(out, wanted, tolerance, what)


def compared(size: str, ours: dict[str, Call], peer: Call | None, **judged: Any) -> Point:
    """Measure the fastest of `ours` against `peer`."""
    best = protocol.fastest(ours) if len(ours) > 1 else next(iter(ours))
    times = protocol.measure({best: ours[best], **({"peer": peer} if peer else {})})
    mine, theirs = times[best] * 1e6, times.get("peer")
    note = best if len(ours) > 1 else ""
    ratio = theirs * 1e6 / mine if theirs else None
    return Point(size, mine, theirs and theirs * 1e6, ratio, note=note, **judged)


# ---- element-wise ---------------------------------------------------------------------------------


def elementwise(s: Settings) -> Iterator[Row]:
    import elementwise_kernels as kernels
    import seeds_loader

    add = seeds_loader.load("vector_add").add_kernel_one_block
    sizes = s.pick([1 << e for e in range(12, 27)], [1 << e for e in (12, 14, 16, 18, 20, 24)])
    rows = [
        Row(name, f"{work}, fp32, 2^16 … 2^26 (2^12 … 2^15: torch's time + 1 us)", 1.0)
        for name, work in (
            ("add", "vector add against torch.add(x, y, out=)"),
            ("scale", "x * 2.5 against torch.mul(x, 2.5, out=)"),
            ("relu", "max(x, 0) against torch.clamp_min(x, 0, out=)"),
        )
    ]
    for n in sizes:
        judged: dict[str, Any] = {"floor": 0.93} if n >= 1 << 16 else {"allowance_us": 1.0}
        out, calls = _elementwise_calls(s, add, kernels, n)
        for row, (mine, peer) in zip(rows, calls, strict=True):
            for name, call in mine.items():
                verify(call, peer, out, 1e-6, f"{row.key} {name} {n}")
            row.points.append(compared(f"2^{n.bit_length() - 1}", mine, peer, **judged))
    yield from rows


def _elementwise_calls(
    s: Settings, add: Any, kernels: Any, n: int
) -> tuple[Any, list[tuple[dict[str, Call], Call | None]]]:
    """The output, and (ours by block size, torch's) for add, scale and relu of `n` elements."""
    x, y, out, t = s.array(n), s.array(n), s.array(n, random=False), s.torch
    ours: list[dict[str, Call]] = [{}, {}, {}]
    for block in (b for b in BLOCKS if b <= n):
        grid = (-(-n // block),)
        calls: list[Call] = [
            lambda g=grid, b=block: add[g](x, y, out, n, BLOCK_SIZE=b),
            lambda g=grid, b=block: kernels.scale_kernel[g](x, out, 2.5, n, BLOCK_SIZE=b),
            lambda g=grid, b=block: kernels.relu_kernel[g](x, out, n, BLOCK_SIZE=b),
        ]
        for found, call in zip(ours, calls, strict=True):
            found[f"block {block}"] = call
    peers: list[Call | None] = [
        lambda: t.add(x, y, out=out),
        lambda: t.mul(x, 2.5, out=out),
        lambda: t.clamp_min(x, 0, out=out),
    ]
    return out, list(zip(ours, peers if t else [None] * 3, strict=True))


# ---- softmax ---------------------------------------------------------------------------------------


def softmax(s: Settings) -> Iterator[Row]:
    import seeds_loader

    program = seeds_loader.load("softmax")
    best = Row("softmax", "softmax fp32, 1024 rows (256 from 65536 columns up), best of the three "
               "kernels as written, against torch.softmax(out=)", 1.35)  # fmt: skip
    online = Row("softmax-online", "the online kernel alone, BLOCK_SIZE 4096 as written", 1.0,
                 note="Judged by the geomean over n >= 4096; floor 0.7 below.")  # fmt: skip
    for n in s.pick([1 << e for e in range(8, 18)], [256, 1024, 4096, 16384]):
        rows = 1024 if n < 65536 else 256
        x, out = s.array(rows, n), s.array(rows, n)
        block = 1 << (n - 1).bit_length()

        def launch(kernel: Any, **meta: Any) -> Call:
            return lambda: kernel[[rows]](x, n, out, n, n, num_warps=32, **meta)  # noqa: B023

        fused = {"fused": launch(program.kernel_softmax_fuse, BLOCK_SIZE=block)}
        tiled, onlines = (
            {
                f"{name}, CACHE_OPT={opt}": launch(kernel, BLOCK_SIZE=size, CACHE_OPT=opt)
                for opt in (False, True)
            }
            for name, kernel, size in (
                ("tiled", program.kernel_softmax_tile, 2**14),
                ("online", program.kernel_softmax_online, 2**12),
            )
        )
        peer = (lambda: s.torch.softmax(x, 1, out=out)) if s.torch else None  # noqa: B023
        for name, call in (fused | tiled | onlines).items():
            verify(call, peer, out, 2e-6, f"softmax {name} {n}")
        size = f"{rows} x {n}"
        best.points.append(compared(size, fused | tiled | onlines, peer, floor=1.05))
        point = compared(size, onlines, peer, floor=0.7 if n < 4096 else None)
        online.points.append(point)
    yield best
    yield from _split_online(online)


def _split_online(row: Row) -> Iterator[Row]:
    """Two rows of one: from 4096 columns up a geomean is wanted, below only a floor."""
    columns = [int(p.size.split()[-1]) for p in row.points]
    large = Row(row.key, row.work + ", n >= 4096", 1.0)
    small = Row(row.key + "-small", row.work + ", n < 4096 (floor only)", None)
    for n, point in zip(columns, row.points, strict=True):
        (large if n >= 4096 else small).points.append(point)
    yield large
    yield small


# ---- RoPE ------------------------------------------------------------------------------------------


def rope(s: Settings) -> Iterator[Row]:
    import numpy as np

    import seeds_loader

    program = seeds_loader.load("rope")
    tokens, length, heads, dim = 2 * 2048, 2048, 32, 128
    angle = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, dim, 2) / dim))
    eager = Row(
        "rope", "RoPE in place, 2 x 2048 tokens, 32 heads x 128, against q * cos + "
        "rotate_half(q) * sin in torch", 3.0, note="The peer's temporaries and its result are "
        "preallocated; the note says how long the formula takes as users write it.",
    )  # fmt: skip
    copied = Row("rope-copy", "the same against the rate of copying q (read + write)", 0.8)
    for dtype in ("float32", "bfloat16"):
        q = s.array(tokens, heads, dim, dtype=dtype)
        target = s.array(tokens, heads, dim, dtype=dtype)
        cos, sin = s.array(length, dim, dtype=dtype), s.array(length, dim, dtype=dtype)
        for table, f in ((cos, np.cos), (sin, np.sin)):
            values = np.concatenate([f(angle)] * 2, axis=1).astype(np.float32)
            table[:] = s.torch.from_numpy(values) if s.torch else values

        def launch(q: Any = q, cos: Any = cos, sin: Any = sin) -> None:
            program._rope_embedding[program.rope_grid(tokens, heads)](
                q, heads * dim, cos, dim, sin, dim, length,
                head_dim=dim, n_heads=heads, BLOCK_SIZE=dim // 2,
            )  # fmt: skip

        formula, allocating = None, 0.0
        if s.torch:
            formula, plain = _eager_rope(s.torch, q, target, cos, sin, tokens // length)
            wanted = plain().clone()
            allocating = protocol.block(plain, 3, 0.0) * 1e6
            formula()
            check(target, wanted, 1e-2, f"rope formula {dtype}")
            launch()
            check(q, wanted, 1e-6 if dtype == "float32" else 1e-2, f"rope {dtype}")
        copy = (
            (lambda a=q, b=target: b.copy_(a))
            if s.torch
            else (lambda a=q, b=target: np.copyto(b, a))
        )
        eager.points.append(compared(dtype, {"": launch}, formula))
        eager.points[-1].note = f"allocating: {allocating:.0f} us"
        copied.points.append(compared(dtype, {"": launch}, copy, floor=0.8))
    yield eager
    yield copied


def _eager_rope(torch: Any, q: Any, out: Any, cos: Any, sin: Any, batch: int) -> tuple[Any, Any]:
    """The formula with everything preallocated, and as users write it."""
    c, s = (t.repeat(batch, 1)[:, None] for t in (cos, sin))
    half = q.shape[-1] // 2
    rotated = torch.empty_like(q)

    def preallocated() -> None:
        torch.neg(q[..., half:], out=rotated[..., :half])
        rotated[..., half:].copy_(q[..., :half])
        torch.mul(q, c, out=out)
        rotated.mul_(s)
        out.add_(rotated)

    return preallocated, lambda: q * c + torch.cat((-q[..., half:], q[..., :half]), dim=-1) * s


# ---- the table --------------------------------------------------------------------------------------


def families() -> dict[str, Callable[[Settings], Iterator[Row]]]:
    """Row functions by name. A function gives one row or several."""
    import matmul_rows
    import sorted_rows

    return {
        "elementwise": elementwise,
        "softmax": softmax,
        "rope": rope,
        **matmul_rows.FAMILIES,
        **sorted_rows.FAMILIES,
    }


def wanted(only: list[str], family: str) -> bool:
    aliases = {"elementwise": ("add", "scale", "relu")}
    return not only or any(o.startswith(family) or o in aliases.get(family, ()) for o in only)


def kept_rows(measured: set[str]) -> list[dict[str, Any]]:
    """Rows of an earlier run that this one did not measure."""
    path = protocol.RESULTS / f"{NAME}.json"
    if not path.is_file():
        return []
    return [r for r in json.loads(path.read_text())["rows"] if r["key"] not in measured]


def restored(data: dict[str, Any]) -> Row:
    points = [Point(**p) for p in data["points"]]
    fields = {k: data[k] for k in ("key", "work", "target", "note", "skipped")}
    return Row(**fields, points=points)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few sizes; nothing is written")
    parser.add_argument("--only", action="append", default=[], metavar="ROW")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    protocol.set_threads(options.threads)
    import numpy as np

    torch = protocol.torch_or_none()
    if torch is not None:
        torch.set_num_threads(protocol.set_threads(options.threads))
    facts = protocol.machine_facts()
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), flush=True)
    rows: list[Row] = []
    for family, function in families().items():
        if wanted(options.only, family):
            for row in function(Settings(torch, options.quick, np.random.default_rng(0))):
                rows.append(row)
                print("\n" + protocol.details(row), flush=True)
    print(protocol.summary(rows))
    if not options.quick and not options.no_write:
        save(facts, rows, families())
    return 0


def save(facts: dict[str, Any], rows: list[Row], order: dict[str, Any]) -> None:
    """Write the table, with earlier rows where this run has none."""
    everything = rows + [restored(r) for r in kept_rows({row.key for row in rows})]
    names = list(order)
    first = {"add": "elementwise", "scale": "elementwise", "relu": "elementwise"}

    def place(row: Row) -> int:
        family = first.get(row.key) or max(
            (n for n in names if row.key.startswith(n)), key=len, default=names[-1]
        )
        return names.index(family)

    everything.sort(key=place)
    notes = protocol.RESULTS / "cpu_kernels_notes.md"
    text = "\n\n".join([
        "# Speed on the CPU", "Made by `benchmarks/cpu_kernels.py`; the protocol is in "
        "`benchmarks/protocol.py`. A ratio is the peer's time over ours: above 1 we are faster.",
        protocol.facts_table(facts), protocol.summary(everything),
        notes.read_text(encoding="utf-8").rstrip() if notes.is_file() else "",
        *(protocol.details(row) for row in everything),
    ])  # fmt: skip
    protocol.write(
        NAME, {"machine": facts, "rows": [protocol.row_data(r) for r in everything]}, text
    )
    print(f"written: {protocol.RESULTS / NAME}.md and .json")


if __name__ == "__main__":
    raise SystemExit(main())
