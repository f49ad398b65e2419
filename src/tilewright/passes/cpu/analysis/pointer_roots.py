"""Which arguments of a kernel a pointer at the vector level may have come from."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from tilewright.dialects import cpu, tile
from tilewright.ir.walk import incoming

_LOADS = (cpu.VectorLoadOp, cpu.GatherOp, tile.LoadOp)


class PointerRoots:
    """The argument indices that the pointers come from of one scheduled function."""

    def __init__(self, function: func.FuncOp) -> None:
        ops = list(function.walk())
        self._arguments = frozenset(
            op.index.value.data
            for op in ops
            if isinstance(op, cpu.ArgumentOp) and isinstance(op.result.type, tile.PtrType)
        )
        self._known: dict[SSAValue, frozenset[int] | None] = {}
        self._has_foreign = any(self._is_foreign(op) for op in ops)

    def _is_foreign(self, op: Operation) -> bool:
        """Whether `op` gives pointers that may be to anything: loaded ones, or made of integers."""
        if not any(_is_pointer(r) for r in op.results):
            return False
        if isinstance(op, _LOADS):
            sources = self._sources(op.operands[0])
            return sources is None or bool(sources)
        return not op.regions and not isinstance(op, (cpu.ArgumentOp, cpu.ScratchAddressOp)) and (
            not any(_is_pointer(v) for v in op.operands)
        )  # fmt: skip

    def of(self, pointer: SSAValue) -> frozenset[int] | None:
        """Indices of the arguments that `pointer` may point into; None: it may point anywhere.

        Empty for scratch. Pointers that were kept in scratch may be any argument's, where all
        pointers of the kernel are arguments'.
        """
        if pointer not in self._known:
            found = self._sources(pointer)
            if found is not None and -1 in found:
                found = None if self._has_foreign else self._arguments
            self._known[pointer] = found
        return self._known[pointer]

    def _sources(self, pointer: SSAValue) -> frozenset[int] | None:
        """As `of`, with -1 for a pointer that was kept in scratch."""
        found: set[int] = set()
        seen: set[SSAValue] = set()
        pending = [pointer]
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            op = value.owner
            if isinstance(op, cpu.ArgumentOp):
                found.add(op.index.value.data)
            elif isinstance(op, cpu.ScratchAddressOp):
                continue
            elif isinstance(op, _LOADS):
                if self._sources(op.operands[0]):
                    return None
                found.add(-1)
            else:
                before = _given(value)
                if not before:
                    return None
                pending += before
        return frozenset(found)


def _is_pointer(value: SSAValue) -> bool:
    return isinstance(cpu.scalar_of(value), tile.PtrType)


def _given(value: SSAValue) -> list[SSAValue]:
    """The pointers that `value` is one of, moved or not; none where that is not known."""
    passed, owner = incoming(value), value.owner
    if passed is not None or isinstance(owner, Block) or owner.regions:
        return passed or []
    return [v for v in owner.operands if _is_pointer(v)]
