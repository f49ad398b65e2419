"""`Description`: a contraction read from loops or MLIR, in terms of its function's arguments.

A `Contraction` has the axes m, n, k and batch in fixed positions. A description maps each of them to an axis of an
argument. Sizes may be constants, array extents, or integer arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.dtypes import dtype
from tilewright.errors import CompilationError, SourceLocation
from tilewright.generator.contraction import Part

#: `Access.argument` of the function's result
RESULT = -1


@dataclass(frozen=True)
class Argument:
    """A parameter of the described function: an array (a `dtype` or None: any) or an integer."""

    name: str
    is_array: bool
    dtype: dtype | None = None
    shape: tuple[int | None, ...] = ()


@dataclass(frozen=True)
class Access:
    """An array and the role of each of its axes: "m", "n", "k", "b0", "b1", …"""

    argument: int
    roles: tuple[str, ...]


@dataclass(frozen=True)
class Bound:
    """The end of a loop: an affine expression (xDSL's) whose dimensions are `arguments`, by index, or, as
    (index, axis), extents of arrays."""

    expression: Any
    arguments: tuple[int | tuple[int, int], ...] = ()

    def value(self, arguments: Sequence[Any]) -> int:
        """Evaluate the bound for a call with these arguments."""
        numbers = [
            arguments[i[0]].shape[i[1]] if isinstance(i, tuple) else arguments[i]
            for i in self.arguments
        ]
        return self.expression.eval([int(n) for n in numbers], [])


@dataclass(frozen=True)
class Loop:
    """Iteration range of a loop."""

    start: Bound
    stop: Bound
    step: int = 1

    def values(self, arguments: Sequence[Any]) -> range:
        """Return the iteration range for a call with these arguments."""
        return range(self.start.value(arguments), self.stop.value(arguments), self.step)

    @property
    def constant(self) -> bool:
        """Whether the range is the same for all calls."""
        return not (self.start.arguments or self.stop.arguments)


@dataclass(frozen=True)
class LoopNest:
    """The loops that a `linalg.generic` was raised from: of each dimension the range and the name of its index."""

    ranges: tuple[int | Loop, ...]
    names: tuple[str, ...]
    place: SourceLocation | None
    typed: bool = True
    """Whether arrays must have the element types that the loops name."""


@dataclass(frozen=True)
class Description:
    """See the module docstring. `addend`: initial value of the accumulator. `sizes` maps a role to its constant
    extent, or to its loop if the extent is not constant or the loop does not start at 0.
    """

    name: str
    place: SourceLocation
    arguments: tuple[Argument, ...]
    a: Access
    b: Access
    out: Access
    addend: Access | None = None
    steps: tuple[Part, ...] = ()
    sizes: Mapping[str, int | Loop] = field(default_factory=dict)
    result: Argument | None = None

    @property
    def batch(self) -> tuple[str, ...]:
        """Batch roles, in order."""
        return tuple(sorted({r for r in self.out.roles if r[0] == "b"}, key=lambda r: int(r[1:])))

    def argument(self, access: Access) -> Argument:
        """Return the array of an access."""
        if access.argument != RESULT:
            return self.arguments[access.argument]
        if self.result is None:
            raise CompilationError(f"{self.name} has no result", location=self.place)
        return self.result


def roles_of(
    a: Sequence[Any], b: Sequence[Any], c: Sequence[Any], names: Mapping[Any, str], place: Any
) -> dict[Any, str]:
    """Derive the role of each loop from the subscripts of C[c] += A[a] * B[b].

    Raises CompilationError at `place` if the subscripts are not a contraction of two matrices.
    """

    def wrong(text: str) -> CompilationError:
        return CompilationError(
            f"this is not a matmul: {text}",
            location=place,
            help="it must be C[*, i, j] += A[*, i, k] * B[*, k, j], with batch axes * or without",
        )

    for what, subscript in (("left operand", a), ("right operand", b), ("result", c)):
        if len(set(subscript)) != len(subscript):
            raise wrong(f"a loop index occurs twice in a subscript of the {what}")
    loops = list(dict.fromkeys((*c, *a, *b)))
    for loop in loops:
        if loop in c and loop not in a and loop not in b:
            raise wrong(f"neither operand depends on '{names[loop]}', the result does")
        if loop not in c and not (loop in a and loop in b):
            raise wrong(f"only one operand depends on reduction index '{names[loop]}'")
    reductions = [loop for loop in loops if loop not in c]
    if len(reductions) != 1:
        shown = ", ".join(f"'{names[r]}'" for r in reductions) or "none"
        raise wrong(f"it reduces over {len(reductions)} loops ({shown})")
    rows = [x for x in c if x in a and x not in b]
    columns = [x for x in c if x in b and x not in a]
    found = {reductions[0]: "k"}
    if rows:
        found[rows[-1]] = "m"
    if columns:
        found[columns[-1]] = "n"
    for i, loop in enumerate(x for x in c if x not in found):
        found[loop] = f"b{i}"
    return found
