"""Plans of `matmul` calls with known shapes: allocate the result and workspaces, launch the kernels."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy

from tilewright import config
from tilewright.dtypes import dtype
from tilewright.generator.contraction import Part
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.devices import Place, stream_function
from tilewright.runtime.matmul.aliasing import OutputAliasCheck
from tilewright.runtime.matmul.kernels import GeneratedKernel


class Launch:
    """One kernel of a plan with its integers.

    Args:
        kernel, grid, integers, options: the launch's kernel, grid, integer arguments and options.
        pointers: positions of its arrays in the plan's list.
        numbers: whether the call's numbers follow the integers.
        place: the GPU to launch on, None for the CPU.

    The plan's key determines the arrays except their addresses. After the first launch native code is therefore
    called directly and checks the addresses' specialization itself. If the check fails, or environment variables
    that launches read are set, the launch takes the ordinary path.
    """

    def __init__(
        self,
        kernel: GeneratedKernel,
        grid: tuple[int, ...],
        integers: tuple[int, ...],
        options: dict[str, Any],
        pointers: tuple[int, ...],
        numbers: bool,
        place: Place | None,
    ) -> None:
        self.kernel, self.grid, self.integers, self.options = kernel, grid, integers, options
        self.pointers, self.numbers, self.place = pointers, numbers, place
        self._device = 0 if place is None else place.device
        self._call: Callable[..., Any] | None = None
        self._compiled: CompiledKernel | None = None
        """Keeps the code and launch record alive that the call reads."""
        self._words: Callable[[Sequence[Any]], Iterable[Any]] = tuple
        self._stream: Callable[[int], int] | None = None
        self._plain, self._variables = config.launch_variables_test()
        if place is not None:
            self._stream = stream_function(place.library)

    def __call__(self, arrays: Sequence[Any], numbers: Sequence[float]) -> None:
        """Launch with arrays in the order of the kernel's pointers."""
        call = self._call
        if call is not None and self._plain(self._variables):
            words = self._words(arrays)
            if self._stream is None:
                result = call(self.grid, *words, *self.integers, *numbers)
            else:
                stream = self._stream(self._device)
                result = call(self.grid, stream, *words, *self.integers, *numbers)
            if result is None:
                return
        self._call = None
        compiled = self.kernel[self.grid](*arrays, *self.integers, *numbers, **self.options)
        words = _words(arrays)
        if words is not None and compiled is not None:  # not interpreted
            self._words, self._compiled = words, compiled
            values = (*arrays, *self.integers, *numbers)
            self._call = self.kernel.launcher.last_call(values, self.place, compiled)


def _words(arrays: Sequence[Any]) -> Callable[[Sequence[Any]], Iterable[Any]] | None:
    """A function from arrays of these classes to native arguments: NumPy arrays themselves, addresses of tensors.

    Returns None for arrays that need further checks at launch.
    """
    libraries = [type(x).__module__.partition(".")[0] for x in arrays]
    if all(name == "numpy" for name in libraries):
        return iter
    if not all(name in ("numpy", "torch") for name in libraries):
        return None
    address = type(arrays[libraries.index("torch")]).data_ptr
    if "numpy" not in libraries:
        return functools.partial(map, address)
    tensors = [name == "torch" for name in libraries]
    return lambda given: [
        address(x) if tensor else x for x, tensor in zip(given, tensors, strict=True)
    ]


@dataclass(frozen=True)
class Panels:
    """A workspace for a packed operand: name, number of elements, and the types for writing and reading."""

    role: str
    count: int
    stored: dtype
    packed: dtype

    def make(self) -> tuple[Any, Any]:
        """The same memory, as the packing program and as the matmul sees it."""
        read = workspace(self.role, self.count, self.packed)
        if self.stored == self.packed:
            return read, read
        return read.view(self.stored.array_name), read


@dataclass(eq=False)
class Plan:
    """Execution of a call with known shapes: allocate the result, launch the kernels, return the result."""

    launches: tuple[Launch, ...]
    make: Callable[[Any], Any] | None
    work: Callable[[Any], Any] | None
    result: Callable[[Any], Any] | None
    adds: bool
    numbers: Callable[[Any, float, tuple[Part, ...]], list[float]]
    replace: Callable[[Any], tuple[Any, Any]] | None = None
    panels: tuple[Panels, ...] = ()
    check: OutputAliasCheck | None = None

    def __post_init__(self) -> None:
        self.swapped = bool(self.launches) and self.launches[0].pointers[:1] == (1,)
        """The program's first operand is b."""

    def __call__(
        self,
        a: Any,
        b: Any,
        out: Any,
        c: Any,
        parts: tuple[Part, ...],
        alpha: float | None,
        beta: float,
    ) -> Any:
        if self.make is not None:
            out = self.make(a)
        elif self.check is not None:
            read = [a, b] if c is None else [a, b, c]
            for part in parts:
                read += part.arrays
            self.check(out, read)
        target = out
        if self.replace is not None:
            a, b = self.replace(a)
        if len(self.launches) == 1 and not parts and c is None and not self.adds:
            operands = (b, a, out) if self.swapped else (a, b, out)
            self.launches[0](operands, () if alpha is None else (alpha,))
        elif self.launches:
            work = None if self.work is None else self.work(a)
            arrays = [a, b, out, out if self.adds else c, work]
            arrays += [x for each in self.panels for x in each.make()] or [None] * 4
            for part in parts:
                if part.arrays:
                    arrays += part.arrays
            numbers = self.numbers(alpha, beta, parts)
            for launch in self.launches:
                launch([arrays[i] for i in launch.pointers], numbers if launch.numbers else ())
        return target if self.result is None else self.result(target)


#: bytes that a role keeps in a thread
MOST_KEPT = 128 << 20
_LINE = 64
_kept = threading.local()


def array_dtype(kind: dtype) -> Any:
    """NumPy's dtype for elements of a type."""
    return numpy.dtype(getattr(ml_dtypes, kind.array_name, None) or kind.array_name)


def workspace(role: str, count: int, kind: dtype) -> Any:
    """A NumPy array of at least `count` elements that starts on a cache line; its contents are anything.

    The next call with the same role in the same thread gives the same memory.
    """
    views = _kept.__dict__
    held = views.get(role)
    if held is not None and held[:2] == (count, kind):
        return held[2]
    element = array_dtype(kind)
    size = count * element.itemsize
    lines = None if held is None else held[3]
    if lines is None or lines.nbytes < size:
        held = lines = None
        views.pop(role, None)  # before the new one is there
        raw = numpy.empty(size + _LINE, numpy.uint8)
        start = -raw.ctypes.data % _LINE
        lines = raw[start : start + size]
    view = lines[:size].view(element)
    if size <= MOST_KEPT:
        views[role] = count, kind, view, lines
    return view
