"""Described products as C functions."""

import ctypes
import subprocess

import numpy as np
import pytest
from tests.runtime.test_export import address, build, called, needs_compiler

from tilewright import dtypes
from tilewright.generator import Contraction, Extra, MatmulConfig, Operand, Step
from tilewright.runtime.export.matmul import export_matmul

FP32 = dtypes.float32
FUSED = Contraction(
    Operand(FP32),
    Operand(FP32, "column"),
    Operand(FP32),
    epilogue=(Step("add", (Extra(FP32, "n"),)), Step("leaky_relu")),
    scaled=True,
)


def arrays(m, n, k):
    random = np.random.default_rng(0)
    a = random.standard_normal((m, k), dtype=np.float32)
    b = random.standard_normal((n, k), dtype=np.float32)
    x = random.standard_normal(n, dtype=np.float32)
    want = 0.5 * (a.astype(np.float64) @ b.T) + x
    return a, b, x, np.where(want >= 0, want, 0.1 * want), np.full((m, n), np.nan, np.float32)


KINDS = (*[ctypes.c_void_p] * 4, *[ctypes.c_int32] * 6, ctypes.c_float, ctypes.c_float, ctypes.c_int)  # fmt: skip


@pytest.mark.parametrize("size", [(1, 1, 1), (100, 45, 33), (256, 256, 512)])
@pytest.mark.parametrize("target", ["cpu", "cpu:x86-64"])
def test_a_fused_product_of_any_size(tmp_path, size, target):
    exported = export_matmul(
        FUSED, tmp_path, "fused", sizes=(256, 256, 256), aligned=False, target=target
    )
    fused = called(exported, *KINDS)
    m, n, k = size
    a, b, x, want, out = arrays(m, n, k)
    pointers = map(address, (a, b, out, x))
    assert fused(*pointers, m, n, k, k, k, n, 0.5, 0.1, 0) == 0
    np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_aligned_products_refuse_others(tmp_path):
    exported = export_matmul(FUSED, tmp_path, "fused", sizes=(256, 256, 256))
    assert "K, /* i32, a multiple of 16 */" in exported.header.read_text()
    fused = called(exported, *KINDS)
    assert fused(16, 16, 16, 16, 5, 48, 33, 32, 32, 48, 1.0, 1.0, 0) == 106
    assert fused(8, 16, 16, 16, 5, 48, 32, 32, 32, 48, 1.0, 1.0, 0) == 100


def test_batches_and_chosen_tiles(tmp_path):
    operand = Operand(FP32, batch=(True,))
    contraction = Contraction(operand, Operand(FP32, batch=(False,)), operand, batch_rank=1)
    config = MatmulConfig(32, 16, 32, split_k=4)
    exported = export_matmul(
        contraction, tmp_path, "batched", sizes=(64, 64, 64), config=config, aligned=False
    )
    assert "cdiv" not in exported.header.read_text()
    assert exported.prototype.endswith("int64_t batch0, int threads)")
    call = called(
        exported, *[ctypes.c_void_p] * 3, *[ctypes.c_int32] * 8, ctypes.c_int64, ctypes.c_int
    )
    random = np.random.default_rng(1)
    a = random.standard_normal((3, 40, 50), dtype=np.float32)
    b = random.standard_normal((50, 30), dtype=np.float32)
    out = np.full((3, 40, 30), np.nan, np.float32)
    names = exported.prototype.partition("(")[2].split(", ")
    strides = dict(M=40, N=30, K=50, a_m=50, a_b0=2000, b_k=30, out_m=30, out_b0=1200)
    integers = [strides[p.split()[-1]] for p in names if p.startswith("int32_t")]
    assert call(address(a), address(b), address(out), *integers, 3, 1) == 0
    np.testing.assert_allclose(out, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


PROGRAM = """
#include <math.h>
#include <stdio.h>
#include "fused.h"
int main(void) {
    enum { M = 70, N = 50, K = 90 };
    static float a[M * K], b[N * K], x[N], out[M * N];
    for (int i = 0; i < M * K; ++i) a[i] = (float)(i * 7 % 11 - 5);
    for (int i = 0; i < N * K; ++i) b[i] = (float)(i * 3 % 5 - 2);
    for (int i = 0; i < N; ++i) x[i] = (float)i;
    const int code = fused(a, b, out, x, M, N, K, K, K, N, 2.0f, 0.25f, 2);
    if (code != TILEWRIGHT_OK) return puts(fused_error(code)), 1;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            double sum = 0;
            for (int k = 0; k < K; ++k) sum += (double)a[i * K + k] * b[j * K + k];
            sum = 2 * sum + x[j];
            if (sum < 0) sum *= 0.25;
            if (fabs(sum - out[i * N + j]) > 1e-2) return printf("%d %d\\n", i, j), 2;
        }
    return 0;
}
"""


@needs_compiler
def test_a_c_program(tmp_path):
    export_matmul(FUSED, tmp_path, "fused", sizes=(64, 64, 64), aligned=False)
    (tmp_path / "main.c").write_text(PROGRAM)
    program = build(tmp_path, "main.c", "fused.o")
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_launcher_for_a_gpu(tmp_path, target):
    half = Operand(dtypes.float16)
    exported = export_matmul(
        Contraction(half, half, half), tmp_path, "product", sizes=(1024, 1024, 1024), target=target
    )
    text = exported.code.read_text()
    assert exported.code.suffix == ".c" and "CUstream stream" in exported.prototype
    assert ("encode(&maps[0]" in text) == (target == "sm_90a")
