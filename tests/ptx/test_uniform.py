"""The machine finds operands and guards that differ where PTX wants one value for a warp, warpgroup or CTA."""

import pytest
from tests.ptx.emulator import Machine, parse
from tests.ptx.memory import Global
from tests.ptx.values import Fault

from tilewright.backends.base import LaunchPlan

HEAD = """
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 31; mov.u32 %r4, tw_shared;
shl.b32 %r5, %r3, 4; add.u32 %r6, %r4, %r5;
setp.lt.u32 %p1, %r3, 16; setp.lt.u32 %p2, %r1, 64; setp.eq.u32 %p3, %r1, 0;
"""
INIT = "@%p3 mbarrier.init.shared::cta.b64 [%r4], 1; bar.sync 0; "
WAIT = "mbarrier.try_wait.parity.shared.b64 %p4, [{}], {};"
GOOD = {
    "a barrier by register": "add.u32 %r7, %r2, 1; bar.sync %r7, 32;",
    "part of the warps": "@%p2 bar.sync 1, 64;",
    "all lanes": "bar.warp.sync -1; shfl.sync.bfly.b32 %r7|%p4, %r3, 1, 31, -1; elect.sync _|%p5, -1;",
    "half a warp": "@%p1 bar.warp.sync 65535;",
    "a uniform branch": "@%p2 bra.uni $end;",
    "a phase": INIT + WAIT.format("%r4", 1),
    "registers": "setmaxnreg.dec.sync.aligned.u32 40;",
}
BAD = {
    "the number of a barrier": ("bar.sync %r3;", "number of a barrier differs in a warp"),
    "a barrier there is not": ("bar.sync 16;", "does not have"),
    "the threads of a barrier": ("bar.sync 1, %r1;", "number of threads at a barrier differs"),
    "a part of a warp": ("bar.sync 1, 48;", "part of a warp"),
    "more threads than a CTA has": ("bar.sync 1, 160;", "more threads than there are"),
    "two counts": ("@%p2 bar.sync 1, 96; @!%p2 bar.sync 1, 128;", "different numbers of threads"),
    "a barrier for half a warp": ("@%p1 bar.sync 0;", "guard that differs"),
    "lanes that do not come": ("@%p1 bar.warp.sync -1;", "0x0000ffff execute it for lanes 0xffffffff"),
    "lanes of a shuffle": ("shfl.sync.bfly.b32 %r7, %r3, 1, 31, 65535;", "for lanes 0x0000ffff"),
    "masks that differ": ("shfl.sync.idx.b32 %r7, %r3, 0, 31, %r1;", "execute it for lanes"),
    "lanes of an election": ("elect.sync _|%p4, 1;", "for lanes 0x00000001"),
    "a branch": ("@%p1 bra.uni $end;", "said to be uniform"),
    "matrices for half a warp": (
        "@%p1 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r7}, [%r6];", "guard that differs",
    ),
    "a warp of a warpgroup": ("@%p2 wgmma.fence.sync.aligned;", "guard that differs"),
    "a phase": (INIT + WAIT.format("%r4", "%r3"), "the phase that is waited for differs"),
    "the address of a barrier": (INIT + WAIT.format("%r6", 1), "address of a memory barrier differs"),
    "registers of half a warpgroup": ("@%p2 setmaxnreg.dec.sync.aligned.u32 40;", "guard that differs"),
    "a number of registers": ("setmaxnreg.inc.sync.aligned.u32 42;", "42 registers"),
    "a cluster's barrier": ("@%p1 barrier.cluster.arrive.aligned;", "guard that differs"),
}  # fmt: skip


def run(text):
    plan = LaunchPlan("test", (), threads=128, shared_bytes=1024)
    code = parse(f".entry test()\n{{{HEAD}{text}\n$end: ret;}}", "test")
    Machine(code, plan, [], Global([]), (0, 0, 0), (1, 1, 1)).run()


@pytest.mark.parametrize("name", GOOD)
def test_what_is_uniform_passes(name):
    run(GOOD[name])


@pytest.mark.parametrize("name", BAD)
def test_what_differs_is_found(name):
    text, message = BAD[name]
    with pytest.raises(Fault, match=message):
        run(text)
