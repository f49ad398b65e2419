"""torch.compile on the CPU: tilewright's kernels beside Inductor's C++ and eager mode.

    python benchmarks/inductor.py                       every row, one thread (about five minutes)
    python benchmarks/inductor.py --only softmax
    python benchmarks/inductor.py --threads 2

Each function is compiled by both back ends in one process; then the three are timed in turns, nine rounds, and
the least time of each counts: other work on the machine only adds. Compilation is timed in CPU seconds of the
process and of the compilers that it starts, the second time a function is compiled, without caches. Writes
`benchmarks/results/inductor.md` (several threads: `inductor_threads.md`) unless `--only` is given. Needs torch and a C++ compiler.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import protocol

ROUNDS, ROUND_SECONDS = 9, 4e-3
THREADED_SECONDS = 0.1
"""A round with several threads: threads that slept meanwhile take some milliseconds to run at once again."""
BACK_ENDS = {"C++": "cpp", "tilewright": "triton"}

Run = Callable[[Any], Any]


def workloads(torch: Any) -> dict[str, tuple[Any, Run]]:
    """Name -> (function, how to run it or what it was compiled to)."""
    F = torch.nn.functional
    randn = torch.randn
    x, y, w, b = randn(512, 1024), randn(512, 1024), randn(1024), randn(1024)
    found: dict[str, tuple[Any, Run]] = {}

    def add(name: str, function: Any, *args: Any) -> None:
        found[name] = function, lambda compiled: compiled(*args)

    def add_backward(name: str, function: Any, *args: Any) -> None:
        leaves = [a.clone().requires_grad_() for a in args]
        weight = torch.randn_like(function(*leaves))
        found[name] = function, lambda c: torch.autograd.grad(c(*leaves), leaves, weight)

    add("gelu and products", lambda x, y: F.gelu(x) * y + x.sigmoid(), x, y)
    add("sum and relu", lambda x, y: (x + y).relu() * 2, x, y)
    add("bf16 gelu", lambda x: F.gelu(x) * 2 + x, x.bfloat16())
    add("transpose", lambda x, y: x.t().contiguous() + y.view(1024, 512), x, y)
    add("heads", lambda h: (h.permute(0, 2, 1, 3) * 2).contiguous(), randn(8, 128, 16, 64))
    add("whole sum", lambda x: (x * x).sum(), x)
    add("row sum", lambda x: (x * 2).sum(1), x)
    add("column sum", lambda x: (x * 2).sum(0), x)
    add("mean and variance", lambda x: torch.var_mean(x, 1), x)
    add("softmax", lambda x: torch.softmax(x * 0.1, -1), x)
    add("softmax, 64 wide", lambda x: torch.softmax(x, -1), x.view(8192, 64))
    add("cross entropy", lambda x, t: F.cross_entropy(x, t), x, torch.arange(512))
    add("layer norm", lambda x: F.layer_norm(x, (1024,), w, b) + 1, x)
    add("rms norm", lambda x: F.rms_norm(x, (1024,), w), x)
    add("argmax", lambda x: x.argmax(1), x)
    add("cumulative sum", lambda x: x.cumsum(1), x)
    table, rows = randn(5000, 1024), torch.randint(0, 5000, (512,))
    add("embedding, layer norm", lambda t, i: F.layer_norm(t[i], (1024,)), table, rows)
    add("scatter", lambda x, i: torch.zeros(100, 1024).index_add(0, i, x), x, rows % 100)
    q, c = randn(8, 16, 128, 64), randn(128, 32)
    add("rope", lambda q, c: torch.cat([q[..., :32] * c, q[..., 32:] * c], -1), q, c)
    image = randn(8, 32, 28, 28)
    add("batch norm", lambda x: F.batch_norm(x, None, None, training=True).relu(), image)
    add("max pool", lambda x: F.max_pool2d(x, 2).relu(), image)
    add_backward("layer norm, backward", lambda x, w, b: F.layer_norm(x, (1024,), w, b), x, w, b)
    add_backward("softmax, backward", lambda x: torch.softmax(x, -1), x)
    add_backward("gelu, backward", lambda x: F.gelu(x), x)
    add("log-gamma and erfc", lambda x: torch.lgamma(x) + torch.erfc(x), x)
    add("atanh and log10", lambda x: torch.atanh(x.tanh() * 0.9) + torch.log10(x.abs() + 1), x)
    add("softmax, middle", lambda x: torch.softmax(x, 1), randn(16, 128, 64))
    add("largest, middle", lambda x: x.amax(1), randn(16, 128, 200))
    add("channels last", lambda x: x.permute(0, 2, 3, 1).contiguous() + 1, image)
    add("average pool", lambda x: F.avg_pool2d(x, 2), image)
    add("average pool to 7x7", lambda x: F.adaptive_avg_pool2d(x, 7), image)
    add("cumulative maximum", lambda x: torch.cummax(x, 1), x)
    add("log of cumulative exp", lambda x: torch.logcumsumexp(x, 1), x)
    add("few columns", lambda x: x.sum(0), x.view(65536, 8))
    small = randn(2, 8, 48, 48)
    for mode in ("bilinear", "bicubic"):
        add(mode, lambda x, m=mode: F.interpolate(x, scale_factor=2.0, mode=m), small)
    add("patches", lambda x: F.unfold(x, 3, padding=1) * 2, randn(4, 16, 32, 32))
    add("layer norm of channels", channel_norm, image)
    add("flip", lambda x: x.flip(1) * 2, x)
    add("stack", lambda x, y: torch.stack([x, y + 1], -1), x, y)
    add("windows", lambda x: x.unfold(1, 16, 8).sum(-1), x)
    add_backward(
        "batch norm, backward",
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        image, randn(32), randn(32),
    )  # fmt: skip
    C = 256
    shapes = ((2, 128, C), (C, 3 * C), (C, C), (C, 4 * C), (4 * C, C), (C,), (C,))
    weights = [randn(shape) * 0.05 for shape in shapes]
    add("block", transformer_block, *weights)
    add_backward("block, backward", transformer_block, *weights)
    return found


def channel_norm(x: Any) -> Any:
    import torch

    rows = x.permute(0, 2, 3, 1)
    return torch.nn.functional.layer_norm(rows, rows.shape[-1:]).permute(0, 3, 1, 2) + 1


def transformer_block(x: Any, wq: Any, wo: Any, w1: Any, w2: Any, g1: Any, g2: Any) -> Any:
    """Eight heads, GELU, two layer norms."""
    import torch
    from torch.nn import functional as F

    batch, length, channels = x.shape
    h = F.layer_norm(x, (channels,), g1)
    q, k, v = (h @ wq).view(batch, length, 3, 8, channels // 8).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2)) * (channels // 8) ** -0.5
    above = torch.ones(length, length, dtype=torch.bool).triu(1)
    heads = scores.masked_fill(above, float("-inf")).softmax(-1) @ v
    x = x + heads.transpose(1, 2).reshape(batch, length, channels) @ wo
    return x + F.gelu(F.layer_norm(x, (channels,), g2) @ w1) @ w2


def renamed(function: Any, suffix: str) -> Any:
    """The same function with code of its own, for torch remembers compilations by code."""
    code = function.__code__.replace(co_name=f"f_{suffix}")
    return types.FunctionType(
        code, function.__globals__, code.co_name, function.__defaults__, function.__closure__
    )


def compiled_by(torch: Any, back_end: str, function: Any, run: Run) -> tuple[Any, float]:
    """The compiled function, and CPU seconds that it took."""
    settings = torch._inductor.config
    with settings.patch(cpu_backend=back_end):
        run(torch.compile(renamed(function, "warm" + back_end)))
        before = sum(os.times()[:4])
        compiled = torch.compile(renamed(function, back_end))
        run(compiled)
        run(compiled)
        return compiled, sum(os.times()[:4]) - before


def least_times(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Seconds per call, the least of rounds of `seconds` each, in which all take turns."""
    best = dict.fromkeys(calls, math.inf)
    for call in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            count, start, now = 0, time.perf_counter(), 0.0
            while now < seconds:
                call()
                count, now = count + 1, time.perf_counter() - start
            best[name] = min(best[name], now / count)
    return best


def geomean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="part of a row's name")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    policy = os.environ.get("OMP_WAIT_POLICY")
    protocol.set_threads(given.threads)
    if (
        policy is None
    ):  # threads that sleep between launches cost some 40 µs each time, which users do not pay
        del os.environ["OMP_WAIT_POLICY"]
    import torch

    torch.set_num_threads(given.threads)
    from tilewright.integrations import inductor

    inductor.install("cpu")
    import torch._inductor.config as settings

    settings.force_disable_caches = True
    settings.compile_threads = 1
    lines = [
        "| work | eager µs | C++ µs | tilewright µs | C++ / tilewright | eager / tilewright | compile C++ s | tilewright s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print(*lines, sep="\n", flush=True)
    against: dict[str, list[float]] = {"eager": [], "C++": [], "compile": []}
    for name, (function, run) in workloads(torch).items():
        if given.only and not any(part in name for part in given.only):
            continue
        calls: dict[str, Callable[[], Any]] = {"eager": lambda f=function, r=run: r(f)}
        seconds = {}
        for title, back_end in BACK_ENDS.items():
            compiled, seconds[title] = compiled_by(torch, back_end, function, run)
            calls[title] = lambda c=compiled, r=run: r(c)
        best = least_times(calls, ROUND_SECONDS if given.threads == 1 else THREADED_SECONDS)
        ours = best["tilewright"]
        for peer in ("eager", "C++"):
            against[peer].append(best[peer] / ours)
        against["compile"].append(seconds["C++"] / seconds["tilewright"])
        micro = " | ".join(f"{1e6 * best[title]:.0f}" for title in calls)
        lines.append(
            f"| {name} | {micro} | {best['C++'] / ours:.2f} | {best['eager'] / ours:.2f} | "
            f"{seconds['C++']:.2f} | {seconds['tilewright']:.2f} |"
        )
        print(lines[-1], flush=True)
    means = {
        peer: f"{geomean(ratios):.2f} (least {min(ratios):.2f})" for peer, ratios in against.items()
    }
    summary = (
        f"Geometric means: C++ / tilewright {means['C++']}, eager / tilewright {means['eager']}, "
        f"compilation C++ / tilewright {means['compile']}."
    )
    print(f"\n{summary}")
    if not given.only:
        load = os.getloadavg()[0]
        head = (
            "# torch.compile on the CPU\n\nMade by `benchmarks/inductor.py`, which says how it is timed. "
            f"Threads: {given.threads}; torch {torch.__version__}; load at the end: {load:.1f}.\n"
        )
        path = protocol.RESULTS / f"inductor{'' if given.threads == 1 else '_threads'}.md"
        path.write_text("\n".join([head, *lines, "", summary, ""]))


if __name__ == "__main__":
    main()
