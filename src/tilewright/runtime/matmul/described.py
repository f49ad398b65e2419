"""Contractions described by MLIR text or by Python loops, as functions of arrays."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy
from numpy.lib.stride_tricks import as_strided

from tilewright import dtypes
from tilewright.errors import LaunchError, TilewrightError
from tilewright.generator.config import MatmulConfig
from tilewright.generator.description import RESULT, Access, Description, Loop
from tilewright.generator.linalg_contractions import recognize
from tilewright.generator.mlir_parser import descriptions
from tilewright.generator.program import INTEGER, POINTER
from tilewright.generator.python_loops import affine_function
from tilewright.runtime.dynamo import dynamo_disabled
from tilewright.runtime.matmul.call import matmul
from tilewright.runtime.matmul.kernels import GeneratedKernel
from tilewright.runtime.matmul.plan import array_dtype
from tilewright.runtime.matmul.prepare import Call, Prepared, dropped, prepare
from tilewright.runtime.specialize import (
    ArgumentType,
    MockTensor,
    Specializer,
    element_type,
    is_array,
)
from tilewright.runtime.tracebacks import located
from tilewright.targets import TargetInfo


class Described:
    """A recognized contraction; call it with its function's arguments, in order.

    Attributes:
        description: the contraction in terms of the function's arguments.
        name: the function's name.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.name = self.__name__ = description.name

    @dynamo_disabled
    def __call__(self, *arguments: Any, config: MatmulConfig | None = None, **options: Any) -> Any:
        """Run on arrays and integers.

        Args:
            config: a configuration; otherwise the model chooses.
            options: `accumulate` (the accumulator type) and `precision`, as in `matmul`; and arguments by name.

        Returns the result, or the array that was written to. Raises LaunchError for arguments that do
        not match the description.
        """
        try:
            return self._run(self._bound(arguments, options), config, options)
        except TilewrightError as error:
            shown = located(error)
        raise shown

    def _bound(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments in order, those by name taken out of `options`."""
        names = [a.name for a in self.description.arguments]
        for name in names[len(arguments) :]:
            if name not in options:
                break
            arguments = (*arguments, options.pop(name))
        self._check(arguments)
        return arguments

    def _run(
        self, arguments: tuple[Any, ...], config: MatmulConfig | None, options: dict[str, Any]
    ) -> Any:
        d = self.description
        ranges = {role: _indices(size, arguments) for role, size in d.sizes.items()}
        options |= self._operands(lambda access: arguments[access.argument], ranges)
        result = matmul(config=config, **options)
        if d.out.argument != RESULT:
            return arguments[d.out.argument]
        absent = tuple(i for i, role in ((-2, "m"), (-1, "n")) if role not in d.out.roles)
        return result.reshape(dropped(tuple(result.shape), absent)) if absent else result

    def _operands(
        self, arrays: Callable[[Access], Any], ranges: Mapping[str, range]
    ) -> dict[str, Any]:
        """The arguments of `matmul`, from the arrays of accesses and the indices that loops with roles have."""
        d = self.description

        def matrix(access: Access, *axes: str) -> Any:
            array = self._cut(access, arrays(access), ranges)
            return _arranged(array, access.roles, (*d.batch, *axes))

        found = {"a": matrix(d.a, "m", "k"), "b": matrix(d.b, "k", "n")}
        if d.steps:
            found["epilogue"] = [
                replace(step, arrays=tuple(matrix(x, "m", "n") for x in step.arrays))
                for step in d.steps
            ]
        if d.out.argument != RESULT:
            found["out"] = matrix(d.out, "m", "n")
        elif d.result is not None:
            found["out_dtype"] = d.result.dtype
        if d.addend is not None:
            found["c"] = found["out"] if d.addend == d.out else matrix(d.addend, "m", "n")
        return found

    def prepared(
        self,
        target: TargetInfo,
        types: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
        config: MatmulConfig | None = None,
        **options: Any,
    ) -> Prepared:
        """Prepare a call with packed arrays on a target, without arrays.

        Args:
            types: dtypes of arrays whose description leaves them open, by name.
            sizes: extents by role ("m", "n", "k", "b0" …) that the description leaves open.
        """
        fixed, given = self._extents(sizes or {})

        def array(access: Access) -> Any:
            argument = self.description.argument(access)
            kind = argument.dtype or (types or {}).get(argument.name) or dtypes.float32
            known = argument.shape or (None,) * len(access.roles)
            stops = [fixed.get(role, range(given[role])).stop for role in access.roles]
            return _packed([y if x is None else x for x, y in zip(known, stops, strict=True)], kind)

        return prepare(Call(**self._operands(array, fixed), config=config, **options), target)

    def _extents(self, sizes: Mapping[str, int]) -> tuple[dict[str, range], dict[str, int]]:
        """Indices that are the same in every call, and the extents of all axes, with those in `sizes`."""
        d = self.description
        fixed = {r: _indices(n, ()) for r, n in d.sizes.items() if isinstance(n, int) or n.constant}
        given = {role: len(indices) for role, indices in fixed.items()}
        for role, size in sizes.items():
            if role not in (*d.batch, "m", "n", "k"):
                known = ", ".join(("m", "n", "k", *d.batch))
                raise LaunchError(f"{d.name}: there is no size {role}", help=f"there are {known}")
            if given.setdefault(role, size) != size:
                raise LaunchError(f"{d.name}: size {role} is {given[role]}, not {size}")
        given |= {r: 1 for r in ("m", "n") if r not in (*d.a.roles, *d.b.roles)}
        missing = [r for r in (*d.batch, "m", "n", "k") if r not in given]
        if missing:
            raise LaunchError(
                f"{d.name}: sizes {', '.join(missing)} are not known before it is called",
                help="give them: --size " + ",".join(f"{r}=1024" for r in missing),
            )
        return fixed, given

    # ---- arguments -------------------------------------------------------------------------------

    def _check(self, arguments: Sequence[Any]) -> None:
        d = self.description
        if len(arguments) != len(d.arguments):
            names = ", ".join(a.name for a in d.arguments)
            raise LaunchError(f"{d.name} takes {len(d.arguments)} arguments ({names})")
        for declared, value in zip(d.arguments, arguments, strict=True):
            if declared.is_array != is_array(value):
                what = "an array" if declared.is_array else "an integer"
                raise LaunchError(f"{d.name}: '{declared.name}' must be {what}")
            if not declared.is_array:
                if not isinstance(value, Integral):
                    kind = type(value).__name__
                    raise LaunchError(
                        f"{d.name}: '{declared.name}' must be an integer, not a {kind}"
                    )
                continue
            if declared.dtype is not None and element_type(value.dtype) != declared.dtype:
                raise LaunchError(
                    f"{d.name}: '{declared.name}' has dtype {value.dtype}, not {declared.dtype}"
                )
            shape = tuple(value.shape)
            fits = len(shape) == len(declared.shape) and all(
                want in (None, have) for have, want in zip(shape, declared.shape, strict=True)
            )
            if declared.shape and not fits:
                wanted = "x".join("?" if n is None else str(n) for n in declared.shape)
                raise LaunchError(f"{d.name}: '{declared.name}' has shape {shape}, not {wanted}")

    def _cut(self, access: Access, array: Any, sizes: Mapping[str, range]) -> Any:
        """The part of an array that the loops reach."""
        if len(array.shape) != len(access.roles):
            raise LaunchError(
                f"{self.name}: '{self.description.argument(access).name}' has {len(array.shape)} axes, "
                f"its subscript {len(access.roles)}"
            )
        slices, cut = [], False
        for role, extent in zip(access.roles, array.shape, strict=True):
            indices = sizes.get(role, range(extent))
            if indices and (indices[0] < 0 or indices[-1] >= extent):
                name = self.description.argument(access).name
                where = (
                    f"begins at {indices[0]}" if indices[0] < 0 else f"goes to {indices[-1] + 1}"
                )
                raise LaunchError(f"{self.name}: a loop {where}, '{name}' has extent {extent}")
            cut = cut or indices != range(extent)
            slices.append(slice(indices.start, indices.stop, indices.step) if indices else slice(0))
        return array[tuple(slices)] if cut else array

    def __repr__(self) -> str:
        return f"<Described {self.name} at {self.description.place}>"


def _indices(size: int | Loop, arguments: Sequence[Any]) -> range:
    """The values of a loop index in a call with these arguments."""
    return range(size) if isinstance(size, int) else size.values(arguments)


def _arranged(array: Any, roles: tuple[str, ...], wanted: tuple[str, ...]) -> Any:
    """A view of `array` with axes in the order `wanted`; missing axes get extent 1."""
    if roles == wanted:
        return array
    order = [roles.index(role) for role in wanted if role in roles]
    if order != list(range(len(roles))):
        array = array.permute(order) if hasattr(array, "permute") else array.transpose(order)
    return array[tuple(slice(None) if role in roles else None for role in wanted)]


def _packed(shape: Sequence[int], kind: dtypes.dtype) -> Any:
    """A packed array without memory, whose elements must not be read."""
    element = numpy.empty((), array_dtype(kind))
    strides = [element.itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return as_strided(element, shape, strides)


def from_mlir(source: str | Path, function: str | None = None) -> Described:
    """A contraction from MLIR text or a `.mlir` file: `linalg` matmuls or `affine.for` loops.

    `function` names one of several. Raises CompilationError with line and column for invalid MLIR
    and for functions that are not contractions.
    """
    if not isinstance(source, (str, Path)):
        raise LaunchError(f"from_mlir: a {type(source).__name__} is neither text nor a path")
    path = Path(source) if isinstance(source, Path) or str(source).endswith(".mlir") else None
    if path is not None and not path.is_file():
        raise LaunchError(f"there is no file {path}")
    try:
        text = str(source) if path is None else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LaunchError(f"{path} is not text: {error}") from None
    name = f"<mlir {hashlib.sha256(text.encode()).hexdigest()[:8]}>" if path is None else str(path)
    found = descriptions(text, name)
    name = function or next(iter(found))
    if function is None and len(found) > 1:
        raise LaunchError(f"there are several functions: {', '.join(found)}", help="name one")
    if name not in found:
        raise LaunchError(f"there is no function {name}", help=f"there is {', '.join(found)}")
    return Described(found[name])


def signature_of(kernel: GeneratedKernel, prepared: Prepared) -> dict[str, ArgumentType]:
    """Types of a kernel's arguments for packed, aligned arrays, specialized as in a launch."""
    specializer = Specializer(kernel.params)
    found = {}
    for item, param in zip(kernel.program.parameters, kernel.params, strict=True):
        if item.kind == POINTER:
            value: Any = MockTensor(item.dtype)
        elif item.kind == INTEGER:
            value = prepared.problem.integers([item.name])[0]
        else:
            value = 0.5
        found[item.name] = specializer.argument(param, value)
    return found


def loop_nest(function: Any) -> Described:
    """Turn a triple loop over `C[i, j] += A[i, k] * B[k, j]` into a generated matmul.

        @tilewright.loop_nest
        def product(A, B, C, M, N, K):
            for i in range(M):
                for j in range(N):
                    for k in range(K):
                        C[i, j] += A[i, k] * B[k, j]

        product(a, b, c, *c.shape, a.shape[1])      # adds a @ b to c

    Loops may be in any order, with one more per batch axis; bounds are constants or parameters. Raises
    CompilationError for any other loop nest.
    """
    described = Described(recognize(affine_function(function), typed=False))
    functools.update_wrapper(described, function)
    return described
