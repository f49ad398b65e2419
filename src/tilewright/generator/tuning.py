"""Tables of measured configurations.

`tuned/*.json` holds, for one kind of machine, the fastest configuration of each measured matmul and the model's,
with device and versions. `benchmarks/tune_matmul.py` writes them. Nothing is measured when a matmul is compiled:
`found` looks in the tables, so that a choice stays reproducible.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.generator.config import MatmulConfig
from tilewright.generator.workload import Workload
from tilewright.targets import TargetInfo

_FOLDER = Path(__file__).with_name("tuned")


def key_of(work: Workload, orders: str) -> str:
    """A product's key: sizes, types, and the operands' orders ("row row")."""
    size = "x".join(map(str, (work.batch, work.m, work.n, work.k)))
    return f"{size} {work.element} {work.accumulator} {work.out} {orders}"


def found(work: Workload, orders: str, target: TargetInfo) -> MatmulConfig | None:
    """The measured configuration of a product on a machine of this kind, if there is one.

    fp16 and bf16 stand for each other: the same instructions at the same rates, the same bytes.
    """
    table = _table(target.name, target.cores)
    entry = table.get(key_of(work, orders)) or table.get(key_of(_same_width_type(work), orders))
    return None if entry is None else MatmulConfig.from_text(entry["config"])


def _same_width_type(work: Workload) -> Workload:
    """The same product of the other type of 16 bits."""
    other = {"fp16": "bf16", "bf16": "fp16"}
    if work.accumulator != "fp32":
        return work
    element, out = (other.get(kind, kind) for kind in (work.element, work.out))
    return replace(work, element=element, out=out)


@functools.cache
def _table(name: str, cores: int) -> dict[str, Any]:
    """Entries for machines of a target with so many SMs."""
    for path in sorted(_FOLDER.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if (data["target"], data["cores"]) == (name, cores):
            return data["entries"]
    return {}
