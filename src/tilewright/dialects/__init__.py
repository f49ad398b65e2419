"""(see docs/architecture.md)"""

from tilewright.ir import xdsl_speed as xdsl_speed
