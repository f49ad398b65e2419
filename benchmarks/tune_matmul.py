"""Search around the model's choice for products on this GPU, and keep what was found in the package.

    python benchmarks/tune_matmul.py [--sizes 1024 1280 …] [--dtypes float16 bfloat16] [--write]

`--write` puts the results into `src/tilewright/generator/tuned/<device>.json`, with the device and the
versions they were found with. Timing is that of `generated_matmul.py`: CUDA graphs, interleaved rounds.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
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
from tilewright.generator.choice import can_be_built, configuration, workload  # noqa: E402
from tilewright.runtime.specialize import element_type  # noqa: E402

SIZES = (1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 6144, 8192)


def tune_square(n: int, dtype: Any) -> tuning.Tuned:
    """Search for an n × n × n product of row-major operands."""
    return tune_product(n, n, n, dtype)


def tune_product(m: int, n: int, k: int, dtype: Any) -> tuning.Tuned:
    """Search for a product of row-major operands; results are checked against cuBLAS."""
    target = registry.machine("cuda")
    work = _workload(m, n, k, dtype)
    configs = tuning.candidates(work, target, configuration, lambda t: can_be_built(t, target))
    a, b = (torch.randn(s, device="cuda").to(dtype) for s in ((m, k), (k, n)))
    out = torch.empty(m, n, device="cuda", dtype=dtype)
    reference = torch.mm(a, b)

    def measure(given: list[MatmulConfig]) -> list[float]:
        calls: dict[str, gpu_kernels.Call] = {}
        for config in given:

            def call(config: MatmulConfig = config) -> object:
                return tw.matmul(a, b, out=out, config=config)

            try:
                out.fill_(float("nan"))
                call()
            except TilewrightError as error:
                print(f"  {config.text}: {error.message}", flush=True)
                continue
            if not gpu_kernels.error_of(out, reference) < 1e-2:
                raise SystemExit(f"{config.text}: wrong result for {m}x{n}x{k}")
            calls[config.text] = call
        times = gpu_kernels.milliseconds(calls)
        return [times.get(config.text, math.inf) for config in given]

    return tuning.tune(configs, measure)


def _workload(m: int, n: int, k: int, dtype: Any) -> Any:
    kind = Operand(element_type(dtype))
    return workload(Contraction(kind, kind, kind), m, n, k)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--dtypes", nargs="*", default=["float16", "bfloat16"])
    parser.add_argument("--write", action="store_true", help="into the package")
    given = parser.parse_args()
    gpu_kernels.ROUNDS, gpu_kernels.READING_MS, gpu_kernels.GAP_SECONDS = 3, 4.0, 0.01
    facts = gpu_kernels.machine()
    file = re.sub(r"[^a-z0-9]+", "-", facts["device"].lower()) + ".json"
    path = ROOT / "src" / "tilewright" / "generator" / "tuned" / file
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
