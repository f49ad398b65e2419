"""Rounding to 8-bit floats by the hardware's instruction: to nearest as in `ml_dtypes`, but saturating."""

import ml_dtypes
import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.rounding import rounded

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

KINDS = {
    "e5m2": (dtypes.float8e5, ml_dtypes.float8_e5m2),
    "e4m3": (dtypes.float8e4nv, ml_dtypes.float8_e4m3fn),
}


def narrowed(x, out):
    at = tl.arange(0, 512)
    tl.store(out + at, tl.load(x + at).to(out.dtype.element_ty))


def numbers():
    """All neighbourhoods of what rounds, what is too large, infinities and NaN."""
    edges = np.array(
        [0.0, 2.0**-17, 2.0**-16, 2.0**-10, 1.0, 448, 464, 465, 480, 57344, 61440, 65504, 1e30]
    )
    near = [np.nextafter(edges, edges * k).astype(np.float32) for k in (0, 2)]
    some = np.concatenate([edges, *near, [np.inf, np.nan]]).astype(np.float32)
    rng = np.random.default_rng(0)
    rest = rng.standard_normal(512 - 2 * len(some)) * 2.0 ** rng.integers(
        -18, 17, 512 - 2 * len(some)
    )
    return np.concatenate([some, -some, rest]).astype(np.float32)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
def test_results(name, source):
    kind, made = KINDS[name]
    wide = {"f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16}[source]
    element = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[source]
    types = {"x": pointer_type(wide), "out": pointer_type(kind)}
    module = build(KernelFunction(narrowed), types, dict.fromkeys(types, 16)).module
    artifact = backend.compile(module, Options(num_warps=4), target_info("sm_90a"))
    form = "f16x2" if source == "f16" else "f32"
    assert f"cvt.rn.satfinite.{name}x2.{form}" in artifact.asm["ptx"]
    x = rounded(numbers(), element)
    wanted = rounded(x, made)
    found = np.asarray(run_ptx(artifact, [x, np.zeros(512, made)], (1, 1, 1))[1])
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~number)
    np.testing.assert_array_equal(found[number].view(np.uint8), wanted[number].view(np.uint8))


def test_bytes_beside_undefined_ones():
    """Integers below 256 leave a half of a word undefined, which the other two overwrite."""
    types = {"x": pointer_type(dtypes.uint8), "out": pointer_type(dtypes.float8e5)}
    module = build(KernelFunction(narrowed), types, dict.fromkeys(types, 16)).module
    artifact = backend.compile(module, Options(num_warps=4), target_info("sm_90a"))
    x = np.arange(512).astype(np.uint8)
    found = np.asarray(run_ptx(artifact, [x, np.zeros(512, ml_dtypes.float8_e5m2)], (1, 1, 1))[1])
    np.testing.assert_array_equal(
        found.astype(float), x.astype(ml_dtypes.float8_e5m2).astype(float)
    )


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
def test_widened(name, wide):
    """Every 8-bit float as it is, by the hardware's instruction."""
    kind, narrow = KINDS[name]
    kinds = {"f32": dtypes.float32, "f16": dtypes.float16, "bf16": dtypes.bfloat16}
    element = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}[wide]
    types = {"x": pointer_type(kind), "out": pointer_type(kinds[wide])}
    module = build(KernelFunction(narrowed), types, dict.fromkeys(types, 16)).module
    artifact = backend.compile(module, Options(num_warps=4), target_info("sm_90a"))
    assert f"cvt.rn.f16x2.{name}x2" in artifact.asm["ptx"]
    x = np.arange(512).astype(np.uint8).view(narrow)
    found = np.asarray(run_ptx(artifact, [x, np.zeros(512, element)], (1, 1, 1))[1])
    np.testing.assert_array_equal(found.astype(float), x.astype(float))
