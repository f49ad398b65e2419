"""Random scalar programs: constants, nested branches and loops with carried values and odd steps."""

import random

import numpy as np

HEAD = "func.func @k(%out: !tile.ptr<i32>, %a: i32, %b: i32, %c: i32) {"
ARITHMETIC = (
    "addi", "subi", "muli", "andi", "ori", "xori", "minsi", "maxsi", "divsi", "remsi", "divui",
)  # fmt: skip
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


def program(seed):
    """The text of a program, and its arguments (as `oracle.execute` takes them)."""
    writer = Writer(random.Random(seed))
    writer.body(["%a", "%b", "%c"], 3, "  ")
    text = "\n".join([HEAD, *writer.lines, "  func.return", "}", ""])
    rng = np.random.default_rng(seed)
    return text, [np.zeros(4096, np.int32), *(int(v) for v in rng.integers(-6, 9, 3))]


class Writer:
    def __init__(self, rng):
        self.random, self.lines, self.count, self.slots = rng, [], 0, 0

    def name(self):
        self.count += 1
        return f"%v{self.count}"

    def new(self, indent, text):
        name = self.name()
        self.lines.append(f"{indent}{name} = {text}")
        return name

    def value(self, scope, indent):
        """An i32 from the scope, a constant, or an operation on such."""
        rng = self.random
        choice = rng.randrange(16)
        if choice < 9:
            return rng.choice(scope)
        if choice < 12:
            return self.new(
                indent, f"arith.constant {rng.choice([0, 1, -1, 2, 3, -2147483648])} : i32"
            )
        lhs, rhs = self.value(scope, indent), self.value(scope, indent)
        if choice < 14:
            return self.new(indent, f"arith.{rng.choice(ARITHMETIC)} {lhs}, {rhs} : i32")
        if choice == 14:
            wide = self.new(indent, f"arith.ext{rng.choice('su')}i {lhs} : i32 to i64")
            more = self.new(indent, f"arith.extsi {rhs} : i32 to i64")
            total = self.new(indent, f"arith.addi {wide}, {more} : i64")
            return self.new(indent, f"arith.trunci {total} : i64 to i32")
        condition = self.condition(scope, indent)
        return self.new(indent, f"tile.select {condition}, {lhs}, {rhs} : i1, i32, i32 to i32")

    def condition(self, scope, indent):
        lhs, rhs = self.value(scope, indent), self.value(scope, indent)
        predicate = self.random.choice(PREDICATES)
        return self.new(indent, f'tile.cmpi "{predicate}", {lhs}, {rhs} : i32, i32 to i1')

    def body(self, scope, depth, indent):
        """A few statements; `scope` grows by what they define."""
        for _ in range(self.random.randrange(1, 4)):
            choice = self.random.randrange(4) if depth else 0
            if choice <= 1:
                self.store(self.value(scope, indent), indent)
                scope.append(self.value(scope, indent))
            else:
                (self.branch if choice == 2 else self.loop)(scope, depth - 1, indent)

    def store(self, value, indent):
        """Into a slot of its own: the last value that comes here stays."""
        self.slots += 1
        offset = self.new(indent, f"arith.constant {self.slots} : i32")
        kinds = "!tile.ptr<i32>, i32 to !tile.ptr<i32>"
        place = self.new(indent, f"tile.addptr %out, {offset} : {kinds}")
        self.lines.append(f"{indent}tile.store {place}, {value} : !tile.ptr<i32>, i32")

    def results(self):
        count = self.random.randrange(1, 4)
        return self.name(), count

    def branch(self, scope, depth, indent):
        condition = self.condition(scope, indent)
        name, count = self.results()
        kinds = ", ".join(["i32"] * count)
        self.lines.append(f"{indent}{name}:{count} = scf.if {condition} -> ({kinds}) {{")
        for middle in (f"{indent}}} else {{", f"{indent}}}"):
            inner = list(scope)
            self.body(inner, depth, indent + "  ")
            values = [self.random.choice(inner) for _ in range(count)]
            self.lines.append(f"{indent}  scf.yield {', '.join(values)} : {kinds}")
            self.lines.append(middle)
        scope += [f"{name}#{i}" for i in range(count)]

    def loop(self, scope, depth, indent):
        rng = self.random
        step = self.new(indent, f"arith.constant {rng.choice([1, 1, 2, 3, -1, -2])} : i32")
        seven = self.new(indent, "arith.constant 7 : i32")
        bounds = [
            self.new(indent, f"arith.remsi {self.value(scope, indent)}, {seven} : i32")
            if rng.random() < 0.6
            else self.new(indent, f"arith.constant {rng.randrange(-1, 4)} : i32")
            for _ in range(2)
        ]
        name, count = self.results()
        counter, carried = self.name(), [self.name() for _ in range(count)]
        inits = ", ".join(f"{c} = {rng.choice(scope)}" for c in carried)
        kinds = ", ".join(["i32"] * count)
        self.lines.append(
            f"{indent}{name}:{count} = scf.for {counter} = {bounds[0]} to {bounds[1]} step {step}"
            f" iter_args({inits}) -> ({kinds}) : i32 {{"
        )
        inner = [*scope, counter, *carried]
        self.body(inner, depth, indent + "  ")
        values = [rng.choice([*inner, *carried, *carried]) for _ in range(count)]
        self.lines.append(f"{indent}  scf.yield {', '.join(values)} : {kinds}")
        self.lines.append(f"{indent}}}")
        scope += [f"{name}#{i}" for i in range(count)]
