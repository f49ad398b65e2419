"""What products outside of loops move: a tile and the transposed one are one buffer, and conversions of layouts move the
narrow elements of what is widened."""

import numpy as np
import pytest
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu.schedule_loops import ScheduleLoops
from tilewright.passes.manager import run_pipeline


def gram(a, out):
    rows = tl.arange(0, 64)
    places = rows[:, None] * 64 + rows[None, :]
    x = tl.load(a + places)
    s = tl.dot(x, tl.trans(x)).to(tl.float16)
    t = tl.dot(tl.trans(x), s)
    tl.store(out + places, t + tl.dot(x, tl.trans(s)))


def test_one_buffer_for_a_tile_and_the_transposed_one():
    types = {"a": pointer_type(dtypes.float16), "out": pointer_type(dtypes.float32)}
    module = build(KernelFunction(gram), types, dict.fromkeys(types, 16)).module
    options = Options(num_warps=4, disable=("lower-stores-to-tma",))
    backend.lower(module, options, target_info("sm_90a"))
    text = str(module)
    assert text.count("gpu.wgmma ") == 3
    assert text.count("gpu.local_store ") == 2
    assert text.count("gpu.memdesc_trans ") == 2


def residual(a, out):
    rows = tl.arange(0, 64)
    places = rows[:, None] * 64 + rows[None, :]
    x = tl.load(a + places)
    tl.store(out + places, tl.dot(x, x) + x.to(tl.float32))


def test_what_is_widened_is_moved_before():
    types = {"a": pointer_type(dtypes.float16), "out": pointer_type(dtypes.float32)}
    module = build(KernelFunction(residual), types, dict.fromkeys(types, 16)).module
    options = Options(num_warps=4, disable=("lower-stores-to-tma",))
    backend.lower(module, options, target_info("sm_90a"))
    moved = [line for line in str(module).splitlines() if "gpu.convert_layout" in line]
    assert sum("xf16" in line for line in moved) == 1
    assert sum("xf32" in line for line in moved) <= 1  # what is stored


def squares(q, keys, out, n):
    rows, d = tl.arange(0, 64), tl.arange(0, 64)
    left = tl.load(q + rows[:, None] * 64 + d[None, :])
    total = tl.zeros((64, 64), tl.float32)
    for i in range(0, n):
        x = tl.load(keys + (i * 64 + d)[:, None] * 64 + d[None, :])
        s = tl.dot(left, x)
        total = tl.dot(s.to(tl.float16), tl.trans(x), total)
    tl.store(out + rows[:, None] * 64 + d[None, :], total)


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_loop_copies_a_tile_once_for_products_that_read_it_transposed(scheduled):
    """Stages of `pipeline-loads` and of `schedule-loops`: one buffer, no registers, no second copy."""
    types = dict.fromkeys(("q", "keys"), pointer_type(dtypes.float16))
    types |= {"out": pointer_type(dtypes.float32), "n": dtypes.int32}
    module = build(KernelFunction(squares), types, dict.fromkeys(("q", "keys", "out"), 16)).module
    module.body.block.first_op.attributes |= {
        "gpu.num_warps": IntegerAttr(4, i32), "gpu.num_stages": IntegerAttr(3, i32)
    }  # fmt: skip
    schedule = [ScheduleLoops(all_loops=True)] if scheduled else []
    steps = [
        new
        for step in nvidia_passes()
        for new in (schedule if step.name == "schedule-loops" else [step])
    ]
    run_pipeline(module, tuple(steps), target_info("sm_90a"))
    text = str(module)
    assert ("gpu.producer_warp" in text) == scheduled
    loop = text[text.rindex("scf.for") :]
    assert text.count("gpu.memdesc_trans ") == 1
    assert "gpu.local_store" not in loop.split("scf.yield")[0] and "gpu.local_load" not in text
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((64, 64)) / 8).astype(np.float16)
    x = (rng.standard_normal((256, 64)) / 8).astype(np.float16)
    after = run_on_copies(module, [a, x, np.zeros((64, 64), np.float32), 4], (1, 1, 1))
    wide = x.astype(np.float64).reshape(4, 64, 64)
    wanted = sum(a.astype(np.float64) @ part @ part.T for part in wide)
    np.testing.assert_allclose(np.asarray(after[2]), wanted, atol=1e-2)


def twice(q, keys, out, n):
    rows, d = tl.arange(0, 64), tl.arange(0, 64)
    left = tl.load(q + rows[:, None] * 64 + d[None, :])
    total = tl.zeros((64, 64), tl.float32)
    for i in range(0, n):
        x = tl.load(keys + (i * 64 + d)[:, None] * 64 + d[None, :])
        total = tl.dot(tl.dot(left, x).to(tl.float16), tl.trans(x), total)
    for i in range(0, n):
        x = tl.load(keys + (i * 64 + rows)[:, None] * 64 + d[None, :])
        total = tl.dot(tl.dot(left, tl.trans(x)).to(tl.float16), x, total)
    tl.store(out + rows[:, None] * 64 + d[None, :], total)


def test_one_barrier_an_iteration_where_stages_are_deallocated_behind_a_loop():
    types = dict.fromkeys(("q", "keys"), pointer_type(dtypes.float16))
    types |= {"out": pointer_type(dtypes.float32), "n": dtypes.int32}
    module = build(KernelFunction(twice), types, dict.fromkeys(("q", "keys", "out"), 16)).module
    backend.lower(module, Options(num_warps=4, num_stages=3), target_info("sm_90a"))
    loops = str(module).split("scf.for")[1:]
    assert len(loops) == 2 and "gpu.local_dealloc" in loops[0]
    assert [loop.split("scf.yield")[0].count("gpu.barrier") for loop in loops] == [1, 1]


def kept(queries, keys, out, n):
    rows, d = tl.arange(0, 64), tl.arange(0, 64)
    places = rows[:, None] * 64 + d[None, :]
    for block in range(0, 2):
        k = tl.load(keys + block * 4096 + places)
        total = tl.zeros((64, 64), tl.float32)
        for i in range(0, n):
            x = tl.load(queries + i * 4096 + places)
            s = tl.dot(x, tl.trans(k))
            total = tl.dot(s.to(tl.float16), k, total)
        tl.store(out + block * 4096 + places, total)


def test_what_a_loop_does_not_change_is_stored_once_before_it():
    """Also where the loop transposes it, and is in a loop itself."""
    types = dict.fromkeys(("queries", "keys"), pointer_type(dtypes.float16))
    types |= {"out": pointer_type(dtypes.float32), "n": dtypes.int32}
    tensors = dict.fromkeys(("queries", "keys", "out"), 16)
    module = build(KernelFunction(kept), types, tensors).module
    options = Options(num_warps=4, disable=("lower-stores-to-tma",))
    backend.lower(module, options, target_info("sm_90a"))
    text = str(module)
    inner = text[text.rindex("scf.for") :].split("scf.yield")[0]
    assert text.count("gpu.memdesc_trans ") == 1 and text.count("gpu.local_store ") == 1
    assert "gpu.local_store" not in inner
    rng = np.random.default_rng(0)
    x, k = ((rng.standard_normal((2, 64, 64)) / 8).astype(np.float16) for _ in range(2))
    after = run_on_copies(module, [x, k, np.zeros((2, 64, 64), np.float32), 2], (1, 1, 1))
    x, k = x.astype(np.float64), k.astype(np.float64)
    wanted = [sum(q @ each.T for q in x) @ each for each in k]
    np.testing.assert_allclose(np.asarray(after[2]), wanted, atol=1e-2)
