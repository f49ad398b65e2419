"""The runtime arguments of a kernel as its host sees them, for every target."""

from __future__ import annotations

from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from tilewright.backends.base import Argument
from tilewright.dialects import tile
from tilewright.ir.types import language_type
from tilewright.ir.walk import closure, incoming


def launch_arguments(module: ModuleOp) -> tuple[Argument, ...]:
    """The runtime arguments of a kernel, with which pointers it may write through."""
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    written = _written_arguments(function)
    result = []
    for i, arg in enumerate(function.body.block.args):
        attrs = function.arg_attrs.data[i].data if function.arg_attrs else {}
        name = attrs.get("tile.name")
        divisor: Any = attrs.get("tile.divisibility")
        divisible = 1 if divisor is None else divisor.value.data
        label = name.data if isinstance(name, StringAttr) else f"arg{i}"
        kind = arg.type
        text = language_type(kind).short_name
        if isinstance(kind, tile.PtrType):
            result.append(Argument(label, "pointer", text, i in written, divisible))
        else:
            word = "int" if isinstance(kind, IntegerType) else "float"
            result.append(Argument(label, word, text, False, divisible))
    return tuple(result)


def _written_arguments(function: func.FuncOp) -> set[int]:
    """Indices of arguments that a stored-through or atomic pointer can come from."""
    body = function.body.block

    def origins(value: SSAValue) -> list[SSAValue]:
        sources = [] if value.owner is body else _sources(value)
        pointers = [v for v in sources if isinstance(tile.element_of(v), tile.PtrType)]
        # offsets do not matter; a pointer made of an integer may come from anywhere in it
        return pointers or sources

    stores = (tile.StoreOp, tile.AtomicRMWOp, tile.AtomicCASOp)
    pointers = [op.pointer for op in function.walk() if isinstance(op, stores)]
    reached = set(closure(pointers, origins))
    return {argument.index for argument in body.args if argument in reached}


def _sources(value: SSAValue) -> list[SSAValue]:
    """Values that `value` is made of, or that control flow may give it."""
    passed = incoming(value)
    op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    if passed is not None or op is None or isinstance(op, scf.ForOp):
        return passed or []
    ends = [r.block.last_op for r in op.regions if r.blocks]
    return [*op.operands, *(v for end in ends if end is not None for v in end.operands)]
