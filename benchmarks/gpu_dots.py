"""Rows of `gpu_kernels.py`: the grouped matmul in every type of the tensor cores, beside Triton.

Each compiler takes the best of the same configurations; results are checked for every one of them. `a @ b`
has B[K, N] row by row, `a @ b.T` has it contiguous along K.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

Call = Callable[[], object]
Config = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Kind:
    """Types of operands, sums and result, and the configurations (block extents, warps, stages)."""

    operand: torch.dtype
    sums: str
    result: torch.dtype
    precision: str
    configs: tuple[Config, ...]
    bound: float
    """Relative error in the Frobenius norm that is right for the types."""


_WIDE = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (128, 128, 64, 4, 4), (64, 128, 64, 4, 4))
_SINGLE = ((128, 256, 32, 8, 3), (256, 128, 32, 8, 3), (128, 128, 32, 8, 3), (128, 128, 32, 4, 4))
_PLAIN = ((128, 64, 16, 4, 3), (64, 128, 32, 8, 3), (128, 128, 32, 8, 3), (64, 64, 32, 4, 3))
_BYTES = ((128, 256, 128, 8, 3), (128, 128, 128, 8, 3), (128, 128, 128, 4, 4), (128, 64, 128, 4, 4))
KINDS = {
    "fp16, fp16 sums": Kind(
        torch.float16, "float16", torch.float16, "tf32", (*_WIDE, (256, 256, 64, 8, 3)), 2e-2
    ),
    "bf16": Kind(torch.bfloat16, "float32", torch.bfloat16, "tf32", _WIDE, 5e-3),
    "fp32 tf32": Kind(torch.float32, "float32", torch.float32, "tf32", _SINGLE, 2e-3),
    "fp32 ieee": Kind(torch.float32, "float32", torch.float32, "ieee", _PLAIN, 1e-5),
    "int8": Kind(torch.int8, "int32", torch.int32, "tf32", _BYTES, 0.0),
    "e4m3": Kind(torch.float8_e4m3fn, "float32", torch.float16, "tf32", _BYTES, 5e-3),
    "e5m2": Kind(torch.float8_e5m2, "float32", torch.float16, "tf32", _BYTES, 5e-3),
}
#: m, n, k of the products with fp16 sums: those of the rows with fp32 sums
HALF_SHAPES = (
    *((n, n, n) for n in (1024, 1536, 2048, 3072, 4096, 6144, 8192, 11264, 16384)),
    (9728, 8192, 65536),
)


@functools.cache
def _program(who: str) -> Any:
    """The kernel as the compiler that has Triton's name compiles it."""
    return module_of(f"dot_kernel_{who}", Path(__file__).with_name("dot_kernel.py"))


def module_of(name: str, file: Path) -> Any:
    """A file as the module `name`."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_with_tilewright() -> None:
    """Load the kernel while tilewright has Triton's name."""
    _program("tilewright")


def dot_rows(
    quick: bool, row: Callable[..., dict[str, Any]], quick_time: Callable[[Call], float]
) -> list[dict[str, Any]]:
    """All rows; `row` checks and times one, `quick_time` ranks configurations."""
    half = ((2048, 2048, 2048),) if quick else HALF_SHAPES
    works = [(shape, "fp16, fp16 sums", False) for shape in half]
    for n in (4096,) if quick else (4096, 8192):
        square = (n, n, n)
        works += [
            (square, kind, False) for kind in ("bf16", "fp32 tf32", "fp32 ieee", "int8", "e4m3")
        ]
        works += [
            (square, kind, True) for kind in ("fp32 tf32", "fp32 ieee", "int8", "e4m3", "e5m2")
        ]
    return [_row(*work, row, quick_time) for work in works]


def _row(
    shape: tuple[int, int, int],
    name: str,
    by_k: bool,
    row: Callable[..., dict[str, Any]],
    quick_time: Callable[[Call], float],
) -> dict[str, Any]:
    kind = KINDS[name]
    m, n, k = shape
    a = _random(m, k, kind.operand)
    b = _random(n, k, kind.operand).t() if by_k else _random(k, n, kind.operand)
    out, reference = torch.empty(m, n, device="cuda", dtype=kind.result), _reference(a, b)
    bound = kind.bound * max(1.0, math.sqrt(k / 16384))  # sums of 16 bits err with their length
    best: dict[str, tuple[float, Config, Call]] = {}
    for config in kind.configs if max(shape) <= 8192 else kind.configs[:2]:
        for who in ("tilewright", "triton"):
            call = _call(who, kind, a, b, out, config)
            out.zero_()
            call()
            error = float((out.double() - reference).norm() / reference.norm())
            if not error <= bound:
                raise SystemExit(f"{who} {name} {shape} {config}: wrong result, error {error:.1e}")
            took = quick_time(call)
            if who not in best or took < best[who][0]:
                best[who] = (took, config, call)
    calls = {who: found[2] for who, found in best.items()}
    extents = str(n) if m == n == k else f"{m}x{n}x{k}"
    work = f"{extents} {name}, {'a @ b.T' if by_k else 'a @ b'}"
    found = row("dot", work, calls, out, lambda: reference, 0, 2 * m * n * k)
    found["configs"] = {who: list(entry[1]) for who, entry in best.items()}
    return found


def _random(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.int8:
        return torch.randint(-128, 128, (rows, columns), device="cuda", dtype=dtype)
    return torch.randn(rows, columns, device="cuda").to(dtype)


def _reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """In fp64: exact for integers, far closer than any tensor core for floats."""
    return a.double() @ b.double()


def _call(
    who: str, kind: Kind, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, config: Config
) -> Call:
    language = "tilewright.language" if who == "tilewright" else "triton.language"
    bm, bn, bk, warps, stages = config
    (m, k), n = a.shape, b.shape[1]
    launch = _program(who).matmul_kernel[(-(-m // bm) * -(-n // bn),)]
    given = {
        "SUMS": getattr(importlib.import_module(language), kind.sums),
        "PRECISION": kind.precision, "GROUP_SIZE_M": 8,
        "BLOCK_SIZE_M": bm, "BLOCK_SIZE_N": bn, "BLOCK_SIZE_K": bk,
        "num_warps": warps, "num_stages": stages,
    }  # fmt: skip
    strides = (*a.stride(), *b.stride(), *out.stride())
    return lambda: launch(a, b, out, m, n, k, *strides, **given)
