"""The CUDA driver on a libcuda that records calls: packing, streams, contexts, errors, loading."""

import struct
from dataclasses import replace

import pytest
from tests.runtime.fake_cuda import FakeCuda

from tilewright.backends.base import Argument, Artifact, AssertSite, Extent, LaunchPlan, TensorMap
from tilewright.errors import KernelFault, LaunchError, OutOfResources, UnsupportedTarget
from tilewright.runtime.drivers import cuda
from tilewright.runtime.native import cuda as host
from tilewright.runtime.native.python import BAD_GRID


@pytest.fixture(params=["native", "portable"])
def gpu(request, monkeypatch):
    if request.param == "portable":
        monkeypatch.setattr(cuda, "common_cpython", lambda: False)
    fake = FakeCuda()
    driver = cuda.CudaDriver(fake)
    driver.fake = fake
    fake.calls.clear()
    return driver


def artifact(arguments=(), code=b"\x7fELFcubin", ptx="ptx", **plan):
    plan = LaunchPlan("kern", tuple(arguments), **{"threads": 128, **plan})
    return Artifact("kern", code, plan, {"ptx": ptx})


def start(gpu, kinds=(), device=0, **plan):
    made = artifact(**plan)
    kernel = gpu.load(made, device)
    return gpu.launcher(kernel, made.plan, kinds)


def test_arguments_are_packed_in_their_types(gpu):
    kinds = ["address", "skip", "int", "uint", "fp32", "fp64", "bool", "int"]
    call = start(gpu, kinds)
    gpu.fake.slots = 7
    assert call((3, 2), 77, 1 << 40, None, -5, (1 << 64) - 1, 1.5, -0.1, True, 1 << 35) is None
    (launch,) = gpu.fake.launches
    assert launch.grid == (3, 2, 1) and launch.block == (128, 1, 1) and launch.stream == 77
    fp32, fp64 = struct.unpack("<IQ", struct.pack("<fd", 1.5, -0.1))
    assert launch.slots == [1 << 40, (1 << 64) - 5, (1 << 64) - 1, fp32, fp64, 1, 1 << 35]


def test_a_blob_is_passed_by_its_own_address(gpu):
    import ctypes

    call = start(gpu, ["address", "blob"])
    blob = ctypes.create_string_buffer(b"12345678", 128)
    gpu.fake.slots = 2
    call((1,), 0, 5, ctypes.addressof(blob))
    assert gpu.fake.launches[0].slots == [5, int.from_bytes(b"12345678", "little")]


def test_many_arguments(gpu):
    call = start(gpu, ["int"] * 60)
    gpu.fake.slots = 60
    call((1,), 0, *range(60))
    assert gpu.fake.launches[0].slots == list(range(60))


def test_python_errors_of_values_reach_the_caller(gpu):
    call = start(gpu, ["address"])
    with pytest.raises(TypeError):
        call((1,), 0, "text")
    assert not gpu.fake.launches


def test_empty_grids_launch_nothing_and_wrong_ones_are_told(gpu):
    call = start(gpu)
    assert call((0, 3), 0) is None
    assert call((4, 0, 1), 0) is None
    for grid in ((), (1, 2, 3, 4), (-1,), (1 << 31,), (1, 65536), (1, 1, 65536)):
        assert call(grid, 0) == BAD_GRID
    assert not gpu.fake.launches
    assert call(((1 << 31) - 1, 65535, 65535), 0) is None


def test_the_context_of_the_device_is_made_current_around_a_launch(gpu):
    call = start(gpu, device=1)
    call((1,), 0)
    assert gpu.fake.launches[-1].context == 0xC001 and gpu.fake.stack == [0]
    gpu.fake.stack = [0xC001]
    gpu.fake.calls.clear()
    call((1,), 0)
    assert gpu.fake.launches[-1].context == 0xC001
    assert gpu.fake.calls == ["cuCtxGetCurrent", "cuLaunchKernel"]


def test_shared_memory_beyond_48_kib_is_asked_for(gpu):
    call = start(gpu, shared_bytes=100_000)
    call((1,), 0)
    launch = gpu.fake.launches[-1]
    assert gpu.fake.shared_set == {launch.function: (8, 100_000)} and launch.shared == 100_000
    start(gpu, shared_bytes=48 << 10)
    assert len(gpu.fake.shared_set) == 1
    with pytest.raises(OutOfResources, match="shared memory, Required: 300000"):
        start(gpu, shared_bytes=300_000)


def test_too_many_registers_for_the_threads(gpu):
    gpu.fake.function_attributes[0] = 256
    with pytest.raises(OutOfResources, match="registers of 512 threads"):
        start(gpu, threads=512)


@pytest.mark.parametrize(("target", "cubin"), [("sm_80", False), ("sm_90a", True)])
def test_cubins_of_another_generation_are_not_tried(gpu, target, cubin):
    """The PTX runs on later chips; the driver would reject the cubin."""
    gpu.load(artifact(ptx=f".version 8.0\n.target {target}\n"), 0)
    (module,) = gpu.fake.modules.values()
    assert module.cubin is cubin


def test_large_clusters_are_asked_for(gpu):
    gpu.load(artifact(cluster_size=8), 0)
    assert not gpu.fake.shared_set
    gpu.load(artifact(cluster_size=16), 0)
    assert list(gpu.fake.shared_set.values()) == [(14, 1)]


def test_clusters(gpu):
    call = start(gpu, ["int"], cluster_size=2, shared_bytes=8)
    gpu.fake.slots = 1
    assert call((6, 5), 9, 4) is None
    launch = gpu.fake.launches[0]
    assert (launch.cluster, launch.grid, launch.stream) == ((2, 1, 1), (12, 5, 1), 9)
    assert launch.block == (128, 1, 1) and launch.shared == 8 and launch.slots == [4]
    assert call((2**30,), 0, 1) == BAD_GRID
    assert call((2**30 - 1,), 0, 1) is None
    assert gpu.fake.launches[1].grid[0] == 2**31 - 2


def test_kernels_that_wait_themselves_may_begin_early(gpu):
    call = start(gpu, ["int"], programmatic_launch=True, shared_bytes=8)
    gpu.fake.slots = 1
    assert call((6, 5, 2), 9, 4) is None
    (launch,) = gpu.fake.launches
    assert launch.early and launch.cluster == 1
    assert (launch.grid, launch.block, launch.stream) == ((6, 5, 2), (128, 1, 1), 9)
    assert launch.shared == 8 and launch.slots == [4]
    assert call((2**31,), 0, 1) == BAD_GRID


@pytest.mark.parametrize("cluster", [1, 2])
def test_cooperative_launches(gpu, cluster):
    """The driver rejects grids that cannot run all at once; a launch that overlaps another could not run so."""
    call = start(
        gpu, ["int"], cooperative=True, cluster_size=cluster, programmatic_launch=cluster == 1
    )
    gpu.fake.slots = 1
    assert call((6, 5), 9, 4) is None
    (launch,) = gpu.fake.launches
    assert launch.cooperative and not launch.early
    assert launch.cluster == (1 if cluster == 1 else (2, 1, 1))
    assert launch.grid == (6 * cluster, 5, 1) and launch.slots == [4]
    gpu.fake.fail["cuLaunchKernelEx"] = 720
    assert call((60000,), 9, 4) == host.DRIVER_ERROR + 720
    error = gpu.launch_error(720, "kern", artifact(cooperative=True).plan, (60000,))
    assert isinstance(error, LaunchError)
    assert "kern: the programs of grid (60000,) cannot all run at the same time" in str(error)


def test_older_drivers_start_kernels_one_after_the_other(gpu):
    gpu.version = 12020
    call = start(gpu, ["int"], programmatic_launch=True)
    gpu.fake.slots = 1
    assert call((6,), 9, 4) is None
    assert not gpu.fake.launches[0].early


def test_launch_errors_name_the_kernel(gpu):
    call = start(gpu)
    gpu.fake.fail["cuLaunchKernel"] = 1
    code = call((2,), 0)
    assert code == host.DRIVER_ERROR + 1
    error = gpu.launch_error(1, "kern", artifact().plan, (2,))
    assert isinstance(error, LaunchError)
    assert "kern: the driver rejects the launch: CUDA_ERROR_INVALID_VALUE" in str(error)


def test_a_cluster_that_the_chip_cannot_place(gpu):
    """A pass may have chosen its size."""
    plan = replace(artifact().plan, cluster_size=16)
    error = gpu.launch_error(912, "kern", plan, (2,))
    assert isinstance(error, OutOfResources)
    assert "CTAs of a cluster of kern, Required: 16, Hardware limit: 8" in str(error)
    assert 'smaller num_ctas; where it asks for none, with disable="distribute-rows' in str(error)


def test_asynchronous_errors_name_the_kernels_launched_last(gpu):
    call = start(gpu)
    call((1,), 0)
    error = gpu.launch_error(700, "other", artifact().plan, (1,))
    assert isinstance(error, KernelFault) and "ILLEGAL_ADDRESS" in str(error)
    if gpu._native is not None:
        assert gpu.recent_kernels() == ["kern"] and "launched last: kern" in str(error)
    gpu.fake.fail["cuCtxSynchronize"] = 700
    with pytest.raises(KernelFault, match="ILLEGAL_ADDRESS"):
        gpu.synchronize()


def test_the_ring_of_launches_keeps_the_latest(gpu):
    if gpu._native is None:
        pytest.skip("native only")
    first, last = start(gpu), start(gpu)
    for _ in range(20):
        first((1,), 0)
    last((1,), 0)
    assert gpu.recent_kernels() == ["kern"] * host.RING
    assert gpu._state.ring[20 % host.RING] in gpu._records


def fault_site():
    return (AssertSite("too large", "file.py", 3, 4),)


def test_failed_assertions_are_reported_by_the_launch(gpu):
    call = start(gpu, ["int"], asserts=fault_site())
    gpu.fake.slots = 2
    call((4,), 0, 7)
    assert gpu.fake.calls.count("cuStreamSynchronize") == 1
    record = gpu.fake.launches[0].slots[1]
    import ctypes

    words = (ctypes.c_int64 * 3).from_address(record)
    assert list(words) == [0, 0, 0]

    def fails(launch):
        words[:] = [1, 3, 0]

    gpu.fake.on_launch = fails
    assert call((4,), 0, 7) == (3, 0)
    assert words[0] == 0
    gpu.fake.on_launch = None
    assert call((4,), 0, 7) is None


def test_kernels_that_print_are_waited_for(gpu):
    call = start(gpu, prints=True)
    assert call((1,), 3) is None
    assert "cuStreamSynchronize" in gpu.fake.calls
    gpu.fake.fail["cuStreamSynchronize"] = 700
    assert call((1,), 3) == host.DRIVER_ERROR + 700


def test_captures_are_not_waited_for(gpu):
    call = start(gpu, asserts=fault_site())
    gpu.fake.slots, gpu.fake.capturing = 1, True
    gpu.fake.calls.clear()
    call((1,), 5)
    assert "cuStreamSynchronize" not in gpu.fake.calls
    assert not {"cuMemAlloc_v2", "cuMemHostAlloc"} & set(gpu.fake.calls)


def test_a_cubin_that_the_driver_does_not_know_falls_back_to_ptx(gpu):
    gpu.fake.fail["cubin"] = 209
    start(gpu)
    assert [m.cubin for m in gpu.fake.modules.values()] == [False]
    gpu.fake.fail["cuModuleLoadDataEx"] = 222
    with pytest.raises(
        UnsupportedTarget, match=r"CUDA 13\.0.*does not load kernel kern on Fake H200"
    ) as caught:
        start(gpu)
    assert "newer NVIDIA driver" in caught.value.help


def test_loading_happens_on_the_device_and_in_relaxed_capture_mode(gpu):
    start(gpu, device=1)
    (module,) = gpu.fake.modules.values()
    assert module.context == 0xC001 and gpu.fake.stack == [0]
    assert gpu.fake.calls.count("cuThreadExchangeStreamCaptureMode") == 2


def test_devices(gpu):
    device = gpu.device(1)
    assert (device.name, device.capability, device.target.name) == ("Fake H200", (9, 0), "sm_90a")
    assert device.multiprocessors == device.target.cores == 132
    assert gpu.current_device() == 0
    gpu.fake.stack.append(0xC001)
    assert gpu.current_device() == 1
    with pytest.raises(UnsupportedTarget, match="there is no GPU 5"):
        gpu.device(5)


def test_a_driver_that_does_not_start():
    fake = FakeCuda()
    fake.fail["cuInit"] = 100
    with pytest.raises(UnsupportedTarget, match="does not start"):
        cuda.CudaDriver(fake)


def test_without_a_driver(monkeypatch):
    import ctypes

    from tilewright.runtime.drivers import cuda_api

    def missing(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(UnsupportedTarget, match="no NVIDIA driver"):
        cuda_api.load_library()


def matrix(**change):
    """A map over argument 1 of (n, pointer, pitch): width 2 n - 1, height n * pitch."""
    facts = {
        "argument": 1, "element_bytes": 2,
        "global_dims": (Extent(((2, (0,)), (-1, ()))), Extent(((1, (0, 2)),))),
        "global_strides": (Extent(((1, (2,)),)),), "box_dims": (64, 128), "swizzle_bytes": 128,
    }  # fmt: skip
    return TensorMap(**{**facts, **change})


def test_tensor_maps(gpu):
    longest = (Extent(((1 << 31, ()),)), matrix().global_dims[1])
    maps = (
        matrix(),
        matrix(element_bytes=4, box_dims=(8, 16), swizzle_bytes=32, global_dims=longest),
    )
    call = start(gpu, ["int", "address", "skip", "int"], tensor_maps=maps, asserts=fault_site())
    gpu.fake.slots = 6
    assert call((1,), 0, 10, 0x7000, None, 24) is None
    first, second = gpu.fake.maps
    assert first == (1, 2, 0x7000, (19, 240), (48,), (64, 128), (1, 1), 0, 3, 2, 0)
    assert second == (2, 2, 0x7000, (1 << 31, 240), (96,), (8, 16), (1, 1), 0, 1, 2, 0)
    # the driver finds what was encoded, then the fault record
    slots = gpu.fake.launches[0].slots
    assert slots[3:5] == [0xAB00000000000000 | 1, 0xAB00000000000000 | 2] and slots[5] > 1 << 20
    assert gpu.fake.map_addresses_aligned


def test_tensor_maps_are_kept(gpu):
    if gpu._native is None:
        pytest.skip("native only")
    call = start(gpu, ["int", "address", "int"], tensor_maps=(matrix(),))
    gpu.fake.slots = 4
    for _ in range(3):
        call((1,), 0, 10, 0x7000, 24)
    call((1,), 0, 10, 0x123456700, 24)
    call((1,), 0, 10, 0x7000, 24)
    assert len(gpu.fake.maps) == 2
    call((1,), 0, 11, 0x7000, 24)
    call((1,), 0, 11, 0x7000, 32)
    assert len(gpu.fake.maps) == 4
    assert [launch.slots[3] & 0xFF for launch in gpu.fake.launches] == [1, 1, 1, 2, 1, 3, 4]


def test_a_rejected_tensor_map(gpu):
    arguments = [Argument(n, "pointer", "*fp16") for n in ("n", "matrix", "pitch")]
    made = artifact(arguments, tensor_maps=(matrix(),))
    call = gpu.launcher(gpu.load(made, 0), made.plan, ["int", "address", "int"])
    gpu.fake.fail["cuTensorMapEncodeTiled"] = 1
    code = call((1,), 0, 10, 0x7000, 24)
    assert code == host.MAP_ERROR + 1 and not gpu.fake.launches
    error = gpu.launch_error(code - 1000, "kern", made.plan, (1,))
    assert "rejects a tensor map of matrix: CUDA_ERROR_INVALID_VALUE" in str(error)
    del gpu.fake.fail["cuTensorMapEncodeTiled"]
    gpu.fake.slots = 4
    assert call((1,), 0, 10, 0x7000, 24) is None


def batch(rank=3):
    """A map of `rank` dimensions over argument 1 of (n, pointer, pitch), with planes of n * pitch."""
    size, plane = Extent(((1, (0,)),)), Extent(((1, (0, 2)),))
    pitches = (Extent(((1, (2,)),)), plane, Extent(((7, (0, 2)),)), Extent(((1 << 30, ()),)))
    return matrix(global_dims=(size,) * rank, global_strides=pitches[: rank - 1])


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_tensor_maps_of_several_dimensions(gpu, rank):
    call = start(gpu, ["int", "address", "int"], tensor_maps=(batch(rank),))
    gpu.fake.slots = 4
    assert call((1,), 0, 10, 0x7000, 24) is None
    pitches = (48, 480, 3360, 2 << 30)
    assert gpu.fake.maps == [
        (1, rank, 0x7000, (10,) * rank, pitches[: rank - 1], (64, 128, 1, 1, 1)[:rank], (1,) * rank,
         0, 3, 2, 0)
    ]  # fmt: skip


def test_planes_that_are_one(gpu):
    """Of a batch that is one matrix: the kernel asks for plane 0, so that any pitch will do."""
    planes = (Extent(((1, (2,)),)), Extent(((1, (0,)),)))
    extents = (Extent(((8, ()),)),) * 3
    call = start(
        gpu,
        ["int", "address", "int"],
        tensor_maps=(matrix(global_dims=extents, global_strides=planes),),
    )
    gpu.fake.slots = 4
    for n in (0, 64):
        assert call((1,), 0, n, 0x7000, 24) is None
    assert [m[4] for m in gpu.fake.maps] == [(48, 48), (48, 128)]


def test_extents_that_coordinates_do_not_reach(gpu):
    call = start(gpu, ["int", "address", "int"], tensor_maps=(batch(),))
    gpu.fake.slots = 4
    assert call((1,), 0, 1 << 31, 0x7000, 24) is None
    assert call((1,), 0, (1 << 31) + 1, 0x7000, 24) == host.MAP_ERROR + 1
    assert len(gpu.fake.maps) == 1


def test_empty_matrices_have_one_element(gpu):
    call = start(gpu, ["int", "address", "int"], tensor_maps=(matrix(),))
    gpu.fake.slots = 4
    call((1,), 0, 0, 0x7000, 24)
    assert gpu.fake.maps[0][3] == (1, 1)
