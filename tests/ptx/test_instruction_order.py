"""The order of instructions between loads and a reduction: values are consumed one after another."""

import re

import numpy as np
from llvmlite import ir
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.lower import instruction_order
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction


def divergence(x, y, out, n, B: tl.constexpr):
    columns = tl.arange(0, B)
    total = 0.0
    for i in range(0, n, B):
        a = tl.load(x + i + columns, mask=i + columns < n, other=0.0)
        b = tl.load(y + i + columns, mask=i + columns < n, other=1.0)
        total += tl.sum(b * (tl.exp(b) - a), 0)
    tl.store(out, total)


def difference(x, y, out, n, B: tl.constexpr):
    columns = tl.arange(0, B)
    for i in range(0, n, B):
        a = tl.load(x + i + columns, mask=i + columns < n, other=0.0)
        b = tl.load(y + i + columns, mask=i + columns < n, other=1.0)
        tl.store(out + i + columns, tl.exp(b) - a, mask=i + columns < n)


def compiled(kernel, *disable):
    random = np.random.default_rng(1)
    arguments = [random.random(1984).astype(np.float32) for _ in range(3)]
    names = ("x", "y", "out")
    signature = {**{a: dtypes.pointer_type(dtypes.float32) for a in names}, "n": dtypes.int32}
    signature["B"] = constexpr(1024)
    divisible = {**dict.fromkeys(names, 16), "n": 16}
    text = str(build(KernelFunction(kernel), signature, divisible).module)
    expected = run_on_copies(parse_ir(text), [*arguments, 1984], (1, 1, 1))
    options = Options(num_warps=1, disable=("strip-mine-tiles", "batch-loads", *disable))
    artifact = backend.compile(parse_ir(text), options, target_info("sm_90a"))
    found = run_ptx(artifact, [*arguments, 1984], (1,))
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5)
    return artifact


def kinds(artifact):
    """Loads (l), exponentials (g) and stores (s) in their order."""
    pattern = r"(ld)\.global\.v4|(ex2)\.approx|(st)\.global\.v4"
    letters = {"ld": "l", "ex2": "g", "st": "s"}
    found = re.finditer(pattern, artifact.asm["ptx"])
    return "".join(letters[next(filter(None, m.groups()))] for m in found)


def test_what_is_reduced_is_consumed_load_by_load():
    artifact = compiled(divergence)
    order = kinds(artifact)
    assert "gl" in order and not order.startswith("l" * 9)
    assert kinds(compiled(divergence, "order-instructions")).startswith("l" * 16)


def test_loads_come_before_stores():
    """A load behind a store would wait for it: what is stored is all there in front of the first store."""
    assert re.fullmatch("(l{16}g{32}s{8})+", kinds(compiled(difference)))


def test_results_that_nobody_uses_are_not_live():
    """Chains without users go, also where a phi of another block or a store uses parts of them."""
    word = ir.IntType(32)
    function = ir.Function(
        ir.Module(), ir.FunctionType(ir.VoidType(), [word, word.as_pointer()]), "f"
    )
    value, pointer = function.args
    entry, end = function.append_basic_block(), function.append_basic_block()
    b = ir.IRBuilder(entry)
    stored, carried = b.add(value, value), b.mul(value, value)
    b.xor(b.sub(stored, value), carried)
    b.load(pointer)
    b.store(stored, pointer)
    b.branch(end)
    b = ir.IRBuilder(end)
    phi = b.phi(word)
    phi.add_incoming(carried, entry)
    b.store(phi, pointer)
    b.or_(phi, value)
    b.ret_void()
    instruction_order._remove_dead(function.blocks)
    names = [[i.opname for i in block.instructions] for block in function.blocks]
    assert names == [["add", "mul", "load", "store", "br"], ["phi", "store", "ret void"]]
