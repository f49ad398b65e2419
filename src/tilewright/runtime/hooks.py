"""User hooks that compilations call: `jit_cache_hook` and `jit_post_compile_hook` of `triton.knobs`.

Programs count and report compilations with them. Both get `key`, `repr`, `fn` (module, name, jit_function),
`compile` (signature, constants, options and so on), `is_manual_warmup` and `already_compiled`; the first is called
before a kernel is compiled or loaded from the disk cache, and prevents that by returning true; the second after it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

from tilewright.backends.base import Options
from tilewright.dtypes import constexpr
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.compiler import compile_kernel
from tilewright.runtime.specialize import ArgumentType, signature_text

Hook = Callable[..., Any]

before_compilation: Hook | None = None
after_compilation: Hook | None = None
after_tuning: Hook | None = None
"""Called by autotuners that have timed configurations, or read their timings from disk, with `fn`, `key`, `best_config`,
`configs_timings`, `duration` (seconds; None if all timings are from disk) and `cache_hit`."""


def compile_with_hooks(
    kernel: Any,
    signature: Mapping[str, ArgumentType],
    options: Options,
    target: Any,
    key: Any,
    warmup: bool,
) -> CompiledKernel | None:
    """`compile_kernel`, with the hooks called; `key`: under which the process remembers the result.

    Returns None if a hook prevents it.
    """
    if before_compilation is None and after_compilation is None:
        return compile_kernel(kernel, signature, options, target)
    constants = {n: t.type.value for n, t in signature.items() if isinstance(t.type, constexpr)}
    types = {n: "constexpr" if n in constants else _text(t) for n, t in signature.items()}
    chosen = asdict(options)
    details = {
        **chosen, "key": key, "signature": types, "constants": constants, "device": str(target), "is_warmup": warmup,
        "specialization_data": json.dumps(
            {"name": kernel.__qualname__, "signature": types, "constexprs": constants, "options": chosen}, default=repr
        ),
    }  # fmt: skip
    shown = ", ".join(f"{name}: {text}" for name, text in types.items())
    function = SimpleNamespace(module=kernel.module, name=kernel.__qualname__, jit_function=kernel)
    given = {
        "key": key, "repr": f"{kernel.__name__}[num_warps={options.num_warps}, num_stages={options.num_stages}]({shown})",
        "fn": function, "compile": details, "is_manual_warmup": warmup, "already_compiled": False,
    }  # fmt: skip
    if before_compilation is not None and before_compilation(**given):
        return None
    found = compile_kernel(kernel, signature, options, target)
    if after_compilation is not None:
        after_compilation(**given)
    return found


def _text(argument: ArgumentType) -> str:
    """In the syntax of `JITFunction.compile`."""
    return (
        signature_text(argument.type)
        + (":16" if argument.divisible else "")
        + ("+" if argument.nonnegative else "")
    )
