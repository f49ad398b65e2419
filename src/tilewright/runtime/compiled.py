"""`CompiledKernel`: one kernel for one signature and one target, ready to run."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tilewright.backends.base import Argument, Artifact, LaunchPlan, Options
from tilewright.errors import (
    DeviceAssertError,
    LaunchError,
    OutOfResources,
    SourceLocation,
    UnsupportedTarget,
    excerpt,
)
from tilewright.runtime.descriptors import opened
from tilewright.runtime.devices import Place, could_be_gpu, place_of, reachable, stream_library
from tilewright.runtime.grids import program_of
from tilewright.runtime.launch_hooks import after_load, around_launch, before_load
from tilewright.runtime.representations import compiled_html, compiled_text
from tilewright.runtime.specialize import array_address, is_array, runtime_items
from tilewright.runtime.tracebacks import user_facing
from tilewright.targets import TargetInfo

#: Triton's names of stages
_OTHER_NAMES = {"llir": "llvm", "ttir": "tile", "ttgir": "gpu"}


def _cpu() -> Any:
    from tilewright.runtime.drivers.cpu import driver

    return driver()


def _cuda() -> Any:
    from tilewright.runtime.drivers.cuda import driver

    return driver()


class _Stages(Mapping[str, Any]):
    """`asm`: texts of a compiled kernel by stage, object code under "object"."""

    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel

    def __getitem__(self, stage: str) -> Any:
        artifact = self._kernel.artifact
        if stage == "object":
            return artifact.object_code
        if stage == "cubin" and self._kernel.cubin is not None:
            return self._kernel.cubin
        stage = _OTHER_NAMES.get(stage, stage)
        if stage in self._levels and stage not in artifact.asm and self._kernel.texts:
            artifact.asm.update(self._kernel.texts())
        if stage in artifact.asm:
            return artifact.asm[stage]
        if stage == "asm" and not self._kernel.target.is_gpu:
            from tilewright.runtime.backend_compile import assembly_of

            artifact.asm["asm"] = assembly_of(artifact, self._kernel.target)
            return artifact.asm["asm"]
        if stage == "sass" and self._kernel.cubin is not None:
            from tilewright.backends.nvidia.assemble import disassemble

            artifact.asm["sass"] = disassemble(self._kernel.cubin)
            return artifact.asm["sass"]
        if stage in ("cubin", "sass") and "ptx" in artifact.asm:
            raise KeyError(
                f"{stage!r}: no ptxas has assembled this kernel (nvidia-cuda-nvcc has it)"
            )
        raise KeyError(f"{stage!r}: this kernel has {', '.join(self)}")

    @property
    def _levels(self) -> tuple[str, ...]:
        """Stages that are IR."""
        return ("tile", "gpu" if self._kernel.target.is_gpu else "cpu")

    def __contains__(self, stage: object) -> bool:
        return _OTHER_NAMES.get(str(stage), stage) in list(self)

    def get(self, stage: str, default: Any = None) -> Any:
        """The text of a stage, or `default` if there is none or the tool that produces it is not installed."""
        return self[stage] if stage in self else default  # noqa: SIM401 (this is `get`)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(self._kernel.artifact.asm)
        if self._kernel.texts:
            names = {**dict.fromkeys(self._levels), **names}
        if not self._kernel.target.is_gpu and "llvm" in names:
            names["asm"] = None
        if self._kernel.cubin is not None:
            names["cubin"] = None
            from tilewright.backends.nvidia.assemble import can_disassemble

            if can_disassemble():
                names["sass"] = None
        return iter([*names, "object"])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _flushing(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap `call` so that output through C stdio stays in order with Python's."""
    flush = ctypes.CDLL(None).fflush

    def launch(*arguments: Any) -> Any:
        sys.stdout.flush()
        result = call(*arguments)
        flush(None)
        return result

    return launch


def plain_number(argument: Argument, value: Any) -> tuple[str, Any]:
    """The encoding of a number as a runtime argument: native kind and encoded value.

    A float narrower than fp32 is passed as its bits.
    """
    if argument.kind != "float":
        return ("bool" if argument.type == "i1" else argument.kind), value
    if argument.type in ("fp16", "bf16"):
        import ml_dtypes
        import numpy

        kind = numpy.float16 if argument.type == "fp16" else ml_dtypes.bfloat16
        return "uint", int(numpy.asarray(value, kind).view(numpy.uint16))
    return ("fp64" if argument.type == "fp64" else "fp32"), value


#: 32-bit registers of an SM, on every chip since 2016
_GPU_REGISTERS = 64 << 10


class CompiledKernel:
    """A compiled kernel.

    Attributes:
        name, hash: its entry symbol; its cache key.
        asm: text by stage ("tile", "cpu", "llvm", "asm"; on a GPU "tile", "gpu", "llvm", "ptx",
            "sass"); "object" and "cubin" give bytes. Expensive ones are computed on first access.
        plan: the launch plan.
        metadata: `num_warps`, `num_stages`, `shared`, `target`, `name`, `n_regs` … as attributes.
        n_regs, n_spills: registers per thread, and how many of them are spilled; 0 on a GPU until an assembler
            or the driver has processed the code. On a CPU `n_regs` is 1 and `metadata.shared` the scratch bytes
            per program, clamped to 1 … L2 size, because occupancy formulas divide by them.
        from_cache: whether it was read from disk instead of compiled.
    """

    def __init__(
        self,
        artifact: Artifact,
        key: str,
        options: Options,
        target: TargetInfo,
        function: Any,
        from_cache: bool,
        texts: Callable[[], dict[str, str]] | None = None,
    ) -> None:
        self.texts = texts
        """Makes the IR texts, which are not kept with the machine code."""
        self.artifact = artifact
        self.hash = key
        self.options = options
        self.target = target
        self.function = function
        self.from_cache = from_cache
        self.asm = _Stages(self)
        self.signature: Mapping[str, Any] = {}
        """Parameter → `specialize.ArgumentType` it was compiled for, where that is known."""
        self.location_at: Callable[[bytes, int], SourceLocation | None] | None = None
        """Finds the line of an instruction of its code by compiling again."""
        self._loaded: dict[int | None, Any] = {}
        self._launchers: dict[Any, Any] = {}
        self._keep: list[Any] = []
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self.artifact.entry

    @property
    def plan(self) -> LaunchPlan:
        return self.artifact.plan

    @property
    def metadata(self) -> SimpleNamespace:
        o = self.options
        return SimpleNamespace(
            name=self.name, hash=self.hash, target=self.target, debug=o.debug,
            shared=self._shared_bytes,
            num_warps=o.num_warps, num_stages=o.num_stages, num_ctas=o.num_ctas,
            maxnreg=o.maxnreg, enable_fp_fusion=o.enable_fp_fusion,
            n_regs=self.n_regs, n_spills=self.n_spills,
        )  # fmt: skip

    @property
    def _shared_bytes(self) -> int:
        if self.target.is_gpu:
            return self.plan.shared_bytes
        most = getattr(self.target, "l2_bytes", 0) or 1 << 20
        return min(max(1, self.plan.scratch_bytes), most)

    @property
    def n_regs(self) -> int:
        if not self.target.is_gpu:
            return 1
        return self.plan.registers or self._known("n_regs")

    @property
    def n_spills(self) -> int:
        return self.plan.spills if self.plan.registers else self._known("n_spills")

    def _known(self, what: str) -> int:
        """An attribute reported by the driver, if it has loaded the code."""
        return max((getattr(kernel, what, 0) for kernel in self._loaded.values()), default=0)

    @user_facing
    def export(
        self,
        folder: Any,
        name: str | None = None,
        grid: Sequence[str | int] | str | int | None = None,
    ) -> Any:
        """Write it as a C header and an object file, or on a GPU a C file: see `runtime.export`."""
        from tilewright.runtime.export import export_kernel

        if self.plan.checked:
            raise LaunchError(
                f"{self.name} was compiled with check={','.join(self.options.check)!r}, and checked"
                " kernels cannot be exported",
                help="compile it without check=, and unset TILEWRIGHT_CHECK",
            )
        return export_kernel(self, folder, name, grid)

    @property
    def cubin(self) -> bytes | None:
        """Machine code for a GPU, where an assembler has made it."""
        code = self.artifact.object_code
        return code if self.target.is_gpu and code[:4] == b"\x7fELF" else None

    def check_fits(self) -> None:
        """Raise OutOfResources if the target cannot run it: shared memory or registers."""
        target, plan = self.target, self.plan
        if plan.shared_bytes > target.shared_bytes > 0:
            raise OutOfResources(plan.shared_bytes, target.shared_bytes, "shared memory")
        # registers are given out in eights
        wanted = plan.threads * -(-self.n_regs // 8) * 8
        if wanted > _GPU_REGISTERS:
            raise OutOfResources(wanted, _GPU_REGISTERS, "registers")

    def _init_handles(self) -> None:
        """Load the code now (on the current GPU)."""
        if not self.target.is_gpu:
            self._load()
        else:
            self._load(_cuda().current_device())

    def _load(self, device: int | None = None) -> Any:
        """The code in memory: the process's, or a GPU's."""
        if device not in self._loaded:
            if (device is None) == self.target.is_gpu:
                raise UnsupportedTarget(
                    f"{self.name} was compiled for {self.target.name}, which cannot run "
                    + ("here" if device is None else f"on GPU {device}")
                )
            load = self._loader(device)
            with self._lock:
                if device not in self._loaded:
                    before_load(None, None, self.name, {}, self.hash)
                    self._loaded[device] = loaded = load()
                    after_load(loaded, loaded, self.name, {}, self.hash)
        return self._loaded[device]

    def _loader(self, device: int | None) -> Callable[[], Any]:
        if device is None:
            native = _cpu()
            native.refresh_threads()
            return lambda: native.load(self.artifact)
        gpu = _cuda()
        return lambda: gpu.load(self.artifact, device)

    def launcher(
        self, kinds: Sequence[str], device: int | None = None, conditions: Sequence[int] = ()
    ) -> Any:
        """A call for arguments fetched as `kinds` say: `call(grid, *values)` on the CPU
        (`drivers.cpu`), `call(grid, stream, *values)` on a GPU (`drivers.cuda`). If one of `conditions`
        (`drivers.argument_guards`) fails, it launches nothing and returns a code.
        """
        case = device, tuple(kinds), tuple(conditions)
        found = self._launchers.get(case)
        if found is None:
            if sum(kind != "skip" for kind in kinds) != len(self.plan.arguments) + self._extents:
                raise LaunchError(
                    f"{self.name} takes {len(self.plan.arguments)} runtime arguments "
                    f"({', '.join(a.name for a in self.plan.arguments)}), not {', '.join(kinds)}"
                )
            kernel = self._load(device)
            with self._lock:
                if device is None:
                    found = self._cpu_launcher(kernel, kinds, conditions)
                else:
                    found = _cuda().launcher(kernel, self.plan, kinds, conditions)
                self._launchers[case] = found
        return found

    @property
    def _extents(self) -> int:
        """Number of native arguments that hold extents of arrays."""
        pointers = sum(a.kind == "pointer" for a in self.plan.arguments)
        return 2 * pointers if self.plan.checked else 0

    def _cpu_launcher(self, kernel: Any, kinds: Sequence[str], conditions: Sequence[int]) -> Any:
        if hasattr(self.function, "definition_line"):
            kernel.label = f"'{self.name}' ({self.function.file}:{self.function.definition_line})"
        written = iter([a.written for a in self.plan.arguments] + [False] * self._extents)
        kinds_now = [
            "numpy_written" if kind != "skip" and next(written) and kind == "numpy" else kind
            for kind in kinds
        ]
        found, keep = _cpu().launcher(kernel, self.plan, kinds_now, conditions)
        self._keep.append(keep)
        if self.plan.cooperative:
            from tilewright.runtime.drivers.kernels import all_at_once

            found = all_at_once(found, _cpu(), self.plan)
        return _flushing(found) if self.plan.prints else found

    @user_facing
    def run(self, grid: tuple[int, ...], *values: Any) -> None:
        """Launch with runtime arguments only (no constexprs): arrays and numbers, unchecked types.

        On a GPU integers are accepted as pointers: then the current device and its stream are used.
        """
        given, values = values, self._runtime_values(values)
        kinds, plain = [], []
        for argument, value in zip(self.plan.arguments, values, strict=True):
            if argument.kind == "pointer":
                kinds.append("address")
                plain.append(array_address(value)[0] if is_array(value) else value)
            else:
                kind, number = plain_number(argument, value)
                kinds.append(kind)
                plain.append(number)
        place = self._place(values)
        if self.plan.checked:
            from tilewright.runtime.bounds import extents_of

            pairs = zip(self.plan.arguments, values, strict=True)
            extents = extents_of(self, [v for a, v in pairs if a.kind == "pointer"])
            kinds += ["uint"] * len(extents)
            plain += extents
        stream = 0 if place is None else place.stream()
        call = self.launcher(kinds, None if place is None else place.device)
        with around_launch(self, tuple(grid), given, stream):
            result = call(tuple(grid), *([] if place is None else [stream]), *plain)
        if result is not None:
            self.raise_result(result, grid)

    def _place(self, values: Sequence[Any]) -> Place | None:
        """The GPU to launch on, None for the CPU. Raises LaunchError for arrays that are elsewhere."""
        on_cpu = not self.target.is_gpu
        if on_cpu and not could_be_gpu({type(value) for value in values}):
            return None
        named = [(a.name, v) for a, v in zip(self.plan.arguments, values, strict=True)]
        place = place_of(named)
        if on_cpu and place is None:
            return None
        here = [n for n, v in named if is_array(v) and (on_cpu or not reachable(v))]
        if here and (on_cpu or place is None):
            where = f"on GPU {place.device}" if place is not None else "in host memory"
            raise LaunchError(
                f"{self.name} was compiled for {self.target.name}, and '{here[0]}' is {where}",
                help="kernel[grid](...) compiles for wherever the arrays are",
            )
        if place is None:
            return Place(_cuda().current_device(), stream_library())
        return place

    def _runtime_values(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Values of the run-time arguments, given those or all parameters' (Triton takes these).

        Of descriptors and other tuples, which are given whole, the values of their run-time items.
        """
        wanted = [a.name for a in self.plan.arguments]
        values = tuple(map(opened, values))
        has_tuples = any(isinstance(value, tuple) for value in values)
        if len(values) == len(wanted) and not has_tuples:
            return values
        params = getattr(self.function, "params", ())
        for given in (params, [p for p in params if not p.is_constexpr]):
            names = [p.name for p in given]
            if len(names) != len(values):
                continue
            named = dict(zip(names, values, strict=True))
            if has_tuples:
                kinds = [self.signature[name].type for name in names]
                items = runtime_items(tuple(kinds), values)
                if len(items) == len(wanted):
                    return tuple(items)
            elif set(wanted) <= set(names):
                return tuple(named[name] for name in wanted)
        raise LaunchError(
            f"{self.name} takes {len(wanted)} runtime arguments ({', '.join(wanted)}), and was given "
            f"{len(values)}"
        )

    def __getitem__(self, grid: Any) -> Any:
        return functools.partial(self.run, grid)

    def raise_result(self, result: Any, grid: Any) -> None:
        """Raise the error that a native launch reported."""
        if isinstance(result, tuple) and len(result) == 3:
            self._die(*result)
        if isinstance(result, tuple):
            if result[1] >= len(self.plan.asserts) and self.plan.checked:
                from tilewright.runtime.bounds import fault_of

                raise fault_of(self, result[0], result[1], grid)
            raise self._assertion(result[0], result[1], grid)
        if result >= 1000:
            raise _cuda().launch_error(result - 1000, self.name, self.plan, grid)
        if result == 2:
            raise MemoryError(f"{self.name}: no memory for {self.plan.scratch_bytes} scratch bytes")
        if result == 3:
            names = [a.name for a in self.plan.arguments if a.kind == "pointer" and a.written]
            raise LaunchError(
                f"a read-only array was given for an output of the kernel ({', '.join(names)})",
                help="pass a writeable array: x.copy()",
            )
        limits = " (at most 2147483647 each)"
        if self.target.is_gpu:
            most = 2147483647 // max(1, self.plan.cluster_size)
            limits = f" (at most {most}, 65535, 65535)"
        raise LaunchError(
            f"{self.name}: grid {grid!r} is not a tuple of one to three integers >= 0{limits}"
        )

    def _die(self, signal: int, offset: int, _: int) -> None:
        """Complete the signal handler's report of a memory fault with the source line, and terminate by the signal."""
        with _cpu().signals.ending(signal):
            place = self.location_at and self.location_at(self.artifact.object_code, offset)
            if place:
                text = SourceLocation.__str__(place)
                print(f"  at {text}\n{excerpt(place)}", file=sys.stderr)

    def _assertion(self, program: int, site: int, grid: Any) -> DeviceAssertError:
        place = program_of(program, grid)
        if site >= len(self.plan.asserts):
            return DeviceAssertError(f"device_assert failed in program {place}")
        failed = self.plan.asserts[site]
        location = None
        if failed.file:
            location = SourceLocation(
                failed.file, failed.line, failed.column, function=failed.function
            )
        text = f": {failed.message}" if failed.message else ""
        return DeviceAssertError(
            f"device_assert failed in program {place}{text}", location=location
        )

    def __repr__(self) -> str:
        return compiled_text(self)

    def _repr_html_(self) -> str:
        return compiled_html(self)
