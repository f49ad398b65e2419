"""Kernels as Inductor handles them: described by an ASTSource, compiled, pickled, loaded, launched.

A `CompiledKernel` here has what torch's `TritonCompileResult` reads of Triton's, and is plain data but for
`module`, `function` and `run`: those are what torch drops when it pickles, and `_init_handles` makes again.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tilewright.backends import registry
from tilewright.backends.base import Artifact, LaunchPlan, Options
from tilewright.integrations.inductor import bundles
from tilewright.runtime import compiled as native
from tilewright.runtime import options as launch_options
from tilewright.runtime.host_functions import ASTSource
from tilewright.targets import TargetInfo


class InterpretedFunction:
    """Triton's class of kernels under TRITON_INTERPRET; ours are JITFunctions there, too."""


class CompiledKernel:
    """A kernel compiled for Inductor.

    Attributes:
        src: the ASTSource. name, hash: its entry symbol; the key that it is cached under.
        metadata: a dict's worth of `num_warps`, `shared`, `name` … as attributes.
        packed_metadata: what `run` is given and ignores.
        module: the loaded kernel (`runtime.compiled.CompiledKernel`), None before `_init_handles`.
        function: not None once it is loaded. run: the launch, see `_launch_function`.
    """

    def __init__(self, src: ASTSource, compiled: native.CompiledKernel) -> None:
        self.src = src
        self.hash = compiled.hash
        self.name = compiled.name
        self.options: Options = compiled.options
        self.machine: TargetInfo = compiled.target
        self.artifact = Artifact(compiled.name, compiled.artifact.object_code, compiled.plan, {})
        self.metadata: Any = _metadata(compiled)
        self.packed_metadata: Any = ()
        self.num_warps: int = self.metadata.num_warps
        self.shared = compiled.plan.shared_bytes
        self.module: native.CompiledKernel | None = compiled
        self.function: Any = None
        self.run: Callable[..., None] | None = None

    @property
    def plan(self) -> LaunchPlan:
        return self.artifact.plan

    @property
    def loaded(self) -> native.CompiledKernel:
        """The kernel with tilewright's own attributes."""
        if self.module is None:
            kernel = self.src.fn if self.src.fn.fn is not None else None  # None: it came by pickle
            self.module = native.CompiledKernel(
                self.artifact, self.hash, self.options, self.machine, kernel, from_cache=True
            )
        return self.module

    @property
    def asm(self) -> Mapping[str, Any]:
        """Texts by stage; "cubin", "so" and "launcher.so" give bytes."""
        from tilewright.integrations.inductor import aoti

        return aoti.GpuStages(self) if self.machine.is_gpu else aoti.CpuStages(self)

    @property
    def n_regs(self) -> int:
        return self.loaded.n_regs

    @property
    def n_spills(self) -> int:
        return self.loaded.n_spills

    def launch_metadata(self, grid: tuple[int, ...], stream: int, *args: Any) -> Any:
        """What launch hooks are given."""
        return SimpleNamespace(get=lambda: {"name": self.name, "stream": stream, "grid": grid})

    def _init_handles(self) -> None:
        """Load the code into this process, or onto the current GPU, and make `run`."""
        if self.run is not None:
            return
        device = None
        if self.machine.is_gpu:
            from tilewright.runtime.drivers.cuda import driver

            self.loaded.check_fits()
            device = driver().current_device()
        self.run = _launch_function(self, device)
        self.function = self.run

    def close(self) -> None:
        """Forget the loaded code."""
        self.module = self.function = self.run = None


def _metadata(compiled: native.CompiledKernel) -> Any:
    options, plan = compiled.options, compiled.plan
    # torch launches 32 * num_warps threads: passes may have changed the number that was asked for
    warps = plan.threads // 32 or options.num_warps
    return SimpleNamespace(
        name=compiled.name, hash=compiled.hash, num_warps=warps,
        num_stages=options.num_stages, num_ctas=options.num_ctas, cluster_dims=(1, 1, 1),
        shared=plan.shared_bytes, target=compiled.target.name, debug=options.debug,
    )  # fmt: skip


def _launch_function(kernel: CompiledKernel, device: int | None) -> Callable[..., None]:
    """Triton's launch: `run(grid_0, grid_1, grid_2, stream, function, metadata, launch_metadata, enter hook,
    exit hook, *values of all parameters)`, as a function generated for these parameters.
    """
    names = [f"a{i}" for i in range(len(kernel.src.fn.arg_names))]
    place = dict(zip(kernel.src.fn.arg_names, names, strict=True))
    kinds: list[str] = []
    values: list[str] = []
    for argument in kernel.plan.arguments:
        name = place[argument.name]
        if argument.kind == "pointer":
            kinds.append("address")
            values.append(f"{name}.data_ptr()")
        else:
            kinds.append(native.plain_number(argument, 0)[0])
            narrow = argument.type in ("fp16", "bf16")
            values.append(f"_number({argument.name!r}, {name})" if narrow else name)
    stream = "" if device is None else "stream, "
    given = "".join(f", {name}" for name in names)
    source = f"""
def run(grid_0, grid_1, grid_2, stream, function, metadata, launch_metadata, enter, exit{given}):
    if enter:
        enter(launch_metadata)
    result = _call((grid_0, grid_1, grid_2), {stream}{", ".join(values)})
    if result is not None:
        _report(result, (grid_0, grid_1, grid_2))
    if exit:
        exit(launch_metadata)
"""
    arguments = {argument.name: argument for argument in kernel.plan.arguments}
    scope: dict[str, Any] = {
        "_call": kernel.loaded.launcher(kinds, device),
        "_report": kernel.loaded.raise_result,
        "_number": lambda name, value: native.plain_number(arguments[name], value)[1],
    }
    exec(builtins.compile(source, f"<launch of {kernel.name}>", "exec"), scope)
    return scope["run"]


def compile(src: ASTSource, target: Any = None, options: Any = None) -> CompiledKernel:
    """Compile a kernel for `target` (a GPUTarget), or load it from the disk cache.

    Raises CompilationError and, on a GPU, OutOfResources.
    """
    on_cpu = target is None or target.backend == "cpu"
    machine = registry.machine("cpu" if on_cpu else _gpu_name(target))
    chosen = _options(dict(options or {}), on_cpu, src.fn.src)
    with bundles.read():
        compiled = src.fn.compile(src.types(), src.values(), target=machine, options=chosen)
    if not on_cpu:
        compiled.check_fits()
    kernel = CompiledKernel(src, compiled)
    bundles.write(kernel)
    return kernel


def _gpu_name(target: Any) -> str:
    return f"sm_{target.arch}"


def _options(given: Mapping[str, Any], on_cpu: bool, source: str) -> Options:
    """Those of `given` that change code on the target.

    TMA stores are for kernels with matrix products. In others, the tile of a transposing store goes through shared memory
    either way, and torch's static launcher and AOTInductor's wrapper pass no tensor maps.
    """
    names = ["debug", "enable_fp_fusion"]
    if not on_cpu:
        names += ["num_warps", "num_stages", "num_ctas", "maxnreg"]
    chosen = launch_options.for_compilation(None, {n: given[n] for n in names if n in given})
    if on_cpu:
        return chosen
    off = chosen.disable if "dot" in source else (*chosen.disable, "lower-stores-to-tma")
    # as in Triton: Inductor checks indices of most gathers, and launches must not wait for kernels
    return replace(chosen, assert_traps=True, disable=off)
