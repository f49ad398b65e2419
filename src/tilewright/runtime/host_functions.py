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
    """The argument of `compile`: a kernel, its parameters' types as text, its constants.

    `constexprs` is by name, or by index as a tuple. `attrs` says which arguments are divisible by 16:
    `{(index,): [["tt.divisibility", 16]]}`.
    """

    def __init__(
        self, fn: Any, signature: Mapping[str, str], constexprs: Any = None, attrs: Any = None
    ) -> None:
        self.fn = fn
        self.signature = {k: v for k, v in signature.items() if v != "constexpr"}
        self.constexprs = dict(constexprs or {})
        for path, marks in (attrs or {}).items():
            name = fn.arg_names[path[0] if isinstance(path, tuple) else path]
            if name in self.signature and ["tt.divisibility", 16] in [list(m) for m in marks]:
                self.signature[name] += ":16"


def compile(src: Any, target: Any = "cpu", options: Any = None) -> Any:
    """Compile a source description: an object with `fn`, `signature` and `constexprs`.

    `target` is a name ("cpu", "sm_90a"), a TargetInfo or Triton's `GPUTarget("cuda", 90, 32)`.

    See `JITFunction.compile`, which this calls.
    """
    constants = getattr(src, "constexprs", None) or {}
    names = src.fn.arg_names
    by_name = {names[k[0] if isinstance(k, tuple) else k] if not isinstance(k, str) else k: v
               for k, v in constants.items()}  # fmt: skip
    signature = {k: v for k, v in src.signature.items() if k not in by_name}
    if getattr(target, "backend", None) == "cuda":
        target = f"sm_{target.arch}"
    elif getattr(target, "backend", None) == "cpu":
        target = "cpu"
    return src.fn.compile(signature, by_name, target=target or "cpu", options=options)
