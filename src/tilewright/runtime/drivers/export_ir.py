"""Object files that C programs link: a kernel and its launch code in one relocatable module.

The launch code is LLVM IR, so that exporting needs no C compiler. The exported function checks what
the code was compiled for, packs the argument slots of the kernel's calling convention (see
`docs/architecture.md`), and runs the programs: in the calling thread, or in contiguous blocks on
threads that it makes and joins. It needs libc and pthreads only.

    job   0 kernel  8 slots  16 programs  24 scratch bytes  32 fault (3 words)  56 out of memory
          64 blocks
    part  0 job  8 number of the block
"""

from __future__ import annotations

from string import Template
from typing import Any

from llvmlite import binding

from tilewright.backends.base import Artifact
from tilewright.backends.cpu.target import machine
from tilewright.errors import UnsupportedTarget
from tilewright.runtime.export import grids
from tilewright.runtime.export.interface import (
    ASSERT_FAILED,
    BAD_GRID,
    NOT_A_MULTIPLE,
    OUT_OF_MEMORY,
    Interface,
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
declare i32 @"$KERNEL"(ptr, i64, i64, ptr)

define internal ptr @tilewright.part(ptr %part) nounwind {
entry:
  %thread = alloca [3 x i64], align 16
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
  %slots.p = getelementptr i8, ptr %job, i64 8
  %slots = load ptr, ptr %slots.p
  %code = call i32 @"$KERNEL"(ptr %slots, i64 %first, i64 %last, ptr %thread)
  call void @free(ptr %memory)
  br label %done
done:
  ret ptr null
}

; programs 0 … total - 1 on as many threads as are asked for and worth making; a result code
define internal i32 @tilewright.run(ptr %slots, i64 %total, i32 %wanted) nounwind {
entry:
  %job = alloca [9 x i64], align 64
  %parts = alloca [$MOST_THREADS x [2 x i64]], align 16
  %ids = alloca [$MOST_THREADS x i64], align 16
  store i64 0, ptr %job
  %j8 = getelementptr i8, ptr %job, i64 8
  store ptr %slots, ptr %j8
  %j16 = getelementptr i8, ptr %job, i64 16
  store i64 %total, ptr %j16
  %j24 = getelementptr i8, ptr %job, i64 24
  store i64 $SCRATCH_BYTES, ptr %j24
  %j32 = getelementptr i8, ptr %job, i64 32
  store i64 0, ptr %j32
  %j40 = getelementptr i8, ptr %job, i64 40
  store i64 0, ptr %j40
  %j48 = getelementptr i8, ptr %job, i64 48
  store i64 0, ptr %j48
  %j56 = getelementptr i8, ptr %job, i64 56
  store i64 0, ptr %j56
  %j64 = getelementptr i8, ptr %job, i64 64
  %useful.0 = udiv i64 %total, $GRAIN
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
pack:
$STORE
  br label %grid
grid:
$GRID
  %x.bad = icmp slt i64 $GX, 0
  %y.bad = icmp slt i64 $GY, 0
  %z.bad = icmp slt i64 $GZ, 0
  %xy = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 $GX, i64 $GY)
  %xy.n = extractvalue { i64, i1 } %xy, 0
  %xy.o = extractvalue { i64, i1 } %xy, 1
  %xyz = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %xy.n, i64 $GZ)
  %total = extractvalue { i64, i1 } %xyz, 0
  %xyz.o = extractvalue { i64, i1 } %xyz, 1
  %huge = icmp slt i64 %total, 0
  %b0 = or i1 %x.bad, %y.bad
  %b1 = or i1 %b0, %z.bad
  %b2 = or i1 %xy.o, %xyz.o
  %b3 = or i1 %b1, %b2
  %bad = or i1 %b3, %huge
  br i1 %bad, label %refuse, label %some
refuse:
  ret i32 $BAD_GRID
some:
  %empty = icmp eq i64 %total, 0
  br i1 %empty, label %nothing, label %run
nothing:
  ret i32 0
run:
  %result = call i32 @tilewright.run(ptr %slots, i64 %total, i32 $THREADS)
  ret i32 %result
}
"""


def object_file(artifact: Artifact, interface: Interface) -> bytes:
    """A relocatable object file that defines the function `interface` describes, and nothing else.

    Raises UnsupportedTarget for targets whose threads are no pthreads.
    """
    target = interface.target
    system = next((name for name in _SC_NPROCESSORS_ONLN if name in target.triple), None)
    if system is None:
        raise UnsupportedTarget(f"there is no launch code for {target.triple}: it has no pthreads")
    inner = f"tilewright.{interface.name}"
    module = binding.parse_assembly(artifact.asm["llvm"])
    module.get_function(artifact.entry).name = inner
    text = _runtime(interface, inner, _SC_NPROCESSORS_ONLN[system]) + _entry(interface)
    launcher = binding.parse_assembly(text)
    launcher.triple, launcher.data_layout = module.triple, module.data_layout
    module.link_in(launcher)
    module.verify()
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != interface.name:
            value.linkage = "internal"
    return machine(target).emit_object(module)


def _runtime(interface: Interface, kernel: str, cores: int) -> str:
    cost = interface.plan.program_cost
    grain = max(1, int(THREAD_WORTH_NS / cost)) if cost > 0 else 1
    values: dict[str, Any] = {
        "KERNEL": kernel, "MOST_THREADS": MOST_THREADS, "GRAIN": grain, "CORES": cores,
        "SCRATCH_BYTES": interface.plan.scratch_bytes, "ASSERT_FAILED": ASSERT_FAILED,
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
    stores: list[str] = []
    grid: list[str] = []
    extents = []
    for axis, node in zip("xyz", interface.extents, strict=True):
        made, value = grids.llvm_lines(node, wide, f"{axis}.")
        grid += made
        extents.append(value)
    slots = [wide[p.name] for p in interface.arguments]
    for i, value in enumerate(slots):
        stores += _store(i, value)
    for i, value in enumerate(extents, len(slots)):
        grid += _store(i, value)
    amx = any(f.startswith("amx") for f in interface.target.features)
    values = {
        "NAME": interface.name,
        "PARAMETERS": ", ".join(f"{_kind(p)} {v}" for v, p in named),
        "SLOTS": len(slots) + 3,
        # Linux gives the tile registers to processes that ask for them
        "AMX": "%amx = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)" if amx else "",
        "FETCH": _block(lines),
        "GUARDS": "\n".join([*guards, *_last_guard(len(slots))]),
        "STORE": _block(stores),
        "GRID": _block(grid),
        "GX": extents[0], "GY": extents[1], "GZ": extents[2],
        "BAD_GRID": BAD_GRID,
        "THREADS": f"%p{len(named) - 1}",
    }  # fmt: skip
    return Template(_ENTRY).substitute(values)


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
    """Blocks that leave with a code when an argument is no multiple of what it should be."""
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
    return [f"guard.{count}:", "  br label %pack"]


def _store(index: int, value: str) -> list[str]:
    place = f"%slot.{index}"
    return [
        f"{place} = getelementptr i64, ptr %slots, i64 {index}",
        f"store i64 {value}, ptr {place}",
    ]
