"""A nest of plain Python loops as a function of `affine.for` (arXiv 2108.13191, section 3.1).

The Python function is never run. Its arrays become `memref`s of unknown extents, whose element types
are those of the arrays that it is called with later.

Sums that a Python loop keeps in a name, as sums in the element that they are stored to.

    s = 0.0                                     C[i, j] = 0.0
    for k in range(K):                          for k in range(K):
        s += A[i, k] * B[k, j]        →             C[i, j] += A[i, k] * B[k, j]
    C[i, j] = s

and without the first line on the right where the last on the left is `C[i, j] += s`.
"""

from __future__ import annotations

import ast
import copy
import inspect
from typing import Any

from xdsl.dialects import affine, arith, func, memref
from xdsl.dialects.builtin import AffineMapAttr, FloatAttr, IndexType, MemRefType, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap

from tilewright.errors import CompilationError, UnsupportedSyntax
from tilewright.ir.location import location_attribute
from tilewright.ir.text import name_value
from tilewright.language.kernel_function import KernelFunction

_SHAPE = (
    "write for i in range(M): for j in range(N): for k in range(K): C[i, j] += A[i, k] * B[k, j]"
)
_BOUND = "`{}` is neither a constant nor an integer parameter, nor affine in them"


def affine_function(function: Any) -> func.FuncOp:
    """The function as IR. Raises CompilationError at what has no form in `affine`."""
    return _Nest(function).build()


class _Nest:
    def __init__(self, function: Any) -> None:
        if not inspect.isfunction(function):
            raise CompilationError(
                f"{function!r} is not a function", help="decorate a function defined by def"
            )
        self.function = KernelFunction(function)
        try:
            self.tree = self.function.tree
        except (OSError, TypeError) as error:
            raise CompilationError(
                f"cannot read the source of {function.__name__}: {error}",
                help="define it in a file or a notebook cell",
            ) from None
        self.globals = self.function.globals
        self.arguments: dict[str, SSAValue] = {}
        self.indices: dict[str, SSAValue] = {}
        self.ranks: dict[str, int] = {}
        self.named: dict[str, tuple[AffineExpr, list[SSAValue]]] = {}
        """Numbers that have been given names before the loops."""
        self.dims: dict[tuple[str, int], SSAValue] = {}

    def wrong(self, node: ast.AST, text: str) -> CompilationError:
        return UnsupportedSyntax(text, help=_SHAPE, location=self.function.location(node))

    def build(self) -> func.FuncOp:
        parameters = {a.arg for a in self.tree.args.args}
        for node in ast.walk(self.tree):
            name = getattr(node.value, "id", None) if isinstance(node, ast.Subscript) else None
            if isinstance(node, ast.Subscript) and name in parameters:
                rank = len(_subscripts(node))
                if self.ranks.setdefault(name, rank) != rank:
                    raise self.wrong(node, f"'{name}' has subscripts of different lengths")
        args = self.tree.args
        if args.vararg or args.kwarg or args.kwonlyargs or args.defaults:
            raise self.wrong(self.tree, "parameters must be plain names")
        types = [
            MemRefType(f32, [-1] * self.ranks[a.arg]) if a.arg in self.ranks else IndexType()
            for a in args.args
        ]
        block = Block(arg_types=types)
        for a, value in zip(args.args, block.args, strict=True):
            name_value(value, a.arg)
            self.arguments[a.arg] = value
        self.top = block
        self.statements(
            rewrite_scalar_accumulators(_without_docstring(self.tree.body), self.tree), block
        )
        block.add_op(func.ReturnOp())
        function = func.FuncOp(self.tree.name, (types, []), Region(block))
        function.location = location_attribute(self.function.location(self.tree))
        return function

    def add(self, op: Operation, block: Block, node: ast.AST) -> Operation:
        op.location = location_attribute(self.function.location(node))
        block.add_op(op)
        return op

    # ---- statements ------------------------------------------------------------------------------

    def statements(self, body: list[ast.stmt], block: Block) -> None:
        for node in body:
            if isinstance(node, ast.For):
                self.loop(node, block)
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                self.store(node, node.target, node.value, block)
            elif isinstance(node, ast.Assign) and not self.indices and self.names(node):
                continue
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self.store(node, node.targets[0], node.value, block)
            else:
                raise self.wrong(
                    node, f"`{ast.unparse(node).splitlines()[0]}` is neither a loop nor a sum"
                )

    def names(self, node: ast.Assign) -> bool:
        """`M = A.shape[0]`, `M, K = A.shape`: names for numbers, if the statement is that."""
        (target, *others), value = node.targets, node.value
        if isinstance(target, ast.Name) and not others:
            self.give_name(target.id, value)
            return True
        if not isinstance(target, ast.Tuple) or others:
            return False
        names = [x.id for x in target.elts if isinstance(x, ast.Name)]
        if len(names) != len(target.elts):
            return False
        if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
            for name, each in zip(names, value.elts, strict=True):
                self.give_name(name, each)
            return True
        array = self.array_of_shape(value)
        if array is None or self.ranks[array] != len(names):
            return False
        for axis, name in enumerate(names):
            each = ast.Subscript(value, ast.Constant(axis), ast.Load())
            self.give_name(name, ast.copy_location(each, value))
        return True

    def give_name(self, name: str, value: ast.expr) -> None:
        operands: list[SSAValue] = []
        self.named[name] = self.affine(value, operands, _BOUND), operands

    def array_of_shape(self, node: ast.expr) -> str | None:
        """The array parameter whose `.shape` this is."""
        if not (isinstance(node, ast.Attribute) and node.attr == "shape"):
            return None
        name = node.value.id if isinstance(node.value, ast.Name) else None
        return name if name in self.ranks and name in self.arguments else None

    def extent(self, node: ast.expr) -> SSAValue | None:
        """`A.shape[0]` or `len(A)` as a value."""
        found: tuple[str, int] | None = None
        if isinstance(node, ast.Subscript):
            array, axis = self.array_of_shape(node.value), self.constant(node.slice)
            if (
                array is not None
                and axis is not None
                and -self.ranks[array] <= axis < self.ranks[array]
            ):
                found = array, axis % self.ranks[array]
        elif isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            named = isinstance(node.func, ast.Name) and node.func.id == "len"
            array = node.args[0].id if isinstance(node.args[0], ast.Name) else None
            if named and array in self.ranks and array in self.arguments:
                found = array, 0
        if found is None:
            return None
        if found not in self.dims:
            axis_op = arith.ConstantOp.from_int_and_width(found[1], IndexType())
            op = memref.DimOp(self.arguments[found[0]], axis_op.result)
            self.top.add_ops([axis_op, op])
            self.dims[found] = op.result
        return self.dims[found]

    def loop(self, node: ast.For, block: Block) -> None:
        call = node.iter
        function = call.func if isinstance(call, ast.Call) else None
        ranged = isinstance(function, ast.Name) and function.id == "range"
        if not isinstance(call, ast.Call) or not ranged or call.keywords or node.orelse:
            raise self.wrong(node.iter, "a loop must be over range(...)")
        if not isinstance(node.target, ast.Name):
            raise self.wrong(node.target, "a loop has one index name")
        args = call.args
        if not 1 <= len(args) <= 3:
            raise self.wrong(call, "a loop must be over range(...) with one to three numbers")
        lower, upper = (ast.Constant(0), args[0]) if len(args) == 1 else args[:2]
        step = self.constant(args[2]) if len(args) == 3 else 1
        if step is None or step < 1:
            raise self.wrong(args[2], "the step of a loop must be a positive constant")
        low_map, low = self.bound(lower)
        high_map, high = self.bound(upper)
        body = Block(arg_types=[IndexType()])
        name_value(body.args[0], node.target.id)
        op = affine.ForOp.from_region(low, high, [], [], low_map, high_map, Region(body), step)
        self.add(op, block, node)
        outer = dict(self.indices)
        self.indices[node.target.id] = body.args[0]
        self.statements(node.body, body)
        body.add_op(affine.YieldOp.get())
        self.indices = outer

    def constant(self, node: ast.expr) -> int | None:
        value: Any = getattr(node, "value", None)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self.constant(node.operand)
            return None if number is None else -number
        if isinstance(node, ast.Name) and node.id not in (*self.arguments, *self.indices):
            value = self.globals.get(node.id)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def bound(self, node: ast.expr) -> tuple[AffineMapAttr, list[SSAValue]]:
        """A loop's end as a map: a constant, or one parameter or outer index."""
        operands: list[SSAValue] = []
        expression = self.affine(node, operands, _BOUND)
        return AffineMapAttr(AffineMap(len(operands), 0, (expression,))), operands

    def store(self, node: ast.stmt, target: ast.expr, value: ast.expr, block: Block) -> None:
        """`C[…] += value`, or `C[…] = value`."""
        if not isinstance(target, ast.Subscript):
            raise self.wrong(target, "only elements of arrays are assigned")
        memref, indices, element_map = self.element(target)
        if isinstance(node, ast.AugAssign):
            old = affine.LoadOp(memref, indices, element_map)
            self.add(old, block, target)
            new = arith.AddfOp(old.result, self.expression(value, block))
            result = self.add(new, block, node).results[0]
        else:
            result = self.expression(value, block)
        self.add(affine.StoreOp(result, memref, indices, element_map), block, node)

    # ---- expressions -----------------------------------------------------------------------------

    def expression(self, node: ast.expr, block: Block) -> SSAValue:
        if isinstance(node, ast.Subscript):
            memref, indices, element_map = self.element(node)
            return self.add(affine.LoadOp(memref, indices, element_map), block, node).results[0]
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            kind = arith.AddfOp if isinstance(node.op, ast.Add) else arith.MulfOp
            left, right = self.expression(node.left, block), self.expression(node.right, block)
            return self.add(kind(left, right), block, node).results[0]
        if isinstance(node, ast.Constant) and node.value == 0 and node.value is not False:
            return self.add(arith.ConstantOp(FloatAttr(0.0, f32)), block, node).results[0]
        raise self.wrong(node, f"`{ast.unparse(node)}` has no place in a sum of products")

    def element(self, node: ast.Subscript) -> tuple[SSAValue, list[SSAValue], AffineMapAttr]:
        name = node.value.id if isinstance(node.value, ast.Name) else None
        memref = self.arguments.get(name) if name is not None else None
        if memref is None:
            raise self.wrong(node, f"`{ast.unparse(node.value)}` is not a parameter")
        operands: list[SSAValue] = []
        text = "the subscript `{}` is not affine in loop indices"
        expressions = [self.affine(item, operands, text) for item in _subscripts(node)]
        return memref, operands, AffineMapAttr(AffineMap(len(operands), 0, tuple(expressions)))

    def affine(self, node: ast.expr, operands: list[SSAValue], text: str) -> AffineExpr:
        """An affine expression of loop indices and parameters, which join `operands`; `text` tells of others."""
        if isinstance(node, ast.Name) and node.id in self.named and node.id not in self.indices:
            expression, own = self.named[node.id]
            return expression.replace_dims_and_symbols([_dimension(x, operands) for x in own], [])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.affine(node.operand, operands, text) * -1
        number = self.constant(node)
        if number is not None:
            return AffineExpr.constant(number)
        if isinstance(node, ast.Name):
            value = self.indices.get(node.id, self.arguments.get(node.id))
            if value is not None and isinstance(value.type, IndexType):
                return _dimension(value, operands)
        if (extent := self.extent(node)) is not None:
            return _dimension(extent, operands)
        if isinstance(node, ast.BinOp):
            left, right = (self.affine(x, operands, text) for x in (node.left, node.right))
            by, of = (isinstance(x, AffineConstantExpr) for x in (right, left))
            if isinstance(node.op, ast.Add):
                return left + right
            if isinstance(node.op, ast.Sub):
                return left + right * -1
            if isinstance(node.op, ast.Mult) and (by or of):
                return left * right if by else right * left
            if isinstance(node.op, ast.FloorDiv) and by and right.eval([], []) > 0:
                return left // right
        raise self.wrong(node, text.format(ast.unparse(node)))


def _dimension(value: SSAValue, operands: list[SSAValue]) -> AffineExpr:
    """`value` as a dimension of a map with these operands, which it joins."""
    operands.append(value)
    return AffineExpr.dimension(len(operands) - 1)


def _subscripts(node: ast.Subscript) -> list[ast.expr]:
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body[0]:
        case ast.Expr(ast.Constant(str())):
            return body[1:]
    return body


def rewrite_scalar_accumulators(body: list[ast.stmt], function: ast.AST) -> list[ast.stmt]:
    """`body`, with such sums in their elements, at any depth; what does not fit stays as it is."""
    found: list[ast.stmt] = []
    rest = list(body)
    while rest:
        replaced = _replaced(rest[:3], function)
        if replaced is not None:
            found += replaced
            rest = rest[3:]
            continue
        statement = rest.pop(0)
        if isinstance(statement, ast.For):
            statement.body = rewrite_scalar_accumulators(statement.body, function)
        found.append(statement)
    return found


def _replaced(statements: list[ast.stmt], function: ast.AST) -> list[ast.stmt] | None:
    """Three statements that begin, add up and store a sum, as a loop over the element."""
    if len(statements) != 3:
        return None
    first, loop, last = statements
    if (
        not isinstance(first, ast.Assign)
        or not isinstance(loop, ast.For)
        or len(first.targets) != 1
    ):
        return None
    name, zero = first.targets[0], first.value
    if not isinstance(name, ast.Name) or getattr(zero, "value", None) != 0:
        return None
    adds = isinstance(last, ast.AugAssign) and isinstance(last.op, ast.Add)
    if not adds and not (isinstance(last, ast.Assign) and len(last.targets) == 1):
        return None
    assigned: Any = last
    target: Any = assigned.targets[0] if isinstance(last, ast.Assign) else assigned.target
    value: Any = assigned.value
    if not isinstance(target, ast.Subscript) or getattr(value, "id", None) != name.id:
        return None
    if _uses(function, name.id) != _uses(loop, name.id) + 2 or _names(target) & _indices(loop):
        return None  # the sum is used elsewhere, or the element is another one inside of the loop
    inner: Any = _Replace(name.id, target).visit(loop)
    if adds:
        return [inner]
    start = ast.Assign([copy.deepcopy(target)], zero)
    return [ast.copy_location(start, last), inner]


def _uses(tree: ast.AST, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _indices(loop: ast.For) -> set[str]:
    """Names that a loop, and those inside of it, give values to."""
    loops = [node for node in ast.walk(loop) if isinstance(node, ast.For)]
    return {name for each in loops for name in _names(each.target)}


class _Replace(ast.NodeTransformer):
    """Puts an element where a name stands."""

    def __init__(self, name: str, element: ast.Subscript) -> None:
        self.name, self.element = name, element

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The element for the name, in its place."""
        if node.id != self.name:
            return node
        element = copy.deepcopy(self.element)
        element.ctx = node.ctx
        return ast.copy_location(element, node)
