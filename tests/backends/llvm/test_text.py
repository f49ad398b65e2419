"""Kernels' functions and their builder: the text is llvmlite's, and equal arithmetic is there once."""

from llvmlite import binding, ir

from tilewright.backends.llvm.context import SharingBuilder
from tilewright.backends.llvm.function import KernelFunction

I32, I64 = ir.IntType(32), ir.IntType(64)


def written(function_kind, builder_kind):
    """A module with a loop, casts, flags, metadata, vectors, calls, inline assembly and odd names."""
    module = ir.Module(name="m", context=ir.Context())
    kind = ir.FunctionType(ir.VoidType(), [I32, ir.FloatType(), ir.PointerType()])
    function = function_kind(module, kind, "k")
    function.args[0].name = "count"
    b = builder_kind(function.append_basic_block("entry"))
    body, end = function.append_basic_block("body"), function.append_basic_block("a b")
    twice = b.add(function.args[0], function.args[0], flags=("nsw",))
    wide = b.zext(twice, I64, name='od"d')
    pair = b.asm(
        ir.FunctionType(ir.LiteralStructType([I32, I32]), [I64]),
        "x $0, $1, $2;",
        "=r,=r,l",
        [wide],
        True,
    )
    last = b.extract_value(pair, 1)
    b.branch(body)
    b.position_at_end(body)
    index = b.phi(I32, name="index")
    again = b.add(index, last)
    index.add_incoming(ir.Constant(I32, 0), function.blocks[0])
    index.add_incoming(again, body)
    scaled = b.fmul(function.args[1], ir.Constant(ir.FloatType(), 0.5), flags=("contract",))
    b.store(scaled, b.gep(function.args[2], [again], source_etype=ir.FloatType()))
    pair = ir.Constant(ir.VectorType(I32, 2), ir.Undefined)
    lane = b.extract_element(b.insert_element(pair, again, I32(1)), I32(1))
    less = b.fcmp_ordered("<", scaled, function.args[1], flags=["nnan"])
    chosen = b.select(less, lane, b.select(less, again, lane), name="chosen")
    b.gep(function.args[2], [chosen, chosen], inbounds=True, source_etype=ir.ArrayType(I32, 8))
    callee = ir.Function(module, ir.FunctionType(I32, [I32, I32]), "f")
    nothing = ir.Function(module, ir.FunctionType(ir.VoidType(), [I32]), "g")
    many = ir.Function(module, ir.FunctionType(I32, [I32], var_arg=True), "h")
    root = ir.Function(module, ir.FunctionType(ir.FloatType(), [ir.FloatType()]), "root")
    b.call(root, [scaled], attrs=("nounwind", "convergent"), fastmath=("nnan", "contract"))
    b.call(callee, [chosen, I32(3)], tail=True, arg_attrs={0: ["signext"]}, cconv="fastcc")
    b.call(nothing, [chosen], attrs=("convergent",))
    b.call(many, [chosen, chosen])
    branch = b.cbranch(b.icmp_signed("<", again, function.args[0]), body, end)
    branch.set_metadata("llvm.loop", module.add_metadata([ir.MetaDataString(module, "loop")]))
    b.position_at_end(end)
    b.ret_void()
    return str(module)


def test_the_text_is_that_of_llvmlite():
    text = written(KernelFunction, SharingBuilder)
    assert text == written(ir.Function, ir.IRBuilder)
    binding.parse_assembly(text).verify()


def block():
    module = ir.Module(context=ir.Context())
    function = KernelFunction(module, ir.FunctionType(ir.VoidType(), [I32, I32]), "k")
    return SharingBuilder(function.append_basic_block("entry")), function


def test_equal_arithmetic_is_written_once():
    b, function = block()
    x, y = function.args
    first = b.add(x, ir.Constant(I32, 4))
    assert b.add(x, ir.Constant(I32, 4)) is first
    assert b.icmp_signed("<", first, y) is b.icmp_signed("<", first, y)
    others = (
        b.add(x, ir.Constant(I32, 5)), b.add(y, ir.Constant(I32, 4)), b.sub(x, ir.Constant(I32, 4)),
        b.add(x, ir.Constant(I32, 4), flags=("nsw",)), b.add(x, ir.Constant(I32, 4), name="named"),
    )  # fmt: skip
    assert all(other is not first for other in others)
    assert b.zext(x, I64) is not b.sext(x, I64)
    assert b.icmp_signed("<", first, y) is not b.icmp_unsigned("<", first, y)


def test_values_of_other_blocks_and_behind_the_place_are_not_taken():
    b, function = block()
    x, y = function.args
    first = b.mul(x, y)
    b.position_at_start(function.blocks[0])
    assert b.mul(x, y) is not first
    b.position_at_end(function.append_basic_block("next"))
    third = b.mul(x, y)
    assert third is not first and b.mul(x, y) is third


def test_equal_arithmetic_is_shared_in_front_of_a_terminator():
    """The builder comes back to a block that ends already: the entry block, which the whole kernel may use."""
    b, function = block()
    x, y = function.args
    first = b.add(x, y)
    pointer = b.inttoptr(x, ir.PointerType())
    place = b.gep(pointer, [first], source_etype=I32)
    assert b.gep(pointer, [first], source_etype=I32) is place
    assert b.gep(pointer, [first], source_etype=I64) is not place
    b.branch(function.append_basic_block("next"))
    b.position_at_end(function.blocks[1])
    assert b.add(x, y) is not first
    b.position_before(function.blocks[0].terminator)
    assert b.add(x, y) is first
