"""Registers as arrays: the bits of each thread's in a uint64, seen as one of PTX's types when needed."""

import re

import ml_dtypes
import numpy as np

KINDS = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    **{f"{k}{w}": np.dtype(f"{'i' if k == 's' else 'u'}{w // 8}").type
       for k in "sub" for w in (8, 16, 32, 64)},
}  # fmt: skip


class Fault(Exception):
    """Something that PTX does not define, or the machine does not know."""


def width(kind):
    """Bytes of a type."""
    return np.dtype(KINDS[kind]).itemsize


def seen(bits, kind):
    """Bits (uint64) as values of a type; wider registers give their low part."""
    whole = np.dtype(f"u{width(kind)}")
    return np.ascontiguousarray(bits.astype(whole)).view(KINDS[kind])


def bits_of(values):
    """The bits of values, in a uint64."""
    values = np.ascontiguousarray(values)
    return values.view(np.dtype(f"u{values.dtype.itemsize}")).astype(np.uint64)


_NUMBER = re.compile(r"-?(0[xX][0-9A-Fa-f]+|\d+)U?$")


def immediate(text):
    """The bits of a constant; None for other text."""
    if text[:2] in ("0f", "0F") and len(text) == 10:
        return int(text[2:], 16)
    if text[:2] in ("0d", "0D") and len(text) == 18:
        return int(text[2:], 16)
    if _NUMBER.match(text):
        return int(text.rstrip("U"), 0) & (1 << 64) - 1
    return None


def swizzled(address, span):
    """Addresses with the 16-byte chunks of lines exchanged by bits 7 and up (PTX ISA, swizzling modes)."""
    if not span:
        return address
    return address ^ ((address >> 7 & (span // 16 - 1)) << 4)
