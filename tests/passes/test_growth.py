"""What compilation costs grows with the size of a kernel: Python calls of the passes and of code generation."""

import gc
import sys

import pytest

import tilewright

HEAD = """
import tilewright
import tilewright.language as tl

@tilewright.jit
def kernel(x, rows, y, n, s, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.zeros((BLOCK,), tl.float32)
"""
BODIES = {
    "loads": "    a += tl.load(x + {i} * s + o, mask=o < n - {i}, other=0.0)\n",
    "gathers": (
        "    row = tl.load(rows + {i} * s + o, mask=o < n)\n"
        "    a += tl.load(x + row, mask=(o < n) & (row >= 0), other=0.0)\n"
    ),
    "reductions": "    a += tl.sum(tl.load(x + {i} * s + o, mask=o < n, other=0.0), 0)\n",
    "stores": "    tl.store(y + {i} * s + o, a + {i}, mask=o < n - {i})\n",
}
TYPES = {"x": "*fp32:16", "rows": "*i32:16", "y": "*fp32:16", "n": "i32", "s": "i32:16"}
LARGEST_RATIO = 4.2
"""Of calls for four times as many statements: an exponent of 1.04."""


def number_of_calls(kind, count):
    body = "".join(BODIES[kind].format(i=i) for i in range(count))
    text = f"{HEAD}{body}    tl.store(y + o, a, mask=o < n)\n"
    scope = {"__name__": f"growth_{kind}_{count}"}
    exec(compile(text, tilewright.register_source(text), "exec"), scope)
    calls = 0

    def noted(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    gc.collect()  # what other tests have left is not finalized meanwhile
    gc.disable()
    sys.setprofile(noted)
    try:
        scope["kernel"].compile(TYPES, {"BLOCK": 1024}, target="sm_90a", num_warps=4)
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


@pytest.mark.parametrize("kind", BODIES)
def test_calls_grow_linearly(kind, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "none")
    number_of_calls(kind, 1)  # imports
    few, many = (number_of_calls(kind, count) for count in (12, 48))
    assert many < LARGEST_RATIO * few, f"{few} -> {many}: {many / few:.2f}"


def test_constants_are_not_hashed_to_count_uses(monkeypatch):
    """llvmlite's constants are hashed and compared as text."""
    from llvmlite import ir

    from tilewright.backends.nvidia.lower import instruction_order

    hashed = []
    remove_dead, hash_of = instruction_order._remove_dead, ir.Constant.__hash__

    def removed(blocks):
        with monkeypatch.context() as within:
            within.setattr(ir.Constant, "__hash__", lambda c: hashed.append(c) or hash_of(c))
            remove_dead(blocks)

    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "none")
    monkeypatch.setattr(instruction_order, "_remove_dead", removed)
    number_of_calls("loads", 2)
    assert {type(constant) for constant in hashed}.isdisjoint({ir.Constant})
