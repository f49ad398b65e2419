"""Code from elsewhere in kernels: PTX, and functions of libdevice by their symbols."""

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia import tools
from tilewright.errors import CompilationError, InterpreterError, KernelTypeError, PassError
from tilewright.language import core

FP32, FP64 = core.dtype("fp32"), core.dtype("fp64")


@core.extern
def asin(x, _semantic=None):
    table = {(FP32,): ("__nv_asinf", FP32), (FP64,): ("__nv_asin", FP64)}
    return core.extern_elementwise("libdevice", "", [x], table, is_pure=True, _semantic=_semantic)


@core.extern
def power(x, y, _semantic=None):
    table = {(FP32, FP32): ("__nv_powf", FP32)}
    return core.extern_elementwise("libdevice", "", [x, y], table, True, _semantic=_semantic)


@core.extern
def too_few(x, _semantic=None):
    return core.extern_elementwise("libdevice", "", [x], {(FP32,): ("__nv_powf", FP32)}, True)


@core.extern
def foreign(x, _semantic=None):
    return core.extern_elementwise("mine", "mine.bc", [x], {(FP32,): ("f", FP32)}, True)


@tw.jit
def externs(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, power(asin(x), x + 1))


@tw.jit
def one(x_ptr, out_ptr, N: tl.constexpr, F: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, F(tl.load(x_ptr + at)))


@tw.jit
def ptx(x_ptr, N: tl.constexpr, TEXT: tl.constexpr, LETTERS: tl.constexpr, PACK: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    made = tl.inline_asm_elementwise(
        TEXT, LETTERS, [x], dtype=x_ptr.dtype.element_ty, is_pure=True, pack=PACK
    )
    tl.store(x_ptr + at, made)


@pytest.mark.parametrize("interpret", ["0", "1", "ir"])
def test_functions_of_libdevice_mean_the_same_everywhere(interpret, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_INTERPRET", interpret)
    x = np.linspace(0.01, 0.9, 64, dtype=np.float32)
    out = np.zeros_like(x)
    externs[(1,)](x, out, N=64)
    np.testing.assert_allclose(out, np.arcsin(x) ** (x + 1), rtol=1e-5)


def test_functions_of_libdevice_on_a_gpu():
    kernel = externs.compile({"x_ptr": "*fp32", "out_ptr": "*fp32"}, {"N": 64}, target="sm_80")
    assert ".visible .entry externs" in kernel.asm["ptx"]


@pytest.mark.parametrize(
    ("function", "dtype", "message"),
    [
        (foreign, np.float32, "'f' of mine is not known"),
        (asin, np.int32, r"no function for \(i32\)"),
        (too_few, np.float32, "'__nv_powf' takes 2 arguments, got 1"),
    ],
)
def test_functions_that_are_not_there(function, dtype, message):
    x = np.ones(16, dtype)
    with pytest.raises(KernelTypeError, match=message):
        one[(1,)](x, np.ones(16, np.float32), N=16, F=function)


def compiled(kind="fp32", text="neg.f32 $0, $1;", letters="=f,f", pack=1, target="sm_80"):
    constants = {"N": 128, "TEXT": text, "LETTERS": letters, "PACK": pack}
    return ptx.compile({"x_ptr": f"*{kind}:16"}, constants, target=target)


def test_dollar_signs_and_braces_in_ptx():
    text = "{ .reg .f32 $$a; neg.f32 $$a, ${1}; mov.f32 $0, $$a; }"
    assert "{ .reg .f32 $a; neg.f32 $a, %" in compiled(text=text).asm["ptx"]


def test_ptx_goes_into_the_code_once_for_each_group():
    assert "neg.f32 " in compiled(letters=" =f, f").asm["ptx"]
    alone = compiled("i8", "xor.b32 $0, $1, 255;", "=r,r", 1)
    four = compiled("i8", "xor.b32 $0, $1, 255;", "=r,r", 4)
    count = four.asm["ptx"].count("xor.b32 ")
    assert count >= 1 and alone.asm["ptx"].count("xor.b32 ") == 4 * count
    single = compiled("fp16", "neg.f16 $0, $1;", "=h,h", 1)
    pairs = compiled("fp16", "neg.f16x2 $0, $1;", "=r,r", 2)
    assert single.asm["ptx"].count("neg.f16 ") == 2 * pairs.asm["ptx"].count("neg.f16x2 ") > 0
    assert 'tile.inline_asm "neg.f16 $0, $1;"' in single.asm["tile"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"letters": "=f,h"}, "'h' is a register of 16 bits, and 1 x fp32 takes 32"),
        ({"letters": "=f,d"}, "'d' is a register of 64 bits"),
        ({"letters": "=f"}, "for 0 registers of arguments, and there are 1"),
        ({"letters": "=f,=f,f"}, "for 2 registers of results, and there are 1"),
        ({"letters": "=f,x"}, "'x' is not one of PTX"),
        ({"pack": 3}, "pack=3 is not a power of two"),
        ({"kind": "i8", "letters": "=r,r,r", "pack": 4}, "2 registers of arguments"),
        # LLVM ends the process for these
        ({"text": "neg.f32 $0, $2;"}, r"'\$2' in the text is not an operand"),
        ({"text": "neg.f32 $0, ${2};"}, r"'\$\{2\}' in the text is not an operand"),
        ({"text": "neg.f32 $0, ${1:z};"}, r"'\$\{1:z\}' in the text is not an operand"),
        ({"text": "neg.f32 $0, $x;"}, r"'\$x' in the text is not an operand"),
        ({"text": "neg.f32 $0, ${1"}, r"'\$\{1' in the text is not an operand"),
        ({"text": "neg.f32 $0, $"}, r"'\$' in the text is not an operand"),
        ({"text": "neg.f32 $0, $("}, r"'\$\(' in the text is not an operand"),
    ],
)
def test_wrong_constraints(given, message):
    with pytest.raises(KernelTypeError, match=message) as caught:
        compiled(**given)
    assert f"{__file__}:" in str(caught.value)


@pytest.mark.skipif(tools.find("ptxas") is None, reason="no ptxas")
def test_instructions_that_do_not_exist_are_told_with_the_kernels_line():
    with pytest.raises(
        PassError, match="Not a name of any known instruction: 'nonsense'"
    ) as caught:
        compiled(text="nonsense.f32 $0, $1;")
    assert f"{__file__}:{ptx.first_line}:" in str(caught.value)


def test_other_machines_say_that_they_cannot(monkeypatch):
    with pytest.raises(CompilationError, match="PTX, which only NVIDIA GPUs run") as caught:
        compiled(target="cpu")
    assert f"{__file__}:{ptx.first_line + 3}:" in str(caught.value)
    for mode in ("1", "ir"):
        monkeypatch.setenv("TILEWRIGHT_INTERPRET", mode)
        with pytest.raises(InterpreterError, match="PTX, which only NVIDIA GPUs run"):
            ptx[(1,)](np.ones(16, np.float32), N=16, TEXT="", LETTERS="=f,f", PACK=1)


@tw.jit
def immediate(x_ptr, n, N: tl.constexpr, TABLE: tl.constexpr, RUN_TIME: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    table = n if RUN_TIME else TABLE
    made = tl.inline_asm_elementwise(
        "lop3.b32 $0, $1, $2, $4, $3;", "=r,r,n,n,r", [x, 0x0F0F, table, 7],
        dtype=tl.int32, is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(x_ptr + at, made)


def test_immediate_operands_of_ptx():
    """They stand in the text, and the registers after them are counted anew."""
    types = {"x_ptr": "*i32", "n": "i32"}
    kernel = immediate.compile(types, {"N": 64, "TABLE": 0xEA, "RUN_TIME": False}, target="sm_80")
    found = [line for line in kernel.asm["ptx"].splitlines() if "lop3.b32" in line]
    assert found and all("3855," in line and line.rstrip().endswith("234;") for line in found)


def test_immediate_operands_are_known_when_a_kernel_is_compiled():
    types = {"x_ptr": "*i32", "n": "i32"}
    with pytest.raises(CompilationError, match="'n' takes an integer that is known when"):
        immediate.compile(types, {"N": 64, "TABLE": 0, "RUN_TIME": True}, target="sm_80")
