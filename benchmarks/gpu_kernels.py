"""The example kernels on a GPU, as written: tilewright beside Triton and torch, in one process.

Every contestant gets the same buffers of random data. Its launches are captured in a CUDA graph, so
that the GPU is timed and not the host; graphs are replayed in rounds whose order alternates, with an
idle gap before each, and timed with events; the result is the median of rounds. Each result is
compared with a float64 or cuBLAS reference first.

    python benchmarks/gpu_kernels.py [--only add softmax rope matmul dot] [--quick]

writes `benchmarks/results/gpu_kernels.{json,md}`.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for _folder in ("src", "examples"):
    sys.path.insert(0, str(ROOT / _folder))

import torch  # noqa: E402

import gpu_dots  # noqa: E402
import seeds_loader  # noqa: E402

ROUNDS, GAP_SECONDS, READING_MS = 7, 0.02, 8.0
PROGRAMS = ("vector_add", "softmax", "rope", "tutorial_matmul")
Call = Callable[[], object]


@functools.cache
def with_triton(name: str) -> Any:
    """A program of `examples/seeds` with stock Triton."""
    folder = ROOT / "examples" / "seeds"
    if importlib.util.find_spec("pytest") is None:
        sys.modules["pytest"] = seeds_loader._stand_in_pytest()
    return gpu_dots.module_of(f"stock_{name}", folder / f"{name}.py")


@functools.cache
def with_tilewright(name: str) -> Any:
    """The same program with tilewright in the place of Triton, loaded before stock Triton is."""
    return seeds_loader.load(name)


def load_programs() -> None:
    """Load every program with tilewright, then let stock Triton have its name."""
    from tilewright.integrations import triton as drop_in

    for name in PROGRAMS:
        with_tilewright(name)
    drop_in.install()
    gpu_dots.load_with_tilewright()
    drop_in.uninstall()


def graph_of(call: Call, inner: int) -> Any:
    """`inner` calls as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(inner):
            call()
    return graph


def milliseconds(calls: dict[str, Call]) -> dict[str, float]:
    """Median time of one call of each contestant, in interleaved rounds."""
    graphs, inners = {}, {}
    for name, call in calls.items():
        inners[name] = _calls_a_reading(call)
        graphs[name] = graph_of(call, inners[name])
    times: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for turn in range(ROUNDS):
        for name in names if turn % 2 == 0 else reversed(names):
            torch.cuda.synchronize()
            time.sleep(GAP_SECONDS)
            graphs[name].replay()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graphs[name].replay()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) / inners[name])
    return {name: sorted(found)[len(found) // 2] for name, found in times.items()}


def _calls_a_reading(call: Call) -> int:
    call()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(3):
        call()
    end.record()
    end.synchronize()
    return max(1, min(100, round(READING_MS / max(1e-3, start.elapsed_time(end) / 3))))


def error_of(result: Any, reference: Any) -> float:
    """Relative error in the Frobenius norm."""
    a, b = result.double(), reference.double()
    return float((a - b).norm() / b.norm())


# ---- the rows -----------------------------------------------------------------------------------------


def add_rows(quick: bool) -> list[dict[str, Any]]:
    return [_add_row(1 << power) for power in ((24,) if quick else (24, 28))]


def _add_row(n: int) -> dict[str, Any]:
    ours, stock = with_tilewright("vector_add"), with_triton("vector_add")
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out, grid = torch.empty_like(x), (n // 1024,)
    calls: dict[str, Call] = {
        "tilewright": lambda: ours.add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024),
        "triton": lambda: stock.add_kernel[grid](x, y, out, n, BLOCK_SIZE=1024),
        "torch": lambda: torch.add(x, y, out=out),
        "copy": lambda: out.copy_(x),
        "copy by a kernel": lambda: torch.mul(x, 1.0, out=out),
    }
    found = row("add", str(n), calls, out, lambda: x + y, 3 * 4 * n)
    fastest = min(time for name, time in found["ms"].items() if name.startswith("copy"))
    found["copy GB/s"] = round(2 * 4 * n / fastest / 1e6)
    found["of copy"] = found["GB/s"]["tilewright"] / found["copy GB/s"]
    print(
        f"         {found['of copy']:.3f} of the copy rate, {found['copy GB/s']} GB/s", flush=True
    )
    return found


def softmax_rows(quick: bool) -> list[dict[str, Any]]:
    sizes = (1024, 8192) if quick else tuple(1 << p for p in range(8, 18))
    return [_softmax_row(n, kernel) for n in sizes for kernel in ("fuse", "tile", "online")]


def _softmax_row(n: int, kernel: str) -> dict[str, Any]:
    ours, stock = with_tilewright("softmax"), with_triton("softmax")
    x = torch.randn(1024, n, device="cuda")
    out = torch.empty_like(x)
    block = 1 << (n - 1).bit_length() if kernel == "fuse" else 4096
    options: dict[str, Any] = {"BLOCK_SIZE": block, "num_warps": 32}
    if kernel != "fuse":
        options["CACHE_OPT"] = True

    def launch(module: Any) -> Call:
        function = getattr(module, f"kernel_softmax_{kernel}")
        return lambda: function[(1024,)](x, n, out, n, n, **options)

    calls: dict[str, Call] = {
        "tilewright": launch(ours),
        "triton": launch(stock),
        "torch": lambda: torch.softmax(x, 1, out=out),
    }
    return row("softmax", f"{kernel} {n}", calls, out, lambda: torch.softmax(x, 1), 8 * x.numel())


def rope_rows(quick: bool) -> list[dict[str, Any]]:
    ours, stock = with_tilewright("rope"), with_triton("rope")
    tokens, heads, dim = 2 * 4096, 32, 128
    q = torch.randn(tokens, heads * dim, device="cuda", dtype=torch.bfloat16)
    angles = torch.rand(4096, dim // 2, device="cuda")
    cos, sin = (f(angles).to(torch.bfloat16).repeat(1, 2) for f in (torch.cos, torch.sin))
    grid, given = (
        ours.rope_grid(tokens, heads),
        {"head_dim": dim, "n_heads": heads, "BLOCK_SIZE": 64},
    )
    out = q.clone()

    def launch(module: Any) -> Call:
        kernel = module._rope_embedding
        return lambda: kernel[grid](
            out, heads * dim, cos, dim, sin, dim, 4096, **given, num_warps=4
        )

    def reference() -> Any:
        a, b = out.view(tokens, heads, dim).float().chunk(2, -1)
        at = torch.arange(tokens, device="cuda") % 4096
        c, s = (t.float()[at, None, : dim // 2] for t in (cos, sin))
        return torch.cat((a * c - b * s, b * c + a * s), -1).view(tokens, heads * dim)

    calls = {"tilewright": launch(ours), "triton": launch(stock)}
    return [row("rope", "bf16 2x4096x32x128", calls, out, reference, 4 * q.numel())]


#: block sizes, warps and stages: the document's, and two squares
CONFIGS = (
    (128, 256, 64, 8, 3), (64, 256, 32, 4, 4), (128, 128, 32, 4, 4), (128, 64, 32, 4, 4),
    (64, 128, 32, 4, 4), (128, 128, 64, 4, 4), (128, 128, 64, 8, 3), (64, 128, 64, 4, 4),
)  # fmt: skip


def matmul_rows(quick: bool) -> list[dict[str, Any]]:
    sizes = (2048, 4096) if quick else (1024, 1536, 2048, 3072, 4096, 6144, 8192, 11264, 16384)
    shapes = [(n, n, n) for n in sizes] + ([] if quick else [(9728, 8192, 65536)])
    return [_matmul_row(*shape) for shape in shapes]


def _matmul_row(m: int, n: int, k: int) -> dict[str, Any]:
    modules = {
        "tilewright": with_tilewright("tutorial_matmul"),
        "triton": with_triton("tutorial_matmul"),
    }
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    out, reference = torch.empty(m, n, device="cuda", dtype=torch.float16), torch.mm(a, b)
    best: dict[str, tuple[float, tuple[int, ...], Call]] = {}
    for config in CONFIGS if max(m, n, k) <= 4096 else (CONFIGS[0], CONFIGS[5]):
        for name, module in modules.items():
            call = _matmul_call(module, a, b, out, config)
            out.fill_(float("nan"))
            call()
            if not error_of(out, reference) < 1e-2:
                raise SystemExit(f"{name} {m}x{n}x{k} {config}: wrong result")
            took = _quick_time(call)
            if name not in best or took < best[name][0]:
                best[name] = (took, config, call)
    calls: dict[str, Call] = {name: found[2] for name, found in best.items()}
    calls["torch"] = lambda: torch.mm(a, b, out=out)
    found = row("matmul", f"{m}x{n}x{k}", calls, out, lambda: reference, 0, 2 * m * n * k)
    found["configs"] = {name: list(entry[1]) for name, entry in best.items()}
    return found


def _kernel(module: Any) -> Any:
    """The jit function below autotune and heuristics."""
    kernel = module.matmul_kernel
    while type(kernel).__name__ != "JITFunction":
        kernel = kernel.fn
    return kernel


def _matmul_call(module: Any, a: Any, b: Any, out: Any, config: tuple[int, ...]) -> Call:
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk, warps, stages = config
    grid = (-(-m // bm) * -(-n // bn),)
    launch = _kernel(module)[grid]
    given = {
        "BLOCK_SIZE_M": bm, "BLOCK_SIZE_N": bn, "BLOCK_SIZE_K": bk, "GROUP_SIZE_M": 8,
        "EVEN_K": k % bk == 0, "ACTIVATION": "", "num_warps": warps, "num_stages": stages,
    }  # fmt: skip
    strides = (*a.stride(), *b.stride(), *out.stride())
    return lambda: launch(a, b, out, m, n, k, *strides, **given)


def _quick_time(call: Call) -> float:
    call()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(5):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def row(
    kind: str,
    work: str,
    calls: dict[str, Call],
    out: Any,
    reference: Callable[[], Any],
    bytes_: int,
    flops: int = 0,
) -> dict[str, Any]:
    """Check and time one row."""
    expected = reference()
    errors = {}
    for name, call in calls.items():
        if name.startswith("copy"):
            continue
        before = out.clone() if kind == "rope" else None
        call()
        torch.cuda.synchronize()
        errors[name] = error_of(out, expected)
        if before is not None:
            out.copy_(before)
    times = milliseconds(calls)
    found: dict[str, Any] = {"kind": kind, "work": work, "ms": times, "errors": errors}
    ours = times["tilewright"]
    found["x"] = {
        name: times[name] / ours for name in times if name != "tilewright" and name[:4] != "copy"
    }
    if flops:
        found["TFLOP/s"] = {name: flops / t / 1e9 for name, t in times.items()}
    if bytes_:
        found["GB/s"] = {name: bytes_ / t / 1e6 for name, t in times.items() if name[:4] != "copy"}
    print(line(found), flush=True)
    return found


def line(found: dict[str, Any]) -> str:
    rate = found.get("TFLOP/s") or found.get("GB/s") or {}
    rates = "  ".join(f"{name} {value:.0f}" for name, value in rate.items())
    ratios = "  ".join(f"/{name} {value:.3f}" for name, value in found["x"].items())
    wrong = {n: f"{e:.1e}" for n, e in found["errors"].items() if not e < 2e-2}
    return f"{found['kind']:8} {found['work']:20} {rates}   {ratios} {wrong or ''}"


def dot_rows(quick: bool) -> list[dict[str, Any]]:
    return gpu_dots.dot_rows(quick, row, _quick_time)


ROWS = {
    "add": add_rows,
    "softmax": softmax_rows,
    "rope": rope_rows,
    "matmul": matmul_rows,
    "dot": dot_rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=ROWS, default=list(ROWS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    load_programs()
    rows = [found for kind in given.only for found in ROWS[kind](given.quick)]
    write(rows)


def machine() -> dict[str, str]:
    """Device and versions."""
    from tilewright.runtime.drivers.cuda import driver

    return {
        "device": torch.cuda.get_device_name(),
        "driver": _driver_version() or str(driver().version),
        "torch": torch.__version__,
        "triton": version("triton"),  # of what is installed: tilewright may have its name
        "date": time.strftime("%Y-%m-%d"),
    }


def _driver_version() -> str:
    path = Path("/proc/driver/nvidia/version")
    return path.read_text().split("\n")[0] if path.exists() else ""


def write(rows: list[dict[str, Any]]) -> None:
    """`benchmarks/results/gpu_kernels.{json,md}`."""
    facts = machine()
    folder = ROOT / "benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gpu_kernels.json").write_text(json.dumps({"machine": facts, "rows": rows}, indent=1))
    lines = ["# The example kernels on a GPU", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", "Ratios are the other's time over ours: above 1, tilewright is faster.", ""]
    lines += ["| kernel | work | rate | / Triton | / torch |", "|---|---|---|---|---|"]
    for found in rows:
        rate = found.get("TFLOP/s") or found.get("GB/s") or {}
        unit = "TFLOP/s" if "TFLOP/s" in found else "GB/s"
        ratios = [f"{found['x'][n]:.3f}" if n in found["x"] else "–" for n in ("triton", "torch")]
        speed = f"{rate.get('tilewright', 0):.0f} {unit}"
        lines.append(f"| {found['kind']} | {found['work']} | {speed} | {' | '.join(ratios)} |")
    for found in rows:
        if "of copy" in found:
            lines.append(
                f"\n{found['kind']} of {found['work']}: {found['of copy']:.3f} of the rate at which "
                f"memory is copied, {found['copy GB/s']} GB/s."
            )
    for kind in dict.fromkeys(found["kind"] for found in rows):
        ratios = [
            found["x"]["triton"]
            for found in rows
            if found["kind"] == kind and "triton" in found["x"]
        ]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(
                f"\n{kind}: geometric mean {mean:.3f} of Triton, lowest {min(ratios):.3f}."
            )
    (folder / "gpu_kernels.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
