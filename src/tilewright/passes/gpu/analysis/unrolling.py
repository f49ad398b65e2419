"""Unroll a loop by a factor, with a second loop over the iterations that are left."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from tilewright.passes.analysis.edit import NO_UNROLL, Mapping, replace_op
from tilewright.passes.analysis.emit import Emitter, constant_int


def unroll_by(loop: scf.ForOp, count: int) -> tuple[scf.ForOp, list[Mapping]]:
    """Replace a loop by one whose iterations are `count` of it each, and one over the rest.

    Requires: the loop counts from 0 in ones; `count` is a power of two. Returns the first loop, and for each of its
    copies of the body the copies of values.
    """
    e, kind, trips = Emitter(loop), loop.lb.type, constant_int(loop.ub)
    if trips is None:
        known = e.binary(arith.MaxSIOp, loop.ub, e.constant(0, kind))
        groups = e.binary(arith.ShRUIOp, known, e.constant(count.bit_length() - 1, kind))
        left = e.binary(arith.AndIOp, known, e.constant(count - 1, kind))
    else:
        groups, left = e.constant(trips // count, kind), e.constant(trips % count, kind)
    main, copies = _over(e, loop, groups, loop.iter_args, count)
    results: Sequence[SSAValue] = main.results
    if trips is None or trips % count:
        start = e.mul(groups, e.constant(count, kind))
        results = _over(e, loop, left, results, 1, start)[0].results
    replace_op(loop, results)
    return main, copies


def _over(
    e: Emitter,
    old: scf.ForOp,
    trips: SSAValue,
    inits: Sequence[SSAValue],
    count: int,
    start: SSAValue | None = None,
) -> tuple[scf.ForOp, list[Mapping]]:
    """A loop of `trips` iterations, each of which is `count` iterations of `old`, from iteration `start` on."""
    body = old.body.block
    attributes = {**old.attributes, NO_UNROLL: UnitAttr()}
    loop, inner = e.loop([old.lb, trips, old.step], inits, attributes, body.args)
    first, *carried = loop.body.block.args
    kind = first.type
    if count > 1:
        first = inner.mul(first, inner.constant(count, kind))
    if start is not None:
        first = inner.add(start, first)
    copies: list[Mapping] = []
    for i in range(count):
        mapping: Mapping = dict(zip(body.args[1:], carried, strict=True))
        mapping[body.args[0]] = inner.add(first, inner.constant(i, kind)) if i else first
        carried = inner.clone_body(body, mapping)
        copies.append(mapping)
    inner.anchor.operands = carried
    return loop, copies
