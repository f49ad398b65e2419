"""Host code means natively what it means in Python."""

import ctypes
import itertools
import platform
import sys

import pytest

from tilewright.runtime.drivers import cpu
from tilewright.runtime.drivers.native_code import NativeLinker, optimized
from tilewright.runtime.native.compiler import llvm_ir
from tilewright.runtime.native.kinds import HostCodeError
from tilewright.runtime.native.language import (
    bits,
    call,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
    local,
    overflows,
    ref,
)
from tilewright.runtime.native.records import Job, first_program

LIMIT = 7


def collatz(n: i64) -> i64:
    """Loops, a ternary, chained comparisons, short circuits."""
    steps = i64(0)
    while True:
        if not 1 < n < 1 << 40 or (steps > 5 and n == 4):
            break
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    for i in range(1, LIMIT):
        if i == 3:
            continue
        steps += i
        if i == 5:
            break
    return steps if n <= LIMIT and steps else -steps


def narrowed(value: i64) -> i64:
    return i64(i8(value)) * 1000 + i64(i32(value) >> 28)


def of_float(value: f64) -> i64:
    return bits(value) ^ bits(f32(value))


def product_fits(a: i64, b: i64) -> i1:
    return not overflows(a, b)


def through_memory(a: i64, b: i64) -> i64:
    jobs = local(Job, 2)
    job: Job = jobs[1]
    job.programs = a
    job.fault[2] = b
    words = ref(job.fault[1])
    words[0] = 5
    later = call(i64, twice, job.fault[2])
    return job.programs + job.fault[1] * later


def twice(value: i64) -> i64:
    return value + value


def adds_an_address(value: i32) -> i64:
    return value + i64(3)


def native(function, result, *arguments):
    linker = NativeLinker()
    from llvmlite import binding

    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine()
    code = machine.emit_object(optimized(llvm_ir(function), machine))
    linked = linker.link(code, function.__name__)
    return linked, ctypes.CFUNCTYPE(result, *arguments)(linked[function.__name__])


def test_control_flow():
    keep, call = native(collatz, ctypes.c_int64, ctypes.c_int64)
    assert [call(n) for n in range(-3, 60)] == [collatz(n) for n in range(-3, 60)]
    del keep


def test_parts_cover_all_programs():
    keep, call = native(first_program, ctypes.c_int64, *[ctypes.c_int64] * 3)
    for programs, parts in ((10, 3), (2, 4), (4096, 7)):
        starts = [first_program(programs, i, parts) for i in range(parts + 1)]
        assert starts == [call(programs, i, parts) for i in range(parts + 1)]
        sizes = [b - a for a, b in itertools.pairwise(starts)]
        assert starts[0] == 0 and starts[-1] == programs and max(sizes) - min(sizes) <= 1
    del keep


def test_numbers():
    keep, call = native(narrowed, ctypes.c_int64, ctypes.c_int64)
    assert call(0x1_F000_00FF) == -1000 + 15
    kept, of_bits = native(of_float, ctypes.c_int64, ctypes.c_double)
    assert of_bits(1.0) == 0x3FF0000000000000 ^ 0x3F800000
    also, fits = native(product_fits, ctypes.c_bool, ctypes.c_int64, ctypes.c_int64)
    assert fits(sys.maxsize, 1) and not fits(sys.maxsize, 2)
    del keep, kept, also


def test_memory():
    keep, call = native(through_memory, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    assert call(11, 4) == 11 + 5 * 8
    del keep


def test_kinds_do_not_mix():
    with pytest.raises(HostCodeError, match="line"):
        llvm_ir(adds_an_address)


@pytest.mark.parametrize("machine", ["aarch64", "x86_64"])
def test_the_launcher_of_other_machines(machine, monkeypatch):
    from llvmlite import binding

    monkeypatch.setattr(platform, "machine", lambda: machine)
    text = cpu._host_code()
    binding.parse_assembly(text).verify()
    assert ("pushq" in text) == ("tw_on_fault" in text) == (machine == "x86_64")
    assert ("yield" in text) == (machine == "aarch64")
