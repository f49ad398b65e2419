"""Runs tile IR of scalar i32 kernels: an oracle for control flow that shares no code with ours."""

import operator

_COMPARE = {
    "slt": operator.lt, "sle": operator.le, "sgt": operator.gt, "sge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


class OutOfFuel(Exception):
    """The program ran for too long."""


def wrapped(value: int) -> int:
    """`value` in 32 bits, signed."""
    return ((int(value) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


_BINARY = {
    "arith.addi": lambda a, b: wrapped(a + b),
    "arith.subi": lambda a, b: wrapped(a - b),
    "arith.muli": lambda a, b: wrapped(a * b),
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.minsi": min,
    "arith.maxsi": max,
    "tile.addptr": operator.add,
}


class ScalarMachine:
    """Memory is a dict from element index to value; unset elements read 0."""

    def __init__(self, fuel: int = 20_000) -> None:
        self.memory: dict[int, int] = {}
        self.fuel = fuel

    def run(self, module, args) -> dict[int, int]:
        block = module.body.block.first_op.body.block
        self.block(block, dict(zip(block.args, args, strict=True)))
        return self.memory

    def block(self, block, env):
        for op in block.ops:
            self.fuel -= 1
            if self.fuel < 0:
                raise OutOfFuel
            values = [env[v] for v in op.operands]
            if op.name in ("scf.yield", "scf.condition", "func.return"):
                return values
            results = self.operation(op, values, env)
            env.update(zip(op.results, results, strict=True))
        return []

    def call(self, block, values, env):
        env.update(zip(block.args, values, strict=True))
        return self.block(block, env)

    def operation(self, op, values, env):
        match op.name:
            case "arith.constant":
                value = op.value.value.data
                return [bool(value) if str(op.results[0].type) == "i1" else value]
            case "tile.cmpi":
                return [_COMPARE[op.predicate.data](*values)]
            case "tile.select":
                return [values[1] if values[0] else values[2]]
            case "tile.load":
                return [self.memory.get(values[0], 0)]
            case "tile.store":
                self.memory[values[0]] = values[1]
                return []
            case "scf.if":
                region = op.regions[0 if values[0] else 1]
                return self.block(region.block, env) if region.blocks else []
            case "scf.for":
                low, high, step, *carried = values
                for i in range(low, high, step):
                    carried = self.call(op.regions[0].block, [i, *carried], env)
                return carried
            case "scf.while":
                head, body = (region.block for region in op.regions)
                while True:
                    go_on, *values = self.call(head, values, env)
                    if not go_on:
                        return values
                    values = self.call(body, values, env)
        return [_BINARY[op.name](*values)]
