"""Generated code whose every instruction is on the line of the kernel that it launches."""

import dis
import traceback

import pytest

from tilewright.runtime.tracebacks import on_one_line

SOURCE = """
def outer(x, *more, key=None):
    values = [x + i for i in range(40)]
    if x < 0:
        try:
            return inner(x)
        except KeyError as error:
            raise ValueError("again") from error
    def inside(y):
        return y * 2
    return inside(sum(values)), more, key

def inner(x):
    return {}[x]
"""


def test_code_does_the_same_on_one_line():
    code = on_one_line(compile(SOURCE, "kernel.py", "exec"), 77)
    scope = {}
    exec(code, scope)
    assert scope["outer"](1, 2, key=3) == (2 * sum(range(1, 41)), (2,), 3)
    with pytest.raises(ValueError, match="again") as caught:
        scope["outer"](-1)
    for error in (caught.value, caught.value.__cause__):
        frames = traceback.extract_tb(error.__traceback__)
        inside = [f for f in frames if f.filename == "kernel.py"]
        assert inside and all((f.lineno, f.colno) == (77, None) for f in inside)


def test_every_unit_of_code_has_its_line():
    code = on_one_line(compile(SOURCE, "kernel.py", "exec"), 9)
    pending = [code]
    while pending:
        each = pending.pop()
        pending += [c for c in each.co_consts if hasattr(c, "co_code")]
        places = list(each.co_positions())
        assert len(places) == len(each.co_code) // 2
        assert set(places) == {(9, 9, None, None)}
        assert {line for *_, line in each.co_lines()} == {9}
        assert {i.positions.lineno for i in dis.get_instructions(each)} == {9}
