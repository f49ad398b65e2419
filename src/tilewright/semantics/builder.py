"""The abstract builder: the operations that `Semantics` requests from an implementation.

Two implementations exist: the front end's creates xDSL operations (a handle is an `SSAValue`), eager
mode's evaluates immediately with the interpreter's functions (a handle is a NumPy value).

Conventions

- Operations are requested by IR name (`"arith.addf"`, `"tile.load"`), operands in the order of the
  operation's definition. An absent optional operand is `None` **in its position**:
  `op("tile.load", [ptr, mask, None], ty, cache="ca")`. Trailing absent operands are spelled too.
- `result_type` is one language type (`dtype`, `pointer_type` or `block_type`), a tuple of them, or
  None; the result is one handle, a tuple of handles, or None accordingly. Types carry the signedness of
  integers; the IR does not, so the operation's name must express it.
- Attributes are plain Python: int, bool, str, tuple of int or bool; None values are omitted.
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
        self, name: str, operands: Sequence[Any], result_type: Any = None, **attributes: Any
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
    """A builder whose handles hold concrete values."""

    def concrete(self, handle: Any) -> Any:
        """A scalar handle as a Python number, a tile as an array, for `if x:`, `range(n)` and pdb."""
        ...
