"""Kernels that begin while the one before them ends: what comes before they wait, and when the next may begin."""

import numpy as np
import pytest

from tilewright.backends.nvidia.target import target_info
from tilewright.generator import MatmulConfig
from tilewright.runtime.described import signature_of
from tilewright.runtime.matmul import kernels_of
from tilewright.runtime.matmul_prepare import Call, prepare

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


def test_others_are_started_one_after_the_other():
    threads = compiled(MatmulConfig(128, 128, 64, 8, 8, 3, use_tma=False))
    older = compiled(MatmulConfig(64, 64, 32, 8, 4, 3), target_info("sm_80"))
    for made in (threads, older):
        assert not made.plan.programmatic_launch and "griddepcontrol" not in made.asm["ptx"]


def test_tiles_are_counted_by_the_grid_where_groups_are_full():
    """No division then stands before the first copy."""
    full, torn = (compiled(MatmulConfig(64, 64, 64, group, 4, 4)).asm["ptx"] for group in (2, 3))
    assert "%ctaid.z" in full and "div.s32" not in full
    assert "%ctaid.z" not in torn and "div.s32" in torn
