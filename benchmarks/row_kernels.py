"""Kernels of rows on a GPU: tilewright beside Triton and beside a copy of as many bytes.

    python benchmarks/row_kernels.py [--only softmax ...] [--sizes 4096 ...] [--variants] [--dry-run]

Softmax, RMS norm and layer norm (forward, and the gradient of x), cross entropy with its gradient
(`row_kernel_programs.py`): one program a row, which is one tile; and loops over blocks of a row. The same source for
both compilers, with the warps that libraries give rows of that length. Arrays have at least 256 MB, several times the
L2 cache; contestants take turns, and times are medians of rounds. Results are compared with float64 first. Rates are
of the bytes that have to be moved once, and "of copy" is the rate divided by that of `torch.Tensor.copy_` between
rows of the same run. `--variants` adds ours without `distribute-rows-over-cluster`, and with other options of it.
Writes `benchmarks/results/row_kernels.{json,md}`. `--dry-run` compiles for sm_90a instead, which needs no GPU, and
prints registers, spilled bytes, CTAs of a program and instructions that load.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for _folder in ("src", "examples"):
    sys.path.insert(0, str(ROOT / _folder))

import torch  # noqa: E402

import gpu_dots  # noqa: E402
import protocol  # noqa: E402
import row_kernel_programs  # noqa: E402

SIZES = (131072, 262144, 65536, 4096, 32768, 16384)
LOOP_SIZES = (32768, 131072, 262144)
BYTES, ROUNDS, READING_MS = 256 << 20, 5, 3.0
STRIP = 4096
"""Elements of a part of a row, of kernels that are loops over them."""
TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
_PASS = "distribute-rows-over-cluster"
VARIANTS: dict[str, str] = {
    "off": _PASS,
    "8K words": _PASS + "{words-per-cta=8192}",
    "32K words": _PASS + "{words-per-cta=32768}",
    "16 CTAs": _PASS + "{max-portable-ctas=16}",
    "8K words, 16 CTAs": _PASS + "{words-per-cta=8192 max-portable-ctas=16}",
    "not again": "rematerialize-across-reductions",
    "no prefetch": "prefetch-next-programs",
}
Call = Callable[[], Any]


@dataclass
class Work:
    """What a kernel is launched with. `arrays`: how many as large as x are moved."""

    arguments: tuple[Any, ...]
    outputs: tuple[Any, ...]
    expected: Callable[[], tuple[Any, ...]]
    arrays: int


def _data(dtype: Any, rows: int, n: int, scale: float = 1.0) -> Any:
    return (scale * torch.randn(rows, n, device="cuda")).to(dtype)


def _stats(rows: int) -> Any:
    return torch.empty(rows, device="cuda", dtype=torch.float32)


def softmax(dtype: Any, rows: int, n: int) -> Work:
    x = _data(dtype, rows, n, 4.0)
    out = torch.empty_like(x)
    return Work((x, out, n), (out,), lambda: (torch.softmax(x[:32].double(), 1),), 2)


def rms_norm(dtype: Any, rows: int, n: int) -> Work:
    x, w, rstd = _data(dtype, rows, n), _data(dtype, 1, n)[0], _stats(rows)
    out = torch.empty_like(x)

    def expected() -> tuple[Any, ...]:
        v = x[:32].double()
        return (v * torch.rsqrt(v.square().mean(1, keepdim=True) + 1e-6) * w.double(),)

    return Work((x, w, out, rstd, n, 1e-6), (out,), expected, 2)


def rms_norm_backward(dtype: Any, rows: int, n: int) -> Work:
    x, dy, w = _data(dtype, rows, n), _data(dtype, rows, n), _data(dtype, 1, n)[0]
    rstd, dx = torch.rsqrt(x.float().square().mean(1)), torch.empty_like(x)

    def expected() -> tuple[Any, ...]:
        v, r = x[:32].double(), rstd[:32, None].double()
        slope = dy[:32].double() * w.double()
        return ((slope - v * (slope * v).mean(1, keepdim=True) * r * r) * r,)

    return Work((x, w, dy, rstd, dx, n), (dx,), expected, 3)


def layer_norm(dtype: Any, rows: int, n: int) -> Work:
    x, w, b = _data(dtype, rows, n), _data(dtype, 1, n)[0], _data(dtype, 1, n)[0]
    out, mean, rstd = torch.empty_like(x), _stats(rows), _stats(rows)

    def expected() -> tuple[Any, ...]:
        v = x[:32].double()
        centred = v - v.mean(1, keepdim=True)
        hat = centred * torch.rsqrt(centred.square().mean(1, keepdim=True) + 1e-5)
        return (hat * w.double() + b.double(),)

    return Work((x, w, b, out, mean, rstd, n, 1e-5), (out,), expected, 2)


def layer_norm_backward(dtype: Any, rows: int, n: int) -> Work:
    x, dy, w = _data(dtype, rows, n), _data(dtype, rows, n), _data(dtype, 1, n)[0]
    mean, rstd = x.float().mean(1), torch.rsqrt(x.float().var(1, correction=0) + 1e-5)
    dx = torch.empty_like(x)

    def expected() -> tuple[Any, ...]:
        r = rstd[:32, None].double()
        hat = (x[:32].double() - mean[:32, None].double()) * r
        slope = dy[:32].double() * w.double()
        along, shift = (hat * slope).mean(1, keepdim=True), slope.mean(1, keepdim=True)
        return ((slope - hat * along - shift) * r,)

    return Work((x, w, dy, mean, rstd, dx, n), (dx,), expected, 3)


def cross_entropy(dtype: Any, rows: int, n: int) -> Work:
    x, loss = _data(dtype, rows, n, 4.0), _stats(rows)
    label, dx = torch.randint(0, n, (rows,), device="cuda"), torch.empty_like(x)

    def expected() -> tuple[Any, ...]:
        v, picked = x[:32].double(), label[:32, None]
        slope = torch.softmax(v, 1).scatter_add(1, picked, torch.full_like(v[:, :1], -1.0))
        return slope * 0.125, torch.logsumexp(v, 1) - v.gather(1, picked)[:, 0]

    return Work((x, label, loss, dx, n, 0.125), (dx, loss), expected, 2)


MAKERS: dict[str, Callable[[Any, int, int], Work]] = {
    "softmax": softmax, "rms_norm": rms_norm, "rms_norm_backward": rms_norm_backward,
    "layer_norm": layer_norm, "layer_norm_backward": layer_norm_backward,
    "cross_entropy": cross_entropy, "softmax_loops": softmax, "rms_norm_loops": rms_norm,
    "cross_entropy_loops": cross_entropy,
}  # fmt: skip


def settings(name: str, n: int) -> tuple[int, int]:
    """Block and warps, as libraries of such kernels choose them."""
    if name.endswith("_loops"):
        return STRIP, 8
    return n, 32 if n >= 32768 else 16 if n >= 8192 else 8


def cases(only: list[str], sizes: list[int]) -> Iterator[tuple[str, str, int]]:
    """Kernel, type and columns, all kernels of one size after another."""
    for n in sizes:
        for name in MAKERS:
            for dtype in TYPES:
                loops = name.endswith("_loops")
                if (not only or name in only) and (not loops or n in LOOP_SIZES):
                    yield name, dtype, n


# ---- without a GPU ---------------------------------------------------------------------------------------

_SIGNATURE = {"n": "i32:16", "eps": "fp32", "scale": "fp32", "label_ptr": "*i64:16",
              "mean_ptr": "*fp32:16", "rstd_ptr": "*fp32:16", "loss_ptr": "*fp32:16"}  # fmt: skip


def compiled(name: str, dtype: str, n: int, disable: str = "") -> Any:
    """A kernel for sm_90a."""
    kernel = getattr(row_kernel_programs, name)
    block, warps = settings(name, n)
    names = [a for a in kernel.arg_names if a != "BLOCK"]
    types = {a: _SIGNATURE.get(a, f"*{dtype}:16") for a in names}
    options = {"disable": disable} if disable else {}
    return kernel.compile(types, {"BLOCK": block}, target="sm_90a", num_warps=warps, **options)


def describe(name: str, dtype: str, n: int, variants: dict[str, str]) -> None:
    """Print what a kernel and its variants became."""
    for variant, disable in {"ours": "", **variants}.items():
        start = time.perf_counter()
        found = compiled(name, dtype, n, disable)
        plan, ptx = found.plan, found.asm["ptx"]
        loads = len(re.findall(r"ld\.global\S*v[24]", ptx))
        print(
            f"{name} {dtype} {n} {variant}: {plan.cluster_size} CTAs of {plan.threads} threads, "
            f"{plan.registers} registers, {plan.spills} spilled, {plan.shared_bytes >> 10} KB shared, "
            f"{loads} wide loads, {time.perf_counter() - start:.1f} s",
            flush=True,
        )


# ---- with one --------------------------------------------------------------------------------------------


def with_triton() -> Any:
    """The kernels with Triton; None where it cannot be imported."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return None
    text = Path(row_kernel_programs.__file__).read_text()
    text = text.replace("tilewright.language", "triton.language")
    file = Path(tempfile.mkdtemp()) / "row_kernels_stock.py"
    file.write_text(text.replace("import tilewright as", "import triton as"))
    return gpu_dots.module_of("row_kernels_stock", file)


def milliseconds(calls: dict[str, Call]) -> dict[str, float]:
    """Median time of one call of each, in rounds whose order alternates."""
    inner = {name: max(1, round(READING_MS / _reading(call, 1))) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS):
        for name in list(calls)[:: 1 if turn % 2 == 0 else -1]:
            times[name].append(_reading(calls[name], inner[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _reading(call: Call, inner: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(inner):
        call()
    end.record()
    end.synchronize()
    return max(1e-3, start.elapsed_time(end) / inner)


def error(found: Any, expected: Any) -> float:
    """Relative error (Frobenius norm) of the first rows."""
    found = found[: expected.shape[0]].double()
    return float((found - expected).norm() / expected.norm())


def measured(case: tuple[str, str, int], stock: Any, variants: dict[str, str]) -> dict[str, Any]:
    """Check and time one row of the table."""
    name, dtype, n = case
    rows = max(1, BYTES // (n * TYPES[dtype].itemsize))
    work = MAKERS[name](TYPES[dtype], rows, n)
    block, warps = settings(name, n)
    kernels = {"ours": (getattr(row_kernel_programs, name), {})}
    kernels |= {v: (kernels["ours"][0], {"disable": d}) for v, d in variants.items()}
    if stock is not None:
        kernels["triton"] = (getattr(stock, name), {})
    calls: dict[str, Call] = {}
    found: dict[str, Any] = {"kernel": name, "dtype": dtype, "n": n, "rows": rows, "errors": {}}
    expected = work.expected()
    for who, (kernel, options) in kernels.items():

        def call(kernel: Any = kernel, options: Any = options) -> Any:
            return kernel[(rows,)](*work.arguments, BLOCK=block, num_warps=warps, **options)

        for out in work.outputs:
            out.fill_(float("nan"))
        try:
            made = call()
        except Exception as failure:  # of Triton, which has no room for some
            if who == "ours":
                raise
            found["errors"][who] = str(failure).splitlines()[0][:80]
            continue
        torch.cuda.synchronize()
        worst = max(error(o, e) for o, e in zip(work.outputs, expected, strict=True))
        found["errors"][who] = worst
        limit = 1e-5 if dtype == "fp32" else 6e-3
        if not worst < limit:
            raise SystemExit(f"{who} is wrong: {name} {dtype} {n}: {worst:.2e}, not {limit}")
        if who == "ours":
            plan = made.plan
            found["made"] = f"{plan.cluster_size}×{plan.threads}, {plan.registers}+{plan.spills}"
        calls[who] = call
    x = work.arguments[0]
    other = torch.empty_like(x)
    calls["copy"] = lambda: other.copy_(x)
    times = milliseconds(calls)
    size = x.numel() * x.element_size()
    found["ms"] = times
    found["rates"] = {who: work.arrays * size / ms / 1e6 for who, ms in times.items()}
    found["rates"]["copy"] = 2 * size / times["copy"] / 1e6
    return found


def place(row: dict[str, Any]) -> tuple[int, str, int]:
    """Where a row of the table goes."""
    return list(MAKERS).index(row["kernel"]), row["dtype"], row["n"]


def line(row: dict[str, Any], others: list[str]) -> str:
    """A row of the table in Markdown."""
    rates, ms = row["rates"], row["ms"]
    ratio = f"{ms['triton'] / ms['ours']:.2f}" if "triton" in ms else "–"
    more = " | ".join(f"{rates[v]:.0f}" if v in rates else "–" for v in others)
    return (
        f"| {row['kernel']} | {row['dtype']} | {row['n']} | {row['made']} | {rates['ours']:.0f} | "
        f"{rates['ours'] / rates['copy']:.3f} | {ratio} | {rates['copy']:.0f} | {more} |"
    )


def table(rows: list[dict[str, Any]], others: list[str]) -> list[str]:
    """All rows, and what the targets are held against."""
    heads = ["kernel", "type", "columns", "CTAs × threads, registers + spilled", "GB/s", "of copy",
             "Triton's time / ours", "copy", *others]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    lines += [line(row, others) for row in rows]
    shares = [r["rates"]["ours"] / r["rates"]["copy"] for r in rows]
    long = [
        r["ms"]["triton"] / r["ms"]["ours"] for r in rows if r["n"] > 65536 and "triton" in r["ms"]
    ]
    text = f"of copy: lowest {min(shares):.3f}, {sum(s >= 0.95 for s in shares)} of {len(shares)} at 0.95"
    if long:
        mean = math.exp(statistics.fmean(map(math.log, long)))
        text += f"; Triton's time / ours above 65536 columns: geomean {mean:.2f}, lowest {min(long):.2f}"
    return [*lines, "", text]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], choices=list(MAKERS))
    parser.add_argument("--sizes", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--seconds", type=float, default=160, help="begin no row after that")
    parser.add_argument("--no-triton", action="store_true")
    parser.add_argument("--dry-run", action="store_true", help="compile for sm_90a")
    parser.add_argument("--to", type=Path, default=protocol.RESULTS, help="folder of the results")
    args = parser.parse_args()
    variants = VARIANTS if args.variants else {}
    todo = list(cases(args.only, args.sizes))
    if args.dry_run:
        for case in todo:
            describe(*case, variants)
        return
    start, rows, left_out = time.perf_counter(), [], 0
    stock = None if args.no_triton else with_triton()
    others = [*variants, *(["triton"] if stock is not None else [])]
    for case in todo:
        if time.perf_counter() - start > args.seconds:
            left_out += 1
            continue
        rows.append(measured(case, stock, variants))
        print(line(rows[-1], others), flush=True)
    text = [
        "# Kernels of rows", "",
        f"`python benchmarks/row_kernels.py` on an {torch.cuda.get_device_name()}, torch {torch.__version__}"
        + (f", Triton {sys.modules['triton'].__version__}" if stock is not None else ""),
        "", *table(sorted(rows, key=place), others), *([f"no time for {left_out} rows"] if left_out else []),
    ]  # fmt: skip
    print("\n".join(text[-2:]))
    protocol.write("row_kernels", {"rows": rows}, "\n".join(text), args.to)


if __name__ == "__main__":
    main()
