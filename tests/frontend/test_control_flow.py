"""Random programs of `if`, `for`, `while`, `break`, `continue`, `return`: the IR does what Python does.

The kernel's text is Python; it runs as such, and its IR runs on `ScalarMachine`.
"""

import importlib.util
import linecache
import random
from pathlib import Path

import pytest

import tilewright.language as tl
from tilewright import dtypes
from tilewright.frontend import build
from tilewright.ir.text import parse_ir, print_ir, verify_ir
from tilewright.language.kernel_function import KernelFunction

pytestmark = pytest.mark.sampled(3, full=2)

_spec = importlib.util.spec_from_file_location(
    "tilewright_scalar_machine", Path(__file__).parent / "scalar_machine.py"
)
machine = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(machine)

ARGUMENTS = ((0, 0), (1, 2), (3, -1), (7, 5), (-4, 3))


class Program:
    """A random helper and a random kernel that calls it, as lines of Python."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.inside_helper = True
        self.lines = ["def helper(p, a, b):", "    c = 0", "    n = a", "    m = b"]
        self.lines += self.block(["a", "b", "c"], 2, False, 1)
        self.lines += [f"    return {self.expression(['a', 'b', 'c'])}", ""]
        self.inside_helper = False
        self.lines += ["def kernel(p, n, m):", "    a = 0", "    b = n", "    c = 7"]
        self.lines += self.block(["a", "b", "c", "n", "m"], 3, False, 1)
        self.lines += [f"    tl.store(p + {4 + i}, {name})" for i, name in enumerate("abc")]

    def pick(self, *items):
        return self.random.choice(items)

    def expression(self, names, depth=2) -> str:
        roll = self.random.random()
        if depth == 0 or roll < 0.3:
            return self.pick(*names)
        if roll < 0.45:
            return str(self.random.randint(-3, 5))
        parts = [self.expression(names, depth - 1) for _ in range(2)]
        if roll < 0.8:
            return f"wrap({parts[0]} {self.pick('+', '-', '*')} {parts[1]})"
        if roll < 0.9:
            return f"({parts[0]} if {self.condition(names)} else {parts[1]})"
        if roll < 0.95 or self.inside_helper:
            return f"tl.load(p + {self.random.randint(0, 3)})"
        return f"helper(p, {parts[0]}, {parts[1]})"

    def condition(self, names) -> str:
        def comparison():
            sides = [self.expression(names, 1) for _ in range(2)]
            return f"{sides[0]} {self.pick('<', '<=', '>', '==', '!=')} {sides[1]}"

        roll = self.random.random()
        if roll < 0.6:
            return comparison()
        if roll < 0.7:
            return f"not {comparison()}"
        if roll < 0.8:
            return self.pick(*names)
        return f"{comparison()} {self.pick('and', 'or')} {comparison()}"

    def block(self, names, depth, in_loop, indent) -> list[str]:
        lines, pad = [], "    " * indent
        for _ in range(self.random.randint(1, 4)):
            roll = self.random.random()
            if roll < 0.4 or depth == 0:
                target, op = self.pick("a", "b", "c"), self.pick("=", "=", "+=", "-=")
                value = self.expression(names)
                if op != "=":
                    value = f"wrap({target} {op[0]} {value})"
                lines.append(f"{pad}{target} = {value}")
            elif roll < 0.5:
                where = self.random.randint(0, 3)
                lines.append(f"{pad}tl.store(p + {where}, {self.expression(names)})")
            elif roll < 0.7:
                lines += self.conditional(names, depth, in_loop, indent)
            elif roll < 0.9:
                lines += self.loop(names, depth, indent)
            elif roll < 0.95 and in_loop:
                return [*lines, f"{pad}{self.pick('break', 'continue')}"]
            elif self.inside_helper or depth < 3:
                value = f" {self.expression(names)}" if self.inside_helper else ""
                return [*lines, f"{pad}return{value}"]
        return lines or [f"{pad}pass"]

    def conditional(self, names, depth, in_loop, indent) -> list[str]:
        pad = "    " * indent
        lines = [f"{pad}if {self.condition(names)}:"]
        lines += self.block(names, depth - 1, in_loop, indent + 1)
        if self.random.random() < 0.3:
            lines.append(f"{pad}elif {self.condition(names)}:")
            lines += self.block(names, depth - 1, in_loop, indent + 1)
        if self.random.random() < 0.6:
            lines.append(f"{pad}else:")
            lines += self.block(names, depth - 1, in_loop, indent + 1)
        return lines

    def loop(self, names, depth, indent) -> list[str]:
        pad, integer = "    " * indent, self.random.randint
        self.names += 1
        name = f"i{self.names}"
        roll = self.random.random()
        if roll < 0.35:
            lines = [f"{pad}{name} = 0"]
            lines += [f"{pad}while {name} < {integer(1, 4)} and ({self.condition(names)}):"]
            return [
                *lines,
                f"{pad}    {name} += 1",
                *self.block(names, depth - 1, True, indent + 1),
            ]
        if roll < 0.6:
            bounds = f"range({self.pick('n', 'm', 'a')} & 3)"
        elif roll < 0.8:
            bounds = f"range({integer(0, 4)}, {integer(-3, 6)}, {self.pick(1, 2, -1, -2)})"
        else:
            bounds = f"tl.static_range({integer(0, 3)})"
        body = self.block([*names, name], depth - 1, True, indent + 1)
        return [f"{pad}for {name} in {bounds}:", *body]


class Host:
    """`tl` for running the program as Python."""

    static_range = range

    def __init__(self) -> None:
        self.memory: dict[int, int] = {}

    def load(self, where: int) -> int:
        return self.memory.get(where, 0)

    def store(self, where: int, value: int) -> None:
        self.memory[where] = value


def compiled(source: str, seed: int) -> KernelFunction:
    name = f"<random program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"tl": tl, "wrap": KernelFunction(_identity)}
    exec(compile(source, name, "exec"), scope)
    scope["helper"] = KernelFunction(scope["helper"])
    return KernelFunction(scope["kernel"])


def _identity(x):
    return x


def check(seed: int) -> None:
    """Build the program of `seed`, run both forms, compare memory."""
    source = "\n".join(Program(seed).lines) + "\n"
    pointer = dtypes.pointer_type(dtypes.int32)
    signature = {"p": pointer, "n": dtypes.int32, "m": dtypes.int32}
    module = build(compiled(source, seed), signature).module
    verify_ir(module)
    text = print_ir(module)
    assert print_ir(parse_ir(text)) == text
    for arguments in ARGUMENTS:
        host = Host()
        scope = {"tl": host, "wrap": machine.wrapped}
        exec(source, scope)
        scope["kernel"](0, *arguments)
        assert machine.ScalarMachine().run(module, [0, *arguments]) == host.memory, (
            f"seed {seed}, arguments {arguments}:\n{source}"
        )


@pytest.mark.parametrize("seed", range(40))
def test_random_program(seed):
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(40, 1000))
def test_many_random_programs(seed):
    check(seed)
