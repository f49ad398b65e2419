"""Products whose tiles go one by one to programs, or all to a few: with masks, results in any order and type."""

import tilewright as tw
import tilewright.language as tl


@tw.jit
def product(a, b, c, M, N, K, stride_cm, stride_cn,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """c = a @ b, programs taking tile after tile; `c` in any order and of any type."""
    columns = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0)):
        rm = tile // columns * BM + tl.arange(0, BM)
        rn = tile % columns * BN + tl.arange(0, BN)
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(
                a + rm[:, None] * K + rk[None, :], (rm[:, None] < M) & (rk[None, :] < K), 0.0
            )
            y = tl.load(
                b + rk[:, None] * N + rn[None, :], (rk[:, None] < K) & (rn[None, :] < N), 0.0
            )
            total = tl.dot(x, y, total)
        at = c + rm[:, None] * stride_cm + rn[None, :] * stride_cn
        tl.store(at, total.to(c.dtype.element_ty), (rm[:, None] < M) & (rn[None, :] < N))


@tw.jit
def one_tile(a, b, c, M, N, K, stride_cm, stride_cn,
             BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    """The same, a program a tile."""
    columns = tl.cdiv(N, BN)
    rm = tl.program_id(0) // columns * BM + tl.arange(0, BM)
    rn = tl.program_id(0) % columns * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :], (rm[:, None] < M) & (rk[None, :] < K), 0.0)
        y = tl.load(b + rk[:, None] * N + rn[None, :], (rk[:, None] < K) & (rn[None, :] < N), 0.0)
        total = tl.dot(x, y, total)
    at = c + rm[:, None] * stride_cm + rn[None, :] * stride_cn
    tl.store(at, total.to(c.dtype.element_ty), (rm[:, None] < M) & (rn[None, :] < N))


@tw.jit
def shifted(a, b, c, first, WIDTH: tl.constexpr):
    """Products of 64 elements of lines of 96, from a pair of elements on; lines of `WIDTH` are stored."""
    i, r = tl.program_id(0), tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, 64, 32):
        rk = start + tl.arange(0, 32)
        yes = (start < 32) | (i == 0)
        x = tl.load(a + r[:, None] * 96 + first * 2 + rk)
        y = tl.load(b + rk[:, None] * 64 + r, mask=yes & (r < WIDTH), other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + (i * 64 + r[:, None]) * 64 + r, total.to(tl.float16), mask=(r < WIDTH)[None, :])
