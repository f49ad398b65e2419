"""What passes claim: written on the operations that rely on it, and without effect on code."""

import random

import numpy as np
import pytest
from tests.in_place_kernels import KERNELS, B
from tests.random.programs import generate
from tests.run_on_copies import run_on_copies
from xdsl.dialects.builtin import IntegerAttr, i32

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.cpu import codegen as cpu_code
from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.backends.cpu.target import host_target
from tilewright.backends.nvidia import codegen as gpu_code
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import tile
from tilewright.errors import ClaimError
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.manager import run_pipeline

POINTER, INT = dtypes.pointer_type(dtypes.float32), dtypes.int32
CPU = host_target()


def scaled_rows(x, y, n, m, B: tl.constexpr):
    """Limits in a loop, a group with limits in two dimensions, and wrapped rows."""
    r, c = tl.arange(0, 16), tl.arange(0, B)
    for i in range(n):
        at = i * B + c
        tl.store(y + at, tl.load(x + at, mask=at < m, other=0.0) * 2.0, mask=at < m)
    rows = (r[:, None] + tl.program_id(0) * 16) % n
    v = tl.load(x + rows * B + c[None, :], mask=c[None, :] < m)
    tl.store(y + r[:, None] * B + c[None, :], v, mask=(c[None, :] < m) & (r[:, None] < n))


def sums_in_memory(x, y, n, m, B: tl.constexpr):
    c = tl.arange(0, B)
    for i in range(n):
        tl.store(y + c, tl.load(y + c) + tl.load(x + c + i * B))


def exponentials(x, y, n, m, B: tl.constexpr):
    """Lanes beyond `m` are uniform."""
    c = tl.arange(0, B)
    v = tl.load(x + c, mask=c < m, other=0.0)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + c, e / tl.sum(e, 0), mask=c < m)


def lowered(function, passes, target, kind=POINTER, **constants):
    names = ("x", "y", *(("n", "m") if kind is POINTER else ("s", "t")))
    signature = dict(zip(names, (kind, kind, INT, INT), strict=True))
    signature |= {name: dtypes.constexpr(value) for name, value in constants.items()}
    module = build(KernelFunction(function), signature, {"x": 16, "y": 16}).module
    module.body.block.first_op.attributes["gpu.num_warps"] = IntegerAttr(4, i32)
    run_pipeline(module, passes, target)
    return module


def found(module):
    return {(by, claim) for op in module.walk() for by, claim, _ in tile.claims_of(op)}


def without_claims(module):
    copy = module.clone()
    for op in list(copy.walk()):
        op.attributes.pop("tile.assumes", None)
        if isinstance(op, tile.ClaimOp):
            op.parent.erase_op(op)
    return copy


@pytest.mark.parametrize(("function", "expected"), [
    (scaled_rows, {("vectorize", "in_range"), ("vectorize", "unwrapped"), ("vectorize", "in_order")}),
    (exponentials, {("vectorize", "uniform"), ("vectorize", "in_range")}),
    (sums_in_memory, {("vectorize", "in_order"), ("vectorize", "order")}),
])  # fmt: skip
def test_claims_on_a_cpu(function, expected):
    assert expected <= found(lowered(function, cpu_passes(), CPU, B=512))


@pytest.mark.parametrize(("function", "expected"), [
    (scaled_rows, {("raise-access", "nonnegative"), ("partition-loops", "in_range"), ("vectorize-accesses", "aligned"),
                   ("batch-loads", "in_order"), ("batch-loads", "order_each")}),
    (sums_in_memory, {("promote-accumulator", "exclusive"), ("promote-accumulator", "distinct_lanes")}),
])  # fmt: skip
def test_claims_on_a_gpu(function, expected):
    assert expected <= found(lowered(function, nvidia_passes(), target_info("sm_80"), B=512))


def emitted(module, code, target):
    """LLVM IR without the numbers of its values."""
    return str(code.emit_module(module, target, True)[1])


@pytest.mark.parametrize("function", [scaled_rows, sums_in_memory, exponentials, *KERNELS[::3]])
def test_claims_do_not_change_code(function):
    kind = POINTER if function.__module__ == __name__ else dtypes.pointer_type(INT)
    for passes, target, code in (
        (cpu_passes(), CPU, cpu_code),
        (nvidia_passes(), target_info("sm_90a"), gpu_code),
    ):
        module = lowered(function, passes, target, kind, B=B)
        assert emitted(module, code, target) == emitted(without_claims(module), code, target)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_keep_what_is_claimed(seed):
    """After all passes, too, the interpreter finds that all claims hold."""
    program = generate(random.Random(seed))
    function = KernelFunction(program.function())
    for passes, target in ((cpu_passes(), CPU), (nvidia_passes(), target_info("sm_80"))):
        module = build(function, program.signature(), program.divisible()).module
        module.body.block.first_op.attributes["gpu.num_warps"] = IntegerAttr(4, i32)
        before = run_on_copies(module, list(program.arguments.values()), program.grid)
        run_pipeline(module, passes, target)
        after = run_on_copies(module, list(program.arguments.values()), program.grid)
        program.compare(before, after)


def test_a_false_claim_names_the_line():
    module = lowered(exponentials, nvidia_passes(), target_info("sm_80"), B=512)
    load = next(op for op in module.walk() if isinstance(op, tile.LoadViewOp))
    tile.assume(load, "vectorize-accesses", aligned=[4096])
    arguments = [np.zeros(2048, np.float32)[256:], np.zeros(512, np.float32), 1, 512]
    with pytest.raises(ClaimError, match="vectorize-accesses claims 'aligned'") as caught:
        tile.assume(load, "vectorize-accesses", aligned=[1 << 20], contiguous=[0, 4])
        run_on_copies(module, arguments, (1, 1, 1))
    assert caught.value.location is not None and "test_claims.py" in str(caught.value.location)
