"""Networks of splits and joins executed as PTX: few exchanges, and the right elements."""

import re

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def hadamard(
    x_ptr,
    out_ptr,
    ROWS: tl.constexpr,
    N: tl.constexpr,
    LOG_N: tl.constexpr,
    NATIVE: tl.constexpr = False,
):
    """Sums and differences of elements whose indices differ in one bit, from the highest bit to the lowest."""
    at = tl.arange(0, ROWS)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    if not NATIVE:
        x = x.to(tl.float32)
    for stage in tl.static_range(LOG_N):
        stride: tl.constexpr = N >> (stage + 1)
        pairs = tl.trans(tl.reshape(x, (ROWS, N // (2 * stride), 2, stride)), (0, 1, 3, 2))
        a, b = tl.split(pairs)
        x = tl.reshape(tl.trans(tl.join(a + b, a - b), (0, 1, 3, 2)), (ROWS, N))
    tl.store(out_ptr + at, x.to(out_ptr.dtype.element_ty))


def transformed(x):
    for bit in reversed(range(x.shape[1].bit_length() - 1)):
        pairs = x.reshape(len(x), -1, 2, 1 << bit)
        a, b = pairs[:, :, 0], pairs[:, :, 1]
        x = np.stack([a + b, a - b], axis=2).reshape(len(x), -1)
    return x


@pytest.mark.parametrize(("rows", "n", "barriers"), [(1, 2048, 3), (2, 512, 3), (4, 64, 2)])
def test_stages_of_a_transform_exchange_several_bits_at_once(rows, n, barriers):
    constants = {"ROWS": rows, "N": n, "LOG_N": n.bit_length() - 1}
    types = {"x_ptr": "*bf16:16", "out_ptr": "*fp32:16"}
    kernel = hadamard.compile(types, constants, target="sm_90a", num_warps=4)
    chance = np.random.default_rng(2)
    x = chance.integers(-8, 8, (rows, n)).astype(ml_dtypes.bfloat16)
    _, out = run_ptx(kernel, [x, np.zeros((rows, n), np.float32)], (1,))
    np.testing.assert_array_equal(out, transformed(x.astype(np.float32)))
    text = kernel.asm["ptx"]
    assert text.count("bar.sync") + text.count("barrier.cta.sync") <= 2 * barriers


@pytest.mark.parametrize(
    ("rows", "n", "native", "exchanges"), [(1, 4096, False, 2), (2, 1024, True, 2)]
)
def test_the_first_stages_take_a_load_as_it_is_and_the_last_lead_to_the_store(
    rows, n, native, exchanges
):
    constants = {"ROWS": rows, "N": n, "LOG_N": n.bit_length() - 1, "NATIVE": native}
    types = {"x_ptr": "*bf16:16", "out_ptr": "*bf16:16"}
    kernel = hadamard.compile(types, constants, target="sm_90a", num_warps=4)
    chance = np.random.default_rng(3)
    x = (chance.integers(0, 64, (rows, n)) == 0).astype(ml_dtypes.bfloat16)  # sums are exact
    _, out = run_ptx(kernel, [x, np.zeros((rows, n), ml_dtypes.bfloat16)], (1,))
    np.testing.assert_array_equal(out.astype(np.float32), transformed(x.astype(np.float32)))
    tile_ir = kernel.asm["gpu"]
    assert tile_ir.count("gpu.convert_layout") == exchanges
    (load,) = re.findall(r"tile.load_view.*tensor<[^\n]*\"(.*)\">", tile_ir)
    assert load.startswith(f"{rows}x{n} r[0,1 ") and "l[0,2 0,4 0,8 0,16 0,32]" in load
    (store,) = re.findall(r"tile.store_view.*\"(\d+x\d+ r.*)\">", tile_ir)
    run = re.search(r"r\[(.*?)\] l\[0,(\d+) ", store)
    assert run and f"0,{run[2]}" not in run[1].split()  # lanes follow the run of 16 bytes or less
    assert int(run[2]) <= 8, store


def test_words_stay_together_through_stages_of_16_bit_floats():
    constants = {"ROWS": 2, "N": 1024, "LOG_N": 10, "NATIVE": True}
    types = {"x_ptr": "*bf16:16", "out_ptr": "*bf16:16"}
    text = hadamard.compile(types, constants, target="sm_90a", num_warps=4).asm["ptx"]
    packed = list(re.finditer(r"(add|sub|fma[.a-z]*)\.bf16x2", text))
    assert len(packed) == 10 * 8  # of each of 10 stages, 8 words
    first = text[: packed[3 * 8 - 1].end()]
    assert not re.search(
        r"prmt|mov\.b32 .*\{", first
    )  # three stages take the words that are loaded
    assert text.count("ld.shared.b16") <= 16 and text.count("ld.shared.b32") >= 8
