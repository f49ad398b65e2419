"""Host code of the thread pool: pthreads that spin a little, then sleep on a futex.

Worker 0 is the launching thread. A job wakes workers as a binary tree; each takes the part of the programs that its
number says.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_void_p

from tilewright.runtime.native.language import *
from tilewright.runtime.native.records import *
from tilewright.runtime.native.signals import enter, thread_record

#: number of the system call, which depends on the machine
FUTEX = 0
WAIT_PRIVATE, WAKE_PRIVATE = 128, 129
#: a thread's scratch is a power of two of pages; the first line holds its size
SCRATCH_HEAD, SCRATCH_PAGE = 64, 4096


class Worker(ctypes.Structure):
    """A thread of the pool, in a separate cache line."""

    _fields_ = [
        ("turn", c_int32),
        ("asleep", c_int32),
        ("pool", c_void_p),
        ("index", c_int64),
        ("rest", c_uint8 * 40),
    ]


class Pool(ctypes.Structure):
    """The pool. Fields written by different threads are in different cache lines."""

    _fields_ = [
        ("busy", c_int32),
        ("rest", c_uint8 * 60),
        ("pending", c_int32),
        ("launcher_asleep", c_int32),
        ("more", c_uint8 * 56),
        ("job", c_void_p),
        ("threads", c_int64),
        ("most", c_uint8 * 112),
        ("workers", Worker * 0),
    ]


def pthread_detach(thread: i64) -> i32: ...


def scratch(size: i64) -> ptr:
    """This thread's scratch, kept from launch to launch; null for none, and without memory."""
    if size == 0:
        return None
    old = pthread_getspecific(tw_state.scratch_key)
    if old:
        held: ThreadScratch = old
        if held.size >= size:
            return held.memory
        pthread_setspecific(tw_state.scratch_key, None)
        free(old)
    whole = (
        size + 2 * SCRATCH_HEAD + SCRATCH_PAGE - 1
    ) & -SCRATCH_PAGE  # kernels may read a line beyond
    new: ThreadScratch = aligned_alloc(SCRATCH_HEAD, whole)
    if not new:
        return None
    new.size = whole - SCRATCH_HEAD
    pthread_setspecific(tw_state.scratch_key, new)
    return new.memory


class ThreadScratch(ctypes.Structure):
    """Memory of a thread's own."""

    _fields_ = [("size", c_int64), ("rest", c_uint8 * 56), ("memory", c_uint8 * 0)]


def run_part(job: Job, part: i64, parts: i64) -> None:
    """The programs of one thread."""
    first = first_program(job.programs, part, parts)
    last = first_program(job.programs, part + 1, parts)
    if first == last:
        return
    thread = local(ThreadWords)
    memory = scratch(job.scratch_bytes)
    thread.scratch = memory
    thread.index = part
    thread.fault = job.fault
    thread.printing = 0
    thread.stop_after_printing = 0
    if memory or job.scratch_bytes == 0:
        record = thread_record(job, first, last, thread, parts)
        if record:
            enter(job.slots, first, last, thread, job.kernel, record)
            return
    set_atomic(job.out_of_memory, 1, order="monotonic")


def futex_wait(word: Ints, value: i32) -> None:
    """Sleep while there is `value`."""
    syscall(FUTEX, word, i32(WAIT_PRIVATE), value, None, None, i32(0))


def futex_wake(word: Ints) -> None:
    """Wake the threads that wait on an address."""
    syscall(FUTEX, word, i32(WAKE_PRIVATE), i32(1), None, None, i32(0))


def start_worker(pool: Pool, i: i64, n: i64) -> None:
    """Tell worker `i`, if it is one of the `n` at work, that there is a job."""
    if i < n:
        worker: Worker = pool.workers[i]
        atomic_add(worker.turn, 1)
        if atomic(worker.asleep) != 0:
            futex_wake(ref(worker.turn))


def start_children(pool: Pool, i: i64, n: i64) -> None:
    """The workers that worker `i` wakes."""
    start_worker(pool, 2 * i + 1, n)
    start_worker(pool, 2 * i + 2, n)


def next_turn(worker: Worker, turn: i32) -> i32:
    """Wait until there is another job."""
    for _ in range(volatile(tw_state.spin_turns)):
        now = atomic(worker.turn, order="acquire")
        if now != turn:
            return now
        pause()
    while True:
        set_atomic(worker.asleep, 1)
        if atomic(worker.turn) == turn:
            futex_wait(ref(worker.turn), turn)
        set_atomic(worker.asleep, 0)
        now = atomic(worker.turn, order="acquire")
        if now != turn:
            return now


def worker_main(worker: Worker) -> ptr:
    """The main function of a thread of the pool."""
    pool: Pool = worker.pool
    turn = i32(0)
    while True:
        turn = next_turn(worker, turn)
        job: Job = pool.job
        n = pool.threads
        start_children(pool, worker.index, n)
        run_part(job, worker.index, n)
        if atomic_add(pool.pending, -1) == 1 and atomic(pool.launcher_asleep) != 0:
            futex_wake(ref(pool.pending))


def tw_pool_start(pool: Pool, workers: i64) -> i64:
    """Number of workers that could be started, without the launcher."""
    thread = local(i64)
    for i in range(1, workers + 1):
        worker: Worker = pool.workers[i]
        worker.pool = pool
        worker.index = i
        if pthread_create(thread, None, worker_main, worker) != 0:
            return i - 1
        pthread_detach(thread[0])
    return workers


def wait_for_workers(pool: Pool) -> None:
    """Until all parts are done."""
    for _ in range(volatile(tw_state.spin_turns)):
        if atomic(pool.pending, order="acquire") == 0:
            return
        pause()
    set_atomic(pool.launcher_asleep, 1)
    left = atomic(pool.pending)
    while left != 0:
        futex_wait(ref(pool.pending), left)
        left = atomic(pool.pending)


def pool_run(job: Job, n: i64) -> i1:
    """Run a job on `n` threads; false if there is no pool or another thread is using it."""
    pool: Pool = tw_state.pool
    if not pool or not compare_exchange(pool.busy, 0, 1, order="acquire monotonic"):
        return False
    pool.job = job
    pool.threads = n
    set_atomic(pool.launcher_asleep, 0)
    set_atomic(pool.pending, i32(n) - 1)
    start_children(pool, 0, n)
    run_part(job, 0, n)
    wait_for_workers(pool)
    set_atomic(pool.busy, 0, order="release")
    return True
