"""`schedule-loops`: the order it finds for attention, its results on the way to a GPU, and what each wait is for."""

import re
from functools import cache

import numpy as np
import pytest
from tests.attention import attention_ir
from tests.passes.scheduled_loops import shared_keys_case, shared_keys_ir
from tests.passes.test_attention import case, check, prepared
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies
from xdsl.dialects import scf
from xdsl.ir import BlockArgument

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.codegen import emit_module
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import gpu
from tilewright.dtypes import constexpr
from tilewright.errors import TilewrightError
from tilewright.frontend import build
from tilewright.passes.gpu.schedule_loops import ScheduleLoops
from tilewright.passes.gpu.scheduling.cost import cycles
from tilewright.passes.gpu.scheduling.graph import loop_graph
from tilewright.passes.gpu.scheduling.shifts import schedules
from tilewright.passes.manager import run_pipeline

TARGET = target_info("sm_90a")


def passes(until=None, **options):
    """The pipeline with every loop scheduled that may be."""
    found = []
    for step in nvidia_passes():
        own = step.name == "schedule-loops"
        found.append(ScheduleLoops(all_loops=True, **options) if own else step)
        if step.name == until:
            break
    return tuple(found)


def scheduled(blocks, depth, causal=False, ragged=False, warps=4, stages=2, until=None, **options):
    module = prepared(attention_ir(*blocks, depth, causal, ragged), warps, stages)
    run_pipeline(module, passes(until, **options), TARGET)
    return module


def names(text):
    return re.findall(
        r"(?:gpu|math|arith|tile)\.(?:wgmma_wait|wgmma|mbarrier_\w+|reduce|exp2|truncf)\b", text
    )


def test_the_second_dot_runs_behind_the_first_of_the_next_iteration():
    """S_j, then PV of j - 1 beside it, then the softmax of S_j: the order that measured fastest."""
    text = str(scheduled((128, 64), 128, warps=8, until="schedule-loops"))
    steady = text[
        text.index("scf.for", text.index("scf.if %", text.index("gpu.producer_warp") + 4000)) :
    ]
    loop = steady.split("scf.yield %")[0]
    wait, dot, over, free = (
        "gpu.mbarrier_wait",
        "gpu.wgmma",
        "gpu.wgmma_wait",
        "gpu.mbarrier_arrive",
    )
    softmax = ["tile.reduce", "math.exp2", "math.exp2", "tile.reduce"]
    assert names(loop) == [wait, dot, wait, dot, over, free, *softmax, over, free, "arith.truncf"]
    assert re.findall(r"wgmma_wait %\d+, (\d)", loop) == ["1", "0"]


@pytest.mark.parametrize(("n", "causal", "ragged", "warps", "rotate"), [
    (64, False, False, 4, True), (192, False, False, 4, False), (200, True, True, 8, True),
])  # fmt: skip
def test_results(n, causal, ragged, warps, rotate):
    arguments, wanted = case(1, n, 64, causal)
    module = scheduled((64, 64 if n == 64 else 32), 64, causal, ragged, warps, rotate=rotate)
    assert "gpu.producer_warp registers" in str(module)
    check(run_on_copies(module, arguments, (-(-n // 64), 1, 1)), wanted)


@cache
def attention_code():
    options = Options(num_warps=8, num_stages=2)
    return backend.compile(attention_ir(128, 128, 128, True, True), options, TARGET)


def test_results_of_machine_code():
    """A loop that does not run, one of a single iteration and the longer ones; both share their stages."""
    arguments, wanted = case(1, 160, 128, True)
    artifact = attention_code()
    assert "setmaxnreg.inc" in artifact.asm["ptx"] and artifact.plan.threads == 384
    assert artifact.plan.spills == 0 and "wgmma" not in artifact.asm.get("log", "")
    check(run_ptx(artifact, arguments, (2, 1, 1)), wanted)


@tw.jit
def chunks(Q, K, V, Out, State, n, D: tl.constexpr, C: tl.constexpr):
    """Causal linear attention, chunk by chunk: three dots and a state that is stored in every iteration."""
    r, d = tl.arange(0, C), tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for i in range(0, n):
        at = (i * C + r)[:, None] * D + d[None, :]
        q = tl.load(Q + at)
        k = tl.load(K + at)
        v = tl.load(V + at)
        tl.store(State + i * D * D + d[:, None] * D + d[None, :], state)
        s = tl.dot(q, tl.trans(k))
        s = tl.where(r[:, None] >= r[None, :], s, 0.0)
        o = tl.dot(q, state.to(q.dtype))
        o = tl.dot(s.to(q.dtype), v, o)
        state = state * 0.5 + tl.dot(tl.trans(k), v)
        tl.store(Out + at, o.to(q.dtype))


def chunks_ir(depth, length):
    signature = dict.fromkeys(("Q", "K", "V", "Out"), dtypes.pointer_type(dtypes.float16))
    signature |= {"State": dtypes.pointer_type(dtypes.float32), "n": dtypes.int32}
    signature |= {"D": constexpr(depth), "C": constexpr(length)}
    divisible = dict.fromkeys(("Q", "K", "V", "Out", "State"), 16)
    return build(chunks, signature, divisible).module


def test_loops_with_stores_keep_their_order():
    rng, n, c = np.random.default_rng(0), 3, 64
    q, k, v = ((rng.standard_normal((n * c, 64)) / 8).astype(np.float16) for _ in range(3))
    arguments = [q, k, v, np.zeros_like(q), np.zeros((n, 64, 64), np.float32), n]
    module = prepared(chunks_ir(64, c), 4, 2)
    run_pipeline(module, passes(), TARGET)
    assert "gpu.producer_warp" in str(module)
    after = run_on_copies(module, arguments, (1, 1, 1))
    state, wide = np.zeros((64, 64)), [x.astype(np.float64) for x in (q, k, v)]
    for i in range(n):
        a, b, x = (t[i * c : (i + 1) * c] for t in wide)
        np.testing.assert_allclose(np.asarray(after[4])[i], state, atol=2e-3)
        o = a @ state + np.tril(a @ b.T) @ x
        np.testing.assert_allclose(np.asarray(after[3])[i * c : (i + 1) * c], o, atol=1e-2)
        state = state * 0.5 + b.T @ x


@pytest.mark.parametrize("squares", [False, True])
@pytest.mark.parametrize("tiles", [1, 2, 5])
def test_stages_are_released_behind_their_last_reader(tiles, squares):
    """Dots of both shifts read a stage; so do threads with `squares`."""
    arguments, wanted = shared_keys_case(64, 64, tiles, squares)
    module = prepared(shared_keys_ir(64, 64, squares), 4, 2)
    run_pipeline(module, passes(), TARGET)
    assert "gpu.producer_warp" in str(module) and squares == ("gpu.local_load" in str(module))
    after = run_on_copies(module, arguments, (1, 1, 1))
    np.testing.assert_allclose(np.asarray(after[2]), wanted, atol=1e-2)
    if tiles == 5:
        options = Options(num_warps=8, num_stages=2)
        artifact = backend.compile(shared_keys_ir(128, 64, squares), options, TARGET)
        arguments, wanted = shared_keys_case(128, 64, tiles, squares)
        after = run_ptx(artifact, arguments, (1, 1, 1))
        np.testing.assert_allclose(np.asarray(after[2]), wanted, atol=1e-2)


def test_lanes_have_read_a_stage_before_it_is_released():
    module = prepared(shared_keys_ir(64, 64, True), 4, 2)
    run_pipeline(module, passes(), TARGET)
    ptx = emit_module(module, TARGET, True)[1]
    arrivals = [part[-700:] for part in str(ptx).split("mbarrier.arrive.release")[1:-1]]
    assert arrivals and all("bar.warp.sync" in part for part in arrivals)


# ---- what waits, releases and orders are for -----------------------------------------------------------


def without(text_of, index):
    """The module without the synchronisation of that number; None beyond the last."""
    module = text_of()
    kinds = (gpu.MbarrierWaitOp, gpu.MbarrierArriveOp, gpu.WgmmaWaitOp)
    found = [op for op in module.walk() if isinstance(op, kinds)]
    if index >= len(found):
        return None
    op = found[index]
    if isinstance(op, gpu.WgmmaWaitOp):
        op.result.replace_all_uses_with(op.acc)
    op.detach()
    op.erase()
    return module


@pytest.mark.parametrize("first", range(4))
def test_every_wait_and_release_is_needed(first):
    arguments, wanted = case(1, 80, 64, False)
    arguments = [*arguments[:-1], 80]
    text = scheduled((64, 16), 64, until="schedule-loops")
    index = first
    while (module := without(text.clone, index)) is not None:
        with pytest.raises((TilewrightError, AssertionError)):
            check(run_on_copies(module, arguments, (1, 1, 1)), wanted)
        index += 4
    assert index > 8


@pytest.mark.parametrize(("make", "rotates"), [
    (lambda: attention_ir(64, 32, 64, True), True),
    (lambda: chunks_ir(64, 64), False),  # threads write shared memory: barriers hold the steps
])  # fmt: skip
def test_schedules_are_legal_and_worth_it(make, rotates):
    """No step runs before what it takes, counting iterations; the chosen one takes no more cycles than the source's."""
    module = prepared(make(), 4, 2)
    run_pipeline(module, passes("swizzle-shared"), TARGET)
    loops = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    rotated = False
    for graph in filter(None, map(loop_graph, loops)):
        found = schedules(graph)
        assert min(cycles(s, 4) for s in found) <= cycles(found[0], 4)
        for schedule in found:
            rotated |= schedule.is_rotated
            position = {op: i for i, (op, _) in enumerate(schedule.order)}
            shift = dict(schedule.order)
            assert set(position) == set(graph.steps)
            for op in graph.steps:
                for value in graph.operands_of(op):
                    made = graph.made_by(value)
                    if made is None or isinstance(made, BlockArgument):
                        continue
                    ahead = shift[op] - shift[made]
                    assert ahead > 0 or (ahead == 0 and position[made] < position[op])
    assert rotated == rotates


def test_no_wait_behind_one_that_left_fewer_groups():
    """ptxas serializes what meets zeros behind such a wait; zeros of a dot's own are not set in registers."""
    artifact = attention_code()
    left = 99
    for name, number in re.findall(
        r"(wait_group\.sync\.aligned|commit_group|BB\d+_\d+:) ?(\d*)", artifact.asm["ptx"]
    ):
        if name.startswith("wait"):
            assert int(number) < left
            left = int(number)
        else:
            left = left + 1 if name == "commit_group" else 99
    assert re.search(r"wgmma\.mma_async[^;]*\}, %rd\d+, %rd\d+, 0,", artifact.asm["ptx"])
