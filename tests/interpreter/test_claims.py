"""Claims of passes (`tile.assumes`) that do not hold are reported by the interpreter, those that hold are not."""

import numpy as np
import pytest
from tests.run_on_copies import run_on_copies

from tilewright.dialects import tile
from tilewright.errors import ClaimError
from tilewright.ir.text import parse_ir

LOAD = '<{kinds = ["strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0>}>'
STORE = LOAD.replace("0>}>", "1>}>")
WRAPPED = '<{kinds = ["wrapped"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0>}>'
LIMITED = '<{kinds = ["strided"], limited = array<i64: 0>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 1, 0, 0>}>'
ON_LOAD = ": (!tile.ptr<f32>, i64) -> tensor<64xf32>"
ON_STORE = ": (!tile.ptr<f32>, i64, tensor<64xf32>) -> ()"
ONE_LOAD = f'%x = "tile.load_view"(%q, %s) {LOAD} {{tile.assumes = #tile.assumes<"a-pass" [CLAIM]>}} {ON_LOAD}'


def run(body, k=0, s=1, n=64):
    """A kernel on 512 numbers at %p; %q is `k` elements on, %s and %n are scalars."""
    text = f"""builtin.module {{
      func.func @kernel(%p: !tile.ptr<f32> {{tile.name = "x"}}, %k: i64, %s: i64, %n: i64) {{
        %zero = arith.constant 0 : i64
        %one = arith.constant 1 : i64
        %two = arith.constant 2 : i64
        %q = tile.addptr %p, %k : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        {body}
        func.return
      }}
    }}"""
    module = parse_ir(text)
    assert str(parse_ir(str(module))) == str(module)
    run_on_copies(module, [np.arange(512, dtype=np.float32), k, s, n], (1, 1, 1))


def one_load(claim):
    return ONE_LOAD.replace("CLAIM", claim)


def wrapped(claim):
    return (
        f'%x = "tile.load_view"(%p, %one, %k, %n) {WRAPPED} {{tile.assumes = #tile.assumes<"a-pass" '
        f"[{claim}]>}} : (!tile.ptr<f32>, i64, i64, i64) -> tensor<64xf32>"
    )


def limited(claim):
    return (
        f'%x = "tile.load_view"(%p, %s, %n) {LIMITED} {{tile.assumes = #tile.assumes<"a-pass" [{claim}]>}}'
        " : (!tile.ptr<f32>, i64, i64) -> tensor<64xf32>"
    )


UNIFORM = """%a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %w = tile.splat %s : i64 to tensor<64xi64>
  %b = arith.extsi %a : tensor<64xi32> to tensor<64xi64>
  %y = arith.muli %b, %w {tile.assumes = #tile.assumes<"a-pass" [uniform]>} : tensor<64xi64>"""

EXCLUSIVE = f"""%x = "tile.load_view"(%p, %one) {LOAD} {{tile.assumes = #tile.assumes<"a-pass" [exclusive = [5]]>}} {ON_LOAD}
  scf.for %i = %zero to %two step %one : i64 {{
    "tile.store_view"(%q, %s, %x) {STORE} {ON_STORE}
  }} {{tile.assumes = #tile.assumes<"a-pass" [exclusive = [5]]>}}
  "tile.store_view"(%p, %one, %x) {STORE} {ON_STORE}"""

ORDER = f"""tile.claim <"a-pass" [order = [2]]>
  scf.for %i = %zero to %two step %one : i64 {{
    %j = arith.muli %i, %n : i64
    %r = tile.addptr %p, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %t = tile.addptr %r, %k : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = "tile.load_view"(%r, %one) {LOAD} {{tile.assumes = #tile.assumes<"a-pass" [in_order = [2, 0]]>}} {ON_LOAD}
    "tile.store_view"(%t, %s, %x) {STORE} {{tile.assumes = #tile.assumes<"a-pass" [in_order = [2, 1]]>}} {ON_STORE}
  }}"""

EACH = ORDER.replace('tile.claim <"a-pass" [order = [2]]>', "").removesuffix("}") + (
    '} {tile.assumes = #tile.assumes<"a-pass" [order_each = [2]]>}'
)

CASES = {
    # claim: (body, arguments with which it holds, arguments with which it does not, a part of the report)
    "nonnegative start": (wrapped("nonnegative"), {"k": 3}, {"k": -3}, "starts at -3"),
    "nonnegative size": (wrapped("nonnegative"), {"n": 9}, {"n": -64}, "wraps around at -64"),
    "aligned": (one_load("aligned = [16]"), {"k": 4}, {"k": 2}, "'x' elements 2"),
    "contiguous": (one_load("contiguous = [0, 4]"), {}, {"s": 2}, "not consecutive"),
    "contiguous live lanes": (limited("contiguous = [0, 4]"), {"n": 3, "s": 2}, {"n": 4, "s": 2}, "(0,)"),
    "distinct_lanes": (one_load("distinct_lanes"), {}, {"s": 0}, "other lanes"),
    "uniform": (UNIFORM, {"s": 0}, {"s": 1}, "lane 1 of arith.muli is 1"),
    "exclusive": (EXCLUSIVE, {"k": 64}, {"k": 63}, "'x' elements 63"),
    "in_order": (ORDER, {"k": 128}, {"k": 64}, "'x' elements 64"),
    "in_order of one address": (ORDER, {"n": 0, "k": 64}, {"n": 0, "k": 0}, "lanes (0,)"),
    "order_each": (EACH, {"k": 64}, None, ""),
    "in_range": ('tile.claim <"a-pass" [in_range = [64, 0]]> of %n : i64', {}, {"n": 63}, "63 is less"),
    "in_range of a loop": (
        'tile.claim <"a-pass" [in_range = [4, -8]]> of %n, %k, %s : i64, i64, i64',
        {"k": 7, "n": 60}, {"k": 8, "n": 60}, "-4 is less than 4",
    ),
    "unwrapped": (
        'tile.claim <"a-pass" [unwrapped = [16]]> of %k, %n : i64, i64', {"k": 112}, {"k": 113}, "113 % 64",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_claims(name):
    body, holds, fails, report = CASES[name]
    run(body, **holds)
    if fails is None:
        return
    with pytest.raises(ClaimError) as caught:
        run(body, **fails)
    assert caught.value.claim == name.split()[0] and caught.value.by == "a-pass"
    assert report in str(caught.value) and "program (0, 0, 0)" in str(caught.value)


def test_every_claim_has_a_test():
    tested = {name.split()[0] for name in CASES} | {"order"}
    assert tested == set(tile.claims.MEANING)


ORDERED = """builtin.module {{
  func.func @kernel(%p: !tile.ptr<f32>, %k: i64, %s: i64) attributes {{gpu.barriers_inserted, gpu.num_warps = 2 : i32}} {{
    %q = tile.addptr %p, %k : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = "tile.load_view"(%p, %s) {load} : (!tile.ptr<f32>, i64) -> tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    {barrier}
    "tile.store_view"(%q, %s, %x) {store} : (!tile.ptr<f32>, i64, tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">) -> ()
    func.return
  }}
}}"""


@pytest.mark.parametrize(("barrier", "k", "fails"), [
    ("", 0, False), ("", 64, False), ("", 1, True), ("", 32, True), ("gpu.barrier", 1, False),
])  # fmt: skip
def test_barriers_that_are_missing(barrier, k, fails):
    """Accesses of one array by two warps, of which one writes."""
    module = parse_ir(ORDERED.format(load=LOAD, store=STORE, barrier=barrier))
    arguments = [np.arange(256, dtype=np.float32), k, 1]
    if not fails:
        run_on_copies(module, arguments, (1, 1, 1))
        return
    with pytest.raises(ClaimError, match="insert-barriers claims 'ordered'"):
        run_on_copies(module, arguments, (1, 1, 1))


def test_unknown_claims_are_no_ir():
    with pytest.raises(Exception, match="unknown claim 'wishful'"):
        run(one_load("wishful"))
