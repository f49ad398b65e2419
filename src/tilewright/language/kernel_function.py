"""`KernelFunction`: a Python function that is a kernel or a helper of one, and its parameters.

The runtime's `JITFunction` derives from it; the front end recognizes a callee by it; nothing here
compiles anything.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any, cast

from tilewright.errors import KernelTypeError, SourceLocation, UnsupportedSyntax
from tilewright.language.builtin import OutsideKernelError, active_semantics
from tilewright.language.source_lines import captured_lines, source_of

#: numbers the sources of functions that had theirs replaced
_replacements = itertools.count(1)


class KernelParam:
    """One parameter of a kernel: position, name, default and what its annotation says."""

    def __init__(self, index: int, parameter: inspect.Parameter, do_not_specialize: bool) -> None:
        self.index = index
        self.parameter = parameter
        self.name = parameter.name
        self.do_not_specialize = do_not_specialize

    @functools.cached_property
    def annotation(self) -> str:
        """The annotation as text, "" without one."""
        note = self.parameter.annotation
        if note is inspect.Parameter.empty:
            return ""
        if isinstance(note, str):
            return note
        return getattr(note, "__name__", str(note))

    @functools.cached_property
    def is_constexpr(self) -> bool:
        """Whether the parameter is annotated `tl.constexpr`."""
        return "constexpr" in self.annotation

    @property
    def num(self) -> int:
        """`index`, by Triton's name."""
        return self.index

    @property
    def is_const(self) -> bool:
        """Whether the parameter is annotated `tl.const`, a pointer that is only read."""
        return "const" in self.annotation and not self.is_constexpr

    @property
    def default(self) -> Any:
        return self.parameter.default

    @property
    def has_default(self) -> bool:
        return self.parameter.default is not inspect.Parameter.empty


def _check_function(fn: Any) -> None:
    """Raise KernelTypeError unless `fn` is a Python function, whose source and globals can be read."""
    if inspect.isfunction(fn) or inspect.ismethod(fn):
        return
    if hasattr(fn, "arg_names"):
        raise KernelTypeError(
            f"jit expects a Python function, got {fn!r}",
            help="write @jit next to the function: @autotune and @heuristics stand above it",
        )
    kind = f"the class '{fn.__qualname__}'" if isinstance(fn, type) else f"{fn!r}"
    raise KernelTypeError(
        f"jit expects a Python function, got {kind}", help="write the kernel with def"
    )


class KernelFunction:
    """A Python function written in the kernel language.

    `fn` is the plain function, `src` its source from the `def` line on (dedented), `file` and
    `first_line` say where that line stands, `params` describes its parameters. The source is
    the text of the file at the time when the function was decorated.
    """

    __test__ = False
    """For pytest: a kernel whose name begins with `test_` is no test."""
    dot_precision = "ieee"
    """`input_precision` of a `tl.dot` of fp32 tiles without one on an NVIDIA GPU (elsewhere: IEEE)."""

    def __init__(
        self,
        fn: Callable[..., Any],
        do_not_specialize: tuple[str | int, ...] = (),
        noinline: bool = False,
        noalias: tuple[str, ...] = (),
        any_extents: bool = False,
    ) -> None:
        _check_function(fn)
        self.fn = fn
        self.any_extents = any_extents
        self._lines = captured_lines(fn)
        self.noinline = noinline
        self.do_not_specialize = tuple(do_not_specialize)
        self.signature_of_fn = inspect.signature(fn)
        self.params = [
            KernelParam(i, p, i in self.do_not_specialize or p.name in self.do_not_specialize)
            for i, p in enumerate(self.signature_of_fn.parameters.values())
        ]
        self.arg_names = [p.name for p in self.params]
        self.noalias = tuple(noalias)
        for name in self.noalias:
            if name.partition(".")[0] not in self.arg_names:
                raise KernelTypeError(
                    f"noalias names '{name}', which is not a parameter of {fn.__name__}",
                    help=f"the parameters are {', '.join(self.arg_names)}",
                )
        functools.update_wrapper(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run as Python inside a kernel that runs as Python; an error anywhere else."""
        semantics = active_semantics.get()
        if semantics is None:
            raise OutsideKernelError(
                f"{self.fn.__name__} is a kernel function and was called by host code",
                help=f"launch it with a grid: {self.fn.__name__}[grid](...)",
            )
        run = getattr(semantics.builder, "run_function", None)
        return self.fn(*args, **kwargs) if run is None else run(self, args, kwargs)

    @functools.cached_property
    def _source(self) -> tuple[str, int, int, ast.stmt | None]:
        if self.fn.__name__ == "<lambda>":
            raise UnsupportedSyntax(
                "a lambda expression cannot be a kernel",
                help="write a function with def",
                location=SourceLocation(self.file, self.fn.__code__.co_firstlineno),
            )
        return source_of(self.fn, self._lines)

    @property
    def src(self) -> str:
        """Source text from the `def` line on, dedented."""
        return self._source[0]

    @property
    def first_line(self) -> int:
        """Line number of the `def` line in `file`, counted from 1."""
        return self._source[1]

    @property
    def column_offset(self) -> int:
        """Columns that dedenting removed: add to AST columns to get columns in `file`."""
        return self._source[2]

    @property
    def file(self) -> str:
        return self.replaced_file or self.fn.__code__.co_filename

    replaced_file: str = ""
    """Under which name `linecache` has the source that `replace_source` gave; "" as written."""

    def replace_source(self, source: str) -> None:
        """Let `source`, a function definition with the same parameters, be this function's source.

        Names in it are those of the function's globals and of the closure variables it had. Raises SyntaxError.
        """
        source = textwrap.dedent(source)
        name = f"<{self.fn.__qualname__} replaced {next(_replacements)}>"
        node = ast.parse(source, name).body[0]
        lines = source.splitlines(keepends=True)
        first = next(i for i, line in enumerate(lines) if line.lstrip().startswith("def "))
        linecache.cache[name] = (len(source), None, lines, name)
        ast.increment_lineno(node, -first)
        self.__dict__.pop("tree", None)
        self.__dict__.pop("_src_lines", None)
        self.__dict__["_source"] = ("".join(lines[first:]), first + 1, 0, node)
        self.replaced_file = name

    @functools.cached_property
    def tree(self) -> ast.FunctionDef:
        """The function's AST; line n of it is line `first_line + n - 1` of `file`."""
        node = self._source[3] or ast.parse(self.src).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise TypeError(f"{self.fn.__qualname__} is not a plain function")
        return node

    @functools.cached_property
    def _src_lines(self) -> list[str]:
        return self.src.splitlines()

    def location(
        self, node: ast.AST | None = None, caller: SourceLocation | None = None
    ) -> SourceLocation:
        """Location of a node of `tree` in `file`, in a call from `caller`; without a node, of the definition."""
        name, first = self.fn.__name__, self.first_line
        if not hasattr(node, "lineno"):
            return SourceLocation(self.file, first, self.column_offset, None, name, caller)
        place = cast(ast.expr, node)
        line = place.lineno
        text = self._src_lines[line - 1] if line <= len(self._src_lines) else ""
        ends = (place.col_offset, place.end_col_offset or 0)
        if not text.isascii():  # columns of a tree are bytes of UTF-8
            ends = [len(text.encode()[:end].decode(errors="replace")) for end in ends]
        start, end = ends if place.end_lineno == line else (ends[0], len(text.rstrip()))
        return SourceLocation(
            self.file, first + line - 1, start + self.column_offset, end + self.column_offset, name, caller
        )  # fmt: skip

    @property
    def globals(self) -> dict[str, Any]:
        """Module globals and closure variables that the function's body can name."""
        closure = inspect.getclosurevars(self.fn).nonlocals
        return {**self.fn.__globals__, **closure} if closure else self.fn.__globals__


def check_specialization(fn: KernelFunction, param: KernelParam) -> None:
    """Reject a `tl.constexpr` parameter that is not to be specialized on: its value is in the code."""
    no_alignment = getattr(fn, "do_not_specialize_on_alignment", ())
    listed = (
        "do_not_specialize" if param.do_not_specialize
        else "do_not_specialize_on_alignment"
        if param.name in no_alignment or param.index in no_alignment
        else ""
    )  # fmt: skip
    if param.is_constexpr and listed:
        raise KernelTypeError(
            f"parameter '{param.name}' is marked as constexpr and listed in {listed}",
            help="drop the tl.constexpr annotation, or take it off the list",
        )
