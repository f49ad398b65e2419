"""Words of accesses: what has been taken apart, or is constant, is put together without instructions."""

from llvmlite import ir

from tilewright.backends.llvm.context import SharingBuilder
from tilewright.backends.llvm.function import KernelFunction
from tilewright.backends.nvidia.lower.vector_access import joined

I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)


def block():
    module = ir.Module(context=ir.Context())
    function = KernelFunction(module, ir.FunctionType(ir.VoidType(), [I32, I32]), "k")
    return SharingBuilder(function.append_basic_block("entry")), function


def lanes(b, word, count=2):
    vector = b.bitcast(word, ir.VectorType(I16, count))
    return [b.extract_element(vector, I32(i)) for i in range(count)]


def test_the_parts_of_an_integer_are_that_integer():
    b, function = block()
    x = function.args[0]
    low, high = lanes(b, x)
    assert joined([low, high], b) is x
    assert joined([b.trunc(x, I16), b.trunc(b.lshr(x, I32(16)), I16)], b) is x
    wide = b.zext(x, I64)
    assert joined(lanes(b, wide, 4), b) is wide


def test_other_parts_are_not():
    b, function = block()
    x, y = function.args
    (low, high), (other, _) = lanes(b, x), lanes(b, y)
    wide = b.zext(x, I64)
    of_wide = lanes(b, wide, 4)
    cases = [
        [high, low], [low, low], [low, other], [other, high], of_wide[:2], of_wide[2:],
        [b.trunc(x, I16), b.trunc(b.lshr(x, I32(8)), I16)],
        [b.trunc(wide, I16), b.trunc(b.lshr(wide, I64(16)), I16)],
        [low, I16(0)], [I16(0), high], [low, b.load(b.inttoptr(x, ir.PointerType()), typ=I16)],
    ]  # fmt: skip
    for parts in cases:
        found = joined(parts, b)
        assert found is not x and found.type == I32 and found.opname == "bitcast", parts


def test_constants_are_one_constant():
    b, _ = block()
    undefined = ir.Constant(I16, ir.Undefined)
    assert joined([I16(1), I16(2)], b).constant == 0x20001
    assert joined([I16(-1), I16(3)], b).constant == 0x3FFFF
    assert joined([undefined, I16(3)], b).constant == 3 << 16
    assert joined([undefined, undefined], b).constant is ir.Undefined
    assert not b.block.instructions
