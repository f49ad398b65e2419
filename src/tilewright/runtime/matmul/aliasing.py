"""Whether a matmul's result shares memory with what the matmul reads.

Programs write tiles of the result while others still read operands, so sharing gives garbage. An addend or an
array of an epilogue that is the result itself, element by element, is read before it is written, by the
same program, and may stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from tilewright.errors import LaunchError
from tilewright.runtime.matmul.shapes import View, view_of
from tilewright.runtime.specialize import array_address

#: how long to search for an element that two interleaved arrays share: NumPy's `max_work`, whose type its hints
#: narrow to its two named values
_SEARCH: Any = 100_000
#: of a result whose elements are compared with each other
_MOST_ELEMENTS = 1 << 20


class OutputAliasCheck:
    """The check of arrays with known shapes and strides.

    Args:
        out: the result.
        others: name, array and whether it may be the result itself, for each array that is read.
    """

    def __init__(self, out: Any, others: Sequence[tuple[str, Any, bool]]) -> None:
        self.out = view_of(out)
        self.span = _span(self.out)
        self.others = [(name, view_of(x), same) for name, x, same in others]
        self.spans = [_span(view) for _, view, _ in self.others]
        self._passed: tuple[int, ...] = ()
        arrays = [out, *(x for _, x, _ in others)]
        self._bounds = _bounds_check(arrays)
        self._tensors = all(hasattr(x, "data_ptr") for x in arrays)

    def __call__(self, out: Any, arrays: Sequence[Any]) -> None:
        """Raises LaunchError where `out` shares elements with one of `arrays` (in the order given before)."""
        if self._bounds is not None:
            for x in arrays:
                if self._bounds(out, x):
                    break
            else:
                return
        if self._tensors:
            places = tuple([x.data_ptr() for x in (out, *arrays)])
        else:
            places = tuple([array_address(x)[0] for x in (out, *arrays)])
        if places == self._passed:
            return
        start = places[0]
        for place, span, (name, view, same) in zip(
            places[1:], self.spans, self.others, strict=True
        ):
            if start + self.span[1] <= place + span[0] or place + span[1] <= start + self.span[0]:
                continue
            if same and place == start and _alike(view, self.out):
                continue
            if _share(start, self.out, place, view):
                raise LaunchError(
                    f"matmul: out and {name} share memory, and {name} is read while out is written",
                    help=f"write to another array, or pass a copy of {name}",
                )
        self._passed = places


def _bounds_check(arrays: Sequence[Any]) -> Any:
    """NumPy's comparison of the bytes that two arrays span, where all are NumPy's: faster than addresses from Python."""
    if any(type(x).__module__.partition(".")[0] != "numpy" for x in arrays):
        return None
    return numpy.may_share_memory


def may_have_internal_overlap(view: View) -> bool:
    """Whether two elements may be one: an axis steps less far than shorter ones reach."""
    reach = 0
    steps = [(abs(s), n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1]
    for stride, extent in sorted(steps):
        if stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def has_internal_overlap(view: View) -> bool:
    """Whether two elements are certainly one; also where there are too many to look at each."""
    if 0 in view.shape:
        return False
    if math.prod(view.shape) > _MOST_ELEMENTS or 0 in (
        s for n, s in zip(view.shape, view.strides, strict=True) if n > 1
    ):
        return True
    offsets = {0}
    count = 1
    for extent, stride in zip(view.shape, view.strides, strict=True):
        offsets = {x + i * stride for x in offsets for i in range(extent)}
        count *= extent
        if len(offsets) < count:
            return True
    return False


def _span(view: View) -> tuple[int, int]:
    """Byte range [first, end) relative to the first element's address; (0, 0) if empty."""
    if 0 in view.shape:
        return 0, 0
    steps = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    size = view.dtype.itemsize
    return size * sum(min(s, 0) for s in steps), size * (sum(max(s, 0) for s in steps) + 1)


def _alike(view: View, out: View) -> bool:
    """Whether two views of one address have every element at the same place (axes of 1 aside)."""

    def steps(x: View) -> list[tuple[int, int]]:
        return [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n > 1]

    return view.dtype.itemsize == out.dtype.itemsize and steps(view) == steps(out)


class _Bytes:
    """An array interface for `view` at an address. Its elements are not read."""

    def __init__(self, place: int, view: View) -> None:
        size = view.dtype.itemsize
        self.__array_interface__ = {
            "data": (place, True), "shape": view.shape, "typestr": f"|V{size}", "version": 3,
            "strides": tuple(s * size for s in view.strides),
        }  # fmt: skip


def _share(start: int, out: View, place: int, view: View) -> bool:
    """Whether two arrays have a byte in common; also where it would take long to find out."""
    if 0 in (math.prod(out.shape), math.prod(view.shape)):
        return False
    first, second = (numpy.asarray(_Bytes(p, v)) for p, v in ((start, out), (place, view)))
    try:
        return bool(numpy.shares_memory(first, second, max_work=_SEARCH))
    except Exception as error:
        if type(error).__name__ == "TooHardError":
            return True
        raise
