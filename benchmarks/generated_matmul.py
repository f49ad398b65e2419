"""Described products on a GPU beside cuBLAS: `tilewright.matmul` and torch, in one process.

Contestants get the same buffers of random normal data. Their calls are captured in CUDA graphs, which
are replayed in rounds whose order alternates, with an idle gap before each reading (the burst regime: a
chip at its power limit reads up to 15 % lower, and later contestants lower than earlier ones), timed
with events; a time is the median of rounds. `--sustained` times without gaps instead. Every result is
compared with cuBLAS's as a whole and with float64 in some rows.

    python benchmarks/generated_matmul.py [--only squares half epilogues …] [--quick] [--sustained]

writes `benchmarks/results/generated_matmul.{json,md,png}` (`_sustained` in the names of the other regime).
A full run takes about five minutes; a run of some sections keeps the rest of the files, if the machine is the
same.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import torch  # noqa: E402

import gpu_kernels  # noqa: E402
import tilewright as tw  # noqa: E402
from gpu_kernels import Call, error_of, milliseconds  # noqa: E402

Row = dict[str, Any]
#: largest relative error (Frobenius norm) against cuBLAS, by the type of the result
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-3, torch.int32: 0.0}
HALF_SUMS_TOLERANCE = 3e-2
#: rows of the result that are compared with float64
CHECKED_ROWS = 64
SMALL = (
    (1, 1000, 1000, 1000), (1, 1024, 1024, 8192), (1, 128, 4096, 4096), (1, 4096, 16, 4096),
    (64, 512, 512, 512),
)  # fmt: skip
VECTORS = ((1, 4096, 4096), (1, 16384, 8192), (1, 50257, 4096))
LAYOUTS = ("NN", "NT", "TN", "TT")


def random(*shape: int, dtype: Any = torch.float16, order: str = "N") -> Any:
    """Normal data; `order` "T": stored transposed."""
    if order == "T":
        return random(*shape[:-2], shape[-1], shape[-2], dtype=dtype).transpose(-1, -2)
    if dtype in (torch.int8,):
        return torch.randint(-16, 16, shape, device="cuda", dtype=dtype)
    return torch.randn(shape, device="cuda").to(dtype)


def checked(
    name: str, calls: dict[str, Call], out: Any, exact: Callable[[Any], Any] | None, loose: float
) -> dict[str, float]:
    """Run each call once; errors against the last one's result and some rows of float64."""
    results = {}
    for contestant, call in calls.items():
        out.fill_(0 if not out.is_floating_point() else float("nan"))
        found = call()
        results[contestant] = (out if found is None else found).clone()
    reference = results[list(calls)[-1]]
    rows = torch.randint(0, out.shape[-2], (CHECKED_ROWS,), device="cuda")
    errors = {}
    for contestant, result in results.items():
        error = error_of(result, reference)
        if exact is not None:
            error = max(error, error_of(result[..., rows, :], exact(rows)))
        if not error <= loose:
            raise SystemExit(f"{name}: {contestant} is wrong by {error:.2e}")
        errors[contestant] = error
    return errors


def measured(
    kind: str,
    work: str,
    calls: dict[str, Call],
    out: Any,
    *,
    flops: float = 0.0,
    bytes_: float = 0.0,
    exact: Callable[[Any], Any] | None = None,
    loose: float | None = None,
) -> Row:
    """One row: checked, then timed. The first contestant is ours, ratios are the others' time over it."""
    limit = TOLERANCE.get(out.dtype, 1e-2) if loose is None else loose
    errors = checked(f"{kind} {work}", calls, out, exact, limit)
    times = milliseconds(calls)
    ours = times["tilewright"]
    row: Row = {"kind": kind, "work": work, "ms": times, "errors": errors}
    row["x"] = {name: t / ours for name, t in times.items() if name != "tilewright"}
    if flops:
        row["TFLOP/s"] = {name: flops / t / 1e9 for name, t in times.items()}
    if bytes_:
        row["GB/s"] = {name: bytes_ / t / 1e6 for name, t in times.items()}
    return told(row)


def told(row: Row) -> Row:
    """`row`, after a line about it."""
    rates = row.get("TFLOP/s") or row.get("GB/s") or row["ms"]
    shown = "  ".join(f"{name} {rate:.3g}" for name, rate in rates.items())
    ratios = "  ".join(f"/{name} {ratio:.3f}" for name, ratio in row["x"].items())
    print(f"{row['kind']:14} {row['work']:24} {shown}   {ratios}", flush=True)
    return row


def product_row(
    kind: str,
    work: str,
    a: Any,
    b: Any,
    *,
    out_dtype: Any = None,
    loose: float | None = None,
    peer: Callable[[Any], Any] | None = None,
    **ours: Any,
) -> Row:
    """`a @ b` beside torch's product."""
    shape = (*a.shape[:-1], b.shape[-1])
    out = torch.empty(shape, device="cuda", dtype=out_dtype or a.dtype)
    theirs = peer or (lambda into: torch.matmul(a, b, out=into))
    calls: dict[str, Call] = {
        "tilewright": lambda: void(tw.matmul(a, b, out=out, **ours)),
        "cuBLAS": lambda: void(theirs(out)),
    }
    flops = 2.0 * math.prod(shape) * a.shape[-1]

    def exact(rows: Any) -> Any:
        return a[..., rows, :].double() @ b.double()

    whole = exact if math.prod(b.shape) <= 1 << 26 and not loose else None
    return measured(kind, work, calls, out, flops=flops, exact=whole, loose=loose)


def void(value: Any) -> None:
    """A call's result is what is in `out`."""


# ---- sections ------------------------------------------------------------------------------------------


def squares(quick: bool) -> Iterator[Row]:
    """The paper's range, with sums in fp32."""
    for dtype in (torch.float16, torch.bfloat16):
        for n in sizes(quick):
            a, b = random(n, n, dtype=dtype), random(n, n, dtype=dtype)
            yield product_row(f"squares {short(dtype)}", str(n), a, b)


#: first and last size of squares, and the step (`--range`)
RANGE = [1024, 16384, 256]


def sizes(quick: bool) -> list[int]:
    if quick:
        return [1024, 1536, 2048, 3072, 4096, 8192]
    first, last, step = RANGE
    return list(range(first, last + 1, step))


def half(quick: bool) -> Iterator[Row]:
    """The same range with sums in fp16; cuBLAS is allowed them too."""
    with half_sums():
        for n in sizes(quick):
            a, b = random(n, n), random(n, n)
            yield product_row(
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


def epilogues(quick: bool) -> Iterator[Row]:
    """Bias and an activation, fused, beside torch's kernels one after the other and cublasLt's form."""
    for n in (4096,) if quick else (4096, 8192):
        yield gelu_row(n)
        yield leaky_relu_row(n)


def gelu_row(n: int) -> Row:
    a, b, bias = random(n, n), random(n, n), random(n)
    steps = [tw.epilogue.bias(bias), tw.epilogue.gelu("tanh")]

    def activation(x: Any) -> Any:
        return torch.nn.functional.gelu(x, approximate="tanh")

    peers: dict[str, Call] = {
        "cublasLt, fused": lambda: torch._addmm_activation(bias, a, b, use_gelu=True),
        "cuBLAS, then torch": lambda: activation(torch.mm(a, b).add_(bias)),
    }
    return fused_row("bias gelu", a, b, bias, steps, activation, peers)


def leaky_relu_row(n: int) -> Row:
    a, b, bias = random(n, n), random(n, n), random(n)
    steps = [tw.epilogue.bias(bias), tw.epilogue.leaky_relu(0.01)]

    def activation(x: Any) -> Any:
        return torch.nn.functional.leaky_relu(x, 0.01)

    peers: dict[str, Call] = {"cuBLAS, then torch": lambda: activation(torch.mm(a, b).add_(bias))}
    return fused_row("bias leaky relu", a, b, bias, steps, activation, peers)


def fused_row(
    name: str, a: Any, b: Any, bias: Any, steps: list[Any], activation: Any, peers: dict[str, Call]
) -> Row:
    """A fused form beside its peers and beside our plain product."""
    out = torch.empty_like(a)
    calls: dict[str, Call] = {
        "tilewright": lambda: void(tw.matmul(a, b, out=out, epilogue=steps)),
        **peers,
    }

    def exact(rows: Any) -> Any:
        return activation(a[rows].double() @ b.double() + bias.double())

    errors = checked(f"{name} {a.shape[0]}", calls, out, exact, 5e-3)
    times = milliseconds({**calls, "ours, plain": lambda: void(tw.matmul(a, b, out=out))})
    return told(
        {
            "kind": "epilogues", "work": f"{name} {a.shape[0]}", "ms": times, "errors": errors,
            "x": {peer: t / times["tilewright"] for peer, t in times.items() if peer != "tilewright"},
            "TFLOP/s": {peer: 2.0 * a.shape[0] ** 3 / t / 1e9 for peer, t in times.items()},
        }
    )  # fmt: skip


def layouts(quick: bool) -> Iterator[Row]:
    """Each operand row-major ("N") or column-major ("T")."""
    for n in (4096,) if quick else (4096, 8192):
        for layout in LAYOUTS:
            a, b = random(n, n, order=layout[0]), random(n, n, order=layout[1])
            yield product_row("layouts", f"{layout} {n}", a, b)


def small(quick: bool) -> Iterator[Row]:
    """Shapes that do not fill the chip, and matrix times vector beside a copy of the matrix."""
    for batch, m, n, k in SMALL:
        lead = (batch,) if batch > 1 else ()
        a, b = random(*lead, m, k), random(*lead, k, n)
        name = f"{batch}x" * (batch > 1) + f"{m}x{n}x{k}"
        yield product_row("small", name, a, b)
    for m, n, k in VECTORS:
        a, b = random(m, k), random(k, n)
        out, other = torch.empty(m, n, device="cuda", dtype=a.dtype), torch.empty_like(b)
        calls: dict[str, Call] = {
            "tilewright": lambda a=a, b=b, out=out: void(tw.matmul(a, b, out=out)),
            "cuBLAS": lambda a=a, b=b, out=out: void(torch.mm(a, b, out=out)),
        }
        row = measured("vector", f"{m}x{n}x{k}", calls, out, bytes_=2.0 * b.numel())
        copy = milliseconds({"copy": lambda b=b, other=other: void(other.copy_(b))})["copy"]
        # a copy moves every byte twice
        row["of copy rate"] = copy / 2 / row["ms"]["tilewright"]
        print(f"  of the copy rate: {row['of copy rate']:.3f}", flush=True)
        yield row


def types(quick: bool) -> Iterator[Row]:
    """8-bit floats, int8 and tf32 through torch's entry points."""
    for n in (4096,) if quick else (4096, 8192):
        a = random(n, n).to(torch.float8_e4m3fn)
        b = random(n, n, order="T").to(torch.float8_e4m3fn)
        one = torch.ones((), device="cuda")

        def scaled(into: Any, a: Any = a, b: Any = b, one: Any = one) -> Any:
            return torch._scaled_mm(a, b, one, one, out_dtype=torch.bfloat16, out=into)

        yield product_row(
            "types", f"fp8 {n}", a, b, out_dtype=torch.bfloat16, loose=2e-2, peer=scaled
        )
        a, b = random(n, n, dtype=torch.int8), random(n, n, dtype=torch.int8, order="T")

        def integers(into: Any, a: Any = a, b: Any = b) -> Any:
            return torch._int_mm(a, b, out=into)

        yield product_row(
            "types", f"int8 {n}", a, b, out_dtype=torch.int32, loose=1e-9, peer=integers
        )
    a, b = (random(4096, 4096, dtype=torch.float32) for _ in range(2))
    torch.backends.cuda.matmul.allow_tf32 = True
    yield product_row("types", "tf32 4096", a, b, loose=2e-3, precision="tf32")
    torch.backends.cuda.matmul.allow_tf32 = False


def large(quick: bool) -> Iterator[Row]:
    """The long product of seed 002."""
    if not quick:
        a, b = random(9728, 65536), random(65536, 8192)
        yield product_row("large", "9728x8192x65536", a, b)


def chosen(quick: bool) -> Iterator[Row]:
    """The model's choice beside the fastest of its nearest candidates, measured."""
    from tune_matmul import tune_square

    for n in (1536, 3072) if quick else (1024, 1536, 2048, 2560, 3072, 4096, 6144, 8192):
        found = tune_square(n, torch.float16)
        times = {"model": found.milliseconds(found.model), "best": found.milliseconds(found.best)}
        row: Row = {
            "kind": "chosen", "work": str(n), "ms": times, "errors": {},
            "x": {"best tuned": found.ratio},
            "configs": {"model": found.model.text, "best": found.best.text},
        }  # fmt: skip
        print(f"chosen {n}: {row['configs']}", flush=True)
        yield told(row)


FIRST_CALL = """
import time, torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
torch.mm(a, a); torch.cuda.synchronize()
start = time.perf_counter()
import tilewright as tw
imported = time.perf_counter()
tw.matmul(a, a)
torch.cuda.synchronize()
print(imported - start, time.perf_counter() - imported)
"""


def first(quick: bool) -> Iterator[Row]:
    """From the call to the first result in a new process with an empty cache, and with a full one."""
    with tempfile.TemporaryDirectory() as folder:
        times = {}
        path = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])
        # the first process also writes Python's byte code, which an installation has already
        for state in ("byte code", "empty cache", "full cache"):
            cache = Path(folder, "other" if state == "byte code" else "cache")
            done = subprocess.run(
                [sys.executable, "-c", FIRST_CALL], capture_output=True, text=True, check=False,
                env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(cache), "PYTHONPATH": path},
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(done.stderr)
            if state != "byte code":
                times[state] = 1e3 * float(done.stdout.split()[-1])
        print(f"first call: {times}", flush=True)
        yield {"kind": "first call", "work": "4096", "ms": times, "errors": {}, "x": {}}


SECTIONS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "squares": squares, "half": half, "epilogues": epilogues, "layouts": layouts, "small": small,
    "types": types, "large": large, "chosen": chosen, "first": first,
}  # fmt: skip


def short(dtype: Any) -> str:
    return {torch.float16: "fp16", torch.bfloat16: "bf16"}[dtype]


# ---- results -------------------------------------------------------------------------------------------


def summary(rows: list[Row]) -> list[str]:
    """Geometric mean and lowest ratio of each kind against each contestant."""
    lines = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        mine = [row for row in rows if row["kind"] == kind]
        for peer in dict.fromkeys(name for row in mine for name in row["x"]):
            ratios = {row["work"]: row["x"][peer] for row in mine if peer in row["x"]}
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            worst = min(ratios, key=lambda work: ratios[work])
            lines.append(
                f"| {kind} | {peer} | {mean:.3f} | {ratios[worst]:.3f} ({worst}) | {len(ratios)} |"
            )
    return lines


def with_others(rows: list[Row], path: Path, facts: dict[str, str]) -> list[Row]:
    """`rows` and those of an earlier run on the same machine that they do not replace."""
    if not path.is_file():
        return rows
    old = json.loads(path.read_text())
    if {**old["machine"], "date": ""} != {**facts, "date": ""}:
        return rows
    fresh = {(row["kind"], row["work"]) for row in rows}
    kept = [row for row in old["rows"] if (row["kind"], row["work"]) not in fresh]
    order = list(dict.fromkeys(row["kind"] for row in (*old["rows"], *rows)))
    return sorted([*kept, *rows], key=lambda row: (order.index(row["kind"]), size_of(row["work"])))


def size_of(work: str) -> int:
    return int(work) if work.isdigit() else 0


def write(rows: list[Row], sustained: bool, seconds: float) -> None:
    facts = {**gpu_kernels.machine(), "regime": "sustained" if sustained else "burst"}
    stem = ROOT / "benchmarks" / "results" / f"generated_matmul{'_sustained' if sustained else ''}"
    stem.parent.mkdir(parents=True, exist_ok=True)
    rows = with_others(rows, stem.with_suffix(".json"), facts)
    stem.with_suffix(".json").write_text(json.dumps({"machine": facts, "rows": rows}, indent=1))
    lines = ["# Described products beside cuBLAS", "", *(f"- {k}: {v}" for k, v in facts.items())]
    lines += [f"- {len(rows)} rows, the last run took {seconds:.0f} s", ""]
    lines += ["Ratios are the other's time over ours: above 1, tilewright is faster.", ""]
    lines += ["| kind | against | geometric mean | lowest | rows |", "|---|---|---:|---:|---:|"]
    lines += [*summary(rows), "", f"![squares]({stem.name}.png)", ""]
    lines += ["| kind | work | ours | ratios | error |", "|---|---|---:|---|---:|"]
    for row in rows:
        rate = row.get("TFLOP/s") or row.get("GB/s")
        unit = "TFLOP/s" if "TFLOP/s" in row else "GB/s"
        ours = f"{rate['tilewright']:.4g} {unit}" if rate else _times(row)
        ratios = ", ".join(f"{name} {x:.3f}" for name, x in row["x"].items())
        error = max(row["errors"].values(), default=0.0)
        lines.append(f"| {row['kind']} | {row['work']} | {ours} | {ratios} | {error:.1e} |")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    draw(rows, stem.with_suffix(".png"), str(facts["device"]))


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--range", nargs=3, type=int, metavar=("FROM", "TO", "STEP"), default=RANGE)
    parser.add_argument("--quick", action="store_true", help="a few sizes")
    parser.add_argument("--sustained", action="store_true", help="no idle gaps")
    given = parser.parse_args()
    gpu_kernels.ROUNDS = 5
    RANGE[:] = given.range
    if given.sustained:
        gpu_kernels.GAP_SECONDS, gpu_kernels.READING_MS = 0.0, 80.0
    start = time.perf_counter()
    torch.manual_seed(0)
    rows = [row for name in given.only for row in SECTIONS[name](given.quick)]
    write(rows, given.sustained, time.perf_counter() - start)
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
