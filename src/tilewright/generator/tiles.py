"""Helpers of the kernels of described matmuls: the tile of a number, and pointers to the elements of a tile.

`args` is a named tuple of a program's arguments, `d` the `Program`, as in `kernel.matmul`. A batch is a tuple of indices.
"""

from __future__ import annotations

from typing import Any

from tilewright import language as tl
from tilewright.language.kernel_function import KernelFunction


@KernelFunction
def known_arguments(args: Any, d: Any) -> Any:
    """The arguments with their known divisors, and as i64 where offsets may exceed 32 bits."""
    return d.arguments(*[known(getattr(args, name), name, d) for name in args._fields])


@KernelFunction
def known(value: Any, name: Any, d: Any) -> Any:
    if d.divisor(name) > 1:
        value = tl.multiple_of(value, d.divisor(name))
    if d.is_64bit(name) and isinstance(value, tl.tensor):
        value = tl.cast(value, tl.int64)
    return value


@KernelFunction
def counter(value: Any, d: Any) -> Any:
    """A number of tiles or steps as i32."""
    return value.to(tl.int32) if d.contraction.indices_64bit else value


@KernelFunction
def tile_counts(of_pair: Any, args: Any, d: Any) -> Any:
    """Numbers of tiles, or of pairs of tiles, along M and N."""
    down, across = tl.cdiv(args.M, d.tile[0]), tl.cdiv(args.N, d.tile[1])
    if of_pair is not None and d.config.multicast_operand == "b":
        down = tl.cdiv(down, 2)
    elif of_pair is not None:
        across = tl.cdiv(across, 2)
    return down, across


@KernelFunction
def split_batch(tile: Any, down: Any, across: Any, args: Any, d: Any) -> Any:
    """The tile's index in its batch of `down` × `across` tiles, and the batch."""
    if d.contraction.batch_rank == 0:
        return tile, ()
    tiles = down * across
    flat, tile = tile // tiles, tile % tiles
    batch = ()
    for i in tl.static_range(d.contraction.batch_rank - 1, 0, -1):
        size = getattr(args, f"batch{i}")
        batch = (flat % size, *batch)
        flat = flat // size
    return tile, (flat, *batch)


@KernelFunction
def first_index(number: Any, size: Any, d: Any) -> Any:
    """The first index of a tile of `size`, or of a step, by its number."""
    if d.contraction.indices_64bit:
        number = tl.cast(number, tl.int64)
    return number * size


@KernelFunction
def lanes(number: Any, size: Any, d: Any) -> Any:
    """The indices of a tile of `size`, or of a step, by its number."""
    return first_index(number, size, d) + tl.arange(0, size)


@KernelFunction
def offset(index: Any, stride: Any, d: Any) -> Any:
    return (index.to(tl.int64) if d.contraction.offsets_64bit else index) * stride


@KernelFunction
def matrix(name: Any, varies: Any, batch: Any, args: Any) -> Any:
    """The pointer to the matrix of a batch."""
    pointer = getattr(args, name)
    for i in tl.static_range(len(varies)):
        if varies[i]:
            pointer += batch[i].to(tl.int64) * getattr(args, f"{name}_b{i}")
    return pointer


@KernelFunction
def element_pointers(name: Any, batch: Any, x: Any, y: Any, args: Any, d: Any) -> Any:
    """Pointers to a tile of a matrix, and the mask of indices within its extents."""
    first, second = d.axes(name)
    down, across = x[:, None], y[None, :]
    mask = (down < getattr(args, first.upper())) & (across < getattr(args, second.upper()))
    pointer = matrix(name, d.varies(name), batch, args)
    pointer += offset(down, getattr(args, f"{name}_{first}"), d)
    return pointer + offset(across, getattr(args, f"{name}_{second}"), d), mask
