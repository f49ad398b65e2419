"""LLVM IR of the native launcher and of the thread pool: text, because no C compiler may be needed.

`tw_launch` is a METH_FASTCALL function for every kernel: its `self` is a Python integer, the address
of a *launch record*; its arguments are a grid tuple and the runtime arguments. It packs argument
slots, decides how many threads to use, lets go of the GIL, runs the programs and reports faults.

Records that both sides know (offsets in bytes):

    state   0 GOMP_parallel  8 omp_get_thread_num  16 omp_get_num_threads  24 omp_get_max_threads
            32 thread limit  40 pool  48 pthread key of the scratch  56 turns of a spin wait
            64… for signals: see `signals_ir`
    record  0 kernel  8 slots  16 scratch bytes  24 programs run inline at most
            32 least programs a thread  40 programs run under the GIL at most
            48 arguments  56 text that names the kernel
            64… one kind an argument ("skip" leaves no slot), then one of `conditions` each
    job     0 kernel  8 slots  16 programs  24 scratch bytes  32 fault (3 words)  56 out of memory
            64… for signals
    thread  0 scratch  8 index  16 fault  24 printing  32 to stop when it has printed
    pool    0 busy  64 threads at work  68 launcher sleeps  128 job  136 threads of the job
            256+64*i worker i: +0 turn  +4 asleep  +8 pool  +16 i
    scratch 0 bytes  64… the memory itself

Worker 0 is the launching thread. A job wakes workers as a binary tree; each takes the contiguous
block of programs that its number says, so that a thread meets the same data in every launch.
"""

from __future__ import annotations

from tilewright.runtime.drivers.argument_guards import HOLDS, OTHER_CASE
from tilewright.runtime.drivers.arguments_ir import FETCH, READ_GRID
from tilewright.runtime.drivers.pool_ir import NO_POOL, POOL
from tilewright.runtime.drivers.signals_ir import signals_ir

#: how a slot's value is fetched from a Python object
KINDS = {
    "address": 1, "numpy": 2, "numpy_written": 3, "int": 4, "uint": 5, "fp32": 6, "fp64": 7,
    "bool": 8, "skip": 9,
}  # fmt: skip
#: byte offset of `data` and of `flags` in NumPy's array struct (part of its stable ABI)
NUMPY_DATA, NUMPY_FLAGS, NUMPY_WRITEABLE = 16, 64, 0x400
#: integers that `tw_launch` returns instead of None, beside `conditions.OTHER_CASE`
BAD_GRID, OUT_OF_MEMORY, READ_ONLY, BAD_CALL = 1, 2, 3, 4
STATE_WORDS, RECORD_WORDS = 24, 8

_FUTEX = {"x86_64": 202, "aarch64": 98}
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}

_COMMON = r"""
@tw_state = global [24 x i64] zeroinitializer, align 64
@_Py_NoneStruct = external global i8
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @Py_BuildValue(ptr, ...)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare i32 @PyErr_CheckSignals()
declare void @PyErr_SetNone(ptr)
@PyExc_KeyboardInterrupt = external global ptr
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)
PAUSE_DECLARATION

define void @tw_spin(i64 %turns) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  PAUSE
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %loop, label %done
done:
  ret void
}

define internal ptr @scratch(i64 %bytes) nounwind {
entry:
  %none = icmp eq i64 %bytes, 0
  br i1 %none, label %nothing, label %look
nothing:
  ret ptr null
look:
  %key.p = getelementptr i8, ptr @tw_state, i64 48
  %key = load i32, ptr %key.p
  %old = call ptr @pthread_getspecific(i32 %key)
  %first = icmp eq ptr %old, null
  br i1 %first, label %make, label %measure
measure:
  %size = load i64, ptr %old
  %enough = icmp uge i64 %size, %bytes
  br i1 %enough, label %keep, label %drop
keep:
  %kept = getelementptr i8, ptr %old, i64 64
  ret ptr %kept
drop:
  %gone = call i32 @pthread_setspecific(i32 %key, ptr null)
  call void @free(ptr %old)
  br label %make
make:
  %padded = add i64 %bytes, 4223
  %whole = and i64 %padded, -4096
  %new = call ptr @aligned_alloc(i64 64, i64 %whole)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %remember
remember:
  %usable = sub i64 %whole, 64
  store i64 %usable, ptr %new
  %set = call i32 @pthread_setspecific(i32 %key, ptr %new)
  %memory = getelementptr i8, ptr %new, i64 64
  ret ptr %memory
}

define internal void @run_part(ptr %job, i64 %i, i64 %n) nounwind {
entry:
  %thread = alloca [5 x i64], align 16
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
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %done, label %prepare
prepare:
  %bytes.p = getelementptr i8, ptr %job, i64 24
  %bytes = load i64, ptr %bytes.p
  %memory = call ptr @scratch(i64 %bytes)
  %wanted = icmp ne i64 %bytes, 0
  %missing = icmp eq ptr %memory, null
  %failed = and i1 %wanted, %missing
  br i1 %failed, label %fail, label %go
fail:
  %failed.p = getelementptr i8, ptr %job, i64 56
  store atomic i64 1, ptr %failed.p monotonic, align 8
  br label %done
go:
  store ptr %memory, ptr %thread
  %index.p = getelementptr i8, ptr %thread, i64 8
  store i64 %i, ptr %index.p
  %slot.p = getelementptr i8, ptr %thread, i64 16
  %fault = getelementptr i8, ptr %job, i64 32
  store ptr %fault, ptr %slot.p
  %kernel = load ptr, ptr %job
  %slots.p = getelementptr i8, ptr %job, i64 8
  %slots = load ptr, ptr %slots.p
  %printing.p = getelementptr i8, ptr %thread, i64 24
  store i64 0, ptr %printing.p
  %later.p = getelementptr i8, ptr %thread, i64 32
  store i64 0, ptr %later.p
  %record = call ptr @thread_record(ptr %job, i64 %first, i64 %last, ptr %thread, i64 %n)
  %unknown = icmp eq ptr %record, null
  br i1 %unknown, label %fail, label %run
run:
  %code = call i32 @enter(ptr %slots, i64 %first, i64 %last, ptr %thread, ptr %kernel, ptr %record)
  br label %done
done:
  ret void
}

define internal void @gomp_part(ptr %job) nounwind {
  %f1.p = getelementptr i8, ptr @tw_state, i64 8
  %f1 = load ptr, ptr %f1.p
  %i32 = call i32 %f1()
  %i = zext i32 %i32 to i64
  %f2.p = getelementptr i8, ptr @tw_state, i64 16
  %f2 = load ptr, ptr %f2.p
  %n32 = call i32 %f2()
  %n = zext i32 %n32 to i64
  call void @run_part(ptr %job, i64 %i, i64 %n)
  ret void
}

define ptr @tw_array_address(ptr %self, ptr %array) nounwind {
  %p = getelementptr i8, ptr %array, i64 16
  %address = load i64, ptr %p
  %result = call ptr @PyLong_FromUnsignedLongLong(i64 %address)
  ret ptr %result
}

define internal void @run_all(ptr %job, i64 %threads) nounwind {
entry:
  %serial = icmp ule i64 %threads, 1
  br i1 %serial, label %inline, label %parallel
inline:
  call void @run_part(ptr %job, i64 0, i64 1)
  ret void
parallel:
  %gomp = load ptr, ptr @tw_state
  %own = icmp eq ptr %gomp, null
  br i1 %own, label %pool, label %borrowed
borrowed:
  %n32 = trunc i64 %threads to i32
  call void %gomp(ptr @gomp_part, ptr %job, i32 %n32, i32 0)
  ret void
pool:
  %done = call i1 @pool_run(ptr %job, i64 %threads)
  br i1 %done, label %finished, label %inline
finished:
  ret void
}

define internal i64 @threads_for(ptr %record, i64 %total) nounwind {
entry:
  %inline.p = getelementptr i8, ptr %record, i64 24
  %inline = load i64, ptr %inline.p
  %limit.p = getelementptr i8, ptr @tw_state, i64 32
  %limit = load i64, ptr %limit.p
  %small = icmp ule i64 %total, %inline
  %alone = icmp ule i64 %limit, 1
  %serial = or i1 %small, %alone
  br i1 %serial, label %one, label %more
one:
  ret i64 1
more:
  %grain.p = getelementptr i8, ptr %record, i64 32
  %grain = load i64, ptr %grain.p
  %useful = udiv i64 %total, %grain
  %n = call i64 @llvm.umin.i64(i64 %useful, i64 %limit)
  %gomp = load ptr, ptr @tw_state
  %own = icmp eq ptr %gomp, null
  br i1 %own, label %done, label %ask
ask:
  %max.p = getelementptr i8, ptr @tw_state, i64 24
  %max.f = load ptr, ptr %max.p
  %max32 = call i32 %max.f()
  %max = zext i32 %max32 to i64
  %m = call i64 @llvm.umin.i64(i64 %n, i64 %max)
  br label %done
done:
  %chosen = phi i64 [ %n, %more ], [ %m, %ask ]
  ret i64 %chosen
}

define internal ptr @status(i64 %code) nounwind {
  %result = call ptr @PyLong_FromLongLong(i64 %code)
  ret ptr %result
}

READ_GRID
FETCH
HOLDS
@format = internal constant [5 x i8] c"(LL)\00"
@format3 = internal constant [6 x i8] c"(LLL)\00"

define ptr @tw_launch(ptr %self, ptr %args, i64 %nargs) nounwind {
entry:
  %job = alloca [18 x i64], align 64
  %record = call ptr @PyLong_AsVoidPtr(ptr %self)
  %count.p = getelementptr i8, ptr %record, i64 8
  %count = load i64, ptr %count.p
  %given.p = getelementptr i8, ptr %record, i64 48
  %given = load i64, ptr %given.p
  %expected = add i64 %given, 1
  %right = icmp eq i64 %nargs, %expected
  br i1 %right, label %grid, label %bad.call
bad.call:
  %s4 = call ptr @status(i64 4)
  ret ptr %s4
grid:
  %room = add i64 %count, 3
  %slots = alloca i64, i64 %room, align 16
  %grid.o = load ptr, ptr %args
  %extents = getelementptr i64, ptr %slots, i64 %count
  %total = call i64 @read_grid(ptr %grid.o, ptr %extents)
  %bad = icmp slt i64 %total, 0
  br i1 %bad, label %bad.grid, label %head
bad.grid:
  %s1 = call ptr @status(i64 1)
  ret ptr %s1
head:
  %i = phi i64 [ 0, %grid ], [ %i.next, %slotted ], [ %i.next, %skip ], [ %i.next, %asked ]
  %s = phi i64 [ 0, %grid ], [ %s.next, %slotted ], [ %s, %skip ], [ %s, %asked ]
  %more = icmp ult i64 %i, %given
  br i1 %more, label %fetch, label %packed
fetch:
  %i.next = add i64 %i, 1
  %object.p = getelementptr ptr, ptr %args, i64 %i.next
  %object = load ptr, ptr %object.p
  %kind.o = add i64 %i, 64
  %kind.p = getelementptr i8, ptr %record, i64 %kind.o
  %kind = load i8, ptr %kind.p
  %condition.p = getelementptr i8, ptr %kind.p, i64 %given
  %condition = load i8, ptr %condition.p
  switch i8 %kind, label %number [ i8 2, label %numpy
    i8 3, label %written
    i8 9, label %skip ]
skip:
  %unasked = icmp eq i8 %condition, 0
  br i1 %unasked, label %head, label %folded
folded:
  %v.f = call i64 @fetch(i8 4, ptr %object)
  br label %stored
number:
  %v.i = call i64 @fetch(i8 %kind, ptr %object)
  br label %stored
written:
  %flags.p = getelementptr i8, ptr %object, i64 64
  %flags = load i32, ptr %flags.p
  %writeable = and i32 %flags, 1024
  %locked = icmp eq i32 %writeable, 0
  br i1 %locked, label %read.only, label %numpy
read.only:
  %s3 = call ptr @status(i64 3)
  ret ptr %s3
numpy:
  %data.p = getelementptr i8, ptr %object, i64 16
  %v.n = load i64, ptr %data.p
  br label %stored
stored:
  %value = phi i64 [ %v.i, %number ], [ %v.n, %numpy ], [ %v.f, %folded ]
  %as.before = call i1 @holds(i8 %condition, i64 %value)
  br i1 %as.before, label %asked, label %other
other:
  call void @PyErr_Clear()
  %s5 = call ptr @status(i64 OTHER_CASE)
  ret ptr %s5
asked:
  %dropped = icmp eq i8 %kind, 9
  br i1 %dropped, label %head, label %slotted
slotted:
  %slot = getelementptr i64, ptr %slots, i64 %s
  store i64 %value, ptr %slot
  %s.next = add i64 %s, 1
  br label %head
packed:
  %error = call ptr @PyErr_Occurred()
  %raised = icmp ne ptr %error, null
  br i1 %raised, label %failed, label %check
failed:
  ret ptr null
check:
  %empty = icmp eq i64 %total, 0
  br i1 %empty, label %none, label %fill
fill:
  %kernel = load ptr, ptr %record
  store ptr %kernel, ptr %job
  %j8 = getelementptr i8, ptr %job, i64 8
  store ptr %slots, ptr %j8
  %j16 = getelementptr i8, ptr %job, i64 16
  store i64 %total, ptr %j16
  %r16 = getelementptr i8, ptr %record, i64 16
  %bytes = load i64, ptr %r16
  %j24 = getelementptr i8, ptr %job, i64 24
  store i64 %bytes, ptr %j24
  %j32 = getelementptr i8, ptr %job, i64 32
  store i64 0, ptr %j32
  %j40 = getelementptr i8, ptr %job, i64 40
  store i64 0, ptr %j40
  %j48 = getelementptr i8, ptr %job, i64 48
  store i64 0, ptr %j48
  %j56 = getelementptr i8, ptr %job, i64 56
  store i64 0, ptr %j56
  call void @launch_begins(ptr %job, ptr %record)
  %threads = call i64 @threads_for(ptr %record, i64 %total)
  %gil.p = getelementptr i8, ptr %record, i64 40
  %gil = load i64, ptr %gil.p
  %short = icmp ule i64 %total, %gil
  %serial = icmp ule i64 %threads, 1
  %keep = and i1 %short, %serial
  br i1 %keep, label %holding, label %releasing
holding:
  call void @run_part(ptr %job, i64 0, i64 1)
  br label %report
releasing:
  call void @watch_interrupts(ptr %record)
  %saved = call ptr @PyEval_SaveThread()
  call void @run_all(ptr %job, i64 %threads)
  call void @PyEval_RestoreThread(ptr %saved)
  br label %report
report:
  call void @launch_ends(ptr %job)
  %j64 = getelementptr i8, ptr %job, i64 64
  %stopped = load atomic i64, ptr %j64 seq_cst, align 8
  %was.stopped = icmp ne i64 %stopped, 0
  br i1 %was.stopped, label %stop, label %worked
stop:
  %pc.p = getelementptr i8, ptr %job, i64 88
  %pc = load i64, ptr %pc.p
  %broke = icmp ne i64 %pc, 0
  br i1 %broke, label %crashed, label %interrupted
crashed:
  %signal.p = getelementptr i8, ptr %job, i64 120
  %signal = load i64, ptr %signal.p
  %pc.start = load i64, ptr %record
  %pc.offset = sub i64 %pc, %pc.start
  %address.p = getelementptr i8, ptr %job, i64 96
  %address = load i64, ptr %address.p
  %triple = call ptr (ptr, ...) @Py_BuildValue(ptr @format3, i64 %signal, i64 %pc.offset, i64 %address)
  ret ptr %triple
interrupted:
  %checked = call i32 @PyErr_CheckSignals()
  %handled = icmp ne i32 %checked, 0
  br i1 %handled, label %failed, label %unhandled
unhandled: ; a handler of the user's that returned; the kernel was stopped all the same
  %interrupt = load ptr, ptr @PyExc_KeyboardInterrupt
  call void @PyErr_SetNone(ptr %interrupt)
  ret ptr null
worked:
  %state = load atomic i64, ptr %j32 acquire, align 8
  %fault = icmp ne i64 %state, 0
  br i1 %fault, label %faulted, label %memory
faulted:
  %program = load i64, ptr %j40
  %site = load i64, ptr %j48
  %pair = call ptr (ptr, ...) @Py_BuildValue(ptr @format, i64 %program, i64 %site)
  ret ptr %pair
memory:
  %lost = load i64, ptr %j56
  %lacking = icmp ne i64 %lost, 0
  br i1 %lacking, label %no.memory, label %none
no.memory:
  %s2 = call ptr @status(i64 2)
  ret ptr %s2
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
"""


def has_pool(machine: str, system: str) -> bool:
    """Whether the futex pool exists for this machine (`platform.machine()`) and system."""
    return system == "Linux" and _architecture(machine) in _FUTEX


def _architecture(machine: str) -> str:
    return {"AMD64": "x86_64", "amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def launcher_ir(machine: str, system: str) -> str:
    """The module's text for a machine; without a pool on systems that have no futex."""
    architecture = _architecture(machine)
    declaration, pause = _PAUSE.get(architecture, ("", ""))
    pool = NO_POOL
    if has_pool(machine, system):
        pool = POOL.replace("FUTEX", str(_FUTEX[architecture]))
    text = _COMMON.replace("READ_GRID", READ_GRID).replace("FETCH", FETCH) + pool
    text += signals_ir(architecture, system)
    text = text.replace("HOLDS", HOLDS).replace("OTHER_CASE", str(OTHER_CASE))
    return text.replace("PAUSE_DECLARATION", declaration).replace("PAUSE", pause)
