"""From a specialized kernel to a `CompiledKernel`: disk cache, front end, back end.

A kernel found on disk needs neither xDSL nor the front end, which is why both are imported here
only when something must be compiled.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tilewright import config
from tilewright.backends import registry
from tilewright.backends.base import Artifact, LaunchPlan, Options
from tilewright.dtypes import constexpr
from tilewright.errors import (
    REGISTERS,
    InternalError,
    OutOfResources,
    SourceLocation,
    TilewrightError,
)
from tilewright.language.target_info import GPUTarget, compiled_for, warps_of_launch
from tilewright.runtime.backend_compile import compile_module, start_workers
from tilewright.runtime.cache import DiskCache, disk_cache
from tilewright.runtime.compile_variants import (
    FEWER_SPILLS,
    MOST_IN_FLIGHT,
    SMALLER_SHARES,
    SPILLS_WORTH_WARPS,
    WARPS_WITH_ALL_REGISTERS,
    carries_too_much,
    has_narrow_dots,
    less_shared_memory_text,
    require_registers,
    rows_of_dots_in_sequence,
    serializes_mmas,
    shares_a_row,
    shares_an_sm,
    spills_to_avoid,
    warps_that_share_work,
    with_half_the_registers,
    with_less_shared_memory,
    with_more_warps,
    words_between_dots,
)
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.descriptors import divisors as descriptor_divisors
from tilewright.runtime.descriptors import nonnegative as descriptor_nonnegative
from tilewright.runtime.gc_pause import gc_frozen
from tilewright.runtime.specialize import ALIGNMENT, ArgumentType, signature_text
from tilewright.targets import TargetInfo

#: folders whose content determines the generated code
_COMPILER = (
    "backends", "dialects", "frontend", "generator", "interpreter", "ir", "language", "layouts", "passes", "runtime",
    "semantics", "targets",
)  # fmt: skip
_ABI = "2"


def compile_kernel(
    kernel: Any,
    signature: Mapping[str, ArgumentType],
    options: Options,
    target: str | TargetInfo = "cpu",
) -> CompiledKernel:
    """Compile `kernel` (a JITFunction), or load it from the disk cache.

    `signature` has an entry for every parameter. Raises CompilationError and its kin.
    """
    settings = config.current()
    machine = target if isinstance(target, TargetInfo) else registry.machine(target)
    backend = registry.get(machine.name)

    cache = disk_cache()
    key = _key(kernel, signature, options, machine, settings.disabled_passes, backend)

    def finished(artifact: Artifact, loaded: bool) -> CompiledKernel:
        taken = _taken(artifact, options)

        def module() -> Any:
            with compiling_for(machine, options.num_warps):
                return build_kernel(kernel, signature, taken).module

        def texts() -> dict[str, str]:
            return backend.texts(module(), taken, machine)

        def location_at(code: bytes, offset: int) -> SourceLocation | None:
            return backend.location_at(module(), taken, machine, code, offset)

        found = CompiledKernel(artifact, key, options, machine, kernel, loaded, texts)
        found.signature, found.location_at = signature, location_at
        return found

    def compiled() -> Artifact:
        with gc_frozen(), compiling_for(machine, options.num_warps):
            return _Variants(kernel, signature, machine).best(options)

    def loaded() -> Artifact | None:
        return None if settings.always_compile else _load(cache, key)

    if kernel.dependencies.private:  # no other process could use it
        return finished(compiled(), False)
    if (artifact := loaded()) is not None:
        return finished(artifact, True)
    with cache.making(key):
        if (artifact := loaded()) is not None:  # another process compiled it while this one waited
            return finished(artifact, True)
        artifact = compiled()
        _store(cache, key, artifact)
    return finished(artifact, False)


@dataclass(frozen=True)
class _Variants:
    """Compiles a kernel for a target, with other options than asked for where those do not fit or spill."""

    kernel: Any
    signature: Mapping[str, ArgumentType]
    machine: TargetInfo

    def compile(self, options: Options, module: Any = None) -> Artifact:
        """The kernel with these options; `module`: its tile IR, if it has been built already (consumed)."""
        return _compile_with(self.kernel, self.signature, options, self.machine, module)

    def best(self, options: Options) -> Artifact:
        """The first variant whose shared memory fits (`with_less_shared_memory`), or one with fewer spills
        (`with_more_warps`, `SMALLER_SHARES`), or whose MMAs are asynchronous (`MOST_IN_FLIGHT`)."""
        start_workers()
        module = _front_end(self.kernel, self.signature, options)
        parts, many = warps_that_share_work(module), spills_to_avoid(module)
        rows, narrow = rows_of_dots_in_sequence(module) if parts else 0, has_narrow_dots(module)
        words = words_between_dots(module) if rows else 0
        wider = with_more_warps(options, self.machine, parts)
        if parts and carries_too_much(module, options):
            # warps without a part in the smallest dot still hold a part of what is carried
            wider = with_more_warps(options, self.machine, WARPS_WITH_ALL_REGISTERS)
            enough = [wide for wide in wider if not carries_too_much(module, wide)] or wider[-1:]
            found = self._first_without_spills(enough, many)
            if found is not None:
                why = "what a loop carries needs more registers than there are"
                return _in_form(*found, [f"{why}: compiled with num_warps={found[1].num_warps}"])
            wider = []
        if wider:
            require_registers(module)
        try:
            artifact = self._in_memory(options, module)
        except OutOfResources as error:
            if error.name != REGISTERS or not wider:
                raise
            spills = error.required - error.limit
            found = self._first_without_spills(wider[:1], 0)
            if found is not None and found[0].plan.spills < spills // FEWER_SPILLS + 1:
                why = f"about {spills} registers would be spilled"
                return _in_form(*found, [f"{why}: compiled with num_warps={found[1].num_warps}"])
            artifact = self._in_memory(options, None)
        spills, taken = artifact.plan.spills, _taken(artifact, options)
        if shares_a_row(artifact, options, self.machine):
            others = [replace(taken, disable=(*taken.disable, SMALLER_SHARES))]
            how = "with half as many words of a row per CTA"
        elif wider and spills >= many:
            others = [replace(taken, num_warps=wide.num_warps) for wide in wider]
            how = "with num_warps={0.num_warps}"
        elif serializes_mmas(artifact) and MOST_IN_FLIGHT not in taken.disable:
            return self._without(MOST_IN_FLIGHT, taken, artifact)
        elif halved := with_half_the_registers(artifact, taken, self.machine, rows, narrow, words):
            return self._with_half_the_registers(halved, artifact)
        else:
            return artifact
        fewer = spills // FEWER_SPILLS + 1
        found = self._first_without_spills(others, fewer)
        if found is None or found[0].plan.spills >= fewer:
            return artifact
        told = f"{spills} registers would be spilled: compiled {how.format(found[1])}"
        return _in_form(*found, [told])

    def _with_half_the_registers(self, options: Sequence[Options], artifact: Artifact) -> Artifact:
        """The kernel with the first of these options with which it hardly spills; else `artifact`."""
        for each in options:
            try:
                found = self.compile(each)
            except OutOfResources:
                continue
            if found.plan.spills > SPILLS_WORTH_WARPS or serializes_mmas(found):
                continue
            if shares_an_sm(found, self.machine):
                how = f"num_warps={each.num_warps}, maxnreg={each.maxnreg}"
                return _in_form(found, each, [f"few warps would share an SM: compiled with {how}"])
        return artifact

    def _without(self, name: str, taken: Options, artifact: Artifact) -> Artifact:
        """The kernel without the pass `name`, if its MMAs are asynchronous then; else `artifact`."""
        options = replace(taken, disable=(*taken.disable, name))
        try:
            found = self.compile(options)
        except OutOfResources:
            return artifact
        if serializes_mmas(found):
            return artifact
        return _in_form(found, options, [f"ptxas would serialize MMAs: compiled without {name}"])

    def _first_without_spills(
        self, options: Sequence[Options], spills: int
    ) -> tuple[Artifact, Options] | None:
        """The first of these variants that spills fewer registers than that, else the last one; None if none fits."""
        found: tuple[Artifact, Options] | None = None
        for each in options:
            try:
                found = self.compile(each), each
            except OutOfResources:
                continue
            if found[0].plan.spills < spills:
                break
        return found

    def _in_memory(self, options: Options, module: Any) -> Artifact:
        """The first variant whose shared memory fits; `module`: the kernel's tile IR (consumed)."""
        try:
            return self.compile(options, module)
        except OutOfResources as error:
            if not error.name.startswith("shared memory") or _as_asked.get():
                raise
            for smaller in with_less_shared_memory(options, error):
                try:
                    artifact = self.compile(smaller)
                except OutOfResources:
                    continue
                told = less_shared_memory_text(error, options, smaller)
                return _in_form(artifact, smaller, [told])
            raise


def _in_form(artifact: Artifact, taken: Options, told: list[str]) -> Artifact:
    """Record in the artifact the options that it was compiled with, and why."""
    log = [*artifact.asm.get("log", "").splitlines(), *told]
    names = ("num_stages", "num_warps", "disable", "maxnreg")
    form = {name: getattr(taken, name) for name in names}
    return replace(artifact, asm={**artifact.asm, "log": "\n".join(log), _FORM: json.dumps(form)})


_FORM = "form"
"""Text of an artifact: the options used, if they differ from the requested ones."""


def _taken(artifact: Artifact, options: Options) -> Options:
    """The options that a kernel was compiled with in the end."""
    form = artifact.asm.get(_FORM)
    if form is None:
        return options
    found = json.loads(form)
    return replace(options, **{**found, "disable": tuple(found["disable"])})


_as_asked: ContextVar[bool] = ContextVar("as_asked", default=False)


@contextmanager
def forms_as_asked() -> Generator[None]:
    """Let kernels that need more shared memory than there is fail: an autotuner has other configurations."""
    token = _as_asked.set(True)
    try:
        yield
    finally:
        _as_asked.reset(token)


def _front_end(kernel: Any, signature: Mapping[str, ArgumentType], options: Options) -> Any:
    from tilewright.ir.formats import formats_read_when_used

    with formats_read_when_used():
        return build_ir(kernel, signature, options)


def _compile_with(
    kernel: Any,
    signature: Mapping[str, ArgumentType],
    options: Options,
    machine: TargetInfo,
    module: Any = None,
) -> Artifact:
    """`module`: the kernel's tile IR, if it has been built already (consumed)."""
    from tilewright.ir.formats import formats_read_when_used

    module = module or _front_end(kernel, signature, options)
    try:
        with formats_read_when_used():
            return compile_module(module, options, machine)
    except TilewrightError as error:
        if error.location is None:
            error.location = SourceLocation(
                kernel.file, kernel.first_line, kernel.column_offset, function=kernel.fn.__name__
            )
        error.context = _types(kernel, signature)
        if not isinstance(error, InternalError):
            raise
        off = (*options.disable, *config.current().disabled_passes)
        if off:
            error.help = f"these passes were switched off: {', '.join(off)}. If they must run, " + (
                error.help
            )
        raise


@contextmanager
def compiling_for(machine: TargetInfo, warps: int) -> Generator[None]:
    """Set what `tl.target_info` (target) and `tl.extra.cuda` (number of warps) return during compilation."""
    if machine.family == "nvidia":
        target = GPUTarget("cuda", machine.capability, 32)
    elif not machine.is_gpu:
        target = GPUTarget("cpu", machine.cpu or platform.machine(), 1)
    else:
        target = GPUTarget("hip", machine.name, 64)
    token, launch = compiled_for.set(target), warps_of_launch.set(warps if machine.is_gpu else None)
    try:
        yield
    finally:
        compiled_for.reset(token)
        warps_of_launch.reset(launch)


def build_ir(kernel: Any, signature: Mapping[str, ArgumentType], options: Options) -> Any:
    """Build the tile IR of a kernel; errors name the argument types that it was compiled for."""
    try:
        return build_kernel(kernel, signature, options).module
    except TilewrightError as error:
        error.context = _types(kernel, signature)
        raise


def build_kernel(kernel: Any, signature: Mapping[str, ArgumentType], options: Options) -> Any:
    """The `BuiltKernel` of a kernel, from the front end or the generator."""
    types = {name: item.type for name, item in signature.items()}
    divisors: dict[str, int] = {}
    known: set[str] = set()
    for name, item in signature.items():
        if item.divisible:
            divisors[name] = ALIGNMENT
        divisors.update(descriptor_divisors(name, item.type, item.whole_lines))
        if item.nonnegative:
            known |= {name, *descriptor_nonnegative(name, item.type)}
    return kernel.build(types, divisors, options, kernel.symbol(signature), frozenset(known))


# ---- keys ------------------------------------------------------------------------------------------


def _key(
    kernel: Any,
    signature: Mapping[str, ArgumentType],
    options: Options,
    machine: TargetInfo,
    disabled: tuple[str, ...],
    backend: Any,
) -> str:
    return DiskCache.key(
        _ABI,
        kernel.cache_key,
        kernel.dependencies.places,
        kernel.symbol(signature) or "",
        ";".join(f"{name}:{item.text}" for name, item in signature.items()),
        json.dumps(asdict(options), sort_keys=True, default=repr),
        ",".join(disabled),
        machine.key,
        toolchain() if (toolchain := getattr(backend, "toolchain", None)) is not None else "",
        *tool_versions(),
        own_content(),
    )


@functools.cache
def tool_versions() -> tuple[str, ...]:
    """Versions of the code generators: Python, llvmlite, xDSL."""

    # importlib.metadata takes 25 ms to import; the packages' dist-info folders hold the versions
    def version(name: str) -> str:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return f"{name} ?"
        beside = Path(spec.origin).parent.parent
        found = sorted(folder.name for folder in beside.glob(f"{name}-*.dist-info"))
        if len(found) == 1:
            return found[0]
        from importlib import metadata

        return f"{name} {metadata.version(name)}"

    python = f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"
    return (python, version("llvmlite"), version("xdsl"))


@functools.cache
def own_content() -> str:
    """A hash of the compiler's own source: an edited pass must not reuse cached code.

    Files are read only when a size or time of change differs from what the cache remembers.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    entries = sorted(_source_files(root), key=lambda entry: entry.path)
    stamps = []
    for entry in entries:
        status = entry.stat()
        stamps.append(f"{entry.path}:{status.st_mtime_ns}:{status.st_size}:{status.st_ino}")
    cache = disk_cache()
    key = cache.key("own content", *stamps)
    known = cache.load(key)
    if known is not None:
        return known["digest"].decode()
    digest = hashlib.sha256()
    for entry in entries:
        digest.update(os.path.relpath(entry.path, root).encode() + b"\0")
        digest.update(hashlib.sha256(Path(entry.path).read_bytes()).digest())
    cache.store(key, {"digest": digest.hexdigest().encode()})
    return digest.hexdigest()


def _source_files(root: str) -> Iterator[os.DirEntry[str]]:
    """The Python files that determine the generated code (plain strings: pathlib takes 3 ms more)."""
    folders = [root]
    while folders:
        folder = folders.pop()
        for entry in os.scandir(folder):
            if entry.name.endswith(".py"):
                yield entry
            elif (folder != root or entry.name in _COMPILER) and entry.is_dir():
                folders.append(entry.path)


# ---- storage ---------------------------------------------------------------------------------------


def _load(cache: DiskCache, key: str) -> Artifact | None:
    blobs = cache.load(key)
    if blobs is None:
        return None
    try:
        plan = LaunchPlan.from_json(blobs["plan"].decode())
        texts = {
            name.removeprefix("asm."): blob.decode()
            for name, blob in blobs.items()
            if name.startswith("asm.")
        }
        return Artifact(blobs["entry"].decode(), blobs["object"], plan, texts)
    except (KeyError, ValueError, TypeError):
        return None


def _store(cache: DiskCache, key: str, artifact: Artifact) -> None:
    blobs = {
        "entry": artifact.entry.encode(),
        "plan": artifact.plan.to_json().encode(),
        "object": artifact.object_code,
    }
    blobs |= {f"asm.{name}": text.encode() for name, text in artifact.asm.items()}
    cache.store(key, blobs)


def _types(kernel: Any, signature: Mapping[str, ArgumentType]) -> str:
    """The types and constants that a kernel is compiled for, on one line."""
    parts = [
        f"{name}={item.type.value!r}"
        if isinstance(item.type, constexpr)
        else f"{name}: {signature_text(item.type)}"
        for name, item in signature.items()
    ]
    return f"compiled for {kernel.fn.__name__}({', '.join(parts)})"
