"""fp16 conversions for x86 CPUs that have none (no F16C): the functions that LLVM calls for them.

Compiler run-time libraries hold `__extendhfsf2` and `__truncsfhf2`, but a running process need not;
a module that uses fp16 on such a target brings its own.
"""

from __future__ import annotations

from llvmlite import ir

from tilewright.backends.llvm.types import I16, I32, Value
from tilewright.targets import TargetInfo

_HALF, _SINGLE = ir.HalfType(), ir.FloatType()


def add_half_conversions(module: ir.Module, target: TargetInfo) -> None:
    """Define the two functions if the target needs them for a module that uses fp16."""
    if target.has("f16c") or not target.triple.startswith("x86_64") or "half" not in str(module):
        return
    _extend(_function(module, "__extendhfsf2", _SINGLE, _HALF))
    _truncate(_function(module, "__truncsfhf2", _HALF, _SINGLE))


def _function(module: ir.Module, name: str, result: ir.Type, argument: ir.Type) -> ir.Function:
    fn = ir.Function(module, ir.FunctionType(result, [argument]), name)
    fn.linkage = "internal"
    return fn


def _c(value: int) -> Value:
    return ir.Constant(I32, value)


def _extend(fn: ir.Function) -> None:
    b = ir.IRBuilder(fn.append_basic_block())
    bits = b.zext(b.bitcast(fn.args[0], I16), I32)
    sign = b.shl(b.and_(bits, _c(0x8000)), _c(16))
    magnitude = b.shl(b.and_(bits, _c(0x7FFF)), _c(13))
    # the exponent's bias is 112 larger in fp32; a product also makes subnormals normal
    scaled = b.fmul(b.bitcast(magnitude, _SINGLE), ir.Constant(_SINGLE, 2.0**112))
    special = b.or_(magnitude, _c(0x7F800000))
    is_special = b.icmp_unsigned(">=", magnitude, _c(0x7C00 << 13))
    number = b.select(is_special, special, b.bitcast(scaled, I32))
    b.ret(b.bitcast(b.or_(number, sign), _SINGLE))


def _truncate(fn: ir.Function) -> None:
    """To nearest, ties to even."""
    b = ir.IRBuilder(fn.append_basic_block())
    bits = b.bitcast(fn.args[0], I32)
    sign = b.and_(b.lshr(bits, _c(16)), _c(0x8000))
    magnitude = b.and_(bits, _c(0x7FFFFFFF))
    odd = b.and_(b.lshr(magnitude, _c(13)), _c(1))
    normal = b.lshr(b.add(b.add(magnitude, _c(0xFFF)), odd), _c(13))
    normal = b.sub(normal, _c(112 << 10))
    # next to 0.5 the last bit of fp32 weighs 2^-24, as fp16's smallest subnormal does
    shifted = b.fadd(b.bitcast(magnitude, _SINGLE), ir.Constant(_SINGLE, 0.5))
    subnormal = b.sub(b.bitcast(shifted, I32), _c(0x3F000000))
    is_small = b.icmp_unsigned("<", magnitude, _c(0x38800000))
    code = b.select(is_small, subnormal, normal)
    code = b.select(b.icmp_unsigned(">=", magnitude, _c(0x47800000)), _c(0x7C00), code)
    is_nan = b.icmp_unsigned(">", magnitude, _c(0x7F800000))
    code = b.select(is_nan, _c(0x7E00), code)
    b.ret(b.bitcast(b.trunc(b.or_(code, sign), I16), _HALF))
