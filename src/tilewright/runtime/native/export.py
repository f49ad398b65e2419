"""Host code of exported functions: it needs libc and pthreads only, and keeps nothing between calls."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

from tilewright.runtime.export.interface import ASSERT_FAILED, OUT_OF_MEMORY
from tilewright.runtime.native.language import *
from tilewright.runtime.native.records import *

MOST_THREADS = 256
#: number of `sysconf`'s _SC_NPROCESSORS_ONLN
CORES = 0
RUN_HERE = -1


class Part(ctypes.Structure):
    """The programs of one thread, and the thread; `number` is RUN_HERE if no thread was available."""

    _fields_ = [("job", c_void_p), ("number", c_int64), ("parts", c_int64), ("thread", c_int64)]


def pthread_join(thread: i64, result: ptr) -> i32: ...
def sysconf(what: i32) -> i64: ...


def run_part(part: Part) -> ptr:
    """The programs of one thread."""
    job: Job = part.job
    thread = local(ThreadWords)
    memset(thread, i32(0), sizeof(ThreadWords))
    if job.scratch_bytes != 0:
        thread.scratch = aligned_alloc(64, (job.scratch_bytes + 63) & -64)
        if not thread.scratch:
            set_atomic(job.out_of_memory, 1, order="monotonic")
            return None
    thread.index = part.number
    thread.fault = job.fault
    first = first_program(job.programs, part.number, part.parts)
    last = first_program(job.programs, part.number + 1, part.parts)
    call(i32, job.kernel, job.slots, first, last, thread)
    free(thread.scratch)
    return None


def threads_for(programs: i64, wanted: i32, grain: i64) -> i64:
    """The number of threads: at most as requested, one per `grain` programs."""
    useful = min(programs // grain, MOST_THREADS)
    if useful <= 1 or wanted == 1:
        return 1
    return min(useful, i64(wanted) if wanted > 0 else max(sysconf(CORES), 1))


def run(kernel: ptr, slots: ptr, programs: i64, wanted: i32, scratch: i64, grain: i64) -> i32:
    """Programs 0 … programs - 1 of a kernel; a result code."""
    job = local(Job, align=64)
    memset(job, i32(0), sizeof(Job))
    job.kernel = kernel
    job.slots = slots
    job.programs = programs
    job.scratch_bytes = scratch
    parts = local(Part, MOST_THREADS)
    n = threads_for(programs, wanted, grain)
    for number in range(n):
        i = n - 1 - number  # the first part is this thread's own
        part: Part = parts[i]
        part.job = job
        part.number = i
        part.parts = n
        if i == 0 or pthread_create(ref(part.thread), None, run_part, part) != 0:
            run_part(part)
            part.number = RUN_HERE
    for i in range(n):
        other: Part = parts[i]
        if other.number != RUN_HERE:
            pthread_join(other.thread, None)
    if atomic(job.fault[0], order="acquire") != 0:
        return i32(job.fault[2]) + ASSERT_FAILED
    return i32(OUT_OF_MEMORY if job.out_of_memory != 0 else 0)


def count_programs(x: i64, y: i64, z: i64) -> i64:
    """The product of a grid's extents, -1 if it is none."""
    if x < 0 or y < 0 or z < 0 or overflows(x, y) or overflows(x * y, z):
        return -1
    return x * y * z
