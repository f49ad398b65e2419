"""LLVM IR to PTX."""

from __future__ import annotations

import threading
from typing import Any

from llvmlite import binding

from tilewright.backends.base import Options, TargetInfo
from tilewright.backends.nvidia.target import TRIPLE
from tilewright.errors import PassError

_lock = threading.Lock()
_machines: dict[str, Any] = {}


def _machine(target: TargetInfo) -> Any:
    key = target.name
    if key not in _machines:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        llvm_target = binding.Target.from_triple(TRIPLE)
        features = ",".join(f"+{f}" for f in target.features)
        _machines[key] = llvm_target.create_target_machine(
            cpu=target.name, features=features, opt=3, codemodel="default"
        )
    return _machines[key]


def to_ptx(text: str, target: TargetInfo, options: Options, threads: int) -> str:
    """Optimise an LLVM module and print it as PTX. Raises PassError where LLVM rejects it."""
    text = _with_bounds(text, options, threads)
    with _lock:  # target machines are not made for two threads at once
        machine = _machine(target)
        try:
            module = binding.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise PassError(f"LLVM rejects the kernel: {error}") from None
        tuning = binding.create_pipeline_tuning_options(speed_level=3)
        tuning.loop_unrolling = False
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        builder = binding.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
        return machine.emit_assembly(module)


def _with_bounds(text: str, options: Options, threads: int) -> str:
    """The kernel's attributes, which llvmlite cannot write: threads, registers, cluster."""
    attributes = {"nvvm.maxntid": str(threads), "nvvm.minctasm": "1"}
    if options.maxnreg is not None:
        attributes["nvvm.maxnreg"] = str(options.maxnreg)
        del attributes["nvvm.minctasm"]
    if options.num_ctas > 1:
        attributes["nvvm.cluster_dim"] = f"{options.num_ctas},1,1"
    listed = " ".join(f'"{k}"="{v}"' for k, v in attributes.items())
    return f"{_attach(text)}\nattributes #0 = {{ nounwind convergent {listed} }}\n"


def _attach(text: str) -> str:
    """Give attribute group 0 to the kernel's definition."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("define ptx_kernel"):
            lines[i] = line + " #0"
            return "\n".join(lines)
    raise PassError("an LLVM module without kernel")
