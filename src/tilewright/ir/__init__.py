"""The door to xDSL: context, types, locations, text. Importing a module here imports xDSL."""

from tilewright.ir import xdsl_speed as xdsl_speed
