"""Lanes follow the dimension along which an address probably moves least; rows of masks are not moved in loops."""

import re

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def convolve(x_ptr, w_ptr, out_ptr, channels, width, pitch, weight_pitch, TAPS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """A convolution along rows: `x` is (channels, rows, width), read at every position and channel at once."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row, column = place // width, place % width
    out = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for tap in range(TAPS):
        channel = tl.arange(0, BLOCK)
        at = column + tap - TAPS // 2
        inside = (at >= 0) & (at < width)
        offsets = (row * width + at)[:, None] + (channel * pitch)[None, :]
        x = tl.load(x_ptr + offsets, mask=inside[:, None] & (channel < channels)[None, :], other=0)
        taken = (channel * TAPS + tap)[:, None] + (out * weight_pitch)[None, :]
        w = tl.load(w_ptr + taken, mask=(channel < channels)[:, None], other=0)
        total = tl.dot(x, w, total)
    tl.store(out_ptr + place[:, None] + (out * pitch)[None, :], total)


SIGNATURE = {
    "x_ptr": "*fp16:16", "w_ptr": "*fp16:16", "out_ptr": "*fp32:16", "channels": "i32", "width": "i32",
    "pitch": "i32:16", "weight_pitch": "i32:16",
}  # fmt: skip
CHANNELS, ROWS, WIDTH, TAPS, BLOCK = 30, 4, 24, 3, 32


def compiled(target):
    constants = {"TAPS": TAPS, "BLOCK": BLOCK}
    return convolve.compile(SIGNATURE, constants, target=target, num_warps=4)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_lanes_follow_positions(target):
    text = compiled(target).asm["gpu"]
    loads = re.findall(r"tile\.load_view %\S+ \[.*to tensor<32x32xf16, \"[^\"]* l\[([^]]*)\]", text)
    assert loads and all(lanes.split() == ["1,0", "2,0", "4,0", "8,0", "16,0"] for lanes in loads)
    body = text[text.index("scf.for") : text.index("scf.yield")]
    assert not re.search(r"gpu\.convert_layout .*tensor<32xi1", body)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_results(target):
    rng = np.random.default_rng(3)
    places = ROWS * WIDTH
    x = rng.standard_normal((CHANNELS, places)).astype(np.float16)
    w = rng.standard_normal((BLOCK, BLOCK * TAPS)).astype(np.float16)
    arrays = [x, w, np.zeros((BLOCK, places), np.float32)]
    found = run_ptx(compiled(target), [*arrays, CHANNELS, WIDTH, places, BLOCK * TAPS], (3,))[2]
    padded = np.pad(x.reshape(CHANNELS, ROWS, WIDTH).astype(np.float64), ((0, 0), (0, 0), (1, 1)))
    windows = np.stack(
        [padded[:, :, t : t + WIDTH] for t in range(TAPS)]
    )  # tap, channel, row, column
    weights = w.astype(np.float64).reshape(BLOCK, BLOCK, TAPS)[:, :CHANNELS]
    wanted = np.einsum("tcrx,oct->orx", windows, weights).reshape(BLOCK, places)
    np.testing.assert_allclose(found.reshape(BLOCK, places), wanted, atol=2e-3)
