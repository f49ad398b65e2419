"""MLIR text that is nearly a product: what it computes is computed, or there is one error; never something else."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import CompilationError, LaunchError

rng = np.random.default_rng(0)
BYTES_A = rng.integers(0, 256, (4, 5)).astype(np.uint8)
BYTES_B = rng.integers(0, 256, (5, 6)).astype(np.uint8)


def generic(a, b, c, *body):
    """A `linalg.generic` of element types a, b, c with this body; it stores %s."""
    lines = "\n".join(f"    {line}" for line in body)
    return f"""#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @mm(%A: memref<4x5x{a}>, %B: memref<5x6x{b}>, %C: memref<4x6x{c}>) {{
  linalg.generic {{indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%A, %B : memref<4x5x{a}>, memref<5x6x{b}>) outs(%C : memref<4x6x{c}>) {{
  ^bb0(%x: {a}, %y: {b}, %z: {c}):
{lines}
    linalg.yield %s : {c}
  }}
  func.return
}}
"""


def loops(a, b, c, *body, last="0 to 5"):
    """The same as three loops."""
    lines = "\n".join(f"        {line}" for line in body)
    return f"""func.func @mm(%A: memref<4x5x{a}>, %B: memref<5x6x{b}>, %C: memref<4x6x{c}>) {{
  affine.for %i = 0 to 4 {{
    affine.for %j = 0 to 6 {{
      affine.for %k = {last} {{
        %x = affine.load %A[%i, %k] : memref<4x5x{a}>
        %y = affine.load %B[%k, %j] : memref<5x6x{b}>
        %z = affine.load %C[%i, %j] : memref<4x6x{c}>
{lines}
        affine.store %s, %C[%i, %j] : memref<4x6x{c}>
      }}
    }}
  }}
  func.return
}}
"""


def extended(a, b, wide):
    """A body whose factors are extended by these operations."""
    return (
        f"%p = arith.{a} %x : i8 to {wide}", f"%q = arith.{b} %y : i8 to {wide}",
        f"%r = arith.muli %p, %q : {wide}",
    )  # fmt: skip


@pytest.mark.parametrize("form", [generic, loops])
def test_factors_without_a_sign(form):
    described = tw.from_mlir(
        form("i8", "i8", "i32", *extended("extui", "extui", "i32"), "%s = arith.addi %z, %r : i32")
    )
    c = np.ones((4, 6), np.int32)
    described(BYTES_A, BYTES_B, c)
    assert (c == 1 + BYTES_A.astype(int) @ BYTES_B).all()
    with pytest.raises(LaunchError, match="'A' has dtype int8, not u8"):
        described(BYTES_A.view(np.int8), BYTES_B.view(np.int8), c)


@pytest.mark.parametrize("form", [generic, loops])
def test_products_that_are_exact_before_they_are_extended(form):
    body = (*extended("extsi", "extsi", "i16"), "%w = arith.extsi %r : i16 to i32")
    described = tw.from_mlir(form("i8", "i8", "i32", *body, "%s = arith.addi %w, %z : i32"))
    a, b, c = BYTES_A.view(np.int8), BYTES_B.view(np.int8), np.ones((4, 6), np.int32)
    described(a, b, c)
    assert (c == 1 + a.astype(int) @ b).all()


ADD = "%s = arith.addi %z, %r : i32"
ADDF = "%s = arith.addf %z, %r : f32"
OTHER_ARITHMETIC = {
    "signs differ": ("i8", "i8", "i32", *extended("extui", "extsi", "i32"), ADD),
    "a product of 8 bits": (
        "i8", "i8", "i32", "%r = arith.muli %x, %y : i8", "%w = arith.extsi %r : i8 to i32",
        "%s = arith.addi %z, %w : i32",
    ),
    "a product of 16 bits without its sign": (
        "i8", "i8", "i32", *extended("extsi", "extsi", "i16"), "%w = arith.extui %r : i16 to i32",
        "%s = arith.addi %z, %w : i32",
    ),
    "a factor is cut off": (
        "i32", "i32", "i32", "%p = arith.trunci %x : i32 to i16", "%q = arith.extsi %p : i16 to i32",
        "%r = arith.muli %q, %y : i32", ADD,
    ),
    "a sum of 16 bits": (
        "i16", "i16", "i32", "%p = arith.muli %x, %y : i16", "%o = arith.trunci %z : i32 to i16",
        "%t = arith.addi %p, %o : i16", "%s = arith.extsi %t : i16 to i32",
    ),
    "a factor is rounded": (
        "f32", "f32", "f32", "%p = arith.truncf %x : f32 to f16", "%q = arith.extf %p : f16 to f32",
        "%r = arith.mulf %q, %y : f32", ADDF,
    ),
    "integers as floats": (
        "i32", "i32", "f32", "%p = arith.sitofp %x : i32 to f32", "%q = arith.sitofp %y : i32 to f32",
        "%r = arith.mulf %p, %q : f32", ADDF,
    ),
    "sums of 64 bits of 32": (
        "i32", "i32", "i64", "%p = arith.extsi %x : i32 to i64", "%q = arith.extsi %y : i32 to i64",
        "%r = arith.muli %p, %q : i64", "%s = arith.addi %z, %r : i64",
    ),
    "sums of fp64 of fp32": (
        "f32", "f32", "f64", "%p = arith.extf %x : f32 to f64", "%q = arith.extf %y : f32 to f64",
        "%r = arith.mulf %p, %q : f64", "%s = arith.addf %z, %r : f64",
    ),
    "two element types": (
        "f16", "f32", "f32", "%p = arith.extf %x : f16 to f32", "%r = arith.mulf %p, %y : f32", ADDF,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", [generic, loops])
@pytest.mark.parametrize("what", OTHER_ARITHMETIC)
def test_other_arithmetic_than_a_program_has(what, form):
    with pytest.raises(CompilationError) as caught:
        tw.from_mlir(form(*OTHER_ARITHMETIC[what]))
    assert caught.value.location is not None
    assert "^" in str(caught.value)  # text that is in no file shows its lines, too


@pytest.mark.parametrize(
    ("last", "taken"),
    [("0 to 5 step 2", slice(0, 5, 2)), ("1 to 4", slice(1, 4)), ("0 to -3", slice(0))],
)
def test_loops_over_parts(last, taken):
    text = loops("f32", "f32", "f32", "%r = arith.mulf %x, %y : f32", ADDF, last=last)
    a, b = BYTES_A.astype(np.float32), BYTES_B.astype(np.float32)
    c = np.ones((4, 6), np.float32)
    tw.from_mlir(text)(a, b, c)
    np.testing.assert_allclose(c, 1 + a[:, taken] @ b[taken], rtol=1e-6)


def test_loops_beyond_an_array_are_told_when_they_are_read():
    text = loops("f32", "f32", "f32", "%r = arith.mulf %x, %y : f32", ADDF, last="0 to 6")
    with pytest.raises(CompilationError, match="a loop goes to 6, 'A' has extent 5"):
        tw.from_mlir(text)


def test_bounds_that_are_extents():
    text = """func.func @mm(%A: memref<?x?xf32>, %B: memref<?x?xf32>, %C: memref<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %M = memref.dim %A, %c0 : memref<?x?xf32>
  %K = memref.dim %A, %c1 : memref<?x?xf32>
  %N = memref.dim %B, %c1 : memref<?x?xf32>
  affine.for %i = 0 to %M {
    affine.for %j = 0 to %N {
      affine.store %z, %C[%i, %j] : memref<?x?xf32>
      affine.for %k = 0 to affine_map<(d0) -> (d0 - 1)>(%K) {
        %x = affine.load %A[%i, %k] : memref<?x?xf32>
        %y = affine.load %B[%k, %j] : memref<?x?xf32>
        %o = affine.load %C[%i, %j] : memref<?x?xf32>
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %o, %p : f32
        affine.store %s, %C[%i, %j] : memref<?x?xf32>
      }
    }
  }
  func.return
}"""
    a, b = BYTES_A.astype(np.float32), BYTES_B.astype(np.float32)
    c = np.full((4, 6), np.nan, np.float32)
    tw.from_mlir(text)(a, b, c)
    np.testing.assert_allclose(c, a[:, :4] @ b[:4], rtol=1e-6)


MAPS = "#id = affine_map<(d0, d1) -> (d0, d1)>\n"
HEAD = "func.func @mm(%A: memref<4x5xf32>, %B: memref<5x6xf32>, %C: memref<4x6xf32>, %D: memref<4x6xf32>) {\n"
ZERO = "  %z = arith.constant 0.0 : f32\n"
MATMUL = (
    "  linalg.matmul ins(%A, %B : memref<4x5xf32>, memref<5x6xf32>) outs(%C : memref<4x6xf32>)\n"
)


def fill(name, shape="4x6"):
    return f"  linalg.fill ins(%z : f32) outs(%{name} : memref<{shape}xf32>)\n"


def follow(ins, out, result):
    """An element-wise operation; its body yields the sum of the arguments that `result` names."""
    names = [f"%x{i}" for i in range(len(ins))]
    return f"""  linalg.generic {{indexing_maps = [{", ".join(["#id"] * (len(ins) + 1))}],
      iterator_types = ["parallel", "parallel"]}}
      ins({", ".join(f"%{x}" for x in ins)} : {", ".join(["memref<4x6xf32>"] * len(ins))}) outs(%{out} : memref<4x6xf32>) {{
  ^bb0({", ".join(f"{x}: f32" for x in names)}, %o: f32):
    %s = arith.addf {result} : f32
    linalg.yield %s : f32
  }}
"""


END = "  func.return\n}\n"
OTHER_EFFECTS = {
    "an operand is filled": HEAD + ZERO + fill("A", "4x5") + MATMUL + END,
    "another array is filled": HEAD + ZERO + fill("D") + MATMUL + END,
    "another array is filled afterwards": HEAD + ZERO + MATMUL + fill("D") + END,
    "two arrays are written": MAPS + HEAD + MATMUL + follow(["C"], "D", "%x0, %x0") + END,
    "a filled array is read": MAPS + HEAD + ZERO + fill("D") + MATMUL + follow(["D"], "C", "%x0, %o") + END,
    "the result is read twice": MAPS + HEAD + MATMUL + follow(["C"], "C", "%x0, %o") + END,
}  # fmt: skip


@pytest.mark.parametrize("what", OTHER_EFFECTS)
def test_what_else_is_written_or_read(what):
    with pytest.raises(CompilationError) as caught:
        tw.from_mlir(OTHER_EFFECTS[what])
    assert caught.value.location is not None


def test_what_follows_in_the_same_array():
    described = tw.from_mlir(
        MAPS + HEAD + ZERO + fill("C") + MATMUL + follow(["D"], "C", "%x0, %o") + END
    )
    a, b = BYTES_A.astype(np.float32), BYTES_B.astype(np.float32)
    c, d = np.full((4, 6), np.nan, np.float32), np.full((4, 6), 3, np.float32)
    described(a, b, c, d)
    np.testing.assert_allclose(c, a @ b + 3, rtol=1e-6)


PLACES = {
    "a value that nobody defines": (HEAD + MATMUL.replace("%B :", "%E :") + END, (2, 25)),
    "index elements": (HEAD.replace("f32", "index") + MATMUL.replace("f32", "index") + END, (2, 3)),
    "a layout": (
        (HEAD + MATMUL).replace("4x5xf32", "4x5xf32, strided<[8, 1]>") + END, (2, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", PLACES)
def test_places(what):
    text, (line, column) = PLACES[what]
    with pytest.raises(CompilationError) as caught:
        tw.from_mlir(text)
    assert (caught.value.location.line, caught.value.location.column + 1) == (line, column)


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"", "is empty"), (b"\xff\xfe\x00", "is not text"), (b"\x00\x01", "Unexpected character"), (b"func", "expect symbol name")],
)  # fmt: skip
def test_files_that_hold_no_mlir(content, told, tmp_path):
    path = tmp_path / "wrong.mlir"
    path.write_bytes(content)
    with pytest.raises(tw.TilewrightError, match=told):
        tw.from_mlir(path)


def test_sizes_that_a_product_does_not_have(capsys):
    from tilewright.cli.main import main

    place = f"{__file__.replace('test_described_text', 'test_descriptions')}:product"
    assert main(["generate", place, "--size", "m=4,n=4,k=4,q=4"]) == 1
    assert "there is no size q" in capsys.readouterr().err
