"""Every pass, and every beginning of the pipeline, leaves the results of programs as they are."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tilewright.ir.text import parse_ir
from tilewright.passes.base import print_pipeline
from tilewright.passes.manager import run_pipeline
from tilewright.passes.pipeline import shared_passes
from tilewright.passes.registry import parse_pipeline
from tilewright.targets.info import GENERIC

pytestmark = pytest.mark.sampled(4, full=4)

HERE = Path(__file__).parent


def beside(name):
    """A helper module from this folder."""
    spec = importlib.util.spec_from_file_location(f"pass_tests_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle = beside("oracle")
random_programs = beside("random_programs")
random_control = beside("random_control")
LIST = shared_passes()
PIPELINES = [
    *(print_pipeline(LIST[: n + 1]) for n in range(len(LIST))),
    *sorted({p.spec for p in LIST}),
    "carry-offsets,raise-access",
]


def floats(count, kind=np.float32):
    return np.random.default_rng(count).standard_normal(count).astype(kind)


def integers(count, low=-1000, high=1000):
    return np.random.default_rng(count).integers(low, high, count).astype(np.int32)


def matmul(m, n, k):
    a, b, c = (floats(size, np.float16) for size in (m * k + 1, k * n + 1, m * n))
    return [a, b, c, m, n, k, k, n, n], (-(-m // 32), -(-n // 64), 1)


CASES = {
    "add": [([floats(100)] * 3 + [n, 3], (2, 1, 1)) for n in (0, 1, 16, 77, 96)],
    "softmax": [([floats(100), floats(100), 50, n], (2, 1, 1)) for n in (1, 7, 8, 40)],
    "loops": [
        ([integers(60), *numbers], (1, 1, 1))
        for numbers in (
            (0, 10, 3, 7),
            (10, -3, -4, 20),
            (5, 5, 1, 5),
            (-7, 12, 5, 0),
            (2**31 - 5, 2**31 - 1, 2, 2**31 - 8),
            (-(2**31), -(2**31) + 9, 2, -(2**31) + 7),
        )
    ],
    "carried": [([integers(300), integers(16), n, s], (1, 1, 1)) for n, s in ((0, 3), (5, 9))],
    "gather": [
        ([floats(600), integers(40, -5, 30), floats(600), n, columns, low, flag], (2, 1, 1))
        for n, columns, low, flag in ((3, 5, 0, 1), (20, 16, 4, 1), (8, -3, 4, 1), (8, 9, 0, 0))
    ],
    "matmul_wrapped": [matmul(33, 64, 16), matmul(40, 70, 19), matmul(5, 3, 1)],
}


def check(text, arguments, grid, pipelines):
    expected = oracle.execute(parse_ir(text), arguments, grid)
    seen = {}
    for pipeline in pipelines:
        module = parse_ir(text)
        run_pipeline(module, parse_pipeline(pipeline), GENERIC, verify="each")
        after = str(module)
        if after in seen:
            continue
        seen[after] = pipeline
        got = oracle.execute(module, arguments, grid)
        for a, b in zip(expected, got, strict=True):
            close = np.allclose(a, b, rtol=2e-3, atol=1e-5, equal_nan=True)
            assert close if a.dtype.kind == "f" else np.array_equal(a, b), f"{pipeline}\n{after}"
    return seen


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, cases in CASES.items() for i in range(len(cases))]
)
def test_programs(name, number):
    text = (HERE / "programs" / f"{name}.tile").read_text()
    pipelines = PIPELINES if number == 0 else PIPELINES[len(LIST) - 1 : len(LIST)]
    check(text, *CASES[name][number], pipelines)


def test_programs_raise_completely():
    for name in CASES:
        module = parse_ir((HERE / "programs" / f"{name}.tile").read_text())
        run_pipeline(module, LIST, GENERIC)
        left = [op for op in module.walk() if op.name in ("tile.load", "tile.store")]
        assert all(not oracle.shape_of(op.pointer) for op in left), name


def check_random(seed):
    """One random access program, raised alone and through the whole pipeline."""
    text, arguments = random_programs.program(seed)
    try:
        check(text, arguments, (2, 1, 1), ["raise-access", print_pipeline(LIST)])
    except oracle.OutOfBounds:
        # only the program as written may be wild: raising must not make it so
        with pytest.raises(oracle.OutOfBounds):
            oracle.execute(parse_ir(text), arguments, (2, 1, 1))


def check_control(seed):
    """One random program of scalars, branches and loops."""
    text, arguments = random_control.program(seed)
    pipelines = ["simplify", "normalize-loops", "normalize-loops,cse,licm", print_pipeline(LIST)]
    check(text, arguments, (1, 1, 1), pipelines)


@pytest.mark.parametrize("seed", range(24))
def test_random_accesses(seed):
    check_random(seed)


@pytest.mark.parametrize("seed", range(16))
def test_random_control(seed):
    check_control(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(20))
def test_much_random_control(block):
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check_control(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(40))
def test_many_random_accesses(block):
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        check_random(seed)
