"""Stages of loops whose sums leave registers for one CTA on an SM: shared memory for more is of no use."""

import re

import tilewright as tw
import tilewright.language as tl


@tw.jit
def wrapped(a, b, c, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, STEP: tl.constexpr):
    """Rows behind the last are the first again, which TMA does not copy."""
    rows, columns, inner = tl.arange(0, ROWS), tl.arange(0, COLUMNS), tl.arange(0, STEP)
    left = (tl.program_id(0) * ROWS + rows) % m
    right = (tl.program_id(1) * COLUMNS + columns) % n
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for i in range(0, k, STEP):
        x = tl.load(a + left[:, None] * k + (i + inner)[None, :])
        y = tl.load(b + right[None, :] * k + (i + inner)[:, None])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * COLUMNS + columns[None, :], total.to(tl.float16))


def test_an_mma_stays_in_flight_if_registers_leave_one_cta():
    types = {name: "*fp16:16" for name in "abc"} | dict.fromkeys("mnk", "i32:16+")
    constants = {"ROWS": 256, "COLUMNS": 128, "STEP": 32}
    made = wrapped.compile(types, constants, target="sm_90a", num_warps=8, num_stages=3)
    loop = made.asm["gpu"].split("scf.for")[1].split("scf.yield")[0]
    assert re.search(r"gpu.wgmma_wait %\w+, 1 ", loop)
    assert re.search(r"local_alloc .*<256x32xf16>.*, 4>$", made.asm["gpu"], re.MULTILINE)


@tw.jit
def chained(q, keys, out, n, ROWS: tl.constexpr, DEEP: tl.constexpr):
    rows, deep = tl.arange(0, ROWS), tl.arange(0, DEEP)
    left = tl.load(q + rows[:, None] * DEEP + deep[None, :])
    total = tl.zeros((ROWS, DEEP), tl.float32)
    for i in range(n):
        x = tl.load(keys + (i * ROWS + rows)[:, None] * DEEP + deep[None, :])
        s = tl.exp2(tl.dot(left, tl.trans(x)))
        total = tl.dot(s.to(tl.float16), x, total)
    tl.store(out + rows[:, None] * DEEP + deep[None, :], total)


def test_two_stages_if_registers_leave_one_cta():
    """One stage was asked for, which is about memory: two CTAs would need half of it each."""
    types = {"q": "*fp16:16", "keys": "*fp16:16", "out": "*fp32:16", "n": "i32"}
    constants = {"ROWS": 128, "DEEP": 256}
    made = chained.compile(types, constants, target="sm_90a", num_warps=8, num_stages=1)
    assert re.search(r"local_alloc .*<128x256xf16>.*, 2>$", made.asm["gpu"], re.MULTILINE)
