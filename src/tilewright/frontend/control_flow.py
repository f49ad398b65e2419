"""`if`, ternaries and the paths that leave a statement list early, as `scf.if`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from tilewright.errors import KernelTypeError
from tilewright.frontend.frame import BREAK, RESULT, RETURNED, BuilderState, Undefined
from tilewright.frontend.values import Joined, filler, join_types, rebuild, same_value
from tilewright.ir.types import ir_type
from tilewright.language.liveness import exits_loop_or_function, has_call

_MISSING = Undefined("")
_VALUE = "$value"
"""Prefix of names that hold the value of an expression."""
_PLACES = ("where the condition holds", "where it does not")
_MIXED_EXPRESSION = "Ternary expression with dynamic condition has inconsistent types"


class ControlFlow(BuilderState):
    """Statement lists and conditionals."""

    def run(self, statements: list[ast.stmt]) -> None:
        """Compile a statement list; sets `frame.stopped` when the path leaves it for good."""
        for i, statement in enumerate(statements):
            self.statement(statement, statements[i + 1 :])
            if self.frame.stopped:
                return

    def visit_if(self, node: ast.If, rest: list[ast.stmt]) -> None:
        condition = self.condition(node.test, "`if`")
        leaves_early = exits_loop_or_function([node])
        if isinstance(condition, bool):
            live = node.body if condition else node.orelse
            self.finish(live, rest if leaves_early else None)
            return
        if leaves_early:
            self.tail_if(
                condition,
                lambda: self.finish(node.body, rest),
                lambda: self.finish(node.orelse, rest),
            )
            return
        live_after = self.frame.analysis.after[node]
        names = [name for name in self.frame.analysis.assigned(node) if name in live_after]
        self.emit_if(condition, lambda: self.run(node.body), lambda: self.run(node.orelse), names)

    def finish(self, statements: list[ast.stmt], rest: list[ast.stmt] | None) -> None:
        """Compile `statements`, then `rest`, unless the path stops before; None: not ours to run."""
        if rest is None:
            self.run(statements)
            return
        self.spend(len(rest))
        self.run([*statements, *rest])
        self.frame.stopped = True

    def tail_if(
        self, condition: SSAValue, then: Callable[[], None], otherwise: Callable[[], None]
    ) -> None:
        """A conditional whose branches run to the end of the function or of the loop body."""
        loop = self.frame.loop
        names: Iterable[str] = () if loop is None else [*sorted(loop), BREAK, RETURNED]
        self.emit_if(condition, then, otherwise, [*names, RESULT])
        self.frame.stopped = True

    def emit_if(
        self,
        condition: SSAValue,
        then: Callable[[], Any],
        otherwise: Callable[[], Any],
        names: Iterable[str],
    ) -> None:
        """`scf.if condition` with `then` and `otherwise` compiled into its regions.

        Both start from the present environment. Afterwards each of `names` holds the joined value.
        """
        blocks = [Block(), Block()]
        joined = self.branches((then, otherwise), blocks, names)
        results = iter(self._close_if(condition, blocks, list(joined.values())))
        self.bind_joined(joined, lambda value: rebuild(self, value.template, results))

    def branches(
        self, branches: Sequence[Callable[[], Any]], blocks: list[Block], names: Iterable[str]
    ) -> dict[str, Any]:
        """Compile two branches into `blocks`, both from the present environment; returns the joined values of those
        `names` that they change."""
        frame = self.frame
        before, node, ends = frame.env, frame.node, []
        for branch, block in zip(branches, blocks, strict=True):
            frame.env, frame.stopped, frame.node = dict(before), False, node
            with self.builder.block(block):
                branch()
            ends.append(frame.env)
        frame.env, frame.stopped, frame.node = dict(before), False, node
        changed = [name for name in names if not _both_unchanged(name, ends, before)]
        return {name: self._join(name, ends, blocks) for name in changed}

    def bind_joined(self, joined: dict[str, Any], chosen: Callable[[Joined], Any]) -> None:
        """Bind names to their joined values; `chosen` makes one value of those of both branches."""
        for name, value in joined.items():
            if value is _MISSING:
                self.frame.env.pop(name, None)
            else:
                self.frame.env[name] = chosen(value) if isinstance(value, Joined) else value

    def _join(self, name: str, ends: list[dict[str, Any]], blocks: list[Block]) -> Any:
        """The joined value of `name`: a compile-time value, an `Undefined`, or a `Joined`."""
        a, b = (end.get(name, _MISSING) for end in ends)
        if a is _MISSING and b is _MISSING:
            return _MISSING
        if name in (BREAK, RETURNED):
            a, b = (False if v is _MISSING else v for v in (a, b))
        elif name == RESULT:
            a, b = self._fill_result(a, b, blocks)
        for value, other in ((a, b), (b, a)):
            if isinstance(value, Undefined):
                if value is not _MISSING:
                    return value
                line = self.frame.location().line
                which = "when" if other is a else "unless"
                return Undefined(
                    f"'{name}' has a value only {which} the condition in line {line} holds",
                    "give it a value before the `if` or in both branches",
                )
        if same_value(a, b):
            return a
        what = f"Mismatched type for {name}"
        if name.startswith(_VALUE):
            what = _MIXED_EXPRESSION
        elif name == RESULT:
            what = "Inconsistent return types"
        return join_types(self, what, (a, b), blocks, _PLACES)

    def _fill_result(self, a: Any, b: Any, blocks: list[Block]) -> tuple[Any, Any]:
        """A path that does not return has no result; inside a loop any value serves there."""
        if self.frame.loop is None:
            return (None if a is _MISSING else a), (None if b is _MISSING else b)
        if a is _MISSING:
            with self.builder.block(blocks[0]):
                a = filler(self, b)
        if b is _MISSING:
            with self.builder.block(blocks[1]):
                b = filler(self, a)
        return a, b

    def _close_if(
        self, condition: SSAValue, blocks: list[Block], joined: list[Any]
    ) -> list[SSAValue]:
        values = [j for j in joined if isinstance(j, Joined)]
        types = [ir_type(kind) for j in values for kind in j.types]
        regions = []
        for i, block in enumerate(blocks):
            if i == 1 and not types and block.first_op is None:
                regions.append(Region())
                continue
            with self.builder.block(block):
                self.builder.op("scf.yield", [v for j in values for v in j.handles[i]])
            regions.append(Region(block))
        op = scf.IfOp.create(operands=[condition], result_types=types, regions=regions)
        self.builder.insert(op)
        return list(op.results)

    def choose(self, node: ast.IfExp) -> Any:
        """A conditional expression: the live side only when the condition is known, else `scf.if`."""
        condition = self.condition(node.test, "a conditional expression")
        if isinstance(condition, bool):
            return self.visit(node.body if condition else node.orelse)
        scalar = not isinstance(condition.type, TensorType)
        if scalar and not (has_call(node.body) or has_call(node.orelse)):
            return self._select(condition, self.visit(node.body), self.visit(node.orelse))
        return self.short_circuit(
            condition, lambda: self.visit(node.body), lambda: self.visit(node.orelse)
        )

    def _select(self, condition: SSAValue, a: Any, b: Any) -> Any:
        """One of two values that are there anyway: `tile.select` for scalars, else `scf.if`."""
        if same_value(a, b):
            return a
        block = self.builder.current
        joined = join_types(self, _MIXED_EXPRESSION, (a, b), (block, block), _PLACES)
        if any(kind.is_block() for kind in joined.types):
            return self.short_circuit(condition, lambda: a, lambda: b)
        picked = [
            self.builder.op("tile.select", [condition, x, y], kind)
            for x, y, kind in zip(*joined.handles, joined.types, strict=True)
        ]
        return rebuild(self, joined.template, iter(picked))

    def short_circuit(
        self, condition: SSAValue, then: Callable[[], Any], otherwise: Callable[[], Any]
    ) -> Any:
        """The value of whichever of two expressions `condition` selects; the other does not run."""
        name = f"{_VALUE}{id(self.frame.node)}"

        def into(make: Callable[[], Any]) -> Callable[[], None]:
            def branch() -> None:
                self.frame.env[name] = make()

            return branch

        self.emit_if(condition, into(then), into(otherwise), [name])
        return self.frame.env.pop(name)

    def spend(self, statements: int) -> None:
        """Count statements compiled again for early exits; stop before that grows out of hand."""
        self.copied += statements
        if self.copied > 2000:
            raise KernelTypeError(
                "too many early exits under runtime conditions that may also fall through",
                help="make the conditional branches end in `return`, `break` or `continue`",
            )


def _both_unchanged(name: str, ends: list[dict[str, Any]], before: dict[str, Any]) -> bool:
    old = before.get(name, _MISSING)
    return old is not _MISSING and all(end.get(name) is old for end in ends)
