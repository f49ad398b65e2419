"""Blocks of an SM, and limits on registers that let more in."""

from __future__ import annotations

import importlib.util
import struct
from pathlib import Path

import pytest

from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.occupancy import (
    CtaResources,
    register_limit_for_occupancy,
    resident_ctas,
)
from tilewright.backends.nvidia.target import target_info
from tilewright.ir.text import parse_ir

HOPPER, AMPERE, SMALL = (target_info(name) for name in ("sm_90a", "sm_80", "sm_86"))
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

KERNEL = """
func.func @copy(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "p"},
                %q: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "q"}) {
  %one = arith.constant 1 : i64
  %zero = arith.constant 0.0 : f32
  %x = tile.load_view %p ["strided"] strides(%one) other %zero : f32 {limited = array<i64>} : !tile.ptr<f32> to tensor<4096xf32>
  tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<4096xf32>, !tile.ptr<f32>
  func.return
}
"""

SHIFTED = KERNEL.replace(
    "  tile.store_view %x",
    """  %most = "tile.reduce"(%x) <{axis = 0 : i64}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<4096xf32>) -> f32
  %wide = tile.splat %most : f32 to tensor<4096xf32>
  %y = arith.subf %x, %wide : tensor<4096xf32>
  tile.store_view %y""",
)
"""Its warps wait for each other."""


@pytest.mark.parametrize(
    ("target", "threads", "registers", "shared", "blocks"),
    [
        (HOPPER, 512, 64, 0, 2),
        (HOPPER, 512, 65, 0, 1),  # registers come by eights
        (HOPPER, 512, 72, 0, 1),
        (HOPPER, 1024, 32, 0, 2),
        (HOPPER, 1024, 33, 0, 1),
        (HOPPER, 1024, 72, 0, 0),
        (HOPPER, 128, 16, 0, 16),  # 2048 threads
        (HOPPER, 32, 16, 0, 32),
        (HOPPER, 128, 40, 72 << 10, 3),  # 228 KB, of which each block has one more
        (HOPPER, 128, 40, 227 << 10, 1),
        (HOPPER, 416, 48, 0, 3),  # 13 warps: partitions get 10 of 39, of which there is room for 40
        (AMPERE, 1024, 32, 0, 2),
        (AMPERE, 128, 40, 81 << 10, 2),
        (SMALL, 1024, 32, 0, 1),  # 1536 threads
        (SMALL, 512, 40, 0, 3),
        (SMALL, 32, 16, 0, 16),
    ],
)
def test_blocks_at_once(target, threads, registers, shared, blocks):
    assert resident_ctas(CtaResources(threads, registers, shared), target) == blocks


@pytest.mark.parametrize(
    ("target", "threads", "registers", "shared", "limit"),
    [
        (HOPPER, 512, 66, 4160, 64),
        (HOPPER, 512, 73, 4160, 64),
        (HOPPER, 512, 96, 4160, 64),
        (HOPPER, 512, 97, 4160, None),  # more than one in three
        (HOPPER, 512, 64, 4160, None),  # for three it takes 40
        (HOPPER, 512, 45, 0, 40),
        (HOPPER, 512, 48, 0, None),
        (HOPPER, 512, 66, 120 << 10, None),  # shared memory
        (HOPPER, 1024, 36, 0, 32),
        (SMALL, 1024, 36, 0, None),  # threads
        (HOPPER, 128, 100, 0, None),  # five; for eight it takes 64
        (HOPPER, 1024, 80, 0, None),  # does not run at all
    ],
)
def test_limits(target, threads, registers, shared, limit):
    block = CtaResources(threads, registers, shared)
    assert register_limit_for_occupancy(block, target) == limit
    if limit is not None:
        more = resident_ctas(CtaResources(threads, limit, shared), target)
        assert 2 * more >= 3 * resident_ctas(block, target)


@pytest.mark.parametrize("target", [HOPPER, AMPERE, SMALL], ids=lambda t: t.name)
def test_a_limit_is_the_most_that_lets_them_in(target):
    for threads in range(32, 1025, 32):
        for registers in range(16, 256):
            block = CtaResources(threads, registers, 0)
            limit = register_limit_for_occupancy(block, target)
            if limit is not None:
                before = resident_ctas(block, target)
                assert limit < registers
                assert 2 * resident_ctas(CtaResources(threads, limit, 0), target) >= 3 * before
                assert 2 * resident_ctas(CtaResources(threads, limit + 1, 0), target) < 3 * before


# ---- asking the assembler again ---------------------------------------------------------------------


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """An assembler that uses as many registers, and spills as many bytes, as its answers say: for text
    without a limit, and with one."""
    cubin = b"\x7fELF" + bytes(28) + struct.pack("<QQ", 200, 64) + bytes(6)
    cubin += struct.pack("<HHHH", 56, 1, 64, 2)
    (tmp_path / "cubin").write_bytes(cubin.ljust(256, b"\0"))

    def make(free: tuple[int, int], limited: tuple[int, int] = (0, 0)) -> None:
        path = tmp_path / "ptxas"
        path.write_text(
            f'#!/bin/sh\ncat > {tmp_path}/text; cat {tmp_path}/cubin > "$5"\n'
            f"echo run >> {tmp_path}/runs\n"
            f'say() {{ echo "$2 bytes spill stores"; echo "Used $1 registers"; }}\n'
            f"if grep -q maxnreg {tmp_path}/text; then say {limited[0]} {limited[1]}; "
            f"else say {free[0]} {free[1]}; fi\n"
        )
        path.chmod(0o755)
        monkeypatch.setenv("TILEWRIGHT_PTXAS", str(path))

    make.runs = lambda: (tmp_path / "runs").read_text().count("run")
    return make


def made(kernel=KERNEL, **options):
    """Registers, spills and whether there is a limit in the text."""
    found = backend.compile(parse_ir(kernel), Options(num_warps=16, **options), HOPPER)
    return found.plan.registers, found.plan.spills, ".maxnreg" in found.asm["ptx"]


def test_a_limit_that_is_kept(tool):
    tool((66, 0), (62, 0))
    assert made() == (62, 0, True) and tool.runs() == 2


@pytest.mark.parametrize(("free", "limited"), [((66, 0), (64, 68)), ((44, 0), (40, 4))])
def test_a_limit_that_costs_memory_is_not_taken(tool, free, limited):
    """64 KB of all threads of two blocks, or anything where there are two already."""
    tool(free, limited)
    assert made() == (*free, False) and tool.runs() == 2


def test_a_second_block_is_worth_a_few_spills(tool):
    """Where warps wait for each other: those of a copy do not."""
    tool((90, 0), (64, 64))
    assert made(SHIFTED) == (64, 16, True) and tool.runs() == 2
    assert made() == (90, 0, False)


def test_an_assembler_that_does_not_care(tool):
    tool((66, 0), (66, 0))
    assert made() == (66, 0, False)


def test_where_no_more_would_fit_nothing_is_asked(tool):
    tool((40, 0))
    assert made() == (40, 0, False) and tool.runs() == 1


def test_a_limit_of_the_launch_stays(tool):
    tool((66, 0), (70, 0))
    assert made(maxnreg=72) == (70, 0, True) and tool.runs() == 1


def _softmax():
    """The documents' softmaxes."""
    name = "seeds_loader"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load("softmax")


@pytest.mark.skipif(tools.find("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize("kernel", ["tile", "online"])
def test_two_programs_of_a_softmax_share_a_multiprocessor(kernel):
    """Loads of several iterations in flight leave room for a second program (`batch-loads`)."""
    function = getattr(_softmax(), f"kernel_softmax_{kernel}")
    types = {
        **{name: "*fp32:16" for name in ("x_ptr", "y_ptr")},
        **{name: "i32:16" for name in ("x_row_stride", "y_row_stride", "n_cols")},
    }
    found = function.compile(
        types, {"BLOCK_SIZE": 4096, "CACHE_OPT": True}, target="sm_90a", num_warps=32
    )
    plan = found.plan
    block = CtaResources(plan.threads, plan.registers, plan.shared_bytes)
    assert not plan.spills and resident_ctas(block, HOPPER) >= 2
