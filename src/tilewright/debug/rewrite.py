"""Rewrite what cannot be overloaded in Python to calls, for kernels in eager mode: `and`, `or`, `not`, `a < b < c`
and `assert` of tiles, `shape == [8, 16]`, `range` in comprehensions, whose items are constants, and
methods, since results of arithmetic with constants are Python's numbers: `tl.cdiv(N, B).to(tl.int64)`.
Numbers become scalars where they do in compiled code: those that a runtime loop carries, those that names
have after an `if` with a runtime condition, and results of functions and `a if c else b` that such a
condition decides.

Only functions that contain one are compiled again, from their syntax tree, with every line and
column where it was; all others run the code object that Python made.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable
from types import CodeType
from typing import Any, cast

from tilewright.debug.joins import as_join, joined_names, joins_results, place_joins
from tilewright.debug.python_names import check_unused_results
from tilewright.dtypes import constexpr, like, unwrap_constexpr
from tilewright.language.aggregates import Aggregate
from tilewright.language.builtin import active_semantics
from tilewright.language.kernel_function import KernelFunction
from tilewright.language.liveness import (
    FunctionAnalysis,
    analysis_of,
    exits_loop_or_function,
    has_call,
    is_constexpr_annotation,
)
from tilewright.semantics.promotion import literal_type
from tilewright.semantics.values import PYTHON_BINARY, SYMBOLS, TensorValue

(
    _AND, _OR, _NOT, _COMPARE, _EQUAL, _ASSERT, _ITEMS, _CARRIED, _JOINED, _EXIT, _RESULT, _CHOOSE, _ASSIGNED,
    _METHOD,
) = (
    f"__tilewright_{name}__"
    for name in (
        "and", "or", "not", "compare", "equal", "assert", "items", "carried", "joined", "exit",
        "result", "choose", "assigned", "method",
    )
)  # fmt: skip
_EXITS = "__tilewright_exits__"
"""The local variable that holds the runtime conditions that a function has returned under, or not."""


def kernel_code(function: KernelFunction) -> CodeType:
    """The code to run for `function`: its own, or a rewritten copy."""
    return _kernel_code(function, function.fn.__code__, function.replaced_file)


@functools.lru_cache(maxsize=1024)
def _kernel_code(function: KernelFunction, code: CodeType, replaced_file: str) -> CodeType:
    try:
        tree = function.tree
    except (OSError, TypeError, SyntaxError):  # no source to read: what Python compiled must do
        return code
    check_unused_results(function)
    analysis = analysis_of(function)
    carried, joined = _carried_names(tree, analysis), joined_names(tree, analysis)
    rewriter = _Rewriter(carried, joined, {*code.co_varnames, *code.co_cellvars})
    tree = rewriter.function(copy.deepcopy(tree))
    if not rewriter.changed and not replaced_file:
        return code
    tree.decorator_list = []
    tree.args.defaults = [ast.Constant(None) for _ in tree.args.defaults]
    tree.args.kw_defaults = [d and ast.Constant(None) for d in tree.args.kw_defaults]
    for arg in ast.walk(tree.args):
        if isinstance(arg, ast.arg):
            arg.annotation = None
    tree.returns = None
    for node in ast.walk(tree):
        if hasattr(node, "col_offset"):
            placed = cast(ast.expr, node)
            placed.col_offset += function.column_offset
            placed.end_col_offset = (placed.end_col_offset or 0) + function.column_offset
    ast.increment_lineno(tree, function.first_line - 1)
    return _compiled(tree, code, replaced_file or code.co_filename)


def _compiled(tree: ast.FunctionDef, code: CodeType, file: str) -> CodeType:
    """The code of the one function in `tree`, with `code`'s free variables."""
    body: list[ast.stmt] = [tree]
    if code.co_freevars:
        outer = ast.parse("def outer(): pass").body[0]
        assert isinstance(outer, ast.FunctionDef)
        targets = [ast.Name(name, ast.Store()) for name in code.co_freevars]
        free: list[ast.stmt] = [ast.Assign([target], ast.Constant(None)) for target in targets]
        outer.body = [*free, tree]
        body = [outer]
    module = ast.fix_missing_locations(ast.Module(body, []))
    found = compile(module, file, "exec", dont_inherit=True)
    while found.co_name != code.co_name:
        found = next(
            c for c in found.co_consts
            if isinstance(c, CodeType) and c.co_name in ("outer", code.co_name)
        )  # fmt: skip
    return found.replace(co_qualname=code.co_qualname)


def _located(node: Any, where: ast.AST) -> Any:
    """`node` and what is new below it, on the line where `where` begins, not on all of its lines."""
    begin = cast(ast.expr, where)
    line, column = begin.lineno, begin.col_offset
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            inner = cast(ast.expr, inner)
            inner.lineno, inner.col_offset = line, column
            inner.end_lineno, inner.end_col_offset = line, column + 1
    return node


#: where a loop stands: line, column
_Place = tuple[int, int]


def _carried_names(tree: ast.FunctionDef, analysis: FunctionAnalysis) -> dict[_Place, list[str]]:
    """By loop the names that it carries, as the front end finds them."""
    found: dict[_Place, list[str]] = {}
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.While) and not (isinstance(loop, ast.For) and _is_range(loop)):
            continue
        target = getattr(loop, "target", None)
        targets = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)} if target else set()
        head = analysis.head.get(loop, frozenset())
        names = [n for n in analysis.assigned(loop) if n in head and n not in targets]
        if names:
            found[loop.lineno, loop.col_offset] = names
    return found


def _is_range(loop: ast.For) -> bool:
    """Whether a loop runs over `range(...)` or `tl.range(...)`."""
    function = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    name = getattr(function, "id", None) or getattr(function, "attr", None)
    return name == "range"


def _may_be_constant(value: ast.expr) -> bool:
    """Whether an expression can be a number known at compile time: without calls, so that most kernels keep their code."""
    if isinstance(value, ast.Tuple):
        return any(map(_may_be_constant, value.elts))
    if isinstance(value, ast.BinOp):
        return _may_be_constant(value.left) and _may_be_constant(value.right)
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, ast.Not) and _may_be_constant(value.operand)
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float)
    return isinstance(value, ast.Name | ast.Attribute | ast.IfExp | ast.Subscript)


class _Rewriter(ast.NodeTransformer):
    """`carried` gives the names whose numbers become scalars around a loop, `joined` those after an `if`.

    `variables`: the function's own names; others are modules, kernels and constants.
    """

    def __init__(
        self,
        carried: dict[_Place, list[str]],
        joined: dict[_Place, list[str]],
        variables: set[str],
    ) -> None:
        self.changed = False
        self._variables = variables
        self._carried = carried
        self._joined = joined
        self._joins_results = False

    def function(self, tree: ast.FunctionDef) -> ast.FunctionDef:
        """`tree` with everything replaced."""
        self._joins_results = joins_results(tree)
        tree = self.visit(tree)
        if self._joins_results:
            empty = ast.Assign([ast.Name(_EXITS, ast.Store())], ast.List([], ast.Load()))
            tree.body.insert(0, _located(empty, tree.body[0]))
        place_joins(tree)
        return tree

    def _scalars(
        self, helper: str, names: list[str], where: ast.AST, *args: ast.expr
    ) -> list[ast.stmt]:
        """`try: x = helper(x)` of `names`: `x` may have no value here."""
        statements: list[ast.stmt] = []
        for name in names:
            value = self._call(helper, [ast.Name(name, ast.Load()), *copy.deepcopy(args)], where)
            store = ast.Assign([ast.Name(name, ast.Store())], value)
            handler = ast.ExceptHandler(ast.Name("NameError", ast.Load()), None, [ast.Pass()])
            statements.append(_located(ast.Try([store], [handler], [], []), where))
        return statements

    def _loop(self, loop: ast.For | ast.While) -> list[ast.stmt]:
        """`loop`; what it carries becomes scalars before it, in front of each iteration, and after it."""
        names = self._carried.get((loop.lineno, loop.col_offset), [])
        self.generic_visit(loop)
        loop.body = [*self._scalars(_CARRIED, names, loop.body[0]), *loop.body]
        after = [as_join(s) for s in self._scalars(_CARRIED, names, loop)]
        return [*self._scalars(_CARRIED, names, loop), loop, *after]

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        return self._assignment(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return self.generic_visit(node) if is_constexpr_annotation(node) else self._assignment(node)

    def _assignment(self, node: ast.Assign | ast.AnnAssign) -> ast.AST:
        number = node.value is not None and _may_be_constant(node.value)
        self.generic_visit(node)
        if number and node.value is not None:
            node.value = self._call(_ASSIGNED, [node.value], node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        number = _may_be_constant(node.value)
        self.generic_visit(node)
        if not number or not isinstance(node.target, ast.Name):
            return node
        load = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        value = ast.copy_location(ast.BinOp(load, node.op, node.value), node)
        store = ast.Assign([node.target], self._call(_ASSIGNED, [value], value))
        return ast.copy_location(store, node)

    def visit_For(self, node: ast.For) -> Any:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> Any:
        return self._loop(node)

    def visit_If(self, node: ast.If) -> Any:
        names = self._joined.get((node.lineno, node.col_offset), [])
        returns = self._joins_results and exits_loop_or_function([node], in_loop=False)
        self.generic_visit(node)
        if returns:
            exits = ast.Name(_EXITS, ast.Load())
            node.test = self._call(_EXIT, [exits, node.test], node.test)
        if not names:
            return node
        flag = f"__tilewright_if_{node.lineno}_{node.col_offset}__"
        node.test = _located(ast.NamedExpr(ast.Name(flag, ast.Store()), node.test), node.test)
        after = self._scalars(_JOINED, names, node, ast.Name(flag, ast.Load()))
        return [node, *(as_join(s) for s in after)]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        method = node.func
        if isinstance(method, ast.Attribute) and self._may_be_number(method.value):
            name = ast.copy_location(ast.Constant(method.attr), method)
            node.func = self._call(_METHOD, [method.value, name], method)
        return node

    def _may_be_number(self, value: ast.expr) -> bool:
        """Whether an expression that has a method may be a Python number: a variable, or a result."""
        if isinstance(value, ast.Name):
            return value.id in self._variables
        return isinstance(value, ast.BinOp | ast.UnaryOp | ast.Call | ast.Compare)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        constant = node.value is not None and _may_be_constant(node.value)
        self.generic_visit(node)
        if constant and node.value is not None:
            node.value = self._call(_ASSIGNED, [node.value], node.value)
        if self._joins_results and node.value is not None:
            exits = ast.Name(_EXITS, ast.Load())
            node.value = self._call(_RESULT, [node.value, exits], node.value)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)):
            return node  # a lambda would keep the assigned name to itself
        calls = has_call(node.body) or has_call(node.orelse)
        self.generic_visit(node)
        sides = [self._later(node.body), self._later(node.orelse)]
        both = ast.copy_location(ast.Constant(not calls), node)
        return self._call(_CHOOSE, [node.test, *sides, both], node)

    def _call(self, name: str, args: list[ast.expr], where: ast.AST) -> ast.Call:
        self.changed = True
        return _located(ast.Call(ast.Name(name, ast.Load()), args, []), where)

    def _later(self, node: ast.expr) -> ast.Lambda:
        empty = ast.arguments([], [], None, [], [], None, [])
        return ast.copy_location(ast.Lambda(empty, node), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node)):
            return node  # a lambda would keep the assigned name to itself
        self.generic_visit(node)
        name = _AND if isinstance(node.op, ast.And) else _OR
        first, *others = node.values
        return self._call(name, [first, *map(self._later, others)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return self._call(_NOT, [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        sides = (node.left, node.comparators[0])
        if len(node.ops) == 1 and any(isinstance(side, ast.List) for side in sides):
            if isinstance(node.ops[0], ast.Eq):
                return self._call(_EQUAL, [*sides], node)
            if isinstance(node.ops[0], ast.NotEq):
                return self._call(_NOT, [self._call(_EQUAL, [*sides], node)], node)
        if len(node.ops) < 2 or not all(type(op) in SYMBOLS for op in node.ops):
            return node
        symbols = " ".join(SYMBOLS[type(op)] for op in node.ops)
        signs = ast.copy_location(ast.Constant(symbols), node)
        return self._call(_COMPARE, [signs, node.left, *node.comparators], node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        args = [node.test] if node.msg is None else [node.test, self._later(node.msg)]
        return ast.copy_location(ast.Expr(self._call(_ASSERT, args, node)), node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        call = node.iter
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
        ):
            node.iter = self._call(_ITEMS, call.args, call)
        return node


# ---- what the calls do -----------------------------------------------------------------------------


def _both(is_and: bool, value: Any, others: tuple[Any, ...]) -> Any:
    """`value and …` as compiled code has it: an i1 from the first operand on that is a tensor."""
    semantics = active_semantics.get()
    tensors = False
    for make in others:
        value = unwrap_constexpr(value)
        if isinstance(value, TensorValue):
            tensors = True
            if value.shape:
                combine = semantics.logical_and if is_and else semantics.logical_or
                value = combine(value, make())
                continue
        if bool(value) is not is_and:
            break
        value = make()
    return semantics.truth(value) if tensors and isinstance(value, TensorValue) else value


def _compare(signs: str, *values: Any) -> Any:
    result: Any = True
    for sign, left, right in zip(signs.split(), values, values[1:], strict=False):
        found = PYTHON_BINARY[sign](left, right)
        result = found if result is True else _both(True, result, (lambda found=found: found,))
    return result


def _equal(left: Any, right: Any) -> Any:
    """`left == right` where one is a list: shapes are tuples, and equal to lists of their extents."""
    left, right = unwrap_constexpr(left), unwrap_constexpr(right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return tuple(left) == tuple(right)
    return left == right


def _not(value: Any) -> Any:
    value = unwrap_constexpr(value)
    if isinstance(value, TensorValue):
        return active_semantics.get().logical_not(value)
    return not value


def _assert(condition: Any, message: Any = lambda: "") -> None:
    if isinstance(unwrap_constexpr(condition), TensorValue):
        active_semantics.get().device_assert(condition, message())
    elif not condition:
        text = message()
        raise AssertionError(*([text] if text != "" else []))


def _carried(value: Any) -> Any:
    """Numbers of a value that control flow passes on, as scalars of their literal types."""
    plain = unwrap_constexpr(value)
    if isinstance(plain, bool | int | float):
        return active_semantics.get().constant(plain, literal_type(plain))
    return value


def _joined(value: Any, condition: Any) -> Any:
    """The value of a name after an `if` of `condition`."""
    return _carried(value) if isinstance(condition, TensorValue) else value


def _exit(exits: list[Any], condition: Any) -> Any:
    """`condition`, under which a function may return, noted in `exits` if it is known at run time only."""
    if isinstance(condition, TensorValue):
        exits.append(condition)
    return condition


def _result(value: Any, exits: list[Any]) -> Any:
    """The result of a function, on one of several ways if there are `exits`."""
    if not exits:
        return value
    if isinstance(value, tuple):
        kinds = value._annotations.values() if isinstance(value, Aggregate) else [None] * len(value)
        fields = zip(kinds, value, strict=True)
        items = [item if kind is constexpr else _result(item, exits) for kind, item in fields]
        return like(value, items)
    return _carried(value)


def _choose(
    condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any], both: bool
) -> Any:
    """`then() if condition else otherwise()`; `both`: the side that is not taken calls nothing."""
    condition = unwrap_constexpr(condition)
    taken, left = (then, otherwise) if condition else (otherwise, then)
    value = unwrap_constexpr(taken())
    if not isinstance(condition, TensorValue) or not isinstance(value, bool | int | float):
        return value
    other = unwrap_constexpr(left()) if both else None
    if isinstance(other, TensorValue) and not other.shape:
        return active_semantics.get().constant(value, other.type)
    same = type(other) is type(value) and other == value
    return value if same or isinstance(other, TensorValue) else _carried(value)


def _method(value: Any, name: str) -> Any:
    """The method `name` of a value; numbers have those of tensors, too, as in compiled code."""
    plain = unwrap_constexpr(value)
    if isinstance(plain, bool | int | float) and not hasattr(type(plain), name):
        return getattr(active_semantics.get().to_tensor(plain), name)
    return getattr(value, name)


def _assigned(value: Any) -> Any:
    """The value of a name: numbers have types, as in compiled code."""
    semantics = active_semantics.get()
    return value if semantics is None else semantics.assigned(value)


#: what rewritten code finds under its names
HELPERS = {
    _AND: lambda value, *others: _both(True, value, others),
    _OR: lambda value, *others: _both(False, value, others),
    _NOT: _not,
    _COMPARE: _compare,
    _EQUAL: _equal,
    _ASSERT: _assert,
    _ITEMS: range,
    _CARRIED: _carried,
    _JOINED: _joined,
    _EXIT: _exit,
    _RESULT: _result,
    _CHOOSE: _choose,
    _ASSIGNED: _assigned,
    _METHOD: _method,
}
