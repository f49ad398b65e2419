"""Structures shared by native host code and Python: a kernel's launch record, a launch's job, the process state."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_uint8, c_uint32, c_void_p

from tilewright.runtime.native.language import *


class Previous(ctypes.Structure):
    """A signal's handler found before, and its flags."""

    _fields_ = [("handler", c_void_p), ("flags", c_int64)]


class State(ctypes.Structure):
    """Process state: libgomp's functions, if any, the thread pool, and data for the signal handlers."""

    _fields_ = [
        ("gomp_parallel", c_void_p),
        ("gomp_thread_number", c_void_p),
        ("gomp_threads", c_void_p),
        ("gomp_max_threads", c_void_p),
        ("thread_limit", c_int64),
        ("pool", c_void_p),
        ("scratch_key", c_uint32),
        ("record_key", c_uint32),  # of `ThreadRecord`s
        ("spin_turns", c_int64),
        ("main_thread", c_int64),
        ("main_job", c_void_p),
        ("watch", c_void_p),  # a Python function that takes SIGINT again
        ("declined", c_void_p),  # a handler not to replace
        ("interrupts", c_int64),  # as many stop a launch
        ("previous", Previous * 4),
        ("watched_at", c_int64),  # cycles, when SIGINT's handler was last looked at
    ]


class Record(ctypes.Structure):
    """Launch record: a kernel and the kinds of its arguments, shared by all its launches."""

    _fields_ = [
        ("kernel", c_void_p),
        ("slots", c_int64),
        ("scratch_bytes", c_int64),
        ("inline_programs", c_int64),  # run by one thread at most
        ("programs_per_thread", c_int64),  # at least
        ("programs_under_gil", c_int64),  # at most
        ("arguments", c_int64),
        ("label", c_void_p),
        ("kinds", c_uint8 * 0),  # one an argument, then one condition each (`argument_guards`)
    ]


class Job(ctypes.Structure):
    """One launch."""

    _fields_ = [
        ("kernel", c_void_p),
        ("slots", c_void_p),
        ("programs", c_int64),
        ("scratch_bytes", c_int64),
        ("fault", c_int64 * 3),  # state, program, site of the first failed assertion
        ("out_of_memory", c_int64),
        ("stop", c_int64),  # `signals.enter` has its place in assembly
        ("threads", c_int64),  # the `ThreadRecord`s at work, a list
        ("record", c_void_p),
        ("fault_pc", c_int64),
        ("fault_address", c_int64),
        ("fault_signal", c_int64),
        ("interrupts", c_int64),
    ]


class ThreadWords(ctypes.Structure):
    """Per-thread data that a kernel's code reads (`backends.cpu`)."""

    _fields_ = [
        ("scratch", c_void_p),
        ("index", c_int64),
        ("fault", c_void_p),
        ("printing", c_int64),
        ("stop_after_printing", c_int64),
    ]


#: number of the system call, by architecture
FUTEXES = {"x86_64": 202, "amd64": 202, "aarch64": 98, "arm64": 98}

tw_state = State()


def memset(to: ptr, value: i32, size: i64) -> ptr: ...
def free(memory: ptr) -> None: ...
def aligned_alloc(alignment: i64, size: i64) -> ptr: ...
def pthread_create(thread: ptr, attributes: ptr, start: ptr, argument: ptr) -> i32: ...
def pthread_getspecific(key: i32) -> ptr: ...
def pthread_setspecific(key: i32, value: ptr) -> i32: ...
def syscall(number: i64, *values: ptr) -> i64: ...


def first_program(programs: i64, part: i64, parts: i64) -> i64:
    """First program of a thread: contiguous blocks, so that a thread accesses the same data in every launch."""
    return programs // parts * part + min(part, programs % parts)
