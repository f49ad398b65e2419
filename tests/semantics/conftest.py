"""A builder on NumPy, small and independent of the interpreter, to give semantics a meaning."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tilewright import dtypes as t
from tilewright.language.core import active_semantics
from tilewright.semantics import Semantics

_DTYPES = {
    "int1": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.int8, "uint16": np.int16, "uint32": np.int32, "uint64": np.int64,
    "fp8e4nv": ml_dtypes.float8_e4m3fn, "fp8e5": ml_dtypes.float8_e5m2, "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64,
}  # fmt: skip
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def numpy_type(kind):
    return np.dtype(np.int64 if kind.is_ptr() else _DTYPES[kind.name])


def _unsigned(x):
    return x if x.dtype == bool else x.view(_UNSIGNED[x.dtype.itemsize])


def _c_quotient(a, b):
    exact = np.where(b == 0, 1, b)
    q = abs(a) // abs(exact)
    return np.where((a < 0) != (exact < 0), -q, q).astype(a.dtype)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_BINARY = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "addf": np.add, "subf": np.subtract,
    "mulf": np.multiply, "divf": np.divide, "andi": np.bitwise_and, "ori": np.bitwise_or,
    "xori": np.bitwise_xor, "shli": np.left_shift, "shrsi": np.right_shift,
    "shrui": lambda a, b: _unsigned(a) >> _unsigned(b),
    "divsi": _c_quotient, "remsi": lambda a, b: a - _c_quotient(a, b) * b,
    "divui": lambda a, b: _unsigned(a) // _unsigned(b),
    "remui": lambda a, b: _unsigned(a) % _unsigned(b),
    "maxsi": np.maximum, "minsi": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin,
    "maximumf": np.maximum, "minimumf": np.minimum,
    "maxui": lambda a, b: np.maximum(_unsigned(a), _unsigned(b)),
    "minui": lambda a, b: np.minimum(_unsigned(a), _unsigned(b)),
}  # fmt: skip
_UNARY = {
    "absf": np.abs, "absi": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log,
    "log2": np.log2, "sin": np.sin, "cos": np.cos, "sqrt": np.sqrt, "floor": np.floor,
    "ceil": np.ceil, "tanh": np.tanh, "erf": _erf, "rsqrt": lambda x: 1 / np.sqrt(x),
    "trunc": np.trunc, "roundeven": np.rint,
}  # fmt: skip
_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


class NumpyBuilder:
    """Handles are arrays; pointers are byte addresses into `memory` (bytes)."""

    def __init__(self):
        self.memory = np.zeros(1 << 16, np.uint8)
        self.names = []

    def concrete(self, handle):
        return handle

    def constant(self, value, result_type):
        kind = numpy_type(result_type)
        if result_type.is_floating():
            return np.array(float(value)).astype(kind)
        bits = result_type.primitive_bitwidth
        value = int(value) & ((1 << bits) - 1)
        if bits == 1:
            return np.array(bool(value))
        return np.array(value - (1 << bits) if value >> (bits - 1) else value, kind)

    def op(self, name, operands, result_type=None, **attributes):
        self.names.append(name)
        with np.errstate(all="ignore"):
            result = self._evaluate(name, operands, result_type, attributes)
        if result_type is None:
            return None
        several = isinstance(result_type, tuple)
        results = result if several else (result,)
        kinds = result_type if several else (result_type,)
        out = []
        for value, kind in zip(results, kinds, strict=True):
            value = np.asarray(value)
            want = numpy_type(kind.scalar)
            if value.dtype.kind == "u" and want.kind == "i":
                value = value.view(want)
            assert value.shape == tuple(kind.shape), (name, value.shape, kind)
            assert name.startswith(("arith.", "math.", "tile.libm")) or value.dtype == want, (
                name, value.dtype, kind,
            )  # fmt: skip
            out.append(value.astype(want))
        return tuple(out) if several else out[0]

    def _evaluate(self, name, operands, kind, attributes):
        short = name.partition(".")[2]
        present = [np.asarray(v) for v in operands if v is not None]
        if name.startswith("arith."):
            if short in _BINARY:
                assert present[0].dtype == present[1].dtype, (name, [v.dtype for v in present])
                assert present[0].shape == present[1].shape
                return _BINARY[short](*present)
            if short == "negf":
                return -present[0]
            if short in ("extui", "uitofp") and present[0].dtype != bool:
                return _unsigned(present[0]).astype(numpy_type(kind.scalar))
            return present[0].astype(numpy_type(kind.scalar))
        if name.startswith("math."):
            if short == "powf":
                return np.power(*present)
            if short == "fma":
                a, b, c = (v.astype(np.longdouble) for v in present)
                return a * b + c
            return _UNARY[short](present[0])
        return getattr(self, f"_{short}")(operands, kind, **attributes)

    def _program_id(self, operands, kind, /, axis):
        return np.int32(axis + 5)

    def _num_programs(self, operands, kind, /, axis):
        return np.int32(8)

    def _arange(self, operands, kind, /, start, end):
        return np.arange(start, end, dtype=np.int32)

    def _splat(self, operands, kind, /):
        return np.broadcast_to(operands[0], kind.shape)

    _broadcast = _splat

    def _expand_dims(self, operands, kind, /, axis):
        return np.expand_dims(operands[0], axis)

    def _reshape(self, operands, kind, /):
        return operands[0].reshape(kind.shape)

    def _trans(self, operands, kind, /, order):
        return operands[0].transpose(order)

    def _join(self, operands, kind, /):
        return np.stack(operands, -1)

    def _split(self, operands, kind, /):
        return operands[0][..., 0], operands[0][..., 1]

    def _cat(self, operands, kind, /, axis):
        return np.concatenate(operands, axis)

    def _gather(self, operands, kind, /, axis):
        return np.take_along_axis(*operands, axis)

    def _cmpi(self, operands, kind, /, predicate):
        a, b = operands
        if predicate[0] == "u":
            a, b = _unsigned(np.asarray(a)), _unsigned(np.asarray(b))
        return _COMPARE[predicate[-2:]](a, b)

    def _cmpf(self, operands, kind, /, predicate):
        assert operands[0].dtype == operands[1].dtype
        return _COMPARE[predicate[1:]](*operands)

    def _select(self, operands, kind, /):
        assert operands[1].dtype == operands[2].dtype
        return np.where(*operands)

    def _remf(self, operands, kind, /):
        return np.fmod(*operands)

    def _gate(self, operands, kind, /, function):
        return operands[0] / (1 + getattr(np, function)(operands[1]))

    def _umulhi(self, operands, kind, /):
        a, b = (_unsigned(np.asarray(v)).astype(object) for v in operands)
        bits = kind.scalar.primitive_bitwidth
        return ((a * b) >> bits).astype(_UNSIGNED[bits // 8])

    def _fp_cast(self, operands, kind, /, rounding):
        x = operands[0]
        near = x.astype(numpy_type(kind.scalar))
        too_far = abs(near.astype(np.float64)) > abs(x.astype(np.float64))
        return np.where(too_far, np.nextafter(near, np.zeros_like(near)), near)

    def _bitcast(self, operands, kind, /):
        return np.asarray(operands[0]).view(numpy_type(kind.scalar))

    def _int_to_ptr(self, operands, kind, /):
        return operands[0]

    _ptr_to_int = _int_to_ptr

    def _hint(self, operands, kind, /, **attributes):
        return operands[0]

    def _libm(self, operands, kind, /, function):
        fn = {"isnan": np.isnan, "pow": np.power}.get(function) or getattr(
            np, {"round": "rint"}.get(function, function), None
        )
        if fn is None:
            fn = np.vectorize(getattr(math, function), otypes=[np.float64])
        return fn(*operands)

    def _addptr(self, operands, kind, /):
        return operands[0] + operands[1].astype(np.int64) * kind.scalar.element_ty.itemsize

    def _load(self, operands, kind, /, cache=None, eviction=None, volatile=None):
        pointer, mask, other = operands
        want = numpy_type(kind.scalar)
        out = np.zeros(kind.shape, want) if other is None else np.array(other)
        for at in np.ndindex(*kind.shape):
            if mask is None or mask[at]:
                address = int(pointer[at])
                out[at] = self.memory[address : address + want.itemsize].view(want)[0]
        return out

    def _store(self, operands, kind, /, cache=None, eviction=None):
        pointer, value, mask = operands
        value = np.asarray(value)
        for at in np.ndindex(*value.shape):
            if mask is None or mask[at]:
                address = int(pointer[at])
                raw = np.frombuffer(np.asarray(value[at]).tobytes(), np.uint8)
                self.memory[address : address + raw.size] = raw

    def _dot(self, operands, kind, /, input_precision, max_num_imprecise_acc=None):
        a, b, c = operands
        wide = np.float64 if kind.is_floating() else np.int64
        return (a.astype(wide) @ b.astype(wide) + c).astype(c.dtype)

    def _histogram(self, operands, kind, /):
        x = operands[0] if operands[1] is None else operands[0][operands[1]]
        return np.bincount(x, minlength=kind.shape[0]).astype(np.int32)

    def _print(self, operands, kind, /, **attributes):
        self.printed = attributes

    def _assert(self, operands, kind, /, message):
        assert np.all(operands[0]), message

    def _atomic_rmw(self, operands, kind, /, **attributes):
        pointer, value, mask = operands
        old = self._load([pointer, mask, None], kind)
        self._store(
            [pointer, self.op(f"arith.{attributes['kind']}i", [old, value], kind), mask], None
        )
        return old

    def region_op(self, name, operands, result_types, argument_types, combine, axis, reverse=False):
        self.names.append(name)
        arrays = [np.moveaxis(v, axis, 0) for v in operands]
        order = range(len(arrays[0]))
        outs = [np.empty_like(a) for a in arrays]
        for at in np.ndindex(*arrays[0].shape[1:]):
            total = None
            for i in reversed(order) if reverse else order:
                now = [a[(i, *at)] for a in arrays]
                total = now if total is None else combine(*total, *now)
                for out, value in zip(outs, total, strict=True):
                    out[(i, *at)] = value
        if name == "tile.reduce":
            return tuple(np.asarray(out[-1]) for out in outs)
        return tuple(np.moveaxis(out, 0, axis) for out in outs)


@pytest.fixture
def sem():
    """Eager semantics; `tl` names and tensor operators work inside the test."""
    semantics = Semantics(NumpyBuilder(), debug=True)
    token = active_semantics.set(semantics)
    yield semantics
    active_semantics.reset(token)


@pytest.fixture
def make(sem):
    """`make(array_like, kind)`: a tensor of that language type."""

    def make(values, kind):
        array = np.asarray(values)
        if kind.is_int() and not kind.is_bool() and array.dtype != object:
            array = array.astype(np.int64)
        want = numpy_type(kind)
        if kind.is_int_unsigned() and not kind.is_bool():
            array = array.astype(_UNSIGNED[want.itemsize]).view(want)
        return sem.tensor(array.astype(want), kind.with_shape(array.shape))

    return make


@pytest.fixture
def show():
    """A tensor as an array that NumPy reads with the right sign; floats as fp64."""

    def show(x):
        array = np.asarray(x.handle)
        if x.dtype.is_int() and x.dtype.is_int_unsigned() and not x.dtype.is_bool():
            return _unsigned(array)
        return array.astype(np.float64) if x.dtype.is_floating() else array

    return show


@pytest.fixture
def place(sem):
    """`place(array, kind, address)`: put an array in memory and give a pointer to it."""

    def place(array, kind, address=64):
        raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        sem.builder.memory[address : address + raw.size] = raw
        return sem.tensor(np.array(address, np.int64), t.pointer_type(kind))

    return place
