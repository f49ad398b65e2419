"""Nine kernels × three dtypes × three grid forms, odd, prime and large shapes, tuned and not: 81 cases.

Callable grids go with autotuning (their sizes depend on the choice), tuples and lists without.
"""

import numpy as np
import pytest

pytestmark = pytest.mark.sampled(4, full=3)

DTYPES = ["float32", "float16", "bfloat16"]
FORMS = ["tuple", "list", "callable"]
EPS = {"float32": 2**-22, "float16": 2**-9, "bfloat16": 2**-6}
KERNELS = [
    "add", "add_loop", "matmul_blocked", "matmul_cuda", "matmul_rocm", "rope",
    "softmax_fuse", "softmax_tile", "softmax_online",
]  # fmt: skip


class Case:
    """One launch: kernel, positional arguments, constants, what autotuning varies, grid of meta."""

    def __init__(
        self, kernel, args, constants, choices, key, grid, result, expected, rtol, atol=0.0
    ):
        self.kernel, self.args, self.constants = kernel, args, constants
        self.choices, self.key, self.grid = choices, key, grid
        self.result, self.expected, self.rtol, self.atol = result, expected, rtol, atol

    def run(self, form):
        import triton

        if form == "callable":
            kernel, constants = self.kernel, self.constants
            if self.choices is not None:  # the tutorial's matmul brings its own list
                configs = [triton.Config(choice) for choice in self.choices]
                kernel = triton.autotune(configs, key=[self.key])(kernel)
            kernel[self.grid](*self.args, **constants)
            return
        kernel = self.kernel if self.choices is not None else self.kernel.fn
        choice = (self.choices or [MATMUL_BLOCKS])[0]
        grid = self.grid(choice)
        grid = list(grid) if form == "list" else grid
        kernel[grid](*self.args, **self.constants, **choice)


MATMUL_BLOCKS = {"BLOCK_SIZE_M": 32, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 3}


def cdiv(a, b):
    return -(-a // b)


def add(load, arrays, dtype, size, loop=False):
    seed = load("vector_add")
    x, y = arrays.normal(size, dtype), arrays.normal(size, dtype)
    out, per = np.zeros_like(x), (3,) if loop else ()
    wanted = (x.astype(np.float64) + y.astype(np.float64)).astype(x.dtype).astype(np.float64)
    kernel = seed.add_kernel_several_blocks if loop else seed.add_kernel
    return Case(
        kernel, (x, y, out, size, *per), {}, [{"BLOCK_SIZE": 1024}, {"BLOCK_SIZE": 128}],
        "n_elements", lambda meta: (cdiv(size, meta["BLOCK_SIZE"] * (3 if loop else 1)),),
        out, wanted, 0.0,
    )  # fmt: skip


def matmul_blocked(load, arrays, dtype, size):
    m, n, k = size
    a, b = arrays.normal((m, k), dtype), arrays.normal((k, n), dtype)
    c = np.zeros((m, n), np.float32)
    choices = [{"BLOCK_M": s, "BLOCK_N": 32, "BLOCK_K": 32} for s in (32, 64)]
    return Case(
        load("blocked_matmul").matmul_kernel, (a, b, c, m, n, k), {}, choices, "M",
        lambda meta: (cdiv(m, meta["BLOCK_M"]), cdiv(n, meta["BLOCK_N"])),
        c, a.astype(np.float64) @ b.astype(np.float64), 1e-5, 1e-5 * k,
    )  # fmt: skip


def matmul_tutorial(load, arrays, dtype, size, hip):
    m, n, k = size
    a = arrays.normal((m + 256, k + 256), dtype)[:m, :k]
    b = arrays.normal((k + 256, n + 256), dtype)[:k, :n]
    c = np.zeros((m, n), np.float16)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + 1
    return Case(
        load("tutorial_matmul", hip=hip).matmul_kernel,
        (a, b, c, m, n, k, k + 256, 1, n + 256, 1, n, 1), {"ACTIVATION": "leaky_relu"}, None, "M",
        lambda meta: (cdiv(m, meta["BLOCK_SIZE_M"]) * cdiv(n, meta["BLOCK_SIZE_N"]),),
        c, np.where(wanted >= 0, wanted, 0.01 * wanted), 2e-3, 2e-2,
    )  # fmt: skip


def rope(load, arrays, dtype, size):
    tokens, heads, dim = size
    q, half = arrays.normal((tokens, heads * dim), dtype), dim // 2
    angle = np.arange(tokens)[:, None] / 10 ** np.linspace(0, 4, half)
    cos, sin = np.cos(angle).astype(q.dtype), np.sin(angle).astype(q.dtype)
    x = q.astype(np.float64).reshape(tokens, heads, dim)
    c, s = (t.astype(np.float64)[:, None] for t in (cos, sin))
    first, second = x[..., :half], x[..., half:]
    wanted = np.concatenate([first * c - second * s, second * c + first * s], -1)
    block = 1 << (half - 1).bit_length()
    return Case(
        load("rope")._rope_embedding, (q, heads * dim, cos, half, sin, half, tokens),
        {"head_dim": dim, "n_heads": heads}, [{"BLOCK_SIZE": block}, {"BLOCK_SIZE": 2 * block}],
        "seqlen", lambda meta: (tokens, cdiv(heads, 4)),
        q, wanted.reshape(q.shape), 2 * EPS[dtype], 4 * EPS[dtype],
    )  # fmt: skip


def softmax(load, arrays, dtype, size, name):
    rows, columns = size
    if name == "fuse" and dtype != "float32":
        columns = 127  # it adds up in the input's type
    x = arrays.normal((rows, columns), dtype)
    y, e = np.zeros_like(x), np.exp(x.astype(np.float64))
    if name == "fuse":
        block = 1 << (columns - 1).bit_length()
        choices = [{"BLOCK_SIZE": block}, {"BLOCK_SIZE": 2 * block}]
    else:
        choices = [{"BLOCK_SIZE": 1024, "CACHE_OPT": opt} for opt in (True, False)]
    return Case(
        getattr(load("softmax"), f"kernel_softmax_{name}"), (x, columns, y, columns, columns), {},
        choices, "n_cols", lambda meta: (rows,), y, e / e.sum(axis=1, keepdims=True),
        (16 if name == "fuse" else 4) * EPS[dtype], 1e-7,
    )  # fmt: skip


def make(kernel, load, arrays, dtype, index):
    if kernel.startswith("add"):
        return add(load, arrays, dtype, [131071, 98432, 1][index], loop=kernel == "add_loop")
    if kernel == "matmul_blocked":
        return matmul_blocked(
            load, arrays, dtype, [(127, 61, 131), (64, 96, 32), (1, 17, 3)][index]
        )
    if kernel.startswith("matmul"):
        size = [(61, 127, 97), (64, 128, 64), (37, 1, 33)][index]
        return matmul_tutorial(
            load, arrays, dtype, size, "6.0" if kernel.endswith("rocm") else None
        )
    if kernel == "rope":
        return rope(load, arrays, dtype, [(31, 5, 34), (64, 32, 128), (1, 1, 2)][index])
    size = [(3, 4099), (2, 16384), (5, 1)][index]
    return softmax(load, arrays, dtype, size, kernel.removeprefix("softmax_"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_case(load, numpy_arrays, close, kernel, dtype, form):
    index = (KERNELS.index(kernel) + DTYPES.index(dtype) + FORMS.index(form)) % 3
    case = make(kernel, load, numpy_arrays, dtype, index)
    case.run(form)
    close(case.result, case.expected, case.rtol, case.atol)
