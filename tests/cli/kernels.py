"""Kernels that the command's tests look at. Says `import triton`, as users' files do."""

import triton
import triton.language as tl

SLOPE = 0.5


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def half_below_zero(x):
    return tl.where(x > 0, x, x * SLOPE)


@triton.autotune(
    [triton.Config({"BLOCK": 64, "num": 3}), triton.Config({"BLOCK": 128, "num": 3})], key=["n"]
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(
    source,
    out,
    n,
    scale,
    wide: tl.int64,
    BLOCK: tl.constexpr,
    num: tl.constexpr,
    EVEN: tl.constexpr,
    ACTIVATION: tl.constexpr = None,
    FUNCTION: tl.constexpr = None,
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = source + offsets
    mask = offsets < n
    x = tl.load(at, mask=mask) if not EVEN else tl.load(at)
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    if FUNCTION is not None:
        x = FUNCTION(x)
    tl.store(out + offsets, x * scale + num + wide, mask=mask)


def undecorated(x_ptr, N: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, N), 1.0)


@triton.jit
def product_kernel(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for i in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (i + ks)[None, :])
        y = tl.load(b + (i + ks)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


@triton.autotune(
    [triton.Config({"BLOCK": 2048}, num_warps=8, num_stages=2), triton.Config({"BLOCK": 512})],
    ["n"],
)
@triton.jit
def increment_tuned(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + 1, mask=mask)
