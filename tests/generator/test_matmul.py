"""`tilewright.matmul` on the CPU against NumPy in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
import tilewright.language as tl
from tilewright.generator.config import Panels

pytestmark = pytest.mark.sampled(6, full=6)

#: relative error of one rounding of the result, with room for the sums' order
EPS = {
    "float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2,
    "float8_e4m3fn": 2e-3, "float8_e5m2": 2e-3, "int8": 0.0, "uint8": 0.0, "int16": 0.0,
    "int32": 0.0, "int64": 0.0, "uint16": 0.0, "uint32": 0.0, "uint64": 0.0,
}  # fmt: skip
SIZES = (0, 1, 2, 3, 7, 16, 17, 33, 64, 65, 100, 130)
E = tw.epilogue
_erf = np.vectorize(math.erf, otypes=[float])


def element(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def random_array(rng, shape, dtype, transposed=False):
    """Values in the type, stored with the last two axes exchanged if asked for."""
    if transposed and len(shape) > 1:
        return np.swapaxes(random_array(rng, (*shape[:-2], shape[-1], shape[-2]), dtype), -1, -2)
    if "int" in dtype:
        return rng.integers(0 if dtype[0] == "u" else -9, 9, shape).astype(element(dtype))
    return rng.standard_normal(shape).astype(np.float32).astype(element(dtype))


def check(result, reference, eps, k):
    assert result.shape == reference.shape
    tolerance = eps * (np.abs(reference) + 4 * (math.sqrt(k) + 4))
    assert (np.abs(result.astype(np.float64) - reference) <= tolerance).all()


STEPS = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-np.clip(x, -700, None))),
    "gelu": lambda x: x * 0.5 * (1 + _erf(x * math.sqrt(0.5))) if x.size else x,
    "gelu_tanh": lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-np.clip(x, -700, None))),
    "tanh": np.tanh,
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
}


def random_epilogue(rng, reference, dtype):
    """Up to two steps, and the reference after them."""
    parts = []
    for _ in range(rng.integers(3)):
        kind = rng.choice([*STEPS, "bias n", "bias m", "residual", "scale"])
        if kind in STEPS:
            parts.append(str(kind))
            reference = STEPS[kind](reference)
        elif kind == "scale":
            parts.append(E.scale(0.75))
            reference = reference * 0.75
        elif kind == "residual":
            array = random_array(rng, reference.shape, dtype, rng.random() < 0.3)
            parts.append(E.residual(array))
            reference = reference + array.astype(np.float64)
        else:
            axis = str(kind)[-1]
            vector = random_array(rng, (reference.shape[-1 if axis == "n" else -2],), dtype)
            parts.append(E.bias(vector, axis))
            wide = vector.astype(np.float64)
            reference = reference + (wide if axis == "n" else wide[:, None])
    return parts, reference


def random_config(rng, dtype):
    if rng.random() < 0.4:
        rows = {"bfloat16": 2, "int8": 4}.get(dtype, 1)
        element = {"float16": "fp32", "float8_e4m3fn": "bf16"}.get(dtype, "")
        columns = int(rng.choice([16, 32]))
        return tw.MatmulConfig(
            int(rng.choice([16, 48])), 2 * columns, int(rng.choice([16, 32])),
            prepack=Panels(columns, rows, element),
        )  # fmt: skip
    form = str(rng.choice(["tiled", "tiled", "listing1"]))
    return tw.MatmulConfig(
        int(rng.choice([16, 32])), int(rng.choice([16, 32, 48])), int(rng.choice([16, 32])),
        group_m=int(rng.choice([1, 4])), form=form, persistent=bool(rng.random() < 0.3),
        split_k=3 if form == "tiled" and rng.random() < 0.3 else 1,
    )  # fmt: skip


@dataclass(frozen=True)
class RandomProduct:
    """Operands, what `matmul` is given with them, and the result in float64."""

    dtype: str
    a: np.ndarray
    b: np.ndarray
    options: dict
    parts: list
    reference: np.ndarray

    def check(self, result, config):
        eps = EPS[self.dtype] or 1e-5
        if config is not None and config.form == "listing1":
            eps *= 6  # sums are rounded at every step
        check(result, self.reference, eps, self.a.shape[-1])


def random_product(rng, sizes=SIZES, array=random_array):
    """A product of any dtype, sizes, batches, orders, alpha, beta and epilogue; `array` makes operands."""
    dtype = str(rng.choice(["float32", "float16", "bfloat16", "float64", "int8", "float8_e4m3fn"]))
    m, n, k = (int(rng.choice(sizes)) for _ in range(3))
    batch = [(), (), (3,), (2, 3), (1,)][rng.integers(5)]
    a = array(rng, (*(batch if rng.random() < 0.7 else ()), m, k), dtype, rng.random() < 0.4)
    b = array(rng, (*(batch if rng.random() < 0.7 else ()), k, n), dtype, rng.random() < 0.4)
    reference = np.matmul(a.astype(np.float64), b.astype(np.float64))
    options = {}
    if rng.random() < 0.3:
        options["alpha"], reference = 0.5, 0.5 * reference
    if rng.random() < 0.3:
        c = array(rng, reference.shape, dtype)
        options |= {"c": c, "beta": 2.0}
        reference = reference + 2 * c.astype(np.float64)
    parts, reference = random_epilogue(rng, reference, dtype)
    return RandomProduct(dtype, a, b, options, parts, reference)


def run_case(seed):
    """A random product with everything chosen from `seed`."""
    rng = np.random.default_rng(seed)
    made = random_product(rng)
    config = random_config(rng, made.dtype) if rng.random() < 0.3 else None
    out_dtype = np.dtype("float32") if made.dtype == "int8" else None
    result = tw.matmul(
        made.a, made.b, epilogue=made.parts, out_dtype=out_dtype, config=config, **made.options
    )
    made.check(result, config)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1 << 30))
def test_random_products(seed):
    run_case(seed)


@pytest.mark.long
@settings(max_examples=600, deadline=None)
@given(st.integers(0, 1 << 30))
def test_many_random_products(seed):
    run_case(seed)


@pytest.mark.parametrize("dtype", EPS)
def test_dtypes(dtype):
    rng = np.random.default_rng(1)
    a, b = random_array(rng, (33, 47), dtype), random_array(rng, (47, 21), dtype)
    reference = a.astype(np.float64) @ b.astype(np.float64)
    result = tw.matmul(a, b)
    wanted = {"float8": "float16", "uint64": "int64"}
    wanted |= dict.fromkeys(("int8", "uint8", "int16", "uint16", "uint32"), "int32")
    assert result.dtype.name == wanted.get(dtype.partition("_")[0], dtype)
    check(result, reference, EPS[dtype], 47)


@pytest.mark.parametrize("dtype", [name for name in EPS if "int" in name])
@pytest.mark.parametrize("shape", [(17, 33, 19), (64, 64, 64), (1, 50, 70), (40, 300, 1)])
def test_sums_of_integers_wrap(shape, dtype):
    """The whole range of each type, modulo 2^32 (2^64 for 64 bits)."""
    rng, kind, (m, k, n) = np.random.default_rng(1), np.iinfo(dtype), shape
    a, b = (
        rng.integers(kind.min, kind.max, s, dtype=dtype, endpoint=True) for s in ((m, k), (k, n))
    )
    found = tw.matmul(a, b)
    off = found.astype(object) - a.astype(object) @ b.astype(object)
    assert (off % 2 ** (64 if kind.bits == 64 else 32) == 0).all()
    for narrow in (np.int8, np.int16):
        assert (tw.matmul(a, b, out_dtype=narrow) == found.astype(narrow)).all()


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_transposed_operands(trans_a, trans_b):
    rng = np.random.default_rng(2)
    a = rng.standard_normal((30, 20) if trans_a else (20, 30))
    b = rng.standard_normal((40, 30) if trans_b else (30, 40))
    reference = (a.T if trans_a else a) @ (b.T if trans_b else b)
    check(tw.matmul(a, b, trans_a=trans_a, trans_b=trans_b), reference, 1e-13, 30)


@pytest.mark.parametrize("shape_a", [(50,), (30, 50), (2, 30, 50)])
@pytest.mark.parametrize("shape_b", [(50,), (50, 40), (2, 50, 40), (3, 1, 50, 40)])
def test_vectors_and_batches_as_numpy_has_them(shape_a, shape_b):
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(shape_a), rng.standard_normal(shape_b)
    result = tw.matmul(a, b)
    reference = np.matmul(a, b)
    assert result.shape == np.shape(reference)
    np.testing.assert_allclose(result, reference, rtol=1e-12, atol=1e-12)


def test_strided_operands_and_output():
    rng = np.random.default_rng(4)
    a = rng.standard_normal((60, 80))[::2, ::3]
    b = rng.standard_normal((27, 50))[::-1, ::2]
    out = np.full((30, 50), 7.0)
    tw.matmul(a, b, out[:, ::2])
    check(out[:, ::2], a @ b, 1e-13, 27)
    assert (out[:, 1::2] == 7).all()


def test_output_is_added_to():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((20, 30)), rng.standard_normal((30, 25))
    out = rng.standard_normal((20, 25))
    reference = 2 * (a @ b) + 0.5 * out
    assert tw.matmul(a, b, out, accumulate=True, alpha=2.0, beta=0.5) is out
    check(out, reference, 1e-13, 30)


def test_sums_in_half_precision():
    rng = np.random.default_rng(6)
    a = rng.standard_normal((32, 64)).astype(np.float16)
    b = rng.standard_normal((64, 32)).astype(np.float16)
    reference = a.astype(np.float64) @ b.astype(np.float64)
    half = tw.matmul(a, b, accumulate=tl.float16, out_dtype=np.float32)
    assert (half == half.astype(np.float16)).all()
    check(half, reference, 2e-2, 64)


@tw.jit
def clipped(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)


@tw.jit
def soft(x):
    return tl.where(x > 0, x, tl.exp(x) - 1)


def test_functions_of_the_user():
    rng = np.random.default_rng(7)
    a = rng.standard_normal((33, 20)).astype(np.float32)
    b = rng.standard_normal((20, 65)).astype(np.float32)
    low, high = np.full((1, 1), -1, np.float32), rng.random(65).astype(np.float32)
    reference = a.astype(np.float64) @ b
    wanted = np.minimum(np.maximum(reference, -1), high)
    check(tw.matmul(a, b, epilogue=E.apply(clipped, low, high)), wanted, 1e-5, 20)
    wanted = np.where(reference > 0, reference, np.expm1(reference))
    check(tw.matmul(a, b, epilogue=soft), wanted, 1e-5, 20)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_gelu_over_its_whole_range(name):
    """In fp32, as far off as the formula by erf is; infinities and NaN as they should be."""
    x = np.concatenate([np.linspace(-12, 12, 20001), np.linspace(-0.01, 0.01, 501), [1e30, -1e30]])
    x = x.astype(np.float32)
    one = np.ones((1, 1), np.float32)
    result = tw.matmul(x[:, None], one, epilogue=name)[:, 0].astype(np.float64)
    wide = x.astype(np.float64)
    if name == "gelu":
        wanted = wide * 0.5 * np.vectorize(math.erfc)(-wide * math.sqrt(0.5))
    else:
        power = -2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
        wanted = wide / (1 + np.exp(np.minimum(power, 700)))
    assert (np.abs(result - wanted) <= 1.5e-7 * np.abs(wide)).all()
    edges = np.array([[np.inf], [np.nan], [0.0]], np.float32)
    found = tw.matmul(edges, one, epilogue=name)[:, 0]
    assert found[0] == np.inf
    assert np.isnan(found[1])
    assert found[2] == 0


def test_split_products_are_reproducible():
    rng = np.random.default_rng(8)
    a = rng.standard_normal((40, 1000)).astype(np.float32)
    b = rng.standard_normal((1000, 40)).astype(np.float32)
    config = tw.MatmulConfig(32, 32, 32, split_k=5)
    first = tw.matmul(a, b, config=config)
    check(first, a.astype(np.float64) @ b, 1e-5, 1000)
    assert all((tw.matmul(a, b, config=config) == first).all() for _ in range(5))


def test_one_compilation_serves_many_shapes():
    from tilewright.runtime.matmul.call import _plans
    from tilewright.runtime.matmul.kernels import kernels

    rng = np.random.default_rng(9)
    config = tw.MatmulConfig(16, 16, 16, group_m=3)
    before = set(_plans)
    for m, n, k in ((33, 35, 37), (39, 41, 43), (45, 47, 49)):
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        check(tw.matmul(a, b, config=config), a @ b, 1e-13, k)
    (launch,) = {plan.launches[0].kernel for key, plan in _plans.items() if key not in before}
    assert launch in kernels(launch.program.contraction, config, launch.program.noalias_output)
    assert len(launch.launcher.compiled) == 1


def test_rows_of_batches_are_joined():
    from tilewright.runtime.matmul.call import _plans

    rng = np.random.default_rng(10)
    a, b = rng.standard_normal((4, 5, 30)), rng.standard_normal((30, 20))
    np.testing.assert_allclose(tw.matmul(a, b), a @ b)
    plan = list(_plans.values())[-1]
    assert plan.launches[0].kernel.program.contraction.batch_rank == 0


def test_rows_of_batches_are_joined_with_what_the_epilogue_reads():
    rng = np.random.default_rng(11)
    a, b = rng.standard_normal((3, 1, 30)), rng.standard_normal((30, 20))
    each, row, column = (rng.standard_normal(s) for s in ((3, 1, 20), (20,), (3, 1, 1)))
    steps = [E.residual(each), E.bias(row), E.scale(column)]
    result = tw.matmul(a, b, c=each, epilogue=steps)
    np.testing.assert_allclose(result, (a @ b + 2 * each + row) * column)


MISTAKES = {
    "inner": (lambda a, b: tw.matmul(a, b.T), "the inner extents are 30 and 40"),
    "dtypes": (lambda a, b: tw.matmul(a, b.astype(np.float16)), "the element types differ"),
    "no array": (lambda a, b: tw.matmul(a, [1, 2]), "expected an array with strides, got a list"),
    "out shape": (lambda a, b: tw.matmul(a, b, np.empty((20, 41), np.float32)), "out has shape"),
    "out overlaps": (lambda a, b: tw.matmul(a[:, :20], a[:, :20], a), "out has shape"),
    "step": (lambda a, b: tw.matmul(a, b, epilogue="reluu"), "'reluu' is not an epilogue step"),
    "bias": (
        lambda a, b: tw.matmul(a, b, epilogue=E.bias(np.ones(7, np.float32))),
        "does not broadcast to",
    ),
    "adds to nothing": (lambda a, b: tw.matmul(a, b, accumulate=True), "was not given"),
    "batch": (lambda a, b: tw.matmul(a, b, batch=1), "there are 0 batch axes"),
    "sums": (lambda a, b: tw.matmul(a, b, accumulate=tl.float16), "accumulates in fp32, not in"),
    "precision": (lambda a, b: tw.matmul(a, b, precision="half"), "precision 'half'"),
    "scale by text": (lambda a, b: tw.matmul(a, b, epilogue=E.scale("x")), "a str is not a number"),
    "scale along": (
        lambda a, b: tw.matmul(a, b, epilogue=E.scale(b[0], "k")),
        "neither 'm' nor 'n'",
    ),
    "slope": (
        lambda a, b: tw.matmul(a, b, epilogue=E.leaky_relu(None)),
        "a NoneType is not a number",
    ),
    "beta of nothing": (lambda a, b: tw.matmul(a, b, beta=2.0), r"beta=2.0 is for c, or out"),
    "beta by text": (
        lambda a, b: tw.matmul(a, b, c=b[:1], beta="x"),
        "beta is a str, not a number",
    ),
    "two dtypes": (
        lambda a, b: tw.matmul(a, b, np.empty((20, 40), np.float32), out_dtype=np.float16),
        "out has dtype fp32, out_dtype is fp16",
    ),
    "out in itself": (
        lambda a, b: tw.matmul(a, b, np.lib.stride_tricks.as_strided(a, (20, 40), (4, 4))),
        "several elements of out are one",
    ),
    "arrays of a function": (lambda a, b: tw.matmul(a, b, epilogue=clipped), "missing a required"),
    "more arrays": (lambda a, b: tw.matmul(a, b, epilogue=E.apply(soft, b)), "too many positional"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told(mistake):
    call, text = MISTAKES[mistake]
    a, b = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)
    with pytest.raises(tw.TilewrightError, match=text) as caught:
        call(a, b)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    assert "^" in str(caught.value)


def test_results_whose_axes_cross_without_meeting():
    """Strides 3 and 2 with extents 2 and 3: no two elements are one."""
    out = np.lib.stride_tricks.as_strided(np.zeros(8), (2, 3), (24, 16))
    a, b = np.arange(8.0).reshape(2, 4), np.arange(12.0).reshape(4, 3)
    tw.matmul(a, b, out)
    np.testing.assert_allclose(out, a @ b)


@tw.jit
def sums_rows(x):
    return tl.sum(x, 1)


def test_an_epilogue_must_be_element_wise():
    a, b = np.ones((20, 30), np.float32), np.ones((30, 40), np.float32)
    with pytest.raises(tw.CompilationError, match=r"(?s)sums_rows returns .*def sums_rows"):
        tw.matmul(a, b, epilogue=sums_rows)
