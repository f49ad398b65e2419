"""LLVM IR of the launcher for CUDA: a METH_FASTCALL function for every kernel of every signature.

Its `self` is a Python integer, the address of a *launch record*; its arguments are a grid tuple, a
stream and the runtime arguments. It makes the kernel's context current if another one is, lets go
of the GIL (the driver waits when its queue is full) and calls the driver once. It allocates nothing
and waits for nothing, so that CUDA graphs can capture it.

Records that both sides know (offsets in bytes):

    state   0 cuLaunchKernel  8 cuLaunchKernelEx  16 cuCtxGetCurrent  24 cuCtxPushCurrent
            32 cuCtxPopCurrent  40 launches so far  48 cuTensorMapEncodeTiled
            56… the records launched last, a ring
    record  0 function  8 context  16 threads (i32)  20 dynamic shared memory (i32)
            24 blocks of a program (i32)  28 whether it may begin before the kernel before it is over (i32)
            32 arguments  40 slots  48 fault record or 0  56 tensor maps
            64 their descriptions (`tensor_map_ir`)  72… one kind an argument, then one of `conditions` each

A kernel's parameters are `slots` of 8 bytes, of which the driver reads as many as the parameter has
(the machine is little-endian); a "blob" slot is the address of the parameter itself. Tensor maps and
the fault record's address are parameters more, in this order.
"""

from __future__ import annotations

from tilewright.runtime.drivers.argument_guards import HOLDS, OTHER_CASE
from tilewright.runtime.drivers.arguments_ir import FETCH, READ_GRID
from tilewright.runtime.drivers.tensor_map_ir import ENCODE

#: how a slot's value is fetched from a Python object
KINDS = {"address": 1, "int": 4, "uint": 5, "fp32": 6, "fp64": 7, "bool": 8, "skip": 9, "blob": 10}
#: what the launcher returns instead of None: these, `conditions.OTHER_CASE` or DRIVER_ERROR + CUresult
BAD_GRID, BAD_CALL, DRIVER_ERROR, MAP_ERROR = 1, 4, 1000, 100_000
INVALID_CONTEXT = 201
"""CUDA_ERROR_INVALID_CONTEXT."""
#: launches that the ring remembers
RING = 8
COUNT_WORD, RING_WORD = 5, 7
STATE_WORDS, RECORD_WORDS = RING_WORD + RING, 9

LAUNCHER = r"""
@tw_cuda_state = global [STATE_WORDS x i64] zeroinitializer, align 64
@_Py_NoneStruct = external global i8
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyErr_Occurred()
declare void @PyErr_Clear()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)

READ_GRID
FETCH
HOLDS
ENCODE_MAPS

define internal ptr @code(i64 %value) nounwind {
  %result = call ptr @PyLong_FromLongLong(i64 %value)
  ret ptr %result
}

define internal void @remember(ptr %record) nounwind {
  %count.p = getelementptr i8, ptr @tw_cuda_state, i64 40
  %old = atomicrmw add ptr %count.p, i64 1 monotonic
  %at = urem i64 %old, RING
  %ring = getelementptr i8, ptr @tw_cuda_state, i64 56
  %slot = getelementptr ptr, ptr %ring, i64 %at
  store atomic ptr %record, ptr %slot monotonic, align 8
  ret void
}

; CUlaunchConfig: grid x y z, block x y z, shared bytes (u32 each, padded to 32), stream, attributes, count
define internal i32 @submit(ptr %record, ptr %grid, ptr %stream, ptr %params) nounwind {
entry:
  %config = alloca [7 x i64], align 16
  %attribute = alloca [9 x i64], align 16
  %function = load ptr, ptr %record
  %threads.p = getelementptr i8, ptr %record, i64 16
  %threads = load i32, ptr %threads.p
  %shared.p = getelementptr i8, ptr %record, i64 20
  %shared = load i32, ptr %shared.p
  %cluster.p = getelementptr i8, ptr %record, i64 24
  %cluster = load i32, ptr %cluster.p
  %overlaps.p = getelementptr i8, ptr %record, i64 28
  %overlaps = load i32, ptr %overlaps.p
  %x64 = load i64, ptr %grid
  %y.p = getelementptr i64, ptr %grid, i64 1
  %y64 = load i64, ptr %y.p
  %z.p = getelementptr i64, ptr %grid, i64 2
  %z64 = load i64, ptr %z.p
  %x = trunc i64 %x64 to i32
  %y = trunc i64 %y64 to i32
  %z = trunc i64 %z64 to i32
  %alone = icmp ule i32 %cluster, 1
  %early = icmp ne i32 %overlaps, 0
  %not.early = xor i1 %early, true
  %plain = and i1 %alone, %not.early
  br i1 %plain, label %simple, label %extended
simple:
  %launch = load ptr, ptr @tw_cuda_state
  %r1 = call i32 %launch(ptr %function, i32 %x, i32 %y, i32 %z, i32 %threads, i32 1, i32 1, i32 %shared, ptr %stream, ptr %params, ptr null)
  ret i32 %r1
extended:
  store i32 %x, ptr %config
  %c4 = getelementptr i8, ptr %config, i64 4
  store i32 %y, ptr %c4
  %c8 = getelementptr i8, ptr %config, i64 8
  store i32 %z, ptr %c8
  %c12 = getelementptr i8, ptr %config, i64 12
  store i32 %threads, ptr %c12
  %c16 = getelementptr i8, ptr %config, i64 16
  store i32 1, ptr %c16
  %c20 = getelementptr i8, ptr %config, i64 20
  store i32 1, ptr %c20
  %c24 = getelementptr i8, ptr %config, i64 24
  store i32 %shared, ptr %c24
  %c32 = getelementptr i8, ptr %config, i64 32
  store ptr %stream, ptr %c32
  %c40 = getelementptr i8, ptr %config, i64 40
  store ptr %attribute, ptr %c40
  %c48 = getelementptr i8, ptr %config, i64 48
  store i32 1, ptr %c48
  ; CUlaunchAttribute: id, padding, value of 64 bytes: 4 = cluster dimension, 6 = programmatic stream
  ; serialization, which is allowed (1)
  %id = select i1 %alone, i64 6, i64 4
  store i64 %id, ptr %attribute
  %a8 = getelementptr i8, ptr %attribute, i64 8
  store i32 %cluster, ptr %a8
  %a12 = getelementptr i8, ptr %attribute, i64 12
  store i32 1, ptr %a12
  %a16 = getelementptr i8, ptr %attribute, i64 16
  store i32 1, ptr %a16
  %ex.p = getelementptr i8, ptr @tw_cuda_state, i64 8
  %ex = load ptr, ptr %ex.p
  %r2 = call i32 %ex(ptr %config, ptr %function, ptr %params, ptr null)
  ret i32 %r2
}

define internal i32 @submit_in_context(ptr %record, ptr %grid, ptr %stream, ptr %params) nounwind {
entry:
  %current = alloca ptr, align 8
  store ptr null, ptr %current
  %get.p = getelementptr i8, ptr @tw_cuda_state, i64 16
  %get = load ptr, ptr %get.p
  %r0 = call i32 %get(ptr %current)
  %wanted.p = getelementptr i8, ptr %record, i64 8
  %wanted = load ptr, ptr %wanted.p
  %have = load ptr, ptr %current
  %same = icmp eq ptr %have, %wanted
  br i1 %same, label %here, label %push
here:
  %r1 = call i32 @submit(ptr %record, ptr %grid, ptr %stream, ptr %params)
  ret i32 %r1
push:
  %push.p = getelementptr i8, ptr @tw_cuda_state, i64 24
  %push.f = load ptr, ptr %push.p
  %r2 = call i32 %push.f(ptr %wanted)
  %bad = icmp ne i32 %r2, 0
  br i1 %bad, label %failed, label %there
failed:
  ret i32 %r2
there:
  %r3 = call i32 @submit(ptr %record, ptr %grid, ptr %stream, ptr %params)
  %pop.p = getelementptr i8, ptr @tw_cuda_state, i64 32
  %pop = load ptr, ptr %pop.p
  %r4 = call i32 %pop(ptr %current)
  ret i32 %r3
}

; Tensor maps are encoded in a context (the driver rejects threads without one, such as the first launch of an
; autograd thread): in that of the kernel, if there is none.
define internal i32 @maps_in_context(ptr %record, i64 %maps, ptr %slots, ptr %space, ptr %params) nounwind {
entry:
  %previous = alloca ptr, align 8
  %described.p = getelementptr i8, ptr %record, i64 64
  %described = load ptr, ptr %described.p
  %first = call i32 @make_maps(ptr %described, i64 %maps, ptr %slots, ptr %space, ptr %params)
  %outside = icmp eq i32 %first, INVALID_CONTEXT
  br i1 %outside, label %push, label %done
done:
  ret i32 %first
push:
  %wanted.p = getelementptr i8, ptr %record, i64 8
  %wanted = load ptr, ptr %wanted.p
  %push.p = getelementptr i8, ptr @tw_cuda_state, i64 24
  %push.f = load ptr, ptr %push.p
  %pushed = call i32 %push.f(ptr %wanted)
  %bad = icmp ne i32 %pushed, 0
  br i1 %bad, label %failed, label %again
failed:
  ret i32 %pushed
again:
  %second = call i32 @make_maps(ptr %described, i64 %maps, ptr %slots, ptr %space, ptr %params)
  %pop.p = getelementptr i8, ptr @tw_cuda_state, i64 32
  %pop = load ptr, ptr %pop.p
  %popped = call i32 %pop(ptr %previous)
  ret i32 %second
}

define ptr @tw_cuda_launch(ptr %self, ptr %args, i64 %nargs) nounwind {
entry:
  %extents = alloca [3 x i64], align 16
  %record = call ptr @PyLong_AsVoidPtr(ptr %self)
  %given.p = getelementptr i8, ptr %record, i64 32
  %given = load i64, ptr %given.p
  %expected = add i64 %given, 2
  %right = icmp eq i64 %nargs, %expected
  br i1 %right, label %grid, label %bad.call
bad.call:
  %s4 = call ptr @code(i64 4)
  ret ptr %s4
grid:
  %count.p = getelementptr i8, ptr %record, i64 40
  %count = load i64, ptr %count.p
  %maps.p = getelementptr i8, ptr %record, i64 56
  %maps = load i64, ptr %maps.p
  %room1 = add i64 %count, %maps
  %room = add i64 %room1, 1
  %slots = alloca i64, i64 %room, align 16
  %params = alloca ptr, i64 %room, align 16
  %grid.o = load ptr, ptr %args
  %total = call i64 @read_grid(ptr %grid.o, ptr %extents)
  %bad = icmp slt i64 %total, 0
  br i1 %bad, label %bad.grid, label %limits
bad.grid:
  %s1 = call ptr @code(i64 1)
  ret ptr %s1
limits:
  %programs = load i64, ptr %extents
  %cluster.p = getelementptr i8, ptr %record, i64 24
  %size32 = load i32, ptr %cluster.p
  %size = zext i32 %size32 to i64
  %x = mul i64 %programs, %size
  store i64 %x, ptr %extents
  %y.p = getelementptr i64, ptr %extents, i64 1
  %y = load i64, ptr %y.p
  %z.p = getelementptr i64, ptr %extents, i64 2
  %z = load i64, ptr %z.p
  %most = udiv i64 2147483647, %size
  %wide = icmp ugt i64 %programs, %most
  %high = icmp ugt i64 %y, 65535
  %deep = icmp ugt i64 %z, 65535
  %over1 = or i1 %wide, %high
  %over = or i1 %over1, %deep
  br i1 %over, label %bad.grid, label %streams
streams:
  %stream.pp = getelementptr ptr, ptr %args, i64 1
  %stream.o = load ptr, ptr %stream.pp
  %stream = call ptr @PyLong_AsVoidPtr(ptr %stream.o)
  br label %head
head:
  %i = phi i64 [ 0, %streams ], [ %i.next, %next ], [ %i.next, %skip ], [ %i.next, %folded ]
  %s = phi i64 [ 0, %streams ], [ %s.next, %next ], [ %s, %skip ], [ %s, %folded ]
  %more = icmp ult i64 %i, %given
  br i1 %more, label %fetch, label %packed
fetch:
  %i.next = add i64 %i, 1
  %place = add i64 %i, 2
  %object.p = getelementptr ptr, ptr %args, i64 %place
  %object = load ptr, ptr %object.p
  %kind.o = add i64 %i, 72
  %kind.p = getelementptr i8, ptr %record, i64 %kind.o
  %kind = load i8, ptr %kind.p
  %condition.p = getelementptr i8, ptr %kind.p, i64 %given
  %condition = load i8, ptr %condition.p
  %slot = getelementptr i64, ptr %slots, i64 %s
  %param = getelementptr ptr, ptr %params, i64 %s
  store ptr %slot, ptr %param
  switch i8 %kind, label %number [ i8 9, label %skip
    i8 10, label %blob ]
skip:
  %unasked = icmp eq i8 %condition, 0
  br i1 %unasked, label %head, label %folded
folded:
  %one = call i64 @fetch(i8 4, ptr %object)
  %still.one = call i1 @holds(i8 %condition, i64 %one)
  br i1 %still.one, label %head, label %other
number:
  %value = call i64 @fetch(i8 %kind, ptr %object)
  store i64 %value, ptr %slot
  %as.before = call i1 @holds(i8 %condition, i64 %value)
  br i1 %as.before, label %next, label %other
other:
  call void @PyErr_Clear()
  %s5 = call ptr @code(i64 OTHER_CASE)
  ret ptr %s5
blob:
  %at = call ptr @PyLong_AsVoidPtr(ptr %object)
  store ptr %at, ptr %param
  br label %next
next:
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
  %mapped = icmp ne i64 %maps, 0
  br i1 %mapped, label %encode, label %finish
encode:
  %bytes = mul i64 %maps, 128
  %space = alloca i8, i64 %bytes, align 64
  %map.params = getelementptr ptr, ptr %params, i64 %count
  %map.code = call i32 @maps_in_context(ptr %record, i64 %maps, ptr %slots, ptr %space, ptr %map.params)
  %map.wrong = icmp ne i32 %map.code, 0
  br i1 %map.wrong, label %bad.map, label %finish
bad.map:
  %m64 = zext i32 %map.code to i64
  %m.told = add i64 %m64, MAP_ERROR
  %sm = call ptr @code(i64 %m.told)
  ret ptr %sm
finish:
  %fault.p = getelementptr i8, ptr %record, i64 48
  %fault = load i64, ptr %fault.p
  %last = add i64 %count, %maps
  %last.slot = getelementptr i64, ptr %slots, i64 %last
  store i64 %fault, ptr %last.slot
  %last.param = getelementptr ptr, ptr %params, i64 %last
  store ptr %last.slot, ptr %last.param
  call void @remember(ptr %record)
  %saved = call ptr @PyEval_SaveThread()
  %result = call i32 @submit_in_context(ptr %record, ptr %extents, ptr %stream, ptr %params)
  call void @PyEval_RestoreThread(ptr %saved)
  %wrong = icmp ne i32 %result, 0
  br i1 %wrong, label %refused, label %none
refused:
  %r64 = zext i32 %result to i64
  %told = add i64 %r64, 1000
  %sr = call ptr @code(i64 %told)
  ret ptr %sr
none:
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}
"""


def launcher_ir() -> str:
    """The module's text."""
    return (
        LAUNCHER.replace("READ_GRID", READ_GRID)
        .replace("FETCH", FETCH)
        .replace("HOLDS", HOLDS)
        .replace("OTHER_CASE", str(OTHER_CASE))
        .replace("ENCODE_MAPS", ENCODE)
        .replace("MAP_ERROR", str(MAP_ERROR))
        .replace("INVALID_CONTEXT", str(INVALID_CONTEXT))
        .replace("STATE_WORDS", str(STATE_WORDS))
        .replace("RING", str(RING))
    )
