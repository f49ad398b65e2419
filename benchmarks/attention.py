"""Attention forward on a GPU: tilewright beside Triton (the same source) and beside cuDNN.

    python benchmarks/attention.py [--sizes 4096 16384] [--depths 64 128] [--dry-run]

Each compiler has the same list of tiles, warps and stages to choose from; the fastest of each is then measured by
turns with the others and with cuDNN (torch's SDPA), L2 cold, by events, medians of rounds. Results are compared with
cuDNN's. Writes `benchmarks/results/attention.{json,md}`. `--dry-run` compiles for sm_90a instead, which needs no GPU,
and prints registers, spilled bytes and whether a producer warp copies.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import attention_program  # noqa: E402
import protocol  # noqa: E402

CONFIGS = (
    (128, 128, 8, 2), (128, 128, 8, 3), (128, 64, 8, 3), (128, 64, 8, 4), (128, 64, 4, 3), (64, 64, 4, 3),
)  # fmt: skip
"""Queries and keys of a tile, warps, stages."""
HEADS, TOKENS, ROUNDS, IDLE = 32, 16384, 9, 0.02
Call = Callable[[], Any]


def with_triton() -> Any:
    """The kernels compiled by Triton."""
    text = Path(attention_program.__file__).read_text(encoding="utf-8")
    text = text.replace("tilewright.language", "triton.language")
    file = Path(tempfile.mkdtemp()) / "attention_of_triton.py"
    file.write_text(text.replace("import tilewright as", "import triton as"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(str(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def timed(calls: list[Call], rounds: int) -> list[float]:
    """Median milliseconds of each, taking turns, with the L2 cache emptied before."""
    import torch

    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, found in zip(calls, times, strict=True):
            time.sleep(IDLE)
            flush.zero_()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(end))
    return [statistics.median(found) for found in times]


class Case:
    """One shape: its arrays, and calls of each contestant."""

    def __init__(self, n: int, depth: int, causal: bool) -> None:
        import torch

        self.n, self.depth, self.causal = n, depth, causal
        self.heads = HEADS * max(1, TOKENS // n)
        shape = (self.heads * n, depth)
        self.q, self.k, self.v = (
            0.5 * torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(3)
        )
        self.o = torch.empty_like(self.q)
        self.logs = torch.empty(self.heads * n, device="cuda", dtype=torch.float32)
        self.flop = 4 * self.heads * n * n * depth * (0.5 if causal else 1.0)

    def cudnn(self) -> Any:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        split = (self.heads // HEADS, HEADS, self.n, self.depth)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                self.q.view(split), self.k.view(split), self.v.view(split), is_causal=self.causal
            )

    def call(self, module: Any, descriptor: Any, config: tuple[int, int, int, int]) -> Call:
        bm, bn, warps, stages = config
        shape, strides = [self.heads * self.n, self.depth], [self.depth, 1]
        blocks = ((self.q, bm), (self.k, bn), (self.v, bn), (self.o, bm))
        given = [descriptor(x, shape, strides, [rows, self.depth]) for x, rows in blocks]
        kernel = module.attention[(self.n // bm, self.heads)]

        def launch() -> Any:
            return kernel(
                *given, self.logs, self.depth**-0.5, self.n, BM=bm, BN=bn, D=self.depth, CAUSAL=self.causal,
                num_warps=warps, num_stages=stages,
            )  # fmt: skip

        return launch

    def fastest(self, module: Any, descriptor: Any) -> tuple[Call, tuple[int, int, int, int]]:
        """The fastest configuration whose result is cuDNN's. Raises RuntimeError where a result is another."""
        expected = self.cudnn().flatten(0, 2).float()
        found: list[tuple[float, Call, tuple[int, int, int, int]]] = []
        for config in CONFIGS:
            call = self.call(module, descriptor, config)
            self.o.zero_()
            try:
                call()
            except Exception as error:  # out of shared memory or registers
                print(f"  {module.__name__} {config}: {type(error).__name__}", flush=True)
                continue
            wrong = (self.o.float() - expected).abs().max().item()
            if wrong > 5e-3:
                raise RuntimeError(f"{module.__name__} {config}: differs by {wrong:.3g}")
            found.append((timed([call], 3)[0], call, config))
        _, call, config = min(found, key=lambda entry: entry[0])
        return call, config


def measured(n: int, depth: int, causal: bool, stock: Any) -> dict[str, Any]:
    from triton.tools.tensor_descriptor import TensorDescriptor as Stock

    from tilewright.runtime.descriptors import TensorDescriptor

    case = Case(n, depth, causal)
    ours, config = case.fastest(attention_program, TensorDescriptor)
    theirs, other = case.fastest(stock, Stock)
    ms = timed([ours, theirs, case.cudnn], ROUNDS)
    rates = [case.flop / t / 1e9 for t in ms]
    return {
        "n": n, "depth": depth, "causal": causal, "config": config, "triton_config": other,
        "tflops": dict(zip(("ours", "triton", "cudnn"), rates, strict=True)),
        "of_triton": ms[1] / ms[0], "of_cudnn": ms[2] / ms[0],
    }  # fmt: skip


def line(r: dict[str, Any]) -> str:
    rates = " | ".join(f"{r['tflops'][k]:.0f}" for k in ("ours", "triton", "cudnn"))
    kind = "causal" if r["causal"] else "full"
    return (
        f"| {r['n']} | {r['depth']} | {kind} | {r['config']} | {r['triton_config']} | {rates} "
        f"| {r['of_triton']:.3f} | {r['of_cudnn']:.3f} |"
    )


HEAD = [
    "| keys | depth | | tile, warps, stages | Triton's | ours, TFLOP/s | Triton | cuDNN | Triton's time / ours | cuDNN's time / ours |",
    "|---|---|---|---|---|---|---|---|---|---|",
]  # fmt: skip


def describe(depth: int, causal: bool) -> None:
    """Registers and spills of every configuration for sm_90a."""
    import numpy as np

    from tilewright.runtime.descriptors import TensorDescriptor, opened

    kernel, n = attention_program.attention, 256
    array = np.zeros((n, depth), np.float16)
    for config in CONFIGS:
        bm, bn, warps, stages = config
        given = [
            TensorDescriptor(array, [n, depth], [depth, 1], [rows, depth])
            for rows in (bm, bn, bn, bm)
        ]
        values = [*given, np.zeros(n, np.float32), depth**-0.5, n, bm, bn, depth, causal]
        types = {
            p.name: kernel.launcher.specializer.argument(p, opened(value))
            for p, value in zip(kernel.params, values, strict=True)
        }
        made = kernel.compile(types, target="sm_90a", num_warps=warps, num_stages=stages)
        plan, roles = made.artifact.plan, "setmaxnreg" in made.asm["ptx"]
        print(
            f"{depth} {'causal' if causal else 'full'} {config}: {plan.registers} registers, "
            f"{plan.spills} spilled, {plan.shared_bytes} B shared, producer warp: {roles}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=[4096, 16384])
    parser.add_argument("--depths", nargs="*", type=int, default=[128, 64])
    parser.add_argument("--dry-run", action="store_true", help="compile for sm_90a")
    parser.add_argument("--to", type=Path, default=protocol.RESULTS, help="folder of the results")
    args = parser.parse_args()
    if args.dry_run:
        for depth in args.depths:
            for causal in (False, True):
                describe(depth, causal)
        return
    import torch
    import triton

    rows, stock = [], with_triton()
    for n in args.sizes:
        for depth in args.depths:
            for causal in (False, True):
                rows.append(measured(n, depth, causal, stock))
                print(line(rows[-1]), flush=True)
    text = [
        "# Attention forward", "",
        f"`python benchmarks/attention.py` on an {torch.cuda.get_device_name()}, torch {torch.__version__}, "
        f"Triton {triton.__version__}; fp16, {HEADS} heads, {TOKENS} tokens.", "", *HEAD, *map(line, rows),
    ]  # fmt: skip
    protocol.write("attention", {"rows": rows}, "\n".join(text), args.to)


if __name__ == "__main__":
    main()
