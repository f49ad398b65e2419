"""Kernels for `fake/triton`, one per outcome; `reference` is what Triton is taken to compute."""

import os
import sys

import torch
import triton
import triton.language as tl
from triton.compiler.compiler import CompiledKernel

FACTOR: tl.constexpr = tl.constexpr(2)


@triton.jit
def doubled(x):
    return x * FACTOR


@triton.jit
def agrees(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, doubled(tl.load(x_ptr + offs, mask=offs < n)), mask=offs < n)


@triton.autotune([triton.Config({"BLOCK": 64}, 8), triton.Config({"BLOCK": 32}, 2)], key=["n"])
@triton.jit
def tuned(x_ptr, y_ptr, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n).to(KIND), mask=offs < n)


@triton.jit
def compiled(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 3.0)


@triton.jit
def differs(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


@triton.jit
def unstable(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


@triton.jit
def refused(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.no_such_function(1.0))


@triton.jit
def unlucky(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


@triton.jit
def fatal(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


runs = {"unstable": 0, "unlucky": 0, "fatal": 0}


def count(name):
    runs[name] += 1
    return runs[name]


def fail_in_replay(x, BLOCK):
    if count("unlucky") > 1:
        raise ValueError("no replay")


def die_in_replay(x, BLOCK):
    if count("fatal") > 1:
        os._exit(7)


agrees.reference = lambda x, y, n, BLOCK: y[:n].copy_(2 * x[:n])
tuned.fn.reference = lambda x, y, n, BLOCK, KIND, num_warps: y.copy_(x)
compiled.reference = lambda x, BLOCK, **_: x.fill_(3.0)
differs.reference = lambda x, BLOCK: x.fill_(2.0)
unstable.reference = lambda x, BLOCK: x.fill_(1.0 + 0.5 * count("unstable"))
refused.reference = lambda x, BLOCK: x.fill_(1.0)
unlucky.reference, fatal.reference = fail_in_replay, die_in_replay

x, y = torch.randn(100, device="cuda"), torch.full((100,), float("nan"), device="cuda")
x[3] = float("nan")
assert x.is_cuda
agrees[(4,)](x, y, 100, BLOCK=32)
agrees[lambda meta: (triton.cdiv(90, meta["BLOCK"]),)](x[:50], y, 40, BLOCK=32)
half = torch.empty(100, device="cuda", dtype=torch.float16)
tuned[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, half, 100, KIND=tl.float16)
CompiledKernel(compiled)[(1, 1, 1)](torch.empty(64, device="cuda"), 64)
for kernel in (fatal, differs, unstable, refused, unlucky):
    kernel[(1,)](torch.zeros(64, device="cuda"), BLOCK=64)
if "fail" in sys.argv:
    raise RuntimeError("the program's own error")
