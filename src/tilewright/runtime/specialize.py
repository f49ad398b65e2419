"""Specialization on a launch's arguments: types, constants, divisibility and sign.

The rules are Triton's, plus the sign:

- Arrays become pointers; their 16-byte alignment is recorded.
- An int becomes i32, i64 or u64 by its size and is folded if it equals 1. Its divisibility by 16 is recorded, and its
  sign, which proves offsets computed from sizes and strides nonnegative.
- A float is fp32, a bool i1.
- None, text, dtypes, functions and every value of a `tl.constexpr` parameter are constants of the code.
 Arrays are recognized by their protocols; no library is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tilewright import dtypes
from tilewright.dtypes import constexpr, dtype, pointer_type
from tilewright.errors import IntegerOverflowError, LaunchError
from tilewright.language.kernel_function import KernelFunction, KernelParam
from tilewright.runtime.descriptors import described_type, extents_are_known, whole_lines
from tilewright.runtime.devices import device_of, gpu_address

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class ArgumentType:
    """The specialization of one argument: its type, its part of the key, and how native code fetches it.

    `type` is a `dtype`, a `pointer_type`, a `constexpr` or a tuple of these. `kind` is how native
    code fetches the value (`native.python.KINDS`), "" if it is not passed at run time.
    """

    type: Any
    kind: str = ""
    divisible: bool = False
    whole_lines: bool = False
    """For descriptors: whether the last extents are multiples of 16 bytes, as the strides are."""
    nonnegative: bool = False
    """For integers: whether they are >= 0, as sizes and strides nearly always are."""

    @property
    def text(self) -> str:
        """For cache keys."""
        known = f"{'D' if self.divisible else ''}{'W' if self.whole_lines else ''}"
        known += "P" if self.nonnegative else ""
        return f"{signature_text(self.type)}{known}"


@dataclass(frozen=True, slots=True)
class MockTensor:
    """Stands for an array in `warmup`: it has a dtype and no memory, and counts as aligned."""

    dtype: Any
    shape: tuple[int, ...] = (1,)

    def data_ptr(self) -> int:
        return 0

    @staticmethod
    def wrap_dtype(value: Any) -> Any:
        """A `MockTensor` for a dtype (torch's, NumPy's, ours), anything else unchanged."""
        kind = type(value)
        if isinstance(value, dtype) or (kind.__name__, kind.__module__) == ("dtype", "torch"):
            return MockTensor(value)
        numpy = sys.modules.get("numpy")
        if numpy is not None and (
            isinstance(value, numpy.dtype)
            or (isinstance(value, type) and issubclass(value, numpy.generic))
        ):
            return MockTensor(value)
        return value


# ---- types -----------------------------------------------------------------------------------------

_element_types: dict[Any, dtype] = {}


def element_type(array_dtype: Any) -> dtype:
    """Our dtype for an array's. Raises LaunchError if kernels cannot hold it."""
    found = _element_types.get(array_dtype)
    if found is None:
        if isinstance(array_dtype, dtype):
            return array_dtype
        name = getattr(array_dtype, "name", None) or str(array_dtype)
        if isinstance(array_dtype, type):
            name = array_dtype.__name__.rstrip("_")
        swapped = getattr(array_dtype, "isnative", True) is False
        try:
            if swapped:
                raise KeyError(name)
            found = dtypes.from_array_name(name)
        except (KeyError, TypeError):
            raise LaunchError(
                f"arrays of dtype {array_dtype} cannot be passed to a kernel"
                + (" (its byte order is not the machine's)" if swapped else ""),
                help="convert it: " + ", ".join(t.array_name for t in dtypes.ALL_SCALARS),
            ) from None
        _element_types[array_dtype] = found
    return found


def signature_text(kind: Any) -> str:
    """A type as signatures and cache keys spell it; a constexpr shows its value."""
    if isinstance(kind, constexpr):
        return f"={constant_text(kind.value)}"
    if isinstance(kind, tuple):
        names = getattr(kind, "_fields", None)  # a kernel may name them
        head = f"{type(kind).__qualname__}[{','.join(names)}]" if names else ""
        return f"{head}({','.join(map(signature_text, kind))})"
    return kind.short_name


def constant_text(value: Any) -> str:
    """A text that differs for values that lead to different code (such as 1, 1.0 and True). It depends on the
    content of objects, not on their repr.

    Raises LaunchError for values whose content cannot be known.
    """
    if value is None or type(value) in (bool, int, float, str, bytes):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, constexpr):
        return constant_text(value.value)
    if isinstance(value, (dtype, pointer_type, dtypes.block_type)):
        return f"dtype:{value.name}"
    if type(value) is tuple:
        return f"tuple({','.join(map(constant_text, value))})"
    if type(value) is list:
        return f"list({','.join(map(constant_text, value))})"
    if isinstance(value, KernelFunction):
        kernel: Any = value  # a `JITFunction`
        return f"jit:{kernel.cache_key}"
    if is_numpy_scalar(value):
        return constant_text(value.item())
    if type(value).__name__ == "dtype":
        return f"dtype:{value}"
    from tilewright.runtime.dependencies import constant_digest

    digest = constant_digest(value)
    if digest is None:
        raise LaunchError(
            f"a {type(value).__name__} cannot be a constant of a kernel: its content cannot be read",
            help="pass numbers, text, dtypes, functions, or containers and objects that hold only these",
        )
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"object:{type(value).__module__}.{name}:{digest}"


def is_numpy_scalar(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def is_array(value: Any) -> bool:
    """Whether kernels take `value` as a pointer."""
    if isinstance(value, (bool, int, float, str, tuple, list)) or is_numpy_scalar(value):
        return False
    return any(
        hasattr(value, name)
        for name in ("data_ptr", "__array_interface__", "__cuda_array_interface__", "__dlpack__")
    )


def array_address(value: Any) -> tuple[int, dtype]:
    """Address of the first element and element type of any array on the CPU or an NVIDIA GPU.

    Raises LaunchError for arrays elsewhere and for dtypes that kernels do not have.
    """
    on_gpu = device_of(value) is not None
    if not on_gpu:
        _check_device(value)
    if hasattr(value, "data_ptr"):
        return _tensor_address(value)
    if on_gpu:
        address, kind = gpu_address(value)
        return address, element_type(kind)
    if all(hasattr(value, name) for name in ("__array_interface__", "ctypes", "dtype")):
        return value.ctypes.data, element_type(value.dtype)
    return _view(value)


def _tensor_address(value: Any) -> tuple[int, dtype]:
    """Address and dtype of a torch tensor or an object with its interface."""
    if getattr(value, "is_neg", bool)():
        raise LaunchError(
            f"the {type(value).__name__} is a negated view: its memory holds the elements with the other sign",
            help="pass x.resolve_neg()",
        )
    reason = ""
    try:
        address = value.data_ptr()
        if address or not getattr(value, "fake_mode", None):
            return address, element_type(value.dtype)
    except RuntimeError as error:  # torch, of sparse tensors and of those that are only traced
        reason = f": {error}"
    raise LaunchError(
        f"the {type(value).__name__} has no memory of its own{reason}",
        help="pass a dense tensor (x.to_dense()); what torch only traces needs a custom operator",
    )


def _view(value: Any) -> tuple[int, dtype]:
    """Address and dtype through NumPy, which validates the object's array protocol."""
    from tilewright.interpreter.arrays import numpy_view

    array = numpy_view(value)
    return array.ctypes.data, element_type(array.dtype)


def _check_device(value: Any) -> None:
    device = getattr(value, "device", None)
    where = str(getattr(device, "type", None) or device or "cpu").lower()
    if where.partition(":")[0] != "cpu" and hasattr(value, "data_ptr"):
        raise LaunchError(
            f"the tensor is on device {device}, which has no memory that kernels can use",
            help="move it to the CPU or to an NVIDIA GPU: x.cpu(), x.cuda()",
        )


# ---- specialization --------------------------------------------------------------------------------


def annotated_type(param: KernelParam) -> Any:
    """The type that a parameter's annotation fixes (`n: tl.int64`, `x: "fp64"`), or None."""
    note = param.parameter.annotation
    if isinstance(note, (dtype, pointer_type)):
        return note
    text = note.strip("'\" ").removeprefix("tl.") if isinstance(note, str) else ""
    for parse in (dtypes.from_short_name, dtypes.from_array_name):
        try:
            return parse(text)
        except (KeyError, IndexError):
            continue
    found = getattr(dtypes, "int1" if text == "uint1" else text, None) if text else None
    return found if isinstance(found, dtype) else None  # as the language calls it: "tl.int1"


def _is_const(param: KernelParam) -> bool:
    """Whether the annotation says that the memory is only read."""
    fixed = annotated_type(param)
    return param.is_const or (isinstance(fixed, pointer_type) and fixed.const)


def integer_type(value: int) -> dtype:
    """i32 where it fits, else i64, else u64. Raises LaunchError beyond 64 bits."""
    if -(1 << 31) <= value < 1 << 31:
        return dtypes.int32
    if -(1 << 63) <= value < 1 << 63:
        return dtypes.int64
    if 0 <= value < 1 << 64:
        return dtypes.uint64
    raise IntegerOverflowError(f"the integer {value} does not fit 64 bits")


class Specializer:
    """Types of the arguments of one kernel."""

    def __init__(self, params: list[KernelParam], no_alignment: tuple[str | int, ...] = ()) -> None:
        self.params = params
        self.no_alignment = frozenset(no_alignment)

    def align(self, param: KernelParam) -> bool:
        """Whether divisibility of this parameter's values is looked at."""
        no = self.no_alignment
        return not (param.do_not_specialize or param.index in no or param.name in no)

    def argument(self, param: KernelParam, value: Any) -> ArgumentType:
        """Specialize an argument. Raises LaunchError for an unsupported value."""
        if param.is_constexpr:
            if is_array(value):
                raise LaunchError(
                    f"parameter '{param.name}' is a tl.constexpr and was given an array",
                    help="drop the annotation, or pass a number",
                )
            return ArgumentType(constexpr(value))
        try:
            return self._runtime(param, value, self.align(param))
        except LaunchError as error:
            message = f"argument '{param.name}': {error.message}"
            raise type(error)(message, help=error.help) from None

    def _runtime(self, param: KernelParam, value: Any, align: bool) -> ArgumentType:
        kind = type(value)
        if is_numpy_scalar(value):
            value = value.item()
        if isinstance(value, (bool, int, float)):  # enums, too
            return self._number(param, value, align)
        if value is None or isinstance(value, (str, dtype, KernelFunction, constexpr)):
            return ArgumentType(constexpr(value))
        if isinstance(value, tuple):
            items = [self._runtime(param, item, align) for item in value]
            kind = dtypes.like(value, [item.type for item in items])
            known = extents_are_known(kind, value)
            return ArgumentType(
                kind, "tuple", whole_lines=whole_lines(kind, value), nonnegative=known
            )
        if isinstance(value, MockTensor):
            element = element_type(value.dtype)
            return ArgumentType(pointer_type(element, const=_is_const(param)), "address", align)
        if is_array(value):
            address, element = array_address(value)
            const = _is_const(param)
            divisible = align and address % ALIGNMENT == 0
            numpy = sys.modules.get("numpy")
            native = numpy is not None and isinstance(value, numpy.ndarray)
            kind_name = "numpy" if native else "address"
            return ArgumentType(pointer_type(element, const=const), kind_name, divisible)
        if isinstance(value, list):
            raise LaunchError(
                "expected an array, got a list",
                help="pass a NumPy array or a torch tensor, or a tuple",
            )
        if isinstance(value, type) or callable(value) or kind.__name__ == "dtype":
            return ArgumentType(constexpr(value))
        raise LaunchError(
            f"a {kind.__module__}.{kind.__qualname__} cannot be passed to a kernel",
            help="pass arrays, numbers, tuples of them, or tl.constexpr values",
        )

    def _number(self, param: KernelParam, value: Any, align: bool) -> ArgumentType:
        fixed = annotated_type(param)
        if isinstance(fixed, dtype):
            return _fixed_number(fixed, value, align)
        if isinstance(value, bool):
            return ArgumentType(dtypes.int1, "bool")
        if isinstance(value, float):
            return ArgumentType(dtypes.float32, "fp32")
        if value == 1 and not param.do_not_specialize:
            return ArgumentType(constexpr(1))
        kind = integer_type(value)
        known = value >= 0 and not param.do_not_specialize
        return ArgumentType(
            kind, slot_kind(kind), align and _is_aligned_size(value), nonnegative=known
        )


def _is_aligned_size(value: int) -> bool:
    """Whether an integer is a multiple of 16 and not negative. The strides of a tensor map are unsigned: if they are not
    known as multiples of 16, negative ones are never in one."""
    return value >= 0 and value % ALIGNMENT == 0


def _fixed_number(fixed: dtype, value: Any, align: bool) -> ArgumentType:
    slot = slot_kind(fixed)
    if fixed.is_floating():
        return ArgumentType(fixed if fixed.is_fp64() else dtypes.float32, slot)
    if isinstance(value, float):
        raise LaunchError(f"it is annotated {fixed}, and {value!r} is a float")
    if fixed.is_bool():
        return ArgumentType(fixed, slot)
    bits = fixed.primitive_bitwidth
    low, high = (0, 1 << bits) if fixed.is_int_unsigned() else (-(1 << bits - 1), 1 << bits - 1)
    if not low <= value < high:
        raise IntegerOverflowError(f"{value} does not fit its annotated type {fixed}")
    return ArgumentType(fixed, slot, align and _is_aligned_size(value))


def flatten(kind: ArgumentType, value: Any) -> list[tuple[str, Any]]:
    """(native kind, value to pass) of each slot: tuples leave one per runtime item."""
    if kind.kind != "tuple":
        return [(kind.kind, native_value(kind.kind, value))] if kind.kind else []
    items = [(slot_kind(part), item) for part, item in typed_items(kind.type, value)]
    return [(slot, native_value(slot, item)) for slot, item in items]


def typed_items(kind: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Type and value of an argument, or of each item of a tuple, that is not a constant."""
    if isinstance(kind, tuple):
        for part, item in zip(kind, value, strict=True):
            yield from typed_items(part, item)
    elif not isinstance(kind, constexpr):
        yield kind, value


def runtime_items(kinds: tuple[Any, ...], values: tuple[Any, ...]) -> list[Any]:
    """The items of `values` that are not constants, in the order of the native arguments. `kinds` are their types.

    Raises LaunchError where a tuple has another length than its type.
    """
    if len(kinds) != len(values):
        raise LaunchError(f"expected a tuple of {len(kinds)} items, got {len(values)}")
    items: list[Any] = []
    for kind, value in zip(kinds, values, strict=True):
        if isinstance(kind, tuple) and not isinstance(value, tuple):
            raise LaunchError(f"expected a tuple of {len(kind)} items, got {value!r}")
        if isinstance(kind, tuple):
            items += runtime_items(kind, value)
        elif not isinstance(kind, constexpr):
            items.append(value)
    return items


def slot_kind(kind: Any) -> str:
    """The native kind of a value of type `kind` once `native_value` has made it plain."""
    if kind.is_ptr():
        return "address"
    if kind.is_floating():
        return "fp64" if kind.is_fp64() else "fp32"
    if kind.is_bool():
        return "bool"
    return "uint" if kind.is_int_unsigned() else "int"


def native_value(slot: str, value: Any) -> Any:
    """`value` as the native launcher takes it: addresses and plain numbers."""
    if slot == "numpy":
        return value
    if slot == "address":
        return array_address(value)[0]
    return value.item() if is_numpy_scalar(value) else value


def read_only(value: Any) -> bool:
    """Whether `value` is an array marked read-only."""
    flags = getattr(value, "flags", None)
    if flags is not None and hasattr(flags, "writeable"):
        return not flags.writeable
    interface = getattr(value, "__array_interface__", None)
    return bool(interface and interface["data"][1]) if isinstance(interface, dict) else False


def numpy_address_reader() -> Callable[[Any], int]:
    """A fast function from a NumPy array to its address; checked on a sample, else the plain way."""
    import numpy

    from tilewright.runtime.drivers.cpu import driver

    read = driver().array_address
    for sample in (numpy.arange(3), numpy.zeros((2, 2), numpy.float32)[1:]):
        if read(sample) != sample.ctypes.data:
            return lambda array: array.ctypes.data
    return read


def parse_type(text: str) -> ArgumentType | None:
    """A signature's type: "*fp32", "i32", with ":16" for divisible by 16 and "+" for an integer that is at least 0
    ("i32:16+"); "tensordesc<fp16[64, 32]>" for a descriptor with these blocks. None if it is none."""
    if text.startswith("tensordesc<"):
        found = described_type(text)
        return found and ArgumentType(found, "tuple", nonnegative=True)
    nonnegative = text.endswith("+")
    name, colon, divisor = text.removesuffix("+").partition(":")
    if colon and divisor.strip() not in ("16", "1"):  # what launches specialize on
        return None
    try:
        kind = dtypes.from_short_name(name)
    except (KeyError, IndexError):
        return None
    divisible = divisor.strip() == "16"
    if nonnegative and not kind.is_int():
        return None
    return ArgumentType(kind, slot_kind(kind), divisible, nonnegative=nonnegative)


def ir_arguments(types: Iterable[ArgumentType], values: Iterable[Any]) -> list[Any]:
    """Arrays as they are and plain numbers, one for each parameter of the kernel's IR."""
    found: list[Any] = []
    for argument, given in zip(types, values, strict=True):
        for kind, value in typed_items(argument.type, given):
            number = value.item() if is_numpy_scalar(value) else value
            if kind.is_int() and (bits := kind.primitive_bitwidth) > 1 and number >> (bits - 1) > 0:
                number -= 1 << bits  # held as a signed integer
            found.append(number)
    return found
