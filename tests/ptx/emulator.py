"""An SM for PTX text: the threads of a block, one after another block.

All threads that are furthest behind in the text take a step together; a thread that waits at a barrier lets
the others go on. What the text leaves open is taken the worst way: copies land when they are waited for,
shared memory starts no better aligned than it says, and every rule of the PTX ISA that this knows is checked.
"""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from tests.ptx import uniform, warp_collectives
from tests.ptx.clocks import Clocks
from tests.ptx.memory import LOCAL, Local, Shared
from tests.ptx.scalar import OPERATIONS, compared
from tests.ptx.values import Fault, immediate
from tests.ptx.wgmma_state import Products

np.seterr(all="ignore")
_STATEMENT = re.compile(r"(?:@(!?)([%\w]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.DOTALL)
_LABEL = re.compile(r"([$\w]+):\s*")
_USED = re.compile(r'\.pragma "used_bytes_mask (0x[0-9a-f]+)"')
_WORDS = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")


@dataclass
class Instruction:
    """One statement: its guard, its name with its modifiers, and its operands.

    `used` are the bytes of a load that somebody looks at, where LLVM says so: it makes one wide load of
    several narrow ones, over gaps in between.
    """

    guard: str
    negated: bool
    name: str
    mods: tuple[str, ...]
    operands: list[str]
    text: str
    used: list[int] | None = None


def parse(ptx, entry):
    """(parameters, instructions, labels, alignment of shared memory) of a kernel."""
    ptx = re.sub(r"//[^\n]*", "", ptx)
    found = re.search(r"\.shared \.align (\d+)", ptx)
    body = ptx[ptx.index(f".entry {entry}") :]
    parameters = re.findall(r"\.param [^,()]*?(\w+)(?:\[\d+\])?\s*[,)]", body[: body.index("{")])
    text = body[body.index("{") + 1 : body.rindex("}")]
    instructions, labels, scope, depth, used = [], {}, 0, 0, None
    for part in text.replace("{ .reg", "{\n;.reg").split(";"):
        part = part.strip()
        while True:
            label = _LABEL.match(part)
            if label:
                labels[label.group(1)] = len(instructions)
                part = part[label.end() :].strip()
            elif part.startswith(("{", "}")):
                depth += 1 if part[0] == "{" else -1
                scope += part[0] == "{"
                part = part[1:].strip()
            else:
                break
        if not part or part.startswith("."):
            found_mask = _USED.match(part)
            used = int(found_mask[1], 16) if found_mask else used
            continue
        guard, name, rest = (lambda g: (g.group(2), g.group(3), g.group(4)))(_STATEMENT.match(part))
        negated = bool(_STATEMENT.match(part).group(1))
        operands = [w.strip() for w in _WORDS.findall(rest)]
        if depth:
            operands = [re.sub(r"\bp\b", f"p@{scope}", o) for o in operands]
            guard = f"p@{scope}" if guard == "p" else guard
        head, *mods = name.split(".")
        bytes_ = None if used is None else [i for i in range(used.bit_length()) if used >> i & 1]
        made = Instruction(guard or "", negated, head, tuple(mods), operands, part, bytes_)
        instructions.append(made)
        used = None
    return parameters, instructions, labels, int(found.group(1)) if found else 16


class Machine:
    """One block of a launch, or a cluster of them. With `chance` (a `random.Random`) warps take steps in a random order."""

    def __init__(self, code, plan, arguments, memory, block, grid, chance=None):
        self.parameters, self.code, self.labels, alignment = code
        self.plan, self.memory, self.threads = plan, memory, plan.threads * plan.cluster_size
        self.arguments = dict(zip(self.parameters, arguments, strict=True))
        self.chance = chance
        self.clocks = Clocks(-(-self.threads // 32))
        self.shared_pitch = -(-plan.shared_bytes // 1024) * 1024
        """Bytes from the shared memory of one CTA of a cluster to the next one's."""
        whole = plan.shared_bytes + (plan.cluster_size - 1) * self.shared_pitch
        self.shared = Shared(whole, max(alignment, 16), self.clocks)
        memory.block(self.clocks)
        self.local = Local(self.threads)
        self.index = np.arange(self.threads)
        self.registers = {}
        self.predicates = {}
        self.special = self._special(block, grid)
        self.at = np.zeros(self.threads, np.int64)
        self.waiting = {}
        """Thread -> what it waits for."""
        self.parked = np.full(self.threads, -1, np.int64)
        """The instruction at which a thread waits for the others that must take part, -1: none."""
        self.together = warp_collectives.Together(self)
        self.products = Products(self)
        self.carry = np.zeros(self.threads, np.uint64)
        self.alone = np.full(self.threads, not plan.programmatic_launch)
        """Threads that have waited for the kernel before, where launches overlap."""

    def _special(self, block, grid):
        """Special registers: of one program, whose blocks are a cluster along x."""
        each, blocks = self.plan.threads, self.plan.cluster_size
        rank, found = self.index // each, {"%laneid": self.index % 32}
        for axis, at, extent in zip("xyz", block, grid, strict=True):
            many = blocks if axis == "x" else 1
            found[f"%ctaid.{axis}"] = at * many + (rank if axis == "x" else 0 * rank)
            found[f"%nctaid.{axis}"] = np.full(self.threads, extent * many)
            found[f"%clusterid.{axis}"] = np.full(self.threads, at)
            found[f"%nclusterid.{axis}"] = np.full(self.threads, extent)
            found[f"%ntid.{axis}"] = np.full(self.threads, each if axis == "x" else 1)
        more = {"%tid.x": self.index % each, "%cluster_ctarank": rank}
        more["%smid"] = 0 * rank
        return found | more

    def parts(self, unit):
        """Of each thread the number of its warp or warpgroup (`unit` threads): the last one of a CTA may be smaller."""
        each = self.plan.threads
        return self.index // each * -(-each // unit) + self.index % each // unit

    # ---- operands ----

    def read(self, text):
        """Bits of an operand, of all threads."""
        if text in self.registers:
            return self.registers[text]
        number = immediate(text)
        if number is not None:
            return np.full(self.threads, number, np.uint64)
        if text in self.special:
            return self.special[text].astype(np.uint64)
        if text == "tw_shared":
            return np.full(self.threads, self.shared.start, np.uint64)
        if text.startswith("__local_depot"):
            return np.full(self.threads, LOCAL, np.uint64)
        if text in self.arguments:
            return np.full(self.threads, warp_collectives.parameter_address(self, text), np.uint64)
        if text in self.predicates:
            return self.predicates[text].astype(np.uint64)
        if text.startswith("%r") and text not in self.assigned:
            return np.full(self.threads, 0xA5A5A5A5A5A5A5A5, np.uint64)
        raise Fault(f"{text} is read, and nothing was written there")

    @cached_property
    def assigned(self):
        """Registers that some instruction writes: others are parts of words that LLVM knows to be unused."""
        first = (op.operands[0] for op in self.code if op.operands)
        return {name for operand in first for name in re.findall(r"%r\w+", operand)}

    def predicate(self, text):
        if text in ("-1", "1", "0"):
            return np.full(self.threads, text != "0")
        negated = text.startswith("!")
        name = text[1:] if negated else text
        if name not in self.predicates:
            raise Fault(f"{name} is tested, and nothing was written there")
        return ~self.predicates[name] if negated else self.predicates[name]

    def write(self, text, bits, mask):
        if text.startswith(("%rs", "%r")) and not text.startswith("%rd"):
            bits = bits & np.uint64(0xFFFF if text.startswith("%rs") else 0xFFFFFFFF)
        self.products.wrote(text, mask)
        self._put(self.registers, text, bits, mask, np.uint64)

    def write_sums(self, text, bits, mask):
        """As a product does."""
        self._put(self.registers, text, bits & np.uint64(0xFFFFFFFF), mask, np.uint64)

    def write_predicate(self, text, values, mask):
        if text != "_":
            self._put(self.predicates, text, values, mask, bool)

    def _put(self, where, text, values, mask, kind):
        if text not in where:
            where[text] = np.zeros(self.threads, kind)
        where[text] = np.where(mask, values, where[text])

    def address(self, text):
        """Of `[register+offset]`."""
        first, *rest = re.findall(r"-?[^+\-\s]+", text.strip("[]"))
        offset = sum(int(r, 0) for r in rest) & (1 << 64) - 1
        return self.read(first) + np.uint64(offset)

    # ---- steps ----

    def run(self, most=2_000_000):
        """Until all threads are done. Raises Fault with the instruction."""
        end = len(self.code)
        for _ in range(most):
            free = np.array([t not in self.waiting for t in range(self.threads)]) if self.waiting else (
                np.ones(self.threads, bool)
            )  # fmt: skip
            free &= (self.at < end) & (self.parked < 0)
            if not free.any():
                if (self.at >= end).all():
                    self.products.finish()
                    self.together.finish()
                    return
                if self.together.land_any() or self.together.others_have_exited():
                    continue
                why = set(self.waiting.values())
                why |= {self.code[p].text for p in self.parked[self.parked >= 0]}
                raise Fault(f"all threads deadlock: {sorted(why)}")
            if self.chance is not None:
                warps = np.unique(np.flatnonzero(free) // 32)
                free &= self.index // 32 == self.chance.choice(list(warps))
            place = self.at[free].min()
            self._step(self.code[place], place, free & (self.at == place))
        raise Fault("the kernel does not end")

    def _gathered(self, op, place, mask):
        """Threads that take part: of every warp (or group of warps) all, or none yet."""
        here = mask | (self.parked == place)
        parts = self.parts(uniform.unit_of(op))
        missing = np.zeros(parts[-1] + 1, bool)
        np.logical_or.at(missing, parts, ~here)
        ready = here & ~missing[parts]
        self.parked[here] = np.where(ready[here], -1, place)
        return ready

    def _step(self, op, place, mask):
        if op.name in warp_collectives.OF_ALL:
            mask = self._gathered(op, place, mask)
            if not mask.any():
                return
        if op.guard:
            held = self.predicate(op.guard)
            guarded = mask & (~held if op.negated else held)
            self._declare(op)
        else:
            guarded = mask
        try:
            uniform.check(self, op, mask, guarded)
            self.products.check_reads(op, guarded)
            target = self._do(op, guarded, place)
            self.products.moved(op, guarded)
        except Fault as fault:
            raise Fault(f"{op.text}: {fault}") from None
        self.at[mask] = place + 1
        if target is not None:
            self.at[guarded] = target

    def _do(self, op, mask, place):
        """Where threads go on, if not behind it."""
        name = op.name
        if name == "bra":
            return self.labels[op.operands[0]]
        touches = name in ("ret", "exit") or (
            "global" in op.mods and name not in ("cvta", "prefetch")
        )
        if touches and not self.alone[mask].all():
            raise Fault("the kernel before may still run: griddepcontrol.wait is missing")
        if name in ("ret", "exit"):
            return len(self.code)
        if not mask.any():
            return None
        if name in warp_collectives.HANDLERS:
            return warp_collectives.HANDLERS[name](self.together, op, mask, place)
        simple = getattr(self, f"_{name}", None)
        if simple is not None:
            simple(op, mask)
        elif op.mods[-1:] == ("pred",):
            self._of_predicates(op, mask)
        elif "cc" in op.mods or name in ("addc", "subc", "madc"):
            self._with_carry(op, mask)
        elif name in OPERATIONS:
            values = [self.read(o) for o in op.operands[1:]]
            self.write(op.operands[0], OPERATIONS[name](op.mods, *values), mask)
        else:
            raise Fault("not known")
        return None

    def _prmt(self, op, mask):
        """LLVM leaves a source undefined of which the selector takes no byte."""
        target, *sources, selector = op.operands
        known = immediate(selector)
        taken = {known >> 4 * i & 7 for i in range(4)} if known is not None else set(range(8))
        values = [
            self.read(source) if taken & {*range(4 * i, 4 * i + 4)} else np.zeros(self.threads, np.uint64)
            for i, source in enumerate(sources)
        ]  # fmt: skip
        self.write(target, OPERATIONS["prmt"](op.mods, *values, self.read(selector)), mask)

    def _declare(self, op):
        """A load may leave threads without a value that make no use of it: they have NaNs of every width."""
        if op.name == "ld":
            for name in warp_collectives.names_of(op.operands[0]):
                self.registers.setdefault(
                    name, np.full(self.threads, 0xFFC1FFC1FFC1FFC1, np.uint64)
                )

    def _mov(self, op, mask):
        target, source = op.operands
        if op.mods[-1] == "pred":
            self.write_predicate(target, self.predicate(source), mask)
        elif source.startswith("{"):
            parts = [self._part(p.strip()) for p in source.strip("{}").split(",")]
            size = int(op.mods[-1][1:]) // len(parts)
            total = np.zeros(self.threads, np.uint64)
            for i, part in enumerate(parts):
                total |= (part & np.uint64((1 << size) - 1)) << np.uint64(size * i)
            self.write(target, total, mask)
        elif target.startswith("{"):
            names = [p.strip() for p in target.strip("{}").split(",")]
            size, value = int(op.mods[-1][1:]) // len(names), self.read(source)
            for i, name in enumerate(names):
                part = value >> np.uint64(size * i) & np.uint64((1 << size) - 1)
                if name != "_":
                    self.write(name, part, mask)
        else:
            self.write(target, self.read(source), mask)

    def _part(self, text):
        """A part of a wider register: LLVM leaves those undefined that later instructions overwrite. Garbage shows
        in results where they do not."""
        if text.startswith("%") and text not in self.registers:
            return np.full(self.threads, 0xA5A5A5A5A5A5A5A5, np.uint64)
        return self.read(text)

    def _cvta(self, op, mask):
        self.write(op.operands[0], self.read(op.operands[1]), mask)

    def _selp(self, op, mask):
        target, yes, no, which = op.operands
        self.write(target, np.where(self.predicate(which), self.read(yes), self.read(no)), mask)

    def _setp(self, op, mask):
        target, a, b, *more = op.operands
        if op.mods[-1].endswith("x2"):
            for i, half in enumerate(target.split("|")):
                parts = (self.read(v) >> np.uint64(16 * i) for v in (a, b))
                values = compared((op.mods[0], op.mods[-1][:-2]), *parts)
                self.write_predicate(half, values, mask)
            return
        values = compared((op.mods[0], op.mods[-1]), self.read(a), self.read(b))
        if more:
            other = self.predicate(more[0])
            values = {"and": values & other, "or": values | other, "xor": values ^ other}[
                op.mods[1]
            ]
        self.write_predicate(target.split("|")[0], values, mask)

    def _set(self, op, mask):
        """A comparison of pairs: 1.0 for those that hold."""
        target, *sources = op.operands
        kind, found = op.mods[-1][:-2], np.uint64(0)
        if op.mods[1:] != (f"{kind}x2",) * 2:
            raise Fault(f"set with types that the emulator does not know: {op.mods[1:]}")
        for shift in (np.uint64(0), np.uint64(16)):
            values = compared((op.mods[0], kind), *(self.read(v) >> shift for v in sources))
            found = found | np.uint64({"f16": 0x3C00, "bf16": 0x3F80}[kind]) * values << shift
        self.write(target, found, mask)

    def _of_predicates(self, op, mask):
        target, *sources = op.operands
        values = [self.predicate(s) for s in sources]
        fn = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
              "not": np.logical_not}[op.name]  # fmt: skip
        self.write_predicate(target, fn(*values), mask)

    def _with_carry(self, op, mask):
        """Additions of 32 bits with a carry, in and out."""
        target, *sources = op.operands
        low = np.uint64(0xFFFFFFFF)
        values = [self.read(s) & low for s in sources]
        if op.name.startswith("mad"):
            product = values[0] * values[1]
            values = [product >> np.uint64(32) if "hi" in op.mods else product & low, values[2]]
        into = self.carry if op.name in ("addc", "subc", "madc") else np.uint64(0)
        if op.name.startswith("sub"):
            total = values[0] - values[1] - into
            carry = (total >> np.uint64(32)) & np.uint64(1)
        else:
            total = values[0] + values[1] + into
            carry = total >> np.uint64(32)
        self.write(target, total & low, mask)
        if "cc" in op.mods:
            self.carry = np.where(mask, carry, self.carry)
