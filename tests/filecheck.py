"""FileCheck in process: tests of passes as text, thousands a minute.

A test file `normalize-loops.mlir` holds cases, separated by lines `// -----`. Each case has a line
`// RUN: <pipeline>`, which may be left out where it equals the one before, a module, and `CHECK` lines
as in LLVM's FileCheck:

    // RUN: simplify
    func.func @k(%p: !tile.ptr<i32>) {
      ...
      // CHECK: arith.constant 7
    }

The matching is done by the `filecheck` package.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from tilewright.ir.text import parse_ir
from tilewright.passes.manager import run_pipeline
from tilewright.passes.registry import parse_pipeline
from tilewright.targets import TargetInfo
from tilewright.targets.info import GENERIC

_SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
_RUN = re.compile(r"^\s*// RUN:[ \t]*(.+?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One module with its checks. `line` is where it starts in `file`, counted from 1."""

    file: str
    line: int
    pipeline: str
    text: str

    @property
    def title(self) -> str:
        """The name of its first function, for test ids."""
        match = re.search(r"func\.func @([\w$.]+)", self.text)
        return match.group(1) if match else f"line{self.line}"


class CheckFailure(AssertionError):
    """The output of a pipeline does not match the checks."""


def cases(path: Path) -> Iterator[Case]:
    """The cases of a test file, in order."""
    text = path.read_text(encoding="utf-8")
    pipeline = ""
    start = 0
    for match in [*_SEPARATOR.finditer(text), None]:
        end = match.start() if match else len(text)
        part = text[start:end]
        run = _RUN.search(part)
        pipeline = run.group(1) if run else pipeline
        if part.strip():
            yield Case(str(path), text.count("\n", 0, start) + 1, pipeline, part)
        start = match.end() if match else end


def run_case(case: Case, target: TargetInfo = GENERIC) -> str:
    """Run the pipeline of `case` on its module and match the checks; the IR afterwards.

    Raises CheckFailure with the report of FileCheck and the whole output.
    """
    if not case.pipeline:
        raise CheckFailure(f"{case.file}:{case.line}: no RUN line")
    module = parse_ir(case.text, case.file)
    run_pipeline(module, parse_pipeline(case.pipeline), target, verify="each")
    output = str(module) + "\n"
    match_checks(case.text, output, f"{case.file}:{case.line}")
    return output


def match_checks(checks: str, output: str, name: str = "checks") -> None:
    """Match `output` against the CHECK lines in `checks`; CheckFailure when they do not fit."""
    options = Options(match_filename=name)
    parser = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    matcher = Matcher(options, FInput("output", output), parser)
    report = io.StringIO()
    matcher.stderr = report
    if matcher.run() != 0:
        raise CheckFailure(f"{report.getvalue()}\n---- output of the pipeline ----\n{output}")


def collect(path: Path, parent: Any, target: TargetInfo = GENERIC) -> Any:
    """For `pytest_collect_file`: a collector of the cases in an `.mlir` file, else None.

    `target` is the machine that the passes are told of.
    """
    if path.suffix != ".mlir":
        return None
    import pytest

    class CaseItem(pytest.Item):
        case: Case

        def runtest(self) -> None:
            run_case(self.case, target)

        def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
            if excinfo.errisinstance(CheckFailure):
                return str(excinfo.value)
            return super().repr_failure(excinfo, style)

        def reportinfo(self) -> tuple[Path, int, str]:
            return path, self.case.line - 1, self.name

    class CaseFile(pytest.File):
        def collect(self) -> Iterator[pytest.Item]:
            for case in cases(path):
                item = CaseItem.from_parent(self, name=case.title)
                item.case = case
                yield item

    return CaseFile.from_parent(parent, path=path)
