"""Deprecated spellings of passes and of their options: understood for a release, with a warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

#: old name → new name
PASSES = {
    "turn-in-registers": "select-wgmma-rs",
    "share-boxes": "multicast-tma-loads",
    "store-boxes": "lower-stores-to-tma",
    "chunk-tiles": "strip-mine-tiles",
    "keep-chunks": "cache-in-shared",
    "fit-warps": "reduce-num-warps",
    "split-dots": "emulate-fp32-dots",
    "split-bounds": "partition-loops",
    "vectorize-copies": "vectorize-accesses",
    "form-tile-groups": "form-fusion-groups",
    "read-in-place": "elide-packing",
    "park-in-output": "reuse-output-buffer",
}
#: new name of a pass → its options, old name → new name
OPTIONS = {
    "promote-accumulator": {"apart": "assume-noalias"},
    "pipeline-loads": {
        "lag": "mma-in-flight",
        "boxes": "tma",
        "several": "multiple-dots",
        "parts": "epilogue-subtiles",
        "limit": "max-shared-bytes",
    },
    "specialize-warps": {"everywhere": "all-loops", "parts": "epilogue-subtiles"},
    "lower-stores-to-tma": {"slots": "epilogue-stages"},
    "promote-shared": {"registers": "register-operands"},
    "lower-dot": {"wide": "full-width-vectors"},
    "strip-mine-tiles": {
        "registers": "elements-per-thread",
        "all-registers": "elements-per-cta",
        "share": "strip-elements-per-thread",
        "code": "max-instructions",
        "crowd": "max-pressure",
        "whole": "skip-if-fits",
        "keep": "mark-cacheable",
    },
    "batch-loads": {"words": "registers-per-thread", "all-words": "registers-per-cta"},
    "reduce-num-warps": {"share": "elements-per-thread", "schedulers": "schedulers-per-sm"},
    "vectorize-accesses": {"widest": "max-bytes"},
    "vectorize": {"split-bounds": "partition-loops"},
}
_SPEC = re.compile(r"\s*([\w-]+)\s*(?:(\{)(.*)\})?\s*", re.DOTALL)
_OPTION = re.compile(r"([A-Za-z_][\w-]*)(?=\s*=)")


def current_name(name: str) -> str:
    """The name of a pass now. Warns where `name` is deprecated."""
    new = PASSES.get(name, name)
    if new != name:
        _warn(f"pass {name!r} is now called {new!r}")
    return new


def current_option(pass_name: str, option: str) -> str:
    """The name of an option of the pass `pass_name` now. Warns where `option` is deprecated."""
    new = OPTIONS.get(pass_name, {}).get(option.replace("_", "-"), option)
    if new != option:
        _warn(f"option {option!r} of pass {pass_name!r} is now called {new!r}")
    return new


def current_spec(text: str) -> str:
    """`text`, a pass with or without options in braces, in the present spelling."""
    match = _SPEC.fullmatch(text)
    if match is None:
        return text
    name = current_name(match[1])
    if match[2] is None:
        return name
    options = _OPTION.sub(lambda option: current_option(name, option[1]), match[3])
    return f"{name}{{{options}}}"


def current_specs(texts: Iterable[str]) -> tuple[str, ...]:
    """Each of `texts` in the present spelling."""
    return tuple(current_spec(text) for text in texts)


def _warn(text: str) -> None:
    warnings.warn(f"{text}; the old name will be removed", DeprecationWarning, stacklevel=2)
