"""Stores past the caches in large launches, and stores whose rows alternate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.cpu.target import host_target


@tw.jit
def twice(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(o_ptr + at, x * 2, mask=at < n)


def compiled(l3_bytes: int):
    target = replace(host_target(), l3_bytes=l3_bytes)
    types = {"x_ptr": "*fp32", "o_ptr": "*fp32", "n": "i32"}
    return twice.compile(types, {"BLOCK": 256}, target=target)


@pytest.mark.parametrize("shift", [0, 1, 16])
@pytest.mark.parametrize("n", [100, 256, 5000])
@pytest.mark.parametrize("l3_bytes", [0, 1 << 12, 1 << 30])
def test_results(l3_bytes: int, n: int, shift: int) -> None:
    """Small and large launches, aligned or not, whole blocks and a tail."""
    memory = np.zeros(n + 64, np.float32)
    first = -memory.ctypes.data % 64 // 4 + shift
    out, x = memory[first : first + n], np.arange(n, dtype=np.float32)
    call = compiled(l3_bytes).launcher(["address", "address", "int"], None)
    assert call((-(-n // 256), 1, 1), x.ctypes.data, out.ctypes.data, n) is None
    assert (out == 2 * x).all() and memory.sum() == out.sum()


def test_instructions() -> None:
    if "avx" not in host_target().features:
        pytest.skip("instructions of x86")
    assert "vmovnt" not in compiled(0).asm["asm"]
    text = compiled(1 << 12).asm["asm"]
    assert "vmovntps" in text and "sfence" in text


@tw.jit
def halves(x_ptr, o_ptr, p_ptr, R: tl.constexpr, C: tl.constexpr, S: tl.constexpr):
    at = tl.arange(0, R)[:, None] * S + tl.arange(0, C)[None, :]
    x = tl.load(x_ptr + at)
    y = tl.load(x_ptr + at + 1)
    tl.store(o_ptr + at, x * 2)
    tl.store(p_ptr + at, y * 3)


@pytest.mark.parametrize("shift", [0, 1, 15, 16, 17, 32, 47, 48, 49, 63, 64, 80, 1000])
@pytest.mark.parametrize("step", [64, 48])
def test_rows_that_alternate(step: int, shift: int) -> None:
    """The later store wins where they meet, whichever begins first."""
    rows, columns = 8, 16
    x = np.arange(3000, dtype=np.float32)
    at = np.arange(rows)[:, None] * step + np.arange(columns)
    for first, second in ((100, 100 + shift), (100 + shift, 100)):
        out, wanted = np.zeros(3000, np.float32), np.zeros(3000, np.float32)
        halves[(1,)](x, out[first:], out[second:], rows, columns, step)
        wanted[first:][at] = x[at] * 2
        wanted[second:][at] = x[at + 1] * 3
        assert (out == wanted).all()
