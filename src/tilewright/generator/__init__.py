"""Contractions that are described, not written: C = epilogue(α·A·B + β·C) to tile IR.

`contraction` says what is to be computed, `config` how it is divided; `program` makes tile IR of the
two, which goes through the same passes as a kernel written by hand.
"""

from __future__ import annotations

from tilewright.generator.config import MatmulConfig
from tilewright.generator.contraction import Contraction, Extra, Operand, Step

__all__ = ["Contraction", "Extra", "MatmulConfig", "Operand", "Step"]
