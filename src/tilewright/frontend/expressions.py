"""Expressions: names, operators, subscripts, attributes, comprehensions."""

from __future__ import annotations

import ast
import difflib
import operator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from xdsl.ir import SSAValue

from tilewright import dtypes
from tilewright.errors import CompilationError, KernelNameError, KernelTypeError, UnsupportedSyntax
from tilewright.frontend.frame import Undefined, check_global, is_plain
from tilewright.frontend.loops import RangeValue
from tilewright.frontend.values import has_tensor, is_tensor
from tilewright.frontend.while_loops import WhileLoops
from tilewright.language import core
from tilewright.language.aggregates import BoundKernelFunction
from tilewright.language.builtin import unused_result_error
from tilewright.language.liveness import has_call
from tilewright.semantics.values import PYTHON_BINARY, PYTHON_UNARY, SYMBOLS, TensorValue, describe

#: what C and Python call types -> the language's names
_TYPES_MEANT = {
    "float": "float32", "double": "float64", "half": "float16", "int": "int32", "long": "int64",
    "short": "int16", "char": "int8", "bool": "int1", "bf16": "bfloat16", "fp16": "float16",
    "fp32": "float32", "fp64": "float64",
}  # fmt: skip


@dataclass(frozen=True)
class BoundMethod:
    """`x.name` of a tensor or descriptor, waiting to be called: `value` is the function."""

    value: Any
    name: str
    _must_use_result: Any


class Expressions(WhileLoops):
    """One method `expr_<node class>` for each kind of expression."""

    def visit(self, node: ast.expr) -> Any:
        frame = self.frame
        outer, frame.node = frame.node, node
        method = getattr(self, f"expr_{type(node).__name__}", None)
        if method is None:
            raise UnsupportedSyntax(
                f"the kernel language has no {_construct(node)}", help=_hint(node)
            )
        value = method(node)
        frame.node = outer
        return value

    # ---- truth ---------------------------------------------------------------------------------

    def condition(self, node: ast.expr, what: str) -> bool | SSAValue:
        return self.at(node, lambda: self.truth(self.visit(node), what))

    def at(self, node: ast.AST, make: Any) -> Any:
        """Run `make` with `node` as the current place."""
        outer, self.frame.node = self.frame.node, node
        value = make()
        self.frame.node = outer
        return value

    def truth(self, value: Any, what: str) -> bool | SSAValue:
        """The truth of a value: a bool when known at compile time, else a scalar i1 handle."""
        if not is_tensor(value):
            return self.static_call(bool, [value], {})
        if self.lane_shape and value.shape == self.lane_shape:
            return self.semantics.truth(value).handle
        return self.semantics.condition(value, f"the condition of {what}").handle

    # ---- names and constants -------------------------------------------------------------------

    def expr_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def expr_Name(self, node: ast.Name) -> Any:
        env = self.frame.env
        if node.id in env:
            value = env[node.id]
            if isinstance(value, Undefined):
                value.raise_()
            return value
        if node.id in self.frame.analysis.locals:
            raise KernelNameError(
                f"'{node.id}' is read before it has a value",
                help=f"assign '{node.id}' on every path that leads here",
            )
        value = self.frame.look_up_global(node.id)
        return self.global_value(node.id, value)

    def global_value(self, path: str, value: Any) -> Any:
        """Admit the value of global `path`, and record it if it is plain data."""
        check_global(path, value)
        if is_plain(value):
            self.globals_read[self.frame.fn, path] = dtypes.unwrap_constexpr(value)
        return dtypes.unwrap_constexpr(value)

    def expr_Attribute(self, node: ast.Attribute) -> Any:
        path = _dotted(node)
        if path is not None and self.frame.is_global(path[0]):
            return self._global_chain(path)
        return self.attribute(self.visit(node.value), node.attr)

    def _global_chain(self, path: list[str]) -> Any:
        value = self.frame.look_up_global(path[0])
        own = False
        for i, name in enumerate(path[1:], 1):
            if isinstance(value, ModuleType):
                own = value.__name__.partition(".")[0] == "tilewright"
                if not hasattr(value, name):
                    raise self._no_attribute(".".join(path[:i]), value, name)
                value = getattr(value, name)
            else:
                check_global(".".join(path[:i]), value)
                value = self.attribute(dtypes.unwrap_constexpr(value), name)
        if own:  # the language's own names are covered by the hash of this package
            return dtypes.unwrap_constexpr(value)
        return self.global_value(".".join(path), value)

    def _no_attribute(self, path: str, module: Any, name: str) -> CompilationError:
        names = [n for n in dir(module) if not n.startswith("_")]
        meant = [_TYPES_MEANT[name]] if _TYPES_MEANT.get(name) in names else []
        close = (
            meant
            or difflib.get_close_matches(name, names, 1)
            or [n for n in names if len(n) > 2 and (name.startswith(n) or n.startswith(name))]
        )
        help = f"did you mean {path}.{close[0]}?" if close else f"'{path}' is {module.__name__}"
        if not close and module.__name__ == "tilewright.language":
            help += "; help(tl) and docs/language.md say what it has"
        return KernelNameError(f"'{path}' has no attribute '{name}'", help=help)

    def attribute(self, value: Any, name: str) -> Any:
        """`value.name` for a tensor or a compile-time object."""
        if self.semantics.has_attributes(value):
            return self.tensor_attribute(value, name)
        if hasattr(value, name):
            return dtypes.unwrap_constexpr(getattr(value, name))
        if name == "value":  # of a constexpr: those are held without their wrapper
            return value
        if isinstance(value, bool | int | float):  # e.g. `n.to(tl.int64)` of an n known to be 1
            return self.tensor_attribute(self.semantics.to_tensor(value), name)
        raise KernelNameError(f"{describe(value)} has no attribute '{name}'")

    def tensor_attribute(self, value: Any, name: str) -> Any:
        found = self.semantics.attribute(value, name)
        if not callable(found) or is_tensor(found):
            return found
        stub = getattr(core, name, None)  # `ptr.advance(...)` is `tl.advance(ptr, ...)`
        return BoundMethod(found, name, getattr(stub, "_must_use_result", False))

    # ---- operators -----------------------------------------------------------------------------

    def expr_BinOp(self, node: ast.BinOp) -> Any:
        left = self.visit(node.left)
        right = self.visit(node.right)
        return self.binary(SYMBOLS[type(node.op)], left, right)

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        """Apply a Python operator: to compile-time values as Python does, else by semantics."""
        if is_tensor(left) or is_tensor(right):
            if symbol == "@":
                raise UnsupportedSyntax("tensors have no `@`", help="use tl.dot(a, b)")
            return self.semantics.binary(symbol, left, right)
        sequences = isinstance(left, list | tuple) and isinstance(right, list | tuple)
        if sequences and type(left) is not type(right):
            left, right = tuple(left), tuple(right)
        return self.static_call(PYTHON_BINARY[symbol], [left, right], {}, symbol)

    def expr_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value, symbol = self.visit(node.operand), SYMBOLS[type(node.op)]
        if is_tensor(value):
            return self.semantics.unary(symbol, value)
        return self.static_call(PYTHON_UNARY[symbol], [value], {})

    def expr_Compare(self, node: ast.Compare) -> Any:
        left = self.visit(node.left)
        result: Any = None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.visit(right_node)
            value = self.compare(op, left, right)
            result = value if result is None else self.logical_and(result, value)
            if result is False:
                return False
            left = right
        return result

    def compare(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        if isinstance(op, ast.Is | ast.IsNot):
            same = left is right or (
                type(left) is type(right) and not has_tensor(left) and left == right
            )
            return same if isinstance(op, ast.Is) else not same
        if isinstance(op, ast.In | ast.NotIn):
            if has_tensor(left) or has_tensor(right):
                raise UnsupportedSyntax("`in` needs values known at compile time")
            found = self.static_call(lambda a, b: a in b, [left, right], {})
            return found if isinstance(op, ast.In) else not found
        return self.binary(SYMBOLS[type(op)], left, right)

    def logical_and(self, left: Any, right: Any) -> Any:
        if not is_tensor(left):
            return right if left else left
        return self.semantics.logical_and(left, right)

    def expr_BoolOp(self, node: ast.BoolOp) -> Any:
        is_and = isinstance(node.op, ast.And)
        value = self.visit(node.values[0])
        for next_node in node.values[1:]:
            if is_tensor(value):
                if not value.shape and has_call(next_node):
                    value = self._skip_right(is_and, value, next_node)
                    continue
                value = self._both(is_and, value, self.visit(next_node))
                continue
            if bool(value) is not is_and:
                return value
            value = self.visit(next_node)
        return value

    def _both(self, is_and: bool, left: TensorValue, right: Any) -> Any:
        """`left and right` of evaluated operands; a constant on the right may decide it."""
        if not is_tensor(right):
            return self.semantics.truth(left) if bool(right) is is_and else not is_and
        combine = self.semantics.logical_and if is_and else self.semantics.logical_or
        return combine(left, right)

    def _skip_right(self, is_and: bool, left: TensorValue, node: ast.expr) -> Any:
        """`left and node`, where `node` may read memory and must not run when `left` decides."""

        def right() -> Any:
            value = self.visit(node)
            return self.semantics.truth(value) if is_tensor(value) else bool(value)

        condition = self.semantics.truth(left).handle
        if is_and:
            return self.short_circuit(condition, right, lambda: False)
        return self.short_circuit(condition, lambda: True, right)

    def expr_IfExp(self, node: ast.IfExp) -> Any:
        return self.choose(node)

    def expr_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.visit(node.value)
        self.assign(node.target, value)
        return value

    # ---- containers ----------------------------------------------------------------------------

    def expr_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._items(node.elts))

    def expr_List(self, node: ast.List) -> Any:
        return self._items(node.elts)

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        items: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                items.extend(self.sequence(self.visit(node.value)))
            else:
                items.append(self.visit(node))
        return items

    def sequence(self, value: Any) -> list[Any]:
        """The items of something iterable at compile time."""
        if is_tensor(value):
            raise KernelTypeError(
                f"a tensor ({describe(value)}) cannot be iterated over or unpacked",
                help="use tl.split, or work on whole tiles",
            )
        try:
            return [dtypes.unwrap_constexpr(item) for item in value]
        except TypeError:
            raise KernelTypeError(f"{describe(value)} cannot be iterated over") from None

    def expr_Dict(self, node: ast.Dict) -> Any:
        if any(key is None for key in node.keys):
            raise UnsupportedSyntax("`**` in a dict display is not part of the kernel language")
        return {
            self.visit(k): self.visit(v) for k, v in zip(node.keys, node.values, strict=True) if k
        }

    def expr_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        found: list[Any] = []
        outer = dict(self.frame.env)
        self._comprehend(node.generators, lambda: found.append(self.visit(node.elt)))
        self.frame.env = outer
        return found

    expr_GeneratorExp = expr_ListComp

    def _comprehend(self, generators: list[ast.comprehension], emit: Any) -> None:
        if not generators:
            emit()
            return
        first, *others = generators
        items = self.loop_items(first.iter)
        if isinstance(items, RangeValue) and not has_tensor(items.bounds):
            items = self.static_call(range, list(items.bounds), {}, "range()")
        if not isinstance(items, list | tuple | range | dict | str):
            raise UnsupportedSyntax(
                "a comprehension needs items known at compile time",
                help="use a `for` loop, or make the bounds tl.constexpr",
            )
        for item in items:
            self.assign(first.target, item)
            truths = [self.condition(test, "a comprehension") for test in first.ifs]
            if not all(isinstance(t, bool) for t in truths):
                raise UnsupportedSyntax(
                    "the condition of a comprehension must be known at compile time"
                )
            if all(truths):
                self._comprehend(others, emit)

    def expr_JoinedStr(self, node: ast.JoinedStr) -> str:
        # before Python 3.12 the parts do not know where they stand
        return "".join(self.visit(ast.copy_location(part, node)) for part in node.values)

    def expr_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.visit(node.value)
        if has_tensor(value):
            raise KernelTypeError(
                f"an f-string cannot hold a value known only at run time ({describe(value)})",
                help='use tl.device_print("text", value)',
            )
        convert = {ord("r"): repr, ord("s"): str, ord("a"): ascii}.get(node.conversion)
        spec = self.visit(node.format_spec) if node.format_spec else ""
        return self.static_call(format, [convert(value) if convert else value, spec], {})

    def expr_Slice(self, node: ast.Slice) -> slice:
        parts = [
            self.visit(p) if p is not None else None for p in (node.lower, node.upper, node.step)
        ]
        return slice(*parts)

    def expr_Subscript(self, node: ast.Subscript) -> Any:
        value = self.visit(node.value)
        index = self.visit(node.slice)
        if is_tensor(value):
            return self.semantics.subscript(value, index)
        method = getattr(value, "__getitem__", None)
        if isinstance(method, BoundKernelFunction):
            return self.call(method, [index], {}, node)
        if has_tensor(index):
            raise KernelTypeError(
                f"{describe(value)} needs an index known at compile time, not {describe(index)}",
                help="make the index a tl.constexpr or loop with tl.static_range",
            )
        if method is not None:
            return dtypes.unwrap_constexpr(self.static_call(operator.getitem, [value, index], {}))
        raise KernelTypeError(f"{describe(value)} cannot be subscripted")

    def expr_Call(self, node: ast.Call) -> Any:
        function = self.visit(node.func)
        if node is self.unused:
            error = unused_result_error(function, ast.unparse(node.func))
            if error is not None:
                raise error
        positional = self._items(node.args)
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords |= value
            else:
                raise UnsupportedSyntax("`**` needs a dict known at compile time")
        return self.call(function, positional, keywords, node)

    def static_call(
        self, function: Any, args: list[Any], keywords: dict[str, Any], what: str = ""
    ) -> Any:
        """Evaluate on compile-time values; what Python raises becomes a `CompilationError`."""
        try:
            return dtypes.unwrap_constexpr(function(*args, **keywords))
        except CompilationError:
            raise
        except Exception as error:
            name = what or getattr(function, "__name__", "this expression")
            given = [repr(a) for a in args]
            binary = len(given) == 2 and name in PYTHON_BINARY
            text = f" {name} ".join(given) if binary else f"{name} of {', '.join(given)}"
            help = ""
            if function is operator.getitem:
                text = f"{given[0]}[{given[1]}]"
                if given[0] == "()":  # the shape of a scalar
                    help = "a kernel gets the address of an array: pass its sizes as arguments"
            raise CompilationError(
                f"`{text}` raised {type(error).__name__}: {error}", help=help
            ) from error


def _dotted(node: ast.expr) -> list[str] | None:
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def _construct(node: ast.AST) -> str:
    names = {
        "Lambda": "lambda", "Await": "await", "Yield": "yield", "YieldFrom": "yield",
        "SetComp": "set comprehension", "DictComp": "dict comprehension", "Set": "set display",
        "Starred": "starred expression here",
    }  # fmt: skip
    return names.get(type(node).__name__, f"{type(node).__name__} expression")


def _hint(node: ast.AST) -> str:
    if isinstance(node, ast.Lambda):
        return "write a function with @jit at module level"
    return ""
