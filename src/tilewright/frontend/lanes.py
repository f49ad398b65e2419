"""Vectorize scalar functions over tiles (`tl.map_elementwise`).

The function's body is compiled once, with tiles in place of its scalars. A condition is then a mask:
both branches are computed and each lane selects its result; a `while` runs until no lane is active. This
is sound because such a function is pure: memory accesses and cross-lane operations are rejected.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from tilewright import dtypes
from tilewright.errors import UnsupportedSyntax
from tilewright.frontend.carried import Carried, tensor_triples
from tilewright.frontend.control_flow import ControlFlow
from tilewright.frontend.values import Joined, Leaf, like, map_tensors, rebuild, same_value
from tilewright.semantics.values import TensorValue


class Lanes(ControlFlow):
    """Control flow under conditions that differ from lane to lane."""

    lane_shape: tuple[int, ...] = ()
    """Extents of the tiles that stand for scalars; () outside such a function."""
    # methods of `Loops`
    carried: Callable[[ast.For | ast.While, list[str]], list[Carried]]
    leave: Callable[..., list[tuple[Carried, Any]]]
    enter: Callable[[list[Carried], Block], None]

    def call_on_lanes(
        self, function: Any, args: Sequence[Any], shape: tuple[int, ...]
    ) -> tuple[Any, ...]:
        """Apply the scalar `function` to each lane of `args`, tiles of `shape`."""
        outer = self.lane_shape, self.builder.lanewise
        self.lane_shape, self.builder.lanewise = shape, True
        found = self.call(function, list(args), {}, self.frame.node)
        results = found if isinstance(found, tuple) else (found,)
        lifted = [self.lifted(self.semantics.to_tensor(value)) for value in results]
        self.lane_shape, self.builder.lanewise = outer
        return tuple(lifted) if isinstance(found, tuple) else (lifted[0],)

    def lifted(self, value: Any) -> Any:
        """A scalar as a tile, where tiles stand for scalars; tuples item by item."""
        splat, shape = self.semantics.splat, self.lane_shape
        return map_tensors(lambda x: x if x.shape else splat(x, shape), value)

    # ---- conditionals ----------------------------------------------------------------------------

    def emit_if(
        self,
        condition: SSAValue,
        then: Callable[[], Any],
        otherwise: Callable[[], Any],
        names: Iterable[str],
    ) -> None:
        """With a condition per lane, compute both branches, one after the other; each of `names` is chosen
        element-wise."""
        if not isinstance(condition.type, TensorType):
            super().emit_if(condition, then, otherwise, names)
            return
        block = self.builder.current
        joined = self.branches((then, otherwise), [block, block], names)
        self.bind_joined(joined, lambda value: self._chosen(condition, value))

    def _chosen(self, condition: SSAValue, joined: Joined) -> Any:
        picked = []
        for kind, a, b in zip(joined.types, *joined.handles, strict=True):
            x, y = (self.lifted(self.tensor(handle, kind)) for handle in (a, b))
            picked.append(self.builder.op("tile.select", [condition, x.handle, y.handle], x.type))
        return rebuild(self, self._tiles(joined.template), iter(picked))

    def _tiles(self, template: Any) -> Any:
        """The template with the types of tiles."""
        if isinstance(template, Leaf):
            return Leaf(template.type.scalar.with_shape(self.lane_shape))
        if isinstance(template, tuple | list):
            return like(template, [self._tiles(item) for item in template])
        return template

    def _join(self, name: str, ends: list[dict[str, Any]], blocks: list[Block]) -> Any:
        if self.lane_shape and not same_value(*(end.get(name) for end in ends)):
            for end, block in zip(ends, blocks, strict=True):
                if name in end:
                    with self.builder.block(block):
                        end[name] = self.lifted(end[name])
        return super()._join(name, ends, blocks)

    # ---- loops -----------------------------------------------------------------------------------

    def lanes_while(
        self, node: ast.While, test: Callable[[], Any], forget: Callable[[dict[str, Any]], None]
    ) -> None:
        """A `while` whose condition may differ by lane: runs while any lane is active; others keep their values."""
        frame, before = self.frame, self.frame.env
        frame.env = dict(before)
        truths = dtypes.int1.with_shape(self.lane_shape)
        active = self.semantics.filled(True, truths)
        going = Carried("$active", active, active)
        carried = [*self.carried(node, []), going]
        head, body = Block(), Block()
        self.enter(carried, head)
        with self.builder.block(head):
            held = self.lifted(self.semantics.truth(test()))
            going_on = self.semantics.binary("&", frame.env["$active"], held)
            frame.env["$active"] = going_on
            condition = self._any(going_on)
            tested = [h.handle for c in carried for h in self._leaves(c, frame.env[c.name])]
            self.builder.op("scf.condition", [condition, *tested])
        self.enter(carried, body)
        with self.builder.block(body):
            lanes = frame.env["$active"].handle
            self.run(node.body)
            frame.stopped, frame.node = False, node
            ends = self.leave(carried, head, body)
            handles = []
            for c, end in ends:
                for _, inside, new in tensor_triples(c.initial, c.inside, end):
                    new = new if isinstance(new, TensorValue) else inside
                    handles.append(
                        self.builder.op(
                            "tile.select", [lanes, new.handle, inside.handle], inside.type
                        )
                    )
            self.builder.op("scf.yield", handles)
        initial = [h.handle for c in carried for h in self._leaves(c, c.initial)]
        op = scf.WhileOp.create(
            operands=initial,
            result_types=[handle.type for handle in initial],
            regions=[Region(head), Region(body)],
        )
        self.builder.insert(op)
        forget(before)
        results = iter(op.results)
        for c in carried:
            frame.env[c.name] = self.with_handles(c.inside, results)
        frame.env.pop("$active")

    def _leaves(self, c: Carried, value: Any) -> list[TensorValue]:
        return [
            new if isinstance(new, TensorValue) else inside
            for _, inside, new in tensor_triples(c.initial, c.initial, value)
        ]

    def _any(self, lanes: TensorValue) -> SSAValue:
        """Whether any lane is true, a scalar."""
        outer, self.builder.lanewise = self.builder.lanewise, False
        count = self.semantics.max(self.semantics.convert(lanes, dtypes.int32))
        self.builder.lanewise = outer
        return self.semantics.truth(count).handle

    def reject_exit(self) -> None:
        """Raise where a loop in a function of single elements would end early."""
        if self.lane_shape:
            raise UnsupportedSyntax(
                "a function of tl.map_elementwise cannot leave a loop by `break` or `return`",
                help="put the condition into the `while`, or carry a flag",
            )
