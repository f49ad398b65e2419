"""Search around the model's choice for products on this GPU, and keep what was found in the package.

    python benchmarks/tune_matmul.py [--sizes 1024 1280 … | --range 1024 16384 256] [--dtypes float16 bfloat16]
        [--accumulator float16] [--write] [--seconds 500] [--to DIR]
    python benchmarks/tune_matmul.py --uncertain [--write] …

`--uncertain` measures, instead of squares, what the model cannot be sure of: for each product of `OPEN` the
model's choice and the configurations that stand there, beside cuBLAS.

Times go to `tuning_<device>.{json,md}` in `benchmarks/results` or DIR, those of `--uncertain` to
`tuning_open_<device>.{json,md}`, after every product; the device is as in `tuned/<device>.json`, and products that an
earlier run's JSON file there has stay. `--write` puts the fastest
configurations into `src/tilewright/generator/tuned/<device>.json`, with the device and the versions they were found
with, after every product, too (and a copy into DIR). bf16 takes what was found for fp16, and the other way round.
Kernels are compiled before, by worker processes. After `--seconds` no product is begun; sizes come in an order that
covers their range evenly at any time. 61 squares take about two and a half minutes, `--uncertain` less than two. Timing is that of
`generated_matmul.py`: CUDA graphs, interleaved rounds.

`--dry-run` runs it on a CPU, with extents divided by 16; `--compile-only sm_90a` compiles what would be
measured, with real extents.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TABLES = ROOT / "src" / "tilewright" / "generator" / "tuned"
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch  # noqa: E402

import gpu_cases  # noqa: E402
import gpu_kernels  # noqa: E402
import tuning_search  # noqa: E402
from gpu_cases import Budget, Case, WrongResult, matmul, spread  # noqa: E402
from tilewright.backends import registry  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.generator import Contraction, MatmulConfig, Operand  # noqa: E402
from tilewright.generator.choice import (  # noqa: E402
    can_be_built,
    choose,
    configuration,
    workload,
)
from tilewright.generator.tuning import key_of  # noqa: E402
from tilewright.runtime.specialize import element_type  # noqa: E402

SIZES = (1024, 1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 6144, 8192)


#: rows that start anywhere in a line of 128 bytes: a row of a box touches two lines, and a box takes two requests for
#: one (ADR 12). "multicast": pairs of CTAs fetch the tiles that both need together
_UNALIGNED_TILES = (
    "64x128x64 g8 w4 s5 persistent multicast", "64x128x64 g8 w4 s7 persistent multicast", "64x128x64 g16 w4 s7",
    "64x128x64 g4 w4 s6 persistent multicast", "128x64x64 g8 w8 s6 persistent multicast", "128x128x64 g8 w8 s6",
    "64x192x64 g8 w4 s5 persistent multicast", "128x96x64 g8 w8 s5 persistent multicast",
    "128x128x64 g8 w8 s4 persistent multicast", "64x256x64 g8 w4 s3 persistent multicast", "64x128x64 g8 w4 s5 persistent",
    "64x128x64 g8 w4 s5 no-tma",
)  # fmt: skip
_LARGE_UNALIGNED_TILES = (
    "192x192x64 g8 w12 s2 persistent multicast", "192x192x64 g8 w12 s2 persistent", "128x256x64 g8 w8 s2 persistent multicast",
    "128x256x64 g16 w8 s2 persistent multicast", "128x192x64 g8 w8 s3 persistent multicast", "128x256x64 g8 w8 s2 persistent",
    "192x192x64 g8 w12 s3", "128x256x64 g8 w8 s3 no-tma",
)  # fmt: skip
#: 64 x 512³: 100 MB for 17 GFLOP, so as much memory as products, in eight steps a tile: what counts is that one
#: tile's end and another's beginning overlap, by several programs per SM or by warp roles
_BATCH_TILES = (
    "128x256x64 g16 w8 s3", "128x256x64 g16 w8 s2 persistent", "128x256x64 g4 w8 s2 persistent",
    "256x128x64 g4 w8 s2 persistent", "256x128x64 g4 w8 s3", "128x128x64 g4 w8 s2", "128x128x64 g4 w8 s3",
    "128x128x64 g4 w4 s2", "128x128x64 g4 w4 s1", "128x128x64 g4 w8 s1",
    "128x128x64 g4 w8 s4 persistent", "128x128x64 g4 w8 s2 persistent", "128x128x128 g4 w8 s2",
    "64x256x64 g8 w4 s1", "64x256x64 g8 w4 s2", "64x256x64 g8 w4 s3", "128x256x128 g4 w8 s1",
    "64x128x64 g8 w4 s2", "64x128x64 g8 w4 s3", "128x64x64 g4 w8 s3", "128x128x64 g4 w8 s3 no-tma",
)  # fmt: skip
_LARGE_TILES = (
    "128x256x64 g16 w8 s3", "128x256x64 g16 w8 s2 persistent", "128x256x64 g8 w8 s2 persistent",
    "128x256x64 g8 w8 s3", "192x192x64 g8 w12 s3", "192x192x64 g8 w12 s2 persistent",
    "128x192x64 g16 w8 s3 persistent", "256x128x64 g8 w8 s2 persistent",
    "256x128x64 g16 w8 s3", "128x256x64 g4 w8 s2 persistent",
)  # fmt: skip
_1536_TILES = (
    "192x96x64 g4 w12 s5", "192x96x64 g8 w12 s5", "192x96x64 g16 w12 s5", "192x96x64 g2 w12 s5",
    "192x96x64 g1 w12 s5", "192x96x64 g4 w12 s4", "192x96x64 g4 w12 s3", "192x96x128 g4 w12 s2",
    "128x192x64 g4 w8 s4", "128x192x64 g4 w8 s3 persistent", "192x128x64 g4 w12 s4", "96x192x64 g4 w4 s5",
    "128x96x64 g4 w8 s3", "192x192x64 g4 w12 s3",
)  # fmt: skip
_3072_TILES = (
    "192x192x64 g8 w12 s3", "192x192x64 g8 w12 s2 persistent", "128x192x64 g16 w8 s4",
    "128x192x64 g16 w8 s3 persistent", "192x192x64 g16 w12 s3", "192x192x64 g4 w12 s3",
    "192x192x64 g4 w12 s2 persistent",
)  # fmt: skip
_FLAT_TILES = (
    "64x128x64 g16 w4 s7 k2", "64x64x64 g4 w4 s7", "64x64x128 g4 w4 s5", "128x64x64 g4 w8 s7 k2",
    "64x128x128 g4 w4 s3 k2", "128x128x64 g4 w8 s5 k4", "64x64x64 g4 w4 s7 k2", "128x32x128 g4 w8 s4",
    "128x64x128 g4 w8 s3 k2",
)  # fmt: skip
_NARROW_TILES = (
    "128x16x64 g4 w8 s7 k4", "64x16x128 g4 w4 s6", "64x16x128 g4 w4 s6 k2", "64x16x256 g4 w4 s4",
    "64x16x128 g4 w4 s6 k4", "128x16x128 g4 w8 s5 k4", "64x16x64 g4 w4 s7 k2", "64x16x128 g4 w4 s9",
)  # fmt: skip
_ODD_BATCH_TILES = (
    "128x128x64 g4 w8 s2", "128x128x32 g4 w8 s4", "64x128x64 g4 w4 s3", "128x128x64 g4 w8 s2 persistent",
    "128x128x64 g4 w8 s3 no-tma",
)  # fmt: skip
_2560_TILES = (
    *_LARGE_TILES[:3], "128x128x64 g8 w8 s6", "128x128x64 g8 w8 s4 persistent", "192x128x64 g8 w12 s4",
    "128x192x64 g8 w8 s4", "192x160x64 g8 w12 s3", "128x160x64 g8 w8 s4", "160x128x64 g8 w8 s4",
)  # fmt: skip
_DEEP_TILES = (
    "64x128x64 g8 w4 s7", "128x128x64 g8 w8 s6 k2", "128x256x64 g8 w8 s3 k4", "64x128x128 g8 w4 s3",
    "128x64x64 g8 w8 s7",
)  # fmt: skip
#: tf32: a row-major B passes through registers ("no-rs": is transposed in shared memory, as it was when 4096 reached
#: 0.73 of cuBLAS); which tile asks shared memory least is in ADR 10
_TF32_TILES = (
    "256x128x32 g8 w8 s3", "256x128x32 g4 w8 s3", "256x128x32 g16 w8 s3", "128x256x32 g8 w8 s3",
    "128x256x32 g16 w8 s3", "128x256x32 g16 w8 s3 no-rs", "256x128x32 g8 w8 s3 no-rs",
    "192x256x32 g8 w8 s3", "256x192x32 g8 w12 s3", "192x192x32 g8 w12 s3", "256x128x32 g8 w8 s2",
    "256x128x64 g8 w8 s1", "128x192x32 g8 w8 s3 persistent", "192x128x32 g8 w8 s3 persistent",
    "128x128x32 g8 w8 s3 persistent", "128x128x32 g8 w8 s6", "128x128x32 g8 w4 s3",
)  # fmt: skip
_SMALL_TF32_TILES = (
    "128x64x32 g8 w8 s7", "64x128x32 g8 w4 s7", "64x128x32 g8 w4 s7 no-rs", "128x128x32 g8 w8 s6",
    "64x64x32 g8 w4 s7", "128x64x64 g8 w8 s3", "192x128x32 g8 w12 s4", "128x192x32 g8 w8 s4",
    "256x128x32 g8 w8 s3", "128x256x32 g8 w8 s3",
)  # fmt: skip
#: element type ("tf32": of fp32); batch, M, N, K; epilogue ("": none); what is tried beside the model's choice
OPEN: tuple[tuple[str, tuple[int, int, int, int], str, tuple[str, ...]], ...] = (
    ("float16", (1, 1000, 1000, 1000), "", _UNALIGNED_TILES),
    ("float16", (64, 512, 512, 512), "", _BATCH_TILES),
    ("bfloat16", (1, 1536, 1536, 1536), "", _1536_TILES),
    ("float16", (1, 1536, 1536, 1536), "", _1536_TILES),
    ("float16", (1, 4096, 4096, 4096), "", _LARGE_TILES),
    ("float16", (1, 4096, 4096, 4096), "gelu_tanh", _LARGE_TILES[:6]),
    ("tf32", (1, 4096, 4096, 4096), "", _TF32_TILES),
    ("float16", (1, 1024, 1024, 8192), "", _DEEP_TILES),
    ("float16", (1, 3072, 3072, 3072), "", _3072_TILES),
    ("float16", (1, 8192, 8192, 8192), "", _LARGE_TILES),
    ("float16", (1, 2560, 2560, 2560), "", _2560_TILES),
    ("float16", (1, 2048, 2048, 2048), "", (*_LARGE_TILES[:4], "128x128x64 g8 w8 s6", "256x128x64 g8 w8 s3")),
    ("bfloat16", (1, 2048, 2048, 2048), "", (*_LARGE_TILES[:4], "128x128x64 g8 w8 s6", "256x128x64 g8 w8 s3")),
    ("tf32", (1, 8192, 8192, 8192), "", _TF32_TILES[:10]),
    ("tf32", (1, 2048, 2048, 2048), "", (*_TF32_TILES[:8], "128x128x32 g8 w8 s6")),
    ("tf32", (1, 1024, 1024, 1024), "", _SMALL_TF32_TILES),
    ("float16", (1, 128, 4096, 4096), "", _FLAT_TILES),
    ("float16", (1, 4096, 16, 4096), "", _NARROW_TILES),
    ("float16", (1, 1096, 1096, 1096), "", _UNALIGNED_TILES),
    ("float16", (1, 4104, 4104, 4104), "", _LARGE_UNALIGNED_TILES),
    *(("float16", (1, n, n, n), "", _LARGE_UNALIGNED_TILES) for n in (2008, 3016, 4088, 5000)),
    ("tf32", (1, 4104, 4104, 4104), "", _TF32_TILES[:4]),
    ("float16", (256, 128, 128, 512), "", _BATCH_TILES[5:]),
    ("float16", (16, 1000, 520, 200), "", _ODD_BATCH_TILES),
    ("bfloat16", (1, 4096, 4096, 4096), "", _LARGE_TILES[:4]),
    ("float16", (1, 4096, 4096, 4096), "gelu", _LARGE_TILES[:4]),
)  # fmt: skip


@dataclass(frozen=True)
class Search:
    """A product and what is tried for it. `configs` begin with the model's choice."""

    dtype: str
    shape: tuple[int, int, int, int]
    """Batch, M, N, K."""
    epilogue: str
    sums: str
    configs: tuple[MatmulConfig, ...]

    @property
    def label(self) -> str:
        batch, m, n, k = self.shape
        lead = "" if batch == 1 else f"{batch} x "
        sums = f"sums {self.sums}" if self.sums else ""
        return " ".join(filter(None, [self.dtype, f"{lead}{m}x{n}x{k}", self.epilogue, sums]))

    @property
    def work(self) -> Any:
        """As the model and its tables take it."""
        batch, m, n, k = self.shape
        return workload(_contraction(self.dtype, self.sums), m, n, k, batch)

    def operands(self) -> tuple[Any, Any, Any]:
        batch, m, n, k = self.shape
        lead, kind = () if batch == 1 else (batch,), _torch_type(self.dtype)
        a, b = gpu_cases.random(*lead, m, k, dtype=kind), gpu_cases.random(*lead, k, n, dtype=kind)
        return a, b, gpu_cases.empty(*a.shape[:-1], b.shape[-1], dtype=kind)

    def call(self, config: MatmulConfig, a: Any, b: Any, out: Any) -> gpu_kernels.Call:
        """The product in this configuration."""
        given: dict[str, Any] = {"config": config, "epilogue": self.epilogue or None}
        if self.sums:
            given["accumulate"] = getattr(torch, self.sums)
        if self.dtype == "tf32":
            given["precision"] = "tf32"
        return lambda: matmul(a, b, out=out, **given)


def open_searches(target: Any) -> list[Search]:
    """`OPEN`, each with the model's own choice first."""
    found = []
    for dtype, shape, epilogue, texts in OPEN:
        batch, m, n, k = shape
        chosen = choose(_contraction(dtype, ""), m, n, k, target, batch, tuned=False)
        configs = tuple(dict.fromkeys([chosen, *map(MatmulConfig.from_text, texts)]))
        found.append(Search(dtype, shape, epilogue, "", configs))
    return found


def square_searches(sizes: list[int], dtypes: list[str], sums: str, target: Any) -> list[Search]:
    """Squares, and what stands around the model's choice."""
    found = []
    for n in sizes:
        for dtype in dtypes:
            work = workload(_contraction(dtype, sums), n, n, n)
            configs = tuning_search.candidates(
                work, target, configuration, lambda t: can_be_built(t, target)
            )
            found.append(Search(dtype, (1, n, n, n), "", sums, tuple(configs)))
    return found


def _torch_type(dtype: str) -> Any:
    return torch.float32 if dtype == "tf32" else getattr(torch, dtype)


def _contraction(dtype: str, sums: str) -> Contraction:
    kind = Operand(element_type(_torch_type(dtype)))
    accumulator = element_type(getattr(torch, sums)) if sums else None
    precision = "tf32" if dtype == "tf32" else "ieee"
    return Contraction(kind, kind, kind, accumulator=accumulator, precision=precision)


def cases_of(searches: list[Search]) -> Iterator[Case]:
    """One case for each configuration: what is to be compiled."""
    for search in searches:
        arrays = search.operands()
        for config in search.configs:
            call = search.call(config, *arrays)
            yield Case("tune", f"{search.label} {config.text}", {"tilewright": call}, arrays[-1])


def searched(search: Search) -> tuple[tuning_search.Tuned, float]:
    """The search's result, and cuBLAS's milliseconds (torch's epilogue behind it, where there is one).

    Raises WrongResult.
    """
    a, b, out = search.operands()
    loose = 3e-2 if search.sums == "float16" else 1e-2
    settings = torch.backends.cuda.matmul
    settings.allow_fp16_accumulation = search.sums == "float16"
    settings.allow_tf32 = search.dtype == "tf32"
    reference = _activated(torch.matmul(a, b), search.epilogue)
    peer: list[float] = []

    def theirs() -> object:
        return _activated(torch.matmul(a, b, out=out), search.epilogue)

    def measure(given: list[MatmulConfig]) -> list[float]:
        calls: dict[str, gpu_kernels.Call] = {}
        for config in given:
            call = search.call(config, a, b, out)
            try:
                out.fill_(float("nan"))
                call()
            except TilewrightError as error:
                print(f"  {config.text}: {error.message}", flush=True)
                continue
            error = gpu_kernels.error_of(out, reference)
            if not error < loose:
                raise WrongResult(f"{search.label} {config.text}: wrong by {error:.2e}")
            calls[config.text] = call
        times = gpu_cases.milliseconds({**calls, "cuBLAS": theirs})
        peer.append(times["cuBLAS"])
        return [times.get(config.text, math.inf) for config in given]

    try:
        return tuning_search.tune(list(search.configs), measure), peer[-1]
    finally:
        settings.allow_fp16_accumulation = settings.allow_tf32 = False


def _activated(x: Any, epilogue: str) -> Any:
    if not epilogue:
        return x
    return torch.nn.functional.gelu(x, approximate="tanh" if epilogue == "gelu_tanh" else "none")


class Results:
    """The files of a run, written after every product over what earlier runs found for others."""

    def __init__(self, folder: Path, facts: dict[str, str], write: bool, kind: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.facts, self.write = folder, facts, write
        device = re.sub(r"[^a-z0-9]+", "-", facts["device"].lower())
        self.table, self.name = f"{device}.json", f"{kind}_{device}"
        self.rows: dict[str, dict[str, Any]] = {}
        for path in (RESULTS / f"{self.name}.json", folder / f"{self.name}.json"):
            if path.is_file():
                data = json.loads(path.read_text(encoding="utf-8"))
                self.rows |= {row["work"]: row for row in data["rows"]}
        self.fresh: list[float] = []

    def add(self, search: Search, found: tuning_search.Tuned, peer: float, target: Any) -> None:
        ranked = sorted(found.times, key=lambda item: item[1])
        times = {config.text: t for config, t in ranked if math.isfinite(t)}
        self.rows[search.label] = {
            "work": search.label, "model": found.model.text, "best": found.best.text,
            "cuBLAS": peer, "ms": times, "provenance": self.facts,
        }  # fmt: skip
        data = {"rows": list(self.rows.values())}
        path = self.folder / f"{self.name}.json"
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        page = "\n".join(_page(list(self.rows.values()))) + "\n"
        (self.folder / f"{self.name}.md").write_text(page, encoding="utf-8")
        self._tell(search, found, peer, times)
        if math.isfinite(found.milliseconds(found.model)):
            self.fresh.append(found.ratio)
        if self.write and not search.epilogue:
            key = key_of(search.work, "row row")
            for folder in {TABLES, self.folder} - {RESULTS}:
                path = folder / self.table
                if folder != TABLES and not path.is_file() and (TABLES / self.table).is_file():
                    path.write_bytes((TABLES / self.table).read_bytes())
                tuning_search.write_table(path, target, self.facts, {key: found})

    def _tell(
        self, search: Search, found: tuning_search.Tuned, peer: float, times: dict[str, float]
    ) -> None:
        model = found.milliseconds(found.model)
        print(
            f"{search.label}: model {found.model.text} {peer / model:.3f} of cuBLAS, best "
            f"{found.best.text} {peer / found.milliseconds(found.best):.3f}"
        )
        for text, milliseconds in list(times.items())[:8]:
            print(f"    {text}: {1e3 * milliseconds:.2f} us, {peer / milliseconds:.3f}", flush=True)


def _page(rows: list[dict[str, Any]]) -> list[str]:
    """All results as a table."""
    lines = ["# Configurations measured around the model's choice", ""]
    lines += ["Milliseconds; shares of cuBLAS's speed (with torch's epilogue behind it).", ""]
    lines += [
        "| product | model's choice | of cuBLAS | fastest measured | of cuBLAS | model / best |"
    ]
    lines += ["|---|---|---:|---|---:|---:|"]
    ratios = []
    for row in rows:
        best = row["ms"][row["best"]]
        model = row["ms"].get(row["model"], math.inf)
        ratios.append(best / model)
        shares = [f"{row['cuBLAS'] / t:.3f}" for t in (model, best)]
        lines.append(
            f"| {row['work']} | {row['model']} | {shares[0]} | {row['best']} | {shares[1]} | {ratios[-1]:.3f} |"
        )
    known = [r for r in ratios if r > 0]
    if known:
        mean = math.exp(sum(map(math.log, known)) / len(known))
        lines += [
            "",
            f"The model's choice reaches {mean:.3f} of the fastest, at worst {min(known):.3f}.",
        ]
    return lines


def run(given: argparse.Namespace, searches: list[Search], target: Any, budget: Budget) -> bool:
    """Compile, measure, write; whether all results were right."""
    if not given.dry_run:
        gpu_cases.compile_all(gpu_cases.collected(cases_of(searches), target))
    kind = "tuning_open" if given.uncertain else "tuning"
    facts = {"device": "a rehearsal"} if given.dry_run else gpu_kernels.machine()
    results, wrong = Results(given.to, facts, given.write, kind), list[str]()
    for search in searches:
        if not budget.allows(search.label):
            continue
        try:
            results.add(search, *searched(search), target)
        except (WrongResult, TilewrightError) as error:
            wrong.append(str(error))
            print(f"FAILED {error}", flush=True)
    if results.fresh:
        mean = math.exp(sum(map(math.log, results.fresh)) / len(results.fresh))
        print(
            f"the model's choice reaches {mean:.3f} of the best found, at worst {min(results.fresh):.3f}"
        )
    if budget.left_out:
        print(f"no time for {len(budget.left_out)} products: {', '.join(budget.left_out)}")
    print(f"{budget.spent:.0f} s", *wrong, sep="\n")
    return not wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--range", nargs=3, type=int, metavar=("FROM", "TO", "STEP"))
    parser.add_argument("--dtypes", nargs="*", default=["float16", "bfloat16"])
    parser.add_argument("--accumulator", default="", help="float16: sums of that type")
    parser.add_argument("--write", action="store_true", help="into the package")
    parser.add_argument(
        "--seconds", type=float, default=540.0, help="no product is begun after that"
    )
    parser.add_argument("--to", type=Path, default=RESULTS, metavar="DIR", help="for the results")
    parser.add_argument("--dry-run", action="store_true", help="small, on a CPU")
    parser.add_argument("--compile-only", metavar="TARGET", help="measure nothing")
    parser.add_argument(
        "--uncertain", action="store_true", help="the products of OPEN instead of squares"
    )
    given = parser.parse_args()
    gpu_kernels.ROUNDS, gpu_kernels.READING_MS, gpu_kernels.GAP_SECONDS = 3, 4.0, 0.01
    budget = Budget(given.seconds)
    target = registry.machine(given.compile_only or ("sm_90a" if given.dry_run else "cuda"))
    if given.uncertain:
        searches = open_searches(target)
    else:
        first, last, step = given.range or (1, 0, 1)
        sizes = spread(list(range(first, last + 1, step))) if given.range else list(given.sizes)
        searches = square_searches(sizes, given.dtypes, given.accumulator, target)
    torch.manual_seed(0)
    if given.compile_only:
        done = gpu_cases.compile_all(gpu_cases.collected(cases_of(searches), target))
        raise SystemExit(any(each.failure or each.spills for each in done))
    if given.dry_run:
        with gpu_cases.rehearsing():
            raise SystemExit(not run(given, searches, target, budget))
    raise SystemExit(not run(given, searches, target, budget))


if __name__ == "__main__":
    main()
