"""The seed programs as fixtures, and arrays of both libraries."""

import functools
import importlib.util
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

LOADER = Path(__file__).resolve().parents[2] / "examples" / "seeds_loader.py"
HAS_TORCH = importlib.util.find_spec("torch") is not None
LIBRARIES = ["numpy", "torch"] if HAS_TORCH else ["numpy"]


def _loader():
    if "seeds_loader" not in sys.modules:
        spec = importlib.util.spec_from_file_location("seeds_loader", LOADER)
        module = importlib.util.module_from_spec(spec)
        sys.modules["seeds_loader"] = module
        spec.loader.exec_module(module)
    return sys.modules["seeds_loader"]


@pytest.fixture(scope="session")
def load():
    """`load(name, hip=None, stand_in=None)`; equal requests give the same module."""
    from tilewright.integrations import triton

    yield functools.cache(_loader().load)
    triton.uninstall()


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory, monkeypatch):
    """One cache folder for the run: never the user's."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


class Arrays:
    """Random inputs and views of one library: "numpy" or "torch" tensors."""

    def __init__(self, library):
        self.library = library
        self.rng = np.random.default_rng(20260)

    @staticmethod
    def dtype(name):
        return np.dtype(getattr(ml_dtypes, name, name))

    def normal(self, shape, dtype):
        """Random values as a NumPy array of `dtype` (small integers for integer types)."""
        kind = self.dtype(dtype)
        if kind.kind in "iu":
            return self.rng.integers(-9, 10, shape).astype(kind)
        return self.rng.standard_normal(shape).astype(kind)

    def give(self, array):
        """What the kernel gets: the array, or a torch tensor on the same memory, strides kept."""
        if self.library == "numpy":
            return array
        import torch

        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


@pytest.fixture(params=LIBRARIES)
def arrays(request):
    return Arrays(request.param)


@pytest.fixture
def numpy_arrays():
    return Arrays("numpy")


def strides(array):
    """Strides in elements."""
    return tuple(s // array.itemsize for s in array.strides)


@pytest.fixture(name="strides")
def strides_fixture():
    return strides


def grid_form(form, *extents):
    """One grid as "tuple", "list" or "callable"."""
    if form == "list":
        return list(extents)
    return tuple(extents) if form == "tuple" else lambda meta: tuple(extents)


@pytest.fixture(name="grid_form")
def grid_form_fixture():
    return grid_form


@pytest.fixture
def close():
    """`close(given, expected float64, eps multiples)`: elementwise, relative to magnitude + scale."""

    def check(given, expected, rtol, atol=0.0):
        from tilewright.testing import assert_close

        assert_close(np.asarray(given).astype(np.float64), expected, atol=atol, rtol=rtol)

    return check
