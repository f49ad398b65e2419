"""Checked native code: what it rejects, with the interpreter's own words, and what it lets pass."""

import numpy as np
import pytest
from tests.debug import correct_kernels

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import DeviceAssertError, LaunchError, OutOfBoundsError


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "0")
    monkeypatch.delenv("TILEWRIGHT_CHECK", raising=False)


@tw.jit
def missing_mask(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x, mask=i < n)


@tw.jit
def missing_mask_of_a_store(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n))


@tw.jit
def negative_offset(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(x_ptr + i - 1, mask=i < n)
    tl.store(o_ptr + i, before, mask=i < n)


@tw.jit
def wrong_bound(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i <= n)
    tl.store(o_ptr + i, x, mask=i < n)


@tw.jit
def scalar_past_the_end(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(o_ptr + n, tl.load(x_ptr))


@tw.jit
def index_past_the_end(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = (i * 8) % (n + 5)
    tl.store(o_ptr + i, tl.load(x_ptr + index, mask=i < n), mask=i < n)


@tw.jit
def scatter_past_the_end(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + (i * 8) % (n + 5), x, mask=i < n)


@tw.jit
def atomics_past_the_end(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n + 1)


@tw.jit
def put(pointers, value, mask):
    tl.store(pointers, value, mask=mask)


@tw.jit
def store_in_a_helper(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    put(o_ptr + i * 2, x, i < n)


@tw.jit
def pointer_in_a_loop(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    pointers = x_ptr + i
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(tl.cdiv(n, BLOCK) + 1):
        total += tl.load(pointers)
        pointers += BLOCK
    tl.store(o_ptr + i, total)


@tw.jit
def choice_of_arrays(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    source = tl.where(i % 2 == 0, x_ptr + i, o_ptr + i)
    tl.store(o_ptr + i, tl.load(source), mask=i < n)


WRONG = [
    missing_mask, missing_mask_of_a_store, negative_offset, wrong_bound, scalar_past_the_end,
    index_past_the_end, scatter_past_the_end, atomics_past_the_end, store_in_a_helper,
    pointer_in_a_loop,
]  # fmt: skip


def report(launch):
    with pytest.raises(OutOfBoundsError) as caught:
        launch()
    return str(caught.value)


def arrays(n=100, kind=np.float32):
    return np.arange(n).astype(kind), np.zeros(n, kind)


@pytest.mark.parametrize("kernel", WRONG, ids=lambda k: k.fn.__name__)
def test_reports_are_the_interpreters(kernel, monkeypatch):
    native = report(lambda: kernel[(4,)](*arrays(), 100, BLOCK=32, check="bounds"))
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", "ir")
    assert native == report(lambda: kernel[(4,)](*arrays(), 100, BLOCK=32))
    assert "in program (" in native and "element" in native and "test_bounds_checks.py:" in native


def test_a_choice_between_arrays():
    message = report(lambda: choice_of_arrays[(4,)](*arrays(), 100, BLOCK=32, check="bounds"))
    assert "outside every known array in program (3, 0, 0)" in message
    choice_of_arrays[(4,)](*arrays(128), 100, BLOCK=32, check="bounds")


@pytest.mark.parametrize("case", correct_kernels.CASES, ids=lambda case: case.__name__)
def test_correct_kernels_pass(case, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHECK", "bounds")
    for _ in range(2):  # a second time: the path of launches like the last one
        result, expected = case()
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["bool", "int8", "float16", "float64"])
def test_element_types(kind):
    x, out = arrays(100, kind)
    wrong_bound[(4,)](np.append(x, x[:1]), out, 100, BLOCK=32, check="bounds")
    assert (out == x).all()
    assert "element 100" in report(lambda: wrong_bound[(4,)](x, out, 100, BLOCK=32, check="bounds"))


def test_views_are_checked_against_their_own_extent():
    memory = np.arange(300, dtype=np.float32)
    x, out = memory[100:200], np.zeros(200, np.float32)
    message = report(lambda: missing_mask[(4,)](x, out, 100, BLOCK=32, check="bounds"))
    assert "'x_ptr' (fp32, elements 0 … 99, 400 bytes)" in message
    assert 'if it is meant, check="bounds,-views"' in message
    for check in ("bounds,-views", ("bounds", "-views")):
        missing_mask[(4,)](x, out, 100, BLOCK=32, check=check)
        assert (out[:100] == x).all()
    message = report(
        lambda: missing_mask[(8,)](memory[100:], out, 100, BLOCK=32, check="bounds,-views")
    )
    assert "elements -100 … 199" in message and "-views" not in message


def test_reversed_and_empty_arrays():
    x, out = arrays()
    missing_mask[(4,)](x, out, 0, BLOCK=16, check="bounds")
    backwards = x[::-1]
    assert "element 1" in report(
        lambda: missing_mask[(1,)](backwards, out, 16, BLOCK=16, check="bounds")
    )
    assert "elements" in report(
        lambda: missing_mask[(1,)](x[:0], out, 16, BLOCK=16, check="bounds")
    )


def test_memory_stays_as_the_native_code_left_it():
    x, out = arrays()
    report(lambda: missing_mask_of_a_store[(1,)](x, out[:20], 100, BLOCK=32, check="bounds"))
    assert not out[20:].any()
    report(lambda: missing_mask[(4,)](x, out, 100, BLOCK=32, check="bounds"))
    assert (out[:96] == x[:96]).all() and not out[96:].any()


def test_torch_and_launches_like_the_last_one():
    torch = pytest.importorskip("torch")
    x, out = torch.arange(128.0), torch.zeros(100)
    for _ in range(3):
        missing_mask[(4,)](x, out, 100, BLOCK=32, check="bounds")
    assert (out == x[:100]).all()
    for source in (x[:100], x[:100].clone(), x[::2], x.view(2, 64)[:, :50]):
        assert "of 32 lanes" in report(
            lambda source=source: missing_mask[(4,)](source, out, 100, BLOCK=32, check="bounds")
        )
    missing_mask[(4,)](x[:100], out, 100, BLOCK=32)  # unchecked, into the rest of x


def test_settings(monkeypatch):
    x, out = arrays()
    monkeypatch.setenv("TILEWRIGHT_CHECK", "bounds")
    report(lambda: wrong_bound[(4,)](x, out, 100, BLOCK=32))
    wrong_bound[(4,)](np.append(x, x), out, 100, BLOCK=32)
    compiled = wrong_bound[(4,)](np.append(x, x), out, 100, BLOCK=32)
    assert compiled.plan.checked and compiled.plan.accesses
    assert type(compiled.plan).from_json(compiled.plan.to_json()) == compiled.plan
    monkeypatch.delenv("TILEWRIGHT_CHECK")
    assert not wrong_bound[(4,)](np.append(x, x), out, 100, BLOCK=32).plan.checked
    with pytest.raises(LaunchError, match="unknown check 'bonds' of compiled code"):
        wrong_bound[(4,)](x, out, 100, BLOCK=32, check="bonds")
    monkeypatch.setenv("TILEWRIGHT_CHECK", "everything")
    with pytest.raises(LaunchError, match="unknown check 'everything'"):
        wrong_bound[(4,)](x, out, 100, BLOCK=32)


def test_compiled_kernels_alone(tmp_path):
    x, out = arrays()
    kernel = wrong_bound[(4,)](np.append(x, x), out, 100, BLOCK=32, check="bounds")
    kernel[(4,)](np.append(x, x), out, 100)
    message = report(lambda: kernel[(4,)](x, out, 100))
    assert "tl.load reads outside 'x_ptr' in program (3, 0, 0)" in message
    with pytest.raises(LaunchError, match="checked"):
        kernel.export(tmp_path)


@tw.jit
def asserting(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.device_assert(n > 3, "enough")
    tl.store(x_ptr + i, 1.0)


def test_assertions_beside_checks():
    x = np.zeros(16, np.float32)
    with pytest.raises(DeviceAssertError, match="enough"):
        asserting[(1,)](x, 2, BLOCK=16, check="bounds", debug=True)
    assert "'x_ptr'" in report(lambda: asserting[(1,)](x, 5, BLOCK=32, check="bounds", debug=True))


@tw.jit
def follows(x_ptr, index_ptr, o_ptr, n):
    """Walks along indices that it changes on its way: its address depends on its own writes."""
    at = tl.load(index_ptr)
    while at >= 0:
        tl.store(index_ptr, at + 40)
        tl.store(o_ptr, tl.load(x_ptr + at))
        at = tl.load(index_ptr)


def test_a_program_that_does_not_fail_again():
    x, out = arrays()
    index = np.zeros(1, np.int32)
    message = report(lambda: follows[(1,)](x, index, out, 100, check="bounds"))
    assert "tl.load reads outside 'x_ptr'" in message and "program (0, 0, 0)" in message
    assert index[0] == 160  # of 0, 40, 80 and 120 the last is outside: what it wrote stays


@tw.jit
def product(a_ptr, b_ptr, c_ptr, K, am, ak, BM: tl.constexpr, BK: tl.constexpr):
    m, k = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * am + (start + k)[None, :] * ak)
        b = tl.load(b_ptr + (start + k)[:, None] * BM + m[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * BM + m[None, :], acc)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_operands_of_dots(order, kind):
    a = np.asarray(correct_kernels.floats(32, 40).astype(kind), order=order)
    b, c = correct_kernels.floats(48, 32).astype(kind), np.zeros((32, 32), np.float32)
    strides = [s // a.itemsize for s in a.strides]
    message = report(lambda: product[(1,)](a, b, c, 40, *strides, BM=32, BK=16, check="bounds"))
    assert "tl.load reads outside 'a_ptr'" in message and "lanes: lane [" in message
    product[(1,)](a, b, c, 32, *strides, BM=32, BK=16, check="bounds")
    np.testing.assert_allclose(
        c, a[:, :32].astype("f4") @ b[:32].astype("f4"), rtol=1e-2, atol=0.05
    )


@tw.jit
def through_a_table(table_ptr, o_ptr, n, BLOCK: tl.constexpr):
    x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n))


def test_pointers_from_memory_are_not_checked():
    x, out = arrays()
    table = np.array([x.ctypes.data])
    through_a_table[(1,)](table, np.zeros(128, np.float32), 100, BLOCK=128, check="bounds")
    message = report(lambda: through_a_table[(1,)](table, out, 100, BLOCK=128, check="bounds"))
    assert "tl.store writes outside 'o_ptr'" in message
