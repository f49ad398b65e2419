"""What a GPU's program does in shared memory: every wait and barrier that is left out is noticed."""

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.errors import InterpreterError
from tilewright.frontend import build
from tilewright.interpreter.executor import run_module
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline

BUFFER = '!gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 2>'
OTHER = '!gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle32", 1>'
A, B, C = "tensor<64x16xf16>", "tensor<16x16xf16>", "tensor<64x16xf32>"
START = f"""
  %a = tile.splat %h : f16 to {A}
  %b = tile.splat %h : f16 to {B}
  %c = tile.splat %s : f32 to {C}
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  %x = gpu.local_alloc : {BUFFER}
  %y = gpu.local_alloc : {OTHER}
"""
STORE_A = f"gpu.local_store %a, %x[%0] : {A}, {BUFFER}"
STORE_B = f"gpu.local_store %b, %y[%0] : {B}, {OTHER}"
MULTIPLY = f'%d = gpu.wgmma "wgmma.k16.f16" %x[%0], %y[%0], %c : {BUFFER}, {OTHER}, {C} to {C}'
WAIT = f"%e = gpu.wgmma_wait %d, 0 : i32 : {C} to {C}"
USE = f"%f = arith.addf %e, %e : {C}"
EARLY_USE = f"%f = arith.addf %d, %d : {C}"
BARRIER = "gpu.barrier"


def run(*lines):
    text = "func.func @k(%h: f16, %s: f32) {" + START + "\n".join(lines) + "\nfunc.return\n}"
    run_module(parse_ir(text), [1.0, 0.0], (1,))


def test_a_product():
    run(STORE_A, STORE_B, BARRIER, MULTIPLY, WAIT, USE, BARRIER, STORE_A)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((STORE_B, BARRIER, MULTIPLY), "gpu.wgmma reads stage 0 of x, but nothing has been written"),
        ((STORE_A, STORE_B, MULTIPLY), "gpu.wgmma reads stage 0 of x, but .*gpu.barrier is missing"),
        ((STORE_A, STORE_B, BARRIER, MULTIPLY, EARLY_USE), "arith.addf uses the accumulator of an MMA in flight"),
        ((STORE_A, STORE_B, BARRIER, MULTIPLY, STORE_A), "a product reads: a gpu.wgmma_wait is miss"),
        ((STORE_A, STORE_B, BARRIER, MULTIPLY, WAIT, STORE_A), "may still read: a gpu.barrier"),
        ((STORE_A, STORE_A), "writes stage 0 of x again without a gpu.barrier"),
        ((STORE_A.replace("%0", "%h2"),), "stage 5 of 2"),
    ],
)  # fmt: skip
def test_what_is_missing(lines, message):
    lines = ["%h2 = arith.constant 5 : i32", *lines]
    with pytest.raises(InterpreterError, match=message):
        run(*lines)


def matmul(a, b, c, k, K: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    rows, columns, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for i in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (i + ks)[None, :])
        y = tl.load(b + (i + ks)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def pipelined(target, boxes, kernel=None, roles=False):
    half = dtypes.pointer_type(dtypes.float16)
    signature = {"a": half, "b": half, "c": dtypes.pointer_type(dtypes.float32),
                 "k": dtypes.int32, "K": constexpr(16), "N": constexpr(64), "M": constexpr(64)}  # fmt: skip
    divisible = {name: 16 for name in ("a", "b", "c", "k")}
    module = build(KernelFunction(kernel or matmul), signature, divisible).module
    function = module.body.block.first_op
    function.attributes["gpu.num_stages"] = IntegerAttr(3, i32)
    options = {"pipeline-loads": {"tma": boxes}, "specialize-warps": {"all_loops": roles}}
    passes = [type(p)(**options[p.name]) if p.name in options else p for p in nvidia_passes()]
    run_pipeline(module, passes, target_info(target))
    return module


def arrays():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((64, 128), (128, 64)))
    return a, b, np.zeros((64, 64), np.float32)


@pytest.mark.parametrize(
    ("boxes", "roles"), [(True, False), (False, False), (True, True)], ids=["boxes", "threads", "roles"]
)  # fmt: skip
def test_pipelines_need_each_of_their_waits_and_barriers(boxes, roles):
    a, b, c = arrays()
    module = pipelined("sm_90a", boxes, roles=roles)
    assert ("gpu.producer_warp" in str(module)) == roles
    run_module(module, [a, b, c, 128], (1,))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)
    kinds = (
        "gpu.barrier",
        "gpu.async_wait",
        "gpu.mbarrier_wait",
        "gpu.wgmma_wait",
        "gpu.mbarrier_arrive",
    )
    count = sum(op.name in kinds for op in module.walk())
    assert count >= 3
    for number in range(count):
        broken = module.clone()
        op = [op for op in broken.walk() if op.name in kinds][number]
        if op.results:
            op.results[0].replace_all_uses_with(op.operands[0])
        op.detach()
        op.erase()
        with pytest.raises(InterpreterError):
            run_module(broken, [*arrays(), 128], (1,))


def test_copies_land_as_late_as_their_waits_allow():
    """What a program writes while a copy of it is in flight arrives in the copy."""
    module = pipelined("sm_90a", False)
    waits = [op for op in module.walk() if op.name == "gpu.async_wait"]
    assert waits
    waits[0].properties["pending"] = IntegerAttr(2, i32)  # one group more than there may be
    with pytest.raises(
        InterpreterError, match=r"an async copy to it is in flight \(missing gpu\.async_wait\)"
    ):
        run_module(module, [*arrays(), 128], (1,))


def writes_ahead(a, b, c, k, K: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    rows, columns, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for i in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (i + ks)[None, :])
        y = tl.load(b + (i + ks)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
        following = i + K + ks
        ones = tl.full((M, K), 1.0, tl.float16)
        tl.store(a + rows[:, None] * k + following[None, :], ones, mask=(following < k)[None, :])
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def writes_before(a, b, c, k, K: tl.constexpr, N: tl.constexpr, M: tl.constexpr):
    rows, columns, ks = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    tl.store(a + rows[:, None] * k + ks[None, :], tl.full((M, K), 1.0, tl.float16))
    for i in range(0, k, K):
        x = tl.load(a + rows[:, None] * k + (i + ks)[None, :])
        y = tl.load(b + (i + ks)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total)


def test_operands_that_the_loop_writes_are_not_fetched_ahead():
    a, b, c = arrays()
    module = pipelined("sm_90a", True, writes_ahead)
    assert not any(op.name == "gpu.mbarrier_init" for op in module.walk())
    run_module(module, [a.copy(), b, c, 128], (1,))
    a[:, 16:] = 1
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)


def test_a_copy_of_what_is_written_meanwhile_is_a_fault(monkeypatch):
    from tilewright.passes.gpu.analysis import copy_engines, loop_dots

    for module in (loop_dots, copy_engines):
        monkeypatch.setattr(module, "may_clobber", lambda *_: False)
    module = pipelined("sm_90a", True, writes_ahead)
    with pytest.raises(InterpreterError, match="what it copies was written meanwhile"):
        run_module(module, [*arrays(), 128], (1,))


def test_what_the_kernel_wrote_is_copied_by_threads_after_a_barrier():
    module = pipelined("sm_90a", True, writes_before)
    names = [op.name for op in module.body.block.first_op.body.block.ops]
    assert "gpu.mbarrier_init" not in names
    assert (
        names.index("tile.store_view") < names.index("gpu.barrier") < names.index("gpu.async_copy")
    )


OUT = '!gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 2>'
SEND = f"""
  %w = arith.constant 16 : i64
  %h2 = arith.constant 60 : i64
  %z = arith.constant 0 : i64
  "gpu.tma_store"(%p, %w, %h2, %w, %z, %z, %x, %0) <{{range_checked = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, {OUT}, i32) -> ()
"""
RELEASE = f"gpu.local_dealloc %x : {OUT}"
HAS_BEEN_READ = f"gpu.tma_store_wait %x : {OUT}"
IS_WRITTEN = f"gpu.tma_store_wait %x complete : {OUT}"


def send(*lines):
    """A program that fills a stage with ones and does what `lines` say; memory afterwards."""
    text = "func.func @k(%p: !tile.ptr<f16>, %h: f16, %s: f32) {" + START
    text += "\n".join((*lines, "func.return\n}"))
    memory = np.zeros((64, 16), np.float16)
    run_module(parse_ir(text), [memory, 1.0, 0.0], (1,))
    return memory


def test_a_box_is_stored():
    wanted = np.ones((64, 16))
    wanted[60:] = 0  # beyond the matrix
    np.testing.assert_array_equal(send(STORE_A, BARRIER, SEND, HAS_BEEN_READ), wanted)
    again = (IS_WRITTEN, BARRIER, STORE_A, BARRIER, SEND.replace("%w", "%w2").replace("%h2", "%h3").replace("%z", "%z2"), IS_WRITTEN)  # fmt: skip
    np.testing.assert_array_equal(send(STORE_A, BARRIER, SEND, *again), wanted)


LAST_BUT_ONE = f"gpu.tma_store_wait %x pending 1 : i32 : {OUT}"
SECOND = SEND.replace("%0)", "%1)").replace("%w", "%w2").replace("%h2", "%h3").replace("%z", "%z2")


def test_all_boxes_but_the_last_are_waited_for():
    both = (STORE_A, STORE_A.replace("%0]", "%1]"), BARRIER, SEND, SECOND, LAST_BUT_ONE, BARRIER)
    again = SEND.replace("%w", "%w4").replace("%h2", "%h4").replace("%z", "%z4")
    assert send(*both, STORE_A, BARRIER, again, HAS_BEEN_READ)[0, 0] == 1
    with pytest.raises(InterpreterError, match="is being stored to memory"):
        send(*both, STORE_A.replace("%0]", "%1]"), HAS_BEEN_READ)


def test_a_box_is_not_there_before_a_wait():
    look = "%f = tile.load %p : !tile.ptr<f16> to f16\n tile.store %p, %f : !tile.ptr<f16>, f16"
    assert send(STORE_A, BARRIER, SEND, IS_WRITTEN, look)[0, 0] == 1
    early = "%q = tile.addptr %p, %w : !tile.ptr<f16>, i64 to !tile.ptr<f16>\n"
    early += "%f = tile.load %q : !tile.ptr<f16> to f16\n tile.store %p, %f : !tile.ptr<f16>, f16"
    assert send(STORE_A, BARRIER, SEND, early, HAS_BEEN_READ)[0, 0] == 1  # the box comes last


def test_boxes_in_flight_have_no_order():
    twos = f"%twos = arith.addf %a, %a : {A}"
    both = (STORE_A, twos, STORE_A.replace("%a", "%twos").replace("%0]", "%1]"), BARRIER, SEND)
    assert send(*both, SECOND, HAS_BEEN_READ)[0, 0] == 1  # the first may come last
    assert send(*both, IS_WRITTEN, SECOND, HAS_BEEN_READ)[0, 0] == 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((STORE_A, SEND, HAS_BEEN_READ), "gpu.tma_store reads stage 0 of x, but .*gpu.barrier is missing"),
        ((SEND, HAS_BEEN_READ), "gpu.tma_store reads stage 0 of x, but nothing has been written"),
        ((STORE_A, BARRIER, SEND), "ends the program while TMA stores read its shared memory"),
        ((STORE_A, BARRIER, SEND, STORE_A), "is being stored to memory: a gpu.tma_store_wait is missing"),
        ((STORE_A, BARRIER, SEND, RELEASE), "gives back stage 0 of x, at which something is in flight"),
        ((STORE_A, RELEASE, STORE_B), "perhaps in the place of .*gpu.barrier is missing"),
        ((STORE_A, RELEASE, BARRIER, STORE_A), "writes stage 0 of x, which has been released"),
        ((STORE_A, BARRIER, SEND, HAS_BEEN_READ, STORE_A), "others may still read: a gpu.barrier"),
    ],
)  # fmt: skip
def test_what_a_store_of_boxes_lacks(lines, message):
    with pytest.raises(InterpreterError, match=message):
        send(*lines)
