"""Python source of a kernel to tile IR. `build` is the whole interface.

Importing this package imports neither xDSL nor semantics; calling `build` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from tilewright.language.kernel_function import KernelFunction


@dataclass(frozen=True)
class BuiltKernel:
    """Result of the front end for a kernel.

    `module` is tile IR. `globals_read` maps (function, dotted path) to the plain value of each
    global that was compiled in. `callees` are the `@jit` functions that were inlined, in order of
    first call; a cache key covers their sources too.
    """

    module: ModuleOp
    globals_read: dict[tuple[KernelFunction, str], Any]
    callees: tuple[KernelFunction, ...]


def build(
    fn: KernelFunction,
    signature: Mapping[str, Any],
    divisibility: Mapping[str, int] | None = None,
    options: Any = None,
    name: str | None = None,
    nonnegative: frozenset[str] = frozenset(),
) -> BuiltKernel:
    """Compile `fn` to a module of tile IR with one function called `name` (default: the kernel's).

    `signature` gives each parameter a `dtype`, a `pointer_type` (for tuples: a tuple of these) or a
    `constexpr`; defaults of the function fill omitted ones. `divisibility` gives known
    divisors of pointer and integer arguments, `nonnegative` names integers that are >= 0. Of `options`, only
    `debug` is read, which keeps `device_assert`. Raises `CompilationError` with the location in the kernel's source.
    """
    from tilewright.frontend.module import build_module

    debug = bool(getattr(options, "debug", False))
    return build_module(fn, signature, divisibility or {}, debug, name, nonnegative)
