"""Host code that stops and reports kernels: signal handlers and the way out of a kernel.

A kernel is entered through `enter`, which keeps the callee-saved registers and the stack pointer in a record of
its thread. A handler that finds its thread between `enter` and the kernel's return may send it back to `enter`
by changing the registers that the signal's return restores: nothing is polled, and kernels hold no locks but C's
while they print, which they say in their thread words (`backends.cpu.lower.output`).

    SIGINT    runs Python's own handler; on the main thread it then stops the launch of that thread, on any other
              it tells the main thread to
    SIGURG    of ours (its value says so): stop this thread's part, or as the main thread stop the launch
    SIGSEGV, SIGBUS   in a kernel: write what ran and where, stop the launch, let Python say the rest

All other signals of these numbers go to the handlers found before.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint64, c_void_p
from typing import Any

from tilewright.runtime.native.language import *
from tilewright.runtime.native.python import Py_BuildValue, PyErr_Clear
from tilewright.runtime.native.records import *

SIGINT, SIGBUS, SIGSEGV, SIGURG = 2, 7, 11, 23
#: for handlers of a thread that has no such stack; AVX-512 and AMX state take 11 KiB of it
STACK_BYTES = 128 << 10
SS_DISABLE, SI_QUEUE, SI_TKILL = 2, -1, -6
#: where handlers found before are kept in the state
PREVIOUS = {SIGINT: 0, SIGSEGV: 1, SIGBUS: 2, SIGURG: 3}
BEFORE_SIGINT, BEFORE_SIGSEGV, BEFORE_SIGBUS, BEFORE_SIGURG = PREVIOUS.values()
#: cycles after which short launches look at SIGINT's handler again: to ask takes 0.2 us and more
WATCH_CYCLES = 1_000_000


class Sigaction(ctypes.Structure):
    """Linux's `struct sigaction` as the C library has it."""

    _fields_ = [
        ("handler", c_void_p),
        ("mask", c_uint64 * 16),
        ("flags", c_int32),
        ("restorer", c_void_p),
    ]


class SignalStack(ctypes.Structure):
    """`stack_t`."""

    _fields_ = [("memory", c_void_p), ("flags", c_int32), ("size", c_int64)]


class SignalInfo(ctypes.Structure):
    """`siginfo_t`: `address` of faults, `value` of queued signals."""

    _fields_ = [
        ("signal", c_int64),
        ("code", c_int32),
        ("address", c_int64),
        ("value", c_int64),
    ]


class Context(ctypes.Structure):
    """`ucontext_t` of Linux on x86-64: the registers that the return from a handler restores."""

    _fields_ = [("head", c_uint8 * 160), ("rsp", c_int64), ("rip", c_int64)]


class ThreadRecord(ctypes.Structure):
    """A thread that runs kernels, followed by a signal stack if it had none."""

    _fields_ = [
        (
            "stack_pointer",
            c_int64,
        ),  # inside a kernel, else 0; known to `enter`, as are the next two
        ("job", c_void_p),
        ("way_out", c_int64),
        ("next", c_int64),  # of the job
        ("thread", c_int64),
        ("first", c_int64),
        ("last", c_int64),
        ("words", c_void_p),
        ("stack", c_uint8 * 0),
    ]


def pthread_self() -> i64: ...
def pthread_sigqueue(thread: i64, signal: i32, value: i64) -> i32: ...
def sigaction(signal: i32, new: ptr, old: ptr) -> i32: ...
def sigaltstack(new: ptr, old: ptr) -> i32: ...
def malloc(size: i64) -> ptr: ...
def __errno_location() -> Ints: ...
def llvm_readcyclecounter() -> i64: ...
def PyObject_CallNoArgs(function: ptr) -> ptr: ...
def Py_DecRef(item: ptr) -> None: ...


#: kernel(slots, first, last, thread), or -1 where its job is stopped
enter = External(
    "enter",
    "i32",
    ("ptr", "i64", "i64", "ptr", "ptr", "ptr"),
    """
define internal i32 @"enter"(ptr %slots, i64 %first, i64 %last, ptr %thread, ptr %kernel, ptr %record) naked noinline nounwind {
  call void asm sideeffect "
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    pushq %r9
    leaq 2f(%rip), %rax
    movq %rax, 16(%r9)
    movq %rsp, (%r9)
    movq 8(%r9), %rax
    cmpq $$0, 64(%rax)
    jne 2f
    callq *%r8
  1:
    movq (%rsp), %r9
    movq $$0, (%r9)
    popq %r9
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    retq
  2:
    movl $$-1, %eax
    jmp 1b", ""()
  unreachable
}
""",
)


def enter_plainly(slots: ptr, first: i64, last: i64, thread: ptr, kernel: ptr, record: ptr) -> i32:
    """`enter` where no kernel can be stopped."""
    return call(i32, kernel, slots, first, last, thread)


# ---- records of threads -------------------------------------------------------------------------


def new_thread_record() -> ThreadRecord:
    """A record of this thread, and a stack for handlers if it has none; null without memory."""
    old = local(SignalStack)
    sigaltstack(None, old)
    none = old.flags & SS_DISABLE != 0
    record: ThreadRecord = malloc(sizeof(ThreadRecord) + (STACK_BYTES if none else 0))
    if record:
        record.stack_pointer = 0
        record.thread = pthread_self()
        if none:
            stack = local(SignalStack)
            stack.memory = record.stack
            stack.flags = 0
            stack.size = STACK_BYTES
            sigaltstack(stack, None)
        pthread_setspecific(tw_state.record_key, record)
    return record


def tw_thread_ends(record: ThreadRecord) -> None:
    """At the end of a thread: its record, which may hold its handlers' stack."""
    stack = local(SignalStack)
    sigaltstack(None, stack)
    if stack.memory == record.stack:
        stack.flags = SS_DISABLE
        sigaltstack(stack, None)
    free(record)


def this_thread() -> ThreadRecord:
    """The record of the thread that asks, or null."""
    return pthread_getspecific(tw_state.record_key)


def thread_record(job: Job, first: i64, last: i64, words: ThreadWords, parts: i64) -> ThreadRecord:
    """This thread's record, filled for a part of the job and among those of the job; null without memory."""
    record = this_thread()
    if not record:
        record = new_thread_record()
        if not record:
            return record
    record.job = job
    record.first = first
    record.last = last
    record.words = words
    if parts == 1:
        record.next = 0
        set_volatile(job.threads, i64(record))
        return record
    record.next = atomic(job.threads)
    while not compare_exchange(job.threads, record.next, i64(record)):
        record.next = atomic(job.threads)
    return record


def no_thread_record(job: Job, first: i64, last: i64, words: ThreadWords, parts: i64) -> State:
    """`thread_record` where no kernel can be stopped: none is needed."""
    return tw_state


# ---- launches -----------------------------------------------------------------------------------


def launch_begins(job: Job) -> None:
    """Note which job an interrupt of the main thread stops."""
    if pthread_self() == tw_state.main_thread:
        set_volatile(tw_state.main_job, job)


def launch_ends(job: Job) -> None:
    """The main thread's job is over."""
    if volatile(tw_state.main_job) == job:
        set_volatile(tw_state.main_job, None)


def watch_interrupts(record: Record) -> None:
    """Before a launch of some length on the main thread: the handler of SIGINT may have been replaced.

    Long programs ask at every launch, others once in a while.
    """
    if not volatile(tw_state.main_job) or not tw_state.watch:
        return
    cycle = llvm_readcyclecounter()
    if record.programs_under_gil != 0 and 0 <= cycle - tw_state.watched_at <= WATCH_CYCLES:
        return
    tw_state.watched_at = cycle
    now = local(Sigaction)
    sigaction(SIGINT, None, now)
    if now.handler == tw_on_interrupt or now.handler == tw_state.declined:
        return
    result = PyObject_CallNoArgs(tw_state.watch)
    if result:
        Py_DecRef(result)
    else:
        PyErr_Clear()


def do_nothing(what: ptr) -> None:
    """`launch_begins`, `launch_ends` and `watch_interrupts` where no kernel can be stopped."""


def PyErr_CheckSignals() -> i32: ...
def PyErr_SetNone(kind: ptr) -> None: ...


PyExc_KeyboardInterrupt = External("PyExc_KeyboardInterrupt")


def stopped(job: Job, record: Record) -> ptr:
    """The result of a stopped launch: a description of the fault, or the interrupt's exception."""
    if job.fault_pc != 0:
        offset = job.fault_pc - i64(record.kernel)
        return Py_BuildValue("(LLL)", job.fault_signal, offset, job.fault_address)
    # the user's handler returned; the kernel was stopped all the same
    if PyErr_CheckSignals() == 0:
        kinds: Pointers = PyExc_KeyboardInterrupt
        PyErr_SetNone(kinds[0])
    return None


#: functions for machines where no kernel can be stopped
WITHOUT: dict[Any, Any] = {
    enter: enter_plainly,
    thread_record: no_thread_record,
    launch_begins: do_nothing,
    launch_ends: do_nothing,
    watch_interrupts: do_nothing,
}


# ---- stopping -----------------------------------------------------------------------------------


def fan_out(job: Job, mine: ThreadRecord) -> None:
    """Tell the other threads of a job to leave it."""
    at = atomic(job.threads)
    while at != 0:
        record: ThreadRecord = pointer(at)
        if record != mine:
            pthread_sigqueue(record.thread, SIGURG, i64(tw_state))
        at = record.next


def stop_part(record: ThreadRecord, context: Context) -> None:
    """Leave the kernel that this thread is in, or let it finish printing first."""
    if not record or volatile(record.stack_pointer) == 0:
        return
    job: Job = record.job
    if volatile(job.stop) == 0:
        return
    words: ThreadWords = record.words
    if volatile(words.printing) != 0:
        set_volatile(words.stop_after_printing, 1)
    else:
        leave(record, context)


def leave(record: ThreadRecord, context: Context) -> None:
    """Make the signal that is being handled return to `enter`."""
    context.rsp = record.stack_pointer
    context.rip = record.way_out


def stop_launch(context: Context) -> None:
    """On the main thread: one more interrupt of its launch."""
    job: Job = volatile(tw_state.main_job)
    if not job:
        return
    job.interrupts += 1
    if job.interrupts < tw_state.interrupts:
        return
    set_atomic(job.stop, 1)
    record = this_thread()
    fan_out(job, record)
    stop_part(record, context)


def chain(before: Previous, signal: i32, info: ptr, context: ptr) -> i1:
    """The handler that was there before, if it is a function."""
    if 0 <= i64(before.handler) < 2:  # SIG_DFL, SIG_IGN
        return False
    call(None, before.handler, signal, info, context)
    return True


def tw_on_interrupt(signal: i32, info: ptr, context: Context) -> None:
    """The handler of SIGINT."""
    errno = __errno_location()
    kept = errno[0]
    chain(tw_state.previous[BEFORE_SIGINT], signal, info, context)
    if pthread_self() == tw_state.main_thread:
        stop_launch(context)
    else:
        pthread_sigqueue(tw_state.main_thread, SIGURG, i64(tw_state) + 1)
    errno[0] = kept


def tw_on_urgent(signal: i32, info: SignalInfo, context: Context) -> None:
    """The handler of SIGURG."""
    errno = __errno_location()
    kept = errno[0]
    told = info.value - i64(tw_state)
    if info.code == SI_QUEUE and told == 0:
        stop_part(this_thread(), context)
    elif info.code == SI_QUEUE and told == 1:
        stop_launch(context)
    else:
        chain(tw_state.previous[BEFORE_SIGURG], signal, info, context)
    errno[0] = kept


STANDARD_ERROR = 2
HELP = (
    " of the launch, on one thread\n  help: run it again with TILEWRIGHT_INTERPRET=1, which checks every access "
    "and names the line, the program and the lanes\n"
)


def write(file: i32, text: ptr, size: i64) -> i64: ...
def strlen(text: ptr) -> i64: ...


c_raise = External("raise", "i32", ("i32",))


def put(text: ptr) -> None:
    """Write a text."""
    write(STANDARD_ERROR, text, strlen(text))


def put_number(value: i64, hexadecimal: i1) -> None:
    """Write a number that is not negative, or the bits of any in hexadecimal."""
    digits: Bytes = local(i8, 24)
    at = i64(24)
    more = True
    while more:
        digit = value & 15 if hexadecimal else value % 10
        value = value >> 4 if hexadecimal else value // 10
        at -= 1
        digits[at] = i8(digit + (87 if digit > 9 else 48))
        more = value != 0
    write(STANDARD_ERROR, ref(digits[at]), 24 - at)


def report_fault(record: ThreadRecord, signal: i32, address: i64) -> None:
    """Say what ran; `address` is -1 where it is not known."""
    job: Job = record.job
    launch: Record = job.record
    put("\ntilewright: kernel ")
    put(launch.label)
    if signal == SIGBUS:
        put(" accessed memory that is not there (SIGBUS)")
    else:
        put(" accessed memory that it must not (SIGSEGV)")
    if address != -1:
        put(", address 0x")
        put_number(address, True)
    put("\n  ran at the time: programs ")
    put_number(record.first, False)
    put(" to ")
    put_number(record.last - 1, False)
    put(HELP)


def is_ours() -> i1:
    """Whether other threads can be told to stop."""
    urgent = local(Sigaction)
    sigaction(SIGURG, None, urgent)
    return urgent.handler == tw_on_urgent


def tw_on_fault(signal: i32, info: SignalInfo, context: Context) -> None:
    """The handler of SIGSEGV and SIGBUS."""
    sent = info.code <= 0
    record = this_thread()
    if record and volatile(record.stack_pointer) != 0:
        if sent and info.code == SI_TKILL:
            # faulthandler was first, and raises the signal again: what ran is still true, the address is lost
            report_fault(record, signal, -1)
        elif not sent and is_ours():
            job: Job = record.job
            if compare_exchange(job.fault_pc, 0, context.rip):
                job.fault_address = info.address
                job.fault_signal = i64(signal)
                report_fault(record, signal, info.address)
                set_atomic(job.stop, 1)
                fan_out(job, record)
            leave(record, context)
            return
    before = tw_state.previous[BEFORE_SIGBUS if signal == SIGBUS else BEFORE_SIGSEGV]
    if not chain(before, signal, info, context):
        default = local(Sigaction)
        memset(default, i32(0), sizeof(Sigaction))
        sigaction(signal, default, None)
        if sent:
            c_raise(signal)
