"""Statements of random programs that use memory in other ways: blocks of arrays, atomics."""

from __future__ import annotations

from tests.random.programs.writer import KEPT, Writer, place


def descriptor(w: Writer) -> None:
    """A block of an array, part of it perhaps outside."""
    rng = w.rng
    array, kind = rng.choice((("x", w.float), ("y", w.float), ("k", "int32")))
    shape = (rng.choice((1, 4, 16, 32, 64)), rng.choice((16, 32, 64)))
    extents = f"[{rng.choice(('64', 'm', '29'))}, {rng.choice(('64', '60', 'n'))}]"
    name = w.let(
        f"tl.make_tensor_descriptor({array} + {rng.choice((0, 64))}, {extents}, [64, 1], {list(shape)})"
    )
    offsets = f"[{rng.choice(('0', 'pid * 16', '-3', '40'))}, {rng.choice(('0', '16', 'pid * 8', '-16'))}]"
    w.add(f"{name}.load({offsets})", shape, kind, True)


def block_pointer(w: Writer) -> None:
    """A pointer to a block, perhaps moved on by a loop that adds up what it finds."""
    rng = w.rng
    array, kind = rng.choice((("x", w.float), ("k", "int32")))
    shape = (rng.choice((4, 16, 32)), rng.choice((8, 16, 64)))
    order = rng.choice(("(1, 0)", "(0, 1)"))
    strides = f"({rng.choice(('s', '64', '50'))}, 1)" if order == "(1, 0)" else "(1, 64)"
    extents = f"({rng.choice(('50', 'm', '29'))}, {rng.choice(('64', '60', 'n'))})"
    start = f"({rng.choice(('0', 'pid * 4'))}, {rng.choice(('0', '3', 'pid * 16'))})"
    name = w.let(f"tl.make_block_ptr({array}, {extents}, {strides}, {start}, {shape}, {order})")
    checks = ', boundary_check=(0, 1), padding_option="zero"'
    if rng.random() < 0.5:
        w.add(f"tl.load({name}{checks})", shape, kind, True)
        return
    total = w.let(f"tl.zeros({list(shape)}, {array}.dtype.element_ty)")
    w.emit(f"for i in range({rng.choice(('3', 'm % 4'))}):")
    w.emit(f"{total} += tl.load({name}{checks})", 2)
    w.emit(f"{name} = tl.advance({name}, {rng.choice(('(0, 8)', '(3, 0)', '(1, 5)'))})", 2)
    w.add(f"{total} + 0", shape, kind, kind == "int32")


def atomic(w: Writer) -> None:
    """Read-modify-write, each lane an element of its own: what was there before is known."""
    rng = w.rng
    a = w.pick(2048)
    if a is None:
        return
    start = w.slot(KEPT)
    if start is None:
        return
    integer = a.kind == "int32"
    fn = rng.choice(
        ("add", "max", "min", "and", "or", "xor", "xchg") if integer else ("add", "xchg")
    )
    where = f"{'w' if integer else 'z'} + {start} + pid * {a.size} + {place(a.shape)}"
    mask = f"({place(a.shape)}) < {rng.choice((a.size, a.size - 1, 'n'))}"
    sem = rng.choice(("", "", ', sem="relaxed"', ', sem="release"'))
    if rng.random() < 0.3:
        w.emit(f"tl.atomic_{fn}({where}, {a.name}{sem})")
        if rng.random() < 0.5:
            w.emit("tl.debug_barrier()")
        w.add(f"tl.load({where})", a.shape, a.kind, a.exact and (integer or fn == "xchg"))
        return
    old = w.let(f"tl.atomic_{fn}({where}, {a.name}, mask={mask}{sem})")
    w.add(f"tl.where({mask}, {old}, 0)", a.shape, a.kind, True)


def contended(w: Writer) -> None:
    """Many lanes at few elements: their sum does not depend on the order."""
    a = w.pick_exact(2048)
    start = w.slot(KEPT) if a is not None else None
    if a is None or start is None:
        return
    fn = w.rng.choice(("add", "max", "xor"))
    w.emit(f"tl.atomic_{fn}(w + {start} + pid * 64 + ({a.name} & 15), {a.name} * 3)")


def compare_and_swap(w: Writer) -> None:
    a = w.pick_exact(1024)
    start = w.slot(KEPT) if a is not None else None
    if a is None or start is None:
        return
    where = w.let(f"w + {start} + pid * {a.size} + {place(a.shape)}")
    found = w.let(f"tl.load({where})")
    wanted = w.rng.choice((found, f"tl.where({found} > 0, {found}, {a.name})", a.name))
    w.add(f"tl.atomic_cas({where}, {wanted}, {a.name})", a.shape, "int32", True)


STATEMENTS = (descriptor, descriptor, block_pointer, atomic, contended, compare_and_swap)
