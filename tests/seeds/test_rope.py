"""Rotary embedding in place, with a loop range that depends on the program."""

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(4, full=3)

EPS = {"float64": 2**-50, "float32": 2**-21, "float16": 2**-9, "bfloat16": 2**-6}


def tables(positions, half, dtype, first=0):
    angle = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(half) / half) + first
    return np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)


def reference(q, cos, sin, heads, dim, seqlen):
    """q * cos + rotate_half(q) * sin in float64; q is (tokens, heads * dim)."""
    tokens, half = q.shape[0], dim // 2
    x = q.astype(np.float64).reshape(tokens, heads, dim)
    position = np.arange(tokens) % seqlen
    c = cos.astype(np.float64)[position, None, :half]
    s = sin.astype(np.float64)[position, None, :half]
    first, second = x[..., :half], x[..., half:]
    turned = np.concatenate([first * c - second * s, second * c + first * s], axis=-1)
    return turned.reshape(tokens, heads * dim)


def launch(kernel, grid, arrays, strides, q, cos, sin, seqlen, dim, heads):
    kernel[grid](
        arrays.give(q), strides(q)[0], arrays.give(cos), strides(cos)[0], arrays.give(sin),
        strides(sin)[0], seqlen, head_dim=dim, n_heads=heads,
        BLOCK_SIZE=max(1, 1 << (dim // 2 - 1).bit_length()),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", list(EPS))
@pytest.mark.parametrize(
    ("tokens", "seqlen", "heads", "dim"),
    [(1, 1, 1, 2), (7, 7, 5, 64), (26, 13, 4, 96), (31, 31, 3, 34), (64, 32, 32, 128)],
)
def test_rope(load, arrays, strides, close, dtype, tokens, seqlen, heads, dim):
    seed = load("rope")
    q = arrays.normal((tokens, heads * dim), dtype)
    cos, sin = tables(seqlen, dim // 2, q.dtype)
    wanted = reference(q, cos, sin, heads, dim, seqlen)
    grid = seed.rope_grid(tokens, heads)
    launch(seed._rope_embedding, grid, arrays, strides, q, cos, sin, seqlen, dim, heads)
    close(q, wanted, 2 * EPS[dtype], atol=4 * EPS[dtype])


@pytest.mark.parametrize("form", ["tuple", "list", "callable"])
def test_strides_mixed_types_and_grid_forms(load, numpy_arrays, strides, close, grid_form, form):
    """fp16 data turned with fp32 tables; rows and tables are views of wider ones."""
    seed, arrays = load("rope"), numpy_arrays
    base = arrays.normal((11, 400), "float16")
    q = base[:, 8 : 8 + 6 * 64]
    kept = base.copy()
    wide_cos, wide_sin = (np.repeat(t, 2, axis=1) for t in tables(11, 32, np.float32))
    wanted = reference(q, wide_cos, wide_sin, 6, 64, 11)
    grid = grid_form(form, 11, 2)
    launch(seed._rope_embedding, grid, arrays, strides, q, wide_cos, wide_sin, 11, 64, 6)
    close(q, wanted, 2e-3, atol=2e-3)
    np.testing.assert_array_equal(base[:, :8], kept[:, :8])
    np.testing.assert_array_equal(base[:, 392:], kept[:, 392:])


def test_autotuning_turns_once(load, numpy_arrays, strides, close):
    import triton

    seed, arrays = load("rope"), numpy_arrays
    configs = [triton.Config({"BLOCK_SIZE": b}) for b in (32, 64)]
    kernel = triton.autotune(configs, key=["seqlen"])(seed._rope_embedding)
    q = arrays.normal((9, 4 * 64), "float32")
    cos, sin = tables(9, 32, np.float32)
    wanted = reference(q, cos, sin, 4, 64, 9)
    kernel[(9, 1)](q, 256, cos, 32, sin, 32, 9, head_dim=64, n_heads=4)
    close(q, wanted, 1e-5, atol=1e-5)


def test_as_python(load, numpy_arrays, strides, close, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    seed, arrays = load("rope"), numpy_arrays
    for dtype in ("float32", "bfloat16"):
        q = arrays.normal((4, 5 * 16), dtype)
        cos, sin = tables(2, 8, q.dtype)
        wanted = reference(q, cos, sin, 5, 16, 2)
        launch(seed._rope_embedding, [4, 2], arrays, strides, q, cos, sin, 2, 16, 5)
        close(q, wanted, 2 * EPS[dtype], atol=4 * EPS[dtype])
