"""`for` and `while`: unrolled over compile-time items, else `scf.for` and `scf.while`.

A loop carries the names that its body assigns and that the next iteration or the code after the
loop may read. `break`, and `return` inside a loop, become a carried flag in an `scf.while`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tilewright import dtypes
from tilewright.errors import CompilationError, KernelTypeError, UnsupportedSyntax
from tilewright.frontend.carried import (
    Carried,
    Kept,
    hint_attributes,
    kind_text,
    last_assignment,
    needed_change,
    tensor_triples,
    tl_name,
)
from tilewright.frontend.frame import BREAK, RESULT, RETURNED, Undefined, index_name
from tilewright.frontend.lanes import Lanes
from tilewright.frontend.values import (
    NUMBERS,
    Leaf,
    constant,
    like,
    map_tensors,
    number_fits,
    same_value,
    widened,
)
from tilewright.ir.text import name_value
from tilewright.ir.types import ir_type
from tilewright.language.liveness import exits_loop_or_function, has_break
from tilewright.semantics.promotion import literal_type
from tilewright.semantics.values import TensorValue, counter_type, type_text


@dataclass
class RangeValue:
    """`range(...)` or `tl.range(...)` with runtime bounds, and the hints given with it."""

    start: Any
    stop: Any
    step: Any
    hints: dict[str, Any] = field(default_factory=dict)

    @property
    def bounds(self) -> tuple[Any, Any, Any]:
        return self.start, self.stop, self.step


class _Restart(Exception):
    """The loop must be compiled again with other initial values.

    `changes` maps names to templates: a `Leaf` if a value must have that type, None if it
    may stay, or tuples of these.
    """

    def __init__(self, changes: dict[str, Any]) -> None:
        self.changes = changes


def discard(block: Block, last: Operation | None = None) -> None:
    """Erase what is in a block behind `last` and not used after all, so that outer values lose their uses in it."""
    while (op := block.last_op) is not last and op is not None:
        op.detach()
        op.erase(safe_erase=False)


class Loops(Lanes):
    """Loop statements."""

    breaking_range: Callable[..., None]
    """Defined by `WhileLoops`."""

    def widening(self, compile_loop: Callable[[], None]) -> None:
        """Compile a loop; again, with other types for carried values that turn out to need them."""
        frame, block = self.frame, self.builder.current
        env, loop, node, last = frame.env, frame.loop, frame.node, block.last_op
        while True:
            frame.env = dict(env)
            try:
                return compile_loop()
            except _Restart as found:
                discard(block, last)
                frame.loop, frame.node, frame.stopped = loop, node, False
                for name, template in found.changes.items():
                    env[name] = self._changed(env[name], template)
                last = block.last_op

    def _changed(self, value: Any, template: Any) -> Any:
        """`value` with the types that a `_Restart` asks for."""
        if isinstance(template, Leaf):
            if isinstance(value, TensorValue):
                return self.semantics.convert(value, template.type.scalar)
            return constant(self, value, template.type)
        if isinstance(template, tuple):
            return like(value, [self._changed(v, t) for v, t in zip(value, template, strict=True)])
        return value

    def visit_for(self, node: ast.For, rest: list[ast.stmt]) -> None:
        items = self.loop_items(node.iter)
        if isinstance(items, RangeValue):
            self._range_loop(node, items, rest)
        else:
            self._unrolled(node, list(items), rest)

    # ---- unrolled ------------------------------------------------------------------------------

    def _unrolled(self, node: ast.For, items: list[Any], rest: list[ast.stmt]) -> None:
        frame = self.frame
        analysis = frame.analysis
        live = analysis.head[node] | analysis.after[node]
        outer = frame.loop
        returns = exits_loop_or_function([node], in_loop=False)

        def iterate(start: int) -> None:
            for i in range(start, len(items)):
                self.assign(node.target, items[i])
                self.run(node.body)
                frame.stopped = False
                broken = frame.env.get(BREAK, False)
                if isinstance(broken, TensorValue):
                    names = [*sorted(live), BREAK, RETURNED, RESULT]
                    self.emit_if(broken.handle, lambda: None, lambda i=i: iterate(i + 1), names)
                    return
                if broken:
                    return

        saved = {name: frame.env.pop(name, None) for name in (BREAK, RETURNED)}
        frame.loop = live
        iterate(0)
        frame.loop = outer
        self.after_loop(rest if returns else None, saved)

    def after_loop(self, rest: list[ast.stmt] | None, saved: dict[str, Any]) -> None:
        """Leave the loop: forget its flags, and go on with `rest` where it may have returned."""
        frame = self.frame
        returned = frame.env.pop(RETURNED, False)
        frame.env.pop(BREAK, None)
        frame.env.update({k: v for k, v in saved.items() if v is not None})
        if rest is None:
            return

        def leave() -> None:
            if frame.loop is not None:
                frame.env[BREAK] = frame.env[RETURNED] = True
            frame.stopped = True

        def go_on() -> None:
            frame.env.pop(RESULT, None)
            self.finish([], rest)

        if isinstance(returned, TensorValue):
            self.tail_if(returned.handle, leave, go_on)
        elif returned:
            leave()

    # ---- runtime loops ---------------------------------------------------------------------------

    def carried(self, node: ast.For | ast.While, flags: list[str]) -> list[Carried]:
        frame = self.frame
        head = frame.analysis.head[node]
        targets = ()
        if isinstance(node, ast.For):
            targets = tuple(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
        found = []
        for name in frame.analysis.assigned(node):
            if name not in head or name in targets or name not in frame.env:
                continue
            value = frame.env[name]
            if not isinstance(value, Undefined):
                found.append(Carried(name, value, self._promoted(value)))
        found.extend(Carried(flag, False, self._promoted(False)) for flag in flags)
        return found

    def _promoted(self, value: Any) -> Any:
        """A number as a runtime constant; other compile-time values and those in tuples stay."""
        if isinstance(value, NUMBERS):
            value = constant(self, value, literal_type(value))
        return self.lifted(value) if self.lane_shape else value

    def enter(self, carried: list[Carried], block: Block) -> None:
        """Add one block argument per carried tensor and bind the names to them."""

        def argument(value: TensorValue) -> TensorValue:
            handle = block.insert_arg(ir_type(value.type), len(block.args))
            return self.tensor(handle, value.type)

        for c in carried:
            c.inside = map_tensors(argument, c.initial)
            self._name(c.name, c.inside)
            self.frame.env[c.name] = c.inside

    def _name(self, name: str, value: Any) -> None:
        """Let the IR show a tensor under the name it has in the kernel."""
        if isinstance(value, TensorValue):
            name_value(value.handle, name)

    def leave(self, carried: list[Carried], *blocks: Block) -> list[tuple[Carried, Any]]:
        """The value of each name at the end of the body, converted to the type of its block argument."""
        ends, node = [], cast(ast.stmt, self.frame.node)
        changes: dict[str, Any] = {}
        for c in carried:
            self.frame.node = last_assignment(node, c.name)
            value = self.frame.env.get(c.name)
            change = needed_change(c.inside, value)
            if change is not None:
                changes[c.name] = change
            elif not changes:
                ends.append((c, self.fit(c, c.inside, value)))
        self.frame.node = node
        if changes:
            for block in blocks:
                discard(block)
            raise _Restart(changes)
        return ends

    def fit(self, c: Carried, inside: Any, value: Any) -> Any:
        if same_value(inside, value):
            return value
        if isinstance(value, Undefined):
            value.raise_()
        if isinstance(inside, TensorValue):
            if isinstance(value, NUMBERS):
                if same_value(value, c.before):
                    return value
                fits = number_fits(value, inside.type)
                value = constant(self, value, inside.type if fits else literal_type(value))
            if isinstance(value, TensorValue):
                if value.type == inside.type:
                    return value
                if widened(value.type, inside.type) == inside.type:
                    return self.semantics.convert(value, inside.type.scalar)
        elif (
            isinstance(inside, tuple | list)
            and isinstance(value, type(inside))
            and len(inside) == len(value)
        ):
            pairs = zip(inside, value, strict=True)
            return like(inside, [self.fit(c, a, b) for a, b in pairs])
        raise self._unstable(c, inside, value)

    def _unstable(self, c: Carried, inside: Any, value: Any) -> CompilationError:
        help = ""
        if isinstance(inside, TensorValue) and isinstance(value, TensorValue):
            old, new = inside.type, value.type
            if isinstance(c.before, NUMBERS) and not new.is_block():
                if new.is_floating():
                    help = f"start with a float: `{c.name} = {float(c.before)}`"
                else:
                    help = f"start with `{c.name} = tl.full((), {c.before}, {tl_name(new)})`"
            elif new.is_block() and not old.is_block():
                shape = ", ".join(map(str, new.shape))
                help = (
                    f"start with a tile: `{c.name} = tl.zeros(({shape},), {tl_name(new.scalar)})`"
                )
            elif old.scalar != new.scalar:
                help = (
                    f"keep one dtype: start with {tl_name(new.scalar)}, or end the iteration "
                    f"with `{c.name} = {c.name}.to({tl_name(old.scalar)})`"
                )
            else:
                help = "the shape must stay the same from one iteration to the next"
        elif not isinstance(inside, TensorValue | tuple | list):
            help = f"give '{c.name}' its first value as a number or tensor before the loop"
        return KernelTypeError(
            f"Loop-carried variable {c.name} has initial type {kind_text(inside)} but is re-assigned to "
            f"{kind_text(value)} in the loop; its type must stay the same",
            help=help,
        )

    def forget_inner(self, node: ast.For | ast.While, before: dict[str, Any]) -> None:
        """After a runtime loop, names first set inside it have no value."""
        frame = self.frame
        line = frame.location(node).line
        env = dict(before)
        for name in frame.analysis.assigned(node):
            if name not in before or isinstance(before[name], Undefined):
                env[name] = Undefined(
                    f"'{name}' is first set inside the loop in line {line} and used after it; "
                    "the loop may run zero times",
                    f"give '{name}' a value of the same type before the loop",
                )
        frame.env = env

    def _range_loop(self, node: ast.For, items: RangeValue, rest: list[ast.stmt]) -> None:
        if not isinstance(node.target, ast.Name):
            raise UnsupportedSyntax(
                "a range loop has one index name", help="use `for i in range(...)`"
            )
        bounds, kind = self._bounds(items)
        if has_break(node.body):
            self.breaking_range(node, items, bounds, kind, rest)
            return
        frame, before, outer = self.frame, self.frame.env, self.frame.loop
        frame.env = dict(before)
        carried = self.carried(node, []) + self.carried_index(node, bounds, kind)
        block = Block(arg_types=[ir_type(kind)])
        name_value(block.args[0], node.target.id)
        self.enter(carried, block)
        with self.builder.block(block):
            self.body(node, lambda: self._bind(node, self.tensor(block.args[0], kind)))
            ends = self.leave(carried, block)
            kept = self._prune(ends, block)
            self.builder.op("scf.yield", [end for _, _, end in kept])
        frame.loop = outer
        if kept and items.hints.get("parallel_iterations"):
            names = ", ".join(f"'{c.name}'" for c, _ in ends)
            raise KernelTypeError(
                f"parallel_iterations: an iteration depends on {names} of the one before",
                help="drop the promise, or begin with a new value in each iteration",
            )
        op = scf.ForOp.create(
            operands=[*bounds, *(initial.handle for initial, _, _ in kept)],
            result_types=[initial.handle.type for initial, _, _ in kept],
            regions=[Region(block)],
            attributes=hint_attributes(items.hints),
        )
        self.builder.insert(op)
        self.forget_inner(node, before)
        self.bind_results(ends, kept, list(op.results))

    def carried_index(
        self, node: ast.For, bounds: list[SSAValue], kind: dtypes.dtype
    ) -> list[Carried]:
        """The index, where it is read after its loop: it then has the value of the last iteration.

        After no iteration it has the value of before; one step before the start if there was none, where
        Python would fail.
        """
        name = index_name(node)
        if name not in self.frame.analysis.after[node]:
            return []
        before = self.frame.env.get(name)
        if isinstance(before, Undefined):
            before = None
        initial = before
        if before is None:
            start, _, step = bounds
            initial = self.tensor(self.builder.op("arith.subi", [start, step], kind), kind)
        elif isinstance(before, NUMBERS) and number_fits(before, kind):
            initial = constant(self, before, kind)
        elif isinstance(before, TensorValue) and before.type != kind and not before.shape:
            initial = self.semantics.convert(before, kind) if before.dtype.is_int() else before
        if not isinstance(initial, TensorValue) or initial.type != kind:
            raise KernelTypeError(
                f"loop index '{name}' is read after its loop, and is {kind_text(before)} before it but"
                f" {type_text(kind)} in it; the loop may make no iteration",
                help=f"give the index another name than '{name}'",
            )
        return [Carried(name, None, initial)]

    def _bounds(self, items: RangeValue) -> tuple[list[SSAValue], dtypes.dtype]:
        """Handles of start, stop and step in one integer type, and that type."""
        values = items.bounds
        by_element = "its trip count would differ by element: use `while`"
        kind = counter_type(values, by_element if self.lane_shape else "")
        if not isinstance(items.step, TensorValue) and items.step == 0:
            raise KernelTypeError("the step of a range must not be zero")
        handles = []
        for value in values:
            if isinstance(value, TensorValue):
                handles.append(self.semantics.convert(value, kind).handle)
            else:
                handles.append(self.builder.constant(int(value), kind))
        return handles, kind

    def _bind(self, node: ast.For, value: Any) -> None:
        self.frame.env[index_name(node)] = value

    def body(self, node: ast.For | ast.While, prepare: Callable[[], None]) -> None:
        frame = self.frame
        frame.loop = frame.analysis.head[node] | frame.analysis.after[node]
        prepare()
        self.run(node.body)
        frame.stopped = False
        frame.node = node

    def _prune(self, ends: list[tuple[Carried, Any]], block: Block) -> list[Kept]:
        """Drop carried tensors that no iteration changes; return the rest."""
        kept: list[Kept] = []
        replaced: dict[SSAValue, SSAValue] = {}
        for c, value in ends:
            for initial, inside, end in tensor_triples(c.initial, c.inside, value):
                if isinstance(end, TensorValue) and end.handle is not inside.handle:
                    kept.append((initial, inside, end.handle))
                else:
                    replaced[inside.handle] = initial.handle
        for argument, initial in replaced.items():
            argument.replace_all_uses_with(initial)
            block.erase_arg(cast(BlockArgument, argument))
        return [(a, b, replaced.get(end, end)) for a, b, end in kept]

    def bind_results(
        self, ends: list[tuple[Carried, Any]], kept: list[Kept], results: Sequence[SSAValue]
    ) -> None:
        by_inside = {id(inside): r for (_, inside, _), r in zip(kept, results, strict=True)}
        for c, _ in ends:
            value = self._after(c.before, c.initial, c.inside, by_inside)
            if value is not c.before:
                self._name(c.name, value)
            self.frame.env[c.name] = value

    def _after(self, before: Any, initial: Any, inside: Any, results: dict[int, SSAValue]) -> Any:
        """The value after the loop: the loop's result if it changes, else the value before the loop."""
        if isinstance(inside, TensorValue):
            found = results.get(id(inside))
            return before if found is None else self.tensor(found, inside.type)
        if isinstance(inside, tuple | list):
            triples = zip(before, initial, inside, strict=True)
            return like(inside, [self._after(*triple, results) for triple in triples])
        return before
