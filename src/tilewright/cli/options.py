"""Options of a launch on the command line: `-o num_warps=8`."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from tilewright import config
from tilewright.backends.base import Options
from tilewright.cli.loading import FoundKernel
from tilewright.errors import LaunchError
from tilewright.runtime.interface import innermost
from tilewright.runtime.options import for_compilation

#: what a listing says of a launch on a GPU
SHOWN = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def parsed_options(texts: Sequence[str]) -> dict[str, Any]:
    """`["num_warps=8", "num_stages=3,maxnreg=64"]` as a mapping. Raises LaunchError for others."""
    known = {field.name for field in fields(Options)} - {"disable"}
    found: dict[str, Any] = {}
    for text in (part for given in texts for part in given.split(",")):
        key, equals, value = text.partition("=")
        if not equals or key.strip() not in known:
            raise LaunchError(
                f"unknown option '{text}'", help=f"options: {', '.join(sorted(known))}"
            )
        try:
            found[key.strip()] = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError):
            raise LaunchError(f"'{value}' is not a value of {key}") from None
    return found


def launch_options(found: FoundKernel, given: Mapping[str, Any]) -> Options:
    """Options of a kernel as a launch of it has them: an autotuner's first configuration's, and `given`.

    Raises LaunchError for values that no launch takes.
    """
    kernel = innermost(found.kernel)
    debug = bool(kernel.debug or config.current().debug)
    return for_compilation(Options(debug=debug), {**_first_configuration(found.decorated), **given})


def _first_configuration(decorated: Any) -> dict[str, Any]:
    while decorated is not None:
        for first in getattr(decorated, "configs", None) or ():
            known = {field.name for field in fields(Options)}
            return {
                name: value
                for name, value in first.all_kwargs().items()
                if name in known and value is not None and name not in first.kwargs
            }
        decorated = getattr(decorated, "fn", None)
    return {}
