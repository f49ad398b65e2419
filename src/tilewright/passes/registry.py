"""Finding passes by name, by walking the folder: there is no list to keep by hand."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from functools import cache

import tilewright.passes as _package
from tilewright.errors import PassError
from tilewright.passes.base import Pass, option_types, read_option, tokenize


@cache
def pass_modules() -> dict[str, str]:
    """Pass name -> dotted module name, from file names alone (some modules are helpers, not passes)."""
    found = {}
    for info in pkgutil.walk_packages(_package.__path__, _package.__name__ + "."):
        if not info.ispkg:
            found[info.name.rpartition(".")[2].replace("_", "-")] = info.name
    return found


def _pass_in(module_name: str) -> type[Pass] | None:
    """The pass class that a module defines (importing one from elsewhere does not count)."""
    module = importlib.import_module(module_name)
    for _, kind in inspect.getmembers(module, inspect.isclass):
        own = kind.__module__ == module_name and not inspect.isabstract(kind)
        if own and issubclass(kind, Pass):
            return kind
    return None


def all_passes() -> dict[str, type[Pass]]:
    """Name -> class of every pass in this folder and its sub-folders."""
    found = {}
    for module_name in pass_modules().values():
        kind = _pass_in(module_name)
        if kind is not None:
            found[kind.name] = kind
    return found


def lookup(name: str) -> type[Pass]:
    """The pass class called `name`; PassError with the nearest names when there is none."""
    module_name = pass_modules().get(name)
    kind = _pass_in(module_name) if module_name else None
    if kind is None or kind.name != name:
        names = list(all_passes())
        near = difflib.get_close_matches(name, names, n=3)
        raise PassError(
            f"unknown pass {name!r}",
            help=f"did you mean {' or '.join(near)}?" if near else f"passes: {', '.join(names)}",
        )
    return kind


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """The passes that `text` names, e.g. `"simplify,unroll{factor=4}"`; inverse of `print_pipeline`."""
    tokens = tokenize(text)
    passes: list[Pass] = []
    position = 0
    while position < len(tokens):
        kind = lookup(tokens[position])
        position += 1
        options: list[str] = []
        if position < len(tokens) and tokens[position] == "{":
            if "}" not in tokens[position:]:
                raise PassError(f"{kind.name}: the options are not closed by a brace")
            end = tokens.index("}", position)
            options = tokens[position + 1 : end]
            position = end + 1
        passes.append(_make(kind, options))
        if position < len(tokens):
            if tokens[position] != ",":
                raise PassError(f"a comma is missing after {kind.name}", help=text)
            position += 1
    return tuple(passes)


def _make(kind: type[Pass], tokens: list[str]) -> Pass:
    """`kind` with the options in `tokens`: groups of `name = word (, word)*`."""
    types = option_types(kind)
    values = {}
    position = 0
    while position < len(tokens):
        option = tokens[position].replace("-", "_")
        if option not in types:
            raise PassError(
                f"{kind.name} has no option {tokens[position]}",
                help=f"options: {', '.join(types) or 'none'}",
            )
        if position + 2 >= len(tokens) or tokens[position + 1] != "=":
            raise PassError(f"{kind.name}: option {tokens[position]} has no value")
        words = [tokens[position + 2]]
        position += 3
        while position + 1 < len(tokens) and tokens[position] == ",":
            words.append(tokens[position + 1])
            position += 2
        values[option] = read_option(kind.name, option, types[option], words)
    return kind(**values)
