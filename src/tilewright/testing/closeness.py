"""`assert_close` for NumPy arrays, torch tensors and anything with `__array__` or `__dlpack__`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

#: shown in a failure
_WORST_SHOWN = 5


def to_numpy(value: Any) -> np.ndarray:
    """A NumPy array with the values of `value`; bf16 and fp8 become float32."""
    torch = sys.modules.get("torch")
    tensor_type = getattr(torch, "Tensor", None)
    if isinstance(tensor_type, type) and isinstance(value, tensor_type):
        value = value.detach().cpu()
        if value.is_floating_point() and value.element_size() < 4:
            value = value.float()
        return value.numpy()
    if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        value = np.from_dlpack(value)
    return np.asarray(value)


def _wide(array: np.ndarray) -> np.ndarray:
    """float64 (complex128) of a floating array; integers as they are."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "fV" or array.dtype.name.startswith(("bfloat", "float8")):
        return array.astype(np.float64)
    return array


def assert_close(
    x: Any,
    y: Any,
    atol: float | None = None,
    rtol: float | None = None,
    err_msg: str = "",
) -> None:
    """Raise AssertionError unless `|x - y| <= atol + rtol * |y|` in every element.

    Args:
        x, y: arrays of broadcastable shapes (NumPy, torch, DLPack) or scalars; y is the reference.
            NaN equals NaN and an infinity equals itself.
        atol, rtol: tolerances, 1e-2 and 0 by default as in Triton.
        err_msg: put before the report of the worst elements.
    """
    atol = 1e-2 if atol is None else float(atol)
    rtol = 0.0 if rtol is None else float(rtol)
    given, wanted = to_numpy(x), to_numpy(y)
    try:
        a, b = np.broadcast_arrays(_wide(given), _wide(wanted))
    except ValueError:
        raise AssertionError(
            f"{err_msg}\nshapes differ: {given.shape} and {wanted.shape}".lstrip()
        ) from None
    both_int = a.dtype.kind in "iub" and b.dtype.kind in "iub"
    if both_int and atol < 1 and rtol == 0:
        good = a == b
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            left, right = a.astype(np.result_type(a, np.float64)), b.astype(np.float64)
            good = np.isfinite(right) & (np.abs(left - right) <= atol + rtol * np.abs(right))
            good |= (left == right) | (np.isnan(left) & np.isnan(right))
    if good.all():
        return
    raise AssertionError(f"{err_msg}\n{_report(a, b, good, atol, rtol)}".lstrip())


def _report(a: np.ndarray, b: np.ndarray, good: np.ndarray, atol: float, rtol: float) -> str:
    """Count of bad elements and the worst of them with their indices."""
    bad = ~good
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a.astype(np.float64) - b.astype(np.float64))
    error = np.where(bad, np.where(np.isnan(error), np.inf, error), -1.0)
    order = np.argsort(-error, axis=None, kind="stable")[:_WORST_SHOWN]
    lines = [
        f"{int(bad.sum())} of {bad.size} elements differ by more than atol={atol:g} + "
        f"rtol={rtol:g} * |expected|"
    ]
    for flat in order:
        index = tuple(int(i) for i in np.unravel_index(flat, bad.shape))
        if bad[index]:
            lines.append(f"  at {list(index)}: got {a[index]!s}, expected {b[index]!s}")
    return "\n".join(lines)
