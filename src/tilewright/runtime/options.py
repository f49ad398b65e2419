"""Launch keywords that are not parameters of the kernel: options of this and of other targets."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from tilewright.backends.base import Options
from tilewright.config import Config
from tilewright.errors import LaunchError

#: options that change code on some target of ours; none of the first group does on a CPU
_GPU_OPTIONS = frozenset(("num_warps", "num_stages", "num_ctas", "maxnreg"))
_CODE_OPTIONS = frozenset(("debug", "enable_fp_fusion"))
#: other people's options, accepted everywhere
VENDOR_OPTIONS = frozenset((
    "waves_per_eu", "matrix_instr_nonkdim", "kpack", "allow_flush_denorm", "schedule_hint",
    "llvm_fn_attrs", "wgp_cu_mode", "launch_pdl", "launch_cooperative_grid", "extern_libs",
    "ptx_options", "ir_override", "min_shared_mem", "sanitize_overflow", "clc", "num_cpu_threads",
    "cluster_dims", "num_buffers_warp_spec", "num_consumer_groups", "reg_dec_producer",
    "reg_inc_consumer", "instrumentation_mode", "arch", "backend_name", "supported_fp8_dtypes",
    "default_dot_input_precision", "allowed_dot_input_precisions", "max_num_imprecise_acc_default",
    "threads_per_warp", "grf_mode", "num_cores", "vectorize", "stream", "device", "device_type",
))  # fmt: skip
_IGNORED = VENDOR_OPTIONS | _GPU_OPTIONS
_noted: set[str] = set()


def check_known(options: Mapping[str, Any], kernel: Any) -> None:
    """Raise LaunchError for keywords that neither the kernel nor any target has."""
    for name in options:
        if name in _GPU_OPTIONS or name in _CODE_OPTIONS or name in VENDOR_OPTIONS:
            continue
        names = [*kernel.arg_names, *sorted(_GPU_OPTIONS | _CODE_OPTIONS | VENDOR_OPTIONS)]
        import difflib

        close = difflib.get_close_matches(name, names, 1)
        raise LaunchError(
            f"unknown keyword '{name}'",
            help=f"did you mean '{close[0]}'?"
            if close
            else f"its parameters are {', '.join(kernel.arg_names)}",
        )


def parse(options: Mapping[str, Any], kernel: Any, settings: Config) -> Options:
    """The options that change code on a CPU; the others are set to what has no effect."""
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
    return Options(
        debug=bool(settings.debug if debug is None else debug or settings.debug),
        enable_fp_fusion=bool(options.get("enable_fp_fusion", True)),
        disable=(),
    )


def fast_key(options: Mapping[str, Any]) -> Hashable:
    """The part of a launch's keywords that changes code, as part of a key; () without any."""
    if _IGNORED.issuperset(options):
        return ()
    key: list[Any] = []
    for name, value in options.items():
        if name in _CODE_OPTIONS:
            key.append((name, bool(value)))
        elif name not in _GPU_OPTIONS and name not in VENDOR_OPTIONS:
            key.append((name, None))  # unknown: never stored, so the slow way reports it
    return tuple(sorted(key))
