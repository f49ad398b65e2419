"""What a pass is, and how one is written as text.

A pass is a frozen dataclass: its fields are its options, its `name` is its command-line name (and, with
underscores, its file name), its docstring is a short essay with an example in IR, as `Before:` and
`After:` blocks or as their difference, `Change:`, that a test runs. Text and pass convert into each other without loss::

    raise-access
    unroll{factor=4 keep-tail=false}
    pick{order=2,0,1 label="outer loop"}

so that every run of the compiler can be repeated from the text of its pipeline.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from tilewright.errors import PassError
from tilewright.targets import TargetInfo


def functions_of(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions of a module that have a body."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.body.blocks:
            yield op


@dataclasses.dataclass(frozen=True)
class Pass(ABC):
    """A named rewrite of a module in place.

    Subclasses with options are declared as frozen dataclasses, with defaults for all fields. Field types:
    `bool`, `int`, `float`, `str` and `tuple[int, ...]` or `tuple[str, ...]`.
    """

    name: ClassVar[str]
    """The class's in kebab-case, unless it says another; the file is this name with underscores."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Names of passes without which this one has nothing to do or does harm: when one of them is
    disabled, this pass is dropped as well."""
    fallback_options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Other pass -> options that this pass takes when that one is disabled (the next form takes over)."""
    relevant_ops: ClassVar[tuple[str, ...]] = ()
    """Names of operations without any of which the pass has nothing to do, and is not run; () where there
    always may be something."""
    idempotent: ClassVar[bool] = False
    """Whether the pass leaves nothing to do for itself, and is not run again before another has been."""
    mandatory_reason: ClassVar[str] = ""
    """Why the pass cannot be disabled; "" when it can."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        if cls.__doc__ is None:  # one pass a file, which begins with the essay
            cls.__doc__ = sys.modules[cls.__module__].__doc__

    @abstractmethod
    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        """Rewrite `module` for a machine."""

    @property
    def spec(self) -> str:
        """The pass as text: its name, and in braces the options that differ from their defaults."""
        options = [
            f"{f.name.replace('_', '-')}={_print_option(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if getattr(self, f.name) != f.default
        ]
        return f"{self.name}{{{' '.join(options)}}}" if options else self.name

    def __str__(self) -> str:
        return self.spec


class FunctionPass(Pass):
    """A pass that rewrites every function on its own."""

    def apply(self, module: ModuleOp, target: TargetInfo) -> None:
        for function in functions_of(module):
            self.run(function, target)

    @abstractmethod
    def run(self, function: FuncOp, target: TargetInfo) -> None:
        """Rewrite `function` for a machine."""


def print_pipeline(passes: tuple[Pass, ...] | list[Pass]) -> str:
    """The pipeline as text, one comma between passes; `registry.parse_pipeline` reads it back."""
    return ",".join(p.spec for p in passes)


# ---- option values ---------------------------------------------------------------------------------


def _print_option(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_print_option(item) for item in value) if value else "()"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, str) else repr(value)


_TOKEN = re.compile(
    r"""\s*(?: (?P<string>"(?:[^"\\]|\\.)*") | (?P<word>[A-Za-z_][\w.\-]*)
          | (?P<number>[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|inf|nan)) | (?P<empty>\(\)) | (?P<mark>[{}=,]) )""",
    re.VERBOSE,
)


def tokenize(text: str) -> list[str]:
    """Names, quoted strings, numbers, `()` and the marks `{ } = ,` of a pipeline text."""
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise PassError(
                f"cannot read the pipeline {text!r} at column {position + 1}",
                help='write name,name{option=value other="text"}',
            )
        tokens.append(match.group().strip())
        position = match.end()
    return tokens


def option_types(kind: type[Pass]) -> dict[str, Any]:
    """Option name (with underscores) -> type, for the fields of a pass class."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in dataclasses.fields(kind)}


def read_option(pass_name: str, option: str, kind: Any, words: list[str]) -> Any:
    """The value of `option`, whose tokens between commas are `words`."""
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return (
            () if words == ["()"] else tuple(_read_word(pass_name, option, item, w) for w in words)
        )
    if len(words) != 1:
        raise PassError(f"{pass_name}: option {option} takes one value, {len(words)} given")
    return _read_word(pass_name, option, kind, words[0])


def _read_word(pass_name: str, option: str, kind: Any, word: str) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[word]
        if kind is str:
            return json.loads(word) if word.startswith('"') else word
        return kind(word)
    except (KeyError, ValueError) as error:
        name = getattr(kind, "__name__", kind)
        raise PassError(f"{pass_name}: option {option} is not of type {name}: {word}") from error
