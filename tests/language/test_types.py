"""Types as host code sees them: lists of names, biases, texts of signatures, wrapped arrays."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines import ON_CPU

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.errors import CompilationError


@tw.jit
def to_fp32(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.float32))


@tw.jit
def through_foreign(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.float8e4b15).to(tl.float32))


def test_types_by_name():
    names = tl.dtype.SINT_TYPES + tl.dtype.UINT_TYPES + tl.dtype.FP_TYPES + tl.dtype.OTHER_TYPES
    kinds = [tl.dtype(name) for name in names]
    assert set(kinds) >= {tl.int8, tl.uint64, tl.int1, tl.float8e4nv, tl.bfloat16, tl.void}
    assert [tl.dtype(n) for n in tl.dtype.STANDARD_FP_TYPES] == [
        tl.float16, tl.bfloat16, tl.float32, tl.float64,
    ]  # fmt: skip
    assert tl.dtype(tl.constexpr("int8")) == tl.int8
    assert tl.dtype.is_dtype("bf16") and not tl.dtype.is_dtype("bfloat")
    with pytest.raises(ValueError, match="'float' is not the name of a scalar type"):
        tl.dtype("float")


def test_format_of_floats():
    widths = {k: (k.fp_mantissa_width, k.exponent_bias) for k in (tl.float8e4b8, tl.float16)}
    assert widths == {tl.float8e4b8: (3, 8), tl.float16: (10, 15)}
    assert tl.float64.exponent_bias == 1023 and tl.bfloat16.exponent_bias == 127
    assert not hasattr(tl.int8, "exponent_bias") and not hasattr(tl.int8, "fp_mantissa_width")
    assert tl.int8.int_signedness == tl.dtype.SIGNEDNESS.SIGNED
    assert tl.uint8.int_signedness == tl.dtype.SIGNEDNESS.UNSIGNED
    assert [k.kind().value for k in (tl.int1, tl.uint8, tl.float8e5)] == [0, 1, 2]


def test_texts_of_signatures():
    assert tl.str_to_ty("*kfp32") == tl.pointer_type(tl.float32, const=True)
    assert (
        tl.str_to_ty("*fp32") == tl.pointer_type(tl.float32, 1)
        and not tl.pointer_type(tl.int8, 1).const
    )
    assert tl.str_to_ty("u1", None) == tl.int1
    pair = tl.str_to_ty(("i32", "*fp16"))
    assert pair == tl.tuple_type([tl.int32, tl.pointer_type(tl.float16)])
    assert list(pair)[1] == pair[1] and str(pair) == "[i32,pointer<fp16>]"
    assert tl.str_to_ty("constexpr", 3) == tl.constexpr_type(3) == tl.constexpr(3).type
    assert tl.str_to_ty("tensordesc<fp16[8, 16]>") == tl.block_type(tl.float16, (8, 16))
    assert tl.block_type(tl.float16, [tl.constexpr(8), 16]).get_block_shapes() == (8, 16)
    with pytest.raises(ValueError, match="'f32' is not a type of signatures"):
        tl.str_to_ty("f32")


@pytest.mark.parametrize("kind", [tl.float8e4b8, tl.float8e5b16, tl.float8e4b15], ids=str)
@pytest.mark.parametrize("engine", ON_CPU)
def test_8_bit_floats_of_other_chips_are_rejected(engine, kind, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", {"cpu": "0", "ir": "ir", "eager": "1"}[engine])
    out = np.zeros(16, np.float32)
    given = tw.reinterpret(np.zeros(16, np.int8), kind)
    with pytest.raises(CompilationError, match="not supported in this architecture") as caught:
        to_fp32[(1,)](given, out, 16)
    assert str(kind) in caught.value.message and "float8e4nv" in caught.value.help
    with pytest.raises(CompilationError, match="not supported in this architecture"):
        through_foreign[(1,)](out, out, 16)


def test_8_bit_floats_of_other_chips_in_a_signature():
    with pytest.raises(CompilationError, match=r"'x_ptr': the type pointer<fp8e4b8> is not"):
        to_fp32.compile({"x_ptr": "*fp8e4b8", "out_ptr": "*fp32"}, {"N": 16}, target="sm_90a")


def test_reinterpreted_array():
    bits = np.arange(12, dtype=np.int16).reshape(3, 4)
    wrapped = tw.reinterpret(bits, tl.uint16)
    assert wrapped.shape == (3, 4) and wrapped.stride() == (4, 1) and wrapped.stride(0) == 4
    assert wrapped.numel() == 12 and wrapped.element_size() == 2 and not wrapped.is_cuda
    empty = wrapped.new_empty((2, 2))
    assert empty.dtype == tl.uint16 and empty.shape == (2, 2) == wrapped.new_empty(2, 2).shape
    empty.copy_(wrapped.clone().data[:2, :2])
    np.testing.assert_array_equal(empty.data, bits[:2, :2])
    wrapped.data = wrapped.data[:, 1:3]
    assert wrapped.shape == (3, 2) and wrapped.data_ptr() == bits.ctypes.data + 2


def test_reinterpreted_tensor():
    torch = pytest.importorskip("torch")
    bits = torch.arange(-4, 4, dtype=torch.int32)
    wrapped = tw.reinterpret(bits, tl.uint32)
    out = wrapped.new_empty(8).to("cpu")
    assert out.dtype == tl.uint32 and out.cpu().data.shape == (8,)
    copy_of[(1,)](wrapped, out, 8)
    assert torch.equal(out.data, bits)


@tw.jit
def copy_of(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.static_assert(x_ptr.dtype.element_ty == tl.uint32)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@tw.jit
def annotated_flags(out_ptr, flag: tl.int1, other: tl.uint1, small: tl.uint8):
    tl.static_assert(flag.dtype == tl.int1 and other.dtype == tl.int1 and small.dtype == tl.uint8)
    tl.store(out_ptr + flag, small)
    tl.store(out_ptr + 2, other)


def test_annotations_name_booleans():
    out = np.zeros(3, np.int32)
    annotated_flags[(1,)](out, True, True, 200)
    assert out.tolist() == [0, 200, 1]


def test_reprs_name_types_of_the_language():
    for kind in (*dtypes.ALL_SCALARS, *dtypes.FOREIGN, dtypes.void):
        assert eval(repr(kind), {"tilewright": tw}) is kind
