"""Launch keywords that are not parameters of the kernel: options of this and of other targets."""

from __future__ import annotations

import contextlib
import operator
import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, replace
from typing import Any

from tilewright.backends.base import Options
from tilewright.config import Config
from tilewright.dtypes import constexpr
from tilewright.errors import LaunchError, LaunchOptionError, UnknownKeywordError

#: options that change code on some target of ours; those of the first group only on a GPU
_GPU_OPTIONS = frozenset(("num_warps", "num_stages", "num_ctas", "maxnreg"))
_CODE_OPTIONS = frozenset(("debug", "enable_fp_fusion", "launch_cooperative_grid"))
#: option on every target that is no plain value: names of passes to leave out
_DISABLE = "disable"
#: the same: checks in compiled code
_CHECK = "check"
_NAMES_OF_CHECKS = ("bounds", "views")
#: other people's options, accepted everywhere
VENDOR_OPTIONS = frozenset((
    "waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "schedule_hint",
    "llvm_fn_attrs", "wgp_cu_mode", "launch_pdl", "extern_libs",
    "ptx_options", "ir_override", "min_shared_mem", "sanitize_overflow", "clc", "num_cpu_threads",
    "cluster_dims", "num_buffers_warp_spec", "num_consumer_groups", "reg_dec_producer",
    "reg_inc_consumer", "instrumentation_mode", "arch", "backend_name", "supported_fp8_dtypes",
    "default_dot_input_precision", "allowed_dot_input_precisions", "max_num_imprecise_acc_default",
    "threads_per_warp", "grf_mode", "num_cores", "vectorize", "stream", "device", "device_type",
))  # fmt: skip
#: options that most launches on a GPU give: parameters of their own in generated functions
USUAL_OPTIONS = ("num_warps", "num_stages", "num_ctas")
_COUNTED = _CODE_OPTIONS | _GPU_OPTIONS
_IGNORED = VENDOR_OPTIONS | _GPU_OPTIONS
_noted: set[str] = set()
_RANGES = {"num_warps": (1, 32), "num_stages": (0, 64), "num_ctas": (1, 16), "maxnreg": (16, 255)}


def is_option(name: str) -> bool:
    """Whether a launch takes a keyword of this name besides the kernel's own parameters."""
    return name in _COUNTED or name in VENDOR_OPTIONS or name in (_DISABLE, _CHECK)


def check_known(options: Mapping[str, Any], kernel: Any) -> None:
    """Raise LaunchError for keywords that neither the kernel nor any target has."""
    for name in options:
        if is_option(name):
            continue
        names = [*kernel.arg_names, *sorted({*_COUNTED, *VENDOR_OPTIONS, _DISABLE, _CHECK})]
        import difflib

        close = difflib.get_close_matches(name, names, 1)
        raise UnknownKeywordError(
            f"unknown keyword '{name}'",
            help=f"did you mean '{close[0]}'?"
            if close
            else f"its parameters are {', '.join(kernel.arg_names)}",
        )


def parse(options: Mapping[str, Any], kernel: Any, settings: Config, gpu: bool = False) -> Options:
    """The options that change code on a CPU, or on a GPU; the others are set to what has no effect.

    Raises LaunchError for values that no GPU takes.
    """
    for name in options:
        if name in VENDOR_OPTIONS and name not in _noted:
            import logging

            _noted.add(name)
            logging.getLogger("tilewright").info(
                "launch option %s means nothing on this target and is ignored", name
            )
    debug = options.get("debug")
    if debug is None:
        debug = kernel.debug
    chosen = Options(
        debug=bool(settings.debug if debug is None else debug or settings.debug),
        enable_fp_fusion=bool(options.get("enable_fp_fusion", True)),
        launch_cooperative_grid=bool(options.get("launch_cooperative_grid")),
        disable=disabled_passes(options.get(_DISABLE)),
        check=checks_of(settings.check if options.get(_CHECK) is None else options[_CHECK]),
    )
    if gpu and chosen.check:
        raise LaunchError(
            f"check={','.join(chosen.check)}: compiled code is checked on a CPU only",
            help="give it arrays in host memory, or set TILEWRIGHT_INTERPRET=1",
        )
    counted = _gpu_options(options)  # on a CPU as well: a wrong value is wrong everywhere
    return replace(chosen, **counted) if gpu else chosen


def of_parameters(kernel: Any, values: Mapping[str, Any]) -> dict[str, int]:
    """Options of a GPU that the kernel has constexpr parameters of the same name for (`num_warps: tl.constexpr`): a
    keyword of a launch is both, where it is a value that the option may have."""
    found: dict[str, int] = {}
    for name in _GPU_OPTIONS.intersection(p.name for p in kernel.params if p.is_constexpr):
        value = values.get(name)
        value = value.value if isinstance(value, constexpr) else value
        if type(value) is int:
            with contextlib.suppress(LaunchError):
                found.update(_gpu_options({name: value}))
    return found


def for_compilation(given: Options | Mapping[str, Any] | None, more: Mapping[str, Any]) -> Options:
    """`options` of `JITFunction.compile` with single ones, `more`. Raises LaunchError."""
    if isinstance(given, Options):
        base, wanted = given, dict(more)
    else:
        base, wanted = Options(), {**(given or {}), **more}
    names = {f.name for f in fields(Options)}
    unknown = [name for name in wanted if name not in names and name not in VENDOR_OPTIONS]
    if unknown:
        raise LaunchError(
            f"unknown option {', '.join(map(repr, unknown))}",
            help=f"options are {', '.join(sorted(names))}",
        )
    chosen: dict[str, Any] = dict(_gpu_options(wanted))
    if _DISABLE in wanted:
        chosen[_DISABLE] = disabled_passes(wanted[_DISABLE])
    if _CHECK in wanted:
        chosen[_CHECK] = checks_of(wanted[_CHECK])
    chosen.update((name, bool(wanted[name])) for name in _CODE_OPTIONS if name in wanted)
    return replace(base, **chosen)


def disabled_passes(given: Any) -> tuple[str, ...]:
    """`disable=`: names of passes with commas, or a sequence of them. Raises LaunchError for others."""
    names = given.split(",") if isinstance(given, str) else () if given is None else given
    try:
        names = tuple(name.strip() for name in names)
    except (TypeError, AttributeError):
        raise LaunchError(
            f"disable={given!r}", help='give names of passes: disable=("licm", "cse")'
        ) from None
    return tuple(name for name in names if name)


def checks_of(given: Any) -> tuple[str, ...]:
    """`check=`: "bounds", or "bounds,-views" for whole allocations; () for None, "" and False.

    "bounds" holds "views": an array that is a view is checked against its own extent. Raises
    LaunchError for other names.
    """
    if given is None or given is False or given == "" or given == ():
        return ()
    names = given.split(",") if isinstance(given, str) else given
    try:
        names = [name.strip() for name in names]
    except (TypeError, AttributeError):
        names = [repr(given)]
    chosen: set[str] = set()
    for name in filter(None, names):
        plain = name.removeprefix("-")
        if plain not in _NAMES_OF_CHECKS:
            raise LaunchError(
                f"unknown check '{name}' of compiled code",
                help='give "bounds", or "bounds,-views" to check against whole allocations',
            )
        if plain == name:
            chosen |= {"bounds", "views"}
        else:
            chosen -= {plain, "views"}
    return tuple(sorted(chosen))


def _gpu_options(options: Mapping[str, Any]) -> dict[str, int]:
    found = {name: options[name] for name in _GPU_OPTIONS if options.get(name) is not None}
    for name, value in found.items():
        try:
            found[name] = number = operator.index(value)
        except TypeError:
            raise LaunchError(f"{name}={value!r} is not an integer") from None
        low, high = _RANGES[name]
        power = not number & (number - 1)
        fits = {"num_warps": power or number % 4 == 0, "num_ctas": power}.get(name, True)
        if not low <= number <= high or not fits:
            kinds = {"num_warps": "a power of 2 or a multiple of 4", "num_ctas": "a power of 2"}
            kind = kinds.get(name, "an integer")
            raise LaunchOptionError(f"{name} must be {kind} from {low} to {high}, got {number}")
    return found


def usual(gpu: bool) -> Callable[[Mapping[str, Any]], bool]:
    """A test: the key is just `()` (on a CPU) or all items (on a GPU)."""
    return (_COUNTED if gpu else _IGNORED).issuperset


def fast_key(gpu: bool, options: Mapping[str, Any]) -> Hashable:
    """The part of a launch's keywords that changes code, as part of a key; () without any."""
    if usual(gpu)(options):
        return tuple(options.items()) if gpu else ()
    counted = _COUNTED if gpu else _CODE_OPTIONS
    key: list[Any] = []
    for name, value in options.items():
        if name == _DISABLE:
            key.append((name, disabled_passes(value)))
        elif name == _CHECK:
            key.append((name, str(value)))
        elif name in counted:
            key.append((name, value))
        elif name not in _GPU_OPTIONS and name not in VENDOR_OPTIONS:
            key.append((name, None))  # unknown: never stored, so the slow path reports it
    return tuple(sorted(key))


_warned: set[str] = set()


def check_settings(settings: Config) -> None:
    """Raise LaunchError for settings that are not understood; warn of checks that nothing makes."""
    if settings.problems:
        raise LaunchError(
            "; ".join(settings.problems), help="`tilewright doctor` prints all settings"
        )
    if settings.debug_checks:
        from tilewright.debug.context import check_names

        check_names(settings.debug_checks)
        if not settings.interpreted:
            _warn(
                "TILEWRIGHT_DEBUG_CHECKS is set, but kernels run as machine code, which makes no such checks: "
                "set TILEWRIGHT_INTERPRET=1, too"
            )


def _warn(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=2)
