"""Kernels to tile IR: the IR verifies, survives text, and has the expected shape."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilewright import dtypes
from tilewright.errors import CompilationError, KernelTypeError
from tilewright.frontend import build
from tilewright.ir.location import location_of
from tilewright.ir.text import parse_ir, print_ir, verify_ir
from tilewright.language.kernel_function import KernelFunction

_FILE = Path(__file__).parent / "kernels.py"
_spec = importlib.util.spec_from_file_location("tilewright_frontend_kernels", _FILE)
kernels = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kernels)


def built(name, element="fp32", **known):
    """Build kernel `name`: pointers to `element`, i32 for the rest, `known` as constexprs."""
    fn = getattr(kernels, name)
    signature = {}
    for p in fn.params:
        if p.name in known:
            signature[p.name] = dtypes.constexpr(known[p.name])
        elif p.name.endswith("_ptr"):
            signature[p.name] = dtypes.pointer_type(dtypes.from_short_name(element))
        else:
            signature[p.name] = dtypes.int32
    kernel = build(fn, signature, {"x_ptr": 16}, SimpleNamespace(debug=True))
    verify_ir(kernel.module)
    text = print_ir(kernel.module, locations=True)
    assert print_ir(parse_ir(text), locations=True) == text
    return kernel


def text_of(name, element="fp32", **known):
    return print_ir(built(name, element, **known).module)


def has(text, *parts):
    """Every part occurs, in order."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} not found after position {at} in\n{text}"
        at = found + len(part)


@pytest.mark.parametrize("element", [str(t) for t in dtypes.ALL_SCALARS])
def test_vector_add(element):
    text = text_of("vector_add", element, BLOCK=64)
    has(
        text,
        "func.func @vector_add(%x_ptr: !tile.ptr<",
        "tile.divisibility = 16 : i32",
        'tile.name = "x_ptr"',
        "%pid = tile.program_id 0",
        "tile.arange 0 : i32, 64 : i32 : tensor<64xi32>",
        '%mask = tile.cmpi "slt"',
        "%x = tile.load",
        "tile.store",
        "func.return",
    )


def test_name_and_defaults():
    signature = {"out_ptr": dtypes.pointer_type(dtypes.int32), "n": dtypes.constexpr(1)}
    text = print_ir(build(kernels.early_return, signature, {}, None, "renamed").module)
    has(text, "@renamed(%out_ptr: !tile.ptr<i32>", "tile.store", "func.return")
    assert "scf.if" not in text


def test_constexpr_branch():
    assert "arith.addi" in text_of("constexpr_branch", "i32", KIND="a")
    assert "arith.muli" in text_of("constexpr_branch", "i32", KIND="b")


def test_globals_are_recorded():
    kernel = built("globals_read", "i32")
    read = {path: value for (_, path), value in kernel.globals_read.items()}
    assert read["SETTINGS.inner.flag"] is None
    assert read["FOUR"] == 4
    assert read["WIDTH"] == 8
    assert {fn for fn, _ in kernel.globals_read} == {kernels.globals_read}


def test_dynamic_if():
    text = text_of("dynamic_if")
    has(text, "scf.if", "-> (i32, f32)", "arith.sitofp", "scf.yield", "} else {", "scf.yield")
    assert "->" not in text_of("temporaries_differ").partition("scf.if")[2].partition("{")[0]


def test_early_return_and_several_returns():
    has(text_of("early_return", "i32"), "scf.if", "} else {", "tile.store", "func.return")
    kernel = built("several_returns", "i32")
    assert kernel.callees == (kernels.sign,)
    has(print_ir(kernel.module), "scf.if", "-> (i32)", "scf.if", "-> (i32)", "tile.store")


def test_inlined_locations():
    kernel = built("several_returns", "i32")
    places = [location_of(op) for op in kernel.module.walk() if op.name == "tile.cmpi"]
    assert all(p.caller is not None and p.file == str(_FILE) for p in places)
    assert places[0].caller.line > places[0].line


def test_tuples():
    has(text_of("tuple_return", "i32"), "arith.divsi", "arith.remsi", "arith.addi", "tile.store")


def test_range_loop():
    text = text_of("range_loop", "i32")
    has(text, "scf.for %i = %n to", "step %step iter_args(", "-> (i32, i32)", "scf.yield")
    assert text.count("iter_args") == 1
    has(text_of("nested_loops", "i32"), "scf.for", "scf.for", 'tile.cmpi "ne"', "scf.if")


def test_static_loops():
    text = text_of("static_loops", N=3)
    assert "scf.for" not in text
    assert text.count("tile.store") == 6


def test_hinted_range():
    has(text_of("hinted_range"), "scf.for", "tile.num_stages = 3", "tile.loop_unroll_factor = 2")


def test_while_and_break():
    has(text_of("while_loop", "i32"), "scf.while", "scf.condition", "scf.yield")
    for name in ("break_and_continue", "return_in_loop", "while_true"):
        has(text_of(name, "i32"), "scf.while", "scf.condition", "scf.yield")
    text = text_of("unrolled_break", "i32", N=3)
    assert "scf.while" not in text
    assert text.count("tile.load") == 3


def test_swap():
    has(text_of("swap_in_loop", "i32"), "-> (i32, i32)", "scf.yield %b_1, %b_2")


def test_expressions():
    has(text_of("expressions", N=16), "tile.expand_dims", "tile.broadcast", "tile.reduce")


def test_float64_widening():
    text = text_of("float64_accumulator", "fp64")
    has(text, "arith.extf", "scf.for", "-> (tensor<8xf64>)")
    has(text_of("float64_accumulator", "fp16"), "scf.for", "-> (tensor<8xf32>)")


def test_reduce_with_function():
    has(text_of("reduce_with_function"), "tile.reduce", "tile.cmpf", "tile.select", "tile.yield")


def test_dead_initial_value_is_not_carried():
    assert "iter_args" not in text_of("dead_initial_value")


def test_plain_helper():
    has(text_of("plain_helper_on_constants", "i32", N=100), "arith.constant 128 : i32")


def test_indexing():
    has(text_of("indexing"), "tile.store", "tile.store")


def test_math_on_half_precision():
    has(text_of("half_precision_math", "fp16"), "arith.extf", "math.exp", "arith.truncf")


def test_short_circuit():
    has(
        text_of("short_circuit", "i32"),
        "scf.while", "scf.if", "tile.load", "scf.yield", "scf.condition",
        "tile.select", "tile.store", "scf.if", "tile.load", "tile.store",
    )  # fmt: skip


def test_structured_values_in_loops():
    has(text_of("block_pointers", B=16), "scf.for", "-> (tensor<16x16xf32>, i64, i64)")
    signature = {
        "out_ptr": dtypes.pointer_type(dtypes.int32),
        "pair": (dtypes.int32, dtypes.int64),
        "n": dtypes.int32,
    }
    with pytest.raises(KernelTypeError, match="both"):
        build(kernels.tuples, signature)
    signature["pair"] = (dtypes.int32, dtypes.int32)
    module = build(kernels.tuples, signature).module
    verify_ir(module)
    has(print_ir(module), 'tile.name = "pair.0"', "scf.for", "scf.if", "-> (i32, i32)")


def test_standard_library():
    kernel = built("standard_library")
    verify_ir(kernel.module)
    names = {fn.fn.__name__ for fn in kernel.callees}
    assert {"sort", "rand", "philox"} <= names


def test_methods_of_integers_known_to_be_one():
    has(text_of("methods_of_constants", n=1), "arith.constant 3.200000e+01 : f32", "tile.store")


def test_kernel_without_source():
    scope = {"tl": kernels.tl}
    exec("def hidden(x_ptr):\n    tl.store(x_ptr, 1.0)\n", scope)
    with pytest.raises(CompilationError, match="source of kernel 'hidden'"):
        build(KernelFunction(scope["hidden"]), {"x_ptr": dtypes.pointer_type(dtypes.float32)})


def test_constant_on_the_right_decides():
    text = text_of("constant_decides", "i32", HAS=False)
    assert "scf.if" not in text
    has(text, "arith.constant 5 : i32", "tile.store")


def test_debug():
    text = text_of("debug_checks", "i32")
    assert text.count("tile.assert") == 2
    assert "tile.print" in text
    signature = {"x_ptr": dtypes.pointer_type(dtypes.int32), "n": dtypes.int32}
    quiet = build(kernels.debug_checks, signature, {}, SimpleNamespace(debug=False))
    assert "tile.assert" not in print_ir(quiet.module)


def test_every_kernel_is_tested():
    source = Path(__file__).read_text(encoding="utf-8")
    names = [n for n, v in vars(kernels).items() if isinstance(v, KernelFunction)]
    helpers = {"divmod_of", "larger", "_find"}
    assert [
        n for n in names if n not in helpers and f'"{n}"' not in source and n not in source
    ] == []
