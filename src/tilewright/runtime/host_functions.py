"""Small functions that host code and kernels both call, and `compile`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def cdiv(x: int, y: int) -> int:
    """x / y rounded up, for integers: `cdiv(7, 4) == 2`."""
    return (x + y - 1) // y


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n: `next_power_of_2(5) == 8`."""
    return 1 << (n - 1).bit_length() if n > 0 else 0


def constexpr_function(fn: F) -> F:
    """Let kernels call `fn` while they are compiled, with the values of constexprs.

    Host code calls it as before. The front end runs any plain function on compile-time values; the
    mark says that this is meant.
    """
    setattr(fn, "__tilewright_constexpr__", True)  # noqa: B010
    return fn


def set_allocator(allocator: Any) -> None:
    """Accepted for Triton's sake: kernels on a CPU ask for no memory through the host."""


class ASTSource:
    """A kernel with its parameters' types and constants: the argument of `compile`.

    Args:
        fn: a JITFunction.
        signature: parameter → type text ("*fp32", "i32", "constexpr").
        constexprs: values by parameter name, or by index, also in a tuple.
        attrs: which arguments are divisible by 16: `{(index,): [["tt.divisibility", 16]]}`.
    """

    def __init__(
        self, fn: Any, signature: Mapping[str, str], constexprs: Any = None, attrs: Any = None
    ) -> None:
        self.fn = fn
        self.signature = dict(signature)
        self.constants: dict[tuple[int, ...], Any] = {}
        for key, value in (constexprs or {}).items():
            place = fn.arg_names.index(key) if isinstance(key, str) else key
            self.constants[_path(place)] = value
        self.attrs = {_path(place): marks for place, marks in (attrs or {}).items()}

    def values(self) -> dict[str, Any]:
        """Constants by name."""
        return {self.fn.arg_names[path[0]]: value for path, value in self.constants.items()}

    def types(self) -> dict[str, str]:
        """Types of the run-time arguments, ":16" after those that are divisible by 16."""
        found: dict[str, str] = {}
        constant = {path[0] for path in self.constants}
        for index, name in enumerate(self.fn.arg_names):
            text = self.signature.get(name, "constexpr")
            if index in constant or text == "constexpr":
                continue
            marks = [list(mark) for mark in self.attrs.get((index,), ())]
            found[name] = text + ":16" * (["tt.divisibility", 16] in marks)
        # of no parameter: an error when it is compiled
        return found | {n: t for n, t in self.signature.items() if n not in self.fn.arg_names}


def _path(place: int | tuple[int, ...]) -> tuple[int, ...]:
    return place if isinstance(place, tuple) else (place,)


def compile(src: Any, target: Any = "cpu", options: Any = None) -> Any:
    """Compile a source description: an object with `fn`, `signature` and `constexprs`.

    `target` is a name ("cpu", "sm_90a"), a TargetInfo or Triton's `GPUTarget("cuda", 90, 32)`.

    See `JITFunction.compile`, which this calls.
    """
    if getattr(target, "backend", None) == "cuda":
        target = f"sm_{target.arch}"
    elif getattr(target, "backend", None) == "cpu":
        target = "cpu"
    if not isinstance(src, ASTSource):
        src = ASTSource(src.fn, src.signature, getattr(src, "constexprs", None))
    return src.fn.compile(src.types(), src.values(), target=target or "cpu", options=options)
