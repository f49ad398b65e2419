"""What is known of machines: one `TargetInfo` for each, data that every layer above reads.

`info.py` has the type, `nvidia.py` the table of GPUs and `instructions.py` the rows of its instruction tables.
A chip is a row there: nothing outside this package compares names of targets.
"""

from tilewright.targets.info import Feature, GpuRates, SmLimits, TargetInfo
from tilewright.targets.instructions import MmaInstruction

__all__ = ["Feature", "GpuRates", "MmaInstruction", "SmLimits", "TargetInfo"]
