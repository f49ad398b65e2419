"""Tensors read and written by user kernels in compiled functions.

torch determines the mutated arguments from Triton's IR. This module uses the analysis of tile IR for the launch plan
(`backends.lowering`): pointers reachable by a store or an atomic are written, all may be read.

What a kernel with several configurations writes is restored after they have been measured, as by tilewright's autotuner.
torch by itself restores what `restore_value` names, and measures each launch of a function that differs from others.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from typing import Any

from tilewright.backends.base import Options
from tilewright.errors import TilewrightError
from tilewright.integrations.inductor.replacements import Replacement
from tilewright.runtime.compiler import build_ir
from tilewright.runtime.heuristics import Heuristics
from tilewright.runtime.jit import JITFunction
from tilewright.runtime.specialize import MockTensor, Specializer

_WRAP = "torch._higher_order_ops.triton_kernel_wrap"


class ConstexprFunction:
    """Triton's class of functions that run while kernels are compiled; ours are plain functions."""


class _LaunchOfHeuristics(Replacement):
    """`Heuristics.__getitem__`, when torch's module of user kernels is there."""

    def _owner(self, module: Any) -> tuple[Any, str]:
        return (None if module is None else Heuristics), self.path


def _traceable(_: Any, __: Any) -> Any:
    """`Heuristics.__getitem__` for Dynamo, which traces it to the kernel below and knows that.

    Without Inductor's help it is hidden from Dynamo, as all launches are.
    """
    torch = sys.modules["torch"]

    def bind(self: Any, grid: Any) -> Any:
        def launch(*args: Any, **kwargs: Any) -> Any:
            if not torch.compiler.is_compiling():
                return self.run(*args, grid=grid, **kwargs)
            known = {**self._defaults, **dict(zip(self.arg_names, args, strict=False)), **kwargs}
            for name, compute in self.values.items():
                kwargs[name] = known[name] = compute(known)
            return self.fn[grid](*args, **kwargs)

        return launch

    return bind


def _answering(module: Any, original: Any) -> Any:
    @functools.wraps(original)
    def identify(kernel: Any, kwargs: dict[str, Any], *rest: Any, **more: Any) -> Any:
        tensors = {name: dtype for name, v in kwargs.items() if (dtype := _dtype(v)) is not None}
        written = written_tensors(kernel, kwargs, tensors)
        if written is None:
            return original(kernel, kwargs, *rest, **more)
        if original.__name__ == "identify_mutated_tensors":
            return written
        dependencies = sys.modules["torch._inductor.dependencies"]
        every = module.OrderedSet(dependencies.StarDep(name) for name in tensors)
        changed = module.OrderedSet(dependencies.StarDep(name) for name in written)
        none = module.OrderedSet()
        read_writes = dependencies.ReadWrites(reads=every, writes=changed, index_exprs=none)
        return module.TensorAccesses(read_writes, can_fuse_epilogue=False)

    return identify


def _restoring(_: Any, original: Any) -> Any:
    """`UserDefinedTritonKernel.get_kernel_and_metadata`, which names the tensors to restore for the code of a launch."""

    def metadata(self: Any) -> tuple[Any, ...]:
        kernel, configs, restored, *rest = original(self)
        if len(configs) > 1:
            written = getattr(self, "mutable_args", ())  # a node that is being made has none yet
            given = getattr(self, "kernel_args", {})
            names = [n for n, value in given.items() if any(value is each for each in written)]
            restored = [*restored, *(n for n in names if n not in restored)]
        return kernel, configs, restored, *rest

    return metadata


def _dtype(value: Any) -> Any:
    """The dtype of a tensor stand-in: a fake tensor or an Inductor TensorBox."""
    get = getattr(value, "get_dtype", None)
    if get is not None:
        return get()
    return getattr(value, "dtype", None) if hasattr(value, "data_ptr") else None


def written_tensors(
    kernel: Any, kwargs: Mapping[str, Any], tensors: Mapping[str, Any]
) -> list[str] | None:
    """Names of the tensors among `kwargs` that `kernel` may write; None if that is not to be found out."""
    given = dict(kwargs)
    while not isinstance(kernel, JITFunction):
        configs = getattr(kernel, "configs", None)
        if configs:
            given.update(configs[0].kwargs)
        kernel = getattr(kernel, "fn", None)
        if kernel is None:
            return None
    specializer = Specializer(kernel.params, tuple(kernel.arg_names))
    signature = {}
    for p in kernel.params:
        value = given.get(p.name, p.default if p.has_default else None)
        if p.name in tensors:
            value = MockTensor(tensors[p.name])
        elif not p.is_constexpr and value is not None and not isinstance(value, (bool, int, float)):
            value = 2  # a size that torch knows by a symbol
        try:
            signature[p.name] = specializer.argument(p, value)
        except TilewrightError:
            return None
    try:
        from tilewright.backends.lowering import launch_arguments

        found = launch_arguments(build_ir(kernel, signature, Options()))
    except TilewrightError:
        return None
    return [a.name for a in found if a.kind == "pointer" and a.written]


REPLACEMENTS = (
    _LaunchOfHeuristics(_WRAP, "__getitem__", _traceable),
    # torch 2.13's function, and that of versions before
    Replacement(_WRAP, "identify_accessed_tensors", _answering),
    Replacement(_WRAP, "identify_mutated_tensors", _answering),
    Replacement(
        "torch._inductor.ir", "UserDefinedTritonKernel.get_kernel_and_metadata", _restoring
    ),
)
