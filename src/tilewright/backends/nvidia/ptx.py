"""LLVM IR to PTX."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llvmlite import binding

from tilewright import config
from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.llvm_passes import (
    leave_out_strength_reduction,
    optimize,
    passes_of_functions_suffice,
    with_ranges,
)
from tilewright.errors import PassError
from tilewright.targets import TargetInfo

_lock = threading.Lock()
_MAP = re.compile(r'ptr (%"?tensor_map_\d+"?)')
"""A parameter that is a tensor map: llvmlite cannot write that it is passed by value."""
_BY_VALUE = r'ptr byval([128 x i8]) align 64 "nvvm.grid_constant" \1'
_FLUSH_SUBNORMALS = '!llvm.module.flags = !{!0}\n!0 = !{i32 4, !"nvvm-reflect-ftz", i32 1}\n'
"""What libdevice's `__nvvm_reflect("__CUDA_FTZ")` reads."""
_MANY_LINES = 50_000
_joins = True
"""What `_join_accesses` was last asked for."""
_machines: dict[str, Any] = {}
_parts: dict[frozenset[str], bytes] = {}
"""Functions of libdevice -> bitcode of them and what they call."""


def _machine(target: TargetInfo) -> Any:
    key = target.name
    if key not in _machines:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        leave_out_strength_reduction()
        llvm_target = binding.Target.from_triple(target.triple)
        # opt=3 adds a global value numbering to code generation: a seventh of its time. Of 119 kernels of packages 10 get
        # other SASS without it: up to 2 % fewer instructions, at worst 2 registers more
        _machines[key] = llvm_target.create_target_machine(
            cpu=target.name, features=f"+{target.isa}", opt=2, codemodel="default"
        )
    return _machines[key]


def to_ptx(
    text: str,
    target: TargetInfo,
    options: Options,
    threads: int,
    blocks: int = 1,
    alone: bool = False,
) -> str:
    """Optimise an LLVM module and print it as PTX, for blocks of `threads` and clusters of `blocks`.

    `alone`: no second CTA fits an SM, however few registers this one takes. Raises
    PassError where LLVM rejects it.
    """
    text = with_ranges(_with_bounds(text, options, threads, blocks, alone), threads)
    with _lock:  # target machines are not made for two threads at once
        machine = _machine(target)
        _join_accesses(text.count("\n") < _MANY_LINES)
        try:
            module = binding.parse_assembly(text)
            module.verify()
            linked = "@__nv_" in text or '@"__nv_' in text
            if linked:
                _link_libdevice(module, machine)
        except RuntimeError as error:
            raise PassError(f"LLVM rejects the kernel: {error}") from None
        optimize(module, machine, whole=linked or not passes_of_functions_suffice(text))
        return machine.emit_assembly(module)


def _join_accesses(wanted: bool) -> None:
    """Whether LLVM looks for neighbouring accesses to join. It compares all of a block with each other: of a
    sort of 16,384 elements (96,000 lines) that takes 20 seconds, and what has neighbours is joined already."""
    global _joins
    if wanted is not _joins:
        off = "false" if wanted else "true"
        binding.set_option("tilewright", f"-disable-nvptx-load-store-vectorizer={off}")
        _joins = wanted


def with_limit(ptx: str, registers: int) -> str:
    """PTX of `to_ptx` with a limit on the registers of a thread, in place of the one that it may have."""
    return re.sub(
        r"^(\.maxntid .*)$(\n\.maxnreg \d+$)?",
        rf"\1\n.maxnreg {registers}",
        ptx,
        count=1,
        flags=re.MULTILINE,
    )


def waits_or_repeats(ptx: str) -> bool:
    """Whether a kernel has barriers or loops. The warps of one without load once, each when it is ready."""
    labels = {found[1]: found.start() for found in re.finditer(r"^(\$\w+):", ptx, re.MULTILINE)}
    jumps = re.finditer(r"\bbra(?:\.uni)?\s+(\$\w+);", ptx)
    return re.search(r"\b(bar|barrier|mbarrier)\.", ptx) is not None or any(
        labels.get(jump[1], jump.start()) < jump.start() for jump in jumps
    )


def _link_libdevice(module: Any, machine: Any) -> None:
    """Add those of NVIDIA's math functions (LLVM bitcode) that a module declares."""
    names = frozenset(f.name for f in module.functions if f.name.startswith("__nv_"))
    if names not in _parts:
        _parts[names] = _part_of_libdevice(names, machine)
    library = binding.parse_bitcode(_parts[names])
    library.triple, library.data_layout = module.triple, module.data_layout
    own = {function.name for function in module.functions if not function.is_declaration}
    module.link_in(library)
    for function in module.functions:
        if not function.is_declaration and function.name not in own:
            function.linkage = "internal"


def _part_of_libdevice(names: frozenset[str], machine: Any) -> bytes:
    """Bitcode of these functions of libdevice and what they call: all of it takes long to optimise.

    They treat subnormal numbers as zero, as in Triton: without the scaling of subnormals they take 10 to 30 % fewer
    instructions.
    """
    library = binding.parse_bitcode(_libdevice())
    flags = binding.parse_assembly(_FLUSH_SUBNORMALS)
    flags.triple, flags.data_layout = library.triple, library.data_layout
    library.link_in(flags)
    for function in library.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(0))
    passes = binding.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(library, builder)
    return library.as_bitcode()


@functools.cache
def _libdevice() -> bytes:
    """The bitcode of libdevice. Raises PassError where it is not installed."""
    for path in _libdevice_places():
        if path.is_file():
            return path.read_bytes()
    raise PassError(
        "this kernel needs NVIDIA's math library libdevice, which is not installed",
        help="pip install nvidia-nvvm, or set CUDA_HOME to a CUDA toolkit",
    )


def _libdevice_places() -> Iterator[Path]:
    name = "libdevice.10.bc"
    home = config.current().cuda_home
    if home:
        yield Path(home) / "nvvm" / "libdevice" / name
    for package, inside in (
        ("nvidia", "cu13/nvvm/libdevice"),
        ("nvidia", "cuda_nvcc/nvvm/libdevice"),
        ("nvidia", "nvvm/libdevice"),
        ("triton", "backends/nvidia/lib"),
    ):
        yield from tools.in_wheel(package, f"{inside}/{name}")
    for root in (Path("/usr/local/cuda"), *sorted(Path("/usr/local").glob("cuda-*"))):
        yield root / "nvvm" / "libdevice" / name


def _with_bounds(text: str, options: Options, threads: int, blocks: int, alone: bool) -> str:
    """The kernel's attributes, which llvmlite cannot write: threads, registers, cluster."""
    attributes = {"nvvm.maxntid": str(threads)}
    # with "nvvm.minctasm" ptxas spends registers that would let two programs share an SM (40
    # instead of 32 for a softmax of 1024 threads), and without it saves some for a second program at the
    # price of loads that wait for each other
    if alone and options.maxnreg is None:
        attributes["nvvm.minctasm"] = "1"
    if options.maxnreg is not None:
        attributes["nvvm.maxnreg"] = str(options.maxnreg)
    if blocks > 1:
        attributes["nvvm.cluster_dim"] = f"{blocks},1,1"
    listed = " ".join(f'"{k}"="{v}"' for k, v in attributes.items())
    return f"{_attach(text)}\nattributes #0 = {{ nounwind convergent {listed} }}\n"


def _attach(text: str) -> str:
    """Give attribute group 0 to the kernel's definition."""
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if line.startswith("define ptx_kernel"):
            lines[i] = _MAP.sub(_BY_VALUE, line) + " #0"
            return "\n".join(lines)
    raise PassError("an LLVM module without kernel")
