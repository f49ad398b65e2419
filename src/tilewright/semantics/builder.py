"""The abstract builder: what `Semantics` asks for, whoever answers.

Two implementations exist: the front end's makes xDSL operations (a handle is an `SSAValue`), eager
mode's evaluates at once with the interpreter's functions (a handle is a NumPy value).

Conventions

- Operations are asked for by IR name (`"arith.addf"`, `"tile.load"`), operands in the order of the
  operation's definition. An absent optional operand is `None` **in its place**:
  `op("tile.load", [ptr, mask, None], ty, cache="ca")`. Trailing absent operands are spelled too.
- `result_type` is one language type (`dtype`, `pointer_type` or `block_type`), a tuple of them, or
  None; the answer is one handle, a tuple of handles, or None accordingly. Types say whether an
  integer is signed; the IR forgets it, so the operation's name must already be the right one.
- Attributes are plain Python: int, bool, str, tuple of int or bool; one that is None is left out.
  Names are those of the properties in `dialects/tile/`.
- Scalars and tiles take the same element-wise operations; all operands of one have one shape
  (semantics inserts `tile.splat`, `tile.expand_dims` and `tile.broadcast`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tilewright.dtypes import dtype


class Builder(Protocol):
    """See the module's text for the conventions."""

    def op(
        self,
        name: str,
        operands: Sequence[Any],
        result_type: Any = None,
        **attributes: Any,
    ) -> Any:
        """Perform or emit the operation called `name`."""
        ...

    def constant(self, value: Any, result_type: dtype) -> Any:
        """A scalar constant; integers wrap to the type's width, floats round to nearest even."""
        ...

    def region_op(
        self,
        name: str,
        operands: Sequence[Any],
        result_types: Sequence[Any],
        argument_types: Sequence[Any],
        combine: Callable[..., Sequence[Any]],
        **attributes: Any,
    ) -> tuple[Any, ...]:
        """`tile.reduce` (attribute `axis`) or `tile.scan` (`axis`, `reverse`).

        `combine` takes 2n scalar handles (n left, then n right; their types are `argument_types`)
        and returns n. It emits its operations through this same builder while it runs.
        """
        ...


class EagerBuilder(Builder, Protocol):
    """A builder whose handles hold values that Python can look at."""

    def concrete(self, handle: Any) -> Any:
        """A scalar handle as a Python number, a tile as an array, for `if x:`, `range(n)` and pdb."""
        ...
