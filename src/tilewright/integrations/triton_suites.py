"""`triton._internal_testing`: what test suites written for Triton use to make inputs and to read results.

Tests that ask for a chip by one of the `is_…` functions get the answer of the machine at hand: a CPU, or the
NVIDIA GPU that torch has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import config
from tilewright import language as tl
from tilewright.integrations import triton_knobs
from tilewright.integrations.triton_driver import active
from tilewright.runtime.tensor_wrapper import TensorWrapper, reinterpret

int_dtypes = ["int8", "int16", "int32", "int64"]
uint_dtypes = ["uint8", "uint16", "uint32", "uint64"]
integral_dtypes = int_dtypes + uint_dtypes
float_dtypes = ["float16", "float32", "float64"]
float_dtypes_with_bfloat16 = [*float_dtypes, "bfloat16"]
dtypes = integral_dtypes + float_dtypes
dtypes_with_bfloat16 = [*dtypes, "bfloat16"]
torch_float8_dtypes = ["float8_e4m3fn", "float8_e5m2"]
torch_dtypes = ["bool", *int_dtypes, "uint8", *float_dtypes, "bfloat16"]
tma_dtypes = sorted(set(dtypes_with_bfloat16) - {"int64", "uint64", "float64"})

#: what types are called elsewhere -> in signatures
SIGNATURE_TYPES = {
    "bool": "u1", "int1": "u1", "uint1": "u1", "i1": "u1", "half": "fp16", "float": "fp32",
    "double": "fp64", "int": "i32", "void": "void", "float16": "fp16", "bfloat16": "bf16",
    "float32": "fp32", "float64": "fp64", "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5",
    "float8_e4m3fnuz": "fp8e4b8", "float8_e5m2fnuz": "fp8e5b16",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"float8{kind}": f"fp8{kind}" for kind in ("e4nv", "e5", "e4b15", "e4b8", "e5b16")},
}  # fmt: skip
SIGNATURE_TYPES.update({name: name for name in [*SIGNATURE_TYPES.values()]})


# ---- the machine -------------------------------------------------------------------------------------


def is_interpreter() -> bool:
    """Whether kernels run as Python."""
    return config.current().interpreted


def get_current_target() -> Any:
    """The machine's target; None where kernels run as Python."""
    return None if is_interpreter() else active.get_current_target()


def _backend() -> str:
    return getattr(get_current_target(), "backend", "")


def _capability() -> tuple[int, int]:
    target = get_current_target()
    return divmod(int(target.arch), 10) if is_cuda() else (0, 0)


def is_cpu() -> bool:
    return _backend() == "cpu"


def is_cuda() -> bool:
    return _backend() == "cuda"


def is_ampere_or_newer() -> bool:
    return _capability()[0] >= 8


def is_hopper() -> bool:
    return _capability()[0] == 9


def is_hopper_or_newer() -> bool:
    return _capability()[0] >= 9


def is_blackwell() -> bool:
    return _capability()[0] in (10, 11)


def is_sm12x() -> bool:
    return _capability()[0] == 12


def __getattr__(name: str) -> Any:
    # other makers', later chips
    if name.startswith(("is_hip", "is_xpu", "is_blackwell_", "is_rubin")):
        return lambda: False
    if name == "requires_tma":
        import pytest

        return pytest.mark.skipif(not supports_tma(), reason=tma_skip_msg())
    raise AttributeError(name)


def get_arch() -> str:
    """The name of the chip or of the CPU; "" where kernels run as Python."""
    target = get_current_target()
    return "" if target is None else str(target.arch)


def supports_tma(byval_only: bool = False) -> bool:
    """Whether descriptors work: everywhere, by masked accesses where the chip has no TMA."""
    return True


def tma_skip_msg(byval_only: bool = False) -> str:
    return "tensor descriptors are not supported"


def supports_ws() -> bool:
    """Whether warp specialization can be asked for: everywhere, it may be ignored."""
    return True


# ---- values ------------------------------------------------------------------------------------------


def numpy_random(
    shape: Any, dtype_str: str, rs: Any = None, low: int | None = None, high: int | None = None
) -> np.ndarray:
    """Random numbers of a type by name: integers over its range but 0, floats normal.

    8-bit floats come as bits of small numbers, bfloat16 as fp32 numbers that it holds.
    """
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    rs = np.random.RandomState(seed=17) if rs is None else rs
    if dtype_str in integral_dtypes:
        info = np.iinfo(dtype_str)
        low = int(info.min) if low is None else max(low, int(info.min))
        high = int(info.max) if high is None else min(high, int(info.max))
        found = np.asarray(rs.randint(low, high, shape, dtype=dtype_str))
        return np.where(found == 0, found.dtype.type(1), found)  # safe to divide by
    if "float8" in dtype_str:
        return rs.randint(20, 40, shape, dtype=np.int8)
    if dtype_str in float_dtypes:
        return np.asarray(rs.normal(0, 1, shape)).astype(dtype_str)
    if dtype_str == "bfloat16":
        bits = np.asarray(rs.normal(0, 1, shape), np.float32).view(np.uint32)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)
    if dtype_str in ("bool", "int1", "bool_"):
        return np.asarray(rs.normal(0, 1, shape) > 0.0)
    raise RuntimeError(f"Unknown dtype {dtype_str}")


def to_triton(x: np.ndarray, device: Any, dst_type: str | None = None) -> Any:
    """A tensor on `device`; unsigned and 8-bit types, which torch has few of, as wrapped integers."""
    import torch

    name = x.dtype.name
    if name in uint_dtypes:
        signed = torch.tensor(x.view(name[1:]), device=device)
        return reinterpret(signed, getattr(tl, name))
    found = torch.tensor(x, device=device)
    if dst_type and "float8" in dst_type:
        return reinterpret(found, getattr(tl, dst_type))
    return found.bfloat16() if (name, dst_type) == ("float32", "bfloat16") else found


def to_numpy(x: Any) -> np.ndarray:
    """The numbers of a tensor or of a wrapped one; bfloat16 as fp32."""
    torch = sys.modules["torch"]
    if isinstance(x, TensorWrapper):
        return x.base.cpu().numpy().astype(torch_dtype_name(x.dtype))
    if not isinstance(x, torch.Tensor):
        raise ValueError(f"Not a triton-compatible tensor: {x}")
    return (x.float() if x.dtype is torch.bfloat16 else x).cpu().numpy()


def unwrap_tensor(t: Any) -> Any:
    """The tensor below a wrapper."""
    return t.base if isinstance(t, TensorWrapper) else t


def str_to_triton_dtype(x: str) -> Any:
    """The type by its name in NumPy, torch or a signature."""
    return tl.str_to_ty(SIGNATURE_TYPES[x], None)


def torch_dtype_name(dtype: Any) -> str:
    """The name of torch's or of the language's type, without its module."""
    return dtype.name if isinstance(dtype, tl.dtype) else str(dtype).removeprefix("torch.")


def default_alloc_fn(size: int, align: int, stream: Any) -> Any:
    """Memory for `set_allocator`."""
    import torch

    return torch.empty(size, dtype=torch.int8, device=active.get_active_torch_device())


class NullAllocator:
    """`set_allocator(NullAllocator())`: no allocator."""

    def __call__(self, size: int, alignment: int, stream: Any) -> Any:
        raise RuntimeError("Kernel requires a runtime memory allocation, but no allocator was set.")


# ---- settings ----------------------------------------------------------------------------------------


def fresh_knobs(skipped_attr: set[str] | None = None) -> tuple[Any, Callable[[], None]]:
    """Two functions: the first gives all groups of knobs but `skipped_attr` their defaults, without the variables of the
    environment, and returns `triton.knobs`; the second restores everything."""
    kept = {
        name: group
        for name, group in vars(triton_knobs).items()
        if isinstance(group, triton_knobs.base_knobs) and name not in (skipped_attr or ())
    }
    variables: dict[str, str | None] = {
        k.key: None for group in kept.values() for k in group.knob_descriptors.values()
    }
    propagated = triton_knobs.propagate_env

    def fresh() -> Any:
        for name, group in kept.items():
            setattr(triton_knobs, name, group.copy().reset())
        for key in variables:
            variables[key] = config.variable(key)
            config.set_variable(key, None)
        triton_knobs.propagate_env = True
        return triton_knobs

    def reset() -> None:
        for name, group in kept.items():
            setattr(triton_knobs, name, group)
        for key, value in variables.items():
            config.set_variable(key, value)
        triton_knobs.propagate_env = propagated

    return fresh, reset
