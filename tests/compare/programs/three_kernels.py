"""Three kernels: a helper and a global, an autotuner over heuristics, a matmul."""

import sys

import torch
import triton
import triton.language as tl

SCALE = tl.constexpr(2.0)


@triton.jit
def helper(x):
    return tl.maximum(x, 0) * SCALE


@triton.jit
def relu2(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + o, mask=o < n)
    tl.store(y_ptr + o, helper(x), mask=o < n)


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((256, 4), (512, 8))], key=["n"]
)
@triton.heuristics({"EVEN": lambda a: a["n"] % a["BLOCK"] == 0})
@triton.jit
def softmax(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr, EVEN: tl.constexpr, NB: tl.constexpr):
    row = tl.program_id(0)
    m = -float("inf")
    for i in range(0, NB):
        o = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + o, mask=o < n, other=-float("inf"))
        m = tl.maximum(m, tl.max(x, 0))
    for i in range(0, NB):
        o = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + o, mask=o < n, other=-float("inf"))
        tl.store(y_ptr + row * stride + o, tl.exp(x.to(tl.float32) - m), mask=o < n)


@triton.jit
def mm(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    DT: tl.constexpr,
    NK: tl.constexpr,
):
    m = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    n = (tl.program_id(1) * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(NK):
        a = tl.load(a_ptr + m[:, None] * sam + (k + i * BK)[None, :] * sak)
        b = tl.load(b_ptr + (k + i * BK)[:, None] * sbk + n[None, :] * sbn)
        acc += tl.dot(a, b)
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc.to(DT))


dev = "cuda"
x = torch.randn(1000, device=dev)
y = torch.empty_like(x)
relu2[(triton.cdiv(1000, 256),)](x, y, 1000, BLOCK=256)
relu2[lambda meta: (triton.cdiv(500, meta["BLOCK"]),)](x, y, 500, BLOCK=256)
x = torch.randn(8, 600, device=dev, dtype=torch.bfloat16)
y = torch.empty_like(x)
softmax[(8,)](x, y, 600, x.stride(0), NB=3)
a = torch.randn(128, 64, device=dev, dtype=torch.float16)
b = torch.randn(64, 128, device=dev, dtype=torch.float16)
c = torch.empty(128, 128, device=dev, dtype=torch.float16)
mm[(2, 2)](
    a, b, c, 128, 128, 64, *a.stride(), *b.stride(), BM=64, BN=64, BK=32, DT=tl.float16, NK=2
)
print("done", sys.argv)
