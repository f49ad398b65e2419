"""Registers that the assembler is allowed so that more loads are in flight."""

import re
import struct
from dataclasses import replace

import pytest

import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.backends.nvidia.assemble import Assembled
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.bytes_in_flight import bytes_in_flight, round_trips
from tilewright.backends.nvidia.occupancy import CtaResources, most_registers, resident_ctas
from tilewright.backends.nvidia.ptx import waits_or_repeats
from tilewright.backends.nvidia.register_limits import (
    Made,
    limit_for_loads,
    limit_for_lone_ctas,
    limit_for_occupancy,
    with_all_registers,
    with_another_cta,
)
from tilewright.backends.nvidia.target import target_info
from tilewright.dtypes import constexpr
from tilewright.errors import OutOfResources
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

HOPPER = target_info("sm_90a")
LOAD_16, LOAD_2, OTHER = 0x981 | 6 << 73, 0x981 | 2 << 73, 0x221


def cubin(*instructions: int) -> bytes:
    """An ELF file with one section of code behind its headers, and one of data."""
    code = b"".join(struct.pack("<QQ", i & (1 << 64) - 1, i >> 64) for i in instructions)
    sections = struct.pack("<IIQQQQ", 0, 1, 6, 0, 192, len(code)).ljust(64, b"\0")
    sections += struct.pack("<IIQQQQ", 0, 1, 2, 0, 192, len(code)).ljust(64, b"\0")
    header = b"\x7fELF".ljust(40, b"\0") + struct.pack("<Q", 64) + bytes(10)
    return header + struct.pack("<HHH", 64, 2, 0) + sections + code


def issued(operation: int, sets: int = 7, waits: int = 0) -> int:
    return operation | sets << 110 | waits << 116


def test_loads_are_in_flight_until_something_waits_for_their_barrier():
    first, second = issued(LOAD_16, 0), issued(LOAD_16, 1)
    assert bytes_in_flight(cubin()) == bytes_in_flight(cubin(issued(OTHER))) == 0
    assert bytes_in_flight(cubin(first, issued(OTHER, waits=1), first)) == 16
    assert bytes_in_flight(cubin(first, issued(OTHER, waits=2), first)) == 32
    assert bytes_in_flight(cubin(first, second, issued(OTHER, waits=1), first, second)) == 48
    assert bytes_in_flight(cubin(issued(LOAD_2, 3), issued(LOAD_16, 4, waits=8))) == 16
    assert bytes_in_flight(cubin(issued(OTHER, 0), issued(LOAD_2, 0), issued(LOAD_2, 1))) == 4


def test_loads_behind_a_wait_for_loads_are_another_round_trip():
    first, second, third = (issued(LOAD_16, i) for i in range(3))
    assert round_trips(cubin()) == round_trips(cubin(issued(OTHER, waits=1))) == 0
    assert round_trips(cubin(first, second, issued(OTHER, waits=3))) == 1
    assert round_trips(cubin(first, issued(OTHER, waits=2), second)) == 1
    # the third waits for the first only, as the second does
    assert round_trips(cubin(first, issued(OTHER, waits=1), second, third)) == 2
    assert round_trips(cubin(first, issued(LOAD_16, 1, waits=1), issued(LOAD_16, 2, waits=2))) == 3


@pytest.mark.parametrize(("registers", "trips", "cluster", "taken", "asked"), [
    (85, {80: 5, 128: 2}, 8, 128, [80, 128]),  # more registers: all loads at once
    (108, {104: 2, 128: 4}, 8, 104, [104]),  # fewer: what is computed first waits for less
    (94, {88: 3, 128: 3, 104: 2}, 8, 104, [88, 128, 104]),
    (94, {88: 4, 128: 3, 104: 3}, 8, 94, [88, 128, 104]),
    (85, {}, 1, 85, []),  # other CTAs do not wait for it
    (64, {}, 8, 64, []),  # two of them share an SM
])  # fmt: skip
def test_a_lone_cta_loads_in_few_round_trips(monkeypatch, registers, trips, cluster, taken, asked):
    limits = []

    def code(count):
        return cubin(*[issued(LOAD_16, 0, waits=1) for _ in range(count)])

    def assemble(ptx, *_):
        limits.append(int(re.search(r"maxnreg (\d+)", ptx)[1]))
        return Assembled(code(trips[limits[-1]]), registers=limits[-1])

    monkeypatch.setattr("tilewright.backends.nvidia.register_limits.assemble", assemble)
    found = Assembled(code(3), registers=registers)
    made = Made(".maxntid 512", found, CtaResources(512, 0, 0), HOPPER, Options())
    assert limit_for_lone_ctas(made, cluster).assembled.registers == taken
    assert limits == asked


def back(instructions: int) -> int:
    """A branch to so many instructions before it."""
    distance = -4 * (instructions + 1)
    return 0x947 | (distance & 0xFF) << 16 | (distance >> 8 & (1 << 30) - 1) << 34


def test_the_loop_that_loads_the_most_counts():
    """The first of several, and the rest of the code where that loads more than twice as much."""
    load, use = issued(LOAD_16, 0), issued(OTHER, waits=1)
    many, one = [load, load, load, use], [load, use] * 3
    other = [issued(OTHER)] * 150
    assert bytes_in_flight(cubin(*many, back(4))) == 48
    assert bytes_in_flight(cubin(*one, back(6), use, *many, back(4))) == 16
    assert bytes_in_flight(cubin(*many, back(4), use, *one, back(6))) == 48
    assert bytes_in_flight(cubin(*many, *other, back(154), load, use, back(2))) == 48
    assert bytes_in_flight(cubin(*one, back(6), *many, back(4), back(12))) == 16
    assert bytes_in_flight(cubin(*many, load, use, back(2))) == 48
    assert bytes_in_flight(cubin(load, load, use, load, use, back(2))) == 16
    assert bytes_in_flight(cubin(*many, use, back(0))) == 48  # a branch to itself ends the program


@pytest.mark.parametrize("threads", [32, 96, 128, 256, 416, 512, 1024])
def test_most_registers_leave_as_many_ctas(threads):
    for registers in range(16, most_registers(CtaResources(threads, 0, 0), 1) + 1):
        ctas = resident_ctas(CtaResources(threads, registers, 0), HOPPER)
        most = most_registers(CtaResources(threads, 0, 0), ctas)
        assert most >= registers and resident_ctas(CtaResources(threads, most, 0), HOPPER) == ctas


def test_the_limit_with_more_bytes_in_flight_is_taken(monkeypatch):
    """128 threads: 5 CTAs with 96 registers, 4 with 128; each answer is bytes of 16 in flight, registers, spills."""
    asked = []

    def chosen(answers, loaded, loads=1, registers=90, threads=128, spills=0):
        asked.clear()

        def assemble(ptx, *_):
            asked.append(int(re.search(r"maxnreg (\d+)", ptx)[1]))
            found, taken, spills = answers[asked[-1]]
            code = cubin(*[issued(LOAD_16, 0)] * found)
            return Assembled(code, registers=taken, spills=spills)

        monkeypatch.setattr("tilewright.backends.nvidia.register_limits.assemble", assemble)
        code = cubin(*[issued(LOAD_16, 0)] * loads)
        first = Assembled(code, registers=registers, spills=spills)
        made = Made(".maxntid 128", first, CtaResources(threads, 0, 0), HOPPER, Options())
        found = limit_for_loads(made, loaded).ptx
        return found.removeprefix(".maxntid 128").strip(), tuple(asked)

    assert chosen({96: (5, 96, 0), 128: (8, 110, 0)}, 128) == (".maxnreg 128", (96, 128))
    assert chosen({96: (5, 96, 0), 128: (6, 110, 0)}, 128) == (".maxnreg 96", (96, 128))
    assert chosen({96: (5, 96, 0)}, 96) == (".maxnreg 96", (96,))  # nearly all of them
    assert chosen({96: (5, 96, 1)}, 128) == ("", (96,))  # it spills
    assert chosen({96: (1, 96, 0), 128: (1, 110, 0)}, 128) == ("", (96, 128))
    assert chosen({96: (1, 91, 0)}, 128) == ("", (96,))  # registers were left
    # 5 more registers do not hold a quarter more than 48 bytes, 37 do
    assert chosen({128: (5, 110, 0)}, 128, 3, 91) == (".maxnreg 128", (128,))
    assert chosen({}, 64, 3, 24) == ("", ())  # which is fewer than the assembler takes anyway
    assert chosen({}, 16) == ("", ())
    # 16 CTAs with 32 registers have enough in flight together, but a few of them alone do not
    assert chosen({72: (8, 48, 0)}, 512, 3, 32) == (".maxnreg 72", (72,))
    assert chosen({72: (3, 48, 0)}, 512, 3, 32) == ("", (72,))
    assert chosen({}, 64, 4, 32) == ("", ())
    # an SM has 60 of the 64 KB in flight that are enough
    assert chosen({}, 256, 6, 88) == ("", ())
    # with 128 bytes in flight 4 CTAs of 256 threads have fewer together than 8 with 80
    assert chosen({}, 128, 5, 32, threads=256) == ("", ())
    # 3 CTAs would have a little less than 5 with 80; the assembler takes fewer registers than estimated, so that 4 have more
    assert chosen({80: (8, 61, 0)}, 128, 5, 42, threads=256) == (".maxnreg 80", (80,))
    # 64 threads: 8 CTAs and 7 both have 128 registers, which are tried once
    assert chosen({128: (1, 115, 0)}, 96, 1, 120, threads=64) == ("", (128,))
    assert chosen({}, 128, 1, 255, spills=9) == ("", ())
    # it spills by choice, with 40 registers of 255: the same as a limit spill more, 96 none
    assert chosen({40: (3, 40, 2), 96: (8, 90, 0)}, 128, 2, 40, spills=1) == (
        ".maxnreg 96",
        (40, 96),
    )
    assert chosen({40: (3, 40, 2), 96: (8, 90, 2)}, 128, 2, 40, spills=1) == ("", (40, 96))


@pytest.mark.parametrize(("spills", "taken"), [(0, 64), (4, 64), (5, 96)])
def test_few_spilled_registers_cost_less_than_half_of_the_ctas(monkeypatch, spills, taken):
    """256 threads: four CTAs with 64 registers, two with 96."""

    def assemble(ptx, *_):
        return Assembled(b"", registers=96 if "maxnreg 255" in ptx else 64)

    monkeypatch.setattr("tilewright.backends.nvidia.register_limits.assemble", assemble)
    first = Assembled(b"", registers=64, spills=spills)
    made = Made(".maxntid 256", first, CtaResources(256, 0, 0), HOPPER, Options())
    assert limit_for_occupancy(made, 1, 1).assembled.registers == taken
    assert with_all_registers(made).assembled.registers == taken


@pytest.mark.parametrize(
    ("registers", "shared", "spills", "taken"),
    [(182, 49168, 10, 168), (182, 49168, 40, 182), (182, 98304, 0, 182), (200, 49168, 0, 200)],
)
def test_a_few_registers_give_way_to_a_cta(registers, shared, spills, taken, monkeypatch):
    """128 threads: 168 registers leave room for three CTAs, unless shared memory leaves less."""

    def assemble(ptx, target, options):
        return Assembled(b"", registers=168, spills=spills)

    monkeypatch.setattr("tilewright.backends.nvidia.register_limits.assemble", assemble)
    block, first = CtaResources(128, 0, shared), Assembled(b"", registers=registers)
    made = Made(".maxntid 128", first, block, HOPPER, Options())
    assert with_another_cta(made).assembled.registers == taken


def test_limits_that_the_assembler_rejects_leave_the_kernel_as_it_is(monkeypatch):
    """Accumulators of asynchronous MMAs cannot be spilled: error C7602 below so many registers."""

    def assemble(ptx, *_):
        raise OutOfResources(255, 80, "registers a thread")

    monkeypatch.setattr("tilewright.backends.nvidia.register_limits.assemble", assemble)
    first = Assembled(cubin(issued(LOAD_16)), registers=90)
    made = Made(".maxntid 256", first, CtaResources(256, 0, 65536), HOPPER, Options())
    assert with_another_cta(made) is limit_for_loads(made, 128) is made
    assert limit_for_occupancy(made, 1, 3) is limit_for_lone_ctas(made, 2) is made
    spilling = replace(made, assembled=replace(first, registers=32, spills=9))
    assert with_all_registers(spilling) is spilling


def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    acc = tl.zeros([BM, BN], tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        lhs = tl.load(a + m * K + k[None, :], (m < M) & (k[None, :] < K), other=0)
        rhs = tl.load(b + k[:, None] * N + n, (k[:, None] < K) & (n < N), other=0)
        acc = tl.dot(lhs, rhs, acc)
    tl.store(c + m * N + n, acc, (m < M) & (n < N))


@pytest.mark.skipif(tools.find("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize(("block", "warps"), [((128, 128, 32), 8), ((64, 64, 32), 4)])
def test_kernels_with_asynchronous_mmas_keep_their_accumulators(block, warps):
    """64 registers of accumulators: the 80 with which three CTAs would share an SM are too few for ptxas."""
    signature = {a: dtypes.pointer_type(dtypes.float16) for a in "ab"}
    signature |= {"c": dtypes.pointer_type(dtypes.float32)}
    signature |= dict.fromkeys("MNK", dtypes.int32)
    signature |= {name: constexpr(v) for name, v in zip(("BM", "BN", "BK"), block, strict=True)}
    module = build(KernelFunction(product), signature, dict.fromkeys("abcMNK", 16)).module
    artifact = backend.compile(module, Options(num_warps=warps, num_stages=3), HOPPER)
    assert artifact.plan.spills == 0


def large_query(q, k, out, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows, columns, deep = tl.arange(0, M)[:, None], tl.arange(0, N), tl.arange(0, D)
    query = tl.load(q + rows * D + deep[None, :])
    acc = tl.zeros([M, D], tl.float32)
    for start in range(0, n, N):
        at = start + columns
        keys = tl.load(k + at[:, None] * D + deep[None, :], mask=at[:, None] < n, other=0.0)
        scores = tl.dot(query, keys.trans())
        acc = tl.dot(scores.to(tl.bfloat16), keys, acc)
    tl.store(out + rows * D + deep[None, :], acc)


@pytest.mark.skipif(tools.find("ptxas") is None, reason="needs ptxas")
def test_kernels_with_mmas_that_spill_have_all_registers():
    """A row of 1,024 elements as an operand of MMAs takes 256 registers: ptxas itself takes 32 then."""
    signature = {a: dtypes.pointer_type(dtypes.bfloat16) for a in ("q", "k")}
    signature |= {"out": dtypes.pointer_type(dtypes.float32), "n": dtypes.int32}
    signature |= {a: constexpr(v) for a, v in {"M": 16, "N": 32, "D": 1024}.items()}
    module = build(
        KernelFunction(large_query), signature, dict.fromkeys(("q", "k", "out"), 16)
    ).module
    artifact = backend.compile(module, Options(num_warps=4, num_stages=1), HOPPER)
    assert artifact.plan.spills == 0 or artifact.plan.registers == 255


def largest(x, out, n, M: tl.constexpr, N: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)[:, None]
    found = tl.full([M, N], float("-inf"), tl.float32)
    for start in range(0, n, N):
        columns = start + tl.arange(0, N)[None, :]
        value = tl.load(x + rows * n + columns, mask=columns < n, other=float("-inf"))
        found = tl.maximum(found, value.to(tl.float32))
    tl.store(out + rows, tl.max(found, 1)[:, None])


@pytest.mark.skipif(tools.find("ptxas") is None, reason="needs ptxas")
def test_all_loads_of_an_iteration_are_in_flight():
    """8 loads of 16 bytes; ptxas itself issues them one or two at a time."""
    signature = {a: dtypes.pointer_type(dtypes.bfloat16) for a in ("x", "out")}
    signature |= {"n": dtypes.int32, "M": constexpr(8), "N": constexpr(1024)}
    module = build(KernelFunction(largest), signature, {"x": 16, "out": 16, "n": 16}).module
    artifact = backend.compile(module, Options(num_warps=4), HOPPER)
    assert artifact.plan.spills == 0
    assert bytes_in_flight(artifact.object_code) >= 80


BARRIER = "bar.sync 0;"
LOOP = "$L_1:\n@%p1 bra $L_1;"
BRANCH = "@%p1 bra $L_1;\n$L_1:"


@pytest.mark.parametrize(("code", "limited"), [(BARRIER, True), (LOOP, True), (BRANCH, False)])
def test_registers_are_spilled_for_a_second_cta_that_fills_waiting_time(monkeypatch, code, limited):
    """1024 threads: one CTA with 40 registers, two with 32. Warps without barriers and loops do not wait for each other."""

    def assemble(ptx, *_):
        return Assembled(b"", registers=32, spills=8)

    monkeypatch.setattr("tilewright.backends.nvidia.register_limits.assemble", assemble)
    ptx = f".maxntid 1024\n{code}\n"
    made = Made(ptx, Assembled(b"", registers=40), CtaResources(1024, 0, 0), HOPPER, Options())
    assert waits_or_repeats(ptx) == limited
    assert (limit_for_occupancy(made, 1, 1).assembled.registers == 32) == limited
