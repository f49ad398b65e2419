"""Set up a compilation, run it, and locate every error in the source; symbols of kernels."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Block, Region

from tilewright import dtypes
from tilewright.errors import CompilationError, InternalError, KernelTypeError, TilewrightError
from tilewright.frontend import BuiltKernel
from tilewright.frontend.calls import KernelBuilder
from tilewright.frontend.frame import Frame
from tilewright.frontend.ir_builder import IRBuilder
from tilewright.ir.location import location_attribute
from tilewright.ir.text import name_value
from tilewright.ir.types import ir_type
from tilewright.language import target_info
from tilewright.language.kernel_function import KernelFunction, check_specialization
from tilewright.semantics import Semantics
from tilewright.semantics.memory import TensorDescriptor


class _Compilation(KernelBuilder):
    """One run of the front end over a kernel and what it calls."""

    def __init__(self, fn: KernelFunction, debug: bool) -> None:
        self.block = Block()
        self.builder = IRBuilder(self.block, self._location)
        self.semantics = Semantics(
            self.builder,
            call=lambda function, args: self.call(function, list(args), {}, self.frame.node),
            call_on_lanes=self.call_on_lanes,
            debug=debug,
            dot_precision=fn.dot_precision if target_info.is_cuda() else "ieee",
            any_extents=fn.any_extents,
        )
        self.debug = debug
        self.frame = Frame(fn, None)
        self.frames = [self.frame]
        self.globals_read = {}
        self.callees = {}
        self.copied = 0

    def _location(self) -> Attribute:
        frame = self.frame
        node = frame.positioned()
        key = (node.lineno, node.col_offset)
        found = frame.locations.get(key)
        if found is None:
            found = frame.locations[key] = location_attribute(frame.location(node))
        return found

    def compile(self, signature: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Compile the kernel's body; gives its runtime arguments as (name, language type)."""
        frame = self.frame
        frame.node = frame.tree.args
        self._check_parameters()
        arguments: list[tuple[str, Any]] = []
        args = frame.tree.args
        nodes = {a.arg: a for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        for parameter in frame.fn.params:
            frame.node = nodes.get(parameter.name, args)
            check_specialization(frame.fn, parameter)
            if parameter.name in signature:
                value = signature[parameter.name]
            elif parameter.has_default:
                value = dtypes.constexpr(parameter.default)
            else:
                raise KernelTypeError(f"no type given for parameter '{parameter.name}'")
            frame.env[parameter.name] = self._argument(parameter.name, value, arguments)
        frame.arguments = dict(frame.env)
        self.run(frame.tree.body)
        frame.node = frame.tree
        self.builder.op("func.return", [])
        return arguments

    def _check_parameters(self) -> None:
        args = self.frame.tree.args
        if (star := args.vararg or args.kwarg) is not None:
            raise KernelTypeError(
                f"a kernel cannot take a variable number of arguments ('*{star.arg}')",
                help="name each parameter",
            )

    def _argument(self, name: str, value: Any, arguments: list[tuple[str, Any]]) -> Any:
        if isinstance(value, dtypes.constexpr):
            return value.value
        if isinstance(value, tuple):
            names = getattr(value, "_fields", range(len(value)))
            items = dtypes.like(
                value,
                [
                    self._argument(f"{name}.{n}", item, arguments)
                    for n, item in zip(names, value, strict=True)
                ],
            )
            if isinstance(value, TensorDescriptor):
                return self.semantics.make_tensor_descriptor(*items)
            return items
        self.semantics.check_supported(value, f"parameter '{name}': the type")
        handle = self.block.insert_arg(ir_type(value), len(self.block.args))
        name_value(handle, name)
        arguments.append((name, value))
        return self.tensor(handle, value)


def build_module(
    fn: KernelFunction,
    signature: Mapping[str, Any],
    divisibility: Mapping[str, int],
    debug: bool,
    name: str | None,
    nonnegative: frozenset[str] = frozenset(),
) -> BuiltKernel:
    """See `tilewright.frontend.build`."""
    try:
        compilation = _Compilation(fn, debug)
    except OSError as error:
        raise CompilationError(
            f"cannot read the source of kernel '{fn.fn.__name__}': {error}",
            help="define the kernel in a file or a notebook cell, not with exec()",
        ) from None
    try:
        arguments = compilation.compile(signature)
    except TilewrightError as error:
        if error.location is None:
            error.location = compilation.frame.location()
        raise
    except RecursionError:
        place = compilation.frame.location()
        raise CompilationError("the kernel is nested too deeply", location=place) from None
    except MemoryError:
        raise
    except Exception as error:
        raise InternalError("to read the kernel", error, compilation.frame.location()) from error
    types = [ir_type(kind) for _, kind in arguments]
    function = func.FuncOp.create(
        properties={
            "sym_name": StringAttr(name or symbol_of(fn.fn.__name__)),
            "function_type": FunctionType.from_lists(types, []),
            "arg_attrs": ArrayAttr(
                [
                    _argument_attributes(
                        n, divisibility.get(n), n in nonnegative, n in fn.noalias and kind.is_ptr()
                    )
                    for n, kind in arguments
                ]
            ),
        },
        regions=[Region(compilation.block)],
        location=location_attribute(compilation.frame.location(fn.tree)),
    )
    return BuiltKernel(ModuleOp([function]), compilation.globals_read, tuple(compilation.callees))


@functools.lru_cache(maxsize=4096)
def _argument_attributes(
    name: str, divisor: int | None, nonnegative: bool, noalias: bool
) -> DictionaryAttr:
    attributes: dict[str, Attribute] = {"tile.noalias": UnitAttr()} if noalias else {}
    if divisor is not None and divisor > 1:
        attributes["tile.divisibility"] = IntegerAttr(divisor, i32)
    attributes["tile.name"] = StringAttr(name)
    if nonnegative:
        attributes["tile.nonnegative"] = UnitAttr()
    return DictionaryAttr(attributes)


#: C's mathematics, which code on a CPU calls; each also with the f of single precision
_MATHEMATICS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cosh", "erf",
    "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fma", "fmod", "hypot", "ldexp", "lgamma", "log",
    "log10", "log1p", "log2", "pow", "remainder", "rint", "round", "roundeven", "sin", "sincos",
    "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
)  # fmt: skip
#: words of PTX, and functions that every kernel may call
_TAKEN = frozenset((
    "_", "WARP_SZ", "printf", "vprintf", "malloc", "free", "memcpy", "memmove", "memset", "abort",
    *_MATHEMATICS, *(f"{name}f" for name in _MATHEMATICS),
))  # fmt: skip


def symbol_of(name: str) -> str:
    """The symbol of a kernel called `name`: the name itself, unless that is taken or not ASCII.

    LLVM ends the process for letters that PTX does not have, and a kernel called `sinf` would take
    the place of the function.
    """
    plain = "".join(c if c.isascii() else f"_u{ord(c):x}" for c in name)
    taken = plain in _TAKEN or plain.startswith(("__nv_", "tw_"))
    return f"kernel_{plain}" if taken else plain
