"""Find arrays by address that a launch was not given, for kernels that load pointers from memory.

Known are arrays that the user has registered, and NumPy arrays and torch tensors that Python objects
or the local variables of running functions refer to.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tilewright.interpreter.arrays import ArrayMemory, array_layout, array_memory
from tilewright.interpreter.pointers import Allocation, allocation_of

#: registered arrays by identity: name, and a function that gives the array while it lives
_registered: dict[int, tuple[str, Callable[[], Any]]] = {}


def register_arrays(*arrays: Any, **named: Any) -> None:
    """Let kernels that run as Python reach `arrays` through addresses that they read from memory.

    Needed only for arrays that no Python object refers to, such as those that another library
    allocates: others are found. Reports call an array by its keyword in `named`. `forget_arrays`
    ends it, and so does the end of the array. Raises LaunchError for what is no array on the CPU.
    """
    for name, array in [*(("", array) for array in arrays), *named.items()]:
        array_memory(array)
        try:
            alive: Callable[[], Any] = weakref.ref(array)
        except TypeError:  # a class without weak references: kept until it is forgotten
            alive = lambda array=array: array  # noqa: E731
        _registered[id(array)] = name, alive


def forget_arrays(*arrays: Any) -> None:
    """Take back `register_arrays` for `arrays` (none: for all)."""
    if not arrays:
        _registered.clear()
    for array in arrays:
        _registered.pop(id(array), None)


class KnownArrays:
    """All arrays that are known now, looked for once."""

    def __init__(self) -> None:
        registered = [(name, alive()) for name, alive in list(_registered.values())]
        self._registered = _described((n, a) for n, a in registered if a is not None)
        self._others: list[tuple[str, Any, ArrayMemory]] | None = None

    def find(self, address: int) -> Allocation | None:
        """The largest array that holds `address`, registered ones first."""
        found = _largest(address, self._registered)
        if found is None:
            if self._others is None:
                self._others = _described(("", array) for array in _all_arrays())
            found = _largest(address, self._others)
        if found is None:
            return None
        name, array, memory = found
        name = name or f"{type(array).__name__} {list(array_layout(array)[0])}"
        return allocation_of(name, array, memory, memory.base, memory.nbytes)


def _described(arrays: Iterable[tuple[str, Any]]) -> list[tuple[str, Any, ArrayMemory]]:
    found = ((name, array, _host_memory(array)) for name, array in arrays)
    return [(name, array, memory) for name, array, memory in found if memory is not None]


def _largest(
    address: int, arrays: Iterable[tuple[str, Any, ArrayMemory]]
) -> tuple[str, Any, ArrayMemory] | None:
    holding = [a for a in arrays if a[2].base <= address < a[2].base + a[2].nbytes]
    return max(holding, key=lambda a: a[2].nbytes, default=None)


def _host_memory(array: Any) -> ArrayMemory | None:
    """The memory of an array; None if it is not in host memory or has no element type of kernels."""
    try:
        if not getattr(array, "is_cpu", True) or _may_dangle(array):
            return None
        return array_memory(array)
    except Exception:  # objects in the middle of their making or end, sparse and fake tensors
        return None


def _may_dangle(array: Any) -> bool:
    """Whether nothing keeps a NumPy array's memory alive: the array was made from a bare address,
    as the views of this package's allocations do."""
    owner = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    kept: Any = owner
    return isinstance(owner, ctypes.Array) and not kept._b_needsfree_ and kept._b_base_ is None


def _all_arrays() -> list[Any]:
    """Every NumPy array and torch tensor that Python can reach."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    search = _Search((np.ndarray,) if tensor is None else (np.ndarray, tensor))
    tracked = gc.get_objects()
    for start in range(0, len(tracked), 10_000):
        batch = tracked[start : start + 10_000]
        search.add(batch)
        # NumPy arrays are not tracked themselves: objects that refer to them are
        search.add(gc.get_referents(*batch))
    search.add(list(_locals()))
    return list(search.found.values())


class _Search:
    """Instances of some classes among millions of objects.

    Types are collected first, which Python does without interpreting a loop: three times as fast as a
    test of each object.
    """

    def __init__(self, classes: tuple[type, ...]) -> None:
        self.found: dict[int, Any] = {}
        self._classes = classes
        self._matches: dict[int, bool] = {}

    def add(self, objects: list[Any]) -> None:
        for type_ in _types(objects):
            key = id(type_)
            if key not in self._matches:
                self._matches[key] = issubclass(type_, self._classes)
            if self._matches[key]:
                self.found.update((id(value), value) for value in objects if type(value) is type_)


def _types(objects: list[Any]) -> Iterable[type]:
    try:
        return set(map(type, objects))
    except TypeError:  # a metaclass that defines == only makes its classes unhashable
        return {id(type_): type_ for type_ in map(type, objects)}.values()


def _locals() -> Iterator[Any]:
    """Values of local variables of all functions that are running."""
    for frame in sys._current_frames().values():
        while frame is not None:
            yield from list(frame.f_locals.values())
            frame = frame.f_back
