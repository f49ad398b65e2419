"""Described matmuls on a CPU: `tilewright.matmul` beside torch (oneDNN, MKL), MKL and NumPy's OpenBLAS.

    python benchmarks/generated_matmul_cpu.py                       every row, on all cores
    python benchmarks/generated_matmul_cpu.py --threads 1 --only squares
    python benchmarks/generated_matmul_cpu.py --mkl .../lib/libmkl_rt.so.3

Writes `benchmarks/results/generated_matmul_cpu_<processor>.{json,md}` (`--to DIR` elsewhere); rows of other kinds
and of other numbers of threads stay as they are there, if features and versions are the same. The protocol is in `protocol.py`. Every
result is compared with float64 before it is timed. MKL is the library of the package `mkl`, through
`cblas_sgemm` and `cblas_dgemm`, on the threads that it makes itself; without it those columns are empty.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import protocol
from protocol import Call

NAME = "generated_matmul_cpu"
SQUARES = (512, 1024, 2048, 4096)
#: batch, M, N, K: odd, tall, flat, deep and batched products
SHAPES = (
    (1, 1000, 1000, 1000), (1, 511, 1023, 513), (1, 1024, 1024, 8192), (1, 128, 4096, 4096),
    (1, 4096, 16, 4096), (1, 16384, 64, 64), (1, 20, 2048, 2048), (1, 65, 65, 65), (64, 256, 256, 256),
    (32, 100, 100, 100),
)  # fmt: skip
VECTORS = ((1, 1, 4096, 4096), (1, 4096, 1, 4096))
ORDERS = ("NT", "TN", "TT")
#: largest error against float64, of the largest element of the result
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "bfloat16": 1e-2, "float16": 2e-3, "int8": 0.0}
#: floating point operations of a product that is timed in shorter blocks
LARGE = 1e10
Row = dict[str, Any]


@dataclass
class Bench:
    """What rows need: torch, MKL's library or None, the number of threads."""

    torch: Any
    mkl: Any
    threads: int
    clock: Callable[[], float]
    rounds: int = protocol.ROUNDS
    sizes: tuple[int, ...] = SQUARES

    def array(self, *shape: int, dtype: str, order: str = "N") -> Any:
        """Random data; order "T": stored transposed."""
        if order == "T":
            return self.array(*shape[:-2], shape[-1], shape[-2], dtype=dtype).transpose(-1, -2)
        if dtype == "int8":
            return self.torch.randint(-128, 128, shape, dtype=self.torch.int8)
        return self.torch.randn(shape).to(getattr(self.torch, dtype))

    def product(
        self, kind: str, dtype: str, size: tuple[int, int, int, int], order: str = "NN"
    ) -> Row:
        """`a @ b` by everyone who can."""
        import tilewright as tw

        torch, (batch, m, n, k) = self.torch, size
        lead = (batch,) if batch > 1 else ()
        a = self.array(*lead, m, k, dtype=dtype, order=order[0])
        b = self.array(*lead, k, n, dtype=dtype, order=order[1])
        result = torch.int32 if dtype == "int8" else getattr(torch, dtype)
        out = torch.zeros(*lead, m, n, dtype=result)
        calls: dict[str, Call] = {"tilewright": lambda: tw.matmul(a, b, out)}
        if dtype != "int8":
            calls["torch"] = lambda: torch.matmul(a, b, out=out)
        elif not lead:
            calls["torch"] = lambda: torch._int_mm(a, b, out=out)
        if dtype in ("float32", "float64"):
            import numpy

            x, y, z = a.numpy(), b.numpy(), out.numpy()
            calls["OpenBLAS"] = lambda: numpy.matmul(x, y, out=z)
            if self.mkl is not None and not lead:
                calls["MKL"] = self._mkl(a, b, out)
        exact = torch.matmul(a.double(), b.double())
        work = f"{batch}x" * (batch > 1) + (f"{m}" if m == n == k else f"{m}x{n}x{k}")
        return self.measured(kind, dtype, f"{work} {order}".removesuffix(" NN"), calls, out, exact,
                             2.0 * batch * m * n * k)  # fmt: skip

    def measured(
        self, kind: str, dtype: str, work: str, calls: dict[str, Call], out: Any, exact: Any,
        flops: float,
    ) -> Row:  # fmt: skip
        """One row: every contestant is checked, then all are timed."""
        for name, call in calls.items():
            out.zero_()
            call()
            error = float((out.double() - exact).abs().max() / exact.abs().max().clamp(min=1))
            if not error <= TOLERANCE[dtype]:
                raise SystemExit(f"{kind} {dtype} {work}: {name} is wrong by {error:.1e}")
        few = 3 if flops > LARGE else protocol.CALLS
        times = protocol.measure(calls, self.rounds, calls=few, clock=self.clock)
        ours = times["tilewright"]
        row: Row = {
            "kind": kind, "dtype": dtype, "work": work, "threads": self.threads,
            "clock": "thread" if self.clock is time.thread_time else "wall",
            "us": {name: 1e6 * t for name, t in times.items()},
            "GFLOP/s": {name: 1e-9 * flops / t for name, t in times.items()},
            "x": {name: t / ours for name, t in times.items() if name != "tilewright"},
        }  # fmt: skip
        rates = "  ".join(f"{name} {rate:.0f}" for name, rate in row["GFLOP/s"].items())
        ratios = "  ".join(f"/{name} {ratio:.2f}" for name, ratio in row["x"].items())
        print(f"{kind:9} {dtype:9} {work:18} {self.threads}t  {rates}   {ratios}", flush=True)
        return row

    def _mkl(self, a: Any, b: Any, out: Any) -> Call:
        """MKL's product of two matrices, row-major or transposed."""
        wide = out.element_size() == 8
        call = self.mkl.cblas_dgemm if wide else self.mkl.cblas_sgemm
        number = ctypes.c_double if wide else ctypes.c_float
        row_major, plain, transposed = 101, 111, 112
        (m, k), n = a.shape, b.shape[1]

        def operand(x: Any) -> tuple[int, int]:
            # an extent of 1 leaves a stride free, which must not be below the other extent
            if x.stride(1) == 1:
                return plain, max(x.stride(0), x.shape[1])
            return transposed, max(x.stride(1), x.shape[0])

        (order_a, pitch_a), (order_b, pitch_b) = operand(a), operand(b)
        addresses = [ctypes.c_void_p(x.data_ptr()) for x in (a, b, out)]
        return lambda: call(
            row_major, order_a, order_b, m, n, k, number(1), addresses[0], pitch_a, addresses[1],
            pitch_b, number(0), addresses[2], n,
        )  # fmt: skip


# ---- sections --------------------------------------------------------------------------------------


def squares(bench: Bench, quick: bool) -> Iterator[Row]:
    """The sizes that targets are set for."""
    for dtype in ("float32", "bfloat16"):
        for n in bench.sizes[:3] if quick else bench.sizes:
            yield bench.product("squares", dtype, (1, n, n, n))


def shapes(bench: Bench, quick: bool) -> Iterator[Row]:
    """Sizes that are no multiple of anything, tall, flat, deep, batched."""
    for dtype in ("float32", "bfloat16"):
        for size in SHAPES[:5] if quick else SHAPES:
            yield bench.product("shapes", dtype, size)


def vectors(bench: Bench, quick: bool) -> Iterator[Row]:
    """A matrix times a vector, both ways."""
    for dtype in ("float32", "bfloat16"):
        for size in VECTORS:
            yield bench.product("vectors", dtype, size)


def orders(bench: Bench, quick: bool) -> Iterator[Row]:
    """Operands that are stored transposed."""
    for dtype in ("float32", "bfloat16"):
        for order in ORDERS:
            yield bench.product("orders", dtype, (1, 1024, 1024, 1024), order)


def types(bench: Bench, quick: bool) -> Iterator[Row]:
    """Other element types."""
    for dtype in ("float64", "float16", "int8"):
        for n in (1024,) if quick else (1024, 2048):
            yield bench.product("types", dtype, (1, n, n, n))


def epilogues(bench: Bench, quick: bool) -> Iterator[Row]:
    """Bias and GELU (tanh), fused, beside torch's product and functions one after the other."""
    import tilewright as tw

    torch, n = bench.torch, 1024
    gelu = torch.nn.functional.gelu
    for dtype in ("float32", "bfloat16"):
        a, b, bias = (bench.array(*shape, dtype=dtype) for shape in ((n, n), (n, n), (n,)))
        out = torch.zeros_like(a)
        steps = [tw.epilogue.bias(bias), "gelu_tanh"]

        def peer(a: Any = a, b: Any = b, bias: Any = bias, out: Any = out) -> None:
            out.copy_(gelu(torch.addmm(bias, a, b), approximate="tanh"))

        calls: dict[str, Call] = {
            "tilewright": lambda a=a, b=b, out=out, steps=steps: tw.matmul(
                a, b, out, epilogue=steps
            ),
            "torch": peer,
        }
        exact = gelu(a.double() @ b.double() + bias.double(), approximate="tanh")
        yield bench.measured("epilogues", dtype, f"bias gelu {n}", calls, out, exact, 2.0 * n**3)


SECTIONS: dict[str, Callable[[Bench, bool], Iterator[Row]]] = {
    "squares": squares, "shapes": shapes, "vectors": vectors, "orders": orders, "types": types,
    "epilogues": epilogues,
}  # fmt: skip


# ---- results ---------------------------------------------------------------------------------------


def find_mkl(path: str | None) -> Any:
    """MKL's run-time library: the given one, or the one that the package `mkl` put into this prefix."""
    found = [Path(path)] if path else sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so*"))
    if not found:
        return None
    # the OpenMP runtime that MKL looks for by name stands beside it
    beside = found[0].parent / "libiomp5.so"
    if beside.exists():
        ctypes.CDLL(str(beside), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(found[0]))


def mkl_version(mkl: Any) -> str:
    if mkl is None:
        return "not installed"
    text = ctypes.create_string_buffer(256)
    mkl.mkl_get_version_string(text, 255)
    return text.value.decode().strip()


def facts(bench: Bench) -> dict[str, Any]:
    """The machine, and which libraries torch was built with."""
    found = protocol.machine_facts()
    built = [line.strip(" -") for line in bench.torch.__config__.show().splitlines()]
    libraries = [
        line for line in built if line.startswith(("Intel(R) oneAPI Math", "Intel(R) MKL-DNN"))
    ]
    found["rounds"] = bench.rounds
    return found | {"torch uses": "; ".join(libraries), "MKL": mkl_version(bench.mkl)}


def with_others(rows: list[Row], machine: dict[str, Any], path: Path) -> list[Row]:
    """`rows` and those of an earlier run on such a machine, in a file, that they do not replace."""
    if not path.is_file():
        return rows
    old = json.loads(path.read_text())
    if any(old["machine"].get(key) != machine[key] for key in ("cpu", "features", "versions")):
        return rows
    fresh = {_identity(row) for row in rows}
    return [*(row for row in old["rows"] if _identity(row) not in fresh), *rows]


def _identity(row: Row) -> tuple[Any, ...]:
    return row["kind"], row["dtype"], row["work"], row["threads"]


def report(rows: list[Row], machine: dict[str, Any]) -> str:
    """Both tables in Markdown."""
    lines = [
        "# Described matmuls on a CPU", "", protocol.facts_table(machine), "",
        "Ratios are the other's time over ours: above 1, tilewright is faster.", "",
    ]  # fmt: skip
    peers = ("torch", "MKL", "OpenBLAS")
    for threads in sorted({row["threads"] for row in rows}):
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += [
            "| kind | type | product | ours, GFLOP/s | " + " | ".join(f"/ {p}" for p in peers)
        ]
        lines[-1] += " |"
        lines += ["|---|---|---|---:|---:|---:|---:|"]
        for row in sorted((r for r in rows if r["threads"] == threads), key=_order):
            ratios = " | ".join(protocol.number(row["x"].get(p)) for p in peers)
            rate = row["GFLOP/s"]["tilewright"]
            lines.append(
                f"| {row['kind']} | {row['dtype']} | {row['work']} | {rate:.1f} | {ratios} |"
            )
        lines.append("")
    return "\n".join(lines)


def _order(row: Row) -> tuple[int, str]:
    return list(SECTIONS).index(row["kind"]), row["dtype"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=SQUARES, help="of squares")
    parser.add_argument("--rounds", type=int, default=protocol.ROUNDS, help="of the protocol")
    parser.add_argument("--mkl", help="path of libmkl_rt.so")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="time of the thread, not of the clock (busy machines)",
    )
    parser.add_argument(
        "--to", type=Path, default=protocol.RESULTS, metavar="DIR", help="for the results"
    )
    parser.add_argument("--dry", action="store_true", help="print, write nothing")
    options = parser.parse_args()
    threads = protocol.set_threads(options.threads)
    os.environ["MKL_NUM_THREADS"] = str(threads)
    os.environ["TILEWRIGHT_NUM_THREADS"] = str(threads)
    torch = protocol.torch_or_none()
    if torch is None:
        raise SystemExit("torch is not installed: there is nothing to compare with")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if options.cpu_time and threads > 1:
        raise SystemExit("--cpu-time is the calling thread's: use it with --threads 1")
    clock = time.thread_time if options.cpu_time else time.perf_counter
    bench = Bench(
        torch, find_mkl(options.mkl), threads, clock, options.rounds, tuple(options.sizes)
    )
    machine = facts(bench)
    rows = [row for name in options.only for row in SECTIONS[name](bench, options.quick)]
    if options.dry:
        return
    name = f"{NAME}_{protocol.cpu_slug()}"
    rows = with_others(rows, machine, options.to / f"{name}.json")
    protocol.write(name, {"machine": machine, "rows": rows}, report(rows, machine), options.to)


if __name__ == "__main__":
    main()
