"""Atomic read-modify-write operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.memory import Memory
from tilewright.semantics.values import TensorValue

_SEMANTICS = ("relaxed", "acquire", "release", "acq_rel")
_READ_MODIFY_WRITE_SEMANTICS = (*_SEMANTICS, "exclusive")
_SCOPES = ("cta", "gpu", "sys")
#: bytes of an element -> the integer type of its bits
_BITS = {1: t.int8, 2: t.int16, 4: t.int32, 8: t.int64}


def _read_modify_write(kind: str) -> Callable[..., TensorValue]:
    """The method of an atomic that combines the value in memory with another; gives the old one."""

    def method(
        self: Atomics, pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
    ) -> TensorValue:
        return self._rmw(kind, pointer, val, mask, sem, scope)

    return method


class Atomics(Memory):
    """`atomic_add` … `atomic_cas`; each gives the value that was in memory."""

    atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor, atomic_xchg = map(
        _read_modify_write, ("add", "max", "min", "and", "or", "xor", "xchg")
    )

    def atomic_cas(
        self, pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None
    ) -> TensorValue:
        what = "tl.atomic_cas"
        pointer = self._pointer_argument(what, pointer)
        element = self._atomic_element(what, pointer, "xchg")
        compare, value = (
            self._to_access_shape(
                what, name, self._number_as(unwrap_constexpr(v), element), pointer
            )
            for name, v in (("cmp", cmp), ("val", val))
        )
        return self.emit(
            "tile.atomic_cas", [pointer, compare, value], element.with_shape(pointer.shape),
            **self._ordering(what, sem, scope),
        )  # fmt: skip

    def atomic_load(
        self, pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None
    ) -> TensorValue:
        what = "tl.atomic_load"
        order = self._known_order(what, sem, ("acquire", "relaxed"))
        bits = self._bits_pointer(what, pointer)
        found = self._rmw("or", bits, 0, mask, order, scope, what)
        return self._from_bits(found, unwrap_constexpr(pointer).dtype.element_ty)

    def atomic_store(
        self, pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
    ) -> None:
        what = "tl.atomic_store"
        order = self._known_order(what, sem, ("release", "relaxed"))
        bits = self._bits_pointer(what, pointer)
        element = unwrap_constexpr(pointer).dtype
        if element.const:
            self._atomic_element(what, unwrap_constexpr(pointer), "xchg")
        value = self._number_as(unwrap_constexpr(val), element.element_ty)
        kind = bits.dtype.element_ty
        value = (
            self.convert(value, kind)
            if value.dtype.is_bool()
            else self.cast(value, kind, bitcast=True)
        )
        self._rmw("xchg", bits, value, mask, order, scope, what)

    def _known_order(self, what: str, sem: Any, allowed: tuple[str, str]) -> str:
        """`sem` of an atomic load or store; the first of `allowed` when it is left out."""
        text = self.known_text(sem, f"{what}: sem", ("", *_SEMANTICS))
        if text and text not in allowed:
            raise KernelTypeError(
                f"{what} only supports {' and '.join(allowed)} semantics, not {text}",
                help=f"leave sem out for {allowed[0]}",
            )
        return text or allowed[0]

    def _bits_pointer(self, what: str, pointer: Any) -> TensorValue:
        """A pointer to integers of the width of what `pointer` points to."""
        pointer = self._pointer_argument(what, pointer)
        element = pointer.dtype.element_ty
        if element.is_ptr():
            raise KernelTypeError(
                f"{what} needs integers or floats, got elements of type {element}"
            )
        bits = _BITS[element.itemsize]
        return self.cast(pointer, t.pointer_type(bits))

    def _from_bits(self, x: TensorValue, kind: Any) -> TensorValue:
        return self.truth(x) if kind.is_bool() else self.cast(x, kind, bitcast=True)

    def _ordering(
        self, what: str, sem: Any, scope: Any, known: tuple[str, ...] = _SEMANTICS
    ) -> dict[str, str]:
        order = self.known_text(sem, f"{what}: sem", ("", *known))
        extent = self.known_text(scope, f"{what}: scope", ("", *_SCOPES))
        return {"sem": order or "acq_rel", "scope": extent or "gpu"}

    def _atomic_element(self, what: str, pointer: TensorValue, kind: str) -> Any:
        element = pointer.dtype.element_ty
        if pointer.dtype.const:
            raise KernelTypeError(
                f"{what}: Cannot store to a constant pointer ({pointer.dtype})",
                help="drop the tl.const annotation of the parameter that it comes from",
            )
        if element.is_bool() or element.is_fp8():
            raise KernelTypeError(
                f"{what} does not support elements of type {element}",
                help="use int32 for flags and fp16 or wider for floats",
            )
        if kind in ("and", "or", "xor") and not element.is_int():
            raise KernelTypeError(f"{what} needs integers, got elements of type {element}")
        return element

    def _rmw(
        self, kind: str, pointer: Any, val: Any, mask: Any, sem: Any, scope: Any, what: str = ""
    ) -> TensorValue:
        what = what or f"tl.atomic_{kind}"
        pointer = self._pointer_argument(what, pointer)
        element = self._atomic_element(what, pointer, kind)
        value = self._number_as(unwrap_constexpr(val), element)
        value = self._to_access_shape(what, "val", value, pointer)
        mask = self._mask_argument(what, unwrap_constexpr(mask), pointer)
        if kind in ("add", "max", "min") and element.is_floating():
            kind = f"f{kind}"
        elif kind in ("max", "min") and element.is_int_unsigned():
            kind = f"u{kind}"
        ordering = self._ordering(what, sem, scope, _READ_MODIFY_WRITE_SEMANTICS)
        return self.emit(
            "tile.atomic_rmw", [pointer, value, mask], t.block_type(element, pointer.shape)
            if pointer.shape else element, kind=kind, **ordering,
        )  # fmt: skip
