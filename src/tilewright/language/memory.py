"""Loads, stores, block pointers, descriptors and atomics."""

from __future__ import annotations

from typing import Any

from tilewright.language.builtin import builtin, must_use_result, stub_like


@builtin()
def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    *,
    boundary_check: Any = (),
    padding_option: Any = "",
    cache_modifier: Any = "",
    eviction_policy: Any = "",
    volatile: Any = False,
) -> Any:
    """Read through a pointer, a tile of pointers, or a block pointer.

    Lanes where `mask` is false touch no memory and give `other` (0 without it). For block pointers
    `boundary_check` names the dimensions to check and `padding_option` ("zero", "nan") what lies
    outside. `cache_modifier`: "", ".ca", ".cg", ".cs", ".cv"; `eviction_policy`: "",
    "evict_first", "evict_last".
    """


@builtin()
def store(
    pointer: Any,
    value: Any,
    mask: Any = None,
    *,
    boundary_check: Any = (),
    cache_modifier: Any = "",
    eviction_policy: Any = "",
) -> Any:
    """Write `value`, broadcast and converted to the pointer's shape and element type.

    Lanes where `mask` is false touch no memory. `cache_modifier`: "", ".wb", ".cg", ".cs", ".wt".
    """


@builtin()
def make_block_ptr(
    base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
) -> Any:
    """A window of constant `block_shape` at `offsets` of the array (`base`, `shape`, `strides`).

    Read and write it with `load`/`store` and `boundary_check`; move it with `advance`.
    """


@must_use_result(
    "tl.advance moves nothing: assign what it returns, `ptr = tl.advance(ptr, offsets)`"
)
@builtin()
def advance(base: Any, offsets: Any) -> Any:
    """The block pointer `base` moved by `offsets` elements in each dimension."""


@builtin()
def make_tensor_descriptor(
    base: Any, shape: Any, strides: Any, block_shape: Any, padding_option: Any = "zero"
) -> Any:
    """An array of 1 to 5 dimensions read and written in blocks; its last stride is 1.

    Methods: `.load(offsets)`, `.store(offsets, value)`, `.atomic_add(offsets, value)` …; of descriptors
    whose block is one row `.gather(rows, column)` and `.scatter(value, rows, column)`. Elements outside the
    array read as padding ("zero" or "nan") and are not written.
    """


@builtin()
def load_tensor_descriptor(desc: Any, offsets: Any) -> Any:
    """`desc.load(offsets)`."""


@builtin()
def store_tensor_descriptor(desc: Any, offsets: Any, value: Any) -> Any:
    """`desc.store(offsets, value)`."""


@builtin()
def atomic_load(pointer: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """`*pointer`, read atomically, of any type of number; memory is touched as if it were written.

    `sem`: "acquire" (default) or "relaxed". Lanes where `mask` is false touch no memory.
    """


@builtin()
def atomic_store(
    pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None
) -> None:
    """`*pointer = val`, atomically. `sem`: "release" (default) or "relaxed"."""


@builtin()
def atomic_add(pointer: Any, val: Any, mask: Any = None, sem: Any = None, scope: Any = None) -> Any:
    """`*pointer += val`, atomically; gives the old value.

    `sem`: "acq_rel" (default), "relaxed", "acquire", "release"; on a CPU also "exclusive", which promises that no other
    thread accesses the memory during the launch, and runs it on one thread. `scope`: "gpu" (default), "cta",
    "sys". Lanes where `mask` is false touch no memory.
    """


atomic_max = stub_like(
    atomic_add, "atomic_max", "`*pointer = max(*pointer, val)`, atomically; gives the old value."
)
atomic_min = stub_like(
    atomic_add, "atomic_min", "`*pointer = min(*pointer, val)`, atomically; gives the old value."
)
atomic_and = stub_like(
    atomic_add, "atomic_and", "`*pointer &= val`, atomically; gives the old value."
)
atomic_or = stub_like(
    atomic_add, "atomic_or", "`*pointer |= val`, atomically; gives the old value."
)
atomic_xor = stub_like(
    atomic_add, "atomic_xor", "`*pointer ^= val`, atomically; gives the old value."
)
atomic_xchg = stub_like(
    atomic_add, "atomic_xchg", "`*pointer = val`, atomically; gives the old value."
)


@builtin()
def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: Any = None, scope: Any = None) -> Any:
    """`if *pointer == cmp: *pointer = val`, atomically; gives the old value."""
