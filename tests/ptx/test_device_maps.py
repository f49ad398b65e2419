"""Tensor maps that a program makes: arrays whose addresses and shapes come from tables, as in a grouped matmul."""

import dataclasses
import functools
import re

import numpy as np
import pytest
from tests.ptx.launch import Addresses, run_ptx
from tests.ptx.values import Fault

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr, pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(6, full=6)


def grouped(
    a_table,
    b_table,
    c_table,
    sizes,
    pitches,
    groups,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile = tl.program_id(0)
    last = 0
    for g in range(groups):
        m = tl.load(sizes + g * 3)
        n = tl.load(sizes + g * 3 + 1)
        k = tl.load(sizes + g * 3 + 2)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        if tile >= last and tile < last + tiles:
            a = tl.load(a_table + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_table + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_table + g).to(tl.pointer_type(tl.float16))
            a = tl.make_tensor_descriptor(a, [m, k], [tl.load(pitches + g * 3), 1], [BM, BK])
            b = tl.make_tensor_descriptor(b, [n, k], [tl.load(pitches + g * 3 + 1), 1], [BN, BK])
            c = tl.make_tensor_descriptor(c, [m, n], [tl.load(pitches + g * 3 + 2), 1], [BM, BN])
            while tile >= last and tile < last + tiles:
                row = (tile - last) // columns * BM
                column = (tile - last) % columns * BN
                total = tl.zeros((BM, BN), dtype=tl.float32)
                for i in range(0, tl.cdiv(k, BK)):
                    x = a.load([row, i * BK])
                    y = b.load([column, i * BK])
                    total += tl.dot(x, y.T)
                c.store([row, column], total.to(tl.float16))
                tile += tl.num_programs(0)
        last = last + tiles


@functools.cache
def compiled(warps=4, stages=2, blocks=(64, 64, 32), target="sm_90a"):
    kind = pointer_type(dtypes.int64)
    numbers = pointer_type(dtypes.int32)
    tables = dict.fromkeys(("a_table", "b_table", "c_table"), kind)
    signature = {**tables, "sizes": numbers, "pitches": numbers, "groups": dtypes.int32}
    signature |= dict(zip(("BM", "BN", "BK"), map(constexpr, blocks), strict=True))
    divisible = dict.fromkeys((*tables, "sizes", "pitches"), 16)
    module = build(KernelFunction(grouped), signature, divisible).module
    options = Options(num_warps=warps, num_stages=stages)
    return backend.compile(module, options, target_info(target))


def matrices(shapes):
    """Of each product a, b (transposed) and c, with rows that are padded to 16 bytes and more."""
    draw, found = np.random.default_rng(0), []
    for m, n, k in shapes:
        pitched = [(m, k, -(-k // 8) * 8 + 8), (n, k, -(-k // 8) * 8), (m, n, -(-n // 8) * 8)]
        a, b, c = (np.full((r, p), np.nan, np.float16) for r, _, p in pitched)
        a[:, :k], b[:, :k] = (draw.standard_normal((r, k)).astype(np.float16) for r in (m, n))
        found.append((a, b, c))
    return found


def launch(artifact, shapes, groups, programs):
    """The arrays of the groups afterwards; `groups`: array and offset in bytes of each operand."""
    sizes = np.array(shapes, np.int32)
    arrays = list({id(x): x for group in groups for x, _ in group}.values())
    numbers = {id(x): 5 + i for i, x in enumerate(arrays)}
    pitches = np.array([[x.shape[1] for x, _ in group] for group in groups], np.int32)
    tables = [
        Addresses(tuple((numbers[id(x)], offset) for x, offset in (group[i] for group in groups)))
        for i in range(3)
    ]
    arguments = [*tables, sizes, pitches, len(groups)]
    return run_ptx(artifact, arguments, (programs,), reached=arrays)[5:]


def test_grouped_matmul():
    """The second product has no elements along k, and the first has rows that end within a box."""
    artifact = compiled()
    assert artifact.asm["ptx"].count("tensormap.cp_fenceproxy") == 3
    assert not artifact.plan.tensor_maps
    assert "ld.shared" not in artifact.asm["ptx"]  # rows that end within 16 bytes: from fragments
    shapes = [(40, 72, 40), (8, 8, 0), (8, 16, 64)]
    groups = matrices(shapes)
    found = launch(artifact, shapes, [[(x, 0) for x in group] for group in groups], 2)
    for g, (m, n, k) in enumerate(shapes):
        a, b = groups[g][0][:, :k].astype(float), groups[g][1][:, :k].astype(float)
        c = found[3 * g + 2]
        np.testing.assert_allclose(c[:m, :n].astype(float), a @ b.T, rtol=3e-3, atol=2e-2)
        assert np.isnan(c[:, n:]).all()


def overlapping(artifact, n):
    """A product whose second tile of a is the first of c, and what it is if tiles are done one after the other."""
    draw = np.random.default_rng(1)
    a = (draw.standard_normal((192, 64)) / 4).astype(np.float16)
    b = (draw.standard_normal((n, 64)) / 4).astype(np.float16)
    group = [(a, 0), (b, 0), (a, 64 * 64 * 2)]
    found = launch(artifact, [(128, n, 64)], [group], 1)[0].astype(float)
    wanted = a.astype(float)
    for row in (0, 64):
        product = wanted[row : row + 64] @ b.T.astype(float)
        wanted[row + 64 : row + 128, :n] = product.astype(np.float16)
    return found, wanted


@pytest.mark.parametrize("n", [64, 60])
def test_arrays_that_overlap_are_read_after_they_are_written(n):
    """Rows of 64 elements are stored by TMA, those of 60 end within 16 bytes."""
    found, wanted = overlapping(compiled(), n)
    np.testing.assert_allclose(found, wanted, rtol=3e-3, atol=2e-3)


def test_descriptors_are_aligned_by_contract():
    """Where an address is not, the kernel stops; the hardware would leave out the lowest bits."""
    (group,) = matrices([(8, 8, 8)])
    with pytest.raises(Fault, match="no tensor map is there"):
        launch(compiled(), [(8, 8, 8)], [[(group[0], 8), (group[1], 0), (group[2], 0)]], 1)


FENCES = {
    "fence.proxy.tensormap": r"\tfence\.proxy\.tensormap[^;]*;",
    "fence.proxy.async": r"\tfence\.proxy\.async;",
    "the place of its tensor maps": r"\tst\.release[^;]*;",
}


@pytest.mark.parametrize("name", FENCES)
def test_what_orders_maps_is_needed(name):
    artifact = compiled()
    ptx, count = re.subn(FENCES[name], "", artifact.asm["ptx"])
    assert count
    with pytest.raises(Fault, match=name if name != "fence.proxy.async" else "a box is copied"):
        overlapping(dataclasses.replace(artifact, asm={**artifact.asm, "ptx": ptx}), 60)


def steps(h, w, out, count, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr):
    """out[t] = out[t - 1] w, of h for the first."""
    rows, columns, inner = tl.arange(0, 16), tl.arange(0, N), tl.arange(0, BK)
    before = h
    for t in range(count):
        total = tl.zeros((16, N), dtype=tl.float32)
        for k in range(0, K, BK):
            x = tl.load(before + rows[:, None] * K + (k + inner)[None, :])
            y = tl.load(w + (k + inner)[:, None] * N + columns[None, :])
            total = tl.dot(x, y, total)
        after = out + t * 16 * K
        tl.store(after + rows[:, None] * K + columns[None, :], total.to(tl.float16))
        before = after


@pytest.mark.parametrize(("iterations", "makes"), [(4, False), (32, True)])
def test_no_maps_for_few_iterations(iterations, makes):
    """A loop around few iterations makes no tensor map for them anew each time."""
    kind = pointer_type(dtypes.float16)
    signature = {**dict.fromkeys(("h", "w", "out"), kind), "count": dtypes.int32}
    signature |= {"N": constexpr(64), "K": constexpr(16 * iterations), "BK": constexpr(16)}
    module = build(KernelFunction(steps), signature, dict.fromkeys(("h", "w", "out"), 16)).module
    ptx = backend.compile(module, Options(), target_info("sm_90a")).asm["ptx"]
    assert ("tensormap.replace" in ptx) == makes
    assert "mma" in ptx
