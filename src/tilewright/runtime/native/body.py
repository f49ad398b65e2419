"""A function of host code in LLVM IR: statements and expressions. Variables are stack slots, which LLVM promotes."""

from __future__ import annotations

import ast
import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from tilewright.runtime.native import intrinsics
from tilewright.runtime.native.kinds import *

_OPERATIONS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "lshr",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Is: "eq", ast.IsNot: "ne",
    ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
}  # fmt: skip


class Names(Protocol):
    """Name lookup of the enclosing module: `compiler.Module`."""

    machine: str

    def function(self, function: Any) -> Signature: ...
    def kind(self, annotation: ast.expr | None, names: Mapping[str, Any]) -> Kind: ...
    def constant(self, name: str, names: Mapping[str, Any]) -> Value: ...
    def string(self, text: str) -> str: ...
    def declare(self, signature: Signature) -> None: ...


class Body:
    """The blocks of one function while they are made."""

    def __init__(
        self,
        module: Names,
        names: Mapping[str, Any],
        parameters: Sequence[tuple[str, Kind]],
        returns: Kind,
    ) -> None:
        self.module, self.names, self.line = module, names, 0
        self._returns = returns
        self._slots: list[str] = []
        self._lines: list[str] = []
        self._variables: dict[str, tuple[Kind, str]] = {}
        self._loops: list[tuple[str, str]] = []
        self._count = 0
        self._open = True
        for name, kind in parameters:
            self._declare(name, Value(kind, f"%{name}"), kind)

    @property
    def text(self) -> str:
        last = "ret void" if self._returns == VOID else "unreachable"
        body = "\n".join(f"  {line}" for line in [*self._slots, "br label %start"])
        return f"{body}\nstart:\n" + "\n".join([*self._lines, f"  {last}" * self._open, ""])

    # ---- blocks ----------------------------------------------------------------------------------

    def fresh(self) -> str:
        """A register or label not used yet."""
        self._count += 1
        return f"v.{self._count}"

    def emit(self, instruction: str) -> None:
        """An instruction without a result."""
        if not self._open:
            self._start(self.fresh())
        self._lines.append(f"  {instruction}")

    def result(self, kind: Kind | None, instruction: str) -> Value:
        """An instruction with a result."""
        name = f"%{self.fresh()}"
        self.emit(f"{name} = {instruction}")
        return Value(kind, name)

    def _start(self, label: str) -> None:
        if self._open:
            self._lines.append(f"  br label %{label}")
        self._lines.append(f"{label}:")
        self._open = True

    def _end(self, instruction: str) -> None:
        self.emit(instruction)
        self._open = False

    def slot(self, kind: str, align: int = 8) -> str:
        """Memory on the stack for as long as the function runs."""
        name = f"%{self.fresh()}"
        self._slots.append(f"{name} = alloca {kind}, align {align}")
        return name

    def _declare(self, name: str, value: Value, kind: Kind) -> None:
        if name not in self._variables:
            self._variables[name] = kind, self.slot(kind.llvm)
        self._store(*self._variables[name], value)

    def _store(self, kind: Kind, place: str, value: Value) -> None:
        self.emit(f"store {kind.llvm} {value.as_(kind)}, ptr {place}")

    # ---- statements ------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Statements in order."""
        for statement in statements:
            self.line = statement.lineno
            self._visit("_do", statement)

    def _visit(self, prefix: str, node: ast.AST) -> Any:
        method: Callable[[Any], Any] | None = getattr(self, f"{prefix}_{type(node).__name__}", None)
        if method is None:
            raise HostCodeError(f"'{ast.unparse(node)}' is not in the language")
        return method(node)

    def _do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def _do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                known = self._variables.get(target.id)
                self._declare(target.id, value, known[0] if known else value.kind or I64)
            else:
                self._store(*self.place(target), value)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and node.value is not None:
            kind = self.module.kind(node.annotation, self.names)
            self._declare(node.target.id, self.value(node.value), kind)

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        kind, place = self.place(node.target)
        before = self.result(kind, f"load {kind.llvm}, ptr {place}")
        self._store(kind, place, self._operation(node.op, before, self.value(node.value)))

    def _do_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._end("ret void")
        else:
            value = self.value(node.value)
            self._end(f"ret {self._returns.llvm} {value.as_(self._returns)}")

    def _do_If(self, node: ast.If) -> None:
        yes, no, after = self.fresh(), self.fresh(), self.fresh()
        self.branch(node.test, yes, no)
        for label, body in ((yes, node.body), (no, node.orelse)):
            self._start(label)
            self.block(body)
            if self._open:
                self._end(f"br label %{after}")
        self._start(after)

    def _do_While(self, node: ast.While) -> None:
        head, body, after = self.fresh(), self.fresh(), self.fresh()
        self._start(head)
        self.branch(node.test, body, after)
        self._loop(node.body, body, head, after)
        if self._open:
            self._end(f"br label %{head}")
        self._start(after)

    def _do_For(self, node: ast.For) -> None:
        """`for i in range(n)` or `range(first, n)`, whose end is evaluated once."""
        if not (isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)):
            raise HostCodeError("loops go over a range")
        *first, end = (self.value(bound) for bound in node.iter.args)
        self._declare(node.target.id, first[0] if first else Value(None, "0"), I64)
        last, (_, index) = end.as_(I64), self._variables[node.target.id]
        head, body, step, after = (self.fresh() for _ in range(4))
        self._start(head)
        now = self.result(I64, f"load i64, ptr {index}")
        more = self.result(I1, f"icmp slt i64 {now.text}, {last}")
        self._end(f"br i1 {more.text}, label %{body}, label %{after}")
        self._loop(node.body, body, step, after)
        self._start(step)
        now = self.result(I64, f"load i64, ptr {index}")
        self._store(I64, index, self.result(I64, f"add i64 {now.text}, 1"))
        self._end(f"br label %{head}")
        self._start(after)

    def _loop(self, statements: Sequence[ast.stmt], label: str, again: str, after: str) -> None:
        self._loops.append((again, after))
        self._start(label)
        self.block(statements)
        self._loops.pop()

    def _do_Break(self, node: ast.Break) -> None:
        self._end(f"br label %{self._loops[-1][1]}")

    def _do_Continue(self, node: ast.Continue) -> None:
        self._end(f"br label %{self._loops[-1][0]}")

    # ---- expressions -----------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """An expression's value."""
        return self._visit("_value", node)

    def branch(self, node: ast.expr, yes: str, no: str) -> None:
        """Branch to `yes` or `no` with short-circuit evaluation."""
        if isinstance(node, ast.BoolOp):
            for part in node.values[:-1]:
                more = self.fresh()
                self.branch(part, *((more, no) if isinstance(node.op, ast.And) else (yes, more)))
                self._start(more)
            self.branch(node.values[-1], yes, no)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.branch(node.operand, no, yes)
        else:
            self._end(f"br i1 {self._truth(self.value(node))}, label %{yes}, label %{no}")

    def _truth(self, value: Value) -> str:
        kind = value.kind or I1
        if kind == I1:
            return value.text
        zero = "null" if kind.llvm == "ptr" else "0"
        return self.result(I1, f"icmp ne {kind.llvm} {value.text}, {zero}").text

    def _value_Constant(self, node: ast.Constant) -> Value:
        if node.value is None:
            return Value(PTR, "null")
        if isinstance(node.value, str):
            return Value(PTR, self.module.string(node.value))
        number = cast(int, node.value)
        return Value(I1 if isinstance(number, bool) else None, str(int(number)))

    def _value_Name(self, node: ast.Name) -> Value:
        if node.id in self._variables:
            kind, place = self._variables[node.id]
            return self.result(kind, f"load {kind.llvm}, ptr {place}")
        return self.module.constant(node.id, self.names)

    def _value_Attribute(self, node: ast.Attribute) -> Value:
        kind, place = self.place(node, whole=True)
        return self._load(kind, place)

    _value_Subscript = _value_Attribute

    def _load(self, kind: Kind, place: str) -> Value:
        if kind.llvm == "in place":
            return Value(Kind("ptr", kind.to), place)
        return self.result(kind, f"load {kind.llvm}, ptr {place}")

    def place(self, node: ast.expr, whole: bool = False) -> tuple[Kind, str]:
        """The kind and address of an lvalue expression; `whole`: also of arrays and structures."""
        if isinstance(node, ast.Name):
            return self._variables[node.id]
        if isinstance(node, ast.Attribute):
            base = self.value(node.value)
            struct = None if base.kind is None else base.kind.to
            if not (isinstance(struct, type) and issubclass(struct, ctypes.Structure)):
                raise HostCodeError(f"'{ast.unparse(node.value)}' is not a structure")
            kind, in_place = of_field(next(f[1] for f in struct._fields_ if f[0] == node.attr))
            offset = getattr(struct, node.attr).offset
            place = self.result(PTR, f"getelementptr i8, ptr {base.text}, i64 {offset}").text
        elif isinstance(node, ast.Subscript):
            base, index = self.value(node.value), self.value(node.slice).as_(I64)
            if base.kind is None or base.kind.llvm != "ptr":
                raise HostCodeError(f"'{ast.unparse(node.value)}' is not an address")
            stride = f"[{base.kind.stride} x i8]"
            place = self.result(PTR, f"getelementptr {stride}, ptr {base.text}, i64 {index}").text
            in_place = not isinstance(base.kind.to, Kind)
            kind = base.kind if in_place else base.kind.to
        else:
            raise HostCodeError(f"'{ast.unparse(node)}' has no address")
        if in_place and not whole:
            raise HostCodeError(f"'{ast.unparse(node)}' is not a single value")
        return (Kind("in place", kind.to) if in_place else kind), place

    def _value_BinOp(self, node: ast.BinOp) -> Value:
        return self._operation(node.op, self.value(node.left), self.value(node.right))

    def _operation(self, op: ast.operator, a: Value, b: Value) -> Value:
        if a.kind is not None and a.kind.llvm == "ptr":  # as in C
            way = f"getelementptr [{a.kind.stride} x i8], ptr {a.text}, i64 {b.as_(I64)}"
            return self.result(a.kind, way)
        kind = a.kind or b.kind or I64
        return self.result(
            kind, f"{_OPERATIONS[type(op)]} {kind.llvm} {a.as_(kind)}, {b.as_(kind)}"
        )

    def _value_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return self.result(I1, f"xor i1 {self._truth(value)}, true")
        kind = value.kind or I64
        if value.kind is None:
            return Value(None, str(-int(value.text)))
        return self.result(kind, f"sub {kind.llvm} 0, {value.text}")

    def _value_Compare(self, node: ast.Compare) -> Value:
        values = [self.value(each) for each in (node.left, *node.comparators)]
        answers: list[Value] = []
        for op, a, b in zip(node.ops, values, values[1:], strict=False):
            kind = a.kind or b.kind or I64
            test = f"icmp {_COMPARISONS[type(op)]} {kind.llvm} {a.as_(kind)}, {b.as_(kind)}"
            answers.append(self.result(I1, test))
        total = answers[0]
        for answer in answers[1:]:
            total = self.result(I1, f"and i1 {total.text}, {answer.text}")
        return total

    def _value_BoolOp(self, node: ast.BoolOp) -> Value:
        return self._choose(node, lambda: Value(I1, "true"), lambda: Value(I1, "false"))

    def _value_IfExp(self, node: ast.IfExp) -> Value:
        return self._choose(
            node.test, lambda: self.value(node.body), lambda: self.value(node.orelse)
        )

    def _choose(
        self, test: ast.expr, first: Callable[[], Value], second: Callable[[], Value]
    ) -> Value:
        yes, no, after = self.fresh(), self.fresh(), self.fresh()
        self.branch(test, yes, no)
        place, kind = "", I64
        made: list[tuple[Value, int]] = []
        for label, side in ((yes, first), (no, second)):
            self._start(label)
            value = side()
            made.append((value, len(self._lines)))
            self._lines.append("")
            self._end(f"br label %{after}")
        kind = next((value.kind for value, _ in made if value.kind is not None), I64)
        place = self.slot(kind.llvm)
        for value, at in made:
            self._lines[at] = f"  store {kind.llvm} {value.as_(kind)}, ptr {place}"
        self._start(after)
        return self.result(kind, f"load {kind.llvm}, ptr {place}")

    def _value_Call(self, node: ast.Call) -> Value:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        options = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg is not None}
        if name in KINDS:
            return intrinsics.convert(self, self.value(node.args[0]), KINDS[name])
        if name in intrinsics.INTRINSICS:
            return intrinsics.INTRINSICS[name](self, *node.args, **options)
        signature = self.module.function(self.names[name])
        return self.call(signature, [self.value(each) for each in node.args])

    def call(self, signature: Signature, values: Sequence[Value]) -> Value:
        """Emit a call; arguments beyond the parameters are variadic."""
        kinds = [
            *signature.parameters,
            *(v.kind or I64 for v in values[len(signature.parameters) :]),
        ]
        if len(kinds) != len(values):
            raise HostCodeError(f"{signature.symbol} takes {len(kinds)} arguments")
        listed = ", ".join(f"{k.llvm} {v.as_(k)}" for k, v in zip(kinds, values, strict=True))
        how = signature.type if signature.variadic else signature.returns.llvm
        instruction = f"call {how} {signature.symbol}({listed})"
        if signature.returns == VOID:
            self.emit(instruction)
            return Value(VOID, "")
        return self.result(signature.returns, instruction)
