"""`CompiledKernel`: one kernel for one signature and one target, ready to run."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tilewright.backends.base import Artifact, LaunchPlan, Options, TargetInfo
from tilewright.errors import DeviceAssertError, LaunchError, SourceLocation, UnsupportedTarget
from tilewright.runtime.tracebacks import user_facing


class _Stages(Mapping[str, Any]):
    """`asm`: texts of a compiled kernel by stage, object code under "object"."""

    def __init__(self, kernel: CompiledKernel) -> None:
        self._kernel = kernel

    def __getitem__(self, stage: str) -> Any:
        artifact = self._kernel.artifact
        if stage == "object":
            return artifact.object_code
        stage = {"llir": "llvm", "ttir": "tile"}.get(stage, stage)
        if stage in ("tile", "cpu") and stage not in artifact.asm and self._kernel.texts:
            artifact.asm.update(self._kernel.texts())
        if stage in artifact.asm:
            return artifact.asm[stage]
        if stage == "asm" and self._kernel.target.name == "cpu":
            from tilewright.runtime.disassemble import assembly_of

            artifact.asm["asm"] = assembly_of(artifact, self._kernel.target)
            return artifact.asm["asm"]
        raise KeyError(f"{stage!r}: this kernel has {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(self._kernel.artifact.asm)
        if self._kernel.texts:
            names = {"tile": None, "cpu": None, **names}
        if self._kernel.target.name == "cpu" and "llvm" in names:
            names["asm"] = None
        return iter([*names, "object"])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _flushing(call: Callable[..., Any]) -> Callable[..., Any]:
    """`call` with what it prints through C kept in order with what Python prints."""
    flush = ctypes.CDLL(None).fflush

    def launch(*arguments: Any) -> Any:
        sys.stdout.flush()
        result = call(*arguments)
        flush(None)
        return result

    return launch


class CompiledKernel:
    """A compiled kernel.

    Attributes:
        name, hash: its entry symbol; the key it is cached under.
        asm: text by stage ("tile", "cpu", "llvm", "asm"; "object" gives bytes).
        plan: what the host must know to launch it.
        metadata: `num_warps`, `num_stages`, `shared`, `target`, `name` … as attributes.
        n_regs, n_spills: 0 on a CPU.
        from_cache: whether it was read from disk instead of compiled.
    """

    n_regs = 0
    n_spills = 0

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
        self._loaded: Any = None
        self._launchers: dict[tuple[str, ...], Any] = {}
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
            name=self.name, hash=self.hash, target=self.target, shared=0, debug=o.debug,
            num_warps=o.num_warps, num_stages=o.num_stages, num_ctas=o.num_ctas,
            maxnreg=o.maxnreg, enable_fp_fusion=o.enable_fp_fusion,
        )  # fmt: skip

    def _init_handles(self) -> None:
        """Load the code now."""
        self._load()

    def _load(self) -> Any:
        if self._loaded is None:
            if self.target.name != "cpu":
                raise UnsupportedTarget(
                    f"{self.name} was compiled for {self.target.name}, which cannot run here"
                )
            from tilewright.runtime.drivers.cpu import driver

            native = driver()
            native.refresh_threads()
            with self._lock:
                if self._loaded is None:
                    self._loaded = native.load(self.artifact)
        return self._loaded

    def launcher(self, kinds: Sequence[str]) -> Any:
        """`call(grid, *values)` for arguments fetched as `kinds` say (see `drivers.cpu`)."""
        kinds = tuple(kinds)
        found = self._launchers.get(kinds)
        if found is None:
            if sum(kind != "skip" for kind in kinds) != len(self.plan.arguments):
                raise LaunchError(
                    f"{self.name} takes {len(self.plan.arguments)} runtime arguments "
                    f"({', '.join(a.name for a in self.plan.arguments)}), not {', '.join(kinds)}"
                )
            kernel = self._load()
            from tilewright.runtime.drivers.cpu import driver

            written = iter([a.written for a in self.plan.arguments])
            kinds_now = [
                "numpy_written" if kind != "skip" and next(written) and kind == "numpy" else kind
                for kind in kinds
            ]
            with self._lock:
                found, keep = driver().launcher(kernel, self.plan, kinds_now)
                self._keep.append(keep)
                if self.plan.prints:
                    found = _flushing(found)
                self._launchers[kinds] = found
        return found

    @user_facing
    def run(self, grid: tuple[int, ...], *values: Any) -> None:
        """Launch with runtime arguments only (no constexprs): arrays and numbers, unchecked types."""
        from tilewright.runtime.specialize import array_address, is_array

        kinds, plain = [], []
        for argument, value in zip(self.plan.arguments, values, strict=True):
            if argument.kind == "pointer":
                kinds.append("address")
                plain.append(array_address(value)[0] if is_array(value) else value)
            else:
                floats = "fp64" if argument.type == "fp64" else "fp32"
                kinds.append(floats if argument.kind == "float" else argument.kind)
                plain.append(value)
        result = self.launcher(kinds)(tuple(grid), *plain)
        if result is not None:
            self.raise_result(result, grid)

    def __getitem__(self, grid: Any) -> Any:
        import functools

        return functools.partial(self.run, grid)

    def raise_result(self, result: Any, grid: Any) -> None:
        """Raise what a native launch reported."""
        if isinstance(result, tuple):
            raise self._assertion(result[0], result[1], grid)
        if result == 2:
            raise MemoryError(f"{self.name}: no memory for {self.plan.scratch_bytes} scratch bytes")
        if result == 3:
            names = [a.name for a in self.plan.arguments if a.kind == "pointer" and a.written]
            raise LaunchError(
                f"a read-only array was given for an output of the kernel ({', '.join(names)})",
                help="pass a writeable array: x.copy()",
            )
        raise LaunchError(f"{self.name}: grid {grid!r} is no tuple of one to three integers >= 0")

    def _assertion(self, program: int, site: int, grid: Any) -> DeviceAssertError:
        x, y, *_ = (*grid, 1, 1)
        place = (program % x, program // x % y, program // (x * y))
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
        return f"<CompiledKernel {self.name} for {self.target.name}>"
