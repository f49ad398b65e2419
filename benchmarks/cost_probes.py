"""What `costs.py` runs in processes of their own: `python cost_probes.py PROBE [KERNEL …]`.

Prints one JSON object. Nothing heavy is imported before a probe asks for it.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
for _folder in (HERE.parent / "src", HERE.parent / "examples", HERE):
    sys.path.insert(0, str(_folder))

KERNELS = (
    "add",
    "softmax fused",
    "softmax tiled",
    "softmax online",
    "matmul blocked",
    "matmul grouped",
)


def launches(
    which: str,
) -> tuple[Any, tuple[int, ...], Callable[[], tuple[list[Any], dict[str, Any]]]]:
    """(kernel, grid, arguments) of one seed kernel on small NumPy arrays."""
    import numpy as np

    import seeds_loader

    def zeros(*shape: int, kind: Any = np.float32) -> Any:
        return np.zeros(shape, kind)

    family, _, name = which.partition(" ")
    if family == "add":
        kernel = seeds_loader.load("vector_add", stand_in=True).add_kernel_one_block
        return (
            kernel,
            (4,),
            lambda: ([zeros(4096), zeros(4096), zeros(4096), 4096], {"BLOCK_SIZE": 1024}),
        )
    if family == "softmax":
        program = seeds_loader.load("softmax", stand_in=True)
        x, y = zeros(4, 4096), zeros(4, 4096)
        meta: dict[str, Any] = {"BLOCK_SIZE": 4096, "num_warps": 32}
        if name != "fused":
            meta["CACHE_OPT"] = True
        if name == "tiled":
            meta["BLOCK_SIZE"] = 2**14
        short = {"fused": "fuse", "tiled": "tile", "online": "online"}[name]
        kernel = getattr(program, f"kernel_softmax_{short}")
        return kernel, (4,), lambda: ([x, 4096, y, 4096, 4096], meta)
    n = 256
    if name == "blocked":
        kernel = seeds_loader.load("blocked_matmul").matmul_kernel
        blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32}
        return kernel, (2, 2, 1), lambda: ([*(zeros(n, n) for _ in range(3)), n, n, n], blocks)
    kernel = seeds_loader.load("tutorial_matmul", stand_in=True).matmul_kernel.fn
    blocks = {"BLOCK_SIZE_M": 128, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8,
              "ACTIVATION": ""}  # fmt: skip
    half = [zeros(n, n, kind=np.float16) for _ in range(3)]
    return kernel, (4,), lambda: ([*half, n, n, n, n, 1, n, 1, n, 1], blocks)


def timed(call: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def run(which: str) -> Callable[[], Any]:
    kernel, grid, arguments = launches(which)
    values, meta = arguments()
    return lambda: kernel[grid](*values, **meta)


def compile_only(which: str) -> Callable[[], Any]:
    kernel, grid, arguments = launches(which)
    values, meta = arguments()
    return lambda: kernel.warmup(*values, grid=grid, **meta)


# ---- probes ----------------------------------------------------------------------------------------


def imports() -> dict[str, Any]:
    """Milliseconds of `import tilewright` and what it brings along."""
    before = set(sys.modules)
    start = time.perf_counter()
    import tilewright as tw
    import tilewright.language as tl  # noqa: F401

    _ = tw.jit
    taken = (time.perf_counter() - start) * 1e3
    roots = {name.partition(".")[0] for name in set(sys.modules) - before}
    heavy = sorted(roots & {"torch", "matplotlib", "pandas", "typer", "xdsl", "llvmlite", "numpy"})
    return {"ms": taken, "heavy": heavy}


def compile_warm(which: str) -> dict[str, Any]:
    """Milliseconds of the first compile of a kernel in a process that has compiled other kernels."""
    for other in KERNELS:
        if other.split()[0] != which.split()[0]:
            compile_only(other)()
    compile_only("add" if not which.startswith("add") else "softmax fused")()
    subject = compile_only(which)
    return {"ms": timed(subject)}


def first_results() -> dict[str, Any]:
    """Milliseconds of each kernel's first launch from the disk cache, after llvmlite's import."""
    calls = {which: run(which) for which in KERNELS}
    import llvmlite.binding  # noqa: F401

    times = {which: timed(call) for which, call in calls.items()}
    return {"ms": times, "ir stack": ir_stack(), "from cache": True}


def ir_stack() -> list[str]:
    """Modules of the IR stack that are loaded."""
    prefixes = (
        "xdsl",
        "tilewright.frontend",
        "tilewright.passes",
        "tilewright.dialects",
        "tilewright.ir",
    )
    return sorted(m for m in sys.modules if m.split(".")[0] == "xdsl" or m.startswith(prefixes[1:]))


def process_start() -> dict[str, Any]:
    """The clock when a process that only adds two vectors has its first result."""
    import add_program

    add_program.main()
    return {"now": time.monotonic(), "ir stack": ir_stack()}


def memory(which: str) -> dict[str, Any]:
    """MB by which the peak of resident memory grows while a kernel is compiled, all imported before."""
    import tilewright.backends.cpu.backend
    import tilewright.frontend
    import tilewright.passes.pipeline  # noqa: F401

    subject = compile_only(which)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = _status("VmRSS")
    subject()
    return {"mb": (_status("VmHWM") - before) / 1024}


def parallel(whose: str) -> dict[str, Any]:
    """Rows about parallel launches, with torch in the process or without."""
    import costs
    import protocol

    protocol.set_threads(None)
    torch = protocol.torch_or_none() if whose == "torch" else None
    return {"costs": [dataclasses.asdict(c) for c in costs.parallel_launch(torch)]}


def _status(name: str) -> int:
    """A line of /proc/self/status, in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise KeyError(name)


PROBES: dict[str, Callable[..., dict[str, Any]]] = {
    "imports": imports, "compile": compile_warm, "first-results": first_results,
    "process-start": process_start, "memory": memory, "parallel": parallel,
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]](*sys.argv[2:])))
