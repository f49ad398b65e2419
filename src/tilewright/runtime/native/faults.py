"""Host code of the report that a kernel's memory fault gets: written from the signal's handler with `write` alone."""

from __future__ import annotations

from tilewright.runtime.native.language import *
from tilewright.runtime.native.records import *
from tilewright.runtime.native.signals import *

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
