"""Dots in loops as PTX text: gates loaded behind the loop, gathered operands of two dots, 8-bit floats in `mma.sync`."""

import re

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl

M, N, K, STEP = 64, 64, 160, 32


@tw.jit
def gated(a, b, gate, up, first, second, k, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, STEP):
        left = tl.load(a + rows[:, None] * k + (start + inner)[None, :])
        right = tl.load(b + (start + inner)[:, None] * N + columns[None, :])
        total = tl.dot(left, right, total)
    place = rows[:, None] * N + columns[None, :]
    g, u = tl.load(gate + place).to(tl.float32), tl.load(up + place).to(tl.float32)
    s = tl.sigmoid(g)
    tl.store(first + place, (total * (g * s)).to(tl.bfloat16))
    tl.store(second + place, (total * u * (s + g * s - g * s * s)).to(tl.bfloat16))


@tw.jit
def gathered(q, kv, chosen, out, n, H: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    heads, depth, lanes = tl.arange(0, H), tl.arange(0, D), tl.arange(0, BLOCK)
    query = tl.load(q + heads[:, None] * D + depth[None, :])
    total = tl.zeros((H, D), tl.float32)
    for start in range(0, n, BLOCK):
        row = tl.load(chosen + start + lanes, mask=start + lanes < n, other=-1)
        seen = row != -1
        keys = tl.load(kv + row[:, None] * D + depth[None, :], mask=seen[:, None], other=0.0)
        scores = tl.dot(query, tl.trans(keys))
        total += tl.dot(scores.to(tl.bfloat16), keys)
    tl.store(out + heads[:, None] * D + depth[None, :], total)


def bf16(random, *shape):
    return (random.standard_normal(shape) / 4).astype(ml_dtypes.bfloat16)


def compiled(kernel, pointers, constants, **options):
    scalar = "k" if "k" in kernel.arg_names else "n"
    types = {name: f"*{kind}:16" for name, kind in pointers.items()} | {scalar: "i32:16+"}
    return kernel.compile(types, constants, target="sm_90a", **options)


@pytest.mark.parametrize("stages", [2, 3])
def test_gates_are_converted_where_they_are_narrow(stages):
    random = np.random.default_rng(2)
    a, b, gate, up = (bf16(random, *shape) for shape in ((M, K), (K, N), (M, N), (M, N)))
    types = dict.fromkeys(("a", "b", "gate", "up", "first", "second"), "bf16")
    made = compiled(gated, types, {"M": M, "N": N, "STEP": STEP}, num_stages=stages)
    converted = re.findall(r"gpu.convert_layout .* to tensor<64x64x(\w+),", str(made.asm["gpu"]))
    assert converted and set(converted) == {"bf16"}
    empty = np.zeros((M, N), ml_dtypes.bfloat16)
    found = run_ptx(made.artifact, (a, b, gate, up, empty, empty.copy(), K), (1,))[4:]
    total, g, u = (x.astype(float) for x in (a.astype(float) @ b.astype(float), gate, up))
    s = 1 / (1 + np.exp(-g))
    wanted = total * g * s, total * u * (s + g * s - g * s * s)
    for result, value in zip(found, wanted, strict=True):
        np.testing.assert_allclose(result.astype(float), value, atol=2e-2, rtol=1e-2)


@pytest.mark.parametrize("warps", [4, 8])
def test_gathered_rows_are_copied_once_for_both_dots(warps):
    random, heads, depth, rows, n, block = np.random.default_rng(3), 16, 64, 48, 48, 32
    q, kv = bf16(random, heads, depth), bf16(random, rows, depth)
    chosen = random.integers(0, rows, n).astype(np.int32)
    chosen[::7] = -1
    types = {"q": "bf16", "kv": "bf16", "chosen": "i32", "out": "fp32"}
    constants = {"H": heads, "D": depth, "BLOCK": block}
    artifact = compiled(gathered, types, constants, num_warps=warps).artifact
    assert "cp.async" in artifact.asm["ptx"]
    empty = np.zeros((heads, depth), np.float32)
    (found,) = run_ptx(artifact, (q, kv, chosen, empty, n), (1,))[3:]
    keys = kv[chosen].astype(float) * (chosen != -1)[:, None]
    scores = (q.astype(float) @ keys.T).astype(ml_dtypes.bfloat16).astype(float)
    np.testing.assert_allclose(found, scores @ keys, atol=5e-3)


@tw.jit
def eighths(a, b, out, k, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, STEP)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, STEP):
        left = tl.load(a + rows[:, None] * k + (start + inner)[None, :])
        right = tl.load(b + columns[None, :] * k + (start + inner)[:, None])
        total = tl.dot(left, right, total)
    tl.store(out + rows[:, None] * N + columns[None, :], total)


@pytest.mark.parametrize("kinds", [("fp8e4nv", "fp8e4nv"), ("fp8e5", "fp8e4nv")])
@pytest.mark.parametrize("target", ["sm_90a", "sm_89"])
def test_8_bit_floats_in_warps(kinds, target):
    """Chips without `mma.sync` of 8-bit floats in hardware multiply them as fp16."""
    numpy = {"fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2}
    random, depth = np.random.default_rng(4), 128
    a = random.standard_normal((32, depth)).astype(numpy[kinds[0]])
    b = random.standard_normal((32, depth)).astype(numpy[kinds[1]])
    types = {"a": f"*{kinds[0]}:16", "b": f"*{kinds[1]}:16", "out": "*fp32:16", "k": "i32:16+"}
    constants = {"M": 32, "N": 32, "STEP": 64}
    artifact = eighths.compile(types, constants, target=target, num_warps=2).artifact
    native = "m16n8k32" in artifact.asm["ptx"]
    assert native == (target == "sm_89")
    (found,) = run_ptx(artifact, (a, b, np.zeros((32, 32), np.float32), depth), (1,))[2:]
    np.testing.assert_allclose(found, a.astype(float) @ b.astype(float).T, rtol=1e-5, atol=1e-4)


@tw.jit
def scored(q, keys, weights, out, k, H: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    heads, depth, lanes = tl.arange(0, H), tl.arange(0, D), tl.arange(0, BLOCK)
    query = tl.load(q + heads[:, None] * D + depth[None, :])
    weight = tl.load(weights + heads)
    for start in range(0, k, BLOCK):
        key = tl.load(keys + (start + lanes)[None, :] * D + depth[:, None])
        scores = tl.maximum(tl.dot(query, key), 0.0) * weight[:, None]
        tl.store(out + start + lanes, scores.trans().reshape(BLOCK, 1, H).sum(-1).reshape(BLOCK))


def test_reductions_of_results_stay_in_warps():
    random, heads, depth, count, block = np.random.default_rng(5), 32, 32, 128, 64
    q, keys = bf16(random, heads, depth), bf16(random, count, depth)
    weights = random.standard_normal(heads).astype(np.float32)
    types = {"q": "bf16", "keys": "bf16", "weights": "fp32", "out": "fp32"}
    made = compiled(scored, types, {"H": heads, "D": depth, "BLOCK": block})
    (reduced,) = re.findall(
        r"tile.reduce.*?\}\) : \(tensor<[^\"]*\"([^\"]*)\"", str(made.asm["gpu"]), re.DOTALL
    )
    assert all(vector.endswith(",0") for vector in reduced.split("w[")[1].rstrip("]").split())
    (found,) = run_ptx(made.artifact, (q, keys, weights, np.zeros(count, np.float32), count), (1,))[
        3:
    ]
    wanted = weights @ np.maximum(q.astype(float) @ keys.astype(float).T, 0)
    np.testing.assert_allclose(found, wanted, atol=1e-4)
