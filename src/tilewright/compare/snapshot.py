"""Copies of a launch's arguments: values, strides and aliasing, in memory of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.dtypes import like


def tensors_in(value: Any) -> Iterator[Any]:
    """The torch tensors in arguments: themselves, below descriptors and wrappers, in tuples and mappings."""
    if is_tensor(value):
        yield value
    elif is_tensor(base := getattr(value, "base", None)):
        yield base
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def is_tensor(value: Any) -> bool:
    """Whether `value` is a torch tensor."""
    import torch

    return isinstance(value, torch.Tensor)


def bytes_in(value: Any) -> int:
    """Bytes of all tensors in arguments."""
    return sum(t.numel() * t.element_size() for t in tensors_in(value))


class Copier:
    """Copies arguments. Tensors that share storage share the storage of their copies.

    `device`: where copies go; None: where the originals are.
    """

    def __init__(self, device: Any = None) -> None:
        self.device = device
        self._storages: dict[tuple[int, int], Any] = {}

    def __call__(self, value: Any) -> Any:
        if is_tensor(value):
            return self.tensor(value.detach())
        if is_tensor(getattr(value, "base", None)):
            return self._holder(value)
        if isinstance(value, dict):
            return {name: self(item) for name, item in value.items()}
        if isinstance(value, tuple | list):
            return like(value, [self(item) for item in value])
        return value

    def tensor(self, tensor: Any) -> Any:
        """A copy of all of a tensor's storage, seen as the tensor sees it."""
        import torch

        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), storage.nbytes())
        if key not in self._storages:
            with torch.inference_mode(False):  # copies are written to outside of it
                flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
                flat = flat.set_(storage, 0, (storage.nbytes(),), (1,))
                copy = flat.clone() if self.device is None else flat.to(self.device, copy=True)
            self._storages[key] = copy.untyped_storage()
        target = self._storages[key]
        with torch.inference_mode(False):
            view = torch.empty(0, dtype=tensor.dtype, device=target.device)
            return view.set_(target, tensor.storage_offset(), tensor.size(), tensor.stride())

    def _holder(self, value: Any) -> Any:
        """A tensor descriptor or a reinterpreted tensor, of copied memory."""
        base = self.tensor(value.base.detach())
        if not hasattr(value, "block_shape"):
            return type(value)(base, value.dtype)
        shape = (list(value.shape), list(value.strides), list(value.block_shape))
        padding = getattr(value, "padding", None)
        return type(value)(base, *shape, **({"padding": padding} if padding else {}))


class Viewer(Copier):
    """Copies what holds tensors; the tensors are the same."""

    def tensor(self, tensor: Any) -> Any:
        return tensor
