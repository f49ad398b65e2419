"""A pass that is not run, because it is about other operations or has just been run, would change nothing."""

import importlib.util
import random
from pathlib import Path

import pytest
from tests.random.programs import generate

from tilewright.backends.cpu.pipeline import cpu_passes
from tilewright.backends.cpu.target import host_target
from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.ir.text import parse_ir, print_ir
from tilewright.language.kernel_function import KernelFunction
from tilewright.passes.analysis.effects import erase_dead
from tilewright.passes.base import Pass
from tilewright.passes.manager import run_pipeline
from tilewright.targets.info import GENERIC

pytestmark = pytest.mark.sampled(6, full=6)

_spec = importlib.util.spec_from_file_location(
    "each_gpu_pass", Path(__file__).with_name("test_each_gpu_pass.py")
)
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)
TARGETS = {"cpu": (cpu_passes, host_target), "gpu": (nvidia_passes, lambda: target_info("sm_90a"))}


def live(module):
    """The text of a module without dead operations, which any pass may leave or erase."""
    module = module.clone()
    for function in module.body.block.ops:
        erase_dead(function.body.block)
    return print_ir(module)


def check(text, kind):
    passes, target = TARGETS[kind][0](), TARGETS[kind][1]()
    module = cases.module_with(text, 4, 3)
    left_out = 0
    for current in passes:
        idle = current.relevant_ops and {op.name for op in module.walk()}.isdisjoint(
            current.relevant_ops
        )
        before = live(module) if idle else ""
        current.apply(module, target)
        if idle:
            left_out += 1
            assert live(module) == before, current.name
        if current.idempotent:
            before = print_ir(module)
            current.apply(module, target)
            assert print_ir(module) == before, current.name
    return left_out


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("index", range(len(cases.seeds.CASES)))
def test_documents_kernels(index, kind):
    check(cases.text_of("seed", index), kind)


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("number", range(8))
def test_random_programs(number, kind):
    program = generate(random.Random(number))
    text = str(build(KernelFunction(program.function()), program.signature(), {}).module)
    check(text, kind)


def test_most_passes_are_about_something():
    assert check(cases.text_of("seed", 0), "gpu") >= 15


def test_the_manager_leaves_them_out():
    ran = []

    class Watched(Pass):
        name = "watched"

        def __init__(self, relevant_ops, idempotent):
            object.__setattr__(self, "relevant_ops", relevant_ops)
            object.__setattr__(self, "idempotent", idempotent)

        def __eq__(self, other):
            return isinstance(other, Watched) and self.relevant_ops == other.relevant_ops

        def __hash__(self):
            return 0

        def apply(self, module, target):
            ran.append(self.relevant_ops)

    text = "func.func @k() {\n  func.return\n}\n"
    loops, returns = Watched(("scf.for",), False), Watched(("func.return",), True)
    result = run_pipeline(parse_ir(text), [loops, returns, loops, returns], GENERIC)
    assert ran == [("func.return",)]  # the second would find what the first has left
    assert result.ran == ("watched",) * 4
