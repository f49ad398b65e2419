"""Binding, specialisation, grids, errors and the fast path, over a fake back end."""

import traceback

import ml_dtypes
import numpy as np
import pytest
from tests.runtime import kernels
from tests.runtime.fake_backend import ADD, SLOTS, THREADS, FakeBackend, use
from tests.runtime.kernels import add_kernel, one_pointer, scalars, unspecialized

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import DeviceAssertError, LaunchError


@pytest.fixture
def add():
    with use(FakeBackend(ADD, BLOCK=64)) as backend:
        yield backend


@pytest.fixture
def slots():
    with use(FakeBackend(SLOTS)) as backend:
        yield backend


def arrays(n, dtype=np.float32):
    rng = np.random.default_rng(0)
    return rng.random(n).astype(dtype), rng.random(n).astype(dtype), np.zeros(n, dtype)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 98432])
@pytest.mark.parametrize("form", ["tuple", "list", "callable", "int", "three"])
def test_grids_and_sizes(add, n, form):
    x, y, out = arrays(n)
    blocks = tw.cdiv(n, 64)
    grid = {
        "tuple": (blocks,), "list": [blocks], "int": blocks, "three": (blocks, 1, 1),
        "callable": lambda meta: (tw.cdiv(meta["n"], meta["BLOCK"]),),
    }[form]  # fmt: skip
    for _ in range(3):  # the slow path, the fast path
        out[:] = 0
        compiled = add_kernel[grid](x, y, out, n, BLOCK=64)
        np.testing.assert_array_equal(out, x + y)
    assert compiled.name == "add_kernel" and compiled.n_regs == 1


def test_ways_of_passing(add):
    x, y, out = arrays(500)
    add_kernel[(8,)](x, o_ptr=out, y_ptr=y, BLOCK=64, n=500)
    np.testing.assert_array_equal(out, x + y)
    out[:] = 0
    add_kernel.run(x, y, out, 500, 64, grid=(8,), num_warps=8, waves_per_eu=2, num_stages=0)
    np.testing.assert_array_equal(out, x + y)


def test_torch_tensors(add):
    torch = pytest.importorskip("torch")
    x, y = torch.rand(500), torch.rand(500)
    out = torch.zeros(500)
    for _ in range(2):
        add_kernel[(8,)](x, y, out, 500, BLOCK=64)
    assert torch.equal(out, x + y)
    out.zero_()
    add_kernel[(8,)](x, torch.nn.Parameter(y), out, 500, BLOCK=64)
    assert torch.equal(out, x + y)
    for _ in range(2):
        with pytest.raises(LaunchError, match="meta"):
            add_kernel[(8,)](x.to("meta"), y, out, 500, BLOCK=64)
        with pytest.raises(LaunchError, match="no memory of its own"):  # also by the fast path
            add_kernel[(8,)](x, y.view(50, 10).to_sparse(), out, 500, BLOCK=64)


def test_objects_with_array_protocols(add):
    x, y, out = arrays(128)

    class Interface:
        def __init__(self, array):
            self.__array_interface__ = array.__array_interface__

    class Capsule:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kwargs):
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    add_kernel[(2,)](Interface(x), Capsule(y), out, 128, BLOCK=64)
    np.testing.assert_array_equal(out, x + y)


def test_empty_grid_launches_nothing(add):
    x, y, out = arrays(64)
    for grid in ((0,), (1, 0), lambda meta: (0, 1, 1)):
        for _ in range(2):
            add_kernel[grid](x, y, out, 64, BLOCK=64)
    assert not out.any()


def test_slots(slots):
    """Each type of scalar arrives as the ABI says, folded ones not at all."""
    out = np.zeros(8, np.int64)
    for _ in range(2):
        out[:] = 0
        scalars[(2, 3)](out, -5, 1 << 40)
        assert list(out[1:4]) == [-5, 1 << 40, 7] and list(out[4:7]) == [2, 3, 1] and out[7] == 6
    for _ in range(2):
        out[:] = 0
        scalars[(1,)](out, 1, True, c=2.5)
        assert out[1] == 1 and out.view(np.float32)[4] == 2.5 and list(out[3:7]) == [1, 1, 1, 1]
    for _ in range(2):
        out[:] = 0
        scalars[(1,)](out, None, (1 << 64) - 1, c=np.int64(9))
        assert out.view(np.uint64)[1] == (1 << 64) - 1 and out[2] == 9


def test_specialisation(slots):
    out = np.zeros(16, np.int64)
    seen = set()
    for a, FLAG in [(3, 1), (3, True), (3, 1.0), (16, 1), (1, 1), (2**31, 1), (2**63, 1), (3.0, 1)]:
        for _ in range(2):
            seen.add(scalars[(1,)](out, a, 2, FLAG=FLAG).hash)
    assert len(seen) == 8 == len(slots.compiled)
    assert scalars[(1,)](out, 5, 2, FLAG=1) is scalars[(1,)](out, 3, 2, FLAG=1)
    assert scalars[(1,)](out[1:], 5, 2, FLAG=1) is not scalars[(1,)](out, 3, 2, FLAG=1)
    same = {unspecialized[(1,)](out, a, 3).hash for a in (1, 16, 5)}
    assert len(same) == 1


def test_unsigned_arrays_and_small_types(slots):
    for dtype in (np.bool_, np.int8, np.uint64, np.float16, ml_dtypes.bfloat16,
                  ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn):  # fmt: skip
        one_pointer[(1,)](np.zeros(64 * 8, dtype))
    assert len(slots.compiled) == 7


def test_hooks_and_attributes(add):
    x, y, out = arrays(64)
    calls = []
    add_kernel[(1,)](x, y, out, 64, BLOCK=64)
    add_kernel.add_pre_run_hook(lambda **named: calls.append(named["n"]))
    add_kernel[(1,)](x, y, out, 64, BLOCK=64)
    assert calls == [64]
    assert add_kernel.__name__ == "add_kernel" and add_kernel.src.startswith("def add_kernel(")
    assert add_kernel.arg_names[-1] == "BLOCK" and add_kernel.constexprs == [4]
    assert add_kernel.device_caches[0] and len(add_kernel.cache_key) == 64


def test_warmup_compiles_only(add):
    import numpy

    compiled = add_kernel.warmup(tw.language.float32, tw.MockTensor(numpy.float32), "*fp32", 64,
                                 BLOCK=64, grid=(1,))  # fmt: skip
    assert compiled.plan.arguments[0].kind == "pointer" and "llvm" in compiled.asm
    x, y, out = arrays(64)
    assert add_kernel[(1,)](x, y, out, 64, BLOCK=64).name == "add_kernel"
    other = add_kernel.compile(
        {"x_ptr": "*fp32", "y_ptr": "*fp32:16", "o_ptr": "*fp32", "n": "i32"}, {"BLOCK": 64}
    )
    compiled_again = other.run((1,), x, y, out, 64)
    assert compiled_again is None
    np.testing.assert_array_equal(out, x + y)


def test_globals_that_change(add, monkeypatch):
    out = np.zeros(64, np.float32)
    with use(FakeBackend(SLOTS)) as backend:
        out = np.zeros(16, np.int64)
        for _ in range(3):
            kernels.uses_globals[(1,)](out, BLOCK=4)
        assert len(backend.compiled) == 1
        key = kernels.uses_globals.cache_key
        monkeypatch.setattr(kernels, "SCALE", 3)
        assert kernels.uses_globals.cache_key != key
        for _ in range(3):
            kernels.uses_globals[(1,)](out, BLOCK=4)
        assert len(backend.compiled) == 2


# ---- faults ----------------------------------------------------------------------------------------


def test_device_assert_names_its_place():
    site = ("values must be small", __file__, 3, 4)
    with use(FakeBackend(THREADS, scratch=256, sites=[site], SCRATCH=256, SLEEP=1, FAIL=7)):
        out = np.zeros(32, np.int64)
        for _ in range(2):
            with pytest.raises(DeviceAssertError, match="values must be small") as caught:
                one_pointer[(2, 16)](out)
            assert f"{__file__}:3:5" in str(caught.value)
            assert "program (1, 3, 0)" in str(caught.value)


# ---- misuse ----------------------------------------------------------------------------------------

X, Y, OUT = np.zeros(64, np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)
LOCKED = np.zeros(64, np.float32)
LOCKED.flags.writeable = False
MISTAKES = {
    "no value for 'n'": lambda k: k[(1,)](X, Y, OUT, BLOCK=64),
    "no value for the tl.constexpr parameter 'BLOCK'": lambda k: k[(1,)](X, Y, OUT, 64),
    "6 positional arguments|positional arguments": lambda k: k[(1,)](X, Y, OUT, 64, 64, 1),
    "unknown keyword 'BLOK'": lambda k: k[(1,)](X, Y, OUT, 64, 64, BLOK=64),
    "argument 'x_ptr': expected an array, got a list": lambda k: k[(1,)](
        [1.0], Y, OUT, 64, BLOCK=64
    ),
    "argument 'x_ptr': arrays of dtype complex": lambda k: k[(1,)](
        X.astype(complex), Y, OUT, 64, BLOCK=64
    ),
    "byte order": lambda k: k[(1,)](X.astype(">f4"), Y, OUT, 64, BLOCK=64),
    "does not fit 64 bits": lambda k: k[(1,)](X, Y, OUT, 1 << 70, BLOCK=64),
    "is a tl.constexpr and was given an array": lambda k: k[(1,)](X, Y, OUT, 64, BLOCK=X),
    "negative extent": lambda k: k[(-1,)](X, Y, OUT, 64, BLOCK=64),
    "4 dimensions": lambda k: k[(1, 1, 1, 2)](X, Y, OUT, 64, BLOCK=64),
    "0 dimensions": lambda k: k[()](X, Y, OUT, 64, BLOCK=64),
    "which is a float": lambda k: k[(64 / 64,)](X, Y, OUT, 64, BLOCK=64),
    "holds a str, not an integer": lambda k: k["1"](X, Y, OUT, 64, BLOCK=64),
    "holds a NoneType": lambda k: k[lambda meta: None](X, Y, OUT, 64, BLOCK=64),
    "read-only array": lambda k: k[(1,)](X, Y, LOCKED, 64, BLOCK=64),
    "no grid was given": lambda k: k.run(X, Y, OUT, 64, BLOCK=64),
}


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("message", list(MISTAKES))
def test_misuse(add, message, warm):
    if warm:
        add_kernel[(1,)](X, Y, OUT, 64, BLOCK=64)
    with pytest.raises(LaunchError, match=message.replace("(", r"\(")) as caught:
        MISTAKES[message](add_kernel)
    text = str(caught.value)
    assert (__file__ in text and "lambda k" in text) or "X.astype" in text  # the caller's line
    line = add_kernel.first_line
    assert f"{kernels.__file__}:{line}" in text
    shown = "".join(traceback.format_exception(caught.value))
    assert "src/tilewright" not in shown
    OUT[:] = 0


def test_written_inputs_only_are_checked():
    with use(FakeBackend(ADD, BLOCK=64, written=["o_ptr"])):
        for _ in range(2):
            add_kernel[(1,)](LOCKED, LOCKED, OUT, 64, BLOCK=64)


def test_host_call_is_an_error():
    with pytest.raises(Exception, match="grid"):
        add_kernel(1, 2)


def test_alternating_classes_stay_fast(slots):
    """None or an array for the same parameter: both ways are generated, neither recompiles."""
    out = np.zeros(16, np.int64)
    for _ in range(4):
        for a, b in ((None, 5), (out, 5), (3, 5.0), (True, None)):
            scalars[(1,)](out, a, b)
    assert len(slots.compiled) == 4 == len(scalars._launcher._fast)
    held = scalars[(1,)]
    scalars[(1,)](out, 3, 5.0)
    for a in (None, 3):
        with pytest.raises(LaunchError, match="unknown keyword"):
            held(out, a, 5, BLOK=1)


def test_warmup_takes_a_dtype_for_a_constant_as_it_is():
    @tw.jit
    def fill(out, kind: tl.constexpr):
        tl.store(out, tl.full((), 3.7, kind))

    compiled = fill.warmup(tw.language.float32, kind=tw.language.int32, grid=(1,))
    assert [a.name for a in compiled.plan.arguments if a.kind == "pointer"] == ["out"]


@tw.jit
def parameter_named_grid(grid, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(grid + offsets % 4), mask=offsets < n)


@pytest.mark.parametrize("interpret", ["0", "1", "ir"])
@pytest.mark.parametrize("form", [(2,), 2, lambda meta: (tw.cdiv(meta["n"], meta["BLOCK"]),)])
def test_a_parameter_named_grid(monkeypatch, interpret, form):
    """As in Triton it is given by position; the launch's grid is another value."""
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    table, out = np.arange(4, dtype=np.float32), np.zeros(30, np.float32)
    for _ in range(3):  # the slow path, then the fast one
        out[:] = -1
        parameter_named_grid[form](table, out, 30, BLOCK=16)
        assert np.array_equal(out, np.arange(30) % 4)
    parameter_named_grid.run(table, out, 30, BLOCK=16, grid=form)


def test_a_parameter_named_warmup():
    with pytest.raises(LaunchError, match="a parameter called 'warmup'"):
        tw.jit(lambda warmup: None)[(1,)](1)


@tw.jit
def with_others(out, **others):
    tl.store(out, 1)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_kernels_cannot_take_other_names(library):
    out = pytest.importorskip(library).zeros(1)
    with pytest.raises(tw.LaunchError, match="cannot take a variable number of arguments"):
        with_others[(1,)](out, BLOCK=8)
