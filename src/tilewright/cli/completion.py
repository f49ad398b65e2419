"""`tilewright completion`: shell completion of commands, options and their values."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType

from tilewright.errors import LaunchError
from tilewright.passes.registry import all_passes
from tilewright.targets.nvidia import NAMES

SHELLS = ("bash", "zsh", "fish")
#: the shell's script sets this variable and runs the command, which prints the completions
_VARIABLE = "_TILEWRIGHT_COMPLETE"


def script(shell: str) -> str:
    """Return the text that `shell` evaluates to complete `tilewright` commands."""
    if shell not in SHELLS:
        raise LaunchError(f"unknown shell '{shell}'", help=f"use one of {', '.join(SHELLS)}")
    return _typer().get_completion_script(
        prog_name="tilewright", complete_var=_VARIABLE, shell=shell
    )


def enable() -> None:
    """Let the command answer completion requests. Requires: called before the command runs."""
    _typer().completion_init()


def _typer() -> ModuleType:
    """Return typer's module for completion, whose functions it uses from there but does not list as exports."""
    return importlib.import_module("typer.completion")


def shells(incomplete: str) -> list[str]:
    """Names of the supported shells."""
    return _matching(SHELLS, incomplete)


def codes(incomplete: str) -> list[str]:
    """Values of `--asm`."""
    return _matching(("llvm", "asm", "ptx", "sass"), incomplete)


def targets(incomplete: str) -> list[str]:
    """Values of `--target`: the CPU and the GPUs in the table of chips."""
    return _matching(("cpu", *NAMES), incomplete)


def passes(incomplete: str) -> list[str]:
    """Names of passes; of a comma-separated list the last name is completed."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _matching(all_passes(), last)]


def _matching(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))
