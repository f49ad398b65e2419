"""The process of one compiler of `cold_compile.py`: compiles kernels one after another, a line of JSON for each.

    python benchmarks/cold_compile_worker.py triton|tilewright KERNELS.json SITE …

Before the first kernel small ones are compiled, so that nothing is imported or initialized later. A line has the CPU
seconds of this process and of the assemblers that it started, the lines of PTX, and what went wrong.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

CAPABILITY = 90
DEVICE = SimpleNamespace(
    multi_processor_count=132, major=9, minor=0, name="H100", total_memory=80 << 30,
    warp_size=32, shared_memory_per_block_optin=232448,
)  # fmt: skip
WARM_UP = (("add", {"BLOCK": 1024}), ("softmax", {"BLOCK": 1024}), ("matmul", {"BLOCK": 64}))


class Driver:
    """What Triton and packages ask a driver for, without a GPU."""

    utils = SimpleNamespace(
        get_device_properties=lambda _: {
            "multiprocessor_count": 132, "max_shared_mem": 232448, "max_num_regs": 65536, "warpSize": 32,
        }
    )  # fmt: skip

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", CAPABILITY, 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def prepare(compiler: str) -> None:
    """Put a compiler under the name `triton`; import what kernels' modules import."""
    os.environ["GEMS_VENDOR"] = "nvidia"
    if compiler == "tilewright":
        from tilewright.integrations import inductor, triton

        os.environ["TILEWRIGHT_ALWAYS_COMPILE"] = "1"
        inductor.install("cpu")
        triton.install()
    import torch

    torch.cuda.get_device_properties = lambda *_: DEVICE
    torch.compile = lambda function=None, **_: function or (lambda function: function)
    from third_party_speed_preload import preload

    with contextlib.suppress(ImportError):
        preload()
    if compiler == "triton":
        from triton.runtime import driver

        os.environ["TRITON_ALWAYS_COMPILE"] = "1"
        driver.set_active(Driver())


def loaded(kernel: dict[str, Any]) -> Any:
    """A kernel's function, below decorators."""
    from triton.runtime.jit import JITFunction

    path = Path(kernel["file"])
    if kernel["module"] and not kernel["module"].startswith("_gen"):
        found = importlib.import_module(kernel["module"])
    else:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise FileNotFoundError(path)
        found = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = found
        spec.loader.exec_module(found)
    for part in kernel["name"].split("."):
        found = getattr(found, part)
    while not isinstance(found, JITFunction):
        found = found.fn
    return found


def constant(value: Any, compiler: str) -> Any:
    if not isinstance(value, dict):
        return value
    if compiler == "triton":
        import triton.language as tl

        return tl.dtype(value["dtype"])
    from tilewright import dtypes

    return dtypes.from_short_name(value["dtype"])


def compiled(compiler: str, function: Any, kernel: dict[str, Any]) -> int:
    """Compile a kernel; gives the lines of its PTX."""
    constants = {n: constant(value, compiler) for n, value in kernel["constants"].items()}
    types, options = kernel["types"], kernel["options"]
    if compiler == "tilewright":
        found = function.compile(types, constants, target=f"sm_{CAPABILITY}a", **options)
        return found.asm["ptx"].count("\n")
    import triton
    from triton.compiler import ASTSource

    texts, attributes = dict[str, str](), dict[tuple[int], Any]()
    for i, name in enumerate(function.arg_names):
        texts[name] = types.get(name, "constexpr").partition(":")[0]
        if types.get(name, "").endswith(":16"):
            attributes[(i,)] = [["tt.divisibility", 16]]
        elif name not in types:
            constants.setdefault(name, function.signature.parameters[name].default)
    source = ASTSource(function, texts, constants, attributes)
    target = Driver().get_current_target()
    return triton.compile(source, target=target, options=options).asm["ptx"].count("\n")


def cpu_seconds() -> tuple[float, float]:
    """Of this process, and of its children that have ended."""
    _wait_for_assemblers()
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, children = (usage.ru_utime + usage.ru_stime for usage in usages)
    return own, children


def _wait_for_assemblers() -> None:
    """tilewright reads the result of an assembler that is still giving its memory back."""
    module = sys.modules.get("tilewright.backends.nvidia.assemble")
    for process in getattr(module, "_ending", ()):
        process.wait()


def measured(compiler: str, kernel: dict[str, Any]) -> dict[str, Any]:
    function = loaded(kernel)
    start = cpu_seconds()
    try:
        lines = compiled(compiler, function, kernel)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    own, children = (after - before for after, before in zip(cpu_seconds(), start, strict=True))
    return {"own": own, "ptxas": children, "lines": lines}


def main() -> None:
    compiler, file, *sites = sys.argv[1:]
    sys.path += sites
    with tempfile.TemporaryDirectory() as folder:
        for name in ("TRITON_CACHE_DIR", "TILEWRIGHT_CACHE_DIR"):
            os.environ[name] = folder
        prepare(compiler)
        types = {"x": "*fp16:16", "y": "*fp16:16", "n": "i32"}
        first = {"file": str(Path(__file__).with_name("cold_compile_first.py")), "module": ""}
        for name, constants in WARM_UP:
            more = {"name": name, "types": types, "constants": constants, "options": {}}
            measured(compiler, {**first, **more})
        for name, kernel in json.loads(Path(file).read_text()).items():
            try:
                row = measured(compiler, kernel)
            except Exception as error:
                row = {"error": f"not loaded: {error!r}"[:300]}
            print(json.dumps({"kernel": name, **row}), flush=True)


if __name__ == "__main__":
    main()
