"""Search around the model's choice for products on this GPU, and keep what was found in the package.

    python benchmarks/tune_matmul.py [--sizes 1024 1280 …] [--dtypes float16 bfloat16] [--write]
    python benchmarks/tune_matmul.py --open [--write]

`--open` measures, instead of squares, what the model cannot be sure of: for each product of `OPEN` the
model's choice and the configurations that stand there, beside cuBLAS (about three minutes), and puts all
times into `benchmarks/results/open_configurations.json`.

`--write` puts the results into `src/tilewright/generator/tuned/<device>.json`, with the device and the
versions they were found with. Timing is that of `generated_matmul.py`: CUDA graphs, interleaved rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch  # noqa: E402

import gpu_kernels  # noqa: E402
import tilewright as tw  # noqa: E402
from tilewright.backends import registry  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.generator import Contraction, MatmulConfig, Operand, tuning  # noqa: E402
from tilewright.generator.choice import (  # noqa: E402
    can_be_built,
    choose,
    configuration,
    workload,
)
from tilewright.runtime.specialize import element_type  # noqa: E402

#: results of `--open`
OPEN_RESULTS = ROOT / "benchmarks" / "results" / "open_configurations.json"
SIZES = (1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 6144, 8192)


def _of(text: str) -> MatmulConfig:
    """A configuration from `MatmulConfig.text`: `128x256x64 g8 w8 s3 persistent`."""
    blocks, *rest = text.split()
    names = {"g": "group_m", "w": "num_warps", "s": "num_stages", "k": "split_k"}
    given: dict[str, Any] = {names[w[0]]: int(w[1:]) for w in rest if w[1:].isdigit()}
    words = {"persistent": ("persistent", True), "threads": ("boxes", False)}
    given |= dict(words[w] for w in rest if w in words)
    return MatmulConfig(*(int(b) for b in blocks.split("x")), **given)


_SMALL_TILES = (
    "64x128x64 g8 w4 s7", "64x128x64 g16 w4 s5", "64x128x64 g4 w4 s7", "64x128x128 g8 w4 s3",
    "64x128x64 g8 w4 s3", "64x128x64 g8 w4 s5 threads", "64x128x32 g8 w4 s7 threads",
    "128x64x64 g8 w8 s7", "128x128x64 g8 w8 s6", "128x128x64 g8 w8 s4 threads",
    "128x96x64 g8 w8 s6", "64x192x64 g8 w4 s6", "128x128x64 g8 w8 s6 k2", "64x96x64 g8 w4 s6",
    "64x64x64 g8 w4 s6", "128x128x32 g8 w4 s4 threads",
)  # fmt: skip
_BATCH_TILES = (
    "128x256x64 g16 w8 s3", "128x256x64 g16 w8 s2 persistent", "128x256x64 g4 w8 s2 persistent",
    "256x128x64 g4 w8 s2 persistent", "128x128x64 g4 w8 s2", "128x128x64 g4 w8 s3",
    "128x128x64 g4 w8 s4 persistent", "128x128x64 g4 w8 s2 persistent", "128x128x128 g4 w8 s2",
    "64x256x64 g8 w4 s2", "64x256x64 g8 w4 s3", "128x256x128 g4 w8 s1", "64x128x64 g8 w4 s3",
)  # fmt: skip
_LARGE_TILES = (
    "128x256x64 g16 w8 s3", "128x256x64 g16 w8 s2 persistent", "128x256x64 g8 w8 s2 persistent",
    "128x256x64 g8 w8 s3", "192x192x64 g8 w12 s3", "192x192x64 g8 w12 s2 persistent",
    "128x192x64 g16 w8 s3 persistent", "256x128x64 g8 w8 s2 persistent",
)  # fmt: skip
_1536_TILES = (
    "192x96x64 g4 w12 s5", "192x96x64 g8 w12 s5", "192x96x64 g16 w12 s5", "192x96x64 g2 w12 s5",
    "192x96x64 g1 w12 s5", "192x96x64 g4 w12 s4", "192x96x128 g4 w12 s2", "128x192x64 g4 w8 s4",
    "192x128x64 g4 w12 s4",
)  # fmt: skip
#: element type, batch, M, N, K, epilogue ("": none): what is tried beside the model's choice
OPEN: tuple[tuple[str, tuple[int, int, int, int], str, tuple[str, ...]], ...] = (
    ("float16", (1, 1000, 1000, 1000), "", _SMALL_TILES),
    ("float16", (1, 1096, 1096, 1096), "", _SMALL_TILES),
    ("float16", (64, 512, 512, 512), "", _BATCH_TILES),
    ("float16", (256, 128, 128, 512), "", _BATCH_TILES[4:]),
    ("float16", (16, 1000, 520, 200), "", ("128x128x64 g4 w8 s2", "128x128x32 g4 w8 s4", "64x128x64 g4 w4 s3", "128x128x64 g4 w8 s2 persistent", "128x128x64 g4 w8 s3 threads")),
    ("bfloat16", (1, 1536, 1536, 1536), "", _1536_TILES),
    ("float16", (1, 1536, 1536, 1536), "", _1536_TILES),
    ("float16", (1, 3072, 3072, 3072), "", ("192x192x64 g8 w12 s3", "192x192x64 g8 w12 s2 persistent", "128x192x64 g16 w8 s4", "128x192x64 g16 w8 s3 persistent", "192x192x64 g16 w12 s3")),
    ("float16", (1, 4096, 4096, 4096), "", _LARGE_TILES),
    ("bfloat16", (1, 4096, 4096, 4096), "", _LARGE_TILES[:3]),
    ("float16", (1, 4096, 4096, 4096), "gelu", _LARGE_TILES[:4]),
    ("float16", (1, 4096, 4096, 4096), "gelu_tanh", _LARGE_TILES[:2]),
    ("float16", (1, 8192, 8192, 8192), "", _LARGE_TILES[:3]),
    ("float16", (1, 2560, 2560, 2560), "", (*_LARGE_TILES[:2], "128x128x64 g8 w8 s6", "128x128x64 g8 w8 s4 persistent", "192x128x64 g8 w12 s4")),
    ("float16", (1, 128, 4096, 4096), "", ("64x128x64 g16 w4 s7 k2", "64x64x64 g4 w4 s7", "64x64x128 g4 w4 s5", "128x64x64 g4 w8 s7 k2", "64x128x128 g4 w4 s3 k2", "128x128x64 g4 w8 s5 k4", "64x64x64 g4 w4 s7 k2", "128x32x128 g4 w8 s4")),
    ("float16", (1, 4096, 16, 4096), "", ("128x16x64 g4 w8 s7 k4", "64x16x128 g4 w4 s6", "64x16x128 g4 w4 s6 k2", "64x16x256 g4 w4 s4", "64x16x128 g4 w4 s6 k4", "128x16x128 g4 w8 s5 k4", "64x16x64 g4 w4 s7 k2", "64x16x128 g4 w4 s9")),
    ("float16", (1, 1024, 1024, 8192), "", ("64x128x64 g8 w4 s7", "128x128x64 g8 w8 s6 k2", "128x256x64 g8 w8 s3 k4", "64x128x128 g8 w4 s3")),
)  # fmt: skip


def tune_open(write_into: Path | None, facts: dict[str, str]) -> None:
    """Measure `OPEN`; all times go to `OPEN_RESULTS`, the best of plain products into the table too."""
    target, rows = registry.machine("cuda"), []
    for name, (batch, m, n, k), epilogue, texts in OPEN:
        dtype = getattr(torch, name)
        work = _workload(m, n, k, dtype, batch)
        chosen = _choice(m, n, k, dtype, batch)
        configs = list(dict.fromkeys([chosen, *map(_of, texts)]))
        found = tune_product(m, n, k, dtype, batch, configs, epilogue)
        peer = found.peer
        label = f"{name} {'' if batch == 1 else f'{batch} x '}{m}x{n}x{k} {epilogue}".strip()
        print(
            f"{label}: chosen {chosen.text} {peer / found.tuned.milliseconds(chosen):.3f} of cuBLAS"
        )
        ranked = sorted(found.tuned.times, key=lambda item: item[1])
        for config, milliseconds in ranked:
            print(
                f"    {config.text}: {1e3 * milliseconds:.2f} us, {peer / milliseconds:.3f}",
                flush=True,
            )
        times = {config.text: t for config, t in ranked if math.isfinite(t)}
        rows.append({"work": label, "chosen": chosen.text, "cuBLAS": peer, "ms": times})
        if write_into is not None and not epilogue:
            key = tuning.key_of(work, "row row")
            tuning.write_table(write_into, target, facts, {key: found.tuned})
    data = {"provenance": facts, "rows": rows}
    OPEN_RESULTS.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Measured:
    """A search's result, and cuBLAS's milliseconds (torch's epilogue behind it, where there is one)."""

    tuned: tuning.Tuned
    peer: float


def tune_square(n: int, dtype: Any) -> tuning.Tuned:
    """Search for an n × n × n product of row-major operands."""
    return tune_product(n, n, n, dtype).tuned


def tune_product(
    m: int,
    n: int,
    k: int,
    dtype: Any,
    batch: int = 1,
    configs: list[MatmulConfig] | None = None,
    epilogue: str = "",
) -> Measured:
    """Search for a product of row-major operands; results are checked against cuBLAS.

    `configs`: what to try, the model's choice first; without it what stands around that.
    """
    target = registry.machine("cuda")
    work = _workload(m, n, k, dtype, batch)
    if configs is None:
        configs = tuning.candidates(work, target, configuration, lambda t: can_be_built(t, target))
    lead = () if batch == 1 else (batch,)
    a, b = (torch.randn(*lead, *s, device="cuda").to(dtype) for s in ((m, k), (k, n)))
    out = torch.empty(*lead, m, n, device="cuda", dtype=dtype)
    reference = _activated(torch.matmul(a, b), epilogue)
    peer: list[float] = []

    def theirs() -> object:
        return _activated(torch.matmul(a, b, out=out), epilogue)

    def measure(given: list[MatmulConfig]) -> list[float]:
        calls: dict[str, gpu_kernels.Call] = {}
        for config in given:

            def call(config: MatmulConfig = config) -> object:
                return tw.matmul(a, b, out=out, config=config, epilogue=epilogue or None)

            try:
                out.fill_(float("nan"))
                call()
            except TilewrightError as error:
                print(f"  {config.text}: {error.message}", flush=True)
                continue
            if not gpu_kernels.error_of(out, reference) < 1e-2:
                raise SystemExit(f"{config.text}: wrong result for {batch}x{m}x{n}x{k}")
            calls[config.text] = call
        times = gpu_kernels.milliseconds({**calls, "cuBLAS": theirs})
        peer.append(times["cuBLAS"])
        return [times.get(config.text, math.inf) for config in given]

    return Measured(tuning.tune(configs, measure), peer[-1])


def _activated(x: Any, epilogue: str) -> Any:
    if not epilogue:
        return x
    return torch.nn.functional.gelu(x, approximate="tanh" if epilogue == "gelu_tanh" else "none")


def _workload(m: int, n: int, k: int, dtype: Any, batch: int = 1) -> Any:
    return workload(_contraction(dtype), m, n, k, batch)


def _choice(m: int, n: int, k: int, dtype: Any, batch: int) -> MatmulConfig:
    """What a call takes that gives no configuration and for which nothing was measured."""
    return choose(_contraction(dtype), m, n, k, registry.machine("cuda"), batch, tuned=False)


def _contraction(dtype: Any) -> Contraction:
    kind = Operand(element_type(dtype))
    return Contraction(kind, kind, kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--dtypes", nargs="*", default=["float16", "bfloat16"])
    parser.add_argument("--write", action="store_true", help="into the package")
    parser.add_argument(
        "--open", action="store_true", help="the products of OPEN instead of squares"
    )
    given = parser.parse_args()
    gpu_kernels.ROUNDS, gpu_kernels.READING_MS, gpu_kernels.GAP_SECONDS = 3, 4.0, 0.01
    facts = gpu_kernels.machine()
    file = re.sub(r"[^a-z0-9]+", "-", facts["device"].lower()) + ".json"
    path = ROOT / "src" / "tilewright" / "generator" / "tuned" / file
    if given.open:
        tune_open(path if given.write else None, facts)
        return
    ratios = []
    for name in given.dtypes:
        for n in given.sizes:
            dtype = getattr(torch, name)
            found = tune_square(n, dtype)
            print(f"{name} {n}: {found.model.text} -> {found.best.text} ({found.ratio:.3f})")
            for config, milliseconds in sorted(found.times, key=lambda item: item[1])[:6]:
                print(f"    {config.text}: {1e3 * milliseconds:.2f} us", flush=True)
            ratios.append(found.ratio)
            if given.write:
                key = tuning.key_of(_workload(n, n, n, dtype), "row row")
                tuning.write_table(path, registry.machine("cuda"), facts, {key: found})
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"the model's choice reaches {mean:.3f} of the best found, at worst {min(ratios):.3f}")


if __name__ == "__main__":
    main()
