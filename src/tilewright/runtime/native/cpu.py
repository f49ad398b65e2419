"""Host code of the CPU's launcher.

`tw_launch` is a METH_FASTCALL function for every kernel: its `self` is a Python integer, the address of a `Record`;
its arguments are a grid tuple and the runtime arguments. It packs argument slots, decides how many threads to use,
lets go of the GIL, runs the programs and reports faults.
"""

from __future__ import annotations

from tilewright.runtime.drivers.argument_guards import ANY, OTHER_CASE
from tilewright.runtime.native.language import *
from tilewright.runtime.native.pool import pool_run, run_part
from tilewright.runtime.native.python import *
from tilewright.runtime.native.records import *
from tilewright.runtime.native.signals import launch_begins, launch_ends, stopped, watch_interrupts


def tw_spin(turns: i64) -> None:
    """The loop of a waiting thread, to be timed."""
    for _ in range(turns):
        pause()


def tw_array_address(self: ptr, array: NumpyArray) -> ptr:
    """Address of a NumPy array's data."""
    return PyLong_FromUnsignedLongLong(array.data)


def gomp_part(job: Job) -> None:
    """A part of a job on a thread of libgomp's."""
    index = i64(call(i32, tw_state.gomp_thread_number))
    run_part(job, index, i64(call(i32, tw_state.gomp_threads)))


def run_all(job: Job, threads: i64) -> None:
    """Run all programs of a job, on this thread alone if no other is available."""
    if threads > 1:
        if tw_state.gomp_parallel:
            call(None, tw_state.gomp_parallel, gomp_part, job, i32(threads), i32(0))
            return
        if pool_run(job, threads):
            return
    run_part(job, 0, 1)


def threads_for(record: Record, programs: i64) -> i64:
    """Number of threads for a launch."""
    if programs <= record.inline_programs or tw_state.thread_limit <= 1:
        return 1
    n = min(programs // record.programs_per_thread, tw_state.thread_limit)
    if tw_state.gomp_parallel:
        n = min(n, i64(call(i32, tw_state.gomp_max_threads)))
    return n


def pack(record: Record, args: Pointers, slots: Words) -> i64:
    """Fill the argument slots; 0, or why the kernel is not to be launched."""
    at = i64(0)
    given = record.arguments
    for i in range(given):
        item = args[i + 1]
        kind = record.kinds[i]
        condition = record.kinds[given + i]
        if kind == SKIP and condition == ANY:
            continue
        written = kind == NUMPY_WRITTEN
        if written or kind == NUMPY:
            array: NumpyArray = item
            if written and array.flags & NUMPY_WRITEABLE == 0:
                return READ_ONLY
            value = array.data
        else:
            value = fetch(INT if kind == SKIP else kind, item)
        if not meets(condition, value):
            PyErr_Clear()
            return OTHER_CASE
        if kind != SKIP:
            slots[at] = value
            at += 1
    return 0


def run_job(job: Job, record: Record) -> None:
    """All programs, without the GIL unless they are short."""
    launch_begins(job)
    threads = threads_for(record, job.programs)
    if job.programs <= record.programs_under_gil and threads <= 1:
        run_part(job, 0, 1)
    else:
        watch_interrupts(record)
        saved = PyEval_SaveThread()
        run_all(job, threads)
        PyEval_RestoreThread(saved)
    launch_ends(job)


def tw_launch(self: ptr, args: Pointers, nargs: i64) -> ptr:
    """See the module. Returns None, an integer (a code of `python`), (program, site) of a failed assertion, or
    (signal, offset in the code, address) of a memory fault."""
    record: Record = PyLong_AsVoidPtr(self)
    if nargs != record.arguments + 1:
        return PyLong_FromLongLong(BAD_CALL)
    slots = local(i64, record.slots + 3)
    programs = read_grid(args[0], ref(slots[record.slots]))
    if programs < 0:
        return PyLong_FromLongLong(BAD_GRID)
    code = pack(record, args, slots)
    if code != 0:
        return PyLong_FromLongLong(code)
    if PyErr_Occurred():
        return None
    if programs == 0:
        return none()
    job = local(Job, align=64)
    memset(job, i32(0), sizeof(Job))
    job.kernel = record.kernel
    job.slots = slots
    job.programs = programs
    job.scratch_bytes = record.scratch_bytes
    job.record = record
    run_job(job, record)
    if atomic(job.stop) != 0:
        return stopped(job, record)
    if atomic(job.fault[0], order="acquire") != 0:
        return Py_BuildValue("(LL)", job.fault[1], job.fault[2])
    if job.out_of_memory != 0:
        return PyLong_FromLongLong(OUT_OF_MEMORY)
    return none()
