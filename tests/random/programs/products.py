"""Statements of random programs that multiply tiles: of what there is, and in loops over what they load."""

from __future__ import annotations

from tests.random.programs.writer import LARGEST, Value, Writer, type_name


def _squared(w: Writer, least: int, parts: int) -> Value | None:
    """The last matrix of floats with at least `least` rows, `parts` of which can be multiplied by
    their transposes without more elements than a tile may have."""
    for value in reversed(w.values):
        if len(value.shape) == 2 and value.kind != "int32":
            rows = value.shape[0]
            if rows >= least and rows * rows // parts <= LARGEST:
                return value
    return None


def dot(w: Writer) -> None:
    a = _squared(w, least=1, parts=1)
    if a is None:
        return
    other = w.pick(shape=(a.shape[1], a.shape[0]), kind=a.kind)
    right = other.name if other else f"tl.trans({a.name})"
    scale = 1.0 / (4 * a.shape[1])
    m = a.shape[0]
    made = f"tl.dot({a.name}, {right}{_precision(w, a.kind)}) * {scale}"
    w.add(f"({made}).to({a.name}.dtype)", (m, m), a.kind, False)


def _precision(w: Writer, kind: str) -> str:
    """How single precision is multiplied: mostly in a way that every target gives to full precision."""
    if kind != "float32":
        return ""
    way = w.rng.choice(("ieee", "ieee", "tf32x3", "tf32x3", "tf32"))
    return f', input_precision="{way}"'


def batched(w: Writer) -> None:
    """Products of the two halves of a tile."""
    a = _squared(w, least=2, parts=2)
    if a is None:
        return
    rows, columns = a.shape[0] // 2, a.shape[1]
    name = w.let(f"tl.reshape({a.name}, [2, {rows}, {columns}])")
    turned = f"tl.permute({name}, 0, 2, 1)"
    precision = _precision(w, a.kind)
    made = w.let(f"tl.dot({name}, {turned}{precision}) * {1.0 / (4 * columns)}")
    shape = (2 * rows, rows)
    w.add(f"tl.reshape({made}, {list(shape)}).to({a.name}.dtype)", shape, a.kind, False)


def own_accumulator(w: Writer) -> None:
    """A product of loaded tiles that is added to a value."""
    a = w.pick(kind="int32")
    if a is None or len(a.shape) != 2:
        return
    (m, n), k = a.shape, w.rng.choice((16, 32))
    left, right = _operand(w, "b", m, k, False), _operand(w, "b", k, n, True)
    w.add(f"tl.dot({left}, {right}, {a.name})", a.shape, "int32", a.exact)


def _operand(w: Writer, array: str, rows: int, columns: int, second: bool, step: str = "") -> str:
    """A load of a tile of an operand; `step` is how far it has moved along the dimension of the sums."""
    rng = w.rng
    r, c = f"tl.arange(0, {rows})[:, None]", f"tl.arange(0, {columns})[None, :]"
    along_rows = second
    if along_rows:
        r = f"({r}{step})"
    else:
        c = f"({c}{step})"
    pitch = rng.choice(("64", "64", "s", "48"))
    wide = rng.random() < 0.7
    text = f"{r} * {pitch} + {c}" if wide else f"{r} + {c} * {pitch}"
    if rng.random() < 0.2 and not along_rows:
        text = f"({r} % 13) * {pitch} + {c}"
    limit = rng.choice(
        ("", "", f"{r} < {max(1, rows - 3)}", f"{c} < {max(1, columns - 5)}", f"{r} < n")
    )
    mask = f", mask={limit}, other=0" if limit else ""
    start = rng.choice(("0", "16", "pid * 64", "pid * 7"))
    return f"tl.load({array} + {start} + {text}{mask})"


def loop(w: Writer) -> None:
    """Sums of products of tiles that a loop loads: what tensor cores and copies ahead are made for."""
    rng = w.rng
    # tensor cores add up 8-bit floats with less than single precision
    array = rng.choice(("x", "x", "b", "e" if w.float in ("float16", "bfloat16") else "x"))
    kind = {"b": "int32", "e": "float32"}.get(
        array, "float64" if w.float == "float64" else "float32"
    )
    m, n = rng.choice((16, 16, 32, 64)), rng.choice((16, 32, 64))
    k = 32 if array in "be" else rng.choice((16, 32))
    precision = _precision(w, w.float) if array == "x" else ""
    acc = w.let(f"tl.zeros([{m}, {n}], {type_name(kind)})")
    counter = w.name()
    w.emit(f"for {counter} in range({rng.choice(('0, m % 4', '0, 3', '0, 4', '0, m % 2 + 1'))}):")
    step = f" + {counter} * {k}"
    right = "y" if array == "x" else array
    a = w.let(_operand(w, array, m, k, False, step), 2)
    b = w.let(_operand(w, right, k, n, True, step), 2)
    if array == "x" and rng.random() < 0.2:
        a = w.let(f"{a} * {rng.choice(('2', 'm'))}", 2)
        a = w.let(f"{a}.to({b}.dtype)", 2)
    fused = f"{acc} = tl.dot({a}, {b}, {acc}{precision})"
    w.emit(rng.choice((fused, f"{acc} += tl.dot({a}, {b}{precision})")), 2)
    if rng.random() < 0.15:
        w.emit(f"{acc} = {acc} {rng.choice(('* 2', '+ 1', '* 3 - ' + counter))}", 2)
    if array == "b":
        w.add(f"{acc} + 0", (m, n), "int32", True)
        return
    w.add(f"({acc} * {1.0 / (8 * k)}).to({type_name(w.float)})", (m, n), w.float, False)


STATEMENTS = (dot, dot, batched, own_accumulator, loop, loop)
