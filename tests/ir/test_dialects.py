"""Every operation class belongs to its dialect: text with others cannot be parsed."""

import importlib
import pkgutil

import pytest
from xdsl.irdl import IRDLOperation

import tilewright.dialects
from tilewright.dialects import cpu, gpu, tile


@pytest.mark.parametrize("dialect", [tile.Tile, cpu.Cpu, gpu.Gpu], ids=lambda d: d.name)
def test_all_operations_are_registered(dialect) -> None:
    for module in pkgutil.walk_packages(tilewright.dialects.__path__, "tilewright.dialects."):
        importlib.import_module(module.name)
    pending, found = [IRDLOperation], set()
    while pending:
        pending += (kinds := pending.pop().__subclasses__())
        found.update(k for k in kinds if getattr(k, "name", "").startswith(dialect.name + "."))
    assert {k.name for k in found} == {k.name for k in dialect.operations}
