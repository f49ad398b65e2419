"""Kernels that begin while the one before them ends: what comes before they wait, and when the next may begin."""

import re

import numpy as np
import pytest

from tilewright.backends.nvidia.target import target_info
from tilewright.generator import MatmulConfig
from tilewright.runtime.matmul import kernels_of
from tilewright.runtime.matmul.described import signature_of
from tilewright.runtime.matmul.prepare import Call, prepare

TARGET = target_info("sm_90a")


def compiled(config, target=TARGET):
    a = np.zeros((256, 256), np.float16)
    call = Call(a, a, a, (), False, None, False, False, None, None, None, None, config)
    (kernel,) = kernels_of(prepare(call, target))
    types = signature_of(kernel, prepare(call, target))
    return kernel.compile(types, target=target, options=kernel.launch_options())


def places(ptx, *texts):
    """Where each text stands first; all do."""
    found = [ptx.find(text) for text in texts]
    assert -1 not in found, texts
    return found


@pytest.mark.parametrize("persistent", [False, True])
def test_a_product_waits_before_its_first_copy(persistent):
    made = compiled(MatmulConfig(128, 128, 64, 8, 8, 3, persistent=persistent))
    ptx = made.asm["ptx"]
    assert made.plan.programmatic_launch
    order = places(
        ptx,
        "prefetch.tensormap",
        "mbarrier.init",
        "bar.sync",
        "griddepcontrol.wait",
        "cp.async.bulk",
    )
    assert order == sorted(order)
    assert ptx.count("griddepcontrol.wait") == 1 and ptx.count("prefetch.tensormap") == 3
    if not persistent:  # its last product is its last step but the store
        last, begins, store = (
            ptx.rfind("wgmma.wait_group"), ptx.find("griddepcontrol.launch_dependents"),
            ptx.find("cp.async.bulk.tensor.2d.global"),
        )  # fmt: skip
        assert last < begins < store


def test_threads_wait_before_they_read_or_write():
    made = compiled(MatmulConfig(128, 128, 64, 8, 8, 3, use_tma=False))
    ptx = made.asm["ptx"]
    assert made.plan.programmatic_launch and ptx.count("griddepcontrol.wait") == 1
    order = places(ptx, "griddepcontrol.wait", "cp.async", "griddepcontrol.launch_dependents")
    assert order == sorted(order) and "ld.global" not in ptx[: order[0]]


def test_the_sums_of_parts_of_k_are_started_early():
    """The second launch's programs are there when the parts are done, and wait before they read them."""
    a = np.zeros((256, 256), np.float16)
    config = MatmulConfig(128, 128, 64, 8, 8, 3, split_k=2)
    found = prepare(
        Call(a, a, a, (), False, None, False, False, None, None, None, None, config), TARGET
    )
    partial, total = kernels_of(found)
    for kernel in (partial, total):
        made = kernel.compile(
            signature_of(kernel, found), target=TARGET, options=kernel.launch_options()
        )
        assert made.plan.programmatic_launch
    ptx = made.asm["ptx"]
    assert ptx.count("griddepcontrol.wait") == 1 and "global" not in ptx[
        : ptx.find("griddepcontrol.wait")
    ].split("{", 1)[1].replace("cvta.to.global", "")


def test_older_chips_start_one_after_the_other():
    older = compiled(MatmulConfig(64, 64, 32, 8, 4, 3), target_info("sm_80"))
    assert not older.plan.programmatic_launch and "griddepcontrol" not in older.asm["ptx"]


def test_tiles_are_counted_by_the_grid_where_groups_are_full():
    """No division then stands before the first copy."""
    full, torn = (compiled(MatmulConfig(64, 64, 64, group, 4, 4)).asm["ptx"] for group in (2, 3))
    assert "%ctaid.z" in full and not re.search(r"\bdiv\.", full)
    assert "%ctaid.z" not in torn and re.search(r"\bdiv\.", torn)
