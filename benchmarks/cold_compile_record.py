"""Kernels for `cold_compile.py` with the types and constants that packages and Inductor launch them with.

    python benchmarks/cold_compile_record.py OUT.json SOURCES SITE …

Operators of packages in the folders SITE run with tilewright in Triton's place and with sizes of models, but no kernel
is launched: the operators see memory as it is. Inductor compiles the functions of `inductor.py` for the CPU; blocks are
then set to what its heuristics choose for a GPU. Source that is generated is copied to the folder SOURCES.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

CASES: dict[str, tuple[str, ...]] = {
    "fla/chunk_gla": ("chunk_fwd_kernel_h", "chunk_gla_fwd_A_kernel_intra_sub_inter", "chunk_gla_fwd_kernel_o"),
    "fla/chunk_gated_delta_rule": ("chunk_local_cumsum_scalar_kernel", "recompute_w_u_fwd_kernel", "chunk_bwd_kernel_dqkwg"),
    "fla/fused_recurrent_gla": ("fused_recurrent_fwd_kernel",),
    "fla/parallel_attn_d128": ("parallel_attn_fwd_kernel", "parallel_attn_bwd_kernel_dq"),
    "fla/layer_norm_gated": ("layer_norm_gated_fwd_kernel", "layer_norm_gated_bwd_kernel"),
    "fla/rotary": ("rotary_embedding_kernel",),
    "fla/causal_conv1d": ("causal_conv1d_fwd_kernel",),
    "fla/parallel_nsa": ("parallel_nsa_fwd_kernel",),
    "fla/solve_tril": ("solve_tril_16x16_kernel",),
    "liger/rms_norm": ("_rms_norm_forward_kernel", "_rms_norm_backward_kernel"),
    "liger/cross_entropy": ("liger_cross_entropy_kernel",),
    "liger/rope": ("_triton_rope",),
    "liger/swiglu": ("_swiglu_forward_kernel", "_swiglu_backward_kernel"),
    "liger/layer_norm": ("_layer_norm_forward_kernel",),
    "liger/jsd": ("_jsd_kernel",),
    "liger/fused_moe": ("_fused_up_proj_swiglu_kernel", "_moe_router_scatter_kernel"),
    "gems/softmax": ("softmax_kernel_inner", "log_softmax_kernel"),
    "gems/mm": ("mm_kernel_general",),
    "gems/layer_norm": ("layer_norm_persistent_kernel", "weight_bias_backward_kernel"),
    "gems/topk": ("topk_stage1_kernel",),
    "gems/conv2d": ("conv2d_forward_kernel",),
    "gems/reduce_rows_a": ("sum_dim_kernel_inner", "max_kernel"),
    "gems/cat": ("cat_copy_func_kernel_4",),
}  # fmt: skip
"""Operators, and those of their kernels that are compiled."""
SMALL = {"batch": 1, "heads": 4, "length": 256, "rows": 64, "vocabulary": 16384}
"""Sizes that no constant of a kernel depends on much."""
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
HEADER = """import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

@triton.jit
"""
"""What Inductor's files import; its decorators, which need a driver, are left out."""


class Recorded(Exception):
    """A signature is known: nothing is compiled."""


class Recorder:
    """Kernels by name, as JSON."""

    def __init__(self, sources: Path) -> None:
        self.sources, self.kernels = sources, dict[str, Any]()

    def add(self, name: str, kernel: Any, signature: Any, options: dict[str, int]) -> None:
        """Take note of a kernel, once. A kernel whose constants are functions or tuples of arrays is left out."""
        from tilewright.dtypes import constexpr

        types = {n: t for n, t in signature.items() if not isinstance(t.type, constexpr)}
        constants = {n: signature[n].type.value for n in signature if n not in types}
        try:
            found = {
                "file": str(self._file(kernel.fn)),
                "module": kernel.fn.__module__,
                "name": kernel.fn.__qualname__,
                "types": {n: _text(t) for n, t in types.items()},
                "constants": {n: _json(value) for n, value in constants.items()},
                "options": options,
            }
        except TypeError:
            return
        self.kernels.setdefault(name, found)

    def _file(self, function: Any) -> Path:
        """The file that defines a function, or a copy if it is in a temporary folder."""
        path = Path(inspect.getsourcefile(function) or "")
        generated = function.__module__.startswith(
            ("_gen", "torch._inductor.runtime.compile_tasks")
        )
        return self.copy(path.name, path.read_text()) if generated else path

    def copy(self, name: str, text: str) -> Path:
        place = self.sources / f"{hashlib.sha256(text.encode()).hexdigest()[:8]}_{name}"
        place.write_text(text)
        return place


def _text(kind: Any) -> str:
    if isinstance(kind.type, tuple):
        raise TypeError("a tuple")
    return f"{kind.type.short_name}{':16' if kind.divisible else ''}"


def _json(value: Any) -> Any:
    from tilewright.dtypes import dtype

    if isinstance(value, dtype):
        return {"dtype": value.short_name}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a constant of {type(value)}")


def record_packages(recorder: Recorder) -> None:
    """Run the operators of `CASES`."""
    from third_party_speed_preload import preload

    preload()
    from tilewright.integrations import triton

    triton.install()
    import torch
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    from third_party_worker import thinned
    from tilewright.integrations.cuda_on_cpu import cuda_on_cpu

    torch.compile = lambda function=None, **_: function or (lambda function: function)
    thinned(Autotuner, 1, 0)
    launches = _Launches(recorder, JITFunction.run)
    JITFunction.run = lambda kernel, *args, **more: launches.run(kernel, *args, **more)
    JITFunction.__getitem__ = lambda kernel, grid: (
        lambda *args, **more: launches.run(kernel, *args, grid=grid, **more)
    )
    import third_party_speed_case as cases

    cases.names()
    for name, wanted in CASES.items():
        launches.wanted = wanted
        try:
            with cuda_on_cpu():
                _run(cases, name)
        except Exception as error:  # what an operator does with results that nobody computed
            print(f"{name}: {error!r}"[:200], file=sys.stderr)


class _Launches:
    """What replaces launches: the types of the arguments are recorded."""

    def __init__(self, recorder: Recorder, launch_kernel: Any) -> None:
        import tilewright.runtime.launch as launch

        self.recorder, self.launch, self.wanted = recorder, launch_kernel, tuple[str, ...]()
        self.signature: Any = None
        launch.compile_with_hooks = self._stop

    def _stop(self, kernel: Any, signature: Any, *_: Any) -> None:
        self.signature = signature
        raise Recorded

    def run(self, kernel: Any, *args: Any, grid: Any, warmup: bool = False, **more: Any) -> Any:
        if kernel.fn.__name__ in self.wanted:
            try:
                self.launch(kernel, *args, grid=(1,), warmup=True, **more)
            except Recorded:
                options = {n: more[n] for n in OPTIONS if more.get(n) is not None}
                self.recorder.add(kernel.fn.__name__, kernel, self.signature, options)
        return SimpleNamespace(n_regs=32, n_spills=0, metadata=SimpleNamespace(shared=0))


def _run(cases: Any, name: str) -> None:
    """Run an operator forward and backward, or a routine at its small size."""
    import torch

    if name in cases.ROUTINES:
        cases.ROUTINES[name](cases.Maker("cpu", "bf16", 101))
        return
    make = cases.CASES[name]
    maker = cases.Maker("cpu", "bf16", SMALL["length"])
    maker.large = True
    package, module = name.partition("/")[0], cases._module_of(make)
    for sizes in (cases.SIZES.get(package), cases.SIZES.get(module), cases.OWN_SIZES.get(name)):
        vars(maker).update(sizes or {})
    vars(maker).update({n: min(value, getattr(maker, n)) for n, value in SMALL.items()})
    problem = make(maker)
    inputs = [cases._argument(problem, i, value) for i, value in enumerate(problem.inputs)]
    ends = [t for t in cases.flat(problem.operator(*inputs)) if t.requires_grad]
    torch.autograd.backward(ends, [torch.randn_like(t) for t in ends])


def record_inductor(recorder: Recorder) -> None:
    """Compile the functions of `inductor.py`."""
    from tilewright.integrations import inductor

    inductor.install("cpu")
    import torch
    import torch._inductor.config as settings

    import inductor as workloads
    import tilewright.runtime.compiler as compiler

    compile_kernel = compiler.compile_kernel

    def noted(kernel: Any, signature: Any, options: Any, target: Any = "cpu") -> Any:
        name = kernel.fn.__name__
        if name.startswith("triton_") and f"inductor: {name}" not in recorder.kernels:
            source = inspect.getsource(kernel.fn)
            text = HEADER + source[source.index("def ") :]
            recorder.add(f"inductor: {name}", kernel, signature, {})
            _as_on_gpu(recorder.kernels.get(f"inductor: {name}"), recorder.copy(f"{name}.py", text))
        return compile_kernel(kernel, signature, options, target)

    for module in [*sys.modules.values()]:
        if getattr(module, "compile_kernel", None) is compile_kernel:
            module.compile_kernel = noted
    settings.force_disable_caches, settings.compile_threads = True, 1
    for function, run in workloads.workloads(torch).values():
        torch._dynamo.reset()
        with settings.patch(cpu_backend="triton"):
            run(torch.compile(workloads.renamed(function, "recorded")))


def _as_on_gpu(kernel: Any, file: Path) -> None:
    """Give a kernel of Inductor blocks for a GPU, and pointers that are aligned."""
    if kernel is None:
        return
    blocks = {"XBLOCK": 512}
    if "R0_BLOCK" in kernel["constants"]:
        blocks = {"XBLOCK": 1, "R0_BLOCK": 1024, "R1_BLOCK": 1}
    elif "_per_" in kernel["name"]:
        blocks = {"XBLOCK": 1}
    elif "YBLOCK" in kernel["constants"]:
        blocks = {"XBLOCK": 32, "YBLOCK": 32}
    kernel["constants"] |= {n: size for n, size in blocks.items() if n in kernel["constants"]}
    kernel["options"] = {"num_warps": 8 if blocks["XBLOCK"] == 1 else 4}
    kernel["types"] = {
        n: f"{t.partition(':')[0]}:16" if t.startswith("*") else t
        for n, t in kernel["types"].items()
    }
    kernel["file"], kernel["module"] = str(file), ""


def main() -> None:
    out, sources, *sites = sys.argv[1:]
    sys.path += sites
    recorder = Recorder(Path(sources))
    if sites:
        record_packages(recorder)
    else:
        record_inductor(recorder)
    Path(out).write_text(json.dumps(recorder.kernels, indent=1))


if __name__ == "__main__":
    main()
