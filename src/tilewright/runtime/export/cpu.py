"""Object files that C programs link: kernels and their launch code in one relocatable module.

The launch code is host code, so that exporting needs no C compiler. The exported function checks what the code was
compiled for, allocates what kernels hand on to each other, and for one kernel after the other packs the argument slots
of its calling convention (see `docs/architecture.md`) and runs its programs: in the calling thread, or in contiguous
blocks on threads that it makes and joins.
"""

from __future__ import annotations

from llvmlite import binding

from tilewright.backends.cpu.target import machine
from tilewright.errors import LaunchError, UnsupportedTarget
from tilewright.runtime.drivers.native_code import optimized
from tilewright.runtime.export.grids import with_names
from tilewright.runtime.export.interface import (
    ASSERT_FAILED,
    BAD_GRID,
    NOT_A_MULTIPLE,
    OUT_OF_MEMORY,
    Interface,
    Parameter,
)
from tilewright.runtime.native import export as host
from tilewright.runtime.native import records
from tilewright.runtime.native.compiler import llvm_ir
from tilewright.runtime.native.language import External

#: work that is worth making a thread for; nothing is kept between calls
THREAD_WORTH_NS = 50_000
_SC_NPROCESSORS_ONLN = {"linux": 84, "darwin": 58}
_INTEGERS = {
    "i1": "i8", "i8": "i8", "u8": "i8", "i16": "i16", "u16": "i16", "i32": "i32", "u32": "i32",
}  # fmt: skip


def object_file(interface: Interface) -> bytes:
    """A relocatable object file that defines the function `interface` describes, and nothing else.

    Raises UnsupportedTarget for targets whose threads are no pthreads.
    """
    target = interface.target
    system = next((name for name in _SC_NPROCESSORS_ONLN if name in target.triple), None)
    if system is None:
        raise UnsupportedTarget(f"there is no launch code for {target.triple}: it has no pthreads")
    kernels = {f"kernel{i}": _kernel(interface, i) for i in range(len(interface.launches))}
    text = llvm_ir(
        source=launch_source(interface),
        names=vars(records) | vars(host) | kernels,
        constants={"CORES": _SC_NPROCESSORS_ONLN[system]},
    )
    launcher = optimized(text, machine(target))
    for launch, kernel in zip(interface.launches, kernels.values(), strict=True):
        module = binding.parse_assembly(launch.artifact.asm["llvm"])
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration and value.name != launch.artifact.entry:
                value.linkage = "internal"  # two kernels may have the same
        module.get_function(launch.artifact.entry).name = kernel.symbol
        launcher.triple, launcher.data_layout = module.triple, module.data_layout
        launcher.link_in(module)
    launcher.verify()
    for value in (*launcher.functions, *launcher.global_variables):
        if not value.is_declaration and value.name != interface.name:
            value.linkage = "internal"
    return machine(target).emit_object(launcher)


def _kernel(interface: Interface, index: int) -> External:
    return External(f"tilewright.{interface.name}.{index}", "i32", ("ptr", "i64", "i64", "ptr"))


def launch_source(interface: Interface) -> str:
    """The exported function in the language of host code; `v0`, `v1` … are its parameters in 64 bits."""
    parameters = {f"p{i}": p for i, p in enumerate(interface.parameters)}
    wide = {p.name: f"v{i}" for i, p in enumerate(interface.parameters)}
    *_, threads = parameters
    listed = ", ".join(f"{name}: {_kind(p)}" for name, p in parameters.items())
    lines = [f"v{name[1:]} = {_as_word(name, p)}" for name, p in parameters.items()]
    for i, parameter in enumerate(interface.arguments):
        if parameter.argument is not None and parameter.argument.divisible > 1:
            lines.append(f"if v{i} % {parameter.argument.divisible} != 0:")
            lines.append(f"    return {NOT_A_MULTIPLE + i}")
    for i, launch in enumerate(interface.launches):
        for axis, extent in zip("xyz", interface.extents(launch), strict=True):
            lines.append(f"{axis}{i} = i64({with_names(extent, wide)})")
        lines += [
            f"n{i} = count_programs(x{i}, y{i}, z{i})",
            f"if n{i} < 0:",
            f"    return {BAD_GRID}",
        ]
    lines += [f"if n{len(interface.launches) - 1} == 0:", "    return 0"]
    if any(f.startswith("amx") for f in interface.target.features):
        # Linux gives the tile registers to processes that ask for them
        lines.append("syscall(158, 4131, 18)")
    if any(launch.plan.cooperative for launch in interface.launches):
        raise LaunchError(
            "launch_cooperative_grid: exported CPU code gives a thread several programs, one after the other",
            help="export it for a GPU, or launch it from Python",
        )
    lines += _memory(interface, wide)
    slots = max(len(launch.arguments) for launch in interface.launches) + 3
    lines += [f"slots = local(i64, {slots})", "code = i32(0)"]
    for i, launch in enumerate(interface.launches):
        words = [*(wide[name] for name in launch.arguments), f"x{i}", f"y{i}", f"z{i}"]
        cost = launch.plan.program_cost
        grain = max(1, int(THREAD_WORTH_NS / cost)) if cost > 0 else 1
        threads_wanted = "1" if launch.plan.serial else threads
        lines += [
            "if code == 0:",
            *(f"    slots[{at}] = {word}" for at, word in enumerate(words)),
            f"    code = run(kernel{i}, slots, n{i}, {threads_wanted}, {launch.plan.scratch_bytes}, {grain})",
            f"    if code >= {ASSERT_FAILED}:",
            f"        code += {launch.first_assert}",
        ]
    if interface.workspaces:
        lines.append("free(memory)")
    lines.append("return code")
    return f"def {interface.name}({listed}) -> i32:\n" + "".join(f"    {line}\n" for line in lines)


def _memory(interface: Interface, wide: dict[str, str]) -> list[str]:
    """Allocate all workspaces as one block; `wide` gets the start of each."""
    if not interface.workspaces:
        return []
    lines = ["size = i64(0)"]
    for i, each in enumerate(interface.workspaces):
        lines += [
            f"w{i} = size",
            f"size += (i64({with_names(each.size, wide)}) + 63) & -64",
        ]
    lines += [
        "memory = aligned_alloc(64, max(size, 64))",
        "if not memory:",
        f"    return {OUT_OF_MEMORY}",
    ]
    for i, each in enumerate(interface.workspaces):
        wide[each.name] = f"w{i}"
        lines.append(f"w{i} += i64(memory)")
    return lines


def _kind(parameter: Parameter) -> str:
    """The type of a parameter."""
    argument = parameter.argument
    if argument is None:
        return "i32" if parameter.c_type == "int" else "i64"
    if argument.kind == "pointer":
        return "ptr"
    if argument.kind == "float":
        return {"fp32": "f32", "fp64": "f64", "fp16": "i16", "bf16": "i16"}.get(argument.type, "i8")
    return _INTEGERS.get(argument.type, "i64")


def _as_word(name: str, parameter: Parameter) -> str:
    """A parameter as the kernel's slots hold it."""
    kind, argument = _kind(parameter), parameter.argument
    if kind[0] == "f":
        return f"bits({name})"
    signed = argument is None or (argument.type[0] == "i" and argument.type != "i1")
    return f"{'i64' if kind in ('i64', 'ptr') or signed else 'unsigned'}({name})"
