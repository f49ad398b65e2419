"""Run a user's program for the launches that it makes: the same values in every run, and no time for its own benchmarks.

Random generators start from the same seeds, and tensors that programs leave uninitialized are zero. `do_bench` calls its function
once, and a `perf_report` runs each provider at the last size only. A file that launches nothing but has pytest's test
functions is run by pytest.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import random
import runpy
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

_UNINITIALIZED = ("empty", "empty_like", "empty_strided", "empty_permuted")
_KEPT: list[Any] = []
"""The program's globals: memory that kernels reach through pointers in memory stays allocated."""


def run_program(program: str, arguments: Sequence[str], launched: Callable[[], bool]) -> str:
    """Run a file or a module as `python PROGRAM` would. Returns the error that ended it, or "".

    What it launched before an error counts. `launched`: whether it has launched a kernel.
    """
    path = Path(program)
    is_file = path.suffix == ".py" or path.exists()
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(path.resolve().parent) if is_file else "")
    with _same_values(), _short_benchmarks():
        error = _caught(lambda: _KEPT.append(_run(program, is_file)))
        if (
            not error
            and is_file
            and not launched()
            and "def test_" in path.read_text(encoding="utf-8", errors="replace")
        ):
            error = _caught(lambda: _run_tests(path, arguments))
    return error


def _run(program: str, is_file: bool) -> Any:
    if is_file:
        return runpy.run_path(program, run_name="__main__")
    return runpy.run_module(program, run_name="__main__", alter_sys=True)


def _caught(run: Callable[[], object]) -> str:
    try:
        run()
    except SystemExit as end:
        return "" if end.code in (None, 0) else f"the program ended with exit status {end.code}"
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    return ""


def _run_tests(path: Path, arguments: Sequence[str]) -> None:
    """Run the file's tests. Later tests run after one that fails."""
    pytest: Any = importlib.import_module("pytest")
    found = int(pytest.main(["-q", "-p", "no:cacheprovider", str(path), *arguments]))
    if found:
        raise RuntimeError(f"pytest ended with exit status {found}")


@contextlib.contextmanager
def _same_values() -> Generator[None]:
    """Seed the random generators, and zero uninitialized tensors meanwhile."""
    import torch

    torch.manual_seed(0)
    random.seed(0)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy").random.seed(0)
    makers = [(torch, name) for name in _UNINITIALIZED]
    makers += [(torch.Tensor, "new_empty"), (torch.Tensor, "new_empty_strided")]
    with contextlib.ExitStack() as replaced:
        for owner, name in makers:
            made = _zeroed(getattr(owner, name))
            replaced.enter_context(mock.patch.object(owner, name, made))
        yield


def _zeroed(function: Any) -> Any:
    @functools.wraps(function)
    def make(*args: Any, **more: Any) -> Any:
        made = function(*args, **more)
        kind = getattr(getattr(made, "device", None), "type", "meta")
        if kind == "meta" or not made.numel():
            return made
        with contextlib.suppress(RuntimeError, NotImplementedError):  # types that nothing fills
            made.detach().zero_()
        return made

    return make


@contextlib.contextmanager
def _short_benchmarks() -> Generator[None]:
    """Let `triton.testing` measure nothing."""
    try:
        testing: Any = importlib.import_module("triton.testing")
    except ImportError:
        yield
        return
    with contextlib.ExitStack() as replaced:
        for name in ("do_bench", "do_bench_cudagraph"):
            if hasattr(testing, name):
                replaced.enter_context(mock.patch.object(testing, name, _call_once))
        if hasattr(testing, "Mark"):
            replaced.enter_context(mock.patch.object(testing.Mark, "run", _run_last_sizes))
        yield


def _call_once(fn: Callable[[], Any], *_: Any, quantiles: Any = None, return_mode: str = "mean", **__: Any) -> Any:  # fmt: skip
    fn()
    if quantiles is not None:
        return [1.0] * len(quantiles) if len(quantiles) > 1 else 1.0
    return [1.0] if return_mode == "all" else 1.0


def _run_last_sizes(self: Any, *_: Any, return_df: bool = False, show_plots: bool = False, print_data: bool = False, save_path: str = "", **more: Any) -> Any:  # fmt: skip
    """`Mark.run`: every line of every plot, at its last size. A line that fails is reported."""
    one = not isinstance(self.benchmarks, (list, tuple))
    for plot in [self.benchmarks] if one else self.benchmarks:
        for given in _last_points(plot):
            try:
                self.fn(**given, **plot.args, **more)
            except Exception:
                traceback.print_exc()
    return None if not return_df else (None if one else [])


def _last_points(plot: Any) -> Iterator[dict[str, Any]]:
    for line in plot.line_vals:
        x = list(plot.x_vals)[-1]
        x = x if isinstance(x, (list, tuple)) else [x] * len(plot.x_names)
        yield {**dict(zip(plot.x_names, x, strict=False)), plot.line_arg: line}
