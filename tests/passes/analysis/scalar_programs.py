"""Random programs of narrow integers, loops and branches, and what they compute, apart from the compiler."""

import random

from tests.passes.analysis.enumeration import ANY, SPECIFICATIONS, fits, signed
from xdsl.dialects import arith, scf

from tilewright.dialects import tile

OPERATIONS = {
    "arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.shli": "shift_left",
    "arith.shrsi": "shift_right_signed", "arith.shrui": "shift_right_unsigned",
    "arith.divsi": "divide_signed", "arith.divui": "divide_unsigned", "arith.remsi": "remainder_signed",
    "arith.remui": "remainder_unsigned", "arith.andi": "bit_and", "arith.ori": "bit_or",
    "arith.xori": "bit_xor", "arith.minsi": "minimum_signed", "arith.maxsi": "maximum_signed",
    "arith.minui": "minimum_unsigned", "arith.maxui": "maximum_unsigned",
}  # fmt: skip
COMMON = ("arith.addi", "arith.addi", "arith.subi", "arith.muli", "arith.muli", "arith.divsi")
CONVERSIONS = ("arith.extsi", "arith.extui", "arith.trunci")
ARGUMENTS = 3


class Writer:
    """Text of one program: `i6` values, wider and narrower ones in between."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.count = [], 0

    def text(self):
        names = [f"%a{i}" for i in range(ARGUMENTS)]
        self._body([*names], "  ", 2)
        arguments = ", ".join(f"{n}: i6" for n in names)
        return f"func.func @k({arguments}) {{\n" + "\n".join(self.lines) + "\n  func.return\n}\n"

    def _new(self):
        self.count += 1
        return f"%v{self.count}"

    def _put(self, indent, text):
        name = self._new()
        self.lines.append(f"{indent}{name} = {text}")
        return name

    def _body(self, names, indent, depth):
        for _ in range(self.random.randint(2, 6)):
            pick = self.random.random()
            if pick < 0.2 and depth:
                self._loop(names, indent, depth)
            elif pick < 0.27 and depth:
                self._branch(names, indent, depth)
            elif pick < 0.4:
                names.append(self._converted(names, indent))
            elif pick < 0.6:
                number = self.random.choice([0, 1, 2, 3, 4, 7, 8, -1, -4, 31, -32])
                names.append(self._put(indent, f"arith.constant {number} : i6"))
            else:
                op = self.random.choice([*COMMON, *OPERATIONS])
                a, b = self.random.choice(names), self.random.choice(names)
                names.append(self._put(indent, f"{op} {a}, {b} : i6"))

    def _converted(self, names, indent):
        value = self.random.choice(names)
        kind = self.random.choice(["extsi", "extui", "trunci"])
        other = "i4" if kind == "trunci" else "i8"
        back = "trunci" if other == "i8" else self.random.choice(["extsi", "extui"])
        middle = self._put(indent, f"arith.{kind} {value} : i6 to {other}")
        if other == "i8" and self.random.random() < 0.7:
            number = self._put(indent, f"arith.constant {self.random.choice([3, 2, 5])} : i8")
            op = self.random.choice(["arith.addi", "arith.muli", "arith.divsi"])
            middle = self._put(indent, f"{op} {middle}, {number} : i8")
        return self._put(indent, f"arith.{back} {middle} : {other} to i6")

    def _loop(self, names, indent, depth):
        zero = self._put(indent, f"arith.constant {self.random.choice([0, 0, 0, 2, -5])} : i6")
        step = self._put(indent, f"arith.constant {self.random.choice([1, 1, 1, 3])} : i6")
        upper = self.random.choice(names)
        if self.random.random() < 0.4:  # ceil(n / block)
            block = self._put(indent, "arith.constant 4 : i6")
            more = self._put(indent, "arith.constant 3 : i6")
            upper = self._put(indent, f"arith.addi {upper}, {more} : i6")
            upper = self._put(indent, f"arith.divsi {upper}, {block} : i6")
        inits = [self.random.choice(names) for _ in range(self.random.randint(0, 2))]
        index, carried = self._new(), [self._new() for _ in inits]
        results = [self._new() for _ in inits]
        head = f"scf.for {index} = {zero} to {upper} step {step}"
        if inits:
            pairs = ", ".join(f"{c} = {i}" for c, i in zip(carried, inits, strict=True))
            head = f"{', '.join(results)} = {head} iter_args({pairs}) -> ({', '.join('i6' for _ in inits)})"
        self.lines.append(f"{indent}{head} : i6 {{")
        inner = [*names, index, index, *carried, *carried]
        self._body(inner, indent + "  ", depth - 1)
        if inits:
            yielded = [self._advanced(c, names, inner, indent + "  ") for c in carried]
            types = ", ".join("i6" for _ in inits)
            self.lines.append(f"{indent}  scf.yield {', '.join(yielded)} : {types}")
        self.lines.append(f"{indent}}}")
        names += results

    def _advanced(self, carried, outer, inner, indent):
        if self.random.random() < 0.5:
            return self.random.choice(inner)
        amount = self.random.choice(outer)
        return self._put(indent, f"arith.addi {carried}, {amount} : i6")

    def _branch(self, names, indent, depth):
        a, b = self.random.choice(names), self.random.choice(names)
        condition = self._put(indent, f'tile.cmpi "slt", {a}, {b} : i6, i6 to i1')
        result = self._new()
        self.lines.append(f"{indent}{result} = scf.if {condition} -> (i6) {{")
        for i in range(2):
            inner = [*names]
            self._body(inner, indent + "  ", 0)
            self.lines.append(f"{indent}  scf.yield {self.random.choice(inner[-3:])} : i6")
            self.lines.append(f"{indent}}}" + (" else {" if i == 0 else ""))
        names.append(result)


class Machine:
    """Executes a program; `look(value, number)` sees every value as it is computed."""

    def __init__(self, seed, look):
        self.random, self.look, self.values = random.Random(seed), look, {}

    def put(self, value, number):
        bits = value.type.width.data
        self.values[value] = number = signed(number % (1 << bits), bits)
        self.look(value, number)

    def block(self, block):
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return [self.values[v] for v in op.operands]
            self.op(op)
        return []

    def op(self, op):
        operands = [self.values[v] for v in op.operands]
        if isinstance(op, scf.ForOp):
            self._loop(op, *operands[:3], operands[3:])
        elif isinstance(op, scf.IfOp):
            for value, number in zip(
                op.results, self.block(op.regions[0 if operands[0] else 1].block), strict=True
            ):
                self.put(value, number)
        elif isinstance(op, arith.ConstantOp):
            self.put(op.result, op.value.value.data)
        elif isinstance(op, tile.CmpIOp):
            self.put(op.result, int(operands[0] < operands[1]))
        elif op.name in CONVERSIONS:
            width = op.operands[0].type.width.data
            unsigned = op.name == "arith.extui"
            self.put(op.results[0], operands[0] % (1 << width) if unsigned else operands[0])
        elif op.name in OPERATIONS:
            bits = op.results[0].type.width.data
            patterns = [v % (1 << bits) for v in operands]
            number = SPECIFICATIONS[OPERATIONS[op.name]](*patterns, bits)
            self.put(op.results[0], self.random.randrange(1 << bits) if number == ANY else number)

    def _loop(self, op, lower, upper, step, carried):
        block = op.body.block
        index = lower
        while index < upper:
            self.put(block.args[0], index)
            for value, number in zip(block.args[1:], carried, strict=True):
                self.put(value, number)
            carried = self.block(block)
            index += step
        for value, number in zip(op.results, carried, strict=True):
            self.put(value, number)


def wraps(op, values):
    """Whether the signed result of a sum, difference or product wraps for operands as they are."""
    exact = {"arith.addi": int.__add__, "arith.subi": int.__sub__, "arith.muli": int.__mul__}
    a, b = (values[v] for v in op.operands)
    return not fits(exact[op.name](a, b), op.results[0].type.width.data)
