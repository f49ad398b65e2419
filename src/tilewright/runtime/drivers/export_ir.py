"""Object files that C programs link: kernels and their launch code in one relocatable module.

The launch code is LLVM IR, so that exporting needs no C compiler. The exported function checks what
the code was compiled for, allocates what kernels hand on to each other, and for one kernel after the other packs
the argument slots of its calling convention (see `docs/architecture.md`) and runs its programs: in the calling
thread, or in contiguous blocks on threads that it makes and joins. It needs libc and pthreads only.

    job   0 kernel  8 slots  16 programs  24 scratch bytes  32 fault (3 words)  56 out of memory
          64 blocks
    part  0 job  8 number of the block
"""

from __future__ import annotations

from string import Template
from typing import Any

from llvmlite import binding

from tilewright.backends.cpu.target import machine
from tilewright.errors import UnsupportedTarget
from tilewright.runtime.export import grids
from tilewright.runtime.export.interface import (
    ASSERT_FAILED,
    BAD_GRID,
    NOT_A_MULTIPLE,
    OUT_OF_MEMORY,
    Interface,
    Launch,
    Parameter,
)

#: work that is worth making a thread for; nothing is kept between calls
THREAD_WORTH_NS = 50_000
MOST_THREADS = 256
_SC_NPROCESSORS_ONLN = {"linux": 84, "darwin": 58}
_INTEGERS = {"i1": 8, "i8": 8, "u8": 8, "i16": 16, "u16": 16, "i32": 32, "u32": 32}

_RUNTIME = r"""
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @sysconf(i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i64 @syscall(i64, ...)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
$KERNELS

define internal ptr @tilewright.part(ptr %part) nounwind {
entry:
  %thread = alloca [5 x i64], align 16
  %job = load ptr, ptr %part
  %i.p = getelementptr i8, ptr %part, i64 8
  %i = load i64, ptr %i.p
  %n.p = getelementptr i8, ptr %job, i64 64
  %n = load i64, ptr %n.p
  %total.p = getelementptr i8, ptr %job, i64 16
  %total = load i64, ptr %total.p
  %q = udiv i64 %total, %n
  %r = urem i64 %total, %n
  %base = mul i64 %q, %i
  %extra = call i64 @llvm.umin.i64(i64 %i, i64 %r)
  %first = add i64 %base, %extra
  %longer = icmp ult i64 %i, %r
  %one = zext i1 %longer to i64
  %size = add i64 %q, %one
  %last = add i64 %first, %size
  %bytes.p = getelementptr i8, ptr %job, i64 24
  %bytes = load i64, ptr %bytes.p
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %go, label %make
make:
  %padded = add i64 %bytes, 63
  %whole = and i64 %padded, -64
  %new = call ptr @aligned_alloc(i64 64, i64 %whole)
  %missing = icmp eq ptr %new, null
  br i1 %missing, label %fail, label %go
fail:
  %failed.p = getelementptr i8, ptr %job, i64 56
  store atomic i64 1, ptr %failed.p monotonic, align 8
  br label %done
go:
  %memory = phi ptr [ null, %entry ], [ %new, %make ]
  store ptr %memory, ptr %thread
  %index.p = getelementptr i8, ptr %thread, i64 8
  store i64 %i, ptr %index.p
  %fault.p = getelementptr i8, ptr %thread, i64 16
  %fault = getelementptr i8, ptr %job, i64 32
  store ptr %fault, ptr %fault.p
  %printing.p = getelementptr i8, ptr %thread, i64 24
  store i64 0, ptr %printing.p
  %later.p = getelementptr i8, ptr %thread, i64 32
  store i64 0, ptr %later.p
  %slots.p = getelementptr i8, ptr %job, i64 8
  %slots = load ptr, ptr %slots.p
  %kernel = load ptr, ptr %job
  %code = call i32 %kernel(ptr %slots, i64 %first, i64 %last, ptr %thread)
  call void @free(ptr %memory)
  br label %done
done:
  ret ptr null
}

; programs 0 … total - 1 of a kernel on as many threads as are asked for and worth making (one for each `grain` of
; them); a result code
define internal i32 @tilewright.run(ptr %kernel, ptr %slots, i64 %total, i32 %wanted, i64 %scratch, i64 %grain) nounwind {
entry:
  %job = alloca [9 x i64], align 64
  %parts = alloca [$MOST_THREADS x [2 x i64]], align 16
  %ids = alloca [$MOST_THREADS x i64], align 16
  store ptr %kernel, ptr %job
  %j8 = getelementptr i8, ptr %job, i64 8
  store ptr %slots, ptr %j8
  %j16 = getelementptr i8, ptr %job, i64 16
  store i64 %total, ptr %j16
  %j24 = getelementptr i8, ptr %job, i64 24
  store i64 %scratch, ptr %j24
  %j32 = getelementptr i8, ptr %job, i64 32
  store i64 0, ptr %j32
  %j40 = getelementptr i8, ptr %job, i64 40
  store i64 0, ptr %j40
  %j48 = getelementptr i8, ptr %job, i64 48
  store i64 0, ptr %j48
  %j56 = getelementptr i8, ptr %job, i64 56
  store i64 0, ptr %j56
  %j64 = getelementptr i8, ptr %job, i64 64
  %useful.0 = udiv i64 %total, %grain
  %useful = call i64 @llvm.umin.i64(i64 %useful.0, i64 $MOST_THREADS)
  %serial.0 = icmp ule i64 %useful, 1
  %serial.1 = icmp eq i32 %wanted, 1
  %serial = or i1 %serial.0, %serial.1
  br i1 %serial, label %counted, label %more
more:
  %given = icmp sgt i32 %wanted, 0
  br i1 %given, label %limited, label %ask
limited:
  %wanted64 = zext i32 %wanted to i64
  br label %choose
ask:
  %cores.0 = call i64 @sysconf(i32 $CORES)
  %cores = call i64 @llvm.smax.i64(i64 %cores.0, i64 1)
  br label %choose
choose:
  %limit = phi i64 [ %wanted64, %limited ], [ %cores, %ask ]
  %several = call i64 @llvm.umin.i64(i64 %limit, i64 %useful)
  br label %counted
counted:
  %n = phi i64 [ 1, %entry ], [ %several, %choose ]
  store i64 %n, ptr %j64
  br label %start
start:
  %i = phi i64 [ 1, %counted ], [ %i.next, %started ]
  %starting = icmp ult i64 %i, %n
  br i1 %starting, label %fork, label %own
fork:
  %part = getelementptr [2 x i64], ptr %parts, i64 %i
  store ptr %job, ptr %part
  %number = getelementptr i8, ptr %part, i64 8
  store i64 %i, ptr %number
  %id = getelementptr i64, ptr %ids, i64 %i
  %refused = call i32 @pthread_create(ptr %id, ptr null, ptr @tilewright.part, ptr %part)
  %alone = icmp ne i32 %refused, 0
  br i1 %alone, label %inline, label %started
inline:
  ; no thread to be had: its block runs here
  %done.here = call ptr @tilewright.part(ptr %part)
  store i64 -1, ptr %number
  br label %started
started:
  %i.next = add i64 %i, 1
  br label %start
own:
  store ptr %job, ptr %parts
  %number.0 = getelementptr i8, ptr %parts, i64 8
  store i64 0, ptr %number.0
  %mine = call ptr @tilewright.part(ptr %parts)
  br label %wait
wait:
  %j = phi i64 [ 1, %own ], [ %j.next, %joined ]
  %waiting = icmp ult i64 %j, %n
  br i1 %waiting, label %look, label %report
look:
  %theirs = getelementptr [2 x i64], ptr %parts, i64 %j
  %theirs.p = getelementptr i8, ptr %theirs, i64 8
  %theirs.n = load i64, ptr %theirs.p
  %ran.here = icmp eq i64 %theirs.n, -1
  br i1 %ran.here, label %joined, label %join
join:
  %thread.p = getelementptr i64, ptr %ids, i64 %j
  %thread = load i64, ptr %thread.p
  %ended = call i32 @pthread_join(i64 %thread, ptr null)
  br label %joined
joined:
  %j.next = add i64 %j, 1
  br label %wait
report:
  %state = load atomic i64, ptr %j32 acquire, align 8
  %fault = icmp ne i64 %state, 0
  br i1 %fault, label %faulted, label %memory
faulted:
  %site = load i64, ptr %j48
  %site32 = trunc i64 %site to i32
  %told = add i32 %site32, $ASSERT_FAILED
  ret i32 %told
memory:
  %lost = load i64, ptr %j56
  %lacking = icmp ne i64 %lost, 0
  %result = select i1 %lacking, i32 $OUT_OF_MEMORY, i32 0
  ret i32 %result
}
"""

_ENTRY = r"""
define i32 @"$NAME"($PARAMETERS) nounwind {
entry:
  %slots = alloca [$SLOTS x i64], align 16
  $AMX
$FETCH
  br label %guard.0
$GUARDS
extents:
$EXTENTS
  br i1 %bad, label %refuse, label %some
refuse:
  ret i32 $BAD_GRID
some:
  %empty = icmp eq i64 %total.$LAST, 0
  br i1 %empty, label %nothing, label %make
nothing:
  ret i32 0
make:
$MEMORY
lacking:
  ret i32 $OUT_OF_MEMORY
$LAUNCHES
end:
  %code = phi i32 $CODES
  $FREE
  ret i32 %code
}
"""

#: the grid of kernel $I in %total.$I, and in %bad.$I whether something is wrong with it or was before
_EXTENTS = r"""
$GRID
  %x.bad.$I = icmp slt i64 $GX, 0
  %y.bad.$I = icmp slt i64 $GY, 0
  %z.bad.$I = icmp slt i64 $GZ, 0
  %xy.$I = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 $GX, i64 $GY)
  %xy.n.$I = extractvalue { i64, i1 } %xy.$I, 0
  %xy.o.$I = extractvalue { i64, i1 } %xy.$I, 1
  %xyz.$I = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %xy.n.$I, i64 $GZ)
  %total.$I = extractvalue { i64, i1 } %xyz.$I, 0
  %xyz.o.$I = extractvalue { i64, i1 } %xyz.$I, 1
  %huge.$I = icmp slt i64 %total.$I, 0
  %b0.$I = or i1 %x.bad.$I, %y.bad.$I
  %b1.$I = or i1 %b0.$I, %z.bad.$I
  %b2.$I = or i1 %xy.o.$I, %xyz.o.$I
  %b3.$I = or i1 %b1.$I, %b2.$I
  %b4.$I = or i1 %b3.$I, %huge.$I
  %bad.$I = or i1 %b4.$I, $BEFORE
"""

_LAUNCH = r"""
run.$I:
$STORE
  %result.$I = call i32 @tilewright.run(ptr @"$KERNEL", ptr %slots, i64 %total.$I, i32 $THREADS, i64 $SCRATCH_BYTES, i64 $GRAIN)
  %asserted.$I = icmp sge i32 %result.$I, $ASSERT_FAILED
  %shift.$I = select i1 %asserted.$I, i32 $FIRST_ASSERT, i32 0
  %code.$I = add i32 %result.$I, %shift.$I
  %failed.$I = icmp ne i32 %code.$I, 0
  $LEAVE
"""


def object_file(interface: Interface) -> bytes:
    """A relocatable object file that defines the function `interface` describes, and nothing else.

    Raises UnsupportedTarget for targets whose threads are no pthreads.
    """
    target = interface.target
    system = next((name for name in _SC_NPROCESSORS_ONLN if name in target.triple), None)
    if system is None:
        raise UnsupportedTarget(f"there is no launch code for {target.triple}: it has no pthreads")
    text = _runtime(interface, _SC_NPROCESSORS_ONLN[system]) + _entry(interface)
    launcher = binding.parse_assembly(text)
    for i, launch in enumerate(interface.launches):
        module = binding.parse_assembly(launch.artifact.asm["llvm"])
        for value in (*module.functions, *module.global_variables):
            if not value.is_declaration and value.name != launch.artifact.entry:
                value.linkage = "internal"  # two kernels may have the same
        module.get_function(launch.artifact.entry).name = _kernel(interface, i)
        launcher.triple, launcher.data_layout = module.triple, module.data_layout
        launcher.link_in(module)
    launcher.verify()
    for value in (*launcher.functions, *launcher.global_variables):
        if not value.is_declaration and value.name != interface.name:
            value.linkage = "internal"
    return machine(target).emit_object(launcher)


def _kernel(interface: Interface, index: int) -> str:
    """The symbol of a kernel."""
    return f"tilewright.{interface.name}.{index}"


def _runtime(interface: Interface, cores: int) -> str:
    kernels = [_kernel(interface, i) for i in range(len(interface.launches))]
    values: dict[str, Any] = {
        "KERNELS": "\n".join(f'declare i32 @"{k}"(ptr, i64, i64, ptr)' for k in kernels),
        "MOST_THREADS": MOST_THREADS, "CORES": cores, "ASSERT_FAILED": ASSERT_FAILED,
        "OUT_OF_MEMORY": OUT_OF_MEMORY,
    }  # fmt: skip
    return Template(_RUNTIME).substitute(values)


def _entry(interface: Interface) -> str:
    named = [(f"%p{i}", p) for i, p in enumerate(interface.parameters)]
    lines: list[str] = []
    wide = {p.name: _as_slot(value, p, lines) for value, p in named}
    guards = [
        line
        for i, p in enumerate(interface.arguments)
        if p.argument is not None
        for line in _guard(i, wide[p.name], p.argument.divisible)
    ]
    memory = _memory(interface, wide)
    threads, launches, extents = f"%p{len(named) - 1}", list[str](), list[str]()
    for i, launch in enumerate(interface.launches):
        text, grid = _extents(interface, launch, i, wide)
        extents.append(text)
        launches.append(_launch(interface, i, [wide[n] for n in launch.arguments] + grid, threads))
    amx = any(f.startswith("amx") for f in interface.target.features)
    last = len(launches) - 1
    values = {
        "NAME": interface.name,
        "PARAMETERS": ", ".join(f"{_kind(p)} {v}" for v, p in named),
        "SLOTS": max(len(each.arguments) for each in interface.launches) + 3,
        # Linux gives the tile registers to processes that ask for them
        "AMX": "%amx = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)" if amx else "",
        "FETCH": _block(lines),
        "GUARDS": "\n".join([*guards, *_last_guard(len(interface.arguments))]),
        "EXTENTS": "".join(extents) + f"  %bad = or i1 %bad.{last}, false",
        "MEMORY": _block(memory),
        "FREE": "call void @free(ptr %memory)" if interface.workspaces else "",
        "LAUNCHES": "".join(launches),
        "LAST": last,
        "CODES": ", ".join(f"[ %code.{i}, %run.{i} ]" for i in range(last + 1)),
        "BAD_GRID": BAD_GRID,
        "OUT_OF_MEMORY": OUT_OF_MEMORY,
    }
    return Template(_ENTRY).substitute(values)


def _memory(interface: Interface, wide: dict[str, str]) -> list[str]:
    """Instructions that allocate all workspaces in one piece; `wide` gets where each begins."""
    if not interface.workspaces:
        return ["br i1 false, label %lacking, label %run.0"]
    lines: list[str] = []
    starts, size = [], "0"
    for i, each in enumerate(interface.workspaces):
        made, bytes_ = grids.llvm_lines(each.size, wide, f"w{i}.")
        starts.append(size)
        size = f"%w{i}.end"
        lines += [
            *made,
            f"%w{i}.more = add i64 {bytes_}, 63",
            f"%w{i}.whole = and i64 %w{i}.more, -64",
            f"{size} = add i64 {starts[-1]}, %w{i}.whole",
        ]
    lines += [
        f"%memory.size = call i64 @llvm.umax.i64(i64 {size}, i64 64)",
        "%memory = call ptr @aligned_alloc(i64 64, i64 %memory.size)",
        "%memory.start = ptrtoint ptr %memory to i64",
    ]
    for i, (each, start) in enumerate(zip(interface.workspaces, starts, strict=True)):
        wide[each.name] = f"%w{i}.start"
        lines.append(f"%w{i}.start = add i64 %memory.start, {start}")
    return [
        *lines,
        "%missing = icmp eq ptr %memory, null",
        "br i1 %missing, label %lacking, label %run.0",
    ]


def _extents(
    interface: Interface, launch: Launch, index: int, wide: dict[str, str]
) -> tuple[str, list[str]]:
    """Instructions that compute a kernel's grid and check it, and the operands that hold it."""
    lines: list[str] = []
    extents: list[str] = []
    for axis, node in zip("xyz", interface.extents(launch), strict=True):
        made, value = grids.llvm_lines(node, wide, f"{axis}{index}.")
        lines += made
        extents.append(value)
    values = {
        "GRID": _block(lines), "GX": extents[0], "GY": extents[1], "GZ": extents[2], "I": index,
        "BEFORE": f"%bad.{index - 1}" if index else "false",
    }  # fmt: skip
    return Template(_EXTENTS).substitute(values), extents


def _launch(interface: Interface, index: int, slots: list[str], threads: str) -> str:
    """The block that runs a kernel with these slots."""
    launch = interface.launches[index]
    cost = launch.plan.program_cost
    last = index == len(interface.launches) - 1
    values: dict[str, Any] = {
        "I": index, "KERNEL": _kernel(interface, index), "THREADS": threads,
        "STORE": _block([line for i, v in enumerate(slots) for line in _store(index, i, v)]),
        "SCRATCH_BYTES": launch.plan.scratch_bytes,
        "GRAIN": max(1, int(THREAD_WORTH_NS / cost)) if cost > 0 else 1,
        "ASSERT_FAILED": ASSERT_FAILED, "FIRST_ASSERT": launch.first_assert,
        "LEAVE": "br label %end"
        if last
        else f"br i1 %failed.{index}, label %end, label %run.{index + 1}",
    }  # fmt: skip
    return Template(_LAUNCH).substitute(values)


def _block(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _kind(parameter: Parameter) -> str:
    """The type of a parameter in LLVM IR."""
    argument = parameter.argument
    if argument is None:
        return "i32" if parameter.c_type == "int" else "i64"
    if argument.kind == "pointer":
        return "ptr"
    if argument.type in ("fp32", "fp64"):
        return "float" if argument.type == "fp32" else "double"
    if argument.kind == "float":
        return "i16" if argument.type in ("fp16", "bf16") else "i8"
    return f"i{_INTEGERS.get(argument.type, 64)}"


def _as_slot(value: str, parameter: Parameter, lines: list[str]) -> str:
    """The i64 operand that holds a parameter as the kernel's slots do."""
    kind, argument = _kind(parameter), parameter.argument
    if kind == "i64":
        return value
    slot = f"{value}.slot"
    if kind == "ptr":
        lines.append(f"{slot} = ptrtoint ptr {value} to i64")
    elif kind == "double":
        lines.append(f"{slot} = bitcast double {value} to i64")
    elif kind == "float":
        lines += [
            f"{value}.bits = bitcast float {value} to i32",
            f"{slot} = zext i32 {value}.bits to i64",
        ]
    else:
        signed = argument is None or (argument.type[0] == "i" and argument.type != "i1")
        extend = "sext" if signed else "zext"
        lines.append(f"{slot} = {extend} {kind} {value} to i64")
    return slot


def _guard(index: int, value: str, divisor: int) -> list[str]:
    """Blocks that leave with a code when an argument is not a multiple of what it should be."""
    if divisor <= 1:
        return [f"guard.{index}:", f"  br label %guard.{index + 1}"]
    return [
        f"guard.{index}:",
        f"  %rest.{index} = urem i64 {value}, {divisor}",
        f"  %wrong.{index} = icmp ne i64 %rest.{index}, 0",
        f"  br i1 %wrong.{index}, label %wrong.exit.{index}, label %guard.{index + 1}",
        f"wrong.exit.{index}:",
        f"  ret i32 {NOT_A_MULTIPLE + index}",
    ]


def _last_guard(count: int) -> list[str]:
    return [f"guard.{count}:", "  br label %extents"]


def _store(launch: int, index: int, value: str) -> list[str]:
    place = f"%slot.{launch}.{index}"
    return [
        f"{place} = getelementptr i64, ptr %slots, i64 {index}",
        f"store i64 {value}, ptr {place}",
    ]
