"""AMX kernels: their instructions, and their results with the tile unit emulated in NumPy."""

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.dot_probe import (
    TARGETS,
    CompiledDot,
    assembly,
    runs_here,
    vector_spills,
)
from llvmlite import binding as llvm

from tilewright.backends.cpu.lower.dot_amx import tile_configuration
from tilewright.backends.cpu.target import request_amx
from tilewright.passes.cpu.dot_plan import GROUP, BufferLayout, plan_dot

AMX = TARGETS["amx"]
AVX512 = TARGETS["avx512"]


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(x):
    return (x.astype(np.uint32) << 16).view(np.float32)


class TileUnit:
    """The eight tile registers, driven by calls in place of the instructions (Intel SDM, volume 2)."""

    def __init__(self):
        self.tiles = [None] * 8
        self.extents = [(0, 0)] * 8
        v, i, p = None, ctypes.c_uint8, ctypes.c_void_p
        self.calls = {
            "ldtilecfg": ctypes.CFUNCTYPE(v, p)(self.configure),
            "tilerelease": ctypes.CFUNCTYPE(v)(self.release),
            "tileloadd64": ctypes.CFUNCTYPE(v, i, p, ctypes.c_int64)(self.load),
            "tilestored64": ctypes.CFUNCTYPE(v, i, p, ctypes.c_int64)(self.store),
            "tdpbf16ps": ctypes.CFUNCTYPE(v, i, i, i)(self.bf16),
            "tdpbssd": ctypes.CFUNCTYPE(v, i, i, i)(self.int8),
        }
        for name, call in self.calls.items():
            llvm.add_symbol(f"emulated_{name}", ctypes.cast(call, p).value)

    @staticmethod
    def rewrite(text):
        return re.sub(r'@"?llvm\.x86\.(\w*tile\w*|tdp\w+)"?', r"@emulated_\1", text)

    def configure(self, address):
        data = ctypes.string_at(address, 64)
        assert data[0] == 1 and address % 64 == 0
        self.extents = [
            (data[48 + t], int.from_bytes(data[16 + 2 * t : 18 + 2 * t], "little"))
            for t in range(8)
        ]
        assert all(rows <= 16 and size <= 64 for rows, size in self.extents)

    def release(self):
        self.extents = [(0, 0)] * 8

    def load(self, t, address, stride):
        rows, size = self.extents[t]
        raw = [ctypes.string_at(address + r * stride, size) for r in range(rows)]
        self.tiles[t] = np.frombuffer(b"".join(raw), np.uint8).reshape(rows, size).copy()

    def store(self, t, address, stride):
        for r, row in enumerate(self.tiles[t]):
            ctypes.memmove(address + r * stride, row.tobytes(), row.size)

    def _product(self, c, a, b, group, view, total):
        left, right = view(self.tiles[a]), view(self.tiles[b])
        (rows, depth), lanes = left.shape, right.shape[1] // group
        assert right.shape[0] * group == depth
        right = right.reshape(-1, lanes, group).transpose(0, 2, 1).reshape(depth, lanes)
        sums = self.tiles[c].view(total)
        assert sums.shape == (rows, lanes)
        self.tiles[c] = (sums + left @ right).astype(total).view(np.uint8)

    def bf16(self, c, a, b):
        self._product(c, a, b, 2, lambda t: from_bf16(t.view(np.uint16)), np.float32)

    def int8(self, c, a, b):
        self._product(c, a, b, 4, lambda t: t.view(np.int8).astype(np.int32), np.int32)


@pytest.fixture(scope="module")
def unit():
    if not runs_here(AVX512):
        pytest.skip("needs AVX-512 around the emulated instructions")
    return TileUnit()


def compiled(m, n, k, types):
    plan = plan_dot(m, n, k, *types, AMX)
    assert plan.uses_amx
    return CompiledDot(plan, AVX512, TileUnit.rewrite)


SHAPES = [(32, 32, 32), (16, 16, 32), (48, 48, 96), (32, 24, 64), (28, 16, 128)]


@pytest.mark.parametrize("shape", SHAPES)
def test_bf16(unit, shape):
    m, n, k = shape
    rng = np.random.default_rng(1)
    a, b = to_bf16(rng.standard_normal((m, k))), to_bf16(rng.standard_normal((k, n)))
    acc = rng.standard_normal((m, n)).astype(np.float32)
    result = compiled(m, n, k, ("bf16", "bf16", "f32"))(a, b, acc, fetch=True)
    exact = acc + from_bf16(a).astype(np.float64) @ from_bf16(b).astype(np.float64)
    np.testing.assert_allclose(result, exact, atol=1e-5 * k**0.5)


@pytest.mark.parametrize("shape", [(32, 32, 64), (48, 24, 128), (16, 16, 64)])
def test_int8_is_exact(unit, shape):
    m, n, k = shape
    rng = np.random.default_rng(2)
    a = rng.integers(-128, 127, (m, k), np.int8, endpoint=True)
    b = rng.integers(-128, 127, (k, n), np.int8, endpoint=True)
    acc = rng.integers(-1000, 1000, (m, n), np.int32)
    result = compiled(m, n, k, ("i8", "i8", "i32"))(a, b, acc)
    np.testing.assert_array_equal(result, acc + a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ["bf16", "i8"])
def test_operands_are_read_where_they_stand(unit, shape, element):
    """Panels with interleaved rows, as they are packed once for all programs, without a copy."""
    m, n, k = shape
    plan = plan_dot(m, n, k, element, element, "f32" if element == "bf16" else "i32", AMX)
    assert plan.uses_amx
    columns, group = plan.micro.columns, GROUP[plan.kind]
    plan = replace(
        plan,
        a_layout=BufferLayout("row", m, k, k, in_place=True),
        b_layout=BufferLayout("panel", k, n, columns, group=group, in_place=True),
        fetch_a=(1, m * k * (2 if element == "bf16" else 1)),
    )
    dot, rng = CompiledDot(plan, AVX512, TileUnit.rewrite), np.random.default_rng(5)
    if element == "i8":
        a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
        acc = rng.integers(-1000, 1000, (m, n), np.int32)
        np.testing.assert_array_equal(dot(a, b, acc), acc + a.astype(np.int32) @ b)
        return
    a, b = (to_bf16(rng.standard_normal(s)) for s in ((m, k), (k, n)))
    acc = rng.standard_normal((m, n)).astype(np.float32)
    exact = acc + from_bf16(a).astype(np.float64) @ from_bf16(b).astype(np.float64)
    np.testing.assert_allclose(dot(a, b, acc, fetch=True), exact, atol=1e-5 * k**0.5)


@pytest.mark.parametrize("shape", SHAPES)
def test_fp16_split_is_exact(unit, shape):
    m, n, k = shape
    rng = np.random.default_rng(3)
    # all exponents, subnormal numbers too
    a = (rng.standard_normal((m, k)) * 2.0 ** rng.integers(-20, 3, (m, k))).astype(np.float16)
    b = (rng.standard_normal((k, n)) * 2.0 ** rng.integers(-20, 3, (k, n))).astype(np.float16)
    acc = rng.standard_normal((m, n)).astype(np.float32)
    result = compiled(m, n, k, ("f16", "f16", "f32"))(a, b, acc, fetch=True)
    exact = acc + a.astype(np.float64) @ b.astype(np.float64)
    bound = np.abs(acc) + np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert (np.abs(result - exact) <= 1e-6 * bound).all()


@pytest.mark.parametrize("where", ["a", "b"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_fp16_infinities_take_the_other_kernel(unit, where, value):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((48, 48)).astype(np.float16) for _ in range(2))
    {"a": a, "b": b}[where][5, 7] = value
    acc = np.zeros((48, 48), np.float32)
    dot = compiled(48, 48, 48, ("f16", "f16", "f32"))
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(dot(a, b, acc), exact, atol=1e-4)


@pytest.mark.parametrize(
    ("types", "instruction", "count"),
    [(("bf16",) * 2 + ("f32",), "tdpbf16ps", 4), (("f16",) * 2 + ("f32",), "tdpbf16ps", 16),
     (("i8",) * 2 + ("i32",), "tdpbssd", 4)],
)  # fmt: skip
def test_assembly(types, instruction, count):
    asm = assembly(plan_dot(128, 128, 128, *types, AMX), AMX)
    assert len(re.findall(rf"\b{instruction}\b", asm)) == count
    assert asm.count("ldtilecfg") == asm.count("tilerelease") == 1
    assert vector_spills(asm) == 0


def test_configurations():
    one = plan_dot(128, 128, 128, "bf16", "bf16", "f32", AMX)
    assert len(tile_configuration(one)) == 64
    assert isinstance(request_amx(), bool)
