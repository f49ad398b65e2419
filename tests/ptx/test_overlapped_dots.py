"""Several dots per iteration that overlap: their waits come late, and none can be left out."""

import random
import re
from dataclasses import replace

import numpy as np
import pytest
from tests.ptx.launch import run_ptx
from tests.ptx.values import Fault

from tilewright import dtypes
from tilewright import language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import pointer_type
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.gpu.scheduling import overlap

ROWS, DEEP, STEP = 64, 64, 32


def gradients(k_ptr, v_ptr, q_ptr, do_ptr, dk_ptr, dv_ptr, steps):
    """dv += p do and dk += ds q, with p = exp2(k q^T) and ds = p (v do^T); rows of q and do step by step."""
    rows, deep, step = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 32)
    place = rows[:, None] * 64 + deep[None, :]
    k, v = tl.load(k_ptr + place), tl.load(v_ptr + place)
    dk, dv = tl.zeros((64, 64), tl.float32), tl.zeros((64, 64), tl.float32)
    for i in range(steps):
        at = (i * 32 + step)[:, None] * 64 + deep[None, :]
        q, do = tl.load(q_ptr + at), tl.load(do_ptr + at)
        p = tl.math.exp2(tl.dot(k, tl.trans(q)))
        dv = tl.dot(p.to(tl.float16), do, dv)
        dp = tl.dot(v, tl.trans(do))
        dk = tl.dot((p * dp).to(tl.float16), q, dk)
    tl.store(dk_ptr + place, dk)
    tl.store(dv_ptr + place, dv)


def projections(k_ptr, v_ptr, q_ptr, do_ptr, dk_ptr, dv_ptr, steps):
    """Dots whose left operands, of 16 registers each, are computed in the loop."""
    rows, deep, step = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 32)
    place = rows[:, None] * 64 + deep[None, :]
    k = tl.load(k_ptr + place).to(tl.float32)
    for i in range(steps):
        at = (i * 32 + step)[:, None] * 64 + deep[None, :]
        q, do = tl.load(q_ptr + at), tl.load(do_ptr + at)
        p = tl.dot(k.to(tl.float16), tl.trans(q)).to(tl.float16)
        dp = tl.dot((k * 0.5).to(tl.float16), tl.trans(do)).to(tl.float16)
        k -= tl.dot(p * dp, q)
    tl.store(dk_ptr + place, k)


def compiled(kernel=gradients):
    names = ("k_ptr", "v_ptr", "q_ptr", "do_ptr")
    types = dict.fromkeys(names, pointer_type(dtypes.float16))
    types |= dict.fromkeys(("dk_ptr", "dv_ptr"), pointer_type(dtypes.float32))
    module = build(
        KernelFunction(kernel), {**types, "steps": dtypes.int32}, dict.fromkeys(types, 16)
    )
    return backend.compile(module.module, Options(num_warps=4), target_info("sm_90a"))


@pytest.fixture(scope="module")
def artifact():
    return compiled()


def arguments(steps):
    rng = np.random.default_rng(steps)
    k, v = (rng.normal(size=(ROWS, DEEP)).astype(np.float16) / 4 for _ in range(2))
    q, do = (rng.normal(size=(STEP * 4, DEEP)).astype(np.float16) / 4 for _ in range(2))
    return [k, v, q, do, *(np.zeros((ROWS, DEEP), np.float32) for _ in range(2)), steps]


def waits(artifact):
    return list(re.finditer(r"wgmma\.wait_group\.sync\.aligned (\d+);", artifact.asm["ptx"]))


def test_products_are_in_flight_together(artifact):
    assert sorted(int(w[1]) for w in waits(artifact)) == [0, 1, 1, 1, 1]


@pytest.mark.parametrize(("kernel", "held"), [(gradients, [8, 0]), (projections, [0, 32])])
def test_operands_of_dots_that_are_in_flight_together(monkeypatch, kernel, held):
    """In the order of the source, and with independent dots first: words of a thread."""
    found, count = [], overlap._operands_held_together
    monkeypatch.setattr(
        overlap, "_operands_held_together", lambda order: found.append(count(order)) or found[-1]
    )
    compiled(kernel)
    assert found == held


def test_waits_come_late_where_no_order_has_registers_to_spare(monkeypatch):
    """In the order of the source: `dp` is issued while `dv` is in flight, and `s` while `dk` of the last iteration is."""
    monkeypatch.setattr(overlap, "_OTHER_REGISTERS", 255)
    artifact = compiled()
    steps = re.findall(r"wgmma\.(commit|wait)_group", artifact.asm["ptx"])
    loop, top = steps[:5], steps[5:]  # the loop begins behind the rest of its body
    assert " ".join(loop) == "wait commit commit wait commit"  # the first is that of `s`
    assert " ".join(top) == "commit wait wait"  # of `s` for `dk`, and after the loop
    check_results(artifact, 4)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_results(artifact, steps):
    check_results(artifact, steps)


def check_results(artifact, steps):
    given = arguments(steps)
    found = run_ptx(artifact, given, (1, 1, 1), random.Random(steps))
    k, v, q, do = (x.astype(np.float64) for x in given[:4])
    q, do = q[: STEP * steps], do[: STEP * steps]
    p = np.exp2(k @ q.T)
    np.testing.assert_allclose(found[5], p @ do, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(found[4], (p * (v @ do.T)) @ q, rtol=1e-2, atol=1e-2)


def test_every_wait_is_needed(artifact):
    """But the third: the fourth, of the next iteration, covers its product, too."""
    ptx, given = artifact.asm["ptx"], arguments(4)
    first, second, _, fourth, last = waits(artifact)
    for wait in (first, second, fourth, last):
        weaker = f"wgmma.wait_group.sync.aligned {int(wait[1]) + 1};"
        without = ptx[: wait.start()] + weaker + ptx[wait.end() :]
        with pytest.raises(Fault):
            run_ptx(replace(artifact, asm={**artifact.asm, "ptx": without}), given, (1, 1, 1))
