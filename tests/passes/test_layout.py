"""One pass = one file = one name = one test file = one essay whose example runs."""

import dataclasses
import re
import textwrap
from pathlib import Path

import pytest

import tilewright.passes
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects.tile.claims import ASSUMES
from tilewright.ir.text import parse_ir, verify_ir
from tilewright.passes.base import Pass
from tilewright.passes.manager import run_pipeline
from tilewright.passes.registry import lookup, parse_pipeline
from tilewright.targets.info import GENERIC

FOLDER = Path(tilewright.passes.__path__[0])
TESTS = Path(__file__).parent
MACHINERY = {"__init__", "base", "registry", "manager", "pipeline", "show"}
FILES = sorted(f for f in FOLDER.glob("*.py") if f.stem not in MACHINERY)


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_four_names_agree(file):
    name = file.stem.replace("_", "-")
    kind = lookup(name)
    assert issubclass(kind, Pass)
    assert kind.name == name
    assert kind.__name__ == "".join(part.capitalize() for part in file.stem.split("_"))
    assert kind.__dataclass_params__.frozen
    assert all(f.default is not dataclasses.MISSING for f in dataclasses.fields(kind))
    assert (TESTS / f"{name}.mlir").is_file(), f"tests/passes/{name}.mlir is missing"


def example(docstring: str, title: str) -> str:
    """The indented block below `title:` in a docstring; or a side of the difference below `Change:`."""
    if "Change:" in docstring:
        lines = example(docstring.replace("Change:", "Both:"), "Both").splitlines()
        mark = {"Before": "-", "After": "+"}[title]
        return "".join(f"{line[2:]}\n" for line in lines if line[:1] in (" ", mark))
    match = re.search(rf"^( *){title}:\n((?:\1 +.*\n|\n)+)", docstring, re.MULTILINE)
    assert match is not None, f"no {title}: block"
    return textwrap.dedent(match.group(2))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_the_example_in_the_essay_is_true(file):
    name = file.stem.replace("_", "-")
    docstring = __import__(f"tilewright.passes.{file.stem}", fromlist=["x"]).__doc__
    before, after = (parse_ir(example(docstring, t), name) for t in ("Before", "After"))
    verify_ir(after)
    run_pipeline(before, parse_pipeline(name), GENERIC, verify="each")
    without_claims(before)
    for module in (before, after):  # the essay need not repeat constants
        run_pipeline(module, parse_pipeline("cse"), GENERIC)
        constants_first(module)
    assert before.is_structurally_equivalent(after), f"the pass gives\n{before}\nthe essay\n{after}"


def constants_first(module) -> None:
    """Where a constant stands says nothing: sort them to the front, by text; drop unused ones."""
    block = module.body.block.first_op.body.block
    found = [op for op in module.walk() if op.name == "arith.constant"]
    for op in found:
        op.detach()
    used = [op for op in found if op.result.first_use is not None]
    for op in sorted(used, key=lambda op: str(op.value), reverse=True):
        block.insert_op_before(op, block.first_op)


def without_claims(module) -> None:
    """What passes rely on is not what their examples are about."""
    for op in list(module.walk()):
        op.attributes.pop(ASSUMES, None)
        if op.name == "tile.claim":
            op.detach()


GPU = sorted(f for f in (FOLDER / "gpu").glob("*.py") if f.stem != "__init__")


@pytest.mark.parametrize("file", GPU, ids=lambda f: f.stem)
def test_passes_for_gpus_have_their_tests(file):
    name = file.stem.replace("_", "-")
    kind = lookup(name)
    assert kind.name == name
    assert kind.__name__ == "".join(part.capitalize() for part in file.stem.split("_"))
    assert kind.__dataclass_params__.frozen
    assert (TESTS / "gpu" / f"{name}.mlir").is_file(), f"tests/passes/gpu/{name}.mlir is missing"


@pytest.mark.parametrize("file", GPU, ids=lambda f: f.stem)
def test_the_example_in_the_essay_of_a_pass_for_gpus_is_true(file):
    docstring = __import__(f"tilewright.passes.gpu.{file.stem}", fromlist=["x"]).__doc__
    if "Before:" not in docstring and "Change:" not in docstring:
        # a picture; their examples are FileCheck cases
        pictures = (
            "pipeline_loads",
            "specialize_warps",
            "batch_loads",
            "strip_mine_tiles",
            "cache_in_shared",
            "partition_loops",
            "schedule_loops",
            "prefetch_loads",
            "hoist_copies",
            "widen_dots",
            "unroll_stages",
            "defer_lane_sums",
        )
        assert file.stem in pictures
        return
    before, after = (parse_ir(example(docstring, t), file.stem) for t in ("Before", "After"))
    verify_ir(after)
    step = parse_pipeline(file.stem.replace("_", "-"))
    run_pipeline(before, step, target_info("sm_90a"), verify="each")
    without_claims(before)
    assert before.is_structurally_equivalent(after), f"the pass gives\n{before}\nthe essay\n{after}"
