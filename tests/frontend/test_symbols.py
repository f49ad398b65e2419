"""Kernels whose names mean something else in machine code, or cannot be written there."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.frontend.module import symbol_of


@tw.jit
def größe(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr + tl.arange(0, N), tl.sin(x) + tl.exp(x))


@tw.jit
def sinf(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr + tl.arange(0, N), tl.sin(x) + tl.exp(x))


@tw.jit
def __nv_sinf(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr + tl.arange(0, N), tl.sin(x) + tl.exp(x))


@tw.jit
def vprintf(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.device_print("x", x)
    tl.store(x_ptr + tl.arange(0, N), tl.sin(x) + tl.exp(x))


@tw.jit
def WARP_SZ(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(x_ptr + tl.arange(0, N), tl.sin(x) + tl.exp(x))


@pytest.mark.parametrize("kernel", [größe, sinf, __nv_sinf, vprintf, WARP_SZ])
def test_kernels_by_any_name(kernel):
    x = np.linspace(0, 1, 16, dtype=np.float32)
    wanted = np.sin(x) + np.exp(x)
    kernel[(1,)](x, N=16)
    np.testing.assert_allclose(x, wanted, rtol=1e-6)
    compiled = kernel.compile({"x_ptr": "*fp32"}, {"N": 16}, target="sm_80")
    assert f".visible .entry {symbol_of(kernel.__name__)}(" in compiled.asm["ptx"]


def test_symbols_differ_from_names_only_where_they_must():
    for name in ("add", "softmax_kernel", "_private", "exporter", "f64", "ret"):
        assert symbol_of(name) == name
    assert symbol_of("größe") == "gr_uf6_udfe"
    assert symbol_of("核") == "_u6838"
    assert symbol_of("expf") == "kernel_expf"
