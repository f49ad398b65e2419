"""Facts and polynomials of whole programs hold of every value that the programs compute."""

import math
import random

import pytest
from tests.passes.analysis.scalar_programs import ARGUMENTS, Machine, Writer, wraps
from xdsl.dialects import arith

from tilewright.ir.text import parse_ir
from tilewright.passes.analysis.facts import Facts
from tilewright.passes.analysis.symbolic import Symbolic

PROGRAMS = 20
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)


class Checker:
    """Holds facts and polynomials of a program against the values that it computes."""

    def __init__(self, seed):
        self.facts = Facts()
        self.symbols = Symbolic(self.facts)
        self.machine = Machine(seed, self.look)

    def look(self, value, number):
        assert self.facts.of(value).contains(number), (value, number)
        if isinstance(value.owner, _SUMS) and wraps(value.owner, self.machine.values):
            assert self.facts.may_wrap(value.owner), value
        if value.type.width.data > 1:
            assert self.evaluated(self.symbols.of(value)) == number, value

    def evaluated(self, polynomial):
        values = self.machine.values
        return sum(c * math.prod(values[x.value] for x in m) for m, c in polynomial.terms)


def check(seed):
    block = parse_ir(Writer(seed).text()).body.block.first_op.body.block
    checker, draw = Checker(seed), random.Random(seed)
    for _ in range(6):
        for argument in block.args[:ARGUMENTS]:
            number = draw.choice([0, 1, 5, 20, 31, -1, -32, draw.randrange(-32, 32)])
            checker.machine.put(argument, number)
        checker.machine.block(block)


@pytest.mark.parametrize("part", range(5))
def test_programs(part):
    for seed in range(part * PROGRAMS, (part + 1) * PROGRAMS):
        check(seed)


@pytest.mark.long
def test_many_programs():
    for seed in range(10_000, 40_000):
        check(seed)


def facts_of(text, name):
    module = parse_ir(text)
    value = next(r for op in module.walk() for r in op.results if r.name_hint == name)
    return Facts().of(value)


def test_what_matters_is_known():
    """Counters, trip counts, remainders and clamps of a usual kernel."""
    text = """
    func.func @k(%n: i32, %p: !tile.ptr<f16> {tile.divisibility = 16 : i32}) {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %more = arith.constant 63 : i32
      %size = arith.constant 64 : i32
      %sum = arith.addi %n, %more : i32
      %trips = arith.divsi %sum, %size : i32
      %far = scf.for %k = %zero to %trips step %one iter_args(%o = %zero) -> (i32) : i32 {
        %at = arith.muli %k, %size : i32
        %left = arith.subi %n, %at : i32
        %next = arith.addi %o, %size : i32
        scf.yield %next : i32
      }
      %q = tile.addptr %p, %far : !tile.ptr<f16>, i32 to !tile.ptr<f16>
      func.return
    }
    """
    assert facts_of(text, "at")[1:3] == (0, 2**31 - 128)
    assert facts_of(text, "far").zeros == 6
    assert facts_of(text, "q").zeros == 4
    left = next(op for op in parse_ir(text).walk() if isinstance(op, arith.SubiOp))
    assert not Facts().may_wrap(left)


def test_a_program_is_below_the_number_of_programs():
    """Of its axis, in any width; of another axis nothing is known."""
    text = """
    func.func @k() {
      %p = tile.program_id 1 : i32 : i32
      %n = tile.num_programs 1 : i32 : i32
      %m = tile.num_programs 0 : i32 : i32
      %wide = arith.extsi %p : i32 to i64
      %count = arith.extui %n : i32 to i64
      %behind = arith.subi %wide, %count : i64
      %left = arith.subi %n, %p : i32
      %other = arith.subi %m, %p : i32
      func.return
    }
    """
    assert facts_of(text, "behind").smax == -1
    assert facts_of(text, "left").smin == 1
    assert facts_of(text, "other").smin < 0
