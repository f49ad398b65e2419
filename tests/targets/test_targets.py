"""What targets are made of, that nothing else knows chips, and that a new one is an entry in one table."""

from __future__ import annotations

import ast
import pickle
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia import tools
from tilewright.errors import UnsupportedTarget
from tilewright.generator import hardware_rates
from tilewright.generator.model import Workload, choose
from tilewright.passes.registry import all_passes
from tilewright.targets import Feature, TargetInfo, nvidia
from tilewright.targets.info import GENERIC
from tilewright.targets.instructions import MMA_SYNC, WGMMA

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tilewright"
_CHIP = re.compile(r"sm_\d+[af]?")
needs_ptxas = pytest.mark.skipif(tools.find("ptxas") is None, reason="no ptxas")
NEW = ("sm_100a", "sm_120a")


@tw.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + at[None, :], (m[:, None] < M) & (at[None, :] < K), 0.0)
        b = tl.load(b_ptr + at[:, None] * N + n[None, :], (at[:, None] < K) & (n[None, :] < N), 0.0)
        total = tl.dot(a, b, total)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask)


@tw.jit
def softmax(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + at, at < n, -float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + tl.program_id(0) * n + at, e / tl.sum(e, 0), at < n)


def compiled_product(target, element="fp16", block=64, **options):
    types = {name: f"*{element}:16" for name in ("a_ptr", "b_ptr")} | {"c_ptr": "*fp32:16"}
    types |= dict.fromkeys("MNK", "i32:16")
    blocks = {"BM": block, "BN": block, "BK": 64}
    return product.compile(types, blocks, target=target, options=options)


# ---- one place -------------------------------------------------------------------------------------


def _named(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _CHIP.fullmatch(node.value) is not None
    )


def _decisions(tree: ast.AST):
    """Expressions of a module that something is decided by: comparisons, keys of tables, patterns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield node, [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            yield node, [key for key in node.keys if key is not None]
        elif isinstance(node, ast.MatchValue):
            yield node, [node.value]


def test_nothing_else_decides_by_names_of_chips():
    found = []
    for file in SOURCE.rglob("*.py"):
        if file.is_relative_to(SOURCE / "targets"):
            continue
        for node, parts in _decisions(ast.parse(file.read_text(encoding="utf-8"))):
            named = any(_named(inner) for part in parts for inner in ast.walk(part))
            by_name = isinstance(node, ast.Compare) and any(
                re.search(r"\b(target|machine)\.name$", ast.unparse(part)) for part in parts
            )
            if named or by_name:
                found.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert not found, "ask target.has(Feature…), target.mma_unit(…), target.is_gpu …"


def test_passes_take_targets_typed():
    for kind in all_passes().values():
        assert kind.apply.__annotations__["target"] == "TargetInfo", kind.name
    for file in (SOURCE / "passes").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.arg) and node.arg == "target" and node.annotation is not None:
                kind = ast.unparse(node.annotation)
                assert "Any" not in kind and "None" not in kind, f"{file}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node).startswith("getattr(target"):
                raise AssertionError(f"{file}:{node.lineno}")


# ---- the table -------------------------------------------------------------------------------------


def test_entries_are_whole():
    assert len(set(nvidia.NAMES)) == len(nvidia.CHIPS)
    assert list(nvidia.CHIPS) == sorted(nvidia.CHIPS, key=lambda chip: chip.capability)
    assert len({chip.key for chip in nvidia.CHIPS}) == len(nvidia.CHIPS)
    for chip in nvidia.CHIPS:
        assert chip.is_gpu and chip.max_registers == 255
        assert chip.shared_bytes + (1 << 10) == chip.sm.shared_bytes
        assert chip.has(Feature.CLUSTERS) or not chip.has(Feature.MULTICAST)
        assert chip.mma_unit(MMA_SYNC) and set(chip.features) <= set(Feature)
        assert pickle.loads(pickle.dumps(chip)) == chip and hash(chip) == hash(chip)
        rates = hardware_rates.gpu_rates(chip)
        assert hardware_rates.tensor_macs(rates, "fp16") > rates.plain_macs


def test_cache_keys_tell_tables_apart():
    chip = nvidia.target_info("sm_90a")
    assert replace(GENERIC, cores=1).key == replace(GENERIC, cores=2).key
    assert replace(chip, cores=1).key != replace(chip, cores=2).key
    assert replace(chip, rates=None).key == chip.key
    for other in (
        replace(chip, mma=chip.mma[1:]),
        replace(chip, sm=replace(chip.sm, max_ctas=16)),
        replace(chip, features=chip.features[1:]),
        replace(chip, shared_bytes=99 << 10),
    ):
        assert other.key != chip.key


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        (80, "sm_80"),
        (87, "sm_86"),
        (90, "sm_90a"),
        (100, "sm_100a"),
        (103, "sm_89"),
        (120, "sm_120a"),
    ],
)
def test_devices_get_code_that_they_run(capability, name):
    """Code for a target with a suffix runs on no other capability (PTX ISA, `.target`)."""
    assert nvidia.of_capability(capability).name == name


@pytest.mark.parametrize("name", ["sm_90", "sm_100", "sm_120"])
def test_bare_names(name):
    assert nvidia.target_info(name).name == f"{name}a"


def test_no_gpu_is_older_than_the_oldest():
    with pytest.raises(UnsupportedTarget, match=r"7\.5"):
        nvidia.of_capability(75)


# ---- what chips without new units use --------------------------------------------------------------


@pytest.mark.parametrize("target", NEW)
@pytest.mark.parametrize("element", ["fp16", "fp8e4nv"])
def test_matmul_by_tma_and_warp_level_mma(target, element):
    kernel = compiled_product(target, element, num_stages=3)
    ptx = kernel.asm["ptx"]
    assert f".target {target}" in ptx and "mma.sync" in ptx and "wgmma" not in ptx
    if element == "fp16":
        assert "cp.async.bulk.tensor" in ptx and "griddepcontrol" in ptx
    if tools.find("ptxas"):
        assert kernel.asm["cubin"][:4] == b"\x7fELF" and kernel.n_spills == 0


@pytest.mark.parametrize(("target", "ctas"), [("sm_100a", 2), ("sm_120a", 1), ("sm_80", 1)])
def test_clusters_where_there_are(target, ctas):
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32"}
    kernel = softmax.compile(types, {"BLOCK": 4096}, target=target, options={"num_ctas": 2})
    assert kernel.plan.cluster_size == ctas
    assert ("barrier.cluster" in kernel.asm["ptx"]) == (ctas > 1)
    assert kernel.asm["cubin"][:4] == b"\x7fELF" or not tools.find("ptxas")


@pytest.mark.parametrize("target", ["sm_86", *NEW])
def test_shared_memory_is_kept_within(target):
    kernel = compiled_product(target, block=128, num_stages=8, num_warps=8)
    chip = nvidia.target_info(target)
    assert chip.shared_bytes // 2 < kernel.plan.shared_bytes <= chip.shared_bytes


@pytest.mark.parametrize("target", NEW)
def test_tiles_are_estimated(target):
    config = choose(
        Workload(4096, 4096, 4096, element="fp16"), nvidia.target_info(target)
    ).best.tiling
    assert config.block_m * config.block_n >= 128 * 64


# ---- the walk-through ------------------------------------------------------------------------------


def walk_through():
    """The row that docs/contributing/add-a-chip.md adds."""
    text = (ROOT / "docs" / "contributing" / "add-a-chip.md").read_text(encoding="utf-8")
    added = re.search(r"```diff[^\n]*\n((?:\+.*\n)+)", text)[1]
    return textwrap.dedent(re.sub(r"^\+", "", added, flags=re.MULTILINE))


def test_a_new_chip_is_one_entry(monkeypatch):
    entry = eval(walk_through().strip().rstrip(","), vars(nvidia).copy())
    assert isinstance(entry, TargetInfo) and entry.name not in nvidia.NAMES
    monkeypatch.setitem(nvidia._BY_NAME, entry.name, entry)
    monkeypatch.setattr(nvidia, "CHIPS", (*nvidia.CHIPS, entry))
    assert nvidia.of_capability(entry.capability) is entry
    kernel = compiled_product(entry.name, num_stages=3)
    assert f".target {entry.name}" in kernel.asm["ptx"] and "cp.async" in kernel.asm["ptx"]
    assert kernel.plan.shared_bytes <= entry.shared_bytes
    if tools.find("ptxas"):
        assert kernel.asm["cubin"][:4] == b"\x7fELF" and kernel.n_spills == 0
    assert not entry.mma_unit(WGMMA)
