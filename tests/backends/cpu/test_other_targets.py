"""Kernels compile for machines that are not here: AArch64, and x86-64 without AVX."""

from platform import machine

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import TargetInfo
from tilewright.backends.cpu.target import current_target

TARGETS = {
    "aarch64": TargetInfo(
        name="cpu", triple="aarch64-unknown-linux-gnu", cpu="neoverse-n1", features=("neon",),
        vector_bits=128, vector_registers=32, cores=4,
    ),
    "x86-64": TargetInfo(
        name="cpu", triple="x86_64-unknown-linux-gnu", cpu="x86-64", features=("sse2",),
        vector_bits=128, vector_registers=16, cores=4,
    ),
    "avx512": TargetInfo(
        name="cpu", triple="x86_64-unknown-linux-gnu", cpu="skylake-avx512",
        features=("avx", "avx2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c"),
        vector_bits=512, vector_registers=32, cores=4,
    ),
}  # fmt: skip
#: ELF's number of the machine
MACHINES = {"aarch64": 183, "x86-64": 62, "avx512": 62}


@tw.jit
def softmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + i, e / tl.sum(e, 0), mask=i < n)


@tw.jit
def matmul(a_ptr, b_ptr, out_ptr, K, ACC: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), ACC)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + i * K + k + j)
        b = tl.load(b_ptr + (k + i) * BLOCK + j)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + i * BLOCK + j, acc)


@tw.jit
def gathers(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i, mask=i < n, other=0)
    tl.atomic_add(out_ptr + at, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def check(compiled, name):
    code = compiled.asm["object"]
    assert code[:4] == b"\x7fELF"
    assert int.from_bytes(code[18:20], "little") == MACHINES[name]
    assert len(compiled.asm["asm"]) > 500


@pytest.mark.parametrize("name", TARGETS)
def test_elementwise_and_reductions(name):
    target = TARGETS[name]
    for kind in ("fp32", "fp16", "bf16", "fp64"):
        check(
            softmax.compile(
                x_ptr=f"*{kind}:16", out_ptr=f"*{kind}", n="i32", BLOCK=1024, target=target
            ),
            name,
        )


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("kind", ["fp32", "fp16", "bf16", "fp64", "i8"])
def test_dot(name, kind):
    acc = {"fp64": tl.float64, "i8": tl.int32}.get(kind, tl.float32)
    compiled = matmul.compile(
        a_ptr=f"*{kind}:16", b_ptr=f"*{kind}:16", out_ptr=f"*{acc}:16", K="i32", ACC=acc,
        BLOCK=32, target=TARGETS[name],
    )  # fmt: skip
    check(compiled, name)


@pytest.mark.parametrize("name", TARGETS)
def test_gathers_and_atomics(name):
    compiled = gathers.compile(
        x_ptr="*fp32", index_ptr="*i64", out_ptr="*fp32", n="i32", BLOCK=256, target=TARGETS[name]
    )
    check(compiled, name)


@pytest.mark.skipif(machine() not in ("x86_64", "AMD64"), reason="features of x86-64")
@pytest.mark.parametrize("off", ["avx512f", "avx2", "avx", "sse4.1", "avx512bw", "fma", "amx-tile"])
def test_what_builds_on_a_feature_goes_with_it(off, monkeypatch):
    whole = current_target()
    monkeypatch.setenv("TILEWRIGHT_CPU_FEATURES_OFF", off)
    target = current_target()
    assert off not in target.features
    for base, needing in (("avx512f", "avx512vl"), ("avx2", "avx512f"), ("avx", "fma")):
        assert base in target.features or needing not in target.features
    assert target.vector_bits <= whole.vector_bits
    n = 100
    x, out = np.random.default_rng(0).standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
    softmax[(1,)](x, out, n, BLOCK=128)
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, exact / exact.sum(), rtol=1e-5)
