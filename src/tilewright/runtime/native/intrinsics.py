"""Intrinsics of host code: conversions, addresses, atomic and volatile accesses (see `language`)."""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.runtime.native.kinds import *

if TYPE_CHECKING:
    from tilewright.runtime.native.body import Body

#: spin-wait instruction by architecture
_PAUSES = {"x86_64": "pause", "amd64": "pause", "aarch64": "yield", "arm64": "yield"}


def convert(body: Body, value: Value, to: Kind) -> Value:
    """A number of another kind; integers keep their value or lose high bits."""
    kind = value.kind or to
    if kind.llvm == to.llvm:
        return Value(to, value.text)
    if kind.llvm == "ptr":
        how = "ptrtoint"
    elif to == F32:
        how = "fptrunc"
    elif kind.width > to.width:
        how = "trunc"
    else:
        how = "zext" if kind == I1 else "sext"
    return body.result(to, f"{how} {kind.llvm} {value.text} to {to.llvm}")


def _local(body: Body, kind: ast.expr, count: ast.expr | None = None, align: int = 16) -> Value:
    """Memory of constant size belongs to the function, other memory begins here."""
    found = body.module.kind(kind, body.names)
    known = isinstance(kind, ast.Name) and kind.id in KINDS
    to: Any = found if known else found.to
    size = f"i{found.width or 64}" if known else f"[{ctypes.sizeof(to)} x i8]"
    number = Value(None, "1") if count is None else body.value(count)
    if number.kind is None:
        return Value(Kind("ptr", to), body.slot(f"[{number.text} x {size}]", align))
    return body.result(Kind("ptr", to), f"alloca {size}, i64 {number.as_(I64)}, align {align}")


def _ref(body: Body, place: ast.expr) -> Value:
    kind, address = body.place(place, whole=True)
    return Value(Kind("ptr", kind.to if kind.llvm == "in place" else kind), address)


def _bits(body: Body, number: ast.expr) -> Value:
    value = body.value(number)
    if value.kind == F64:
        return body.result(I64, f"bitcast double {value.text} to i64")
    word = body.result(I32, f"bitcast float {value.as_(F32)} to i32")
    return body.result(I64, f"zext i32 {word.text} to i64")


def _unsigned(body: Body, number: ast.expr) -> Value:
    value = body.value(number)
    kind = value.kind or I64
    return value if kind == I64 else body.result(I64, f"zext {kind.llvm} {value.text} to i64")


def _pointer(body: Body, number: ast.expr) -> Value:
    return body.result(PTR, f"inttoptr i64 {body.value(number).as_(I64)} to ptr")


def _call(body: Body, returns: ast.expr, function: ast.expr, *values: ast.expr) -> Value:
    target, given = body.value(function), [body.value(each) for each in values]
    kinds = tuple(value.kind or I64 for value in given)
    return body.call(Signature(target.text, body.module.kind(returns, body.names), kinds), given)


def _overflows(body: Body, a: ast.expr, b: ast.expr) -> Value:
    x, y = body.value(a).as_(I64), body.value(b).as_(I64)
    signature = Signature("@llvm.smul.with.overflow.i64", Kind("{ i64, i1 }"), (I64, I64))
    body.module.declare(signature)
    both = body.call(signature, [Value(I64, x), Value(I64, y)])
    return body.result(I1, f"extractvalue {{ i64, i1 }} {both.text}, 1")


def _pause(body: Body) -> Value:
    turn = _PAUSES.get(body.module.machine.lower())
    if turn:
        body.emit(f'call void asm sideeffect "{turn}", ""()')
    return Value(VOID, "")


def _extreme(comparison: str) -> Callable[..., Value]:
    def choose(body: Body, a: ast.expr, b: ast.expr) -> Value:
        x, y = body.value(a), body.value(b)
        kind = x.kind or y.kind or I64
        test = body.result(I1, f"icmp {comparison} {kind.llvm} {x.as_(kind)}, {y.as_(kind)}")
        return body.result(
            kind, f"select i1 {test.text}, {kind.llvm} {x.text}, {kind.llvm} {y.text}"
        )

    return choose


def _read(how: str) -> Callable[..., Value]:
    def read(body: Body, place: ast.expr, order: str = "seq_cst") -> Value:
        kind, address = body.place(place)
        ordered = f" {order}, align {Kind('ptr', kind).stride}" if how == "atomic" else ""
        return body.result(kind, f"load {how} {kind.llvm}, ptr {address}{ordered}")

    return read


def _write(how: str) -> Callable[..., Value]:
    def write(body: Body, place: ast.expr, value: ast.expr, order: str = "seq_cst") -> Value:
        kind, address = body.place(place)
        ordered = f" {order}, align {Kind('ptr', kind).stride}" if how == "atomic" else ""
        text = body.value(value).as_(kind)
        body.emit(f"store {how} {kind.llvm} {text}, ptr {address}{ordered}")
        return Value(VOID, "")

    return write


def _atomic_add(body: Body, place: ast.expr, value: ast.expr, order: str = "seq_cst") -> Value:
    kind, address = body.place(place)
    text = body.value(value).as_(kind)
    return body.result(kind, f"atomicrmw add ptr {address}, {kind.llvm} {text} {order}")


def _compare_exchange(
    body: Body, place: ast.expr, old: ast.expr, new: ast.expr, order: str = "seq_cst seq_cst"
) -> Value:
    kind, address = body.place(place)
    before, after = body.value(old).as_(kind), body.value(new).as_(kind)
    swap = f"cmpxchg ptr {address}, {kind.llvm} {before}, {kind.llvm} {after} {order}"
    both = body.result(None, swap)
    return body.result(I1, f"extractvalue {{ {kind.llvm}, i1 }} {both.text}, 1")


def _sizeof(body: Body, kind: ast.expr) -> Value:
    found = body.module.kind(kind, body.names).to
    if not isinstance(found, type):
        raise HostCodeError(f"'{ast.unparse(kind)}' has no size")
    return Value(None, str(ctypes.sizeof(found)))


INTRINSICS: dict[str, Callable[..., Any]] = {
    "local": _local, "ref": _ref, "bits": _bits, "unsigned": _unsigned, "pointer": _pointer,
    "call": _call, "overflows": _overflows, "pause": _pause, "min": _extreme("slt"),
    "max": _extreme("sgt"), "volatile": _read("volatile"), "set_volatile": _write("volatile"),
    "atomic": _read("atomic"), "set_atomic": _write("atomic"), "atomic_add": _atomic_add,
    "compare_exchange": _compare_exchange, "sizeof": _sizeof,
}  # fmt: skip
