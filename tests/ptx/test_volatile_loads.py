"""Loops that end by what another program writes: all warps leave them together."""

import numpy as np
import pytest
from tests.ptx import warp_collectives
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def wait_and_sum(flag_ptr, data_ptr, out_ptr, own_ptr, FORM: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(own_ptr, 1)
    seen = 0
    total = 0
    rounds = 0
    while seen == 0:
        rounds += 1
        if FORM == "cv":
            seen = tl.load(flag_ptr, cache_modifier=".cv")
        elif FORM == "masked":
            seen = tl.load(flag_ptr, mask=total >= 0, other=7, volatile=True)
        else:
            seen = tl.load(flag_ptr, volatile=True)
        total += tl.sum(tl.load(data_ptr + offs)) + tl.load(own_ptr)
    tl.store(out_ptr, total)
    tl.store(out_ptr + 1, tl.sum(rounds + tl.load(data_ptr + offs)))


@tw.jit
def wait_for_rows(flag_ptr, out_ptr, ROWS: tl.constexpr):
    rows = tl.arange(0, ROWS)
    seen = 0
    rounds = 0
    while seen == 0:
        seen = tl.min(tl.load(flag_ptr + rows, volatile=True))
        rounds += 1
    tl.store(out_ptr, tl.sum(rounds + tl.arange(0, 1024)))


def written_meanwhile(monkeypatch):
    """The word at the flag's address turns from 0 to what it is after a warp's number of reads, plus two."""
    real, reads = warp_collectives.HANDLERS["ld"], {}

    def load(self, op, mask, place):
        if "cv" not in op.mods:
            return real(self, op, mask, place)
        real(self, op, mask, place)
        name, m = op.operands[0].strip("{}"), self.machine
        found = m.read(name).copy()
        for warp in {int(t) // 32 for t in np.flatnonzero(mask)}:
            reads[warp] = reads.get(warp, 0) + 1
            if reads[warp] < warp + 3:
                found[32 * warp : 32 * warp + 32] = 0
        m.write(name, found, mask)
        return None

    monkeypatch.setitem(warp_collectives.HANDLERS, "ld", load)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("form", ["plain", "masked", "cv"])
def test_a_loop_that_waits_for_a_flag(target, form, monkeypatch):
    signature = {n: "*i32:16" for n in ("flag_ptr", "data_ptr", "out_ptr", "own_ptr")}
    made = wait_and_sum.compile(
        signature, {"FORM": form, "BLOCK": 1024}, target=target, num_warps=4
    )
    data = np.arange(1024, dtype=np.int32)
    arrays = [np.ones(4, np.int32), data, np.zeros(4, np.int32), np.zeros(4, np.int32)]
    written_meanwhile(monkeypatch)
    found = run_ptx(made, arrays, (1,))[2]
    assert found.tolist() == [3 * (data.sum() + 1), data.sum() + 3 * 1024, 0, 0]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_loop_that_waits_for_several(target, monkeypatch):
    """Of a tile that is smaller than the program, all holders of an element get what its owner found."""
    signature = {"flag_ptr": "*i32:16", "out_ptr": "*i32:16"}
    made = wait_for_rows.compile(signature, {"ROWS": 16}, target=target, num_warps=4)
    written_meanwhile(monkeypatch)
    found = run_ptx(made, [np.ones(16, np.int32), np.zeros(4, np.int32)], (1,))
    assert found[1][0] == sum(range(1024)) + 3 * 1024
