"""`tl.target_info`: kernels see what they are compiled for."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engines import ON_CPU, run

import tilewright as tw
import tilewright.language as tl


@pytest.fixture(autouse=True)
def machine_without_a_gpu(monkeypatch):
    """On a GPU machine, too, where code that uses Triton's interfaces may have named the GPU."""
    monkeypatch.setattr(tl.target_info, "_machine", None)


@tw.jit
def by_target(out_ptr):
    if tl.target_info.cuda_capability_geq(9):
        tl.store(out_ptr, 900.0)
    elif tl.target_info.is_cuda():
        tl.store(out_ptr, 800.0)
    else:
        tl.static_assert(tl.target_info.is_cpu() and not tl.target_info.is_hip_cdna3())
        tl.store(out_ptr, 100.0)


@pytest.mark.parametrize("engine", ON_CPU)
def test_on_this_machine(engine):
    (out,) = run(engine, by_target, (1,), np.zeros(1, np.float32))
    assert out[0] == 100


def test_for_gpus():
    for target, number in (("sm_90a", "900"), ("sm_80", "800"), ("cpu", "100")):
        compiled = by_target.compile({"out_ptr": "*fp32"}, target=target)
        assert (
            f"{number}.0" in compiled.asm["tile"] or f"{int(number[0])}.0" in compiled.asm["tile"]
        )
        assert not any(f"{n}.0" in compiled.asm["tile"] for n in {"900", "800", "100"} - {number})
    assert tl.target_info.current_target().backend == "cpu"
