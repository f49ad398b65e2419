"""The runtime on a real GPU: loading, streams, graphs, devices, errors, arrays of other libraries.

`ptx_add` is a kernel written by hand, so that these tests do not depend on the compiler.
"""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import Argument, Artifact, LaunchPlan, Options
from tilewright.errors import DeviceAssertError, LaunchError, UnsupportedTarget
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.drivers.cuda import driver
from tilewright.testing import do_bench

torch = pytest.importorskip("torch")

ADD = """
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry add(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n, .param .f32 scale)
{
  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<6>;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  ld.param.u32 %r5, [n];
  setp.ge.s32 %p, %r4, %r5;
  @%p bra done;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.u64 %d3, [out]; ld.param.f32 %f4, [scale];
  mul.wide.s32 %d4, %r4, 4;
  add.s64 %d5, %d1, %d4; add.s64 %d6, %d2, %d4; add.s64 %d7, %d3, %d4;
  ld.global.f32 %f1, [%d5]; ld.global.f32 %f2, [%d6];
  fma.rn.f32 %f3, %f2, %f4, %f1;
  mov.u32 %r6, room;
  mad.lo.s32 %r7, %r3, 4, %r6;
  SHARED
  st.global.f32 [%d7], %f3;
done:
  ret;
}
"""
ARGUMENTS = (
    Argument("x", "pointer", "*fp32"), Argument("y", "pointer", "*fp32"),
    Argument("out", "pointer", "*fp32"), Argument("n", "int", "i32"),
    Argument("scale", "float", "fp32"),
)  # fmt: skip


def ptx_add(code=None, shared=0, threads=256):
    """out = x + scale * y. With `shared` bytes the sum takes a detour through the last of them."""
    detour = ""
    if shared:
        at = shared - 4 * threads
        detour = f"st.shared.f32 [%r7+{at}], %f3; ld.shared.f32 %f3, [%r7+{at}];"
    ptx = ADD.replace("SHARED", detour)
    plan = LaunchPlan("add", ARGUMENTS, threads=threads, shared_bytes=shared)
    artifact = Artifact("add", code or ptx.encode() + b"\0", plan, {"ptx": ptx})
    target = driver().device(0).target
    return CompiledKernel(artifact, "by hand", Options(), target, None, False)


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@tw.jit(debug=True)
def checked(x_ptr, out_ptr, limit, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.device_assert(x < limit, "too large")
    tl.store(out_ptr + offsets, x + 1)


@tw.jit
def shout(x_ptr, N: tl.constexpr):
    tl.device_print("value", tl.load(x_ptr + tl.arange(0, N)))


def arrays(n=1000, device="cuda"):
    x, y = (torch.randn(n, device=device) for _ in range(2))
    return x, y, torch.full_like(x, float("nan"))


def run_alone(code):
    """Run Python code in a process of its own; its output. What the code leaves broken ends there."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- loading and launching


def test_ptx_that_the_driver_assembles():
    x, y, out = arrays()
    kernel = ptx_add()
    kernel[(4,)](x, y, out, 1000, 2.0)
    torch.testing.assert_close(out, torch.addcmul(x, y, torch.full_like(y, 2.0)))
    assert kernel.n_regs > 0 and kernel.n_spills == 0
    kernel[(4,)](x.data_ptr(), y.data_ptr(), out.data_ptr(), 1000, -1.0)
    torch.testing.assert_close(out, x - y)


def test_cubins_and_the_way_back_to_ptx():
    from tilewright.backends.nvidia.assemble import assemble

    x, y, out = arrays()
    target = driver().device(0).target
    made = assemble(ADD.replace("SHARED", ""), target)
    if made.cubin is not None:
        ptx_add(made.cubin)[(4,)](x, y, out, 1000, 1.0)
        torch.testing.assert_close(out, x + y)
    out.zero_()
    ptx_add(b"\x7fELF" + bytes(8192))[(4,)](x, y, out, 1000, 1.0)
    torch.testing.assert_close(out, x + y)


@pytest.mark.parametrize("shared", [4096, 48 << 10, 96 << 10])
def test_dynamic_shared_memory(shared):
    x, y, out = arrays()
    ptx_add(shared=shared)[(4,)](x, y, out, 1000, 1.0)
    torch.testing.assert_close(out, x + y)


def test_ptx_that_is_none():
    with pytest.raises(UnsupportedTarget, match=r"does not load kernel add.*"):
        kernel = ptx_add(b".version 8.0\n.target sm_80\nnonsense\0")
        kernel.artifact.asm.clear()
        kernel[(1,)](*arrays(), 1000, 1.0)


def test_launches_of_a_jit_function():
    x, y, out = arrays(100_001)
    for _ in range(3):
        compiled = add[lambda meta: (tw.cdiv(100_001, meta["BLOCK"]),)](
            x, y, out, 100_001, BLOCK=512
        )
    torch.testing.assert_close(out, x + y)
    assert compiled.n_regs > 0 and compiled.target.name == driver().device(0).target.name
    out.zero_()
    add[(7,)](x[1:], y[1:], out[1:], 3000, BLOCK=512, num_warps=8)
    torch.testing.assert_close(out[1:3001], (x + y)[1:3001])
    assert not out[3001:].any()


def test_options():
    x, y, out = arrays()
    for options in ({"num_warps": 1}, {"num_warps": 32}, {"maxnreg": 32}, {"num_stages": 1}):
        out.zero_()
        compiled = add[(2,)](x, y, out, 1000, BLOCK=512, **options)
        torch.testing.assert_close(out, x + y)
        warps = min(options.get("num_warps", 4), 4)  # more would have less than 4 elements a thread
        assert compiled.plan.threads == 32 * warps
        assert compiled.n_regs <= options.get("maxnreg", 255)
    if driver().device(0).capability >= (9, 0):
        out.zero_()
        add[(2,)](x, y, out, 1000, BLOCK=512, num_ctas=2)
        torch.testing.assert_close(out, x + y)


def test_grids():
    out = torch.zeros(3 * 5 * 7, dtype=torch.int32, device="cuda")

    @tw.jit
    def mark(out_ptr):
        x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
        tl.store(out_ptr + (x * 5 + y) * 7 + z, x * 100 + y * 10 + z)

    mark[(3, 5, 7)](out)
    wanted = [100 * x + 10 * y + z for x in range(3) for y in range(5) for z in range(7)]
    assert out.tolist() == wanted
    out.zero_()
    mark[(0, 5)](out)
    assert not out.any()
    with pytest.raises(LaunchError, match="65535"):
        mark[(1, 65536)](out)


# ---- streams, graphs, threads


def test_the_current_stream_of_torch():
    """The launch waits for what its stream holds, and for nothing else."""
    x, y, out = arrays()
    kernel = ptx_add()
    kernel[(4,)](x, y, out, 1000, 1.0)
    add[(2,)](x, y, out, 1000, BLOCK=512)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    for launch in (
        lambda: kernel[(4,)](x, y, out, 1000, 1.0),
        lambda: add[(2,)](x, y, out, 1000, BLOCK=512),
    ):
        torch.cuda._sleep(400_000_000)
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            x.fill_(3.0)
            y.fill_(4.0)
            launch()
            x.fill_(0.0)
        side.synchronize()
        busy = not torch.cuda.default_stream().query()
        torch.cuda.synchronize()
        assert busy and (out == 7.0).all()
        out.zero_()


def test_a_graph_captures_launches():
    x, y, out = arrays()
    add[(2,)](x, y, out, 1000, BLOCK=512)
    kernel = ptx_add()
    kernel[(4,)](x, y, out, 1000, 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        add[(2,)](x, y, out, 1000, BLOCK=512)
        kernel[(4,)](out, y, out, 1000, 1.0)
    for value in (1.0, 2.0):
        x.fill_(value)
        y.fill_(10.0)
        out.zero_()
        graph.replay()
        assert (out == value + 20).all()


def test_a_kernel_is_loaded_while_a_graph_is_captured():
    x, y, out = arrays()
    kernel = ptx_add()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel[(4,)](x, y, out, 1000, 1.0)
    graph.replay()
    torch.testing.assert_close(out, x + y)


def test_threads_without_a_context_launch():
    x, y, out = arrays(64 * 1000)
    kernel, failures = ptx_add(), []

    def launch(i):
        try:
            part = slice(1000 * i, 1000 * (i + 1))
            for _ in range(50):
                kernel[(4,)](x[part], y[part], out[part], 1000, 1.0)
                add[(2,)](x[part], y[part], out[part], 1000, BLOCK=512)
            torch.cuda.synchronize()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=launch, args=(i,)) for i in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    torch.testing.assert_close(out, x + y)


# ---- arrays


def test_arrays_of_the_cpu_and_of_the_gpu_do_not_mix():
    x, y, out = arrays()
    with pytest.raises(LaunchError, match="'y_ptr' is in host memory"):
        add[(2,)](x, y.cpu(), out, 1000, BLOCK=512)
    with pytest.raises(LaunchError, match="'out_ptr' is in host memory"):
        add[(2,)](x, y, np.zeros(1000, np.float32), 1000, BLOCK=512)
    host = [t.cpu() for t in (x, y, out)]
    add[(2,)](*host, 1000, BLOCK=512)
    torch.testing.assert_close(host[2], host[0] + host[1])
    add[(2,)](x, y, out, 1000, BLOCK=512)
    torch.testing.assert_close(out.cpu(), host[2])


def test_page_locked_memory():
    x, y, out = arrays()
    pinned = y.cpu().pin_memory()
    add[(2,)](x, pinned, out, 1000, BLOCK=512)
    torch.testing.assert_close(out, x + y)


class Interface:
    def __init__(self, tensor):
        self.tensor, self.__cuda_array_interface__ = tensor, tensor.__cuda_array_interface__


class Dlpack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)


@pytest.mark.parametrize("wrap", [Interface, Dlpack])
def test_arrays_by_protocol(wrap):
    x, y, out = arrays()
    add[(2,)](wrap(x), wrap(y), wrap(out), 1000, BLOCK=512)
    torch.testing.assert_close(out, x + y)
    out.zero_()
    add[(2,)](x, wrap(y), out, 1000, BLOCK=512)
    torch.testing.assert_close(out, x + y)


def test_cupy():
    cupy = pytest.importorskip("cupy")
    x, y = (cupy.random.random(1000, dtype=cupy.float32) for _ in range(2))
    out = cupy.zeros_like(x)
    for _ in range(2):
        add[(2,)](x, y, out, 1000, BLOCK=512)
    cupy.testing.assert_allclose(out, x + y)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x.fill(1)
        y.fill(2)
        add[(2,)](x, y, out, 1000, BLOCK=512)
        stream.synchronize()
    assert (out == 3).all()


def test_reinterpreted_tensors_and_empty_ones():
    x = torch.arange(1000, device="cuda", dtype=torch.int32)
    out = torch.zeros_like(x)
    add[(2,)](*(tw.reinterpret(t, tl.uint32) for t in (x, x, out)), 1000, BLOCK=512)
    assert (out == 2 * x).all()
    none = torch.zeros(0, device="cuda")
    add[(1,)](none, none, none, 0, BLOCK=512)
    torch.cuda.synchronize()


# ---- errors


def test_a_kernel_that_fails_is_named():
    out = run_alone(
        f"""
        import runpy, torch
        add = runpy.run_path({__file__!r}, run_name="kernels")["add"]
        from tilewright.errors import KernelFault
        x = torch.zeros(1000, device="cuda")
        bad = torch.zeros(0, device="cuda")
        add[(2,)](x, x, x, 1000, BLOCK=512)
        compiled = add[(2,)](x, x, x, 1000, BLOCK=512)
        compiled[(2,)](x, x, 0xdead0000, 1000)
        try:
            for _ in range(100000):
                add[(2,)](x, x, x, 1000, BLOCK=512)
        except KernelFault as error:
            print(error)
        """
    )
    assert "ILLEGAL_ADDRESS" in out and "launched last: add" in out


def test_assertions():
    x = torch.zeros(4 * 64, device="cuda")
    out = torch.zeros_like(x)
    checked[(4,)](x, out, 1.0, BLOCK=64)
    assert (out == 1).all()
    x[2 * 64 + 5] = 2
    with pytest.raises(DeviceAssertError, match=r"program \(2, 0, 0\): too large") as caught:
        checked[(4,)](x, out, 1.0, BLOCK=64)
    assert f"{__file__}:{checked.first_line + 3}" in str(caught.value)
    checked[(4,)](x, out, 3.0, BLOCK=64)


def test_prints_come_in_order():
    out = run_alone(
        f"""
        import runpy, torch
        shout = runpy.run_path({__file__!r}, run_name="kernels")["shout"]
        x = torch.arange(4, device="cuda", dtype=torch.int32)
        print("before")
        shout[(2,)](x, N=4)
        print("after", flush=True)
        """
    )
    lines = out.splitlines()
    assert lines[0] == "before" and lines[-1] == "after"
    assert len(lines) == 10 and sum("value" in line for line in lines) == 8


def test_wrong_launches():
    x, y, out = arrays()
    too_many = ptx_add(threads=2048)
    with pytest.raises(Exception, match=r"registers|rejects the launch"):
        too_many[(1,)](x, y, out, 1000, 1.0)
    ptx_add()[(4,)](x, y, out, 1000, 1.0)
    torch.testing.assert_close(out, x + y)


def test_a_forked_child_is_told():
    out = run_alone(
        f"""
        import os, runpy, sys, torch
        add = runpy.run_path({__file__!r}, run_name="kernels")["add"]
        x = torch.zeros(1000, device="cuda")
        add[(2,)](x, x, x, 1000, BLOCK=512)
        if os.fork() == 0:
            try:
                add[(2,)](x, x, x, 1000, BLOCK=512)
            except Exception as error:
                print(type(error).__name__, error, flush=True)
            os._exit(0)
        os.wait()
        """
    )
    assert "spawn" in out or "fork" in out


# ---- timing and tuning


def test_do_bench_times_the_gpu():
    """A copy of 256 MiB: between half and four times what torch's events say."""
    source = torch.empty(64 << 20, device="cuda")
    target = torch.empty_like(source)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    target.copy_(source)
    start.record()
    for _ in range(10):
        target.copy_(source)
    end.record()
    end.synchronize()
    wanted = start.elapsed_time(end) / 10
    found = do_bench(lambda: target.copy_(source), warmup=10, rep=50, return_mode="median")
    assert 0.5 * wanted < found < 2 * wanted


def test_do_bench_does_not_count_the_launch():
    x, y, out = arrays(1000)
    small = do_bench(lambda: add[(2,)](x, y, out, 1000, BLOCK=512), return_mode="median")
    assert 0.0005 < small < 0.02


def test_do_bench_of_work_on_the_cpu():
    import time

    # how much longer it takes depends on what else the machine does
    assert do_bench(lambda: time.sleep(0.002), warmup=5, rep=30) > 1.9
    a = np.ones((300, 300), np.float32)
    assert do_bench(lambda: a @ a, warmup=5, rep=30) > 0.01


def test_autotune(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))

    @tw.autotune([tw.Config({"BLOCK": b}, num_warps=w) for b in (64, 1024) for w in (1, 8)], ["n"])
    @tw.jit
    def increment(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(x_ptr + offsets, x + 1, mask=offsets < n)

    n = 1 << 20
    x = torch.zeros(n, device="cuda")
    increment[lambda meta: (tw.cdiv(n, meta["BLOCK"]),)](x, n)
    assert (x == 1).all(), "tuning runs on the caller's array and must put it back"
    assert len(increment.configs_timings) == 4
    assert all(0 < times[0] < 10 for times in increment.configs_timings.values())
    assert list((tmp_path / "tuning").glob("*.json"))
