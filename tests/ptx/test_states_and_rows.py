"""Kernels of linear attention in small: states that products update, forward substitution, and rows one by one."""

import random
import re

import numpy as np
import pytest
from tests.passes.test_attention import prepared
from tests.ptx.launch import run_ptx

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr, pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline

HALF, SINGLE = dtypes.float16, dtypes.float32


def built(function, types, fixed, aligned):
    types = types | {name: constexpr(value) for name, value in fixed.items()}
    return build(KernelFunction(function), types, dict.fromkeys(aligned, 16)).module


def compiled(function, types, fixed, warps, aligned):
    module = built(function, types, fixed, aligned)
    return backend.compile(module, Options(num_warps=warps), target_info("sm_90a"))


def lowered(function, types, fixed, warps, aligned):
    """The text of the last level."""
    module = prepared(built(function, types, fixed, aligned), warps, 3)
    run_pipeline(module, nvidia_passes(), target_info("sm_90a"))
    return str(module)


def state(q, k, g, out, last, n, C: tl.constexpr, D: tl.constexpr):
    """A state that decays and grows by tf32 products of gated queries, and is stored in every iteration."""
    r, c, d = tl.arange(0, C), tl.arange(0, D), tl.arange(0, D)
    b_h = tl.zeros([D, D], dtype=tl.float32)
    for i in range(n):
        tl.store(out + i * D * D + d[:, None] * D + c[None, :], b_h.to(out.dtype.element_ty))
        b_g = tl.load(g + i * C + r)
        b_q = tl.load(q + d[:, None] + (i * C + r)[None, :] * D)
        b_k = tl.load(k + (i * C + r)[:, None] * D + c[None, :])
        b_q = b_q.to(tl.float32) * b_g[None, :]
        new = tl.dot(b_q, b_k.to(tl.float32), input_precision="tf32")
        b_h = b_h * 0.5 + (new * 0.25 - tl.dot(tl.trans(b_k), b_k))
    tl.store(last + d[:, None] * D + c[None, :], b_h)


@pytest.mark.parametrize(("warps", "c", "d"), [(1, 16, 16), (2, 32, 16), (2, 16, 32), (4, 32, 64)])
def test_states(warps, c, d):
    n, rng = 3, np.random.default_rng(d)
    q, k = (rng.normal(size=(n * c, d)).astype(np.float16) / 4 for _ in range(2))
    g = rng.random(n * c).astype(np.float32)
    types = {"q": pointer_type(HALF), "k": pointer_type(HALF), "g": pointer_type(SINGLE)}
    types |= {"out": pointer_type(HALF), "last": pointer_type(SINGLE), "n": dtypes.int32}
    artifact = compiled(state, types, {"C": c, "D": d}, warps, ("q", "k", "g", "out", "last"))
    arguments = [q, k, g, np.zeros((n, d, d), np.float16), np.zeros((d, d), np.float32), n]
    found = run_ptx(artifact, arguments, (1, 1, 1), random.Random(warps))
    h, states = np.zeros((d, d)), []
    for x, y, z in zip(np.split(q, n), np.split(k, n), np.split(g, n), strict=True):
        states.append(h)
        x, y = x.astype(np.float64), y.astype(np.float64)
        h = h * 0.5 + (x * z[:, None]).T @ y * 0.25 - y.T @ y
    np.testing.assert_allclose(found[3], np.array(states), atol=4e-3 * np.abs(h).max())
    np.testing.assert_allclose(found[4], h, atol=2e-3 * np.abs(h).max())


def test_states_stay_with_their_products():
    """The state never changes its layout but to be stored, and gated queries are computed where products take them."""
    types = {"q": pointer_type(HALF), "k": pointer_type(HALF), "g": pointer_type(SINGLE)}
    types |= {"out": pointer_type(HALF), "last": pointer_type(SINGLE), "n": dtypes.int32}
    text = lowered(state, types, {"C": 32, "D": 32}, 2, ("q", "k", "g", "out", "last"))
    moved = re.findall(r"gpu.convert_layout .* : tensor<32x32x(\w+),", text)
    assert moved.count("f32") <= 1, moved  # behind the loop, for the last store
    assert "m16n8k8.tf32.pairs" in text


def substitution(a, out, n, C: tl.constexpr):
    """The inverse of 1 + a strictly lower triangle, row by row."""
    r = tl.arange(0, C)
    x = tl.load(a + r[:, None] * C + r[None, :])
    x = -tl.where(r[:, None] > r[None, :], x, 0.0)
    for i in range(2, n):
        row = -tl.load(a + i * C + r)
        row = tl.where(r < i, row, 0.0)
        row += tl.sum(row[:, None] * x, 0)
        x = tl.where((r == i)[:, None], row[None, :], x)
    x += (r[:, None] == r[None, :]).to(tl.float32)
    tl.store(out + r[:, None] * C + r[None, :], x)


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_forward_substitution(warps):
    c, rng = 16, np.random.default_rng(warps)
    a = np.tril(rng.normal(size=(c, c)) / 4, -1).astype(np.float32)
    types = {"a": pointer_type(SINGLE), "out": pointer_type(SINGLE), "n": dtypes.int32}
    artifact = compiled(substitution, types, {"C": c}, warps, ("a", "out"))
    for n in (c, 2, 3):
        found = run_ptx(
            artifact, [a, np.zeros((c, c), np.float32), n], (1, 1, 1), random.Random(n)
        )[1]
        expected = np.linalg.inv(np.eye(c) + a[:, :])
        np.testing.assert_allclose(found[:n], expected[:n], atol=1e-5)
    text = lowered(substitution, types, {"C": c}, warps, ("a", "out"))
    loop = text.partition("scf.for")[2].partition("scf.yield")[0]
    assert loop.index("tile.load_view") < loop.index("tile.reduce")
    assert re.search(r"tile.load_view .* limits\(", loop)  # of the next iteration, if there is one


def columns(q, k, z, out, n, C: tl.constexpr, D: tl.constexpr):
    """Scores of all queries with one key after another: a column in every iteration."""
    r, d = tl.arange(0, C), tl.arange(0, D)
    b_q = tl.load(q + r[:, None] * D + d[None, :])
    b_z = tl.load(z + r[:, None] * D + d[None, :])
    for j in range(0, C):
        b_k = tl.load(k + j * D + d, mask=j * D + d < n * D, other=0.0).to(tl.float32)
        s = tl.sum(b_q * tl.exp(b_k[None, :] - b_z), 1)
        tl.store(out + r * C + j, tl.where(r >= j, s, 0.0))


@pytest.mark.parametrize(("warps", "c", "d"), [(1, 16, 64), (2, 16, 64), (4, 16, 32), (2, 32, 128)])
def test_columns(warps, c, d):
    rng = np.random.default_rng(c + d)
    q, k = (rng.normal(size=(c, d)).astype(np.float16) for _ in range(2))
    z = rng.normal(size=(c, d)).astype(np.float32)
    types = {"q": pointer_type(HALF), "k": pointer_type(HALF), "z": pointer_type(SINGLE)}
    types |= {"out": pointer_type(SINGLE), "n": dtypes.int32}
    artifact = compiled(columns, types, {"C": c, "D": d}, warps, ("q", "k", "z", "out"))
    arguments = [q, k, z, np.zeros((c, c), np.float32), c]
    found = run_ptx(artifact, arguments, (1, 1, 1), random.Random(c))[3]
    x, y = q.astype(np.float64), k.astype(np.float64)
    expected = np.tril((x[:, None] * np.exp(y[None] - z[:, None])).sum(-1))
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())
    text = lowered(columns, types, {"C": c, "D": d}, warps, ("q", "k", "z", "out"))
    loop = text.partition("scf.for")[2]
    assert "gpu.convert_layout" not in loop  # but before the loop
    assert "gpu.barrier" not in loop


def stored_states(
    k, v, first, states, out, n, K: tl.constexpr, V: tl.constexpr, LAST: tl.constexpr
):
    """A delta rule without products: a state is reduced along its keys, updated, and stored in every iteration."""
    i, j = tl.arange(0, K), tl.arange(0, V)
    at = i[:, None] * V + j[None, :] if LAST else i[:, None] + j[None, :] * K
    h = tl.load(first + at)
    for t in range(n):
        b_k, b_v = tl.load(k + t * K + i).to(tl.float32), tl.load(v + t * V + j).to(tl.float32)
        b_v -= tl.sum(h * b_k[:, None], 0)
        h = h * 0.5 + b_k[:, None] * b_v[None, :]
        tl.store(out + t * V + j, tl.sum(h, 0))
        tl.store(states + t * K * V + at, h)


STORED = ("k", "v", "first", "states", "out")


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(("warps", "keys", "values"), [(1, 64, 32), (1, 32, 128), (2, 64, 16)])
def test_states_are_stored_by_rows_of_lanes(warps, keys, values, last):
    """Lanes store whole rows of the state from the layout in which they reduce it, and load the first one so."""
    types = {name: pointer_type(SINGLE) for name in STORED} | {"n": dtypes.int32}
    types |= {"k": pointer_type(HALF), "v": pointer_type(HALF)}
    fixed = {"K": keys, "V": values, "LAST": last}
    text = lowered(stored_states, types, fixed, warps, STORED)
    shape = f"{keys}x{values}"
    assert not re.findall(rf"gpu.convert_layout .* : tensor<{shape}x", text)
    store = next(line for line in text.splitlines() if "store_view" in line and shape in line)
    lanes = re.search(r" l\[([^\]]*)\]", store)
    assert lanes is not None and lanes[1].startswith("0,4 0,8" if last else "4,0 8,0"), store

    n, rng = 3, np.random.default_rng(keys)
    k, v = (rng.normal(size=(n, d)).astype(np.float16) / 4 for d in (keys, values))
    h = rng.normal(size=(keys, values)).astype(np.float32)
    first = h if last else np.ascontiguousarray(h.T)
    empty = np.zeros((n, *first.shape), np.float32), np.zeros((n, values), np.float32)
    artifact = compiled(stored_states, types, fixed, warps, STORED)
    found = run_ptx(artifact, [k, v, first, *empty, n], (1, 1, 1), random.Random(warps))
    for t in range(n):
        x, y = k[t].astype(np.float64), v[t].astype(np.float64)
        h = h * 0.5 + x[:, None] * (y - x @ h)
        np.testing.assert_allclose(found[3][t], h if last else h.T, atol=1e-4)
        np.testing.assert_allclose(found[4][t], h.sum(0), atol=1e-4)
