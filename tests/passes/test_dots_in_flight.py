"""The last MMA of an iteration runs while the next one issues its first: loops of several dots that `pipeline-loads` takes,
such as attention's backward pass."""

import numpy as np
import pytest
from tests.passes.test_attention import prepared
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import gpu
from tilewright.dtypes import constexpr
from tilewright.errors import TilewrightError
from tilewright.frontend import build
from tilewright.passes.manager import run_pipeline

TARGET = target_info("sm_90a")


@tw.jit
def gradients(Q, DO, K, V, Stats, Out, n, M: tl.constexpr, RESCALED: tl.constexpr):
    """Four dots an iteration, the last of which adds to what the loop carries (or to a multiple of it)."""
    r, c, d = tl.arange(0, M), tl.arange(0, 32), tl.arange(0, 64)
    place = r[:, None] * 64 + d[None, :]
    k, v = tl.load(K + place), tl.load(V + place)
    dk, dv = tl.zeros((M, 64), tl.float32), tl.zeros((M, 64), tl.float32)
    for i in range(0, n):
        at = (i * 32 + c)[:, None] * 64 + d[None, :]
        q, do = tl.load(Q + at), tl.load(DO + at)
        p = tl.dot(k, tl.trans(q)) - tl.load(Stats + i * 32 + c)[None, :]
        dv += tl.dot(p.to(tl.float16), do)
        if RESCALED:
            dk = dk * 0.5
        dk += tl.dot((p * tl.dot(v, tl.trans(do))).to(tl.float16), q)
    tl.store(Out + place, dk)
    tl.store(Out + M * 64 + place, dv)


def gradients_ir(rows=128, rescaled=False):
    names = ("Q", "DO", "K", "V", "Stats", "Out")
    signature = dict.fromkeys(names[:4], dtypes.pointer_type(dtypes.float16))
    signature |= dict.fromkeys(names[4:], dtypes.pointer_type(dtypes.float32))
    signature |= {"n": dtypes.int32, "M": constexpr(rows), "RESCALED": constexpr(rescaled)}
    return build(gradients, signature, dict.fromkeys(names, 16)).module


def case(n, rows=128):
    rng = np.random.default_rng(n)
    q, do = ((rng.standard_normal((32 * n, 64)) / 8).astype(np.float16) for _ in range(2))
    k, v = ((rng.standard_normal((rows, 64)) / 8).astype(np.float16) for _ in range(2))
    stats = rng.standard_normal(32 * n).astype(np.float32)
    f, g, x, y = (a.astype(np.float64) for a in (q, do, k, v))
    p = x @ f.T - stats
    wanted = np.r_[(p * (y @ g.T)) @ f, p @ g]
    return [q, do, k, v, stats, np.zeros((2 * rows, 64), np.float32), n], wanted


def loop_of(module, until="pipeline-loads", disabled=()):
    steps = nvidia_passes()
    names = [step.name for step in steps]
    run_pipeline(module, steps[: names.index(until) + 1], TARGET, disabled=disabled)
    (loop,) = [op for op in module.walk() if isinstance(op, scf.ForOp)]
    return loop


def order_of(loop):
    """MMAs, waits and barriers of a loop in order, and the results of MMAs that it yields without a wait."""
    kinds = {gpu.WgmmaOp: "mma", gpu.WgmmaWaitOp: "wait", gpu.BarrierOp: "barrier"}
    ops = list(loop.body.block.ops)
    order = [kinds[type(op)] for op in ops if type(op) in kinds]
    return order, [v for v in ops[-1].operands if isinstance(v.owner, gpu.WgmmaOp)]


def test_the_last_mma_is_waited_for_in_the_next_iteration():
    """Before copies overwrite what it reads; after the loop in the branch that ran."""
    loop = loop_of(prepared(gradients_ir(), 4, 3))
    order, carried = order_of(loop)
    assert order[:4] == ["mma", "wait", "barrier", "mma"]
    (value,) = carried
    result = loop.results[loop.body.block.last_op.operands.index(value)]
    (after,) = [use.operation for use in result.uses]
    assert isinstance(after, gpu.WgmmaWaitOp) and after.pending.value.data == 0


def test_the_interpreter_notices_copies_that_do_not_wait_for_it():
    module = prepared(gradients_ir(), 4, 3)
    loop = loop_of(module)
    wait = next(op for op in loop.body.block.ops if isinstance(op, gpu.WgmmaWaitOp))
    wait.properties["pending"] = IntegerAttr(2, i32)
    with pytest.raises(TilewrightError):
        run_on_copies(module, case(5)[0], (1, 1, 1))


@pytest.mark.parametrize(("rescaled", "disabled"), [
    (True, ()),  # an accumulator that threads scale is waited for
    (False, ("pipeline-loads{mma-in-flight=0}",)),
    (False, ("pipeline-loads{tma=false}",)),  # copies begin the iteration
    (False, ("pipeline-loads{overlap-dots=false}",)),
])  # fmt: skip
def test_mmas_that_are_over_in_their_iteration(rescaled, disabled):
    _, carried = order_of(
        loop_of(prepared(gradients_ir(rescaled=rescaled), 4, 3), disabled=disabled)
    )
    assert not carried


@pytest.mark.parametrize(("n", "warps", "stages"), [(5, 4, 2), (1, 4, 3), (0, 4, 3), (4, 8, 3)])
def test_results_after_each_pass(n, warps, stages):
    arguments, wanted = case(n)
    module = prepared(gradients_ir(), warps, stages)
    for step in nvidia_passes():
        before = str(module)
        if step.name != "schedule-loops":
            step.apply(module, TARGET)
        if str(module) != before and step.name not in ("cse", "licm", "simplify"):
            out = np.asarray(run_on_copies(module, arguments, (1, 1, 1))[5])
            np.testing.assert_allclose(out, wanted, atol=2e-2, err_msg=step.name)


@pytest.mark.parametrize("n", [5, 0])
def test_machine_code(n):
    arguments, wanted = case(n)
    artifact = backend.compile(gradients_ir(), Options(num_warps=4, num_stages=3), TARGET)
    out = run_ptx(artifact, arguments, (1, 1, 1))[5]
    np.testing.assert_allclose(np.asarray(out), wanted, atol=2e-2)
    assert "serialized" not in artifact.asm.get("log", "")
