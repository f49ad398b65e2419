"""Types of a kernel's parameters from the command line, and sensible ones where it says nothing.

    x_ptr=*fp32, y_ptr=*fp16:16, n=i32, stride=64, sizes=(i32, i64), BLOCK=1024, DTYPE=tl.float16

A type gives a runtime argument of that type (`:16`: divisible by 16). A number for a runtime
parameter is specialized as a launch with that number would be. A constexpr takes any literal, a type,
or a name of the kernel's file.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, cast

import tilewright.language as names_of_tl
from tilewright import config, dtypes
from tilewright.backends.base import Options
from tilewright.cli.loading import FoundKernel
from tilewright.dtypes import constexpr
from tilewright.errors import LaunchError
from tilewright.language.kernel_function import KernelFunction, KernelParam
from tilewright.runtime.interface import KernelDecorator, innermost
from tilewright.runtime.options import for_compilation
from tilewright.runtime.specialize import (
    ArgumentType,
    Specializer,
    annotated_type,
    parse_type,
    slot_kind,
)

#: names that by custom hold a float
_FLOATS = re.compile(r"(^|_)(eps|epsilon|scale|alpha|beta|gamma|theta|lr|momentum|prob|p)$", re.I)
_POINTER = re.compile(r"(^|_)ptrs?(_|$)", re.I)


@dataclass
class Signature:
    """Types of all parameters of a kernel, and where each came from."""

    types: dict[str, ArgumentType] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """Values, where more than the type is known."""

    def add(self, name: str, kind: ArgumentType, reason: str) -> None:
        self.types[name] = kind
        self.reasons[name] = reason

    def text(self, name: str) -> str:
        """The type in a heading: `*fp32:16`, `i32`, `= 1024`."""
        item = self.types[name]
        return _type_text(item.type) + (":16" if item.divisible else "")

    def line(self) -> str:
        """All parameters on one line."""
        return ", ".join(
            f"{n} {t}" if (t := self.text(n)).startswith("=") else f"{n}: {t}" for n in self.types
        )

    @property
    def guesses(self) -> str:
        """Names of the parameters whose types are guesses."""
        return ", ".join(n for n in self.types if self.reasons[n] == GUESS)


GUESS = "a guess from its name and use"


def _type_text(kind: Any) -> str:
    if isinstance(kind, constexpr):
        return f"= {value_text(kind.value)}"
    if isinstance(kind, tuple):
        return f"({', '.join(map(_type_text, kind))})"
    return kind.short_name


def value_text(value: Any) -> str:
    """A constexpr's value for people."""
    if isinstance(value, KernelFunction):
        return value.fn.__name__
    return str(value) if isinstance(value, dtypes.dtype) else repr(value)


def split(text: str) -> dict[str, str]:
    """`"a=1, b=(2, 3)"` as a mapping of texts."""
    found = {}
    for part in commas(text):
        name, equals, value = part.partition("=")
        if not equals:
            name, equals, value = part.partition(":")
        if not equals or not name.strip().isidentifier() or not value.strip():
            raise LaunchError(
                f"'{part}' in the signature is not NAME=TYPE",
                help='write "x_ptr=*fp32,n=i32,BLOCK=1024"',
            )
        found[name.strip()] = value.strip()
    return found


def commas(text: str) -> list[str]:
    """Split at commas, except those in brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for i, ch in enumerate(text):
        if quote:
            quote = "" if ch == quote else quote
        elif ch in "'\"":
            quote = ch
        elif ch in "([{":
            depth += 1
        elif ch in ")]}":
            depth -= 1
        elif ch in ",;\n" and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part for part in map(str.strip, parts) if part]


def resolve(
    kernel: Any,
    given: Mapping[str, Any] | None = None,
    decorated: Any = None,
    names: Mapping[str, Any] | None = None,
) -> Signature:
    """Types for every parameter of `kernel` (a JITFunction).

    Args:
        given: parameter → text as on the command line, or a value: a dtype, a pointer type, a
            number or anything else for a constexpr.
        decorated: the kernel with its decorators; the first configuration of an autotuner and
            heuristics fill constexpr parameters.
        names: what names in texts mean (the globals of the kernel's file).

    Raises LaunchError that lists the constexpr parameters without a value.
    """
    given = dict(given or {})
    unknown = [name for name in given if name not in kernel.arg_names]
    if unknown:
        raise LaunchError(
            f"{kernel.fn.__name__} has no parameter {', '.join(unknown)}",
            help=f"its parameters are {', '.join(kernel.arg_names)}",
        )
    result = Signature()
    known, words = result.values, _compared_with_text(kernel)
    specializer = Specializer(kernel.params, kernel.do_not_specialize_on_alignment)
    for p in kernel.params:
        if p.name in given:
            value = _value(p, given[p.name], names or kernel.globals, words)
            kind = _specialize(p, value, specializer)
            result.add(p.name, kind, "given")
            if not isinstance(value, ArgumentType):
                known[p.name] = value
    _from_decorators(kernel, decorated, known, result)
    pointers = _pointers(kernel)
    missing = []
    for p in kernel.params:
        if p.name in result.types:
            continue
        if p.has_default:
            result.add(p.name, specializer.argument(p, p.default), "its default")
        elif p.is_constexpr:
            missing.append(p.name)
        else:
            _guess(p, p.name in pointers, result)
    if missing:
        example = ",".join(f"{name}=…" for name in missing)
        raise LaunchError(
            f"{kernel.fn.__name__} needs values for its constexpr parameters {', '.join(missing)}",
            help=f'add --signature "{example}"',
        )
    order = {n: result.types[n] for n in kernel.arg_names}
    return Signature(order, {n: result.reasons[n] for n in order}, known)


def of_kernel(found: FoundKernel, text: str) -> Signature:
    """Types for the parameters of a kernel of a file; `text` is the command line's signature."""
    return resolve(found.kernel, split(text), found.decorated, vars(found.module))


def _value(
    p: KernelParam, value: Any, names: Mapping[str, Any], compared_with_text: set[str]
) -> Any:
    """A given text or value as an ArgumentType (all that a type says) or as a plain value."""
    if isinstance(value, str) and value.startswith("(") and not p.is_constexpr:
        items = [_value(p, part, names, compared_with_text) for part in commas(value[1:-1])]
        if not any(isinstance(item, ArgumentType) for item in items):
            return tuple(items)
        types = [item.type if isinstance(item, ArgumentType) else constexpr(item) for item in items]
        return ArgumentType(tuple(types), "tuple")
    if isinstance(value, str):
        parsed = parse_type(value)
        if parsed is None:
            return _literal(p, value, names, compared_with_text)
        value = parsed.type if p.is_constexpr else parsed
    if isinstance(value, constexpr):
        return value.value if p.is_constexpr else ArgumentType(value)
    if not p.is_constexpr and isinstance(value, (dtypes.dtype, dtypes.pointer_type)):
        return ArgumentType(value, slot_kind(value))
    return value


def _specialize(p: KernelParam, value: Any, specializer: Specializer) -> ArgumentType:
    return value if isinstance(value, ArgumentType) else specializer.argument(p, value)


def _literal(
    p: KernelParam, text: str, names: Mapping[str, Any], compared_with_text: set[str]
) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    if p.is_constexpr and text.isidentifier() and p.name in compared_with_text:
        return text  # a bare word: shells eat quotes
    head, *rest = text.split(".")
    if head == "tl" and "tl" not in names:
        value: Any = names_of_tl
    else:
        value = names.get(head)
    for part in rest:
        value = getattr(value, part, None)
    if value is not None and all(part.isidentifier() for part in (head, *rest)):
        return value
    if p.is_constexpr and text.isidentifier():
        return text
    raise LaunchError(
        f"'{text}' for parameter '{p.name}' is neither a type nor a value",
        help='types look like "*fp32", "*fp16:16", "i32", "fp32"; values are Python literals',
    )


_SIZE = 1024


class _Sizes(dict[str, Any]):
    """Arguments, with a size for those that are not known."""

    def __missing__(self, name: str) -> int:
        return _SIZE


def _from_decorators(kernel: Any, decorated: Any, known: dict[str, Any], result: Signature) -> None:
    """Values that autotune's first configuration and heuristics give, from the outside in.

    A heuristic that looks at an argument whose value is not known (EVEN_K at K) sees 1024.
    """
    while isinstance(decorated, KernelDecorator):
        own: dict[str, Any] = vars(decorated)
        chosen: dict[str, tuple[Any, str]] = {}
        configs: list[Any] = own.get("configs") or []
        for first in configs[:1]:
            for name, value in first.kwargs.items():
                chosen[name] = (value, "autotune's first configuration")
        for name, compute in (own.get("values") or {}).items():
            for values, reason in (
                (dict(known), "its heuristic"),
                (_Sizes(known), f"its heuristic, with {_SIZE} for unknown values"),
            ):
                with contextlib.suppress(Exception):
                    chosen[name] = (compute(values), reason)
                    break
        for name, (value, reason) in chosen.items():
            if name in kernel.arg_names and name not in known and name not in result.types:
                result.add(name, ArgumentType(constexpr(value)), reason)
                known[name] = value
        decorated = decorated.fn


def _guess(p: KernelParam, pointer: bool, result: Signature) -> None:
    kind, reason = annotated_type(p), "its annotation"
    aligned = kind is None and bool(pointer or _POINTER.search(p.name))
    if kind is None:
        plain = dtypes.float32 if aligned or _FLOATS.search(p.name) else dtypes.int32
        kind, reason = dtypes.pointer_type(plain) if aligned else plain, GUESS
    result.add(p.name, ArgumentType(kind, slot_kind(kind), aligned), reason)


_ACCESSES = ("load", "store", "make_block_ptr", "make_tensor_descriptor")


def _nodes(kernel: KernelFunction) -> list[ast.AST]:
    """Of its source; none where that is gone."""
    try:
        return [*ast.walk(kernel.tree)]
    except (OSError, TypeError):
        return []


def _pointers(kernel: KernelFunction) -> set[str]:
    """Parameters that some load or store starts from, by following assignments backwards."""
    sources: dict[str, set[str]] = {}
    found: list[str] = []
    for node in _nodes(kernel):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    sources.setdefault(target.id, set()).update(_bases(node.value))
        elif _is_access(node):
            found += _bases(cast(ast.Call, node).args[0])
    reached: set[str] = set()
    while found:
        name = found.pop()
        if name not in reached:
            reached.add(name)
            found += sources.get(name, ())
    return reached


def _compared_with_text(kernel: KernelFunction) -> set[str]:
    """Names that the kernel compares with text: `ACTIVATION == "relu"`."""
    found: set[str] = set()
    for node in _nodes(kernel):
        if isinstance(node, ast.Compare):
            parts = list(ast.walk(node))
            if any(isinstance(x, ast.Constant) and isinstance(x.value, str) for x in parts):
                found |= {x.id for x in parts if isinstance(x, ast.Name)}
    return found


def _is_access(node: ast.AST) -> bool:
    """Whether `node` is `tl.load(p, …)` or its like."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
        return False
    return node.func.attr in _ACCESSES or node.func.attr.startswith("atomic_")


def _bases(node: ast.expr) -> list[str]:
    """The names that a sum may start from: its first term (`x + i * 4`, `x - 1`)."""
    while isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        node = node.left
    if isinstance(node, ast.Call):  # tl.advance(p, …), make_block_ptr(p, …), p.to(…)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            return _bases(node.func.value)
        return _bases(node.args[0]) if node.args else []
    return [node.id] if isinstance(node, ast.Name) else []


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
