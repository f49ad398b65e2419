"""Two kernels for `fake/triton` (`reference` is what Triton is taken to compute), and for tilewright."""

import os

import torch
import triton
import triton.language as tl


@triton.autotune(
    [triton.Config({"BLOCK": 64}, num_warps=8), triton.Config({"BLOCK": 48}, num_warps=2)],
    key=["n"],
)
@triton.jit
def tuned(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, 64) % BLOCK
    tl.static_assert(BLOCK == 64)
    tl.store(x_ptr + offs, 1.0, mask=offs < n)


@triton.jit
def fatal(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def die_in_replay(x, **_):
    if x.shape == (65,):
        runs.append(x)
    if len(runs) > 1:
        os._exit(7)


runs = []
tuned.fn.reference = lambda x, n, **_: x[:n].fill_(1.0)
fatal.reference = die_in_replay
fatal[(1,)](torch.empty(65, device="cuda"), BLOCK=64)
tuned[(1,)](torch.empty(64, device="cuda"), 64)
