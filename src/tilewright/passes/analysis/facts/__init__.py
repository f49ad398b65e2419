"""Facts about integers: ranges and divisors, sound under wrapping arithmetic."""

from tilewright.passes.analysis.facts.operations import LOOP_INDEX
from tilewright.passes.analysis.facts.solver import CUDA_GRID, Facts

__all__ = ["CUDA_GRID", "LOOP_INDEX", "Facts"]
