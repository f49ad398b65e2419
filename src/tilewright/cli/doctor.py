"""`tilewright doctor`: check the machine and the installation."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any

import tilewright

_NEEDED = ("xdsl", "llvmlite", "numpy", "ml_dtypes", "typer", "rich", "jinja2")
_OPTIONAL = ("torch", "matplotlib", "pandas", "triton")
_FEATURES = (
    "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512bf16",
    "avx512fp16", "avx512vnni", "avxvnni", "amx-tile", "amx-bf16", "amx-int8", "neon", "sve",
)  # fmt: skip
_TOLERANCE = 1e-5

Fact = tuple[str, str, bool]
"""Label, value, and whether the value is OK."""


def doctor() -> bool:
    """Print the facts; whether all is well."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=True)
    well = True
    for title, facts in (
        ("versions", _versions), ("processor", _processor), ("threads", _threads),
        ("NVIDIA GPUs", _gpus), ("cache", _cache), ("settings", _settings), ("a kernel", _kernel),
    ):  # fmt: skip
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column()
        table.add_column(overflow="fold")  # long paths are worth more whole
        for what, answer, good in _guarded(facts):
            well = well and good
            table.add_row(what, Text(answer, style="" if good else "red"))
        console.print(f"[bold]{title}[/bold]")
        console.print(table)
    console.print("all is well" if well else "[red]something is wrong: see above[/red]")
    return well


def _guarded(facts: Callable[[], Iterator[Fact]]) -> Iterator[Fact]:
    """The facts; an error while they are collected is one more of them."""
    try:
        yield from facts()
    except Exception as error:
        yield "failed", f"{type(error).__name__}: {error}", False


def _versions() -> Iterator[Fact]:
    yield "tilewright", f"{tilewright.__version__}, {Path(tilewright.__file__).parent}", True
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield "Python", f"{python}, {platform.system()} {platform.release()}", True
    for name in _NEEDED:
        version = _version(name)
        yield name, version or "not installed", version is not None
    from llvmlite import binding

    yield "LLVM", ".".join(map(str, binding.llvm_version_info)), True
    for name in _OPTIONAL:
        yield name, _version(name) or "not installed (not needed)", True


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    """The processor as it calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _processor() -> Iterator[Fact]:
    from tilewright.backends.cpu.target import current_target

    target = current_target()
    yield "model", cpu_name(), True
    yield "compiled for", f"{target.triple}, {target.cpu}", True
    yield "vectors", f"{target.vector_registers} registers of {target.vector_bits} bits", True
    yield "AMX", "yes" if target.has("amx-tile") else "no", True
    yield "features", " ".join(f for f in _FEATURES if target.has(f)) or "none of note", True
    yield "caches", f"L1 {target.l1_bytes >> 10} KiB, L2 {target.l2_bytes >> 10} KiB", True


def _threads() -> Iterator[Fact]:
    from tilewright.runtime.drivers.cpu import driver

    native = driver()
    native.refresh_threads()
    kinds: dict[str, str] = {
        "libgomp": "libgomp's, which something loaded into this process",
        "own": "tilewright's own pool",
        "python": "a Python thread pool (no native launcher for this system)",
        "none": "none besides the caller",
    }
    yield "threads", str(native.threads), native.threads >= 1
    yield "whose", kinds.get(native.pool_kind) or str(native.pool_kind), True


def _cache() -> Iterator[Fact]:
    from tilewright.cli.cache import contents, size_text
    from tilewright.runtime.cache import disk_cache

    cache = disk_cache()
    found = contents(cache.directory)
    yield "folder", str(cache.directory), True
    limit = size_text(cache.limit_bytes)
    yield "holds", f"{found.entries} entries, {size_text(found.bytes)} of {limit}", True
    yield "writeable", *_writeable(cache)


def _writeable(cache: Any) -> tuple[str, bool]:
    """Whether a cache entry and a tuning result can be written and read back; both are removed afterwards."""
    from tilewright.runtime.tuning import TuningRecord

    key = cache.key("doctor", str(os.getpid()))
    record = TuningRecord({"doctor": str(os.getpid())})
    try:
        if not cache.store(key, {"probe": b"probe"}):
            return f"no: {_why_not(cache.path(key).parent)} (set TILEWRIGHT_CACHE_DIR)", False
        if cache.load(key) != {"probe": b"probe"}:
            return "no: what was written is not read again (set TILEWRIGHT_CACHE_DIR)", False
        record.update({"probe": [1.0]})
        if not record.load():
            return f"kernels are, tuning results are not: {_why_not(record.path.parent)}", False
    finally:
        for path in (cache.path(key), record.path, Path(f"{record.path}.lock")):
            with contextlib.suppress(OSError):
                path.unlink()
    return "yes: an entry was written and read again", True


def _why_not(folder: Path) -> str:
    """The reason why a folder is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        return str(error)
    return f"{folder} belongs to another user, whose code would be run"


def _settings() -> Iterator[Fact]:
    from tilewright import config

    settings = config.current()
    for item in fields(settings):
        value: Any = getattr(settings, item.name)
        if value is None or value == ():
            continue
        text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        yield item.name, text, item.name != "problems"


def _gpus() -> Iterator[Fact]:
    from tilewright import config
    from tilewright.backends.nvidia import tools

    native = _cuda_driver()
    if isinstance(native, str):
        yield "driver", f"{native}: kernels compile for GPUs, and run on the CPU", True
    else:
        major, minor = divmod(native.version // 10, 100)
        yield "driver", f"CUDA {major}.{minor}, GPUs: {native.device_count}", True
        for index in range(native.device_count):
            yield f"GPU {index}", *_gpu(native, index)
    for tool, without, package in (
        ("ptxas", "the driver assembles", "nvidia-cuda-nvcc"),
        ("nvdisasm", "no SASS to look at", "nvidia-cuda-nvdisasm"),
    ):
        path = tools.find(tool)
        asked = config.current().ptxas if tool == "ptxas" else None
        if path is None and asked is not None:
            yield tool, f"{asked}, which TILEWRIGHT_PTXAS names, is not a file", False
            continue
        answer = str(path) if path is not None else f"not found: {without} ({package} has it)"
        yield tool, answer, True


def _cuda_driver() -> Any:
    """The driver, or why there is none."""
    from tilewright.errors import UnsupportedTarget
    from tilewright.runtime.drivers.cuda import driver

    try:
        return driver()
    except UnsupportedTarget as error:
        return str(error).partition("\n")[0]


def _gpu(native: Any, index: int) -> tuple[str, bool]:
    from tilewright.errors import UnsupportedTarget

    try:
        device = native.device(index)
    except UnsupportedTarget as error:
        return str(error).replace("\n", ", "), False
    about = f"{device.multiprocessors} SMs, {device.shared_bytes >> 10} KiB shared"
    return f"{device.name}, {about}, code for {device.target.name}", True


def _kernel() -> Iterator[Fact]:
    from tilewright.cli import self_check
    from tilewright.targets.nvidia import NAMES

    yield "on the CPU", *_timed(self_check.worst_error)
    native = _cuda_driver()
    for index in range(0 if isinstance(native, str) else native.device_count):
        there = functools.partial(self_check.GpuArray, index=index)
        try:
            yield f"on GPU {index}", *_timed(functools.partial(self_check.worst_error, there))
        except Exception as error:  # one failure must not hide other results
            yield f"on GPU {index}", f"{type(error).__name__}: {error}", False
    for name in NAMES:
        compiled = self_check.compiled_for(name)
        figures = f", {compiled.n_regs} registers" if compiled.n_regs else ""
        yield f"for {name}", f"{len(compiled.asm['ptx'].splitlines())} lines of PTX{figures}", True


def _timed(worst_error: Callable[[], float]) -> tuple[str, bool]:
    """The largest error of a softmax, and the duration of its first call."""
    start = time.perf_counter()
    error = worst_error()
    milliseconds = (time.perf_counter() - start) * 1e3
    good = error < _TOLERANCE
    verdict = "right" if good else "WRONG"
    return f"{verdict}: a softmax, error {error:.1e}, first call {milliseconds:.0f} ms", good
