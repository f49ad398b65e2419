"""The machine code of products with an operand through registers: what is in flight is left alone."""

import functools
import re

import pytest
from tests.mn_major_dots import module

from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.assemble import disassemble
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info

pytestmark = pytest.mark.skipif(
    not (tools.find("ptxas") and tools.find("nvdisasm")), reason="needs ptxas and nvdisasm"
)
#: block, warps; bytes that a thread reads at once
TILES = [((256, 128, 32), 8, 8), ((128, 256, 32), 8, 16), ((128, 128, 32), 4, 16), ((128, 128, 32), 8, 8),
         ((64, 128, 64), 4, 16)]  # fmt: skip


@functools.cache
def artifact(orders, blocks, warps):
    extents = (512, 512, 512)
    return backend.compile(
        module(orders, extents, blocks),
        Options(num_warps=warps, num_stages=3),
        target_info("sm_90a"),
    )


def main_loop(sass):
    """The instructions from the first wait for a stage in a loop with products to the jump back."""
    lines = [m[1] for m in re.finditer(r"^\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", sass, re.M)]
    first = next(i for i, line in enumerate(lines) if "HGMMA" in line)
    while "PHASECHK" not in lines[first]:
        first -= 1
    last = max(i for i, line in enumerate(lines) if "HGMMA" in line)
    while "BRA" not in lines[last] or "@!P" in lines[last]:
        last += 1
    return lines[first : last + 1]


def numbers(name, width):
    return set(range(int(name), int(name) + width))


@pytest.mark.parametrize("orders", ["row row", "column column"])
@pytest.mark.parametrize(("blocks", "warps", "at_once"), TILES)
def test_registers_of_products_under_way_are_not_written(orders, blocks, warps, at_once):
    """Two rounds of the loop: a word that a product reads stays until a wait says that it is over."""
    if orders == "column column":
        blocks = (blocks[1], blocks[0], blocks[2])
    made = artifact(orders, blocks, warps)
    assert not made.plan.spills and "(C75" not in made.asm.get("log", "")
    loop = main_loop(disassemble(made.object_code))
    groups, current, waits, reads = [], set(), [], 0
    for line in loop + loop:
        text = re.sub(r"^@!?U?P\d+\s+", "", line)
        if found := re.match(r"HGMMA\S* R\d+, R(\d+), gdesc", text):
            current |= numbers(found[1], 4)
            if "gsb0" in text:
                groups.append(current)
                current = set()
            continue
        if found := re.match(r"WARPGROUP\.DEPBAR\.LE gsb0, (\w+)", text):
            pending = int(found[1], 0)
            waits.append(pending)
            groups = groups[max(0, len(groups) - pending) :] if pending else []
            continue
        if found := re.match(r"(\S+) R(\d+),", text):
            width = {"128": 4, "64": 2}.get(found[1].rpartition(".")[2], 1)
            width = 2 if "WIDE" in found[1] else width
            taken = set().union(*groups, current)
            assert not taken & numbers(found[2], width), line
            reads += found[1].startswith("LDS")
            assert not found[1].startswith("LDS") or width * 4 == at_once
    assert reads and set(waits) == {
        1
    }  # products of one portion are in flight while the next is read


@pytest.mark.parametrize("blocks", [(256, 128, 32), (128, 256, 32)])
def test_nothing_is_turned_in_memory(blocks):
    loop = main_loop(disassemble(artifact("row row", blocks, 8).object_code))
    assert not [line for line in loop if re.search(r"STS|LDSM|STSM|PRMT|LDL|STL", line)]
    words = sum(4 if "LDS.128" in line else 2 for line in loop if "LDS" in line)
    assert words * 256 == blocks[1] * blocks[2]  # every element of B once
