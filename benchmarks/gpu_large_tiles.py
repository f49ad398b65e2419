"""Tiles of more elements than threads have registers, on a GPU: with passes off, and beside Triton.

    python benchmarks/gpu_large_tiles.py [--only NAME ...] [--seconds 60] [--no-triton]

Kernels are those of `tests/large_tiles.py`, the same source for both compilers. Contestants: `ours`;
`anew` without `cache-in-shared` (each loop over chunks loads them anew); `whole` without `strip-mine-tiles` (every
element in a register, or spilled); `255`, whole with `maxnreg=255`; `triton`. Those that make the same
code as one before them are left out. Arrays are larger than the L2 cache; results are compared with
float64 first; times are medians of rounds whose order alternates. Rates are of the bytes that have to be
moved once. Prints the table that `benchmarks/results/gpu_large_tiles.md` has.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for _folder in ("src", "tests", "examples"):
    sys.path.insert(0, str(ROOT / _folder))

import torch  # noqa: E402

import gpu_dots  # noqa: E402
import gpu_kernels  # noqa: E402
import large_tiles  # noqa: E402

ROUNDS, READING_MS = 7, 4.0
VARIANTS: dict[str, dict[str, Any]] = {
    "ours": {},
    "anew": {"disable": "cache-in-shared"},
    "whole": {"disable": "strip-mine-tiles"},
}
KINDS = {"f": torch.float32, "h": torch.float16, "b": torch.bfloat16}


@dataclass
class Work:
    """What a kernel is launched with. `outputs`: arrays that it writes; `expected`: them in float64."""

    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    outputs: tuple[Any, ...]
    expected: Callable[[], tuple[Any, ...]]
    bytes_: int


def _random(kind: str, *shape: int) -> Any:
    return torch.randn(*shape, device="cuda").to(KINDS[kind])


def _empty(kind: str, *shape: int) -> Any:
    return torch.empty(*shape, device="cuda", dtype=KINDS[kind])


# ---- the kernels' arguments --------------------------------------------------------------------------------


def cross_entropy(kind: str, n: int) -> Work:
    rows = (1 << 27) // n
    x, loss = 4 * _random(kind, rows, n), _empty("f", rows)
    labels = torch.randint(0, n, (rows,), device="cuda")

    def expected() -> tuple[Any, ...]:
        v = x[:64].double()
        picked = labels[:64, None]
        slope = torch.softmax(v, 1).scatter_add(1, picked, torch.full_like(v[:, :1], -1.0)) / 8
        return slope, torch.logsumexp(v, 1) - v.gather(1, picked)[:, 0]

    moved = 3 * x.numel() * x.element_size()
    return Work((rows,), (x, labels, loss, n, 0.125), (x, loss), expected, moved)


def divergence(kind: str, n: int) -> Work:
    rows = (1 << 26) // n
    p, t = (torch.log_softmax(_random(kind, rows, n), 1) for _ in range(2))
    t, loss = t.exp(), _empty("f", rows)

    def expected() -> tuple[Any, ...]:
        q = t[:64].double()
        return ((q * (q.log() - p[:64].double())).sum(1),)

    return Work((rows,), (p, t, loss, n), (loss,), expected, 2 * p.numel() * p.element_size())


def jensen_shannon(kind: str, n: int) -> Work:
    rows = (1 << 26) // n
    x, y = (torch.log_softmax(_random("f", rows, n), 1).to(KINDS[kind]) for _ in range(2))
    loss, slope = _empty("f", rows, n), _empty("f", rows, n)

    def expected() -> tuple[Any, ...]:
        a, b = x[:64].double(), y[:64].double()
        p, q = a.exp(), b.exp()
        log_m = ((p + q) / 2).log()
        return (p * b + q * a) / 2 - (p + q) / 2 * log_m, q * (a - log_m) / 2

    moved = x.numel() * (2 * x.element_size() + 8)
    return Work((rows,), (x, y, loss, slope, n, 0.5), (loss, slope), expected, moved)


def group_norm(kind: str, n: int) -> Work:
    channels, groups = 8, (1 << 27) // n
    x = _random(kind, groups, n)
    out, mean, rstd = torch.empty_like(x), _empty("f", groups), _empty("f", groups)
    weight, bias = _random(kind, channels), _random(kind, channels)

    def expected() -> tuple[Any, ...]:
        v = x[:64].double()
        hat = (v - v.mean(1, keepdim=True)) / (v.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
        hat = hat.view(-1, channels, n // channels) * weight.double()[:, None]
        return ((hat + bias.double()[:, None]).view(-1, n),)

    moved = 3 * x.numel() * x.element_size()
    given = (x, out, mean, rstd, weight, bias, n, n // channels)
    return Work((groups,), given, (out,), expected, moved)


def _normalised(x: Any, weight: Any, bias: Any) -> Any:
    v = x.double()
    hat = (v - v.mean(1, keepdim=True)) / (v.var(1, keepdim=True, correction=0) + 1e-5).sqrt()
    return hat * weight.double() + bias.double()


def layer_norm(kind: str, n: int) -> Work:
    rows = (1 << 27) // n
    x, weight, bias = _random(kind, rows, n), _random(kind, n), _random(kind, n)
    out, mean, rstd = torch.empty_like(x), _empty("f", rows), _empty("f", rows)
    return Work(
        (rows,), (x, weight, bias, out, mean, rstd, n), (out,),
        lambda: (_normalised(x[:64], weight, bias),), 2 * x.numel() * x.element_size(),
    )  # fmt: skip


def layer_norm_backward(kind: str, n: int) -> Work:
    programs, rows = 132, max(1, (1 << 26) // n // 132)
    x, dy = _random(kind, programs * rows, n), _random(kind, programs * rows, n)
    w, mean, rstd = _random(kind, n), _random("f", programs * rows), _random("f", programs * rows)
    dx, dw, db = torch.empty_like(x), _empty("f", programs, n), _empty("f", programs, n)

    def expected() -> tuple[Any, ...]:
        v, d = x[:64].double(), dy[:64].double()
        r = rstd[:64, None].double()
        hat = (v - mean[:64, None].double()) * r
        wd = w.double() * d
        c1, c2 = (hat * wd).mean(1, keepdim=True), wd.mean(1, keepdim=True)
        shifts = dy.double().view(programs, rows, n)[:64].sum(1)
        return (wd - (hat * c1 + c2)) * r, shifts

    given = (x, w, mean, rstd, dy, dx, dw, db, rows, n)
    return Work((programs,), given, (dx, db), expected, 3 * x.numel() * x.element_size())


def rms_norm_rows(kind: str, n: int) -> Work:
    rows = (1 << 27) // n
    x, weight = _random(kind, rows, n), _random(kind, n)
    out, rstd = torch.empty_like(x), _empty("f", rows)

    def expected() -> tuple[Any, ...]:
        v = x[:64].double()
        return (v / (v.square().mean(1, keepdim=True) + 1e-6).sqrt() * weight.double(),)

    moved = 2 * x.numel() * x.element_size()
    return Work((132,), (x, weight, out, rstd, rows, n), (out,), expected, moved)


def softmax_backward(kind: str, n: int) -> Work:
    rows = (1 << 27) // n
    p = torch.softmax(4 * _random("f", rows, n), 1).to(KINDS[kind])
    d = _random(kind, rows, n)
    dx = torch.empty_like(p)

    def expected() -> tuple[Any, ...]:
        a, b = p[:64].double(), d[:64].double()
        return (a * (b - (a * b).sum(1, keepdim=True)),)

    return Work((rows,), (p, d, dx, n), (dx,), expected, 3 * p.numel() * p.element_size())


def softmax(kind: str, n: int) -> Work:
    work = softmax_rows(kind, n)
    x, out, rows, n = work.arguments
    work.grid, work.arguments = (rows,), (x, out, n)
    return work


def softmax_rows(kind: str, n: int) -> Work:
    rows = (1 << 27) // n
    x = 4 * _random(kind, rows, n)
    out = torch.empty_like(x)
    return Work(
        (132,), (x, out, rows, n), (out,), lambda: (torch.softmax(x[:64].double(), 1),),
        2 * x.numel() * x.element_size(),
    )  # fmt: skip


def mean_of_rows(kind: str, block: int) -> Work:
    n, rows = 132 * block, max(8, (1 << 27) // (132 * block))
    x, out = _random(kind, rows, n), _empty("f", n)
    return Work(
        (132,), (x, out, rows, n), (out,), lambda: (x.double().mean(0),),
        x.numel() * x.element_size(),
    )  # fmt: skip


def linear_recurrence(kind: str, block: int) -> Work:
    n, steps = 132 * block, max(8, (1 << 26) // (132 * block))
    a, x = _random(kind, steps, n), _random(kind, steps, n)
    out = torch.empty_like(a)

    def expected() -> tuple[Any, ...]:
        state, found = torch.zeros(n, device="cuda", dtype=torch.float64), []
        for t in range(steps):
            gate = torch.sigmoid(a[t].double())
            state = gate * state + (1 - gate) * x[t].double()
            found.append(state)
        return (torch.stack(found),)

    return Work((132,), (a, x, out, steps, n), (out,), expected, 3 * a.numel() * a.element_size())


def _tiles(kind: str, m: int, n: int, grid: tuple[int, ...]) -> tuple[Any, Any]:
    x = _random(kind, m, n)
    return x, torch.empty_like(x)


def copy_tiles(kind: str, block: int) -> Work:
    m, n = 132 * 2 * block, 2048
    x, out = _tiles(kind, m, n, ())
    y = _random(kind, m, n)

    def expected() -> tuple[Any, ...]:
        v = x[:64].double()
        return (v * torch.sigmoid(v) * y[:64].double(),)

    moved = 3 * x.numel() * x.element_size()
    return Work((264,), (x, y, out, m, n), (out,), expected, moved)


def sums_of_rows(kind: str, block: int) -> Work:
    m, n = 132 * 2 * block, 2048
    x, out = _random(kind, m, n).abs(), _empty("f", m)

    def expected() -> tuple[Any, ...]:
        v = x[:64].double()
        return (v.sum(1) / v.amax(1),)

    return Work((264,), (x, out, m, n), (out,), expected, x.numel() * x.element_size())


def sums_of_columns(kind: str, block: int) -> Work:
    m, n = 2048, 132 * 2 * block
    x, out = _random(kind, m, n), _empty("f", n)
    moved = x.numel() * x.element_size()
    return Work((264,), (x, out, m, n), (out,), lambda: (x.double().sum(0),), moved)


def sums_in_the_loop(kind: str, block: int) -> Work:
    return sums_of_columns(kind, block)


def transpose(kind: str, block: int) -> Work:
    m, n = 12288, 8192
    x, out = _random(kind, m, n), _empty(kind, n, m)
    moved = 2 * x.numel() * x.element_size()
    return Work(
        (m // block, n // block), (x, out, m, n), (out,), lambda: (x[:, :64].T.double(),), moved
    )


def transpose_loop(kind: str, block: int) -> Work:
    work = transpose(kind, block)
    x = work.arguments[0]
    work.grid, work.expected = work.grid[:1], lambda: (2 * x[:, :64].T.double(),)
    return work


# ---- the rows ----------------------------------------------------------------------------------------------

#: kernel, element type, elements of a row (of a block, for kernels that take columns), block, warps
ROWS: list[tuple[Callable[..., Work], str, int, int, int]] = [
    (layer_norm, "f", 32768, 32768, 8), (layer_norm, "f", 32768, 32768, 32),
    (softmax_backward, "f", 65536, 65536, 32), (softmax_backward, "h", 65536, 65536, 32),
    (cross_entropy, "f", 131072, 32768, 8), (rms_norm_rows, "f", 32768, 32768, 8),
    (cross_entropy, "f", 131072, 65536, 32), (cross_entropy, "b", 131072, 65536, 32),
    (cross_entropy, "b", 131072, 32768, 32),
    (jensen_shannon, "f", 131072, 65536, 32), (jensen_shannon, "b", 131072, 32768, 32),
    (divergence, "f", 131072, 65536, 32), (group_norm, "f", 524288, 65536, 32),
    (softmax_rows, "f", 65536, 65536, 32), (softmax_rows, "h", 65536, 65536, 32),
    (rms_norm_rows, "f", 65536, 65536, 32), (rms_norm_rows, "b", 32768, 32768, 16),
    (softmax, "f", 32768, 32768, 8), (softmax, "f", 65536, 65536, 16),
    (softmax, "f", 65536, 65536, 32), (softmax, "h", 65536, 65536, 32),
    (layer_norm, "f", 65536, 65536, 32), (layer_norm, "h", 65536, 65536, 32),
    (layer_norm, "h", 65536, 65536, 8), (softmax_rows, "f", 4096, 4096, 4),
    (layer_norm_backward, "f", 16384, 16384, 16), (layer_norm_backward, "b", 32768, 32768, 32),
    (copy_tiles, "h", 256, 256, 4), (sums_of_rows, "f", 256, 256, 4),
    (sums_in_the_loop, "f", 256, 256, 4), (sums_of_columns, "f", 256, 256, 4),
    (linear_recurrence, "f", 16384, 16384, 4), (mean_of_rows, "f", 16384, 16384, 4),
    (layer_norm_backward, "f", 32768, 32768, 8), (transpose, "f", 256, 256, 4),
    (transpose_loop, "f", 256, 256, 4), (softmax, "f", 16384, 16384, 4),
    (softmax, "h", 65536, 65536, 16), (mean_of_rows, "f", 65536, 65536, 4),
    (linear_recurrence, "f", 65536, 65536, 4),
]  # fmt: skip


def stock_kernels() -> Any:
    """The same kernels with Triton; None where it is not installed."""
    if importlib.util.find_spec("triton") is None:
        return None
    text = Path(large_tiles.__file__).read_text()
    for old, new in (
        ("tilewright.language", "triton.language"),
        ("import tilewright as", "import triton as"),
    ):
        text = text.replace(old, new)
    folder = Path(tempfile.mkdtemp())
    file = folder / "large_tiles_stock.py"
    file.write_text(text)
    return gpu_dots.module_of("large_tiles_stock", file)


def milliseconds(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median time of one call of each."""
    inner = {
        name: max(1, round(READING_MS / max(1e-3, _reading(call, 2))))
        for name, call in calls.items()
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS):
        for name in list(calls) if turn % 2 == 0 else reversed(list(calls)):
            times[name].append(_reading(calls[name], inner[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _reading(call: Callable[[], object], inner: int) -> float:
    call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(inner):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / inner


def error(found: Any, expected: Any) -> float:
    """Relative error (Frobenius norm) of the first rows."""
    found = found[: expected.shape[0]].double()
    return float((found - expected).norm() / expected.norm())


def measured(row: tuple[Any, ...], stock: Any) -> str:
    """Check and time one row: a line of the table."""
    make, kind, n, block, warps = row
    work = make(kind, n)
    name = make.__name__
    kernel = getattr(large_tiles, name)
    tiles = {"BM": block, "BN": block} if "BM" in kernel.arg_names else {"BLOCK": block}
    if "CAST" in kernel.arg_names:
        tiles["CAST"] = False
    calls: dict[str, Callable[[], object]] = {}
    notes: list[str] = []
    kept = [out.clone() for out in work.outputs]
    expected, code = work.expected(), set()
    contestants = [(v, kernel, o) for v, o in VARIANTS.items()]
    if stock is not None:
        contestants.append(("triton", getattr(stock, name), {}))
    for contestant, function, options in contestants:

        def call(function: Any = function, options: Any = options) -> object:
            return function[work.grid](*work.arguments, **tiles, num_warps=warps, **options)

        start = time.perf_counter()
        try:
            compiled: Any = call()
        except Exception as failure:  # of Triton, which has no room for some
            notes.append(f"{contestant} fails: {str(failure).splitlines()[0][:60]}")
            continue
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        errors = [error(out, right) for out, right in zip(work.outputs, expected, strict=True)]
        for out, before in zip(work.outputs, kept, strict=True):
            out.copy_(before)
        if not max(errors) < (1e-4 if kind == "f" else 2e-2):
            notes.append(f"{contestant} WRONG {max(errors):.1e}")
        if (text := compiled.asm["ptx"]) in code:
            continue
        code.add(text)
        calls[contestant] = call
        spills = f"+{compiled.n_spills}" if compiled.n_spills else ""
        shared = getattr(compiled, "plan", None)
        notes.append(
            f"{contestant} {seconds:.1f} s {compiled.n_regs}{spills}"
            + (
                f" {shared.shared_bytes >> 10}K"
                if shared is not None and shared.shared_bytes >> 10
                else ""
            )
        )
    times = milliseconds(calls)
    label = f"{name} {kind} {n} / {block} w{warps}"
    rates = "  ".join(f"{c} {work.bytes_ / t / 1e6:.0f}" for c, t in times.items())
    ratio = times["triton"] / times["ours"] if "triton" in times else 0.0
    return f"| {label} | {rates} | {ratio:.3f} | {'; '.join(notes)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--no-triton", action="store_true")
    given = parser.parse_args()
    stock = None if given.no_triton else stock_kernels()
    start = time.perf_counter()
    for key, value in gpu_kernels.machine().items() if stock is not None else ():
        print(f"- {key}: {value}")
    columns = (
        "kernel, type, row / block, warps",
        "GB/s",
        "Triton's time / ours",
        "first call, registers + spilled",
    )
    print(f"\n| {' | '.join(columns)} |")
    print("|---|---|---|---|")
    for row in ROWS:
        if given.only and not any(word in row[0].__name__ for word in given.only):
            continue
        if time.perf_counter() - start > given.seconds:
            print(f"no time left for {row[0].__name__} {row[1:]}")
            continue
        print(measured(row, stock), flush=True)


if __name__ == "__main__":
    main()
