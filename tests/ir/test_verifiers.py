"""Verifiers refuse what code generation or the hardware would silently do wrong."""

import textwrap

import pytest

from tilewright.errors import PassError
from tilewright.ir.text import parse_ir, verify_ir
from tilewright.layouts.shared import parse_shared

ROW = '"128 r[1 64] l[2 4 8 16 32] w[]"'
GAP = '"128 r[1 8] l[2 4 16 32 64] w[]"'
OTHER = '"128 r[1 2] l[4 8 16 32 64] w[]"'
SQUARE = '"16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"'
FLIPPED = '"16x16 r[1,0 0,8 8,0] l[2,0 4,0 0,1 0,2 0,4] w[]"'
HALF = '"16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]"'
SUMS = '"64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"'
A = '!gpu.shared<tensor<64x32xf16>, "64x32x2 dim1 swizzle64", 1>'
B = '!gpu.shared<tensor<32x16xf16>, "32x16x2 dim1 swizzle32", 1>'
MATRIX = "%p, %n, %n, %n, %n, %n"
TYPES = "!tile.ptr<f16>, i64, i64, i64, i64, i64"


def function(arguments, body):
    lines = textwrap.indent(textwrap.dedent(body).strip(), "  ")
    return f"func.func @k({arguments}) {{\n{lines}\n  func.return\n}}"


def box(buffer, barriers="1", branch="%e"):
    bytes_ = parse_shared(buffer.split('"')[1]).bytes
    return function(
        "%p: !tile.ptr<f16>, %n: i64, %s: i32, %yes: i1",
        f"""
        %a = gpu.local_alloc : {buffer}
        %b = gpu.mbarrier_init : !gpu.mbarriers<{barriers}>
        %e = gpu.elect : i1
        scf.if {branch} {{
          gpu.mbarrier_arrive_expect_tx %b[%s], {bytes_} : i32 : !gpu.mbarriers<{barriers}>
          "gpu.tma_load"({MATRIX}, %a, %b, %s) <{{range_checked = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}}> : ({TYPES}, {buffer}, !gpu.mbarriers<{barriers}>, i32) -> ()
        }}
        """,
    )


def arrivals(warps):
    body = f"""
        %b = gpu.mbarrier_init {warps}: !gpu.mbarriers<2>
        gpu.mbarrier_arrive %b[%s], %yes : !gpu.mbarriers<2>
        """
    text = function("%s: i32, %yes: i1", body)
    return text.replace(") {", ") attributes {gpu.num_warps = 4 : i32} {", 1)


def product(instruction, a=A, b=B, sums=SUMS):
    kind = f"tensor<64x16xf32, {sums}>"
    return function(
        f"%c: {kind}, %s: i32",
        f"""
        %a = gpu.local_alloc : {a}
        %b = gpu.local_alloc : {b}
        %d = gpu.wgmma "{instruction}" %a[%s], %b[%s], %c : {a}, {b}, {kind} to {kind}
        """,
    )


RIGHT = {
    "mask": function(
        f"%x: tensor<128xi64, {ROW}>, %m: tensor<128xi1, {ROW}>",
        f"%h = tile.histogram %x mask %m : tensor<128xi1, {ROW}> : tensor<128xi64, {ROW}> to tensor<4xi32, \"4 r[] l[1 2 0 0 0] w[]\">",
    ),
    "broadcast": function(
        "%x: tensor<1x16xf32, \"1x16 r[0,1 0,0 0,8] l[0,2 0,4 0,0 0,0 0,0] w[]\">",
        f"%y = tile.broadcast %x : tensor<1x16xf32, \"1x16 r[0,1 0,0 0,8] l[0,2 0,4 0,0 0,0 0,0] w[]\"> to tensor<16x16xf32, {SQUARE}>",
    ),
    "trans": function(
        f"%x: tensor<16x16xf32, {SQUARE}>",
        f"%y = tile.trans %x, [1, 0] : tensor<16x16xf32, {SQUARE}> to tensor<16x16xf32, {FLIPPED}>",
    ),
    "box": box(A),
    "part": function(
        f"%x: tensor<16x16xf32, {SQUARE}>",
        f"%y = gpu.extract_slice %x {{start = array<i64: 0, 8>}} : tensor<16x16xf32, {SQUARE}> to tensor<16x8xf32, {HALF}>",
    ),
    "arrivals": arrivals("of 4 : i32 "),
    "product": product("wgmma.k16.f16"),
}  # fmt: skip

WRONG = {
    "mask of another layout": (
        function(
            f"%x: tensor<128xi64, {ROW}>, %m: tensor<128xi1, {OTHER}>",
            f"%h = tile.histogram %x mask %m : tensor<128xi1, {OTHER}> : tensor<128xi64, {ROW}> to tensor<4xi32, \"4 r[] l[1 2 0 0 0] w[]\">",
        ),
        "tile.histogram: tiles that are taken together differ in layout",
    ),
    "cast changes the layout": (
        function(
            f"%x: tensor<128xf16, {ROW}>",
            f"%y = arith.extf %x : tensor<128xf16, {ROW}> to tensor<128xf32, {OTHER}>",
        ),
        "arith.extf: shapes or layouts differ",
    ),
    "condition of another layout": (
        function(
            f"%m: tensor<128xi1, {OTHER}>, %x: tensor<128xf32, {ROW}>",
            f"%y = tile.select %m, %x, %x : tensor<128xi1, {OTHER}>, tensor<128xf32, {ROW}>, tensor<128xf32, {ROW}> to tensor<128xf32, {ROW}>",
        ),
        "tile.select: tiles that are taken together differ",
    ),
    "row where the threads do not look": (
        function(
            "%x: tensor<1x16xf32, \"1x16 r[0,1 0,2 0,4 0,8] l[0,0 0,0 0,0 0,0 0,0] w[]\">",
            f"%y = tile.broadcast %x : tensor<1x16xf32, \"1x16 r[0,1 0,2 0,4 0,8] l[0,0 0,0 0,0 0,0 0,0] w[]\"> to tensor<16x16xf32, {SQUARE}>",
        ),
        "tile.broadcast: the threads do not have what the result needs",
    ),
    "transposed in name only": (
        function(
            f"%x: tensor<16x16xf32, {SQUARE}>",
            f"%y = tile.trans %x, [1, 0] : tensor<16x16xf32, {SQUARE}> to tensor<16x16xf32, {SQUARE}>",
        ),
        "tile.trans: the threads do not have",
    ),
    "operand that is no fragment": (
        function(
            f"%a: tensor<16x16xf16, {SQUARE}>, %b: tensor<16x16xf16, {FLIPPED}>, %c: tensor<16x16xf32, {SQUARE}>",
            f'%d = tile.dot %a, %b, %c, "ieee" {{gpu.mma = "m16n8k16.f16"}} : tensor<16x16xf16, {SQUARE}>, tensor<16x16xf16, {FLIPPED}>, tensor<16x16xf32, {SQUARE}> to tensor<16x16xf32, {SQUARE}>',
        ),
        "tile.dot: m16n8k16.f16 wants",
    ),
    "scan across lanes with a gap": (
        function(
            f"%x: tensor<128xi32, {GAP}>",
            f"""
            %y = "tile.scan"(%x) <{{axis = 0 : i64, reverse = false}}> ({{
            ^bb0(%a: i32, %b: i32):
              %c = arith.addi %a, %b : i32
              tile.yield %c : i32
            }}) : (tensor<128xi32, {GAP}>) -> tensor<128xi32, {GAP}>
            """,
        ),
        "tile.scan: no thread has a run along 0",
    ),
    "elements left out": (
        function(
            "%x: tensor<128xf32, \"128 r[1] l[2 4 8 16 32] w[]\">",
            "%y = tile.hint %x, \"multiple_of\", [1] : tensor<128xf32, \"128 r[1] l[2 4 8 16 32] w[]\"> to tensor<128xf32, \"128 r[1] l[2 4 8 16 32] w[]\">\n"
            "%z = tile.bitcast %x : tensor<128xf32, \"128 r[1] l[2 4 8 16 32] w[]\"> to tensor<128xi32, \"128 r[1] l[2 4 8 16 32] w[]\">",
        ),
        "the layout leaves elements out",
    ),
    "part that begins in another": (
        function(
            f"%x: tensor<16x16xf32, {SQUARE}>",
            f"%y = gpu.extract_slice %x {{start = array<i64: 0, 4>}} : tensor<16x16xf32, {SQUARE}> to tensor<16x8xf32, {HALF}>",
        ),
        "begins at (0, 4)",
    ),
    "part that threads share out": (
        function(
            f"%x: tensor<16x16xf32, {SQUARE}>",
            f'%y = gpu.extract_slice %x {{start = array<i64: 8, 0>}} : tensor<16x16xf32, {SQUARE}> to tensor<8x16xf32, "8x16 r[0,1 0,8] l[0,2 0,4 1,0 2,0 4,0] w[2,0]">',
        ),
        "gpu.extract_slice: threads have no such part",
    ),
    "box by every thread": (box(A, branch="%yes"), "every thread would do it: a gpu.elect is missing"),
    "box of part of a pattern": (
        box('!gpu.shared<tensor<4x32xf16>, "4x32x2 dim1 swizzle64", 1>'),
        "ends inside the pattern",
    ),
    "box of padded lines": (
        box('!gpu.shared<tensor<64x32xf16>, "64x32x2 dim1 pad8", 1>'),
        "lines with gaps",
    ),
    "panels of boxes out of line": (
        box('!gpu.shared<tensor<4x24xf16>, "4x24x2 dim1 swizzle0", 1>'),
        "a TMA tile starts at a multiple of 128 bytes",
    ),
    "fewer bytes than boxes": (
        box(A).replace("4096 : i32", "2048 : i32"),
        "gpu.mbarrier_arrive_expect_tx: 2048 bytes expected, TMA tiles of 4096 bytes",
    ),
    "more bytes than boxes": (
        box(A).replace("4096 : i32", "8192 : i32"),
        "gpu.mbarrier_arrive_expect_tx: 8192 bytes expected, TMA tiles of 4096 bytes",
    ),
    "arrivals at barriers of bytes": (
        arrivals(""), "gpu.mbarrier_arrive: barriers that wait for bytes, not for warps",
    ),
    "fewer warps than are waited for": (arrivals("of 8 : i32 "), "warps arrive where"),
    "barrier of one thread": (
        function("%s: i32", "%e = gpu.elect : i1\nscf.if %e {\n  gpu.barrier\n}"),
        "gpu.elect: gpu.barrier by one thread",
    ),
    "fewer barriers than stages": (box(A.replace(", 1>", ", 2>")), "2 stages, 1 barriers"),
    "barrier in a warp of its own": (
        function("%s: i32", "gpu.producer_warp {\n  gpu.barrier\n}"),
        "gpu.producer_warp: gpu.barrier by one warp",
    ),
    "descriptor of whole lines": (
        product("wgmma.k16.f16", a=A.replace("swizzle64", "pad0")),
        "descriptors describe panels",
    ),
    "tf32 of half precision": (product("wgmma.k8.tf32"), "gpu.wgmma: wgmma.k8.tf32 of f16"),
    "sums of another instruction": (
        product("wgmma.k16.f16", sums='"64x16 r[0,1 0,8 8,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"'),
        "the accumulator is not a fragment",
    ),
    "panels that divide nothing": (
        function("", 'gpu.local_dealloc\n%a = gpu.local_alloc : !gpu.shared<tensor<64x20xf16>, "64x20x2 dim1 swizzle64", 1>').replace("  gpu.local_dealloc\n", ""),
        "panels do not divide lines",
    ),
    "layout of another tile": (
        function("", '%a = gpu.local_alloc : !gpu.shared<tensor<64x32xf32>, "64x32x2 dim1 swizzle64", 1>'),
        "is not a layout of tensor<64x32xf32>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_verifies(name):
    verify_ir(parse_ir(RIGHT[name]))


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_does_not(name):
    text, message = WRONG[name]
    with pytest.raises(PassError) as caught:
        verify_ir(parse_ir(text))
    assert message in str(caught.value)


def test_values_are_made_before_they_are_used():
    module = parse_ir(
        function(
            "%n: i32",
            """
            %zero = arith.constant 0 : i32
            %one = arith.constant 1 : i32
            scf.for %i = %zero to %n step %one : i32 {
              %two = arith.constant 2 : i32
            }
            %x = arith.addi %n, %one : i32
            """,
        )
    )
    *_, loop, add, _ = module.body.block.first_op.body.block.ops
    add.operands[1] = loop.body.block.first_op.results[0]
    with pytest.raises(PassError, match=r"arith\.addi uses what is not made before it"):
        verify_ir(module)
