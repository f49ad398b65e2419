"""`while`, and `for` with `break` or `return`, as `scf.while`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Region, SSAValue

from tilewright import dtypes
from tilewright.errors import CompilationError, UnsupportedSyntax
from tilewright.frontend.carried import Carried, tensor_triples
from tilewright.frontend.frame import BREAK, RESULT, RETURNED, index_name
from tilewright.frontend.loops import Loops, RangeValue
from tilewright.frontend.values import filler, leaves
from tilewright.ir.types import ir_type
from tilewright.language.liveness import exits_loop_or_function, has_break
from tilewright.semantics.values import TensorValue


class WhileLoops(Loops):
    """Loops with a dynamic trip count."""

    def visit_while(self, node: ast.While, rest: list[ast.stmt]) -> None:
        if self.lane_shape:
            if has_break(node.body):
                self.reject_exit()
            self._refuse_walrus(node, self.frame.env)
            self.widening(
                lambda: self.lanes_while(
                    node, lambda: self.visit(node.test), lambda env: self.forget_inner(node, env)
                )
            )
            return
        self.widening(
            lambda: self._while(
                node,
                [],
                lambda: self.condition(node.test, "`while`"),
                lambda: None,
                lambda: None,
                rest,
            )
        )

    def breaking_range(
        self,
        node: ast.For,
        items: RangeValue,
        bounds: list[SSAValue],
        kind: dtypes.dtype,
        rest: list[ast.stmt],
    ) -> None:
        """A range loop that may end early: the index is carried, the bounds are tested."""
        self.reject_exit()
        start, stop, step = bounds
        builder = self.builder
        hidden = f"$index{node.lineno}:{node.col_offset}"
        first = self.tensor(start, kind)
        upward = None
        if isinstance(items.step, TensorValue):
            zero = builder.constant(0, kind)
            upward = builder.op("tile.cmpi", [step, zero], dtypes.int1, predicate="sgt")

        def compare(predicate: str) -> SSAValue:
            index = self.frame.env[hidden].handle
            return builder.op("tile.cmpi", [index, stop], dtypes.int1, predicate=predicate)

        def test() -> SSAValue:
            if upward is None:
                return compare("slt" if items.step > 0 else "sgt")
            sides = [compare("slt"), compare("sgt")]
            return builder.op("tile.select", [upward, *sides], dtypes.int1)

        def prepare() -> None:
            self.frame.env[index_name(node)] = self.frame.env[hidden]

        def advance() -> None:
            index = self.frame.env[hidden].handle
            self.frame.env[hidden] = self.tensor(
                builder.op("arith.addi", [index, step], kind), kind
            )

        extra = [Carried(hidden, first, first), *self.carried_index(node, bounds, kind)]
        self._while(node, extra, test, prepare, advance, rest)
        self.frame.env.pop(hidden, None)

    def _while(
        self,
        node: ast.For | ast.While,
        extra: list[Carried],
        test: Callable[[], bool | SSAValue],
        prepare: Callable[[], None],
        advance: Callable[[], None],
        rest: list[ast.stmt],
    ) -> None:
        frame, outer = self.frame, self.frame.loop
        outer_env = frame.env
        breaks = has_break(node.body)
        returns = exits_loop_or_function([node], in_loop=False)
        saved = {name: outer_env.get(name) for name in (BREAK, RETURNED)}
        frame.env = {k: v for k, v in outer_env.items() if k not in saved}
        before = dict(frame.env)
        flags = [BREAK] * breaks + [RETURNED] * returns
        carried = extra + self.carried(node, flags)

        head, body = Block(), Block()
        self.enter(carried, head)
        with self.builder.block(head):
            condition = self._guarded(test, breaks)
            at_head = [(c, self.fit(c, c.inside, frame.env.get(c.name))) for c in carried]
            self._refuse_walrus(node, before)
        if isinstance(condition, bool) and not condition:
            frame.env, frame.loop = outer_env, outer
            self._only_test(head, at_head)
            return
        if isinstance(condition, bool):
            if not breaks:
                raise CompilationError(
                    "this loop never ends: its condition is always true and it has no `break`"
                )
            with self.builder.block(head):
                condition = self.builder.constant(1, dtypes.int1)
        self.enter(carried, body)
        with self.builder.block(body):
            frame.env.update(dict.fromkeys(flags, False))  # an iteration that runs has not ended
            self.body(node, prepare)
            advance()
            ends = self.leave(carried, head, body)
        self._emit_while(node, head, body, condition, at_head, ends, before)
        frame.loop = outer
        self.after_loop(rest if returns else None, saved)

    def _only_test(self, head: Block, at_head: list[tuple[Carried, Any]]) -> None:
        """The condition is false on entry: emit the evaluation of the condition only, without a loop."""
        initial = [v.handle for c, _ in at_head for v in leaves(c.initial)]
        replaced: dict[SSAValue, SSAValue] = dict(zip(head.args, initial, strict=True))
        for argument, value in replaced.items():
            argument.replace_all_uses_with(value)
        for op in list(head.ops):
            op.detach()
            self.builder.current.add_op(op)
        for c, tested in at_head:
            handles: list[SSAValue] = [v.handle for v in leaves(tested)]
            if any(handle not in replaced for handle in handles):
                fresh = iter([replaced.get(h, h) for h in handles])
                self.frame.env[c.name] = self.with_handles(tested, fresh)

    def _guarded(self, test: Callable[[], bool | SSAValue], breaks: bool) -> bool | SSAValue:
        """The loop's condition: not broken out of, and the test, which a `break` skips."""
        broken = self.frame.env.get(BREAK)
        if not breaks or not isinstance(broken, TensorValue):
            return test()

        def value() -> Any:
            found = test()
            return found if isinstance(found, bool) else self.tensor(found, dtypes.int1)

        joined = self.short_circuit(broken.handle, lambda: False, value)
        return joined.handle if isinstance(joined, TensorValue) else joined

    def _refuse_walrus(self, node: ast.For | ast.While, before: dict[str, Any]) -> None:
        if not isinstance(node, ast.While):
            return
        for n in ast.walk(node.test):
            if isinstance(n, ast.NamedExpr) and n.target.id not in before:
                raise UnsupportedSyntax(
                    f"'{n.target.id}' is first set in the condition of a `while`",
                    help=f"give '{n.target.id}' a value before the loop",
                )

    def _emit_while(
        self,
        node: ast.For | ast.While,
        head: Block,
        body: Block,
        condition: SSAValue,
        at_head: list[tuple[Carried, Any]],
        ends: list[tuple[Carried, Any]],
        before: dict[str, Any],
    ) -> None:
        """Close both regions, drop values that neither changes, and bind the results."""
        states: list[tuple[TensorValue, TensorValue, SSAValue, SSAValue]] = []
        replaced: dict[SSAValue, SSAValue] = {}
        position = 0
        for (c, tested), (_, end) in zip(at_head, ends, strict=True):
            pairs = zip(
                tensor_triples(c.initial, c.inside, tested),
                tensor_triples(c.initial, c.inside, end),
                strict=True,
            )
            for (initial, inside, at_test), (_, _, at_end) in pairs:
                arguments = head.args[position], body.args[position]
                position += 1
                at_head_same = _handle(at_test, arguments[0]) is arguments[0]
                if at_head_same and _handle(at_end, arguments[1]) is arguments[1]:
                    replaced |= dict.fromkeys(arguments, initial.handle)
                else:
                    tested_handle = _handle(at_test, arguments[0])
                    states.append((initial, inside, tested_handle, _handle(at_end, arguments[1])))
        for argument, value in replaced.items():
            argument.replace_all_uses_with(value)
            inside = cast(BlockArgument, argument)
            inside.block.erase_arg(inside)
        result = self._carry_result(head, body, states)
        with self.builder.block(head):
            tested = [replaced.get(h, h) for _, _, h, _ in states]
            self.builder.op("scf.condition", [condition, *tested])
        with self.builder.block(body):
            self.builder.op("scf.yield", [replaced.get(h, h) for *_, h in states])
        op = scf.WhileOp.create(
            operands=[initial.handle for initial, *_ in states],
            result_types=[initial.handle.type for initial, *_ in states],
            regions=[Region(head), Region(body)],
        )
        self.builder.insert(op)
        self.forget_inner(node, before)
        results = list(op.results)
        if result is not None:
            count = sum(1 for _ in leaves(result))
            fresh = iter(results[len(results) - count :])
            self.frame.env[RESULT] = self.with_handles(result, fresh)
            results = results[: len(results) - count]
        self.bind_results(ends, [(a, b, h) for a, b, _, h in states[: len(results)]], results)

    def _carry_result(
        self,
        head: Block,
        body: Block,
        states: list[tuple[TensorValue, TensorValue, SSAValue, SSAValue]],
    ) -> Any:
        """Carry the value of a `return` in the body out of the loop; return it, or None."""
        if RESULT not in self.frame.env:
            return None
        result = self.frame.env[RESULT]
        for value in leaves(result):
            initial = filler(self, value)
            argument = head.insert_arg(ir_type(value.type), len(head.args))
            body.insert_arg(ir_type(value.type), len(body.args))
            states.append((initial, value, argument, value.handle))
        return result


def _handle(value: Any, default: SSAValue) -> SSAValue:
    return value.handle if isinstance(value, TensorValue) else default
