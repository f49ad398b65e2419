"""Described matmuls on a GPU beside cuBLAS: `tilewright.matmul` and torch, in one process.

Contestants get the same buffers of random normal data. Their calls are captured in CUDA graphs, which
are replayed in rounds whose order alternates, with an idle gap before each reading (the burst regime: a
chip at its power limit reads up to 15 % lower, and later contestants lower than earlier ones), timed
with events; a time is the median of rounds. `--sustained` times without gaps instead. Every result is
compared with cuBLAS's as a whole and with float64 in some rows.

    python benchmarks/generated_matmul.py [--only squares half epilogues …] [--range 1024 16384 256]
        [--quick] [--sustained] [--seconds 500] [--to DIR]

writes `generated_matmul.{json,md,png}` (`_sustained` in the names of the other regime) into
`benchmarks/results` or DIR, after every row, over what an earlier run on the same machine left there (or in
`benchmarks/results`) of other rows. Kernels are compiled before, by worker processes. After `--seconds` no row
is begun; squares come in an order that covers their range evenly at any time. All 61 sizes of the paper's range
with three kinds of sums take about three minutes, the other sections together one.

`--dry-run` runs all of it on a CPU, with extents divided by 16; `--compile-only sm_90a` compiles what
would be measured, with real extents.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch  # noqa: E402

import gpu_cases  # noqa: E402
import gpu_kernels  # noqa: E402
import tilewright as tw  # noqa: E402
from gpu_cases import (  # noqa: E402
    STAGE,
    Budget,
    Case,
    Row,
    WrongResult,
    empty,
    extent,
    matmul,
    measured,
    random,
    spread,
    summary,
    told,
)
from gpu_kernels import Call  # noqa: E402
from tilewright.backends import registry  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402

HALF_SUMS_TOLERANCE = 3e-2
SMALL = (
    (1, 1000, 1000, 1000), (1, 1024, 1024, 8192), (1, 128, 4096, 4096), (1, 4096, 16, 4096),
    (64, 512, 512, 512),
)  # fmt: skip
VECTORS = ((1, 4096, 4096), (1, 16384, 8192), (1, 50257, 4096))
LAYOUTS = ("NN", "NT", "TN", "TT")


def product_case(
    kind: str,
    work: str,
    a: Any,
    b: Any,
    *,
    out_dtype: Any = None,
    loose: float | None = None,
    peer: Callable[[Any], Any] | None = None,
    **ours: Any,
) -> Case:
    """`a @ b` beside torch's product."""
    shape = (*a.shape[:-1], b.shape[-1])
    out = empty(*shape, dtype=out_dtype or a.dtype)
    theirs = peer or (lambda into: torch.matmul(a, b, out=into))
    calls: dict[str, Call] = {
        "tilewright": lambda: matmul(a, b, out=out, **ours),
        "cuBLAS": lambda: void(theirs(out)),
    }
    flops = 2.0 * math.prod(shape) * a.shape[-1]

    def exact(rows: Any, columns: Any) -> Any:
        return wide(a, rows, -2) @ wide(b, columns, -1)

    return Case(kind, work, calls, out, flops=flops, exact=exact, loose=loose)


def wide(x: Any, indices: Any, axis: int) -> Any:
    """Rows or columns of a matrix in float64; elements of 8 bits, which torch does not index, as bytes."""
    raw = x.view(torch.uint8) if x.element_size() == 1 else x
    return raw.index_select(axis, indices).view(x.dtype).double()


def void(value: Any) -> None:
    """A call's result is what is in `out`."""


# ---- sections ------------------------------------------------------------------------------------------


def squares(quick: bool) -> Iterator[Case]:
    """The paper's range, with sums in fp32."""
    for n in sizes(quick):
        for dtype in (torch.float16, torch.bfloat16):
            a, b = random(n, n, dtype=dtype), random(n, n, dtype=dtype)
            yield product_case(f"squares {short(dtype)}", str(n), a, b)


#: first and last size of squares, and the step (`--range`)
RANGE = [1024, 16384, 256]


def sizes(quick: bool) -> list[int]:
    if quick:
        return [1024, 1536, 2048, 3072, 4096, 8192]
    first, last, step = RANGE
    return spread(list(range(first, last + 1, step)))


def half(quick: bool) -> Iterator[Case]:
    """The same range with sums in fp16; cuBLAS is allowed them too."""
    with half_sums():
        for n in sizes(quick):
            a, b = random(n, n), random(n, n)
            yield product_case(
                "half sums", str(n), a, b, loose=HALF_SUMS_TOLERANCE, accumulate=torch.float16
            )


@contextmanager
def half_sums() -> Iterator[None]:
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_accumulation
    settings.allow_fp16_accumulation = True
    try:
        yield
    finally:
        settings.allow_fp16_accumulation = before


def epilogues(quick: bool) -> Iterator[Case]:
    """Bias and an activation, fused, beside torch's kernels one after the other and cublasLt's form."""
    for n in (4096,) if quick else (4096, 8192):
        yield gelu_case(n)
        yield leaky_relu_case(n)


def gelu_case(n: int) -> Case:
    a, b, bias = random(n, n), random(n, n), random(n)
    steps = [tw.epilogue.bias(bias), tw.epilogue.gelu("tanh")]

    def activation(x: Any) -> Any:
        return torch.nn.functional.gelu(x, approximate="tanh")

    peers: dict[str, Call] = {}
    if STAGE.device == "cuda":  # on a CPU its GELU is the one by erf
        peers["cublasLt, fused"] = lambda: torch._addmm_activation(bias, a, b, use_gelu=True)
    peers["cuBLAS, then torch"] = lambda: activation(torch.mm(a, b).add_(bias))
    return fused_case(f"bias gelu {n}", a, b, bias, steps, activation, peers)


def leaky_relu_case(n: int) -> Case:
    a, b, bias = random(n, n), random(n, n), random(n)
    steps = [tw.epilogue.bias(bias), tw.epilogue.leaky_relu(0.01)]

    def activation(x: Any) -> Any:
        return torch.nn.functional.leaky_relu(x, 0.01)

    peers: dict[str, Call] = {"cuBLAS, then torch": lambda: activation(torch.mm(a, b).add_(bias))}
    return fused_case(f"bias leaky relu {n}", a, b, bias, steps, activation, peers)


def fused_case(
    work: str, a: Any, b: Any, bias: Any, steps: list[Any], activation: Any, peers: dict[str, Call]
) -> Case:
    """A fused form beside its peers and beside our plain product."""
    out = empty(*a.shape, dtype=a.dtype)
    calls: dict[str, Call] = {
        "tilewright": lambda: matmul(a, b, out=out, epilogue=steps),
        **peers,
    }

    def exact(rows: Any, columns: Any) -> Any:
        return activation(a[rows].double() @ b[:, columns].double() + bias[columns].double())

    plain: dict[str, Call] = {"ours, plain": lambda: matmul(a, b, out=out)}
    flops = 2.0 * a.shape[0] ** 3
    return Case(
        "epilogues", work, calls, out, flops=flops, exact=exact, loose=5e-3, beside=plain
    )  # fmt: skip


def layouts(quick: bool) -> Iterator[Case]:
    """Each operand row-major ("N") or column-major ("T")."""
    for n in (4096,) if quick else (4096, 8192):
        for layout in LAYOUTS:
            a, b = random(n, n, order=layout[0]), random(n, n, order=layout[1])
            yield product_case("layouts", f"{layout} {n}", a, b)


def small(quick: bool) -> Iterator[Case]:
    """Shapes that do not fill the chip, and matrix times vector beside a copy of the matrix."""
    for batch, m, n, k in SMALL:
        lead = (batch,) if batch > 1 else ()
        a, b = random(*lead, m, k), random(*lead, k, n)
        name = f"{batch}x" * (batch > 1) + f"{m}x{n}x{k}"
        yield product_case("small", name, a, b)
    for m, n, k in VECTORS:
        yield vector_case(m, n, k)


def vector_case(m: int, n: int, k: int) -> Case:
    a, b = random(m, k), random(k, n)
    out, other = empty(m, b.shape[-1], dtype=a.dtype), torch.empty_like(b)
    calls: dict[str, Call] = {
        "tilewright": lambda: matmul(a, b, out=out),
        "cuBLAS": lambda: void(torch.mm(a, b, out=out)),
    }

    def finish(row: Row) -> None:
        # a copy moves every byte twice
        row["of copy rate"] = row["ms"]["copy"] / 2 / row["ms"]["tilewright"]
        print(f"  of the copy rate: {row['of copy rate']:.3f}", flush=True)

    def exact(rows: Any, columns: Any) -> Any:
        return wide(a, rows, -2) @ wide(b, columns, -1)

    copy: dict[str, Call] = {"copy": lambda: void(other.copy_(b))}
    return Case(
        "vector", f"{m}x{n}x{k}", calls, out, bytes_=2.0 * b.numel(), exact=exact, beside=copy, finish=finish
    )  # fmt: skip


def types(quick: bool) -> Iterator[Case]:
    """8-bit floats, int8 and tf32 through torch's entry points."""
    for n in (4096,) if quick else (4096, 8192):
        a = random(n, n).to(torch.float8_e4m3fn)
        b = random(n, n, order="T").to(torch.float8_e4m3fn)
        one = torch.ones((), device=STAGE.device)

        def scaled(into: Any, a: Any = a, b: Any = b, one: Any = one) -> Any:
            return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, out=into)

        yield product_case(
            "types", f"fp8 {n}", a, b, out_dtype=torch.bfloat16, loose=2e-2, peer=scaled
        )
        a, b = random(n, n, dtype=torch.int8), random(n, n, dtype=torch.int8, order="T")

        def integers(into: Any, a: Any = a, b: Any = b) -> Any:
            return torch._int_mm(a, b, out=into)

        yield product_case(
            "types", f"int8 {n}", a, b, out_dtype=torch.int32, loose=1e-9, peer=integers
        )
    torch.backends.cuda.matmul.allow_tf32 = True
    for orders in ("NN",) if quick else ("NN", "NT", "TN", "TT"):
        a, b = (random(4096, 4096, dtype=torch.float32, order=order) for order in orders)
        work = "tf32 4096" + ("" if orders == "NN" else f" {orders}")
        yield product_case("types", work, a, b, loose=2e-3, precision="tf32")
    torch.backends.cuda.matmul.allow_tf32 = False


def large(quick: bool) -> Iterator[Case]:
    """The long product of seed 002."""
    if not quick:
        a, b = random(9728, 65536), random(65536, 8192)
        yield product_case("large", "9728x8192x65536", a, b)


FIRST_CALL = """
import time, torch
a = torch.randn({n}, {n}, device="{device}", dtype=torch.float16)
torch.mm(a, a)
wait = torch.cuda.synchronize if a.is_cuda else lambda: None
wait()
start = time.perf_counter()
import tilewright as tw
imported = time.perf_counter()
tw.matmul(a, a)
wait()
print(imported - start, time.perf_counter() - imported)
"""


def first() -> Iterator[Row]:
    """From the call to the first result in a new process with an empty cache, and with a full one."""
    with tempfile.TemporaryDirectory() as folder:
        times = {}
        path = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])
        environment = {**os.environ, "PYTHONPATH": path}
        # without byte code every process compiles 75,000 lines of Python first
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        program = FIRST_CALL.format(n=extent(4096), device=STAGE.device)
        # the first process also writes Python's byte code, which an installation has already
        for state in ("byte code", "empty cache", "full cache"):
            cache = Path(folder, "other" if state == "byte code" else "cache")
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=False,
                env={**environment, "TILEWRIGHT_CACHE_DIR": str(cache)},
            )  # fmt: skip
            if done.returncode:
                print(f"first call: {done.stderr}", flush=True)
                return
            if state != "byte code":
                times[state] = 1e3 * float(done.stdout.split()[-1])
        yield told({"kind": "first call", "work": "4096", "ms": times, "errors": {}, "x": {}})


#: in the order of a run: the shortest first
SECTIONS: dict[str, Callable[[bool], Iterator[Case]]] = {
    "epilogues": epilogues, "layouts": layouts, "small": small, "types": types, "squares": squares,
    "half": half, "large": large,
}  # fmt: skip


def short(dtype: Any) -> str:
    return {torch.float16: "fp16", torch.bfloat16: "bf16"}[dtype]


# ---- results -------------------------------------------------------------------------------------------


def with_others(rows: list[Row], old: Any, facts: dict[str, str]) -> list[Row]:
    """`rows` and those of an earlier run on the same machine that they do not replace, in order."""
    before: list[Row] = []
    if old is not None and {**old["machine"], "date": ""} == {**facts, "date": ""}:
        before = old["rows"]
    fresh = {(row["kind"], row["work"]) for row in rows}
    kept = [row for row in before if (row["kind"], row["work"]) not in fresh]
    order = list(dict.fromkeys(row["kind"] for row in (*before, *rows)))
    return sorted([*kept, *rows], key=lambda row: (order.index(row["kind"]), size_of(row["work"])))


def size_of(work: str) -> int:
    return int(work) if work.isdigit() else 0


class Results:
    """The files of a run. Every row is written at once, over those of earlier runs on the same machine."""

    def __init__(
        self, folder: Path, sustained: bool, facts: dict[str, str], budget: Budget
    ) -> None:
        name = f"generated_matmul{'_sustained' if sustained else ''}"
        self.stem = folder / name
        folder.mkdir(parents=True, exist_ok=True)
        self.facts, self.budget = facts, budget
        self.fresh: list[Row] = []
        own = self.stem.with_suffix(".json")
        self.earlier = own if own.is_file() else RESULTS / own.name
        self.old = json.loads(self.earlier.read_text()) if self.earlier.is_file() else None

    def add(self, row: Row) -> None:
        self.fresh.append(row)
        rows = with_others(self.fresh, self.old, self.facts)
        data = {"machine": self.facts, "rows": rows}
        self.stem.with_suffix(".json").write_text(json.dumps(data, indent=1))
        page(rows, self.stem, self.facts, self.budget.spent)

    def finish(self) -> None:
        """The picture, and what the summary says."""
        rows = with_others(self.fresh, self.old, self.facts)
        draw(rows, self.stem.with_suffix(".png"), self.facts["device"])
        print("\n".join(summary(self.fresh)))


def page(rows: list[Row], stem: Path, facts: dict[str, str], seconds: float) -> None:
    lines = ["# Described matmuls beside cuBLAS", "", *(f"- {k}: {v}" for k, v in facts.items())]
    lines += [f"- {len(rows)} rows, the last run took {seconds:.0f} s", ""]
    lines += ["Ratios are the other's time over ours: above 1, tilewright is faster. Errors are ours against float64, at "
              "some rows and columns, in the Frobenius norm; –: the result was compared with the peer's only.", ""]  # fmt: skip
    lines += ["| kind | against | geometric mean | lowest | rows |", "|---|---|---:|---:|---:|"]
    lines += [*summary(rows), "", f"![squares]({stem.name}.png)", ""]
    lines += ["| kind | work | ours | ratios | error |", "|---|---|---:|---|---:|"]
    for row in rows:
        rate = row.get("TFLOP/s") or row.get("GB/s")
        unit = "TFLOP/s" if "TFLOP/s" in row else "GB/s"
        ours = f"{rate['tilewright']:.4g} {unit}" if rate else _times(row)
        ratios = ", ".join(f"{name} {x:.3f}" for name, x in row["x"].items())
        error = row["errors"].get("tilewright")
        shown = "–" if error is None else f"{error:.1e}"
        lines.append(f"| {row['kind']} | {row['work']} | {ours} | {ratios} | {shown} |")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")


def _times(row: Row) -> str:
    return ", ".join(f"{name} {t:.4g} ms" for name, t in row["ms"].items())


def draw(rows: list[Row], path: Path, device: str) -> None:
    """TFLOP/s over the size of squares."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    kinds = [k for k in dict.fromkeys(r["kind"] for r in rows) if k.startswith(("squares", "half"))]
    if not kinds:
        return
    figure, panels = pyplot.subplots(1, len(kinds), figsize=(5.5 * len(kinds), 4), squeeze=False)
    for panel, kind in zip(panels[0], kinds, strict=True):
        mine = [row for row in rows if row["kind"] == kind]
        for name in ("tilewright", "cuBLAS"):
            rates = [row["TFLOP/s"][name] for row in mine]
            panel.plot([int(row["work"]) for row in mine], rates, label=name, linewidth=1.2)
        panel.set_title(f"{kind}, {device}", fontsize=10)
        panel.set_xlabel("n")
        panel.set_ylabel("TFLOP/s")
        panel.set_ylim(bottom=0)
        panel.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def run(given: argparse.Namespace, budget: Budget) -> bool:
    """All sections asked for; whether all results were right."""
    names = [name for name in SECTIONS if name in given.only]
    target = registry.machine("sm_90a" if given.dry_run else "cuda")
    wrong: list[str] = []

    def cases() -> Iterator[Case]:
        return (case for name in names for case in SECTIONS[name](given.quick))

    if not given.dry_run:
        gpu_cases.compile_all(gpu_cases.collected(cases(), target))
    facts = REHEARSAL if given.dry_run else gpu_kernels.machine()
    facts = {**facts, "regime": "sustained" if given.sustained else "burst"}
    results = Results(given.to, given.sustained, facts, budget)
    if "first" in given.only:
        for row in first():
            results.add(row)
    for name in names:
        for case in SECTIONS[name](given.quick):
            if not budget.allows(case.name):
                continue
            try:
                results.add(measured(case))
            except (WrongResult, TilewrightError, RuntimeError) as error:
                wrong.append(f"{case.name}: {error}")
                print(f"FAILED {case.name}: {error}", flush=True)
    results.finish()
    if budget.left_out:
        print(f"no time for {len(budget.left_out)} rows: {', '.join(budget.left_out)}")
    print(f"{budget.spent:.0f} s", *wrong, sep="\n")
    return not wrong


REHEARSAL = {"device": "a rehearsal", "date": ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    names = [*SECTIONS, "first"]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--range", nargs=3, type=int, metavar=("FROM", "TO", "STEP"), default=RANGE)
    parser.add_argument("--quick", action="store_true", help="a few sizes")
    parser.add_argument("--sustained", action="store_true", help="no idle gaps")
    parser.add_argument("--seconds", type=float, default=540.0, help="no row is begun after that")
    parser.add_argument("--to", type=Path, default=RESULTS, metavar="DIR", help="for the results")
    parser.add_argument("--dry-run", action="store_true", help="small, on a CPU")
    parser.add_argument("--compile-only", metavar="TARGET", help="measure nothing")
    given = parser.parse_args()
    gpu_kernels.ROUNDS = 5
    RANGE[:] = given.range
    if given.sustained:
        gpu_kernels.ROUNDS, gpu_kernels.GAP_SECONDS, gpu_kernels.READING_MS = 3, 0.0, 80.0
    budget = Budget(given.seconds)
    torch.manual_seed(0)
    if given.compile_only:
        cases = (
            case for n, make in SECTIONS.items() if n in given.only for case in make(given.quick)
        )
        target = registry.machine(given.compile_only)
        done = gpu_cases.compile_all(gpu_cases.collected(cases, target))
        raise SystemExit(any(each.failure or each.spills for each in done))
    if given.dry_run:
        with gpu_cases.rehearsing():
            raise SystemExit(not run(given, budget))
    raise SystemExit(not run(given, budget))


if __name__ == "__main__":
    main()
