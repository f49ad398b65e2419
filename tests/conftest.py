"""Fixtures that several test folders share."""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

_PATIENT: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fixed", derandomize=True, **_PATIENT)
settings.register_profile("explore", derandomize=False, **_PATIENT)
settings.load_profile("fixed")
"""The same examples on every run, however busy the machine, so that a failure is the change's; `make test-long`
looks at others."""


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Numbers from generators that nobody seeds are the same on every run, whatever tests ran before."""
    random.seed(0)
    np.random.seed(0)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files with what tests produce"
    )
    parser.addoption(
        "--also-compile",
        metavar="TARGETS",
        help="compile kernels that tests launch on the CPU for these too (sm_80,sm_90a)",
    )
    parser.addoption(
        "--also-compile-in",
        metavar="FOLDERS",
        default="",
        help="only those of tests in these folders of tests/ (cpu,seeds)",
    )
    parser.addoption(
        "--also-compile-every",
        metavar="N",
        type=int,
        default=1,
        help="only those of one in N tests, the same ones in each run",
    )


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow, or long, the cases that `sampled(n, full=m)` leaves out of the core, or of the full suite."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and hasattr(item, "callspec"):
            cases[item.path, item.originalname].append(item)
    for group in cases.values():
        mark = group[0].get_closest_marker("sampled")
        core = _sample(group, -(-len(group) // mark.args[0]))
        full = core | _sample(group, -(-len(group) // mark.kwargs.get("full", 1)))
        for item in group:
            if item not in core:
                item.add_marker("slow" if item in full else "long")


def _sample(cases: list[pytest.Item], count: int) -> set[pytest.Item]:
    """At least `count` cases, the same on every run; among them each value of every parameter that has at most `count`."""
    order = random.Random(len(cases)).sample(cases, len(cases))
    # cases of stacked parameters share the values themselves
    values = {item: {(name, id(v)) for name, v in item.callspec.params.items()} for item in cases}
    number = Counter(name for name, _ in set().union(*values.values()))
    kept, seen = set(), set()
    for item in order:
        new = {value for value in values[item] - seen if number[value[0]] <= count}
        if new:
            kept.add(item)
            seen |= new
    others = (item for item in order if item not in kept)
    return kept | {item for item, _ in zip(others, range(count - len(kept)), strict=False)}


@pytest.fixture(autouse=True)
def also_compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --also-compile: kernels compile for GPUs too, and are assembled where ptxas is found.

    A test fails where one does not, unless it asks for more memory than the chip has, and where the
    assembler had to serialise tensor core instructions. Of the random programs each tenth test does so.
    """
    targets = request.config.getoption("--also-compile")
    folders = [name for name in request.config.getoption("--also-compile-in").split(",") if name]
    if folders and not any(
        Path(__file__).parent / name in request.path.parents for name in folders
    ):
        return
    if crc32(request.node.nodeid.encode()) % request.config.getoption("--also-compile-every"):
        return
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    if targets and parameters.get("shard", 0) % 10 == 0:
        from tests.also_compile import compile_twice

        compile_twice(targets, monkeypatch)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(text, name)` compares `text` with `golden/<name>` beside the test file."""

    def check(text: str, name: str) -> None:
        path = Path(request.path).parent / "golden" / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing; run pytest with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check
