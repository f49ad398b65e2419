"""Describe the host CPU, or a generic CPU, as a `TargetInfo`."""

from __future__ import annotations

import ctypes
import functools
import os
import platform
from pathlib import Path

from llvmlite import binding

from tilewright import config
from tilewright.errors import UnsupportedTarget
from tilewright.targets import TargetInfo

_MODELS = (
    # the first model whose named features the host has: the model selects the scheduling model,
    # the feature string alone determines which instructions may be used
    (("amx-tile", "avx512fp16"), "sapphirerapids"),
    (("avx512bf16", "avxvnni"), "znver4"),
    (("avx512vnni",), "icelake-server"),
    (("avx512f",), "skylake-avx512"),
    (("avx2", "fma"), "haswell"),
)


#: each x86-64 feature requires all features before it
_CHAIN = ("sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2", "avx512f")
#: feature → name prefixes of the features that require it
_BUILDS_ON = {
    "avx": ("avx", "fma", "f16c", "vaes", "vpclmulqdq"),
    "avx2": ("avx512", "avxvnni", "vaes", "vpclmulqdq"),
    "avx512f": ("avx512",),
    "amx-tile": ("amx",),
}
#: baseline features of x86-64: LLVM aborts if one of them is disabled
_BASELINE = ("64bit", "cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "x87")
_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA = 158, 0x1023, 18


def request_amx() -> bool:
    """Request permission for the AMX register state from Linux; return whether this process may use AMX.

    Call it once, before the first AMX instruction. Threads created afterwards inherit the permission.
    """
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long] * 3
    return call(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XFEATURE_XTILEDATA) == 0


@functools.cache
def _host_features() -> tuple[str, ...]:
    return tuple(sorted(name for name, on in binding.get_host_cpu_features().items() if on))


def _cache_bytes(level: int, default: int) -> int:
    """Return the size of a data cache of the first core from sysfs, or `default`."""
    base = Path("/sys/devices/system/cpu/cpu0/cache")
    try:
        for index in base.glob("index*"):
            kind = (index / "type").read_text().strip()
            if int((index / "level").read_text()) == level and kind in ("Data", "Unified"):
                text = (index / "size").read_text().strip()
                unit = {"K": 10, "M": 20}.get(text[-1], 0)
                return int(text.rstrip("KM")) << unit
    except (OSError, ValueError):
        pass
    return default


@functools.cache
def host_target(features_off: tuple[str, ...] = (), threads: int | None = None) -> TargetInfo:
    """Return the target of the host, with some features disabled."""
    features = _without(_host_features(), features_off)
    if "amx-tile" in features and not request_amx():
        features = tuple(f for f in features if not f.startswith("amx"))
    triple = binding.get_process_triple()
    if "avx512f" in features:
        bits, registers = 512, 32
    elif "avx2" in features:
        bits, registers = 256, 16
    else:
        bits, registers = 128, 32 if triple.startswith("aarch64") else 16
    model = next((m for need, m in _MODELS if all(n in features for n in need)), "")
    if not triple.startswith("x86_64"):
        model = binding.get_host_cpu_name()
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return TargetInfo(
        name="cpu",
        triple=triple,
        cpu=model or "x86-64",
        features=features,
        vector_bits=bits,
        vector_registers=registers,
        cores=threads or cores,
        l1_bytes=_cache_bytes(1, 32 << 10),
        l2_bytes=_cache_bytes(2, 1 << 20),
        l3_bytes=_cache_bytes(3, 0),
    )


def current_target() -> TargetInfo:
    """Return the target of the host under the current settings."""
    settings = config.current()
    return host_target(settings.cpu_features_off, settings.num_threads)


_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
#: levels of the x86-64 ABI and plain AArch64: features, bits and number of vector registers
_NAMED = {
    "x86-64": ((), 128, 16), "x86-64-v2": (_V2, 128, 16), "x86-64-v3": (_V3, 256, 16),
    "x86-64-v4": (_V4, 512, 32), "aarch64": (("neon",), 128, 32),
}  # fmt: skip


def target_info(name: str) -> TargetInfo:
    """Return a generic target: "cpu:x86-64", "cpu:x86-64-v2", …"-v4", "cpu:aarch64"; "cpu" is the host.

    The operating system is the host's if the architecture is the same, else Linux. Raises UnsupportedTarget for
    unknown names.
    """
    family, _, kind = name.partition(":")
    if not kind:
        return current_target()
    if kind not in _NAMED:
        kinds = ", ".join(f"{family}:{n}" for n in _NAMED)
        raise UnsupportedTarget(f"there is no CPU target {name!r}", help=f"there are {kinds}")
    features, bits, registers = _NAMED[kind]
    arm = kind == "aarch64"
    architecture, own = "aarch64" if arm else "x86_64", binding.get_process_triple()
    return TargetInfo(
        name="cpu",
        triple=own if own.startswith(architecture) else f"{architecture}-unknown-linux-gnu",
        cpu="generic" if arm else kind,
        features=features,
        vector_bits=bits,
        vector_registers=registers,
        cores=1,
    )


def feature_string(target: TargetInfo) -> str:
    """Return LLVM's feature string: disable the host's other features first, then enable the target's.

    The order matters: `-sse4.1` after `+avx` would disable avx, and LLVM would abort.
    """
    off: list[str] = []
    if target.triple.split("-")[0] == binding.get_process_triple().split("-")[0]:
        kept = (*target.features, *_BASELINE)
        off = [f"-{f}" for f in _host_features() if f not in kept]
    return ",".join([*off, *(f"+{f}" for f in target.features)])


def _without(features: tuple[str, ...], off: tuple[str, ...]) -> tuple[str, ...]:
    """Return `features` without those in `off` and those that require them."""
    gone = set(off)
    first = next((i for i, name in enumerate(_CHAIN) if name in gone), len(_CHAIN))
    gone.update(_CHAIN[first:])
    for base, starts in _BUILDS_ON.items():
        if base in gone:
            gone.update(f for f in features if f.startswith(starts))
    return tuple(f for f in features if f not in gone)


def machine(target: TargetInfo) -> binding.TargetMachine:
    """Create an LLVM target machine for `target` with full optimization."""
    initialize(target.triple)
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=feature_string(target), opt=3, reloc="pic", codemodel="small"
    )


@functools.cache
def initialize(triple: str) -> None:
    """Initialize LLVM's backends once: the native one, or all of them for a foreign triple."""
    if triple.split("-")[0] == binding.get_process_triple().split("-")[0]:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
    else:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
