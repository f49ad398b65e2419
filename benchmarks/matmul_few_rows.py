"""`tilewright.matmul` beside cuBLAS where a product is no square: x @ W.T of language models, few rows to many.

    python benchmarks/matmul_few_rows.py [--rows 1 7 …] [--fp8] [--search N] [--seconds 300] [--to FOLDER] [--dry-run]

Random bf16 (`--fp8`: e4m3, beside `torch._scaled_mm`), weights [N, K] as linear layers have them. Each launch starts
with a cold L2; contestants take turns, and times are medians. Results are compared with cuBLAS's first. `--search N`
times the N best estimates of the model as well, with and without operands exchanged, which shows where the model
errs. Worker processes compile beforehand. Writes `benchmarks/results/matmul_few_rows.{json,md}`. `--dry-run` prints
the choices for 132 SMs of sm_90a and needs no GPU.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

import protocol
import tilewright as tw
from tilewright import dtypes
from tilewright.backends.nvidia.target import target_info
from tilewright.generator import Contraction, MatmulConfig, Operand, model
from tilewright.generator.choice import can_be_built, choose, configuration, workload
from tilewright.generator.contraction import COLUMN

ROWS = (1, 7, 16, 33, 128, 333, 1000, 2048, 4099, 8191)
WEIGHTS = ((4096, 4096), (11008, 4096), (4096, 14336), (5120, 13824), (6144, 4104), (128256, 4096))
FLUSHED_BYTES = 256 << 20
ROUNDS, LAUNCHES = 5, 7
Shape = tuple[int, int, int]


def contraction(fp8: bool) -> Contraction:
    kind = dtypes.float8e4nv if fp8 else dtypes.bfloat16
    return Contraction(Operand(kind), Operand(kind, COLUMN), Operand(dtypes.bfloat16))


def chosen(shape: Shape, fp8: bool, target: Any, tuned: bool = True) -> MatmulConfig:
    return choose(contraction(fp8), *shape, target, tuned=tuned, may_swap=True)


def candidates(shape: Shape, fp8: bool, target: Any, count: int) -> list[MatmulConfig]:
    """The choice, and the model's best estimates in either order of the operands."""
    found = [chosen(shape, fp8, target)]
    m, n, k = shape
    plain = contraction(fp8)
    if m == 1 or not count:
        return found
    for swap, form, sizes in ((False, plain, (m, n)), (True, plain.swapped(), (n, m))):
        work = workload(form, *sizes, k)  # type: ignore[arg-type]
        tilings = [t for t in model.gpu_tilings(work, target) if can_be_built(t, target)]
        order = sorted(tilings, key=lambda t: model.gpu_estimate(work, t, target).nanoseconds)
        found += [configuration(t).with_(swap_operands=swap) for t in order[:count]]
    return list(dict.fromkeys(found))


def arrays(shape: Shape, fp8: bool) -> tuple[Any, Any, Any]:
    m, n, k = shape
    kind = torch.float8_e4m3fn if fp8 else torch.bfloat16
    x, weights = (torch.randn(r, k, device="cuda").to(kind) for r in (m, n))
    return x, weights.T, torch.empty(m, n, device="cuda", dtype=torch.bfloat16)


def peer(x: Any, w: Any, fp8: bool) -> Callable[[], Any]:
    if not fp8:
        out = torch.empty(x.shape[0], w.shape[1], device="cuda", dtype=x.dtype)
        return lambda: torch.matmul(x, w, out=out)
    one, scaled = torch.ones((), device="cuda"), getattr(torch, "_scaled_mm")  # noqa: B009
    return lambda: scaled(x, w, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)


def microseconds(calls: list[Callable[[], Any]]) -> list[float]:
    """Medians of single launches, each behind a write to more memory than L2 holds."""
    flushed = torch.empty(FLUSHED_BYTES // 4, dtype=torch.int32, device="cuda")
    times: list[list[Any]] = [[] for _ in calls]
    for turn in range(ROUNDS):
        order = range(len(calls)) if turn % 2 == 0 else reversed(range(len(calls)))
        for i in order:
            torch.cuda._sleep(400_000)  # so that launches wait for each other, not for Python
            for _ in range(LAUNCHES):
                flushed.zero_()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                calls[i]()
                end.record()
                times[i].append((start, end))
            torch.cuda.synchronize()
    return [statistics.median(a.elapsed_time(b) * 1e3 for a, b in found) for found in times]


def compiled(job: tuple[Shape, MatmulConfig, bool]) -> None:
    """Into the cache on disk."""
    shape, config, fp8 = job
    x, w, out = arrays(shape, fp8)
    tw.matmul(x, w, out=out, config=config)


def compile_beforehand(todo: list[tuple[Shape, MatmulConfig, bool]]) -> None:
    """In processes of their own."""
    jobs = max(1, (os.cpu_count() or 2) - 2)
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(todo))) as pool:
        pool.map(compiled, todo, chunksize=1)


def measured(shape: Shape, fp8: bool, configs: list[MatmulConfig]) -> dict[str, Any]:
    x, w, out = arrays(shape, fp8)
    theirs = peer(x, w, fp8)
    expected = theirs().double()
    for config in configs:
        out.fill_(float("nan"))
        tw.matmul(x, w, out=out, config=config)
        error = float((out.double() - expected).norm() / expected.norm())
        if not error < 1e-2:
            raise SystemExit(f"wrong: {shape} {config.text}: {error:.2e}")
    calls = [lambda c=c: tw.matmul(x, w, out=out, config=c) for c in configs]
    *ours, reference = microseconds([*calls, theirs])
    times = {config.text: t for config, t in zip(configs, ours, strict=True)}
    return {"shape": shape, "chosen": configs[0].text, "us": times, "cuBLAS": reference}


def table(rows: list[dict[str, Any]]) -> Iterator[str]:
    yield "| M × N × K | chosen | µs | cuBLAS's time / ours | best of the search |"
    yield "|---|---|---|---|---|"
    for row in rows:
        ours, best = row["us"][row["chosen"]], min(row["us"], key=row["us"].get)
        more = f"{best} {row['cuBLAS'] / row['us'][best]:.3f}" if len(row["us"]) > 1 else "–"
        size = " × ".join(map(str, row["shape"]))
        yield f"| {size} | {row['chosen']} | {ours:.1f} | {row['cuBLAS'] / ours:.3f} | {more} |"
    ratios = [row["cuBLAS"] / row["us"][row["chosen"]] for row in rows]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    yield ""
    yield f"{len(rows)} products: geomean {mean:.3f}, lowest {min(ratios):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--fp8", action="store_true")
    parser.add_argument("--search", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300, help="begin no product after that")
    parser.add_argument("--to", type=Path, default=protocol.RESULTS, help="folder of the results")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    # torch._scaled_mm takes rows of multiples of 16 bytes
    weights = [(n, k) for n, k in WEIGHTS if not args.fp8 or k % 16 == 0]
    shapes = [(m, n, k) for m in args.rows for n, k in weights]
    if args.dry_run:
        target = replace(target_info("sm_90a"), cores=132)
        for shape in shapes:
            print(*shape, chosen(shape, args.fp8, target).text)
        return
    start = time.monotonic()
    from tilewright.backends import registry

    device = torch.cuda.get_device_properties(0)
    target = registry.machine(f"sm_{device.major}{device.minor}")
    target = replace(target, cores=device.multi_processor_count)
    tried = {shape: candidates(shape, args.fp8, target, args.search) for shape in shapes}
    compile_beforehand([(s, c, args.fp8) for s, configs in tried.items() for c in configs])
    rows = []
    for shape, configs in tried.items():
        if time.monotonic() - start > args.seconds:
            break
        rows.append(measured(shape, args.fp8, configs))
        print(list(table(rows))[len(rows) + 1], flush=True)
    facts = protocol.machine_facts() | {"device": device.name, "torch": torch.__version__}
    name = "matmul_few_rows_fp8" if args.fp8 else "matmul_few_rows"
    text = "\n".join(
        ["# Matmuls that are no squares", "", protocol.facts_table(facts), "", *table(rows)]
    )
    protocol.write(name, {"facts": facts, "rows": rows}, text + "\n", args.to)


if __name__ == "__main__":
    main()
