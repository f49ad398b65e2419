"""Offsets divided into coordinates of tensor maps: the same element, whatever the offset, and natural ones found."""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.passes.test_tma_tiles import TARGET, built, close, copied
from tests.ptx.launch import run_ptx
from tests.run_on_copies import run_on_copies

import tilewright.language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.passes.analysis.polynomial import ONE, Leaf, Polynomial
from tilewright.passes.gpu.analysis.tma_coordinates import Axis, Rules, divide_offset
from tilewright.passes.manager import run_pipeline

pytestmark = pytest.mark.sampled(4, full=3)

# ---- random offsets ------------------------------------------------------------------------------------

ARGUMENTS = {"S": (8, 16, 40), "N": (0, 24)}
"""What the launcher knows: a stride, and a length."""
SCALARS = {"i": (0, 1, 3), "j": (0, 2), "q": (-1, 1)}
"""What it does not."""
LEAVES = {name: Leaf(order, name, True) for order, name in enumerate(ARGUMENTS | SCALARS)}
_GRID = np.array(list(product(*(ARGUMENTS | SCALARS).values())))
VALUES = {name: _GRID[:, order] for order, name in enumerate(LEAVES)}


def values(polynomial):
    """What a polynomial is, for all values of its scalars."""
    total = np.zeros(len(_GRID), np.int64)
    for monomial, coefficient in polynomial.terms:
        factors = [VALUES[leaf.value] for leaf in monomial]
        total += coefficient * np.prod(factors, axis=0, dtype=np.int64)
    return total


def leaf(name):
    return Polynomial.leaf(LEAVES[name])


RULES = Rules(
    on_host=lambda leaf: leaf.value in ARGUMENTS,
    stands_for_end=lambda monomial: False,
    plausible=lambda p: bool((values(p) >= 0).all()),
    highest=lambda p: int(values(p).max()),
    aligned=lambda p: bool((values(p) % 8 == 0).all()),
)


def some_polynomial(chance, sizes, names):
    total = Polynomial()
    for _ in range(chance.randrange(4)):
        term = Polynomial.constant(chance.choice(sizes))
        for name in chance.sample(names, chance.randrange(min(3, len(names) + 1))):
            term = term * leaf(name)
        total = total + term
    return total


def some_offset(chance):
    """An offset that is made of coordinates, and the axes of the tile."""
    names = list(LEAVES)
    stride = chance.choice([leaf("S"), Polynomial.constant(chance.choice([8, 16, 64]))])
    strides = [ONE, stride, Polynomial.constant(chance.choice([8, 32, 128])), stride * leaf("N")]
    places = [some_polynomial(chance, [-16, -8, 8, 16, 24], names)]
    places += [some_polynomial(chance, [-2, -1, 1, 2, 5], names) for _ in strides[1:]]
    offset = Polynomial()
    for place, step in zip(places, strides, strict=True):
        offset = offset + place * step
    axes = []
    for place, step in zip(places[:2], strides[:2], strict=True):
        kind = chance.choice(["open", "limited"])
        extent = chance.choice([leaf("N"), Polynomial.constant(chance.choice([8, 64]))])
        limit = extent - place if kind == "limited" else None
        axes.append(Axis(step, limit))
    return offset, axes


def test_coordinates_address_the_same_element():
    """And ends are known to the launcher; doubtful assignments of negative terms are not made."""
    chance, found, proved = random.Random(0), 0, 0
    for _ in range(3000):
        offset, axes = some_offset(chance)
        made = divide_offset(offset, axes, RULES)
        if made is None:
            continue
        found += 1
        total = Polynomial()
        for place, axis in zip(made.places, axes, strict=True):
            total = total + place * axis.stride
            if axis.limit is not None:
                assert all(RULES.known(monomial) for monomial, _ in (place + axis.limit).terms)
        for plane in made.planes:
            total = total + plane.place * plane.stride
            assert all(RULES.known(monomial) for monomial, _ in plane.stride.terms)
            assert RULES.aligned(plane.stride)
        assert total == offset
        proved += all(map(RULES.plausible, made.all()))
    assert found > 800 and proved > 300


def test_a_constant_goes_where_it_is_subtracted_from():
    """`h * 64 + (3 - i) * 128`: -128 i + 384 is a row's, though 384 is a multiple of 64."""
    down = Polynomial.constant(3) - leaf("i")
    offset = leaf("j") * Polynomial.constant(64) + down * Polynomial.constant(128)
    axes = [Axis(ONE, Polynomial.constant(64)), Axis(Polynomial.constant(128), leaf("N") - down)]
    made = divide_offset(offset, axes, RULES)
    assert made is not None and made.places == (Polynomial(), down)
    assert [(p.stride.number, p.place) for p in made.planes] == [(64, leaf("j"))]


def test_doubtful_constants_are_nobodys():
    """`j * 64 + i * 128 - 128`: of either coordinate, and neither is known to be in the array then."""
    offset = leaf("j") * Polynomial.constant(64) + leaf("i") * Polynomial.constant(128)
    axes = [Axis(ONE), Axis(Polynomial.constant(128))]
    assert divide_offset(offset, axes, RULES) is not None
    assert divide_offset(offset - Polynomial.constant(128), axes, RULES) is None


# ---- kernels -------------------------------------------------------------------------------------------


def backwards(x, y, o, T, heads, H: tl.constexpr, MASK: tl.constexpr, FORM: tl.constexpr):
    """Sums over the chunks of [N, T, H, 64], the last one first; of the head that `FORM` says."""
    z = tl.program_id(0).to(tl.int64)
    if H == 0:
        H = heads
    n, h = z // H, z % H
    if FORM == "last head first":
        h = H - 1 - h
    place = (n * T * H + h) * 64
    c, total = tl.arange(0, 64), tl.zeros([64, 64], dtype=tl.float32)
    for i in range(tl.cdiv(T, 32) - 1, -1, -1):
        if FORM == "pointers":
            t = i * 32 + tl.arange(0, 32)
            left, right = c[:, None] + t[None, :] * (H * 64), t[:, None] * (H * 64) + c[None, :]
            if MASK:
                a = tl.load(x + place + left, mask=(c[:, None] < 64) & (t[None, :] < T), other=0.0)
                b = tl.load(y + place + right, mask=t[:, None] < T, other=0.0)
            else:
                a, b = tl.load(x + place + left), tl.load(y + place + right)
        else:
            p = tl.make_block_ptr(x + place, (64, T), (1, H * 64), (0, i * 32), (64, 32), (0, 1))
            q = tl.make_block_ptr(y + place, (T, 64), (H * 64, 1), (i * 32, 0), (32, 64), (1, 0))
            a, b = tl.load(p, boundary_check=(0, 1)), tl.load(q, boundary_check=(0, 1))
        total += tl.dot(a, b)
    tl.store(o + (z * 64 + c[:, None]) * 64 + c[None, :], total)


def backwards_case(heads, length, form):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, length, heads, 64)).astype(np.float16) for _ in range(2))
    wanted = np.einsum("nthk,nthl->nhkl", x.astype(np.float64), y.astype(np.float64))
    if form == "last head first":
        wanted = wanted[:, ::-1]
    return x, y, wanted.reshape(-1, 64, 64)


@pytest.mark.parametrize("form", ["pointers", "blocks", "last head first"])
@pytest.mark.parametrize("heads", [1, 2, 0])
@pytest.mark.parametrize("length", [48, "run time"])
@pytest.mark.parametrize("mask", [True, False])
def test_loops_that_count_down(form, heads, length, mask):
    """Heads and lengths that are constants, or known when the kernel is launched (heads 0)."""
    if not mask and form != "pointers":
        return
    n = 48 if mask else 64
    constants = {"H": heads, "MASK": mask, "FORM": form}
    constants |= {} if length == "run time" else {"T": n}
    module = built(
        backwards,
        [a for a in ("T", "heads") if a not in constants],
        constants,
        ("T", "heads"),
    )
    x, y, wanted = backwards_case(heads or 3, n, form)
    o = np.zeros(wanted.shape, np.float16)
    arguments = [x, y, o, *([n] if length == "run time" else []), heads or 3]
    run_pipeline(module, nvidia_passes(), TARGET)
    if heads:
        assert copied(module)["tma_load"] and "gpu.async_copy" not in str(module)
    found = run_on_copies(module, arguments, (2 * (heads or 3), 1, 1))[2]
    close(found, wanted)


@pytest.mark.parametrize("form", ["pointers", "blocks"])
def test_the_machine_agrees_on_loops_that_count_down(form):
    module = built(backwards, ["T", "heads"], {"H": 2, "MASK": True, "FORM": form}, ("T", "heads"))
    made = backend.compile(module, Options(num_warps=4), TARGET)
    assert "cp.async.bulk.tensor" in made.asm["ptx"]
    x, y, wanted = backwards_case(2, 48, form)
    arguments = [x, y, np.zeros(wanted.shape, np.float16), 48, 2]
    close(run_ptx(made, arguments, (4, 1, 1))[2], wanted)


def test_a_constant_is_shared_by_columns_and_rows_of_a_reversed_loop():
    """Columns from 8, rows from (3 - i) * 4: the offset has one constant, and each limit says what is its own."""
    columns, four = Polynomial.constant(8), Polynomial.constant(4)
    rows = Polynomial.constant(12) - leaf("i") * four
    pitch = Polynomial.constant(64)
    axes = [Axis(ONE, pitch - columns), Axis(pitch, leaf("N") - rows)]
    found = divide_offset(columns + rows * pitch, axes, replace(RULES, highest=lambda _: None))
    assert found is not None and found.places == (columns, rows) and not found.planes
