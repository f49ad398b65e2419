"""Launches of GPU arrays, from `kernel[grid](...)` to the driver call, on a libcuda that records."""

import mmap
import random
import sys
import types

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import DeviceAssertError, KernelFault, LaunchError
from tilewright.runtime import devices


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@tw.jit(debug=True)
def checked(x_ptr, limit, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.device_assert(x < limit, "too large")
    tl.store(x_ptr + offsets, x + 1)


class Tensor:
    """What launches look at of a torch tensor."""

    is_cuda, is_cpu = True, False

    def __init__(self, address, device=0, dtype="torch.float32"):
        self._address, self._device, self.dtype = address, device, Dtype(dtype)
        self.device = types.SimpleNamespace(type="cuda", index=device)

    def data_ptr(self):
        return self._address

    def get_device(self):
        return self._device

    @property
    def __cuda_array_interface__(self):
        return {"data": (self._address, False), "typestr": "<f4", "shape": (64,), "strides": None}


class Dtype:
    made = {}

    def __new__(cls, name):
        return cls.made.setdefault(name, super().__new__(cls))

    def __init__(self, name):
        self.text = name

    def __str__(self):
        return self.text


Tensor.__module__ = "torch"


class Interface:
    """Offers `__cuda_array_interface__` only, as numba does."""

    def __init__(self, address, typestr="<f4", stream=None):
        self.__cuda_array_interface__ = {
            "data": (address, False), "typestr": typestr, "shape": (8,), "version": 3,
            "stream": stream,
        }  # fmt: skip


class Bare:
    """Has an address and a dtype, and nothing else."""

    def __init__(self, address, dtype="torch.float32"):
        self.address, self.dtype = address, Dtype(dtype)

    def data_ptr(self):
        return self.address


@pytest.fixture
def fake(monkeypatch):
    from tests.runtime.fake_cuda import FakeCuda

    from tilewright.runtime.drivers import cuda

    fake = FakeCuda()
    fake.driver = cuda.CudaDriver(fake)
    monkeypatch.setattr(cuda, "_driver", fake.driver)
    streams = {0: 0x50, 1: 0x51}
    torch = types.ModuleType("torch")
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=streams.__getitem__)
    torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)
    torch.version = types.SimpleNamespace(cuda="13.0")
    torch.Tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", torch)
    fake.streams = streams
    for kernel in (add, checked):
        kernel._launcher = kernel._run = kernel._dependencies = None
    fake.slots = 4
    return fake


def test_a_launch_reaches_the_driver(fake):
    x, y, out = Tensor(0x1000000), Tensor(0x1000100), Tensor(0x1000200)
    for _ in range(3):
        compiled = add[(7,)](x, y, out, 1000, BLOCK=512)
    assert compiled.target.name == "sm_90a" and compiled.plan.threads == 128
    assert len(fake.launches) == 3 and len(fake.modules) == 1
    for launch in fake.launches:
        assert launch.slots[:3] == [0x1000000, 0x1000100, 0x1000200]
        assert launch.slots[3] & 0xFFFFFFFF == 1000
        assert (launch.grid, launch.block) == ((7, 1, 1), (128, 1, 1))
        assert launch.stream == 0x50 and launch.context == 0xC000
    assert [case[1] for case in add._launcher._fast] == ["torch"]


def test_launches_go_to_the_device_of_their_arrays_on_its_stream(fake):
    for device in (0, 1, 0, 1):
        arrays = [Tensor(0x1000000 + 256 * i, device) for i in range(3)]
        add[(1,)](*arrays, 1000, BLOCK=256)
        launch = fake.launches[-1]
        assert (launch.stream, launch.context) == (0x50 + device, 0xC000 + device)
    assert len(fake.modules) == 2
    fake.streams[1] = 0x77
    add[(1,)](*arrays, 1000, BLOCK=256)
    assert fake.launches[-1].stream == 0x77


def test_specialisation_is_that_of_the_cpu(fake):
    def launch(*addresses, n=1000):
        return add[(1,)](*map(Tensor, addresses), n, BLOCK=256)

    a = launch(0x1000000, 0x1000100, 0x1000200)
    assert launch(0x1000000, 0x1000100, 0x1000300) is a
    b = launch(0x1000004, 0x1000100, 0x1000200)
    c = launch(0x1000000, 0x1000100, 0x1000200, n=1008)
    fake.slots = 3
    d = launch(0x1000000, 0x1000100, 0x1000200, n=1)
    assert len({a, b, c, d}) == 4
    assert [arg.name for arg in d.plan.arguments] == ["x_ptr", "y_ptr", "out_ptr"]


def test_launches_in_any_order_run_what_their_arguments_ask_for(fake):
    rng = random.Random(3)
    for _ in range(200):
        addresses = [0x1000000 + 256 * i + rng.choice((0, 0, 0, 4)) for i in range(3)]
        arrays = [
            Tensor(address, dtype=rng.choice(("torch.float32",) * 4 + ("torch.int32",)))
            for address in addresses
        ]
        n, block = rng.choice((1000, 1008, 1016, 1, 5, 1 << 33)), rng.choice((256, 256, 512))
        options = rng.choice(({}, {}, {"num_warps": 8}))
        found = add[(1,)](*arrays, n, BLOCK=block, **options)
        assert found is add.warmup(*arrays, n, BLOCK=block, grid=(1,), **options)
        assert fake.launches[-1].slots[:3] == addresses
        assert n == 1 or fake.launches[-1].slots[3] & (1 << 64) - 1 == n
    assert len(fake.launches) == 200


def test_options_change_the_code(fake):
    arrays = [Tensor(0x1000000 + 256 * i) for i in range(3)]
    a = add[(1,)](*arrays, 1000, BLOCK=2048)
    b = add[(1,)](*arrays, 1000, BLOCK=2048, num_warps=8)
    assert add[(1,)](*arrays, 1000, BLOCK=2048, num_warps=8) is b is not a
    assert [launch.block[0] for launch in fake.launches] == [128, 256, 256]
    assert b.metadata.num_warps == 8
    for wrong in ({"num_warps": 3}, {"num_warps": 64}, {"num_ctas": 3}, {"maxnreg": 1000}):
        with pytest.raises(LaunchError, match=next(iter(wrong))):
            add[(1,)](*arrays, 1000, BLOCK=2048, **wrong)


def test_cpu_and_gpu_launches_alternate(fake):
    gpu = [Tensor(0x1000000 + 256 * i) for i in range(3)]
    x = np.arange(512, dtype=np.float32)
    for _ in range(3):
        out = np.zeros_like(x)
        assert add[(2,)](x, x, out, 512, BLOCK=256).target.name == "cpu"
        assert (out == 2 * x).all()
        assert add[(2,)](*gpu, 512, BLOCK=256).target.name == "sm_90a"
    assert len(fake.launches) == 3 and len(add._launcher._fast) == 2


def test_arrays_of_several_places_are_told(fake):
    x, y = Tensor(0x1000000), Tensor(0x1000100)
    with pytest.raises(LaunchError, match=r"'out_ptr' is in host memory \(a ndarray\).*GPU 0"):
        add[(1,)](x, y, np.zeros(8, np.float32), 8, BLOCK=256)
    with pytest.raises(LaunchError, match="'x_ptr' is on GPU 0 and 'y_ptr' on GPU 1"):
        add[(1,)](x, Tensor(0x2000000, 1), y, 8, BLOCK=256)
    add[(1,)](x, y, x, 1000, BLOCK=256)
    with pytest.raises(LaunchError, match="'x_ptr' is on GPU 0 and 'y_ptr' on GPU 1"):
        add[(1,)](x, Tensor(0x1000100, 1), y, 1000, BLOCK=256)
    assert len(fake.launches) == 1


def test_page_locked_tensors_may_be_passed(fake):
    class Host(Tensor):
        is_cuda, is_cpu = False, True

        def get_device(self):
            return -1

        def is_pinned(self):
            return True

    Host.__module__ = "torch"
    x, pinned = Tensor(0x1000000), Host(0x3000000)
    pinned.device = types.SimpleNamespace(type="cpu")
    for _ in range(2):
        add[(1,)](x, pinned, x, 1000, BLOCK=256)
    assert [launch.slots[1] for launch in fake.launches] == [0x3000000] * 2


def test_arrays_with_the_cuda_interface(fake):
    """Device by address; the launch waits for the stream that an array names."""
    arrays = [Interface(0x2000000 + 256 * i) for i in range(3)]
    add[(1,)](*arrays, 1000, BLOCK=256)
    launch = fake.launches[-1]
    assert launch.slots[:3] == [0x2000000, 0x2000100, 0x2000200]
    assert (launch.context, launch.stream) == (0xC001, 0x51)
    assert "cuStreamWaitEvent" not in fake.calls
    add[(1,)](*arrays[:2], Interface(0x2000200, stream=0x99), 1000, BLOCK=256)
    assert "cuStreamWaitEvent" in fake.calls
    with pytest.raises(LaunchError, match="complex64"):
        add[(1,)](*arrays[:2], Interface(0x2000200, "<c8"), 1000, BLOCK=256)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": None}, "has no data"),
        ({"typestr": None}, "has no typestr"),
        ({"mask": object()}, "is a masked array"),
    ],
)
def test_interfaces_that_say_too_little(fake, change, message):
    x = Tensor(0x1000000)
    array = Interface(0x1000100)
    for name, value in change.items():
        if value is None:
            del array.__cuda_array_interface__[name]
        else:
            array.__cuda_array_interface__[name] = value
    with pytest.raises(LaunchError, match=message):
        add[(1,)](x, array, x, 8, BLOCK=256)


def test_tensors_on_a_gpu_without_memory(fake):
    class Sparse(Tensor):
        def data_ptr(self):
            if not self._address:
                raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
            return self._address

    Sparse.__module__ = "torch"
    x = Tensor(0x1000000)
    for _ in range(2):
        with pytest.raises(LaunchError, match=r"no memory of its own.*storage"):
            add[(1,)](x, Sparse(0), x, 8, BLOCK=256)
        add[(1,)](x, Sparse(0x1000000), x, 8, BLOCK=256)  # from now on there is a fast way


def test_compiled_kernels_are_for_one_kind_of_device(fake):
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    here = add.compile(signature, {"BLOCK": 256})
    there = add.compile(signature, {"BLOCK": 256}, target="sm_90a")
    x, host = Tensor(0x1000000), np.zeros(64, np.float32)
    with pytest.raises(LaunchError, match="compiled for cpu, and 'x_ptr' is on GPU 0"):
        here[(1,)](x, x, x, 64)
    with pytest.raises(LaunchError, match="'x_ptr' is in host memory"):
        here[(1,)](host, x, host, 64)
    with pytest.raises(LaunchError, match="compiled for sm_90a, and 'x_ptr' is in host memory"):
        there[(1,)](host, host, host, 64)
    here[(1,)](host, host, host, 64)
    there[(1,)](x, x, x, 64)
    assert len(fake.launches) == 1


def test_cupy_arrays(fake, monkeypatch):
    class Array:
        def __init__(self, address, device=1):
            self.data = types.SimpleNamespace(ptr=address, device_id=device)
            self.dtype = np.dtype("float32")
            self.__cuda_array_interface__ = {"data": (address, False), "typestr": "<f4"}

    Array.__module__ = "cupy"
    cupy = types.ModuleType("cupy")
    stream = types.SimpleNamespace(ptr=0x61)
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    arrays = [Array(0x1000000 + 256 * i) for i in range(3)]
    for _ in range(3):
        add[(1,)](*arrays, 1000, BLOCK=256)
    assert [launch.stream for launch in fake.launches] == [0x61] * 3
    assert fake.launches[-1].slots[:3] == [0x1000000, 0x1000100, 0x1000200]
    assert fake.launches[-1].context == 0xC001
    assert [case[1] for case in add._launcher._fast] == ["cupy"]


def test_dlpack_arrays(fake):
    import ctypes

    class Deleter:
        pass

    class Exporter:
        def __init__(self, address):
            self.tensor = devices._DLTensor(address, 2, 0, 1, 2, 32, 1, None, None, 64)

        def __dlpack_device__(self):
            return 2, 0

        def __dlpack__(self, stream=None):
            new = ctypes.pythonapi.PyCapsule_New
            new.restype, new.argtypes = (
                ctypes.py_object,
                [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
            )
            return new(ctypes.addressof(self.tensor), b"dltensor", None)

    arrays = [Exporter(0x1000000 + 256 * i) for i in range(3)]
    add[(1,)](*arrays, 1000, BLOCK=256)
    assert fake.launches[-1].slots[:3] == [0x1000040, 0x1000140, 0x1000240]


def test_failed_launches(fake):
    x = Tensor(0x1000000)
    add[(1,)](x, x, x, 1000, BLOCK=256)
    with pytest.raises(LaunchError, match="at most 2147483647, 65535, 65535"):
        add[(1, 70000)](x, x, x, 1000, BLOCK=256)
    fake.fail["cuLaunchKernelEx"] = 700
    with pytest.raises(KernelFault, match=r"ILLEGAL_ADDRESS.*launched last: add") as caught:
        add[(1,)](x, x, x, 1000, BLOCK=256)
    assert "context is lost" in str(caught.value)


def test_what_other_libraries_report_is_told_at_the_end(fake, capsys):
    """torch says that a kernel failed, but not which; so the process's last words do."""
    fake.driver.report_at_exit()
    x = Tensor(0x1000000)
    add[(1,)](x, x, x, 1000, BLOCK=256)
    fake.driver.report_at_exit()
    assert not capsys.readouterr().err
    fake.fail["cuStreamQuery"] = 700
    fake.driver.report_at_exit()
    assert "ILLEGAL_ADDRESS: what happened (launched last: add)" in capsys.readouterr().err
    fake.driver.report_at_exit()
    assert not capsys.readouterr().err, "once is enough"


def test_any_call_may_report_a_kernel_that_failed(fake):
    from tilewright.runtime.gpu_timing import GpuTimer

    x = Tensor(0x1000000)
    add[(1,)](x, x, x, 1000, BLOCK=256)
    timer = GpuTimer(fake.driver)
    for name in ("cuMemsetD32Async", "cuEventCreate", "cuMemFree_v2"):
        fake.fail[name] = 700
    for call in (timer.flush, timer.mark):
        with pytest.raises(KernelFault, match="launched last: add"):
            call()
    timer.close()


def test_assertions(fake):
    import ctypes

    x = Tensor(0x1000000)
    fake.slots = 3
    checked[(2,)](x, 1.5, BLOCK=32)
    words = (ctypes.c_int64 * 3).from_address(fake.launches[0].slots[2])
    fake.on_launch = lambda launch: words.__setitem__(slice(None), [1, 1, 0])
    with pytest.raises(DeviceAssertError, match=r"program \(1, 0, 0\): too large"):
        checked[(2,)](x, 1.5, BLOCK=32)


def test_warmup_compiles_for_the_gpu_of_the_arrays(fake):
    arrays = [Tensor(0x1000000 + 256 * i) for i in range(3)]
    compiled = add.warmup(*arrays, 1000, BLOCK=256, grid=(1,))
    assert compiled.target.name == "sm_90a" and not fake.launches


def test_a_compiled_kernel_is_launched_again(fake):
    arrays = [Tensor(0x1000000 + 256 * i) for i in range(3)]
    compiled = add[(1,)](*arrays, 1000, BLOCK=256)
    compiled[(3,)](*arrays, 1000)
    compiled[(3,)](0x1000000, 0x1000000, 0x1000000, 1000)
    assert [launch.grid for launch in fake.launches] == [(1, 1, 1), (3, 1, 1), (3, 1, 1)]
    assert [launch.stream for launch in fake.launches] == [0x50] * 3


def test_reinterpreted_tensors(fake):
    arrays = [tw.reinterpret(Tensor(0x1000000 + 256 * i), tl.int32) for i in range(3)]
    compiled = add[(1,)](*arrays, 1000, BLOCK=256)
    assert [a.type for a in compiled.plan.arguments] == ["*i32"] * 3 + ["i32"]


def test_launches_on_the_cpu_import_nothing_of_cuda():
    import subprocess

    code = f"""
import runpy, sys, numpy as np
add = runpy.run_path({__file__!r}, run_name="kernels")["add"]
x = np.ones(8, np.float32)
add[(1,)](x, x, x, 8, BLOCK=8)
names = ("tilewright.runtime.drivers.cuda", "tilewright.backends.nvidia", "torch", "cupy")
print(x[0], [m for m in sys.modules if m.startswith(names)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "2.0 []", done.stderr


@pytest.mark.parametrize("mode", ["1", "ir"])
def test_kernels_that_run_as_python_take_arrays_of_a_gpu(fake, monkeypatch, mode):
    """The fake's memory is the host's, so that copies from and to "the GPU" can be followed."""
    import ctypes

    monkeypatch.setenv("TILEWRIGHT_INTERPRET", mode)
    memory = np.arange(64, dtype=np.float32)
    memory[32:] = 0

    def move(to, source, size, stream):
        ctypes.memmove(to, source, size)

    class Part(Tensor):
        def __init__(self, start):
            super().__init__(memory.ctypes.data + 4 * start)

        shape = (16,)

        def stride(self):
            return (1,)

        def detach(self):
            return self

        def element_size(self):
            return 4

        def untyped_storage(self):
            return types.SimpleNamespace(
                data_ptr=lambda: memory.ctypes.data, nbytes=lambda: memory.nbytes
            )

    Part.__module__ = "torch"
    monkeypatch.setattr(fake, "_cuMemcpyAsync", move, raising=False)
    add[(2,)](Part(0), Part(16), Part(32), 16, BLOCK=8)
    assert (memory[32:48] == memory[:16] + memory[16:32]).all() and not memory[48:].any()
    assert not fake.launches and fake.calls.count("cuMemcpyAsync") == 2


def test_a_compiled_kernel_takes_all_parameters_too(fake):
    arrays = [Tensor(0x1000000 + 256 * i) for i in range(3)]
    fake.slots = 3
    compiled = add[(1,)](*arrays, 1, BLOCK=256)  # n == 1 is part of the code
    compiled[(3,)](*arrays)
    compiled[(3,)](*arrays, 1)
    compiled[(3,)](*arrays, 1, 256)
    assert [launch.slots[:3] for launch in fake.launches] == [[0x1000000, 0x1000100, 0x1000200]] * 4
    with pytest.raises(LaunchError, match="takes 3 runtime arguments"):
        compiled[(3,)](*arrays[:2])


def test_what_programs_ask_the_driver_about(fake):
    from tilewright.integrations.triton_driver import active

    torch = sys.modules["torch"]
    torch.cuda.is_available, torch.cuda.current_device = lambda: True, lambda: 1
    torch.device = lambda *place: place
    target = active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    properties = active.utils.get_device_properties(1)
    assert properties["multiprocessor_count"] == 132 and properties["warpSize"] == 32
    assert properties["max_shared_mem"] == 227 << 10 and properties["max_num_regs"] == 65536
    assert active.get_active_torch_device() == ("cuda", 1)
    assert active.get_current_stream() == 0x51 and active.get_current_stream(0) == 0x50
    torch.cuda.is_available = lambda: False
    assert active.get_current_target().backend == "cpu"


@tw.jit
def described(a, b, c, k, BK: tl.constexpr):
    total = tl.zeros((64, 64), tl.float32)
    for start in range(0, k, BK):
        total = tl.dot(a.load([0, start]), b.load([start, 0]), total)
    c.store([0, 0], total.to(tl.float16))


def test_descriptors(fake, monkeypatch):
    """Address, extents and strides are arguments of the launch, which encodes tensor maps of them."""
    from tilewright.runtime.descriptors import TensorDescriptor

    described._launcher = described._run = described._dependencies = None

    def descriptors(address=0x1000000, n=64, k=128, device=0):
        shapes = ([64, k], [k, n], [64, n])
        tensors = [Tensor(address + (i << 16), device, "torch.float16") for i in range(3)]
        return [
            TensorDescriptor(x, shape, [shape[1], 1], [64, 64])
            for x, shape in zip(tensors, shapes, strict=True)
        ]

    fake.slots = 16
    compiled = described[(1,)](*descriptors(), 128, BK=64)
    names = [a.name for a in compiled.plan.arguments]
    assert names[:4] == ["a.base", "a.shape.0", "a.shape.1", "a.strides.0"] and len(names) == 13
    assert len(compiled.plan.tensor_maps) == 3 and len(fake.maps) == 3
    fake.slots = 13 + 3
    described[(1,)](*descriptors(), 128, BK=64)
    compiled[(1,)](*descriptors(0x3000000), 128, 64)  # as Triton's: all parameters, by position
    assert fake.maps[-3][2] == 0x3000000 and fake.launches[-1].slots[0] == 0x3000000
    monkeypatch.setattr(TensorDescriptor, "opened", None)  # the slow path
    described[(1,)](*descriptors(0x2000000, 128, 256), 256, BK=64)
    assert fake.maps[-3:] == [
        (1, 2, 0x2000000, (256, 64), (512,), (64, 64), (1, 1), 0, 3, 2, 0),
        (1, 2, 0x2010000, (128, 256), (256,), (64, 64), (1, 1), 0, 3, 2, 0),
        (1, 2, 0x2020000, (128, 64), (256,), (64, 64), (1, 1), 0, 3, 2, 0),
    ]
    slots = [slot & 0xFFFFFFFF for slot in fake.launches[-1].slots[:13]]
    assert slots == [
        0x2000000, 64, 256, 256, 0x2010000, 256, 128, 128, 0x2020000, 64, 128, 128, 256,
    ]  # fmt: skip
    assert len(fake.modules) == 1
    with pytest.raises(TypeError):  # arrays of two devices go the slow path, which says so
        described[(1,)](*descriptors()[:2], *descriptors(device=1)[2:], 128, BK=64)


def test_the_function_for_launches_is_made_while_the_assembler_is_at_work(fake, monkeypatch):
    from tilewright.backends.nvidia import backend, tools

    if tools.find("ptxas") is None:
        pytest.skip("no ptxas")
    found = []
    monkeypatch.setattr(backend, "_tidy_up", lambda: found.append(len(add._launcher._fast)))
    arrays = [Tensor(0x1000000 + 256 * i) for i in range(3)]
    add.warmup(*arrays, 1000, BLOCK=64, grid=(1,))
    add[(1,)](*arrays, 1000, BLOCK=128)
    assert found == [0, 1]


def test_objects_with_an_address_only_go_where_it_lives(fake):
    x, y, out = (Bare(0x2000000 + 256 * i) for i in range(3))
    add[(4,)](x, y, out, 1000, BLOCK=256)
    assert fake.launches[-1].context == 0xC001 and fake.launches[-1].slots[0] == 0x2000000
    with pytest.raises(LaunchError, match="'x_ptr' is on GPU 1 and 'out_ptr' on GPU 0"):
        add[(4,)](x, y, Bare(0x1000000), 1000, BLOCK=256)
    # mapped memory: the heap of a Python that is not position-independent begins at such low addresses
    host, result = np.frombuffer(mmap.mmap(-1, 512), np.float32).reshape(2, 64)
    host[:], count = range(64), len(fake.launches)
    add[(1,)](*(Bare(a.ctypes.data) for a in (host, host, result)), 64, BLOCK=64)
    assert (result == 2 * host).all() and len(fake.launches) == count


@pytest.mark.parametrize(
    "device", [types.SimpleNamespace(type="cuda", index=1), "cuda:1", "cuda", None]
)
def test_wrappers_of_tensors_go_to_their_device(fake, device):
    """Objects with an address and a device, as flag_gems' StridedBuffer, and no protocol of arrays."""
    arrays = [Bare(0x2000000 + 256 * i) for i in range(3)]
    for array in arrays:
        array.device = device
    add[(4,)](*arrays, 1000, BLOCK=256)
    assert fake.launches[-1].context == 0xC001 and fake.launches[-1].slots[0] == 0x2000000
