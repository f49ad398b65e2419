"""Statements: assignments, returns, asserts; dispatch to control flow."""

from __future__ import annotations

import ast
from typing import Any, cast

from tilewright.dialects import tile
from tilewright.errors import CompilationError, KernelTypeError, UnsupportedSyntax
from tilewright.frontend.expressions import Expressions
from tilewright.frontend.frame import BREAK, RESULT, RETURNED
from tilewright.frontend.values import is_tensor
from tilewright.ir.text import name_value
from tilewright.language.liveness import exits_loop_or_function, is_constexpr_annotation
from tilewright.semantics.values import SYMBOLS, TensorValue, describe

_UNSUPPORTED = {
    "Try": ("try", "errors cannot be caught in a kernel; check conditions with `if`"),
    "TryStar": ("try", "errors cannot be caught in a kernel; check conditions with `if`"),
    "Raise": ("raise", "use tl.static_assert or tl.device_assert"),
    "FunctionDef": ("nested function", "write a function with @jit at module level"),
    "AsyncFunctionDef": ("nested function", "write a function with @jit at module level"),
    "ClassDef": ("class definition", "define the class outside the kernel"),
    "Import": ("import", "import the module at the top of the file"),
    "ImportFrom": ("import", "import the module at the top of the file"),
    "Global": ("global statement", "return the value, or store it through a pointer"),
    "Nonlocal": ("nonlocal statement", "return the value, or store it through a pointer"),
    "Delete": ("del statement", ""),
    "Match": ("match statement", "use if/elif"),
    "AsyncFor": ("async for", ""),
    "AsyncWith": ("async with", ""),
}


class Statements(Expressions):
    """One method `stmt_<node class>` for each kind of simple statement."""

    def statement(self, node: ast.stmt, rest: list[ast.stmt]) -> None:
        self.frame.node = node
        match node:
            case ast.If():
                self.visit_if(node, rest)
            case ast.For(orelse=[_, *_]) | ast.While(orelse=[_, *_]):
                raise UnsupportedSyntax(
                    "a loop cannot have an `else` part",
                    help="set a flag in front of the loop, clear it before `break`, and test it behind",
                )
            case ast.For():
                self.widening(lambda: self.visit_for(node, rest))
            case ast.While():
                self.visit_while(node, rest)
            case ast.With():
                self.visit_with(node, rest)
            case _:
                method = getattr(self, f"stmt_{type(node).__name__}", None)
                if method is None:
                    name = type(node).__name__
                    what, help = _UNSUPPORTED.get(name, (f"{name} statement", ""))
                    raise UnsupportedSyntax(f"the kernel language has no {what}", help=help)
                method(node)

    def stmt_Pass(self, node: ast.Pass) -> None:
        del node

    def stmt_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # docstrings and `...`
            self.unused = node.value
            self._rename_hinted(node.value, self.visit(node.value))

    def _rename_hinted(self, call: ast.expr, result: Any) -> None:
        """`tl.multiple_of(x, 16)` as a statement is a promise about `x`, as in Triton, where hints mark the
        value itself: from here to the end of the region the name has the promised value."""
        if not (isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Name)):
            return
        name = call.args[0].id
        before = self.frame.env.get(name)
        if isinstance(before, TensorValue) and isinstance(result, TensorValue):
            value = result.handle
            while isinstance(value.owner, tile.HintOp) and value is not before.handle:
                value = value.owner.source
            if value is before.handle:
                self.frame.env[name] = result

    def stmt_Assign(self, node: ast.Assign) -> None:
        value = self._assigned(node, self.visit(node.value))
        for target in node.targets:
            self.assign(target, value)

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        # an annotation asks nothing of the value, as in Triton: `x: tl.constexpr = n * 2` may be a tensor
        value = self.visit(node.value)
        constant = is_constexpr_annotation(node)
        self.assign(node.target, value if constant else self._assigned(node, value))

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            self._refuse_target(node.target)
        name = cast(ast.Name, node.target)
        load = ast.copy_location(ast.Name(name.id, ast.Load()), name)
        left = self.visit(load)
        right = self.visit(node.value)
        value = self.binary(SYMBOLS[type(node.op)], left, right)
        self.assign(node.target, self._assigned(node, value))

    def _assigned(self, node: ast.stmt, value: Any) -> Any:
        return self.at(node, lambda: self.semantics.assigned(value))

    def assign(self, target: ast.expr, value: Any) -> None:
        """Bind the names of an assignment target to (the parts of) `value`."""
        if isinstance(target, ast.Name):
            if isinstance(value, TensorValue) and value.handle.name_hint is None:
                name_value(value.handle, target.id)
            self.frame.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value)
        else:
            self._refuse_target(target)

    def _unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        items = self.sequence(value)
        starred = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
        if starred:
            i = starred[0]
            tail = len(target.elts) - i - 1
            if len(items) >= len(target.elts) - 1:
                items = [*items[:i], items[i : len(items) - tail], *items[len(items) - tail :]]
        if len(items) != len(target.elts):
            raise KernelTypeError(
                f"{len(target.elts)} names on the left, {len(items)} values on the right"
            )
        for part, item in zip(target.elts, items, strict=True):
            self.assign(part.value if isinstance(part, ast.Starred) else part, item)

    def _refuse_target(self, target: ast.expr) -> None:
        self.frame.node = target
        if isinstance(target, ast.Subscript):
            value = self.visit(target.value)
            if is_tensor(value) and value.dtype.is_ptr():
                place = f"{ast.unparse(target.value)} + {ast.unparse(target.slice)}"
                raise UnsupportedSyntax(
                    f"memory is not written through an index of a pointer ({describe(value)})",
                    help=f"write it with tl.store({place}, value)",
                )
            if is_tensor(value):
                raise UnsupportedSyntax(
                    f"elements of a tile ({describe(value)}) cannot be assigned; tiles are values",
                    help="make a new tile with tl.where(mask, new, old), or write memory with "
                    "tl.store",
                )
            raise UnsupportedSyntax(
                f"items of {describe(value)} cannot be assigned", help="build a new tuple or list"
            )
        raise UnsupportedSyntax(f"cannot assign to {ast.unparse(target)}")

    def stmt_Return(self, node: ast.Return) -> None:
        value = self.visit(node.value) if node.value is not None else None
        frame = self.frame
        if value is not None and len(self.frames) == 1:
            raise KernelTypeError(
                f"kernel '{frame.fn.fn.__name__}' returns a value ({describe(value)})",
                help="a kernel returns nothing; write results with tl.store",
            )
        frame.env[RESULT] = self._assigned(node, value)
        if frame.loop is not None:
            frame.env[BREAK] = frame.env[RETURNED] = True
        frame.stopped = True

    def stmt_Break(self, node: ast.Break) -> None:
        del node
        self.frame.env[BREAK] = True
        self.frame.stopped = True

    def stmt_Continue(self, node: ast.Continue) -> None:
        del node
        self.frame.stopped = True

    def visit_with(self, node: ast.With, rest: list[ast.stmt]) -> None:
        """A context manager known at compile time: entered and left as the body is compiled."""
        for item in node.items:
            manager = self.visit(item.context_expr)
            if not getattr(manager, "__tl_context__", False):
                raise UnsupportedSyntax(
                    f"a kernel cannot enter {describe(manager)} with `with`", help=""
                )
            if item.optional_vars is not None:
                self.assign(item.optional_vars, manager)
        self.finish(node.body, rest if exits_loop_or_function([node]) else None)

    def stmt_Assert(self, node: ast.Assert) -> None:
        value = self.visit(node.test)
        message = self.visit(node.msg) if node.msg is not None else ""
        if is_tensor(value):
            self.semantics.device_assert(value, str(message))
            return
        if not self.truth(value, "`assert`"):
            text = f"assertion failed: {ast.unparse(node.test)}"
            raise CompilationError(f"{text}: {message}" if message else text)
