"""From a specialized kernel to a `CompiledKernel`: disk cache, front end, back end.

A kernel found on disk needs neither xDSL nor the front end, which is why both are imported here
only when something must be compiled.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib.util
import json
import os
import platform
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tilewright import config
from tilewright.backends import registry
from tilewright.backends.base import Artifact, LaunchPlan, Options
from tilewright.dtypes import constexpr
from tilewright.errors import InternalError, SourceLocation, TilewrightError
from tilewright.language.target_info import GPUTarget, compiled_for, warps_of_launch
from tilewright.runtime.backend_compile import compile_module
from tilewright.runtime.cache import DiskCache, disk_cache
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.descriptors import divisors as descriptor_divisors
from tilewright.runtime.descriptors import nonnegative as descriptor_nonnegative
from tilewright.runtime.specialize import ALIGNMENT, ArgumentType, signature_text
from tilewright.targets import TargetInfo

#: folders whose content determines the generated code
_COMPILER = (
    "backends", "dialects", "frontend", "generator", "interpreter", "ir", "language", "layouts", "passes", "runtime",
    "semantics", "targets",
)  # fmt: skip
_ABI = "2"


_lock = threading.Lock()
_OBJECTS = 20_000
"""Objects that a compilation makes between two looks of the collector: few of them die in cycles."""
_IMPORTED = 1_000_000
"""The same for one that imports the compiler first: modules stay, and make half a million objects."""
_MIN_FROZEN_OBJECTS = 1_000
"""Fewer objects than `gc.freeze` sets aside in any process; Python 3.12 begins with some hundred."""


@contextmanager
def gc_frozen() -> Generator[None]:
    """Let the garbage collector look only at objects made from here on, until the block ends.

    The first compilation imports some two hundred modules, and every one makes many objects that refer to each other.
    The collector would walk all objects of the process several times; with torch loaded that is half a million, and a
    third of the time to the first kernel.

    It stays on, so that a long compilation, or many at once, cannot fill the memory. Does nothing
    if the program has frozen objects itself (`gc.freeze`): those must stay frozen.
    """
    with _lock:
        ours = gc.get_freeze_count() < _MIN_FROZEN_OBJECTS
        rate = gc.get_threshold()
        imports = "xdsl.ir" not in sys.modules
        objects = _IMPORTED if imports else _OBJECTS
        if ours:
            gc.freeze()
            if 0 < rate[0] < objects:
                gc.set_threshold(objects, *rate[1:])
    try:
        yield
    finally:
        if ours:
            if imports:
                gc.freeze()  # modules are old objects now, without having been looked at one by one
            gc.set_threshold(*rate)
            gc.unfreeze()


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
        taken = form_taken(artifact, options)

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
        from tilewright.ir.formats import formats_read_when_used

        with (
            formats_read_when_used(),  # of the dialects, which are imported here
            gc_frozen(),
            compiling_for(machine, options.num_warps),
        ):
            from tilewright.runtime.compile_variants import Variants

            return Variants(kernel, signature, machine).best(options)

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


def in_form(artifact: Artifact, taken: Options, told: list[str]) -> Artifact:
    """Record in the artifact the options that it was compiled with, and why."""
    log = [*artifact.asm.get("log", "").splitlines(), *told]
    names = ("num_stages", "num_warps", "disable", "maxnreg")
    form = {name: getattr(taken, name) for name in names}
    return replace(artifact, asm={**artifact.asm, "log": "\n".join(log), _FORM: json.dumps(form)})


_FORM = "form"
"""Text of an artifact: the options used, if they differ from the requested ones."""


def form_taken(artifact: Artifact, options: Options) -> Options:
    """The options that a kernel was compiled with in the end."""
    form = artifact.asm.get(_FORM)
    if form is None:
        return options
    found = json.loads(form)
    return replace(options, **{**found, "disable": tuple(found["disable"])})


as_asked: ContextVar[bool] = ContextVar("as_asked", default=False)


@contextmanager
def forms_as_asked() -> Generator[None]:
    """Let kernels that need more shared memory than there is fail: an autotuner has other configurations."""
    token = as_asked.set(True)
    try:
        yield
    finally:
        as_asked.reset(token)


def compile_with(
    kernel: Any,
    signature: Mapping[str, ArgumentType],
    options: Options,
    machine: TargetInfo,
    module: Any = None,
) -> Artifact:
    """The kernel with these options alone; `module`: its tile IR, if it has been built already (consumed)."""
    module = module or build_ir(kernel, signature, options)
    try:
        return compile_module(module, options, machine)
    except TilewrightError as error:
        if error.location is None:
            error.location = kernel.location()
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
