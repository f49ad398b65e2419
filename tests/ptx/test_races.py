"""What threads of a block may do at once: kernels whose threads meet in memory, and the machine that tells."""

import dataclasses
import random
import re
import types

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(4, full=4)

KINDS = {
    np.dtype(np.float16): dtypes.float16,
    np.dtype(np.float32): dtypes.float32,
    np.dtype(np.int32): dtypes.int32,
}


def numbers(count, kind=np.float32):
    return np.random.default_rng(count).standard_normal(count).astype(kind)


def compiled(kernel, arguments, target, warps=4, stages=3, blocks=1):
    """The artifact, and what the interpreter makes of the arguments."""
    signature = {
        name: dtypes.pointer_type(KINDS[value.dtype]) if isinstance(value, np.ndarray)
        else dtypes.int32 for name, value in arguments.items()
    }  # fmt: skip
    divisible = {n: 16 for n, v in arguments.items() if isinstance(v, np.ndarray) or v % 16 == 0}
    text = str(build(KernelFunction(kernel), signature, divisible).module)
    expected = run_on_copies(parse_ir(text), list(arguments.values()), (1, 1, 1))
    options = Options(num_warps=warps, num_stages=stages, num_ctas=blocks)
    target = target_info(target) if isinstance(target, str) else target
    return backend.compile(parse_ir(text), options, target), expected


def check(kernel, arguments, target, chance=None, **options):
    artifact, expected = compiled(kernel, arguments, target, **options)
    found = run_ptx(artifact, list(arguments.values()), (1,), chance)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=2e-3, atol=2e-3)


def reads_then_writes_what_several_warps_hold(p, o):
    j, i = tl.arange(0, 16), tl.arange(0, 64)
    x = tl.load(p + j)
    tl.store(p + j, x + 1.0)
    at = o + i[:, None] * 16 + j[None, :]
    tl.store(at, tl.load(at) + x[None, :])


def writes_then_reads_what_several_warps_hold(p, o):
    j, i = tl.arange(0, 16), tl.arange(0, 64)
    tl.store(p + j, j.to(tl.float32))
    x = tl.load(p + j)
    at = o + i[:, None] * 16 + j[None, :]
    tl.store(at, tl.load(at) + x[None, :])


def reads_then_writes_a_scalar(p, o):
    s = tl.load(p)
    tl.store(p, s + 1.0)
    i = tl.arange(0, 1024)
    tl.store(o + i, s + i)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kernel", [
    reads_then_writes_what_several_warps_hold, writes_then_reads_what_several_warps_hold,
    reads_then_writes_a_scalar,
])  # fmt: skip
def test_elements_that_several_warps_hold(kernel, target):
    """The first warp writes them, all read them: with a barrier in between."""
    check(kernel, {"p": numbers(16), "o": numbers(1024)}, target)


def reversed_blocks_of_pointers_that_iterations_select(p, shift, n):
    """Neighboring iterations have the same addresses if `shift` is -256, which their offsets alone do not say."""
    i, q = tl.arange(0, 256), p + shift
    for t in range(n):
        r = tl.where(t % 2 == 0, p, q) + t * 256
        tl.store(r + i, tl.load(r + 255 - i) + 1.0)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_pointers_that_differ_between_iterations(target):
    arguments = {"p": numbers(6 * 256), "shift": -256, "n": 6}
    check(reversed_blocks_of_pointers_that_iterations_select, arguments, target)


def small_exchanges_around_a_loop(a, b, o, q, n):
    i = tl.arange(0, 64)
    total = tl.sum(tl.load(q + tl.arange(0, 256)), 0)
    acc = tl.zeros((64, 64), tl.float32)
    for t in range(0, n):
        x = tl.load(a + i[:, None] * 256 + (i + t * 64)[None, :])
        y = tl.load(b + (i + t * 64)[:, None] * 64 + i[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(o + i, tl.max(acc, 0) + total)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_an_exchange_where_buffers_were_waits_for_their_readers(target):
    """Small exchanges take turns in two places without a barrier in front, but not in a place that tensor
    cores have read for other warps since the last."""
    half = np.float16
    arguments = {"a": numbers(64 * 256, half), "b": numbers(256 * 64, half), "o": numbers(64)}
    check(small_exchanges_around_a_loop, arguments | {"q": numbers(256), "n": 4}, target)


def exchanges_behind_a_loop(a, b, c, v, o):
    """Small tiles change their layout between dots once the loop's buffers have been released."""
    i, j, k = tl.arange(0, 16), tl.arange(0, 32), tl.arange(0, 32)
    acc = tl.zeros((16, 32), tl.float32)
    for t in range(0, 2):
        at = t * 32 + k
        acc = tl.dot(
            tl.load(a + i[:, None] * 64 + at[None, :]),
            tl.load(b + at[:, None] * 32 + j[None, :]),
            acc,
        )
    lower = i[:, None] >= i[None, :]
    for n in tl.static_range(2):
        left = tl.load(c + n * 256 + i[:, None] * 16 + i[None, :])
        right = tl.load(v + n * 512 + i[:, None] * 32 + j[None, :])
        acc += tl.dot(tl.where(lower, left, 0), right)
    tl.store(o + i[:, None] * 32 + j[None, :], acc.to(tl.float16))


@pytest.mark.parametrize("warps", [1, 2])
def test_exchanges_leave_memory_barriers_alone(warps):
    """Data over an mbarrier that nobody invalidated is undefined: on an H200 the tile's first row was lost."""
    half = np.float16
    arguments = {"a": numbers(1024, half), "b": numbers(2048, half), "c": numbers(512, half)}
    arguments |= {"v": numbers(1040, half)[:1024], "o": numbers(528, half)[:512]}
    check(exchanges_behind_a_loop, arguments, "sm_90a", warps=warps, stages=2)


def test_memory_is_left_alone_until_the_kernel_before_is_over():
    arguments = {"p": numbers(16), "o": numbers(1024)}
    artifact, _ = compiled(sums_of_columns, arguments, "sm_90a", 1)
    spoiled = artifact.asm["ptx"].replace("griddepcontrol.wait;", "")
    wrong = types.SimpleNamespace(plan=artifact.plan, asm={"ptx": spoiled})
    with pytest.raises(Fault, match="the kernel before may still run"):
        run_ptx(wrong, list(arguments.values()), (1,))


def sums_of_columns(p, o):
    i, j = tl.arange(0, 64), tl.arange(0, 16)
    tl.store(p + j, tl.sum(tl.load(o + i[:, None] * 16 + j[None, :]), 0))


def transposed(a, o):
    i, j = tl.arange(0, 128), tl.arange(0, 64)
    tl.store(o + j[None, :] * 128 + i[:, None], tl.load(a + i[:, None] * 64 + j[None, :]))


@pytest.mark.parametrize(("room", "barriers"), [(20, 3), (12, 7), (4, 15)])
@pytest.mark.parametrize("warps", [1, 8])
def test_a_tile_too_large_changes_its_layout_in_panels(warps, room, barriers):
    """With ever less shared memory: two barriers for each panel but the first, which has one. Where boxes store
    tiles they may leave in parts instead."""
    arguments = {"a": numbers(8192), "o": numbers(8193)[:8192]}
    for name in ("sm_80", "sm_90a"):
        target = dataclasses.replace(target_info(name), shared_bytes=room << 10)
        artifact, expected = compiled(transposed, arguments, target, warps)
        if name == "sm_80":
            kind = "bar.warp.sync" if warps == 1 else "bar.sync"
            assert artifact.asm["ptx"].count(kind) == barriers
        found = run_ptx(artifact, list(arguments.values()), (1,), random.Random(0))
        np.testing.assert_array_equal(found[1], expected[1])


def products_of_gathered_rows(a, b, rows, o, n):
    i, j, k = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 32)
    for part in range(0, n):
        row = tl.load(rows + part * 64 + i)
        acc = tl.zeros((64, 64), tl.float32)
        for t in range(0, 4):
            at = t * 32 + k
            left = tl.load(a + row[:, None] * 128 + at[None, :])
            acc = tl.dot(left, tl.load(b + at[:, None] * 64 + j[None, :]), acc)
        tl.store(o + (part * 64 + i[:, None]) * 64 + j[None, :], acc)


@pytest.mark.parametrize("name", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("room", "stages"), [(48, 3), (36, 3), (26, 2)])
def test_halves_of_results_leave_memory_for_a_stage(room, stages, name):
    """Three stages of 8 KB, next to 16 KB of a result: its halves change their layout one by one, if that is enough."""
    half = np.float16
    arguments = {"a": numbers(64 * 128, half), "b": numbers(128 * 64, half)}
    arguments |= {"rows": np.arange(127, -1, -1, dtype=np.int32) % 64, "o": numbers(8192), "n": 2}
    target = dataclasses.replace(target_info(name), shared_bytes=room << 10)
    artifact, expected = compiled(products_of_gathered_rows, arguments, target, 4)
    found = run_ptx(artifact, list(arguments.values()), (1,), random.Random(0))
    np.testing.assert_allclose(found[3], expected[3], atol=1e-2)
    assert stages * 8 << 10 <= artifact.plan.shared_bytes <= room << 10
    waits = re.findall(r"cp\.async\.wait_group\s+(\d+)", artifact.asm["ptx"])
    assert max(map(int, waits)) == stages - 2


@pytest.mark.parametrize("blocks", [2, 4])
def test_programs_of_several_blocks(blocks):
    half = np.float16
    arguments = {"a": numbers(64 * 256, half), "b": numbers(256 * 64, half), "o": numbers(64)}
    arguments |= {"q": numbers(256), "n": 4}
    check(small_exchanges_around_a_loop, arguments, "sm_90a", blocks=blocks)
    check(small_exchanges_around_a_loop, arguments, "sm_90a", random.Random(1), blocks=blocks)


@pytest.mark.parametrize(("which", "message"), [
    (0, "may not have begun|without a barrier"), (-1, "may end"),
])  # fmt: skip
def test_a_cluster_begins_and_ends_together(which, message):
    """Its blocks use the memory of the first: after a barrier, and before another."""
    arguments = {"p": numbers(16), "o": numbers(1024)}
    artifact, _ = compiled(sums_of_columns, arguments, "sm_90a", 1, blocks=4)
    ptx = artifact.asm["ptx"]
    at = list(re.finditer(r"barrier\.cluster\.wait[^;]*;", ptx))[which]
    spoiled = ptx[: at.start()] + ptx[at.end() :]
    wrong = types.SimpleNamespace(plan=artifact.plan, asm={"ptx": spoiled})
    with pytest.raises(Fault, match=message):
        run_ptx(wrong, list(arguments.values()), (1,))


def normalised_row(p, o):
    i = tl.arange(0, 1024)
    x = tl.load(p + i)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(o + i, e / tl.sum(e, 0))


SPOILED_EXCHANGES = {
    "no barrier of the cluster": (
        r"barrier\.cluster\.(arrive|wait)[^;]*;", "may not have begun", (slice(0, 2),),
    ),
    "no wait for the parts": (
        r"mbarrier\.try_wait[^;]*; @!p bra \w+;", "a copy in flight writes|nothing was written",
        (slice(0, 1), slice(1, 2)),
    ),
    "no fence behind the initialization": (
        r"@%p\d+ fence\.mbarrier_init[^;]*;", "know to be initialised", (slice(0, 1),),
    ),
    "nothing is expected": (
        r"@%p\d+ mbarrier\.arrive\.expect_tx[^;]*;", "deadlock", (slice(0, 1), slice(1, 2)),
    ),
    "a part is missing": (
        r"@%p\d+ st\.async[^;]*;", "deadlock", (slice(0, 1), slice(1, 2)),
    ),
}  # fmt: skip


def test_parts_of_a_reduction_are_sent_to_every_cta():
    """Warps read them from their own CTA's memory: a barrier that all have started, and none that fences memory."""
    arguments = {"p": numbers(1024), "o": numbers(1025)[:1024]}
    artifact, expected = compiled(normalised_row, arguments, "sm_90a", 8, blocks=4)
    ptx, values = artifact.asm["ptx"], list(arguments.values())
    assert "ld.shared::cluster" not in ptx and ptx.count("st.async.shared::cluster") == 2
    assert re.findall(r"barrier\.cluster\.([a-z.]+)\.", ptx) == ["arrive.relaxed", "wait"]
    np.testing.assert_allclose(
        run_ptx(artifact, values, (1,), random.Random(2))[1], expected[1], rtol=1e-5
    )
    for pattern, message, places in SPOILED_EXCHANGES.values():
        found = list(re.finditer(pattern, ptx))
        for place in places:
            spoiled = ptx
            for match in reversed(found[place]):
                spoiled = spoiled[: match.start()] + spoiled[match.end() :]
            assert spoiled != ptx
            wrong = types.SimpleNamespace(plan=artifact.plan, asm={"ptx": spoiled})
            with pytest.raises(Fault, match=message):
                run_ptx(wrong, values, (1,))


# ---- what the machine finds ---------------------------------------------------------------------------


def one_product(a, b, c, n):
    i = tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for t in range(0, n):
        x = tl.load(a + i[:, None] * 512 + (i + t * 64)[None, :])
        y = tl.load(b + (i + t * 64)[:, None] * 64 + i[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * 64 + i[None, :], acc.to(tl.float16))


ARGUMENTS = {
    "a": numbers(64 * 512, np.float16), "b": numbers(512 * 64, np.float16),
    "c": numbers(64 * 64, np.float16), "n": 7,  # the last stage is the first: the result's place
}  # fmt: skip
SPOILED = {
    "no wait for products": (r"wgmma\.wait_group[^;]*;", "", "a product|no wgmma.wait_group|in flight"),
    "products waited for too late": (
        r"wgmma\.wait_group\.sync\.aligned 0", "wgmma.wait_group.sync.aligned 1",
        "a sum of a product in flight|products are in flight",
    ),
    "no fence before products": (r"wgmma\.fence[^;]*;", "", "wgmma.fence"),
    "no barriers": (r"bar\.sync[^;]*;", "", "without a barrier|know to be initialised"),
    "stores that nobody waits for": (
        r"cp\.async\.bulk\.wait_group[^;]*;", "", "boxes are being stored from its memory",
    ),
    "no fence before a store": (r"fence\.proxy\.async[^;]*;", "", r"fence\.proxy\.async is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILED)
def test_what_is_missing_is_found(name):
    pattern, text, message = SPOILED[name]
    artifact, _ = compiled(one_product, ARGUMENTS, "sm_90a")
    ptx, count = re.subn(pattern, text, artifact.asm["ptx"])
    assert count
    spoiled = types.SimpleNamespace(plan=artifact.plan, asm={"ptx": ptx})
    with pytest.raises(Fault, match=message):
        run_ptx(spoiled, list(ARGUMENTS.values()), (1,))


def test_each_barrier_of_a_loop_is_needed():
    """The loop that copies boxes ahead has one barrier; without it a stage is filled that others read."""
    artifact, _ = compiled(one_product, ARGUMENTS, "sm_90a")
    ptx = artifact.asm["ptx"]
    wait = ptx.index("mbarrier.try_wait")
    barrier = ptx.index("bar.sync", wait)
    assert "wgmma.commit_group" in ptx[wait:barrier]
    without = ptx[:barrier] + ptx[ptx.index(";", barrier) + 1 :]
    spoiled = types.SimpleNamespace(plan=artifact.plan, asm={"ptx": without})
    with pytest.raises(Fault, match=r"others? .* may still read|a product or a store in flight"):
        run_ptx(spoiled, list(ARGUMENTS.values()), (1,), random.Random(1))


@pytest.mark.long
def test_nothing_that_waits_could_be_left_out():
    """Of the loop that copies boxes ahead and what stores its result: each wait, fence and barrier by itself."""
    artifact, _ = compiled(one_product, ARGUMENTS, "sm_90a")
    ptx, survivors = artifact.asm["ptx"], []
    kinds = (
        r"bar\.sync[^;]*;|wgmma\.wait_group[^;]*;|wgmma\.fence[^;]*;|fence\.proxy\.async[^;]*;|"
        r"mbarrier\.try_wait[^;]*; @!p bra \w+;|cp\.async\.bulk\.wait_group[^;]*;"
    )
    for found in re.finditer(kinds, ptx):
        without = ptx[: found.start()] + ptx[found.end() :]
        spoiled = types.SimpleNamespace(plan=artifact.plan, asm={"ptx": without})
        try:
            for order in (None, random.Random(3)):
                run_ptx(spoiled, list(ARGUMENTS.values()), (1,), order)
        except Fault:
            continue
        survivors.append(found.group())
    assert not survivors


@pytest.mark.parametrize("seed", range(3))
def test_warps_in_any_order(seed):
    check(one_product, ARGUMENTS, "sm_90a", random.Random(seed))
    check(one_product, ARGUMENTS, "sm_80", random.Random(seed))


def few_steps(a, b, c):
    """A loop that ends its products in each iteration, and that LLVM writes out."""
    rows, columns = tl.arange(0, 64), tl.arange(0, 16)
    total = tl.zeros((64, 16), tl.float32)
    for i in range(3):
        deep = i * 16 + tl.arange(0, 16)
        x = tl.load(a + rows[:, None] % 13 * 64 + deep)
        total = tl.dot(x, tl.load(b + deep[:, None] * 64 + columns), total)
    tl.store(c + rows[:, None] * 16 + columns, total.to(tl.float16))


@pytest.mark.parametrize("warps", [4, 8])
def test_sums_that_are_made_before_a_loop_are_made_before_its_fence(warps):
    half = {n: numbers(size, np.float16) for n, size in (("a", 832), ("b", 3072), ("c", 1024))}
    check(few_steps, half, "sm_90a", warps=warps)
