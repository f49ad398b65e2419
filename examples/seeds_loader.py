"""Import the programs in `examples/seeds`, as their authors wrote them, on a machine without a GPU.

`load("softmax")` puts tilewright under the name `triton` and imports the file. Where torch is not
installed, or a ROCm build of it is to be played (`hip="6.0"`), the program gets a small NumPy-backed
namespace in the place of torch, in which `device="cuda"` means the machine at hand.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import threading
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parent / "seeds"
#: programs by file name
NAMES = ("vector_add", "blocked_matmul", "tutorial_matmul", "rope", "softmax")

_lock = threading.Lock()
_number = itertools.count()


class Tensor(np.ndarray):
    """A NumPy array with the tensor methods that the programs call."""

    is_cuda = True

    def stride(self, dim: int | None = None) -> Any:
        """Stride of one dimension, or of all, in elements."""
        strides = tuple(s // self.itemsize for s in self.strides)
        return strides if dim is None else strides[dim]

    def is_contiguous(self) -> bool:
        return bool(self.flags.c_contiguous)

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def element_size(self) -> int:
        return self.itemsize

    def data_ptr(self) -> int:
        return self.ctypes.data


def _tensor(array: Any) -> Tensor:
    return np.asarray(array).view(Tensor)


def stand_in_torch(hip: str | None = None) -> types.ModuleType:
    """A module that answers what the programs ask of torch; `version.hip` is `hip`."""
    import ml_dtypes

    torch = types.ModuleType("torch", "NumPy-backed stand-in for torch")
    torch.version = types.ModuleType("torch.version")  # type: ignore[attr-defined]
    torch.version.hip = hip
    torch.version.cuda = None
    generator = [np.random.default_rng(0)]

    def manual_seed(seed: int) -> None:
        generator[0] = np.random.default_rng(seed)

    def rand(*size: Any, device: Any = None, dtype: Any = np.float32) -> Tensor:
        shape = size[0] if len(size) == 1 else size
        return _tensor(generator[0].random(shape, dtype=np.float32).astype(dtype))

    def randn(*size: Any, device: Any = None, dtype: Any = np.float32) -> Tensor:
        shape = size[0] if len(size) == 1 else size
        return _tensor(generator[0].standard_normal(shape, dtype=np.float32).astype(dtype))

    def empty(*size: Any, device: Any = None, dtype: Any = np.float32) -> Tensor:
        return _tensor(np.empty(size[0] if len(size) == 1 else size, dtype))

    def matmul(a: Any, b: Any) -> Tensor:
        product = np.matmul(a.astype(np.float32), b.astype(np.float32))
        return _tensor(product.astype(a.dtype))

    def softmax(x: Any, dim: int) -> Tensor:
        e = np.exp(x - x.max(axis=dim, keepdims=True))
        return _tensor(e / e.sum(axis=dim, keepdims=True))

    members: dict[str, Any] = {
        "Tensor": Tensor, "manual_seed": manual_seed, "rand": rand, "randn": randn,
        "empty": empty, "empty_like": lambda x: _tensor(np.empty_like(x)), "matmul": matmul,
        "softmax": softmax, "abs": np.abs, "max": np.max, "allclose": np.allclose,
        "float16": np.dtype(np.float16), "float32": np.dtype(np.float32),
        "float64": np.dtype(np.float64), "int8": np.dtype(np.int8),
        "bfloat16": np.dtype(ml_dtypes.bfloat16),
    }  # fmt: skip
    vars(torch).update(members)
    return torch


def _stand_in_pytest() -> types.ModuleType:
    """A module with `pytest.mark.parametrize` that leaves functions alone."""
    module = types.ModuleType("pytest")
    mark = types.SimpleNamespace(parametrize=lambda *_, **__: lambda fn: fn)
    module.mark = mark  # type: ignore[attr-defined]
    return module


@contextmanager
def _modules(replacements: dict[str, types.ModuleType]) -> Iterator[None]:
    """`replacements` in `sys.modules` for a while."""
    before = {name: sys.modules[name] for name in replacements if name in sys.modules}
    sys.modules.update(replacements)
    try:
        yield
    finally:
        for name in replacements:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def has_torch() -> bool:
    """Whether the real torch can be imported."""
    return importlib.util.find_spec("torch") is not None


def load(name: str, hip: str | None = None, stand_in: bool | None = None) -> types.ModuleType:
    """Import `examples/seeds/<name>.py` afresh, with tilewright as its `triton`.

    Args:
        name: one of `NAMES`.
        hip: what `torch.version.hip` is to be ("6.0" selects the ROCm branches).
        stand_in: give the program the NumPy-backed namespace although torch is installed;
            by default only where torch is missing or `hip` is given.
    """
    from tilewright.integrations import triton as drop_in

    drop_in.install()
    if stand_in is None:
        stand_in = hip is not None or not has_torch()
    replacements: dict[str, types.ModuleType] = {}
    if stand_in:
        replacements["torch"] = stand_in_torch(hip)
    elif "torch" not in sys.modules:
        importlib.import_module("torch")
    if importlib.util.find_spec("pytest") is None:
        replacements["pytest"] = _stand_in_pytest()
    module_name = f"seeds_{name}_{next(_number)}"
    spec = importlib.util.spec_from_file_location(module_name, FOLDER / f"{name}.py")
    if spec is None or spec.loader is None or name not in NAMES:
        raise ValueError(f"no such program: {name!r}; there are {', '.join(NAMES)}")
    module = importlib.util.module_from_spec(spec)
    with _lock, _modules(replacements):
        spec.loader.exec_module(module)
    return module
