"""`deallocate-shared`: buffers of a loop's body share memory, with the pipeline of an inner loop too."""

import numpy as np
import pytest
from tests.passes.test_tma_tiles import TARGET, built, close
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.errors import InterpreterError
from tilewright.ir.text import parse_ir
from tilewright.passes.gpu.analysis.shared_allocation import SharedAllocation
from tilewright.passes.manager import run_pipeline


def nested(q, k, o, n, m):
    """Per tile of 64 rows of `q` a pipelined loop over those of `k`, and products of what threads store."""
    r = tl.arange(0, 64)
    at = r[:, None] * 64 + r[None, :]
    total = tl.zeros([64, 64], dtype=tl.float32)
    for i in range(n):
        a = tl.load(q + i * 4096 + at)
        sums = tl.zeros([64, 64], dtype=tl.float32)
        for j in range(m):
            b, c = tl.load(k + j * 8192 + at), tl.load(k + j * 8192 + 4096 + at)
            sums += tl.dot(tl.trans(b), c)
        half = (sums * 0.125).to(tl.float16)
        once = (tl.dot(a, half) * 0.125).to(tl.float16)
        total += tl.dot(tl.trans(once), (half + a) * 0.125)
    tl.store(o + at, total)


def case(n, m):
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((count, 64, 64)).astype(np.float16) for count in (n, 2 * m))
    total = np.zeros((64, 64))
    for a in q.astype(np.float64):
        sums = sum(k[2 * j].T.astype(float) @ k[2 * j + 1].astype(float) for j in range(m))
        half = sums * 0.125
        total += (a @ half * 0.125).T @ ((half + a) * 0.125)
    return [q, k, np.zeros((64, 64), np.float16), n, m], total


def lowered(disabled=()):
    module = built(nested, ["n", "m"], {}, ("n", "m"))
    run_pipeline(module, nvidia_passes(), TARGET, disabled=disabled)
    return module


def shared_bytes(module):
    return SharedAllocation(module.body.block.first_op).end


def test_stages_of_an_inner_loop_are_reused():
    module = lowered()
    assert shared_bytes(module) < 0.75 * shared_bytes(lowered(["deallocate-shared"]))
    arguments, expected = case(2, 2)
    found = run_on_copies(module, arguments, (1, 1, 1))[2]
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-2 * np.abs(expected).max())


def test_the_machine_agrees_on_buffers_in_the_same_place():
    module = built(nested, ["n", "m"], {}, ("n", "m"))
    made = backend.compile(module, Options(num_warps=4), TARGET)
    arguments, _ = case(2, 2)
    expected = run_on_copies(lowered(["deallocate-shared"]), arguments, (1, 1, 1))[2]
    close(run_ptx(made, arguments, (1, 1, 1))[2], expected.astype(np.float64))


BODY = """
func.func @k(%x: tensor<8x16xf32>, %n: i32) {{
  %s = arith.constant 0 : i32
  %t = arith.constant 1 : i32
  %a = gpu.local_alloc : !gpu.shared<tensor<8x16xf32>, "8x16x4 dim1 swizzle0", 1>
  scf.for %i = %s to %n step %t : i32 {{
    {store}
    gpu.barrier
    {early}
    %y = gpu.local_load %a[%s] : !gpu.shared<tensor<8x16xf32>, "8x16x4 dim1 swizzle0", 1> to tensor<8x16xf32>
    {late}
    gpu.barrier
  }}
  func.return
}}
"""
STORE = 'gpu.local_store %x, %a[%s] : tensor<8x16xf32>, !gpu.shared<tensor<8x16xf32>, "8x16x4 dim1 swizzle0", 1>'
DEALLOC = 'gpu.local_dealloc %a : !gpu.shared<tensor<8x16xf32>, "8x16x4 dim1 swizzle0", 1>'


@pytest.mark.parametrize("early", [False, True])
def test_contents_end_at_the_deallocation(early):
    """Each iteration may write the buffer again, and none reads it after it was deallocated."""
    parts = {"store": STORE, "early": "", "late": DEALLOC}
    if early:
        parts |= {"early": DEALLOC, "late": ""}
    module = parse_ir(BODY.format(**parts))
    arguments = [np.zeros((8, 16), np.float32), 2]
    if early:
        with pytest.raises(InterpreterError, match="nothing has been written there"):
            run_on_copies(module, arguments, (1, 1, 1))
    else:
        run_on_copies(module, arguments, (1, 1, 1))
