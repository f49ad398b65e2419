"""What a launch on a GPU costs the CPU: `python benchmarks/gpu_launch.py`.

Rows: `kernel[grid](...)` with five run-time arguments, and of a matmul whose two operands are tensor
maps, cached and new in every launch, of pointers and of descriptors. Beside each, in the same run and interleaved: the bare driver
call through ctypes with everything packed beforehand, Triton on the same source, torch.add(out=).
The target of each row is the bare call + 1.5 µs. Then the time from nothing to a loaded kernel.

Kernels are tiny and launched a few hundred at a time, so that the driver's queue never fills.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from tilewright.runtime.drivers.cuda import driver

LAUNCHES, ROUNDS = 300, 41
ALLOWED_US = 1.5

SOURCE = """
@jit
def axpy(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * alpha + y, mask=mask)

@jit
def softmax(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + columns, e / tl.sum(e, 0), mask=columns < n)

@jit
def matmul(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    om = (pm * BM + tl.arange(0, BM)) % M
    on = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    ap = a + (om[:, None] * sam + ok[None, :])
    bp = b + (ok[:, None] * sbk + on[None, :])
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=ok[None, :] < K - k * BK, other=0.0)
        y = tl.load(bp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK
        bp += BK * sbk
    cm = pm * BM + tl.arange(0, BM)
    cn = pn * BN + tl.arange(0, BN)
    mask = (cm[:, None] < M) & (cn[None, :] < N)
    tl.store(c + scm * cm[:, None] + cn[None, :], acc.to(tl.float16), mask=mask)

@jit
def described(a, b, c, K, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    cm = row + tl.arange(0, BM)
    cn = column + tl.arange(0, BN)
    tl.store(c + 2 * (scm * cm[:, None] + cn[None, :]), acc.to(tl.float16))
"""


def kernels(package: str) -> Any:
    """The kernels above as `package` ("tilewright", "triton") compiles them."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-launch-"))
    file = folder / f"kernels_of_{package}.py"
    file.write_text(f"import {package}.language as tl\nfrom {package} import jit\n{SOURCE}")
    sys.path.insert(0, str(folder))
    return __import__(file.stem)


def prepacked(compiled: Any, grid: tuple[int, ...], values: list[Any]) -> Callable[[], object]:
    """The bare call of a compiled kernel: ctypes with its eleven arguments made beforehand."""
    native, plan = driver(), compiled.plan
    function = compiled._load(0).address
    slots: list[Any] = []
    for argument, value in zip(plan.arguments, values, strict=True):
        number = value.data_ptr() if argument.kind == "pointer" else value
        kind = ctypes.c_float if argument.kind == "float" else ctypes.c_int64
        slots.append(kind(number))
    for tensor_map in plan.tensor_maps:
        slots.append(_encoded(native, tensor_map, [s.value for s in slots]))
    params = (ctypes.c_void_p * len(slots))(*[ctypes.addressof(slot) for slot in slots])
    call = native.api.function("cuLaunchKernel")
    x, y, z = (*grid, 1, 1)[:3]
    stream = torch.cuda.current_stream().cuda_stream
    threads, shared = plan.threads, plan.shared_bytes
    packed = ctypes.addressof(params)

    def launch(keep: Any = (slots, params)) -> None:
        call(function, x, y, z, threads, 1, 1, shared, stream, packed, None)

    return launch


def _encoded(native: Any, tensor_map: Any, values: list[Any]) -> Any:
    """A tensor map in memory aligned to 64 bytes."""
    from tilewright.runtime.drivers import cuda_portable

    memory = ctypes.create_string_buffer(128 + 64)
    address = (ctypes.addressof(memory) + 63) & ~63
    if cuda_portable._encode(native.api, tensor_map, values, address):
        raise RuntimeError("the driver rejects a tensor map")
    found = (ctypes.c_char * 128).from_address(address)
    found.memory = memory
    return found


def microseconds(contestants: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median over rounds of the CPU time of one launch, contestants in turn."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for call in contestants.values():
        for _ in range(20):
            call()
    for turn in range(ROUNDS):
        for name in list(contestants)[:: 1 if turn % 2 == 0 else -1]:
            call = contestants[name]
            torch.cuda.synchronize()
            start = time.perf_counter_ns()
            for _ in range(LAUNCHES):
                call()
            times[name].append((time.perf_counter_ns() - start) / LAUNCHES / 1e3)
    torch.cuda.synchronize()
    return {name: statistics.median(values) for name, values in times.items()}


def report(title: str, found: dict[str, float], bare: str) -> None:
    """Print a row; the verdict is about ours against the bare call."""
    print(f"\n{title}")
    limit = found[bare] + ALLOWED_US
    for name, value in found.items():
        verdict = ""
        if name.startswith("tilewright"):
            verdict = f"   {'holds' if value <= limit else 'MISSES'} (at most {limit:.2f})"
        print(f"  {name:42s} {value:7.2f} us{verdict}")


def five_arguments(ours: Any, peer: Any) -> None:
    x, y, out = (torch.rand(1000, device="cuda") for _ in range(3))
    grid, compiled = (1,), ours.axpy[(1,)](x, y, out, 1000, 2.0, BLOCK=1024)
    call = ours.axpy[grid]
    rows: dict[str, Callable[[], object]] = {
        "tilewright kernel[grid](...)": lambda: ours.axpy[grid](x, y, out, 1000, 2.0, BLOCK=1024),
        "tilewright, bound grid": lambda: call(x, y, out, 1000, 2.0, BLOCK=1024),
        "tilewright, with num_warps=4": lambda: ours.axpy[grid](
            x, y, out, 1000, 2.0, BLOCK=1024, num_warps=4
        ),
        "bare prepacked driver call": prepacked(compiled, grid, [x, y, out, 1000, 2.0]),
        "torch.add(x, y, out=out)": lambda: torch.add(x, y, out=out),
    }
    if peer is not None:
        peer.axpy[grid](x, y, out, 1000, 2.0, BLOCK=1024)
        rows["Triton kernel[grid](...)"] = lambda: peer.axpy[grid](x, y, out, 1000, 2.0, BLOCK=1024)
    report("five arguments", microseconds(rows), "bare prepacked driver call")


def tensor_maps(ours: Any, peer: Any) -> None:
    n, block = 128, {"BM": 128, "BN": 128, "BK": 64, "num_warps": 8}
    sets = [[torch.rand(n, n, device="cuda").half() for _ in range(3)] for _ in range(64)]
    sizes, grid = (n, n, n, n, n, n), (1, 1)
    compiled = ours.matmul[grid](*sets[0], *sizes, **block)
    torch.testing.assert_close(sets[0][2], sets[0][0] @ sets[0][1], rtol=1e-2, atol=1e-2)
    count = len(compiled.plan.tensor_maps)
    a, b, c = sets[0]
    turn = 0

    def new() -> None:
        nonlocal turn
        turn = (turn + 1) & 63
        x, y, z = sets[turn]
        ours.matmul[grid](x, y, z, *sizes, **block)

    def turning(call: Callable[[], object]) -> Callable[[], object]:
        def launch() -> None:
            nonlocal turn
            turn = (turn + 1) & 63
            _x, _y, _z = sets[turn]
            call()

        return launch

    bare = prepacked(compiled, grid, [a, b, c, *sizes])
    rows: dict[str, Callable[[], object]] = {
        "tilewright, the same matrices": lambda: ours.matmul[grid](a, b, c, *sizes, **block),
        "bare prepacked driver call": bare,
    }
    fresh: dict[str, Callable[[], object]] = {
        "tilewright, other matrices every time": new,
        "bare prepacked driver call": turning(bare),
    }
    if peer is not None:
        rows["Triton (pointers)"] = lambda: peer.matmul[grid](a, b, c, *sizes, **block)
        peer.matmul[grid](a, b, c, *sizes, **block)
    report(
        f"nine arguments and {count} tensor maps", microseconds(rows), "bare prepacked driver call"
    )
    report(f"... {count} new tensor maps", microseconds(fresh), "bare prepacked driver call")


def descriptors(ours: Any, peer: Any) -> None:
    """Two tensor descriptors from the host, the same ones and others every time."""
    from tilewright.runtime.descriptors import TensorDescriptor

    n, grid = 128, (1, 1)
    options = {"BM": 128, "BN": 128, "BK": 64, "num_warps": 8}

    def sets(kind: Any) -> list[tuple[Any, Any]]:
        made = [[torch.rand(n, n, device="cuda").half() for _ in range(2)] for _ in range(64)]
        return [(kind.from_tensor(a, [128, 64]), kind.from_tensor(b, [64, 128])) for a, b in made]

    out = torch.zeros(2 * n, 2 * n, device="cuda").half()  # every other element is written

    def rows_of(name: str, kernel: Any, kind: Any) -> dict[str, Callable[[], object]]:
        pairs, turn = sets(kind), [0]
        kernel[grid](*pairs[0], out, n, n, **options)

        def other() -> None:
            turn[0] = (turn[0] + 1) & 63
            kernel[grid](*pairs[turn[0]], out, n, n, **options)

        return {
            f"{name}, the same descriptors": lambda: kernel[grid](*pairs[0], out, n, n, **options),
            f"{name}, others every time": other,
        }

    rows = rows_of("tilewright", ours.described, TensorDescriptor)
    x, y = sets(TensorDescriptor)[0]
    compiled = ours.described[grid](x, y, out, n, n, **options)
    expected = x.base.double() @ y.base.double()
    torch.testing.assert_close(
        out.flatten()[: 2 * n * n : 2].view(n, n).double(), expected, rtol=1e-2, atol=1e-2
    )
    parts = [part for d in (x, y) for part in (d.base, *d.shape, *d.strides[:1])]
    values = [*parts, out, n, n]
    rows["bare prepacked driver call"] = prepacked(compiled, grid, values)
    if peer is not None:
        from triton.tools.tensor_descriptor import TensorDescriptor as Theirs

        rows |= rows_of("Triton", peer.described, Theirs)
    count = len(compiled.plan.tensor_maps)
    report(
        f"two descriptors, {count} tensor maps", microseconds(rows), "bare prepacked driver call"
    )


COLD = """
import sys, time
sys.path[:0] = {paths!r}
import torch
torch.zeros(1, device="cuda")
import kernels_of_{package} as k
n = 256
x, y, out = (torch.rand(n, n, device="cuda").half() for _ in range(3))
f = [torch.rand(1024, device="cuda") for _ in range(3)]
calls = {{
    "warm-up": lambda: k.axpy[(1,)](*f, 1024, 3.0, BLOCK=256),
    "add": lambda: k.axpy[(1,)](*f, 1024, 2.0, BLOCK=1024),
    "softmax": lambda: k.softmax[(4,)](f[0], f[1], 256, 256, BLOCK=256),
    "matmul": lambda: k.matmul[(2, 2)](x, y, out, n, n, n, n, n, n, BM=128, BN=128, BK=64, num_warps=8),
}}
for name, call in calls.items():
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    print(name, time.perf_counter() - start)
"""


def cold(package: str, folder: str) -> dict[str, float]:
    """Milliseconds from a first launch to its end, empty caches; the first kernel pays the imports."""
    paths = [folder, str(Path(__file__).resolve().parents[1] / "src")]
    with tempfile.TemporaryDirectory() as cache:
        names = ("TILEWRIGHT_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH")
        environment = {**os.environ, **dict.fromkeys(names, cache)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
        done = subprocess.run(
            [sys.executable, "-c", COLD.format(paths=paths, package=package)],
            capture_output=True, text=True, env=environment,
        )  # fmt: skip
    if done.returncode:
        print(done.stderr)
        return {}
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: 1e3 * float(seconds) for name, seconds in lines}


def cold_compiles(modules: dict[str, Any]) -> None:
    print("\nfrom nothing to a kernel that ran, empty caches (ms, best of 3 processes)")
    found = {
        name: [cold(name, str(Path(module.__file__).parent)) for _ in range(3)]
        for name, module in modules.items()
    }
    for work in ("warm-up", "add", "softmax", "matmul"):
        best = {n: min(run[work] for run in runs if work in run) for n, runs in found.items()}
        ratio = ""
        if len(best) == 2:
            share = best["tilewright"] / best["triton"]
            ratio = f"   {share:.2f} of Triton's ({'holds' if share <= 0.5 else 'MISSES'}: 0.5)"
        print(f"  {work:10s}" + "".join(f" {n} {t:8.1f}" for n, t in best.items()) + ratio)


def main() -> None:
    print(f"{torch.cuda.get_device_name()}, driver {driver().version}, torch {torch.__version__}")
    ours, peer = kernels("tilewright"), None
    modules = {"tilewright": ours}
    try:
        import triton

        print(f"triton {triton.__version__}")
        peer = modules["triton"] = kernels("triton")
    except ImportError:
        print("triton is not installed")
    five_arguments(ours, peer)
    tensor_maps(ours, peer)
    descriptors(ours, peer)
    cold_compiles(modules)


if __name__ == "__main__":
    main()
