"""Weights that are multiplied with a row after its reduction: loaded as registers permit, and no store is waited for."""

import re

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction


def normalized(x, w, out, scale, n, B: tl.constexpr):
    at, columns = tl.program_id(0) * n, tl.arange(0, B)
    row = tl.load(x + at + columns, mask=columns < n, other=0.0)
    factor = tl.rsqrt(tl.sum(row * row, 0) / n)
    tl.store(scale + tl.program_id(0), factor)
    weight = tl.load(w + columns, mask=columns < n, other=0.0)
    tl.store(out + at + columns, row * factor * weight, mask=columns < n)


def scaled_in_place(x, w, out, scale, n, B: tl.constexpr):
    """Each program stores to what its own weights are."""
    at, columns = tl.program_id(0) * n, tl.arange(0, B)
    row = tl.load(x + at + columns, mask=columns < n, other=0.0)
    factor = tl.rsqrt(tl.sum(row * row, 0) / n)
    tl.store(scale + tl.program_id(0), factor)
    weight = tl.load(out + at + columns, mask=columns < n, other=0.0)
    tl.store(out + at + columns, row * factor * weight, mask=columns < n)


def shifted(x, w, out, scale, n, B: tl.constexpr):
    """Program 0 stores to weights of all programs, so that these are no read-only data."""
    at, columns = tl.program_id(0) * n, tl.arange(0, B)
    row = tl.load(x + at + columns, mask=columns < n, other=0.0)
    factor = tl.sum(row, 0)
    weight = tl.load(w + columns, mask=columns < n, other=0.0)
    tl.store(w + 8 * n + at + columns, row * factor * weight, mask=columns < n)


def compiled(kernel, warps, block, n, *disable):
    random = np.random.default_rng(1)
    sizes = {"x": 2 * n, "w": 10 * n, "out": 2 * n, "scale": 2}
    arguments = [random.random(size).astype(np.float32) for size in sizes.values()]
    signature = {**{a: dtypes.pointer_type(dtypes.float32) for a in sizes}, "n": dtypes.int32}
    signature["B"] = constexpr(block)
    text = str(
        build(KernelFunction(kernel), signature, {**dict.fromkeys(sizes, 16), "n": 16}).module
    )
    expected = run_on_copies(parse_ir(text), [*arguments, n], (2, 1, 1))
    options = Options(num_warps=warps, disable=disable)
    artifact = backend.compile(parse_ir(text), options, target_info("sm_90a"))
    found = run_ptx(artifact, [*arguments, n], (2,))
    for one, other in zip(found[:4], expected[:4], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    return artifact


def accesses(artifact):
    """Loads (l), exchanges of a reduction (x) and stores (s) of vectors in their order."""
    pattern = r"(ld)\.global\S*\.v4|(bar)\.sync|(st)\.global\S*\.v4"
    letters = {"ld": "l", "bar": "x", "st": "s"}
    found = re.finditer(pattern, artifact.asm["ptx"])
    return "".join(letters[next(filter(None, m.groups()))] for m in found)


def test_weights_are_loaded_between_stores():
    """32 elements of a thread, which with all weights take more registers than two CTAs have: few are left for weights
    before the reduction."""
    order = accesses(compiled(normalized, 16, 16384, 12304))
    assert re.fullmatch("l{8}l*xl*(s+l+)+s+", order) and order.count("l") == 16
    assert order.count("s") == 8
    unordered = accesses(compiled(normalized, 16, 16384, 12304, "order-instructions"))
    assert unordered == "l" * 8 + "x" + "l" * 8 + "s" * 8


@pytest.mark.skipif(tools.find("ptxas") is None, reason="no ptxas")
def test_two_ctas_share_an_sm():
    plan = compiled(normalized, 16, 16384, 12304).plan
    assert plan.registers <= 64 and plan.spills == 0


def test_weights_that_fit_are_loaded_before_the_reduction():
    """Two CTAs of 256 threads have 128 KB in flight."""
    assert accesses(compiled(normalized, 8, 16384, 12304)).startswith("l" * 20)
    assert accesses(compiled(normalized, 8, 4096, 4080)) == "llllllllxssss"


@pytest.mark.parametrize("kernel", [scaled_in_place, shifted], ids=lambda k: k.__name__)
def test_what_is_stored_to_is_loaded_where_it_was(kernel):
    order = accesses(compiled(kernel, 4, 4096, 4080))
    assert re.fullmatch("l+x+l+x*s+", order)
