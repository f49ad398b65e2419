"""The `tile` dialect: what MLIR's upstream dialects lack for programs on tiles (design: level 1).

A tile is a builtin `tensor<128x64xf16>`; a scalar is a builtin scalar type; a pointer is
`!tile.ptr<f16>` (a tile of pointers is `tensor<64x!tile.ptr<f16>>`). Element-wise arithmetic is
upstream `arith`/`math` on scalars and tiles alike, control flow is `scf` (`for`, `if`, `while`).
Comparisons and selects are `tile.cmpi`, `tile.cmpf`, `tile.select`, because xDSL's `arith.cmpi`,
`arith.cmpf` and `arith.select` take scalars only.

Memory in the IR holds `i1` as one byte (0 or 1). Offsets count elements, not bytes.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from tilewright.dialects.irdl import operations_of
from tilewright.ir.upstream import remember_integer_lists, widen_conversions

# in the order in which docs/operations.md lists them
# isort: off
from tilewright.dialects.tile.base import *
from tilewright.dialects.tile.tiles import *
from tilewright.dialects.tile.elementwise import *
from tilewright.dialects.tile.memory import *
from tilewright.dialects.tile.algebra import *
from tilewright.dialects.tile.hints_and_io import *
from tilewright.dialects.tile.claims import *
# isort: on

widen_conversions()
remember_integer_lists()


Tile = Dialect("tile", operations_of(globals()), [PtrType, AssumesAttr])
