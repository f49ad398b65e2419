"""Element-wise operations of `arith`, `math` and `tile` as LLVM instructions, scalars and vectors alike.

One table, used by every LLVM target. No operation traps or is undefined (aliasing rules,
design §4a.5): divisors are guarded, shift amounts masked. Arithmetic on floats narrower than 32 bits
is done in single precision and rounded after each operation. LLVM's middle end does not run, so what
is emitted here is what the code generator sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import ml_dtypes
import numpy as np
from llvmlite import ir
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute

from tilewright.backends.llvm import casts, division, math
from tilewright.backends.llvm.context import MathContext
from tilewright.backends.llvm.types import (
    Builder,
    Value,
    call,
    constant,
    constant_lanes,
    frozen,
    lane_type,
    like,
    llvm_type,
    scalar_kind,
    storage_type,
)
from tilewright.errors import PassError
from tilewright.ir.types import width_of

__all__ = ["MathContext", "lower_elementwise"]


@dataclass
class _Op:
    """One operation being lowered."""

    b: Builder
    name: str
    values: list[Any]
    properties: Mapping[str, Any]
    results: list[Attribute]
    operands: list[Attribute]
    ctx: MathContext

    def wide(self) -> list[Any]:
        """The operands, narrow floats in single precision."""
        if not casts.is_narrow(self.operands[0]):
            return self.values
        pairs = zip(self.values, self.operands, strict=True)
        return [casts.to_f32(self.b, value, kind) for value, kind in pairs]

    def text(self, name: str) -> str:
        """A string property."""
        value = self.properties[name]
        return value.data if isinstance(value, StringAttr) else str(value)


Rule = Callable[[_Op], Any]


def lower_elementwise(
    builder: Builder,
    name: str,
    operands: list[Any],
    properties: Mapping[str, Any],
    result_types: list[Attribute],
    operand_types: list[Attribute],
    ctx: MathContext,
) -> list[Any]:
    """The results of the operation called `name` (`"arith.addf"`). Raises PassError if unknown."""
    rule = _RULES.get(name)
    if rule is None:
        raise PassError(f"no machine code for {name}")
    op = _Op(builder, name, operands, properties, result_types, operand_types, ctx)
    result = rule(op)
    return list(result) if isinstance(result, tuple) else [result]


def rule_names() -> tuple[str, ...]:
    """The operations that have a rule."""
    return tuple(_RULES)


# ---- constants and integers -------------------------------------------------------------------------


def _constant(op: _Op) -> Value:
    attr = op.properties["value"]
    kind = op.results[0]
    register = llvm_type(kind)
    if isinstance(attr, FloatAttr):
        if casts.is_narrow(kind):
            return constant(register, _narrow_bits(attr, kind))
        return constant(register, attr.value.data)
    if isinstance(attr, IntegerAttr):
        value = attr.value.data
        element = scalar_kind(kind)
        width = element.width.data if isinstance(element, IntegerType) else 64
        return constant(register, value & 1 if width == 1 else value)
    raise PassError(f"no machine constant for {attr}")


def _narrow_bits(attr: FloatAttr[Any], kind: Attribute) -> Any:
    """A narrow float constant in its register form."""
    value = attr.value.data
    name = str(scalar_kind(kind))
    if name == "f16":
        return float(np.float16(value))
    types = {
        "bf16": (ml_dtypes.bfloat16, np.uint16),
        "f8E4M3FN": (ml_dtypes.float8_e4m3fn, np.uint8),
        "f8E5M2": (ml_dtypes.float8_e5m2, np.uint8),
    }
    number, bits = types[name]
    return int(np.array(value, number).view(bits))


def _simple(method: str) -> Rule:
    return lambda op: getattr(op.b, method)(*op.values)


def _is_safe_divisor(value: Any) -> bool:
    """Whether a divisor is a constant that neither traps nor overflows."""
    numbers, kind = constant_lanes(value), cast(ir.IntType, lane_type(value.type))
    ones = (1 << kind.width) - 1
    return bool(numbers) and all(isinstance(n, int) and n & ones not in (0, ones) for n in numbers)


def _divide(op: _Op) -> Any:
    """Division or remainder that truncates; a zero divisor gives an unspecified number."""
    b, (n, d) = op.b, op.values
    signed = op.name.endswith("si")
    remainder = "rem" in op.name
    plain = getattr(b, ("s" if signed else "u") + ("rem" if remainder else "div"))

    def run(dividend: Any, divisor: Any) -> Any:
        found = division.divide(b, op.ctx, dividend, divisor, signed, remainder)
        return plain(dividend, divisor) if found is None else found

    if _is_safe_divisor(d):
        return run(n, d)
    zero, one = constant(d.type, 0), constant(d.type, 1)
    bad = b.icmp_signed("==", d, zero)
    if not signed:
        result = run(n, b.select(bad, one, d))
        vector = isinstance(n.type, ir.VectorType)
        # loop strength reduction of the CPU would divide again inside of loops
        return result if vector or op.ctx.on_nvidia else frozen(b, result)
    minus = b.icmp_signed("==", d, constant(d.type, -1))
    result = run(n, b.select(b.or_(bad, minus), one, d))
    return b.select(minus, zero if remainder else b.sub(zero, n), result)


def _shift(method: str) -> Rule:
    def rule(op: _Op) -> Any:
        value, amount = op.values
        width = width_of(scalar_kind(op.results[0]))
        if not isinstance(amount, ir.Constant):
            amount = op.b.and_(amount, constant(amount.type, width - 1))
        return getattr(op.b, method)(value, amount)

    return rule


def _pick(sign: str, signed: bool) -> Rule:
    def rule(op: _Op) -> Any:
        compare = op.b.icmp_signed if signed else op.b.icmp_unsigned
        return op.b.select(compare(sign, *op.values), *op.values)

    return rule


def _umulhi(op: _Op) -> Any:
    width = width_of(scalar_kind(op.results[0]))
    kind = op.values[0].type
    if op.ctx.on_nvidia:  # five operations would become this one again, slowly
        name = {32: "llvm.nvvm.mulhi.ui", 64: "llvm.nvvm.mulhi.ull"}[width]
        return call(op.b, name, kind, *op.values)
    wide = like(kind, ir.IntType(2 * width))
    product = op.b.mul(*(op.b.zext(v, wide) for v in op.values))
    return op.b.trunc(op.b.lshr(product, constant(wide, width)), op.values[0].type)


def _absi(op: _Op) -> Any:
    (value,) = op.values
    zero = constant(value.type, 0)
    return op.b.select(op.b.icmp_signed("<", value, zero), op.b.sub(zero, value), value)


def _convert(method: str) -> Rule:
    return lambda op: getattr(op.b, method)(op.values[0], llvm_type(op.results[0]))


# ---- floats -----------------------------------------------------------------------------------------


def _in_single(rule: Callable[[_Op, list[Any]], Any]) -> Rule:
    """Do a floating operation in single precision when its type is narrower, then round."""

    def lowered(op: _Op) -> Any:
        found = rule(op, op.wide())
        narrow = casts.is_narrow(op.operands[0])
        return casts.from_f32(op.b, found, op.results[0], op.ctx) if narrow else found

    return lowered


def _float(method: str, fuse: bool = False) -> Rule:
    """Arithmetic. Where products may fuse with sums, they do so in narrow types as well: a sum takes
    one product as it was before it was rounded."""

    def rule(op: _Op) -> Any:
        b, ctx, wide = op.b, op.ctx, op.wide()
        flags = ctx.flags if fuse else ()
        if not casts.is_narrow(op.operands[0]):
            return getattr(b, method)(*wide, flags=flags)
        if flags and method != "fmul":
            fused = next((i for i, v in enumerate(op.values) if id(v) in ctx.products), None)
            if fused is not None:
                wide[fused] = ctx.products[id(op.values[fused])][1]
        result = getattr(b, method)(*wide, flags=flags)
        rounded = casts.from_f32(b, result, op.results[0], ctx, computed=True)
        if flags and method == "fmul":
            ctx.products[id(rounded)] = (rounded, result)
        return rounded

    return rule


def _quotient(op: _Op, values: list[Any]) -> Any:
    """Division: correctly rounded on CPUs; on NVIDIA GPUs single precision is 2 ulp off at most, as
    in Triton (`tl.div_rn` is exact)."""
    if op.ctx.on_nvidia and isinstance(values[0].type, ir.FloatType):
        return math.ptx.divide(op.b, *values)
    return op.b.fdiv(*values)


_divide_floats = _in_single(_quotient)


def _intrinsic(name: str) -> Rule:
    return _in_single(lambda op, values: op.ctx.intrinsic(op.b, name, *values))


def _function(name: str) -> Rule:
    """A function of `backends.llvm.math`."""
    return _in_single(lambda op, values: math.call(op.b, op.ctx, name, values))


def _libm(op: _Op) -> Any:
    name = op.text("function")
    result = math.call(op.b, op.ctx, name, op.wide())
    if name in math.PREDICATES or not casts.is_narrow(op.results[0]):
        return result
    return casts.from_f32(op.b, result, op.results[0], op.ctx)


def _gate(op: _Op) -> Any:
    return math.call(op.b, op.ctx, f"gate_{op.text('function')}", op.values)


def _negate(op: _Op) -> Any:
    if not casts.is_narrow(op.operands[0]) or str(scalar_kind(op.operands[0])) == "f16":
        return op.b.fneg(op.values[0])
    (value,) = op.values
    kind = cast(ir.IntType, lane_type(value.type))
    return op.b.xor(value, constant(value.type, 1 << (kind.width - 1)))


# ---- comparisons, selects, pointers -----------------------------------------------------------------

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _cmpi(op: _Op) -> Any:
    predicate = op.text("predicate")
    if predicate in ("eq", "ne"):
        return op.b.icmp_signed(_SIGNS[predicate], *op.values)
    compare = op.b.icmp_signed if predicate[0] == "s" else op.b.icmp_unsigned
    return compare(_SIGNS[predicate[1:]], *op.values)


def _cmpf(op: _Op) -> Any:
    predicate = op.text("predicate")
    values = op.wide()
    if predicate in ("ord", "uno"):
        return getattr(op.b, f"fcmp_{'' if predicate == 'ord' else 'un'}ordered")(
            predicate, *values
        )
    compare = op.b.fcmp_ordered if predicate[0] == "o" else op.b.fcmp_unordered
    sign = "!=" if predicate in ("one", "une") else _SIGNS[predicate[1:]]
    return compare(sign, *values)


def _bitcast(op: _Op) -> Any:
    target = llvm_type(op.results[0])
    (value,) = op.values
    return value if str(value.type) == str(target) else op.b.bitcast(value, target)


def _addptr(op: _Op) -> Any:
    pointer: Any = scalar_kind(op.operands[0])
    return op.b.gep(op.values[0], [op.values[1]], source_etype=storage_type(pointer.pointee))


def _cast(op: _Op) -> Any:
    return casts.float_cast(op.b, op.values[0], op.operands[0], op.results[0], op.ctx)


def _cast_rounding(op: _Op) -> Any:
    cast = casts.float_cast_towards_zero if op.text("rounding") == "rtz" else casts.float_cast
    return cast(op.b, op.values[0], op.operands[0], op.results[0], op.ctx)


def _from_int(signed: bool) -> Rule:
    return lambda op: casts.int_to_float(
        op.b, op.values[0], op.operands[0], op.results[0], signed, op.ctx
    )


def _to_int(signed: bool) -> Rule:
    return lambda op: casts.float_to_int(op.b, op.values[0], op.operands[0], op.results[0], signed)


_RULES: dict[str, Rule] = {
    "arith.constant": _constant,
    "arith.addi": _simple("add"), "arith.subi": _simple("sub"), "arith.muli": _simple("mul"),
    "arith.andi": _simple("and_"), "arith.ori": _simple("or_"), "arith.xori": _simple("xor"),
    "arith.divsi": _divide, "arith.divui": _divide, "arith.remsi": _divide, "arith.remui": _divide,
    "arith.shli": _shift("shl"), "arith.shrsi": _shift("ashr"), "arith.shrui": _shift("lshr"),
    "arith.minsi": _pick("<", True), "arith.maxsi": _pick(">", True),
    "arith.minui": _pick("<", False), "arith.maxui": _pick(">", False),
    "arith.extsi": _convert("sext"), "arith.extui": _convert("zext"),
    "arith.trunci": _convert("trunc"),
    "arith.addf": _float("fadd", True), "arith.subf": _float("fsub", True),
    "arith.mulf": _float("fmul", True), "arith.divf": _divide_floats, "arith.negf": _negate,
    "arith.maximumf": _intrinsic("maximum"), "arith.minimumf": _intrinsic("minimum"),
    "arith.maxnumf": _intrinsic("maxnum"), "arith.minnumf": _intrinsic("minnum"),
    "arith.sitofp": _from_int(True), "arith.uitofp": _from_int(False),
    "arith.fptosi": _to_int(True), "arith.fptoui": _to_int(False),
    "arith.extf": _cast, "arith.truncf": _cast,
    "math.absf": _intrinsic("fabs"), "math.absi": _absi, "math.ceil": _intrinsic("ceil"),
    "math.floor": _intrinsic("floor"), "math.trunc": _intrinsic("trunc"),
    "math.roundeven": _intrinsic("roundeven"), "math.sqrt": _function("sqrt"),
    "math.fma": _intrinsic("fma"), "math.copysign": _intrinsic("copysign"),
    "tile.cmpi": _cmpi, "tile.cmpf": _cmpf, "tile.select": _simple("select"),
    "tile.umulhi": _umulhi, "tile.fp_cast": _cast_rounding, "tile.bitcast": _bitcast,
    "tile.int_to_ptr": _convert("inttoptr"), "tile.ptr_to_int": _convert("ptrtoint"),
    "tile.addptr": _addptr, "tile.libm": _libm, "tile.remf": _function("fmod"),
    "tile.mul_sigmoid": _gate,
    "tile.optimization_barrier": lambda op: op.values[0],
    "tile.hint": lambda op: op.values[0],
}  # fmt: skip

_FUNCTIONS = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin", "cos": "cos",
    "tanh": "tanh", "erf": "erf", "rsqrt": "rsqrt", "powf": "pow", "expm1": "expm1",
    "log1p": "log1p", "log10": "log10", "tan": "tan", "asin": "asin", "acos": "acos",
    "atan": "atan", "atan2": "atan2", "sinh": "sinh", "cosh": "cosh", "asinh": "asinh",
    "acosh": "acosh", "atanh": "atanh", "cbrt": "cbrt", "round": "round",
}  # fmt: skip
_RULES.update((f"math.{name}", _function(c_name)) for name, c_name in _FUNCTIONS.items())
