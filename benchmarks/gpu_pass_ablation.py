"""What single passes and fields of a configuration bring on a GPU: the same program with and without, in one process.

The figures of `docs/adr` that `gpu_kernels.py`, `generated_matmul.py` and `python -m benchmarks.ablation` have no row for. Timed
as in `gpu_kernels.py`; every result is compared with float64 first.

    python benchmarks/gpu_pass_ablation.py [--only softmax rope products] [--to DIR]

writes `benchmarks/results/gpu_switches_<device>.{json,md}`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for _folder in ("src", "benchmarks"):
    sys.path.insert(0, str(ROOT / _folder))

import torch  # noqa: E402

import gpu_kernels  # noqa: E402
import tilewright as tw  # noqa: E402
from gpu_kernels import Call, error_of, with_tilewright  # noqa: E402

ROWS_OF_SOFTMAX = 1024
TOLERANCE = 1e-2


@dataclass
class Case:
    """`calls`: "with", "without" and perhaps a peer, all of which write `out`; `exact` gives what must be there."""

    what: str
    work: str
    calls: dict[str, Call]
    out: Any
    exact: Callable[[], Any] | None


def softmax_case(what: str, n: int, off: str, kernel: str = "fuse", warps: int = 32, half: bool = False) -> Case:  # fmt: skip
    function = getattr(with_tilewright("softmax"), f"kernel_softmax_{kernel}")
    x = torch.randn(ROWS_OF_SOFTMAX, n, device="cuda", dtype=torch.float16 if half else None)
    out = torch.empty_like(x)
    block = 1 << (n - 1).bit_length() if kernel == "fuse" else 4096
    options: dict[str, Any] = {"BLOCK_SIZE": block, "num_warps": warps}
    if kernel != "fuse":
        options["CACHE_OPT"] = True

    def launch(**how: Any) -> Call:
        return lambda: function[(ROWS_OF_SOFTMAX,)](x, n, out, n, n, **options, **how)

    work = f"softmax {kernel} {n}, {warps} warps" + (", fp16" if half else "")
    calls = {"with": launch(), "without": launch(disable=off)}
    return Case(what, work, calls, out, lambda: torch.softmax(x.double(), 1))


def softmax() -> Iterator[Case]:
    for n in (256, 1024, 2048, 4096):
        yield softmax_case("reduce-num-warps", n, "reduce-num-warps")
    yield softmax_case("partition-loops", 8192, "partition-loops", "tile")
    yield softmax_case("partition-loops", 8115, "partition-loops", "tile")
    yield softmax_case("partition-loops", 256, "partition-loops", "online")
    yield softmax_case("cache-in-shared", 32768, "cache-in-shared", warps=4)
    yield softmax_case("cache-in-shared", 65536, "cache-in-shared")
    yield softmax_case("cache-in-shared", 131072, "cache-in-shared")
    yield softmax_case("cache-in-shared", 65536, "cache-in-shared", half=True)


def rope() -> Iterator[Case]:
    module = with_tilewright("rope")
    tokens, heads, dim = 2 * 4096, 32, 128
    out = torch.randn(tokens, heads * dim, device="cuda", dtype=torch.bfloat16)
    angles = torch.rand(4096, dim // 2, device="cuda")
    cos, sin = (f(angles).to(torch.bfloat16).repeat(1, 2) for f in (torch.cos, torch.sin))
    grid = module.rope_grid(tokens, heads)

    def launch(**how: Any) -> Call:
        return lambda: module._rope_embedding[grid](
            out, heads * dim, cos, dim, sin, dim, 4096, head_dim=dim, n_heads=heads, BLOCK_SIZE=64,
            num_warps=4, **how,
        )  # fmt: skip

    # in place: each call turns what the one before has left, so there is nothing to compare with here
    for off in ("batch-loads", "reduce-num-warps", "batch-loads,reduce-num-warps"):
        calls = {"with": launch(), "without": launch(disable=off)}
        yield Case(off, "rope bf16 2x4096x32x128", calls, out, None)


def product_case(what: str, n: int, config: str, other: str, dtype: str = "float16", **options: Any) -> Case:  # fmt: skip
    kind = getattr(torch, dtype)
    a, b = (torch.randn(n, n, device="cuda").to(kind) for _ in range(2))
    out = torch.empty(n, n, device="cuda", dtype=torch.bfloat16 if a.element_size() == 1 else kind)

    def launch(text: str) -> Call:
        chosen = tw.MatmulConfig.from_text(text)
        return lambda: tw.matmul(a, b, out, config=chosen, **options)

    calls = {"with": launch(config), "without": launch(other)}
    if a.element_size() > 1:  # torch multiplies 8-bit floats in one order only
        calls["cuBLAS"] = lambda: torch.mm(a, b, out=out)
    name = "tf32" if "precision" in options else dtype
    return Case(what, f"{name} {n}: {config}", calls, out, lambda: a.double() @ b.double())


def products() -> Iterator[Case]:
    torch.backends.cuda.matmul.allow_tf32 = True
    for n, tile in ((1000, "64x128x64 g8 w4 s7"), (4104, "128x256x64 g16 w8 s2")):
        yield product_case("pairs", n, f"{tile} persistent multicast", f"{tile} persistent")
    tile = "256x128x64 g8 w8 s3"
    yield product_case("persistent", 4096, f"{tile} persistent", tile, "float8_e4m3fn")
    tile = "256x128x32 g8 w8 s3"
    tf32 = {"dtype": "float32", "precision": "tf32"}
    yield product_case("select-wgmma-rs", 4096, tile, f"{tile} turned", **tf32)
    yield product_case("persistent", 4096, f"{tile} persistent", tile, **tf32)
    yield product_case("persistent multicast", 4104, f"{tile} persistent multicast", tile, **tf32)


SECTIONS = {"softmax": softmax, "rope": rope, "products": products}


def measured(case: Case) -> dict[str, Any]:
    """Checked, timed and told. Raises ValueError for a wrong result."""
    errors = {}
    exact = None if case.exact is None else case.exact()
    for name, call in case.calls.items():
        if exact is not None:
            case.out.fill_(float("nan"))
            call()
            errors[name] = error_of(case.out, exact)
            if not errors[name] <= TOLERANCE:
                raise ValueError(f"{case.what}, {case.work}: {name} is wrong by {errors[name]:.1e}")
    del exact
    times = gpu_kernels.milliseconds(case.calls)
    shown = "  ".join(f"{name} {1e3 * t:.1f} µs" for name, t in times.items())
    print(f"{case.what:20} {case.work:50} {shown}", flush=True)
    return {"what": case.what, "work": case.work, "ms": times, "errors": errors}


def page(rows: list[dict[str, Any]], facts: dict[str, str]) -> str:
    lines = ["# With and without, on a GPU", "", *(f"- {k}: {v}" for k, v in facts.items()), ""]
    lines += ["| what | work | with, µs | without, µs | without / with | cuBLAS, µs | error |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        on, off, peer = (row["ms"].get(name) for name in ("with", "without", "cuBLAS"))
        theirs = "" if peer is None else f"{1e3 * peer:.1f}"
        error = row["errors"].get("with")
        lines.append(
            f"| `{row['what']}` | {row['work']} | {1e3 * on:.1f} | {1e3 * off:.1f} | {off / on:.2f} | "
            f"{theirs} | {'–' if error is None else f'{error:.1e}'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="passes and fields, with and without")
    parser.add_argument("--only", nargs="*", choices=[*SECTIONS], default=[*SECTIONS])
    parser.add_argument("--to", type=Path, default=ROOT / "benchmarks" / "results", metavar="DIR")
    given = parser.parse_args()
    gpu_kernels.ROUNDS = 5
    for program in ("softmax", "rope"):  # before anything imports Triton
        with_tilewright(program)
    facts = gpu_kernels.machine()
    device = facts["device"].lower().replace(" ", "-")
    stem = given.to / f"gpu_switches_{device}"
    rows: list[dict[str, Any]] = []
    for name in given.only:
        for case in SECTIONS[name]():
            rows.append(measured(case))
            stem.with_suffix(".json").write_text(json.dumps({"machine": facts, "rows": rows}, indent=1))  # fmt: skip
            stem.with_suffix(".md").write_text(page(rows, facts))


if __name__ == "__main__":
    main()
