"""Triton's tutorials 02–09 as cases of `third_party_speed.py`, at sizes that fill a GPU.

Their files are the user's: a folder named by `THIRD_PARTY_TUTORIALS` (`--tutorials`), each file found by its number.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import torch

from third_party_speed_case import routine

case = routine("tutorials")
GROUPS = (4096, 4096, 4096), (2048, 4096, 2048), (1024, 1024, 4096), (512, 8192, 1024)
"""Rows, columns and depth of a grouped product."""


def tutorial(number):
    """A tutorial's module."""
    name = f"tutorial_{number}"
    if name not in sys.modules:
        folder = Path(os.environ.get("THIRD_PARTY_TUTORIALS", "tutorials"))
        found = sorted(folder.glob(f"*{number}[-_]*.py"))
        if not found:
            raise FileNotFoundError(f"there is no tutorial {number} in {folder}")
        spec = importlib.util.spec_from_file_location(name, found[0])
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def half(m, *shape):
    return m.normal(*shape, dtype=torch.float16)


def fp8(value):
    return value.to(torch.float8_e5m2)


def matrices(m, size=4096, depth=4096):
    return half(m, size, depth), half(m, depth, size)


@case
def vector_add(m):
    size = m.sized(1000, 1 << 26)
    tutorial("01").add(m.wide(size), m.wide(size))


def _softmax(m, columns):
    tutorial("02").softmax(m.wide(m.sized(40, 8192), m.sized(100, columns)))


@case
def softmax(m):
    _softmax(m, 4096)


@case
def softmax_wide(m):
    _softmax(m, 12672)


@case
def matmul(m):
    tutorial("03").matmul(*matrices(m, m.sized(64, 4096), m.sized(64, 4096)))


@case
def matmul_odd(m):
    rows, columns, depth = (m.sized(50, n) for n in (3000, 4104, 2056))
    tutorial("03").matmul(half(m, rows, depth), half(m, depth, columns), activation="leaky_relu")


@case
def matmul_fp8(m):
    size = m.sized(64, 4096)
    a, b = half(m, size, size), half(m, size, size).T
    tutorial("03").matmul(fp8(a), fp8(b))


@case
def dropout(m):
    x = m.wide(m.sized(1000, 1 << 26))
    tutorial("04").dropout(x, (m.uniform(*x.shape) > 0.5).to(torch.int32), 0.5)
    tutorial("04").seeded_dropout(x, 0.5, 123)


@case
def layer_norm(m):
    rows, columns = m.sized(20, 4096), m.sized(100, 8192)
    x, w, b = (half(m, *shape).requires_grad_() for shape in ((rows, columns), (columns,), (columns,)))  # fmt: skip
    y = tutorial("05").layer_norm(x, (columns,), w, b, 1e-5)
    y.backward(0.1 * torch.randn_like(y))


def _attention(m, depth, causal, length=4096, narrow=False, specialized=False):
    heads, length = m.sized(1, 32 * 4096 // length), m.sized(128, length)
    shape = m.sized(1, 4), heads, length, depth
    q, k, v = (half(m, *shape).mul_(0.5) for _ in range(3))
    if narrow:
        v = fp8(v.permute(0, 1, 3, 2).contiguous()).permute(0, 1, 3, 2)
        tutorial("06").attention(fp8(q), fp8(k), v, causal, 0.5, specialized)
        return
    inputs = [x.requires_grad_() for x in (q, k, v)]
    o = tutorial("06").attention(*inputs, causal, 0.5, specialized)
    o.backward(torch.randn_like(o))


@case
def attention_64(m):
    _attention(m, 64, False)


@case
def attention_64_causal(m):
    _attention(m, 64, True)


@case
def attention_128(m):
    _attention(m, 128, False)


@case
def attention_128_causal(m):
    _attention(m, 128, True)


@case
def attention_64_long_causal(m):
    _attention(m, 64, True, 16384)


@case
def attention_128_long(m):
    _attention(m, 128, False, 16384)


@case
def attention_fp8(m):
    _attention(m, 128, False, narrow=True)


@case
def attention_fp8_64_causal(m):
    _attention(m, 64, True, narrow=True)


@case
def attention_fp8_causal(m):
    _attention(m, 128, True, narrow=True)


@case
def attention_specialized(m):
    _attention(m, 128, False, specialized=True)


@case
def asin(m):
    module, size = tutorial("07"), m.sized(1000, 1 << 26)
    x = m.uniform(size, dtype=torch.float32)
    module.asin_kernel[((size + 1023) // 1024,)](x, torch.empty_like(x), size, BLOCK_SIZE=1024)


def _groups(m):
    return [tuple(m.sized(128, n) for n in group) for group in GROUPS]


@case
def grouped_gemm(m):
    groups = _groups(m)
    a, b = ([half(m, x, k) for x, _, k in groups], [half(m, k, y) for _, y, k in groups])
    tutorial("08").group_gemm_fn(a, b)


@case
def grouped_gemm_tma(m):
    groups = _groups(m)
    a, b = ([half(m, x, k) for x, _, k in groups], [half(m, y, k) for _, y, k in groups])
    tutorial("08").group_gemm_tma_fn(a, b)


def _persistent(m, name, *options, turned=False, narrow=False):
    size, depth = m.sized(128, 8192), m.sized(128, 2048)
    a, b = half(m, size, depth), half(m, size, depth)
    a, b = (fp8(a), fp8(b)) if narrow else (a, b)
    getattr(tutorial("09"), name)(a, b.T if turned else b, *options)


@case
def matmul_naive(m):
    _persistent(m, "matmul", turned=True)


@case
def matmul_persistent(m):
    _persistent(m, "matmul_persistent", turned=True)


@case
def matmul_tma(m):
    _persistent(m, "matmul_tma", False)


@case
def matmul_tma_persistent(m):
    _persistent(m, "matmul_tma_persistent", False)


@case
def matmul_tma_persistent_fp8(m):
    _persistent(m, "matmul_tma_persistent", False, narrow=True)


@case
def matmul_descriptor_persistent(m):
    _persistent(m, "matmul_descriptor_persistent", False)


@case
def matmul_descriptor_persistent_specialized(m):
    _persistent(m, "matmul_descriptor_persistent", True)
