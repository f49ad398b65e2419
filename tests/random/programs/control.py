"""Statements of random programs whose control flow is nested, and carries several tiles."""

from __future__ import annotations

from tests.random.programs.writer import Value, Writer


def _two(w: Writer) -> tuple[Value, Value] | None:
    """Copies of two values of one type, to be carried."""
    a = w.pick(2048)
    if a is None:
        return None
    b = w.pick(shape=a.shape, kind=a.kind) or a
    made = [Value(w.name(), v.shape, v.kind, v.exact and v.kind == "int32") for v in (a, b)]
    exact = made[0].exact and made[1].exact
    for new, old in zip(made, (a, b), strict=True):
        w.emit(f"{new.name} = {old.name}")
        new.exact = exact
    return made[0], made[1]


def _step(w: Writer, t: Value, u: Value, counter: str, depth: int) -> None:
    """One change of the carried tiles that keeps floats small."""
    if t.kind == "int32":
        ways = (f"{t.name} = {t.name} * 3 + {u.name}", f"{u.name} = {u.name} ^ {counter}",
                f"{t.name} = tl.maximum({t.name}, {u.name} - {counter})")  # fmt: skip
    else:
        ways = (f"{t.name} = ({t.name} * 0.5 + {u.name} * 0.25).to({t.name}.dtype)",
                f"{u.name} = {u.name} * 0.5 + {counter}.to({u.name}.dtype)",
                f"{t.name} = tl.maximum({t.name}, {u.name}).to({t.name}.dtype)")  # fmt: skip
    w.emit(w.rng.choice((*ways, f"{t.name}, {u.name} = {u.name}, {t.name}")), depth)


def _count(w: Writer) -> str:
    """A bound: known, an argument, or counted from data."""
    a = w.pick_exact(256)
    if a is not None and w.rng.random() < 0.4:
        return w.let(f"tl.max(tl.ravel({a.name}) & 3, axis=0)")
    return w.rng.choice(("3", "m % 4", "pid + 1", "n % 3"))


def nested(w: Writer) -> None:
    """A loop that carries two tiles through branches, another loop, and early ends."""
    carried = _two(w)
    if carried is None:
        return
    rng, (t, u), i = w.rng, carried, w.name()
    w.emit(f"for {i} in range({_count(w)}):")
    if rng.random() < 0.3:
        w.emit(f"if {i} == {rng.choice(('1', 'm % 3'))}:", 2)
        w.emit(rng.choice(("break", "continue")), 3)
    w.emit(f"if ({i} + pid) % 2 == {rng.choice(('0', 'm % 2'))}:", 2)
    _step(w, t, u, i, 3)
    if rng.random() < 0.6:
        w.emit("else:", 2)
        _step(w, t, u, i, 3)
    if rng.random() < 0.6:
        j = w.name()
        w.emit(f"for {j} in range({rng.choice(('2', i, 'm % 3', '4, 0, -2'))}):", 2)
        _step(w, t, u, j, 3)
        _step(w, t, u, i, 3)
    _step(w, t, u, i, 2)
    w.keep(t)
    w.keep(u)


def while_loop(w: Writer) -> None:
    """Until a count is reached, or the data says so."""
    carried = _two(w)
    if carried is None:
        return
    rng, (t, u), i = w.rng, carried, w.name()
    limit = _count(w)
    w.emit(f"{i} = 0")
    if t.exact and t.kind == "int32" and rng.random() < 0.5:
        total = w.let(f"tl.sum(tl.ravel({t.name}) & 7, axis=0)")
        w.emit(f"while ({i} < 3) & ({total} % 5 != 0):")
        _step(w, t, u, i, 2)
        w.emit(f"{total} = tl.sum(tl.ravel({t.name}) & 7, axis=0)", 2)
    else:
        w.emit(f"while {i} < {limit}:")
        _step(w, t, u, i, 2)
        if rng.random() < 0.5:
            w.emit(f"if {i} * 2 > m:", 2)
            _step(w, t, u, i, 3)
    w.emit(f"{i} += 1", 2)
    w.keep(t)
    w.keep(u)


def scalars(w: Writer) -> None:
    """Scalars from data that choose and move what is loaded next."""
    a = w.pick_exact(512)
    if a is None:
        return
    rng = w.rng
    s = w.let(f"tl.{rng.choice(('sum', 'max', 'min'))}(tl.ravel({a.name}) & 15, axis=0) & 127")
    t = w.let(f"{s} % 7 if {s} > {rng.choice(('8', 'm'))} else {s} + 1")
    size = rng.choice((16, 64))
    place = f"{t} + tl.arange(0, {size}) * {rng.choice(('1', s))}"
    w.add(
        f"tl.load(k + {place}, mask=tl.arange(0, {size}) < {t} + 9, other=1)",
        (size,),
        "int32",
        True,
    )


STATEMENTS = (nested, nested, while_loop, scalars)
