"""Mutants of the fact analysis: its source with one small mistake each."""

import ast
import copy
import inspect
import types
from functools import partial

from tilewright.passes.analysis.facts import lattice, transfer

_NAMES = {
    "min": "max", "max": "min", "signed_range": "unsigned_range", "unsigned_range": "signed_range",
    "join": "meet", "a": "b",
}  # fmt: skip
_ATTRIBUTES = {"smin": "umin", "smax": "umax", "umin": "umax", "umax": "umin"}
_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
}  # fmt: skip


def _changes(node):
    """Replacements of one node, each with a description."""
    loaded = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    if loaded and node.id in _NAMES and not getattr(node, "of_width", False):
        yield f"{node.id} -> {_NAMES[node.id]}", ast.Name(_NAMES[node.id], ast.Load())
    if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
        other = _ATTRIBUTES[node.attr]
        yield f".{node.attr} -> .{other}", ast.Attribute(node.value, other, ast.Load())
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            other = _COMPARISONS.get(type(op))
            if other is not None:
                ops = [*node.ops[:i], other(), *node.ops[i + 1 :]]
                yield (
                    f"{ast.unparse(node)}: other comparison {i}",
                    ast.Compare(node.left, ops, node.comparators),
                )
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        other = _OPERATORS[type(node.op)]()
        yield f"{ast.unparse(node)}: other operator", ast.BinOp(node.left, other, node.right)
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{ast.unparse(node)}: and/or", ast.BoolOp(other, node.values)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value} -> {node.value + 1}", ast.Constant(node.value + 1)
    if isinstance(node, ast.If | ast.IfExp):
        for value in (True, False):
            changed = copy.copy(node)
            changed.test = ast.Constant(value)
            yield f"if {ast.unparse(node.test)}: {value}", changed


class _Replace(ast.NodeTransformer):
    def __init__(self, target, new):
        self.target, self.new = target, new

    def visit(self, node):
        return self.new if node is self.target else super().generic_visit(node)


def mutants(module):
    """(function, description, function that makes the tree of the whole module) for each mistake.

    Trees are made one at a time: all of them together are three million objects, which stay alive in a module
    that tests parametrize on, and make every garbage collection of the test process slow.
    """
    tree = ast.parse(inspect.getsource(module))
    for function in tree.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        seen = {}
        for node in ast.walk(function):  # both operands have one width
            if isinstance(node, ast.Attribute) and node.attr == "bits":
                node.value.of_width = True
        for statement in function.body:
            for node in ast.walk(statement):
                for text, new in _changes(node):
                    number = seen[text] = seen.get(text, 0) + 1
                    name = f"{module.__name__.rpartition('.')[2]}.{function.name}: {text} #{number}"
                    yield function.name, name, partial(_with, tree, function, node, new)


def _with(tree, function, node, new):
    """The tree of a module with one node of one function replaced; other functions are shared with `tree`."""
    memo = {}
    other = copy.deepcopy(function, memo)
    replaced = _Replace(memo[id(node)], ast.fix_missing_locations(ast.copy_location(new, node)))
    changed = ast.fix_missing_locations(replaced.visit(other))
    body = [changed if statement is function else statement for statement in tree.body]
    return ast.Module(body, tree.type_ignores)


def load(tree, name, given=None):
    """The module that a tree makes; `given`: a module whose names stand for those of `lattice`."""
    made = types.ModuleType(name)
    exec(compile(tree, name, "exec"), made.__dict__)
    return made


def transfer_on(changed):
    """The module `transfer` on another lattice."""
    made = types.ModuleType("transfer_on")
    exec(compile(inspect.getsource(transfer), "transfer_on", "exec"), made.__dict__)
    for name in vars(lattice):
        if name in made.__dict__ and not name.startswith("__"):
            made.__dict__[name] = getattr(changed, name)
    return made
