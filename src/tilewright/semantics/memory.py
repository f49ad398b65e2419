"""Loads, stores, block pointers and tensor descriptors.

Block pointers and descriptors are tuples of values (so that they pass through loops and calls like
any tuple); an access through one becomes a tile of pointers and a mask.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.program import Program
from tilewright.semantics.values import TensorValue, describe, type_text

_LOAD_CACHE = ("", ".ca", ".cg", ".cs", ".cv")
_DESCRIPTOR_ALIGNMENT = 16
"""Alignment in bytes of the address and strides of a tensor descriptor, required by TMA and Triton."""
_STORE_CACHE = ("", ".wb", ".cg", ".cs", ".wt")
_EVICTION = ("", "evict_first", "evict_last", "evict_normal")


_WHOLE = (t.uint32, t.int32, t.uint64, t.int64)
#: element types of descriptors' atomics, as supported by TMA reductions
_DESCRIPTOR_ATOMICS = {
    "add": (t.uint32, t.int32, t.uint64, t.float32, t.float16, t.bfloat16),
    **dict.fromkeys(("min", "max"), (*_WHOLE, t.float16, t.bfloat16)),
    **dict.fromkeys(("and", "or", "xor"), _WHOLE),
}


def _reject_sum(window: Any, other: Any) -> Any:
    """`window + other`: as tuples, these would be concatenated."""
    block = isinstance(window, BlockPointer)
    raise KernelTypeError(
        f"`+` is not defined for a {'block pointer' if block else 'tensor descriptor'}",
        help="move it with tl.advance(pointer, (rows, columns))" if block
        else "pass the offsets of the block to load([...]) or store([...], value)",
    )  # fmt: skip


class BlockPointer(NamedTuple):
    """Result of `tl.make_block_ptr`: a window of `block_shape` at `offsets` of an array.

    `shape`, `strides`, `offsets` hold one int64 scalar per dimension, in elements.
    """

    base: TensorValue
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block_shape: tuple[int, ...]
    order: tuple[int, ...]
    __add__ = __radd__ = _reject_sum

    @property
    def dtype(self) -> Any:
        """Element type of the array."""
        return self.base.dtype.element_ty

    @property
    def type(self) -> Any:
        """Type of the pointer to the array."""
        return self.base.type

    def advance(self, offsets: Any) -> Any:
        """The block pointer moved by `offsets` elements per dimension."""
        return self.base._semantics().advance(self, offsets)


class TensorDescriptor(NamedTuple):
    """Result of `tl.make_tensor_descriptor`: an array that is loaded and stored in blocks."""

    base: TensorValue
    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block_shape: tuple[int, ...]
    padding: str
    __add__ = __radd__ = _reject_sum

    @property
    def dtype(self) -> Any:
        """Element type of the array."""
        return self.base.dtype.element_ty

    @property
    def type(self) -> Any:
        """Type of one block."""
        return self.dtype.with_shape(self.block_shape)

    @property
    def _semantics(self) -> Any:
        return self.base._semantics()

    def load(self, offsets: Any) -> Any:
        """The block that starts at `offsets`; elements outside the array are padding."""
        return self._semantics.load_tensor_descriptor(self, offsets)

    def store(self, offsets: Any, value: Any) -> None:
        """Write a block at `offsets`; elements outside the array are dropped."""
        self._semantics.store_tensor_descriptor(self, offsets, value)

    def __getattr__(self, name: str) -> Any:
        """`gather`, `scatter`, `atomic_add(offsets, value)` and its kin."""
        if name not in ("gather", "scatter") and not name.startswith("atomic_"):
            raise AttributeError(f"a tensor descriptor has no attribute '{name}'")
        return self._semantics.attribute(self, name)


class Memory(Program):
    """Semantics of `load`, `store`, block pointers and tensor descriptors."""

    # ---- plain pointers ------------------------------------------------------------------------

    def load(
        self,
        pointer: Any,
        mask: Any = None,
        other: Any = None,
        *,
        boundary_check: Any = (),
        padding_option: Any = "",
        cache_modifier: Any = "",
        eviction_policy: Any = "",
        volatile: Any = False,
    ) -> TensorValue:
        attributes = {
            **self._policies("tl.load", cache_modifier, _LOAD_CACHE, eviction_policy),
            "volatile": self.known_bool(volatile, "tl.load: volatile")
            or unwrap_constexpr(cache_modifier) == ".cv"  # PTX ISA: `ld.cv` is `ld.volatile`
            or None,
        }
        mask, other = unwrap_constexpr(mask), unwrap_constexpr(other)
        if isinstance(pointer, BlockPointer):
            self._no_mask("tl.load", mask, other)
            pointer, mask = self._window(pointer, boundary_check, "tl.load")
            other = self._padding(padding_option, pointer.dtype.element_ty, mask)
        else:
            self._only_for_block_pointers("tl.load", boundary_check, padding_option)
            pointer = self._repeated(self._pointer_argument("tl.load", pointer), mask, other)
        if other is not None and mask is None:
            raise KernelTypeError(
                "tl.load: `other` was given without `mask`",
                help="pass mask=..., which says which lanes read memory",
            )
        element = pointer.dtype.element_ty
        kind = element.with_shape(pointer.shape)
        mask = self._mask_argument("tl.load", mask, pointer)
        if mask is None:
            other = None  # no lane would read it
        if other is not None:
            other = self._number_as(other, element)
            other = self._to_access_shape("tl.load", "other", other, pointer)
        return self.emit("tile.load", [pointer, mask, other], kind, **attributes)

    def store(
        self,
        pointer: Any,
        value: Any,
        mask: Any = None,
        *,
        boundary_check: Any = (),
        cache_modifier: Any = "",
        eviction_policy: Any = "",
    ) -> None:
        attributes = self._policies("tl.store", cache_modifier, _STORE_CACHE, eviction_policy)
        mask = unwrap_constexpr(mask)
        if isinstance(pointer, BlockPointer):
            self._no_mask("tl.store", mask, None)
            pointer, mask = self._window(pointer, boundary_check, "tl.store")
        else:
            self._only_for_block_pointers("tl.store", boundary_check, "")
            pointer = self._pointer_argument("tl.store", pointer)
        if pointer.dtype.const:
            raise KernelTypeError(
                f"Cannot store to a constant pointer ({type_text(pointer.type)})",
                help="drop the tl.const annotation of the parameter that it comes from",
            )
        value = self._number_as(unwrap_constexpr(value), pointer.dtype.element_ty)
        value = self._to_access_shape("tl.store", "value", value, pointer)
        mask = self._mask_argument("tl.store", mask, pointer)
        handles = [pointer.handle, value.handle, None if mask is None else mask.handle]
        self.builder.op("tile.store", handles, None, **attributes)

    def _policies(
        self, what: str, cache: Any, caches: Sequence[str], eviction: Any
    ) -> dict[str, Any]:
        text = self.known_text(cache, f"{what}: cache_modifier", caches)
        policy = self.known_text(eviction, f"{what}: eviction_policy", _EVICTION)
        return {"cache": text.removeprefix(".") or None, "eviction": policy or None}

    def _pointer_argument(self, what: str, pointer: Any) -> TensorValue:
        pointer = unwrap_constexpr(pointer)
        if isinstance(pointer, TensorDescriptor):
            raise KernelTypeError(
                f"{what} does not take a tensor descriptor",
                help="use descriptor.load([offsets]) and descriptor.store([offsets], value)",
            )
        if not isinstance(pointer, TensorValue) or not pointer.dtype.is_ptr():
            raise KernelTypeError(
                f"{what} needs a pointer or a tile of pointers, got {describe(pointer)}",
                help="add offsets to a pointer argument: x_ptr + offsets",
            )
        return pointer

    def _repeated(self, pointer: TensorValue, *values: Any) -> TensorValue:
        """A tile of pointers, broadcast to the wider tiles of one load: a row of them and a matrix of masks.

        Shapes that do not broadcast are left for the operand's own error.
        """
        for value in values:
            if not isinstance(value, TensorValue) or not value.shape or not pointer.shape:
                continue
            rank = max(pointer.ndim, value.ndim)
            pairs = [
                (1,) * (rank - len(shape)) + tuple(shape) for shape in (pointer.shape, value.shape)
            ]
            if all(a == b or 1 in (a, b) for a, b in zip(*pairs, strict=True)):
                shape = [max(a, b) for a, b in zip(*pairs, strict=True)]
                pointer = self.broadcast_shape(pointer, shape, "tl.load: `pointer`")
        return pointer

    def _to_access_shape(
        self, what: str, name: str, value: TensorValue, pointer: TensorValue
    ) -> TensorValue:
        if value.shape and not pointer.shape:
            raise KernelTypeError(
                f"{what}: `{name}` is {type_text(value.type)} but the pointer is a scalar",
                help="add offsets to the pointer, e.g. ptr + tl.arange(0, BLOCK)",
            )
        # The pointers of a load are broadcast to its mask, those of a store and of an atomic are not.
        fit = self.broadcast_shape if what == "tl.load" else self.broadcast_same_rank
        return fit(value, pointer.shape, f"{what}: `{name}`")

    def _mask_argument(self, what: str, mask: Any, pointer: TensorValue) -> TensorValue | None:
        if mask is None:
            return None
        if isinstance(mask, bool | int) and mask in (0, 1):
            if mask:
                return None
            mask = self.constant(False, t.int1)
        elif not isinstance(mask, TensorValue) or not mask.dtype.is_int():
            raise KernelTypeError(
                f"{what}: `mask` must be a condition, got {describe(mask)}",
                help="a mask is a comparison such as offsets < n",
            )
        return self._to_access_shape(what, "mask", self.truth(mask), pointer)

    def _no_mask(self, what: str, mask: Any, other: Any) -> None:
        if mask is not None or other is not None:
            raise KernelTypeError(
                f"{what}: block pointers take no mask or other",
                help="use boundary_check=(0, 1) and padding_option",
            )

    def _only_for_block_pointers(self, what: str, boundary_check: Any, padding: Any) -> None:
        if unwrap_constexpr(boundary_check) or unwrap_constexpr(padding):
            raise KernelTypeError(
                f"{what}: boundary_check and padding_option are for block pointers",
                help="pass mask=... and other=...",
            )

    # ---- block pointers ------------------------------------------------------------------------

    def make_block_ptr(
        self, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
    ) -> BlockPointer:
        base = self._base_argument("tl.make_block_ptr", base)
        block = self.shape_argument(block_shape, "tl.make_block_ptr")
        what, rank = "tl.make_block_ptr", len(block)
        extents = self._coordinates(what, "shape", shape, rank)
        steps = self._coordinates(what, "strides", strides, rank)
        starts = self._coordinates(what, "offsets", offsets, rank)
        order = self.known_ints(order, "tl.make_block_ptr: order")
        if sorted(order) != list(range(len(block))):
            raise KernelTypeError(
                f"tl.make_block_ptr: order {list(order)} is not a permutation of"
                f" {list(range(len(block)))}"
            )
        return BlockPointer(base, extents, steps, starts, block, order)

    def advance(self, base: Any, offsets: Any) -> BlockPointer:
        if not isinstance(base, BlockPointer):
            raise KernelTypeError(f"tl.advance needs a block pointer, got {describe(base)}")
        moves = self._coordinates("tl.advance", "offsets", offsets, len(base.block_shape))
        moved = tuple(old + move for old, move in zip(base.offsets, moves, strict=True))
        return base._replace(offsets=moved)

    def _base_argument(self, what: str, base: Any) -> TensorValue:
        base = unwrap_constexpr(base)
        if not isinstance(base, TensorValue) or not base.type.is_ptr():
            raise KernelTypeError(f"{what}: base must be a scalar pointer, got {describe(base)}")
        return base

    def _coordinates(self, what: str, name: str, values: Any, rank: int) -> tuple[Any, ...]:
        """One int64 scalar a dimension."""
        values = unwrap_constexpr(values)
        values = tuple(values) if isinstance(values, tuple | list) else (values,)
        if len(values) != rank:
            raise KernelTypeError(
                f"{what}: {name} has {len(values)} entries, but the block has {rank} dimensions"
            )
        result = []
        for value in values:
            value = unwrap_constexpr(value)
            scalar = (
                self.constant(value, t.int64) if isinstance(value, int) else self.to_tensor(value)
            )
            if scalar.shape or not scalar.dtype.is_int():
                raise KernelTypeError(
                    f"{what}: {name} must hold integer scalars, got {describe(value)}"
                )
            result.append(self.convert(scalar, t.int64))
        return tuple(result)

    def _window(
        self, window: BlockPointer, boundary_check: Any, what: str
    ) -> tuple[TensorValue, TensorValue | None]:
        """The tile of pointers of a block pointer, and the mask of the checked dimensions."""
        rank = len(window.block_shape)
        check = unwrap_constexpr(boundary_check)
        check = () if check is None else check
        checked = {self.dimension(d, rank, what) for d in self.known_ints(check, "boundary_check")}
        indices = (
            self.convert(self.lanes(0, extent), t.int64) + offset
            for extent, offset in zip(window.block_shape, window.offsets, strict=True)
        )
        pointer, mask = self._element_pointers(window, indices, checked)
        return self.broadcast_shape(pointer, window.block_shape), mask

    def _element_pointers(
        self,
        array: BlockPointer | TensorDescriptor,
        indices: Iterable[TensorValue],
        checked: Container[int],
    ) -> tuple[TensorValue, TensorValue | None]:
        """Pointers to the elements of an array at `indices` along each dimension, and the mask of the dimensions that are
        `checked`."""
        rank = len(array.shape)
        pointer: Any = array.base
        mask: Any = None
        for d, index in enumerate(indices):
            inside = self._inside(index, array.shape[d]) if d in checked else None
            pointer = pointer + self._place(index * array.strides[d], d, rank)
            if inside is not None:
                inside = self._place(inside, d, rank)
                mask = inside if mask is None else mask & inside
        return pointer, mask

    def _inside(self, lanes: TensorValue, bound: TensorValue) -> TensorValue:
        """`0 <= lanes < bound` in one unsigned comparison; extents are never negative."""
        positive = self.emit("arith.maxsi", [bound, self.constant(0, t.int64)], t.int64)
        bound = self.splat(positive, lanes.shape)
        return self.emit(
            "tile.cmpi", [lanes, bound], t.int1.with_shape(lanes.shape), predicate="ult"
        )

    def _place(self, x: TensorValue, axis: int, rank: int) -> TensorValue:
        """A rank-1 tile along dimension `axis` of `rank`."""
        x = self.expand_rank(x, axis + 1)
        while x.ndim < rank:
            x = self.emit("tile.expand_dims", [x], x.type.with_shape((*x.shape, 1)), axis=x.ndim)
        return x

    def _padding(self, option: Any, element: Any, mask: Any) -> Any:
        text = self.known_text(option, "padding_option", ("", "zero", "nan"))
        if not text or mask is None:
            return None
        if text == "nan" and not element.is_floating():
            raise KernelTypeError(f"padding_option 'nan' does not fit elements of type {element}")
        return float("nan") if text == "nan" else 0

    # ---- tensor descriptors --------------------------------------------------------------------

    def make_tensor_descriptor(
        self, base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
    ) -> TensorDescriptor:
        what = "tl.make_tensor_descriptor"
        base = self._base_argument(what, base)
        block = self.shape_argument(block_shape, what)
        if not 1 <= len(block) <= 5:
            raise KernelTypeError(f"{what}: {len(block)} dimensions; 1 to 5 are possible")
        extents = self._coordinates(what, "shape", shape, len(block))
        steps = self._coordinates(what, "strides", strides, len(block))
        last = unwrap_constexpr(tuple(unwrap_constexpr(strides))[-1])
        if isinstance(last, int) and last != 1:
            raise KernelTypeError(
                f"{what}: the last stride must be 1, got {last}",
                help="describe the array with its contiguous dimension last, and transpose the block",
            )
        row = block[-1] * base.dtype.element_ty.itemsize
        if row < _DESCRIPTOR_ALIGNMENT:
            raise KernelTypeError(
                f"Descriptor block shape must have at least {_DESCRIPTOR_ALIGNMENT} bytes in the last"
                f" dimension, but {list(block)} has {row}",
                help="make the last extent of block_shape larger, and mask what is not used",
            )
        padding = self.known_text(padding_option, f"{what}: padding_option", ("", "zero", "nan"))
        base, steps = self._aligned(base, steps)
        return TensorDescriptor(base, extents, steps, block, padding or "zero")

    def _aligned(self, base: Any, strides: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Annotate the address and strides of a descriptor with their guarantee: multiples of 16 bytes, except the last
        stride, which is 1."""
        step = max(1, _DESCRIPTOR_ALIGNMENT // base.dtype.element_ty.itemsize)
        *leading, last = strides
        promised = [
            self._hint("aligned", stride, step) if step > 1 else stride for stride in leading
        ]
        return self._hint("aligned", base, _DESCRIPTOR_ALIGNMENT), (*promised, last)

    def _descriptor_window(self, what: str, desc: Any, offsets: Any) -> BlockPointer:
        if not isinstance(desc, TensorDescriptor):
            raise KernelTypeError(f"{what} needs a tensor descriptor, got {describe(desc)}")
        rank = len(desc.block_shape)
        starts = self._coordinates(what, "offsets", offsets, rank)
        order = tuple(reversed(range(rank)))
        return BlockPointer(desc.base, desc.shape, desc.strides, starts, desc.block_shape, order)

    def load_tensor_descriptor(self, desc: Any, offsets: Any) -> TensorValue:
        window = self._descriptor_window("load_tensor_descriptor", desc, offsets)
        check = tuple(range(len(window.block_shape)))
        return self.load(window, boundary_check=check, padding_option=desc.padding)

    def store_tensor_descriptor(self, desc: Any, offsets: Any, value: Any) -> None:
        window = self._descriptor_window("store_tensor_descriptor", desc, offsets)
        self.store(window, value, boundary_check=tuple(range(len(window.block_shape))))

    def descriptor_atomic(self, kind: str, desc: Any, offsets: Any, value: Any) -> None:
        """`descriptor.atomic_add(offsets, value)` and so on, of the types that Triton has there."""
        found = desc.dtype
        if found not in _DESCRIPTOR_ATOMICS[kind]:
            names = ", ".join(f"tl.{kind.in_language}" for kind in _DESCRIPTOR_ATOMICS[kind])
            raise KernelTypeError(
                f"descriptor.atomic_{kind} is not defined for elements of tl.{found.in_language}",
                help=f"it takes {names}; tl.atomic_{kind} with pointers takes more types",
            )
        window = self._descriptor_window(f"atomic_{kind}", desc, offsets)
        check = tuple(range(len(window.block_shape)))
        pointer, mask = self._window(window, check, f"atomic_{kind}")
        getattr(self, f"atomic_{kind}")(pointer, value, mask=mask)

    def descriptor_gather(self, desc: Any, x_offsets: Any, y_offset: Any) -> TensorValue:
        """`result[i, j] = array[x_offsets[i], y_offset + j]`; elements outside are padding."""
        pointer, mask = self._rows_window("descriptor gather", desc, x_offsets, y_offset)
        padding = self._padding(desc.padding, desc.dtype, mask)
        return self.load(pointer, mask=mask, other=0 if padding is None else padding)

    def descriptor_scatter(self, desc: Any, value: Any, x_offsets: Any, y_offset: Any) -> None:
        """`array[x_offsets[i], y_offset + j] = value[i, j]`; elements outside are dropped."""
        pointer, mask = self._rows_window("descriptor scatter", desc, x_offsets, y_offset)
        self.store(pointer, value, mask=mask)

    def _rows_window(
        self, what: str, desc: TensorDescriptor, x_offsets: Any, y_offset: Any
    ) -> tuple[TensorValue, TensorValue | None]:
        """Pointers to, and the mask of, the part of some rows that begins at column `y_offset`."""
        if len(desc.block_shape) != 2 or desc.block_shape[0] != 1:
            raise KernelTypeError(
                f"{what}: the descriptor's block must be one row of a matrix, not"
                f" {list(desc.block_shape)}",
                help="make the descriptor with block_shape=[1, columns]",
            )
        rows = unwrap_constexpr(x_offsets)
        if not isinstance(rows, TensorValue) or len(rows.shape) != 1 or not rows.dtype.is_int():
            raise KernelTypeError(f"{what}: rows are a 1-D tile of integers, got {describe(rows)}")
        (column,) = self._coordinates(what, "the column", (y_offset,), 1)
        rows = self.convert(rows, t.int64)
        columns = self.convert(self.lanes(0, desc.block_shape[1]), t.int64) + column
        return self._element_pointers(desc, (rows, columns), (0, 1))
