"""Contractions from MLIR text and from Python loops: what is recognised, and what it computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import CompilationError, LaunchError

EXAMPLES = Path(__file__).parents[2] / "examples" / "mlir"


@tw.loop_nest
def product(A, B, C, M, N, K):
    """C += A @ B."""
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


@tw.loop_nest
def turned(X, W, Y, B, M, N, K):
    for k in range(0, K):
        for b in range(B):
            for j in range(N):
                for i in range(M):
                    Y[b, j, i] = W[j, k] * X[b, k, i] + Y[b, j, i]


@tw.loop_nest
def times_vector(A, x, y, M, K):
    for i in range(M):
        for k in range(K):
            y[i] += A[i, k] * x[k]


def arrays(*shapes, dtype=np.float64):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_three_loops(dtype):
    a, b, c = arrays((50, 40), (40, 30), (50, 30), dtype=dtype)
    reference = c + a.astype(np.float64) @ b
    assert product(a, b, c, 50, 30, 40) is c
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(c, reference, rtol=4 * eps, atol=100 * eps)


def test_loops_over_a_part_of_the_arrays():
    a, b, c = arrays((50, 40), (40, 30), (50, 30))
    reference = c.copy()
    reference[:20, :10] += a[:20, :15] @ b[:15, :10]
    product(a, b, c, 20, 10, 15)
    np.testing.assert_allclose(c, reference)


def test_loops_in_another_order_with_a_batch():
    x, w, y = arrays((3, 40, 20), (30, 40), (3, 30, 20))
    reference = y + np.einsum("jk,bki->bji", w, x)
    turned(x, w, y, 3, 20, 30, 40)
    np.testing.assert_allclose(y, reference)


def test_matrix_times_vector():
    a, x, y = arrays((50, 40), (40,), (50,))
    reference = y + a @ x
    times_vector(a, x, y, 50, 40)
    np.testing.assert_allclose(y, reference)


def test_loops_beyond_an_array_are_an_error():
    a, b, c = arrays((50, 40), (40, 30), (50, 30))
    with pytest.raises(LaunchError, match="a loop goes to 51, 'A' has extent 50"):
        product(a, b, c, 51, 30, 40)
    with pytest.raises(LaunchError, match="takes 6 arguments"):
        product(a, b, c)


def triangle(A, B, C, M, N, K):
    for i in range(M):
        for j in range(i):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def shifted(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k + 1] * B[k, j]


def three_factors(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * A[k, j] * B[k, j]


def two_statements(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            C[i, j] = 1
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def one_sided(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, j] * B[k, j]


def elsewhere(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] = C[j, i] + A[i, k] * B[k, j]


def no_loop(A, B, C, M, N, K):
    while M:
        C[0, 0] += A[0, 0] * B[0, 0]


NO_PRODUCTS = {
    triangle: "the end of a loop is neither a constant nor an argument",
    shifted: "a subscript is not the index of a loop by itself",
    three_factors: "a factor is not an element of an array",
    two_statements: "`1` has no place in a sum of products",
    one_sided: "only one operand depends on reduction index 'k'",
    elsewhere: "the sum does not start from the element that is stored",
    no_loop: "is neither a loop nor a sum",
}


@pytest.mark.parametrize("function", NO_PRODUCTS, ids=lambda f: f.__name__)
def test_loops_that_are_no_product(function):
    with pytest.raises(CompilationError) as caught:
        tw.loop_nest(function)
    assert NO_PRODUCTS[function] in str(caught.value)
    first = function.__code__.co_firstlineno
    place = caught.value.location
    assert place.file == __file__
    assert first <= place.line < first + 7
    assert str(caught.value).count("^") >= 1


def test_the_loops_of_the_paper():
    described = tw.from_mlir(EXAMPLES / "three_loops.mlir")
    d = described.description
    assert (d.a.roles, d.b.roles, d.out.roles) == (("m", "k"), ("k", "n"), ("m", "n"))
    assert dict(d.sizes) == {"m": 8192, "n": 8192, "k": 8192}
    assert d.addend == d.out


def test_bias_and_relu_behind_a_product():
    described = tw.from_mlir(EXAMPLES / "linear.mlir")
    assert [s.kind for s in described.description.steps] == ["add", "relu"]
    a, b, bias = arrays((512, 256), (256, 1024), (1024,), dtype=np.float16)
    result = described(a, b, bias)
    assert result.dtype == np.float16
    reference = np.maximum(a.astype(np.float64) @ b + bias, 0)
    np.testing.assert_allclose(result, reference, rtol=2e-3, atol=1e-2)


def test_batches_in_memory():
    described = tw.from_mlir(EXAMPLES / "batch_matmul.mlir")
    a, b, c = arrays((8, 512, 256), (8, 256, 1024), (8, 512, 1024), dtype=np.float32)
    reference = c + a.astype(np.float64) @ b
    assert described(a, b, c) is c
    np.testing.assert_allclose(c, reference, rtol=1e-4, atol=1e-3)


ELEMENTWISE = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @mm(%A: tensor<?x?xf32>, %B: tensor<?x?xf32>, %C: tensor<?x?xf32>, %s: tensor<?xf32>)
    -> tensor<?x?xf32> {
  %two = arith.constant 2.0 : f32
  %p = linalg.matmul_transpose_b ins(%A, %B : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%C : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p, %s : tensor<?x?xf32>, tensor<?xf32>) outs(%C : tensor<?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %out: f32):
    %e = math.tanh %x : f32
    %m = arith.mulf %e, %two : f32
    %c = arith.cmpf ogt, %m, %y : f32
    %t = arith.select %c, %m, %y : f32
    linalg.yield %t : f32
  } -> tensor<?x?xf32>
  func.return %r : tensor<?x?xf32>
}
"""


def test_any_elementwise_body():
    described = tw.from_mlir(ELEMENTWISE)
    assert [s.kind for s in described.description.steps] == ["function"]
    a, b, c, s = arrays((33, 17), (21, 17), (33, 21), (33,), dtype=np.float32)
    result = described(a, b, c, s)
    reference = np.maximum(2 * np.tanh(c + a.astype(np.float64) @ b.T), s[:, None])
    np.testing.assert_allclose(result, reference, rtol=1e-5, atol=1e-5)


GENERIC = """
#a = affine_map<(b, m, n, k) -> (k, b, m)>
#b = affine_map<(b, m, n, k) -> (n, k)>
#c = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @mm(%A: memref<?x?x?xf32>, %B: memref<?x?xf32>, %C: memref<?x?x?xf32>) {
  linalg.generic {indexing_maps = [#a, #b, #c],
      iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%A, %B : memref<?x?x?xf32>, memref<?x?xf32>) outs(%C : memref<?x?x?xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %p = arith.mulf %y, %x : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  func.return
}
"""


def test_loops_with_the_names_that_operations_had_in_the_paper():
    text = (EXAMPLES / "three_loops.mlir").read_text()
    for name in ("extf", "mulf", "addf"):
        text = text.replace(f"arith.{name}", {"extf": "fpext"}.get(name, name))
    text = text.replace("func.return", "return").replace("func.func", "func")
    assert "arith." not in text
    described = tw.from_mlir(text.replace("8192", "32"))
    a, b = arrays((32, 32), (32, 32), dtype=np.float16)
    c = np.ones((32, 32), np.float32)
    described(a, b, c)
    np.testing.assert_allclose(c, 1 + a.astype(np.float64) @ b, rtol=1e-5, atol=1e-5)


def test_a_generic_operation_that_sums_products():
    described = tw.from_mlir(GENERIC)
    a, b, c = arrays((17, 3, 20), (25, 17), (3, 20, 25), dtype=np.float32)
    reference = c + np.einsum("kbm,nk->bmn", a.astype(np.float64), b)
    described(a, b, c)
    np.testing.assert_allclose(c, reference, rtol=1e-5, atol=1e-5)


def linalg(body, tail="func.return %p : tensor<4x6xf32>", init="%C"):
    return f"""func.func @mm(%A: tensor<4x5xf32>, %B: tensor<5x6xf32>, %C: tensor<4x6xf32>)
    -> tensor<4x6xf32> {{
  {body}
  %p = linalg.matmul ins(%A, %B : tensor<4x5xf32>, tensor<5x6xf32>)
      outs({init} : tensor<4x6xf32>) -> tensor<4x6xf32>
  {tail}
}}
"""


MISTAKES = {
    "syntax": (linalg("%x = arith.konstant 1"), 3),
    "unknown operation": (linalg("%x = foo.bar %A : tensor<4x5xf32>"), 3),
    "returns something else": (linalg("", "func.return %C : tensor<4x6xf32>"), 6),
    "nothing to add to": (linalg("%e = tensor.empty() : tensor<4x6xf32>", init="%e"), 4),
    "extents": (linalg("").replace("5x6", "7x6"), 4),
    "two products": (
        linalg(
            "%q = linalg.matmul ins(%A, %B : tensor<4x5xf32>, tensor<5x6xf32>) "
            "outs(%C : tensor<4x6xf32>) -> tensor<4x6xf32>"
        ),
        4,
    ),
    "no sum of products": (GENERIC.replace("addf %z", "addf %x"), 6),
    "reduction of what stays": (
        GENERIC.replace('"parallel", "reduction"', '"reduction", "reduction"'),
        6,
    ),
    "no product": ("func.func @mm() {\n  func.return\n}\n", 1),
    "other operations": (linalg("%n = arith.constant 1 : i32\n  %m = arith.addi %n, %n : i32"), 4),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_text_is_told_with_its_place(mistake):
    text, line = MISTAKES[mistake]
    with pytest.raises(CompilationError) as caught:
        tw.from_mlir(text)
    assert caught.value.location is not None, caught.value
    assert caught.value.location.line == line, caught.value


def test_all_starting_points_give_the_same_ir():
    """One product described four times: the programs are the same object."""
    from tilewright.backends.registry import machine
    from tilewright.runtime.matmul.call import _plans, kernels_of

    shape = "64x64xf32"
    loops = (EXAMPLES / "three_loops.mlir").read_text().replace("8192x8192xf16", shape)
    loops = loops.replace("8192x8192xf32", shape).replace("8192", "64")
    loops = "\n".join(line for line in loops.splitlines() if "extf" not in line)
    loops = loops.replace("%p, %q", "%a, %b")
    named = f"""func.func @mm(%A: memref<{shape}>, %B: memref<{shape}>, %C: memref<{shape}>) {{
      linalg.matmul ins(%A, %B : memref<{shape}>, memref<{shape}>) outs(%C : memref<{shape}>)
      func.return }}"""
    sizes = {"m": 64, "n": 64, "k": 64}
    cpu = machine("cpu")
    found = [
        kernels_of(described.prepared(cpu, sizes=sizes))
        for described in (product, tw.from_mlir(loops), tw.from_mlir(named))
    ]
    a, b, c = arrays((64, 64), (64, 64), (64, 64), dtype=np.float32)
    tw.matmul(a, b, c, accumulate=True)
    found.append(tuple(x.kernel for x in list(_plans.values())[-1].launches))
    assert all(kernels == found[0] for kernels in found)


def test_generate_shows_what_was_read(capfd):
    from tilewright.cli.main import main

    path = str(EXAMPLES / "linear.mlir")
    main(["generate", path, "--target", "sm_90a", "--pass", "insert-barriers", "--no-times"])
    text = capfd.readouterr()
    assert "512 x 1024 x 256" in text.err
    assert "epilogue add -> relu" in text.err
    assert "gpu.tma_load" in text.out
    main(["generate", path, "--config", "block_m=32,block_n=32,split_k=2", "--after", "cse"])
    text = capfd.readouterr()
    assert "32x32" in text.err
    assert "partial" in text.out
    assert "total" in text.out


@pytest.mark.parametrize("config", ["use_tma=false", ""])
def test_generate_shows_the_passes_of_the_configuration(config, capfd):
    from tilewright.cli.main import main

    given = ["--target", "sm_90a", "--size", "m=512,n=512,k=512", "--dtype", "fp16", "--no-times"]
    given += ["--config", config] if config else []
    main(["generate", f"{__file__}:product", *given, "--pass", "insert-barriers"])
    text = capfd.readouterr().out
    assert ("tma_load" in text) == (config != "use_tma=false")


def test_products_of_long_extents_have_no_boxes(capfd):
    """Boxes are placed by 32-bit numbers."""
    from tilewright.cli.main import main

    sizes = "m=2,n=2200000000,k=64"
    main(["generate", f"{__file__}:product", "--target", "sm_90a", "--size", sizes, "--asm", "ptx"])
    assert "bulk.tensor" not in capfd.readouterr().out


def test_the_page_does_what_it_says(tmp_path):
    """Code of docs/generator.md runs, in order; its MLIR is read."""
    import linecache
    import re

    page = (Path(__file__).parents[2] / "docs" / "generator.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|mlir)\n(.*?)```", page, re.S)
    code = "\n".join(text for kind, text in blocks if kind == "python")
    path = tmp_path / "page.py"
    path.write_text(code)
    linecache.checkcache(str(path))
    scope = {"__name__": "page"}
    exec(compile(code, str(path), "exec"), scope)
    np.testing.assert_allclose(scope["out"], scope["a"] @ scope["b"])
    (text,) = (text for kind, text in blocks if kind == "mlir")
    assert [s.kind for s in tw.from_mlir(text).description.steps] == ["add", "relu"]


def test_loops_become_one_linalg_operation():
    """The form that MLIR text, affine loops and Python loops share."""
    from tilewright.generator.affine_loops import raise_loops
    from tilewright.generator.python_loops import affine_function

    def product(A, B, C, M, N, K):
        for k in range(1, K, 2):
            for i in range(M):
                for j in range(N):
                    C[i, j] += A[i, k] * B[k, j]

    function = affine_function(product)
    nest = raise_loops(function)
    function.verify()
    text = str(function)
    assert "affine.for" not in text and text.count("linalg.generic") == 1
    assert 'iterator_types = ["reduction", "parallel", "parallel"]' in text
    assert nest.names == ("k", "i", "j")
    assert [loop.values((0, 0, 0, 4, 5, 6)) for loop in nest.ranges] == [
        range(1, 6, 2), range(4), range(5),
    ]  # fmt: skip


def test_one_operand_twice():
    """Sums of squares: the only input is both factors."""
    text = """#in = affine_map<(b, k) -> (b, k)>
#out = affine_map<(b, k) -> (b)>
func.func @squares(%A: memref<4x5xf32>, %C: memref<4xf32>) {
  linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "reduction"]}
      ins(%A : memref<4x5xf32>) outs(%C : memref<4xf32>) {
  ^bb0(%x: f32, %z: f32):
    %p = arith.mulf %x, %x : f32
    %s = arith.addf %z, %p : f32
    linalg.yield %s : f32
  }
  func.return
}"""
    a, c = np.arange(20, dtype=np.float32).reshape(4, 5), np.ones(4, np.float32)
    tw.from_mlir(text)(a, c)
    np.testing.assert_allclose(c, 1 + (a * a).sum(1))
