"""The stubs agree with `Semantics`, carry documentation, and stay light."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import tilewright.language as tl
from tilewright.language import core, libdevice
from tilewright.language.builtin import OutsideKernelError
from tilewright.language.extra import cuda
from tilewright.semantics import Semantics


def _stubs():
    for module in (core, libdevice, cuda, tl.math):
        for name, value in vars(module).items():
            if hasattr(value, "__tl_builtin__"):
                yield pytest.param(value, id=f"{module.__name__.rpartition('.')[2]}.{name}")


@pytest.mark.parametrize("stub", list(_stubs()))
def test_signature_is_that_of_semantics(stub):
    method = getattr(Semantics, stub.__tl_builtin__)
    ours = [(p.name, p.kind, p.default) for p in inspect.signature(stub).parameters.values()]
    theirs = [(p.name, p.kind, p.default) for p in inspect.signature(method).parameters.values()]
    assert ours == theirs[1:]
    assert stub.__doc__


def test_every_libdevice_method_has_a_stub():
    methods = {n.removeprefix("libdevice_") for n in dir(Semantics) if n.startswith("libdevice_")}
    assert methods == set(libdevice.__all__)


def test_everything_exported_exists():
    for name in tl.__all__:
        assert getattr(tl, name) is not None


@pytest.mark.parametrize(
    "name",
    [
        "program_id",
        "num_programs",
        "tensor",
        "constexpr",
        "const",
        "pointer_type",
        "block_type",
        "dtype",
        "void",
        "arange",
        "full",
        "zeros",
        "zeros_like",
        "cat",
        "cast",
        "broadcast",
        "broadcast_to",
        "expand_dims",
        "reshape",
        "view",
        "ravel",
        "trans",
        "permute",
        "join",
        "split",
        "interleave",
        "squeeze",
        "unsqueeze",
        "dot",
        "dot_scaled",
        "load",
        "store",
        "make_tensor_descriptor",
        "load_tensor_descriptor",
        "store_tensor_descriptor",
        "make_block_ptr",
        "advance",
        "where",
        "gather",
        "flip",
        "swizzle2d",
        "abs",
        "ceil",
        "floor",
        "exp",
        "exp2",
        "log",
        "log2",
        "sin",
        "cos",
        "sqrt",
        "rsqrt",
        "erf",
        "sqrt_rn",
        "div_rn",
        "fdiv",
        "fma",
        "umulhi",
        "maximum",
        "minimum",
        "clamp",
        "cdiv",
        "sigmoid",
        "softmax",
        "add",
        "sub",
        "mul",
        "sum",
        "max",
        "min",
        "argmax",
        "argmin",
        "xor_sum",
        "reduce_or",
        "reduce",
        "associative_scan",
        "cumsum",
        "cumprod",
        "histogram",
        "sort",
        "topk",
        "bitonic_merge",
        "atomic_add",
        "atomic_cas",
        "atomic_xchg",
        "atomic_max",
        "atomic_min",
        "atomic_and",
        "atomic_or",
        "atomic_xor",
        "rand",
        "randn",
        "rand4x",
        "randn4x",
        "randint",
        "randint4x",
        "philox",
        "philox_impl",
        "uint_to_uniform_float",
        "pair_uniform_to_normal",
        "range",
        "static_range",
        "condition",
        "inline_asm_elementwise",
        "multiple_of",
        "max_contiguous",
        "max_constancy",
        "assume",
        "debug_barrier",
        "static_print",
        "static_assert",
        "device_print",
        "device_assert",
        "int1",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "float8e5",
        "float8e4nv",
        "PropagateNan",
        "extra",
        "math",
        "core",
        "standard",
    ],
)
def test_name_of_the_language(name):
    assert hasattr(tl, name)


def test_old_homes_of_functions():
    assert tl.math.tanh.__tl_builtin__ == "tanh"
    assert tl.math.pow.__tl_builtin__ == "libdevice_pow"
    assert tl.extra.cuda.libdevice.rsqrt is tl.extra.libdevice.rsqrt is tl.libdevice.rsqrt
    assert tl.core.extern_elementwise and tl.standard.sort is tl.sort
    with pytest.raises(AttributeError, match="no attribute 'tanhh'"):
        tl.math.tanhh


def test_host_calls():
    assert tl.cdiv(10, 4) == 3 and tl.next_power_of_2(65) == 128 == tl.next_power_of_2(128)
    with pytest.raises(OutsideKernelError, match=r"tl\.load was called outside a kernel"):
        tl.load(0)
    with pytest.raises(OutsideKernelError, match="launch it with a grid"):
        tl.rand(0, 1)


def test_ranges():
    loop = tl.range(2, 10, 3, num_stages=4)
    assert (loop.start, loop.end, loop.step, loop.num_stages) == (2, 10, 3, 4)
    assert list(tl.range(3)) == [0, 1, 2]
    assert all(isinstance(i, tl.constexpr) for i in tl.static_range(tl.constexpr(3)))


def test_import_is_light():
    code = (
        "import sys, tilewright.language;"
        "print([m for m in ('numpy','xdsl','torch','llvmlite') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
