"""Timing and tuning of GPU launches on a libcuda that records."""

import time

import pytest
from tests.runtime.test_gpu_launch import Tensor, add, fake

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.nvidia import tools
from tilewright.errors import AutotuneError, KernelFault, OutOfResources
from tilewright.runtime.gpu_timing import GpuMeasurement, gpu_timer
from tilewright.testing import do_bench

assert fake


def arrays():
    return [Tensor(0x1000000 + 256 * i) for i in range(3)]


def test_runs_are_queued_behind_a_flush_and_waited_for_once(fake):
    timer = gpu_timer()
    x, y, out = arrays()
    add[(1,)](x, y, out, 1000, BLOCK=256)
    run = GpuMeasurement(
        timer, lambda: add[(1,)](x, y, out, 1000, BLOCK=256), lambda: None, lambda: None, True
    )
    fake.calls.clear()
    assert run.runs(3) == [0.5] * 3
    order = [
        c
        for c in fake.calls
        if c in ("cuMemsetD32Async", "cuEventRecord", "cuLaunchKernelEx", "cuCtxSynchronize")
    ]
    each = ["cuMemsetD32Async", "cuEventRecord", "cuLaunchKernelEx", "cuEventRecord"]
    assert order == each * 3 + ["cuCtxSynchronize"]
    timer.close()
    assert fake.calls.count("cuEventDestroy_v2") == 6 and "cuMemFree_v2" in fake.calls


def test_do_bench_uses_events(fake):
    x, y, out = arrays()
    assert do_bench(lambda: add[(1,)](x, y, out, 1000, BLOCK=256), rep=5) == 0.5
    assert fake.calls.count("cuMemAlloc_v2") == fake.calls.count("cuMemFree_v2") == 1
    assert do_bench(lambda: add[(1,)](x, y, out, 1000, BLOCK=256), rep=5, quantiles=[0.5, 0.2]) == [
        0.5,
        0.5,
    ]


def test_the_budget_counts_what_surrounds_a_run(fake):
    """Kernels of microseconds would otherwise be run thousands of times, and tuning take minutes."""
    x, y, out = arrays()
    runs = []

    def before():
        runs.append(time.sleep(0.005))

    do_bench(lambda: add[(1,)](x, y, out, 1000, BLOCK=256), warmup=20, rep=100, setup=before)
    assert 10 <= len(runs) < 50  # kernels of 0.5 ms: 240 by their own time


def test_what_keeps_the_cpu_busy_is_timed_by_the_clock(fake):
    timer = gpu_timer()
    run = GpuMeasurement(timer, lambda: time.sleep(0.002), lambda: None, lambda: None, True)
    assert 1.9 < run.first() < 1500 and run.host_bound


def test_a_kernel_that_fails_while_it_is_timed(fake):
    x, y, out = arrays()
    fake.fail["cuCtxSynchronize"] = 700
    with pytest.raises(KernelFault, match="launched last: add"):
        do_bench(lambda: add[(1,)](x, y, out, 1000, BLOCK=256), rep=5)


def tuned(configs, **more):
    @tw.autotune(configs=configs, key=["n"], **more)
    @tw.jit
    def scale(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, x * 2, mask=mask)

    return scale


def test_options_of_a_gpu_tell_configurations_apart(fake):
    kernel = tuned([tw.Config({"BLOCK": 512}, num_warps=w) for w in (1, 2, 4)])
    x, y, out = arrays()
    kernel[lambda meta: (4,)](x, y, out, 1000)
    assert len(kernel.configs_timings) == 3
    assert {launch.block[0] for launch in fake.launches} == {32, 64, 128}
    assert kernel.best_config.num_warps == 1  # equal times: the first of the list


def test_results_are_kept_by_device_and_driver(fake, private_cache):
    import json

    kernel = tuned([tw.Config({"BLOCK": b}) for b in (128, 256)])
    kernel[lambda meta: (4,)](*arrays(), 1000)
    (record,) = (private_cache / "tuning").glob("*.json")
    target = json.loads(record.read_text())["identity"]["target"]
    assert "sm_90a" in target and "Fake H200 132 driver 13000" in target


@pytest.mark.skipif(tools.find("ptxas") is None, reason="no ptxas")
def test_configurations_are_assembled_at_the_same_time(fake, tmp_path, monkeypatch):
    """Each assembler waits until another one has started."""
    started = tmp_path / "started"
    started.mkdir()
    waiting = tmp_path / "ptxas"
    waiting.write_text(
        f"""#!/bin/sh
        touch {started}/$$
        for i in $(seq 300); do
            [ $(ls {started} | wc -l) -ge 2 ] && exec {tools.find("ptxas")} "$@"
            sleep 0.1
        done
        echo "fatal: alone" >&2
        exit 1
        """
    )
    waiting.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_PTXAS", str(waiting))
    monkeypatch.setattr("tilewright.runtime.tuning.cores", lambda: 2)
    kernel = tuned([tw.Config({"BLOCK": b}) for b in (128, 256)])
    kernel[lambda meta: (4,)](*arrays(), 1000)
    assert len(list(started.iterdir())) == 2 and not kernel.failures


def test_configurations_that_do_not_fit_are_left_out(fake, monkeypatch):
    from tilewright.runtime.compiled import CompiledKernel

    def check_fits(self):
        if self.options.num_warps > 2:
            raise OutOfResources(300_000, 232_448, "shared memory")

    monkeypatch.setattr(CompiledKernel, "check_fits", check_fits)
    kernel = tuned([tw.Config({"BLOCK": 256}, num_warps=w) for w in (8, 2, 4, 1)])
    kernel[lambda meta: (4,)](*arrays(), 1000)
    assert kernel.best_config.num_warps == 2 and len(kernel.failures) == 2
    assert {launch.block[0] for launch in fake.launches} == {32, 64}
    none = tuned([tw.Config({"BLOCK": 256}, num_warps=w) for w in (8, 4)])
    with pytest.raises((AutotuneError, OutOfResources), match="shared memory"):
        none[lambda meta: (4,)](*arrays(), 1000)


def test_what_fits(fake):
    import dataclasses

    compiled = add[(1,)](*arrays(), 1000, BLOCK=256)
    compiled.check_fits()
    plan = compiled.artifact.plan
    for change, name in (
        ({"shared_bytes": 300_000}, "shared memory"),
        ({"threads": 1024, "registers": 65}, "registers"),
    ):
        altered = dataclasses.replace(plan, **change)
        compiled.artifact = dataclasses.replace(compiled.artifact, plan=altered)
        with pytest.raises(OutOfResources, match=name):
            compiled.check_fits()


def test_what_does_not_fit_never_runs(fake):
    """The compiler's own figures decide, before anything is launched."""

    @tw.autotune([tw.Config({"N": n}) for n in (256, 16, 32)], key=[])
    @tw.jit
    def square(x_ptr, out_ptr, N: tl.constexpr):
        at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
        x = tl.load(x_ptr + at)
        tl.store(out_ptr + at, tl.dot(x, tl.trans(x), input_precision="tf32"))

    fake.slots = 2
    square[(1,)](*arrays()[:2])
    assert [c.kwargs["N"] for c in square.failures] == [256]
    assert "shared memory of sm_90a, Required: 262144" in str(square.failures)
    assert max(launch.shared for launch in fake.launches) < 232_448


def test_the_same_kernel_is_tuned_for_each_target(fake):
    import numpy as np

    kernel = tuned([tw.Config({"BLOCK": b}) for b in (128, 256)])
    x = np.ones(1000, np.float32)
    kernel[lambda meta: (8,)](x, x, x.copy(), 1000)
    kernel[lambda meta: (8,)](*arrays(), 1000)
    kernel[lambda meta: (8,)](*arrays(), 1000)
    assert len(kernel.cache) == 2


def test_gpu_memory_is_put_back(fake):
    """Torch tensors with their whole storage, others by shape and strides; ranges are merged."""
    from types import SimpleNamespace

    from tests.runtime.test_gpu_launch import Interface

    from tilewright.runtime.snapshot import Snapshot

    class Stored(Tensor):
        shape = (4,)

        def stride(self):
            return (1,)

        def element_size(self):
            return 4

        def detach(self):
            return self

        def untyped_storage(self):
            return SimpleNamespace(data_ptr=lambda: 0x1000000, nbytes=lambda: 4096)

    Stored.__module__ = "torch"
    other = Interface(0x1800000)
    other.__cuda_array_interface__ |= {"shape": (3, 5), "strides": (40, 8)}
    snapshot = Snapshot([Stored(0x1000100), Stored(0x1000200), other, 5])
    kept = [(to, source, size) for to, source, size in fake.copies]
    assert [(source, size) for _, source, size in kept] == [(0x1000000, 4096), (0x1800000, 116)]
    assert snapshot.nbytes == 4096 + 116
    fake.copies.clear()
    snapshot.restore()
    assert fake.copies == [(source, to, size) for to, source, size in kept]
    del snapshot
    assert fake.calls.count("cuMemFree_v2") == 2


def test_neighbouring_allocations_are_copied_apart(fake):
    """A copy across two allocations is an invalid argument to the driver."""
    from tests.runtime.test_gpu_launch import Interface

    from tilewright.runtime.snapshot import MemoryRange, Snapshot, merged

    first, second = Interface(0x1000000), Interface(0x1000000 + 32)
    snapshot = Snapshot([first, second, first])
    assert [(source, size) for _, source, size in fake.copies] == [
        (0x1000000, 32),
        (0x1000020, 32),
    ]
    fake.copies.clear()
    snapshot.restore()
    assert [size for *_, size in fake.copies] == [32, 32]
    parts = [MemoryRange(0, 8), MemoryRange(8, 8), MemoryRange(12, 8), MemoryRange(16, 2)]
    assert merged(parts) == [MemoryRange(0, 8), MemoryRange(8, 12)]


def test_the_copy_rate_is_that_of_the_gpu_in_use(fake):
    from tilewright.testing import get_dram_gbps
    from tilewright.testing.machine import _gpu_dram_gbps

    _gpu_dram_gbps.cache_clear()
    assert get_dram_gbps() == pytest.approx(2 * (1 << 30) * 1e-6 / 0.5)
    assert {size for _, _, size in fake.copies} == {1 << 30}
    assert fake.calls.count("cuMemAlloc_v2") == fake.calls.count("cuMemFree_v2")
    _gpu_dram_gbps.cache_clear()


def test_kernels_behind_a_slow_call_are_timed_by_events_on_an_idle_gpu(fake):
    x, y, out = arrays()

    def call():
        time.sleep(0.001)
        add[(1,)](x, y, out, 1000, BLOCK=256)

    run = GpuMeasurement(gpu_timer(), call, lambda: None, lambda: None, True)
    assert run.first() == 0.5 and run.host_bound and not run.by_clock
