"""`GeneratedKernel`: a program of the generator, launched and cached like a jit function."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.frontend import BuiltKernel
from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import Contraction, Step
from tilewright.generator.program import NUMBER, POINTER, Program, programs
from tilewright.language.kernel_function import KernelFunction
from tilewright.runtime.dependencies import Dependencies, dependencies_of
from tilewright.runtime.jit import JITFunction


class GeneratedKernel(JITFunction):
    """A kernel without source: its IR is made by `program`."""

    written = False

    def __init__(self, program: Program) -> None:
        super().__init__(_stand_in(program))
        self.program = program

    def build(
        self,
        signature: Mapping[str, Any],
        divisibility: Mapping[str, int],
        options: Any,
        name: str | None,
        nonnegative: frozenset[str] = frozenset(),
    ) -> Any:
        """`nonnegative` adds nothing: a described matmul's indices are counters, its extents positive."""
        module = self.program.build(signature, divisibility, name=name)
        return BuiltKernel(module, {}, ())

    @property
    def dependencies(self) -> Dependencies:
        """The program's description, and what the user's epilogue functions depend on."""
        if self._dependencies is None:
            found = Dependencies([_text(self.program)])
            for step in self.program.contraction.epilogue:
                if isinstance(step.function, KernelFunction):
                    found.add(dependencies_of(step.function))
            self._dependencies = found
        return self._dependencies

    def launch_options(self) -> dict[str, Any]:
        """Keywords of its launches."""
        if self.program.part == "total":
            return {"num_warps": 4}
        config = self.program.config
        options: dict[str, Any] = {"num_warps": config.num_warps, "num_stages": config.num_stages}
        off = config.left_out
        if self.program.contraction.indices_64bit:  # TMA coordinates have 32 bits
            off = (*config.with_(use_tma=False).left_out, "lower-stores-to-tma")
        return {**options, "disable": off} if off else options


def _text(program: Program) -> str:
    """The description for keys: everything but the identity of functions."""
    contraction = program.contraction
    steps = [(s.kind, s.extras, s.dtype, _function_name(s)) for s in contraction.epilogue]
    matrices = [(name, o.dtype, o.batch) for name, o in contraction.matrices]
    facts = (
        matrices, contraction.accumulator_type, contraction.precision, contraction.has_alpha,
        contraction.batch_rank, contraction.offsets_64bit, contraction.indices_64bit, contraction.size_divisors, steps, program.config, program.part,
        program.noalias_output, program.multi_dim_grid,
    )  # fmt: skip
    return repr(facts)


def _function_name(step: Step) -> str:
    function = step.function
    if isinstance(function, KernelFunction):
        return function.fn.__qualname__
    return "" if function is None else function.digest


def _stand_in(program: Program) -> Callable[..., Any]:
    """A function with the program's name and parameters: what binding and specialising look at."""

    def generated(*arguments: Any) -> None:
        """Not run: the program is tile IR."""

    kinds = inspect.Parameter
    parameters = [
        kinds(
            p.name,
            kinds.POSITIONAL_OR_KEYWORD,
            annotation=p.dtype if p.kind == NUMBER else kinds.empty,
        )
        for p in program.parameters
    ]
    generated.__name__ = generated.__qualname__ = re.sub(r"\W", "_", program.name)
    generated.__signature__ = inspect.Signature(parameters)
    return generated


def kernels(
    contraction: Contraction,
    config: MatmulConfig,
    noalias_output: bool = False,
    multi_dim_grid: bool = False,
) -> tuple[GeneratedKernel, ...]:
    """The kernels of a contraction, to be launched in order; the same objects for the same arguments.

    `noalias_output`, `multi_dim_grid`: as in `Program`.
    """
    return tuple(map(_kernel, programs(contraction, config, noalias_output, multi_dim_grid)))


@functools.lru_cache(maxsize=4096)
def _kernel(program: Program) -> GeneratedKernel:
    return GeneratedKernel(program)


def pointer_names(kernel: GeneratedKernel) -> list[str]:
    """Names of its pointers, in order."""
    return [p.name for p in kernel.program.parameters if p.kind == POINTER]
