"""The conversation with ptxas, with programs that behave in other ways than it does."""

from __future__ import annotations

import os
import struct
import time

import pytest

from tilewright.backends.nvidia import assemble
from tilewright.backends.nvidia.target import target_info
from tilewright.errors import PassError

TARGET = target_info("sm_90a")
HEADER = b"\x7fELF" + bytes(28) + struct.pack("<QQ", 200, 64) + bytes(6) + struct.pack("<HHHH", 56, 1, 64, 2)  # fmt: skip
WHOLE = HEADER.ljust(256, b"\0")


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """Make a shell script the assembler; `$out` is where the cubin goes, `$cubin` is one."""
    (tmp_path / "cubin").write_bytes(WHOLE)

    def make(script: str) -> None:
        path = tmp_path / "ptxas"
        path.write_text(f'#!/bin/sh\nout="$5"; cubin={tmp_path}/cubin\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("TILEWRIGHT_PTXAS", str(path))

    return make


def test_whole_cubins():
    assert assemble.is_whole(WHOLE)
    assert not any(assemble.is_whole(WHOLE[:n]) for n in (0, 3, 63, 64, 255))
    assert not assemble.is_whole(b"//" + WHOLE[2:])


def test_an_assembler_that_says_when_it_is_done_is_not_waited_for(tool):
    tool(
        'text=$(cat); cat $cubin > "$out"; echo "ptxas info    : Used ${#text} registers"; '
        'echo "ptxas info    : Compile time = 1.0 ms"; exec sleep 60'
    )
    start = time.monotonic()
    made = assemble.assemble("abc", TARGET)
    assert (made.cubin, made.registers, made.warnings) == (WHOLE, 3, ())
    assert time.monotonic() - start < 30
    while assemble._ending:
        assemble._reap()


def test_an_assembler_that_does_not_say_so_is(tool):
    tool('cat > /dev/null; echo "Used 7 registers"; sleep 0.2; cat $cubin > "$out"')
    assert assemble.assemble("abc", TARGET).registers == 7


def test_texts_larger_than_a_pipe(tool):
    tool('n=$(wc -c); cat $cubin > "$out"; echo "Used $n registers"')
    assert assemble.assemble("x" * 1_000_000, TARGET).registers == 1_000_000


@pytest.mark.parametrize(
    "script",
    [
        "echo error: no licence; exit 1",
        'cat > /dev/null; cat $cubin > "$out"; echo error: no licence; exit 1',
        'cat > /dev/null; head -c 200 $cubin > "$out"; echo error: no licence; echo "Compile time = 1 ms"',
        "cat > /dev/null; echo error: no licence",
    ],
    ids=["reads nothing", "fails at the end", "half a cubin", "no cubin"],
)
def test_failures_are_told(tool, script):
    tool(script)
    with pytest.raises(PassError, match="no licence"):
        assemble.assemble("x" * 1_000_000, TARGET)


def test_an_assembler_that_never_ends(tool, monkeypatch):
    tool("exec sleep 60")
    monkeypatch.setattr(assemble, "_PATIENCE_SECONDS", 0.2)
    with pytest.raises(PassError, match="does not end"):
        assemble.assemble("abc", TARGET)


def test_nothing_is_left_open(tool):
    tool('cat > /dev/null; cat $cubin > "$out"; echo "Compile time = 1 ms"')
    assemble.assemble("abc", TARGET)
    before = os.listdir("/dev/fd")
    for _ in range(4):
        assemble.assemble("abc", TARGET)
        with assemble.Assembler(TARGET):
            pass
    assert os.listdir("/dev/fd") == before


def test_something_may_be_done_meanwhile(tool, tmp_path):
    flag = tmp_path / "done"
    tool(f'cat > /dev/null; while [ ! -e {flag} ]; do sleep 0.01; done; cat $cubin > "$out"')
    with assemble.Assembler(TARGET) as assembler:
        assert assembler.assemble("x" * 1_000_000, flag.touch).cubin == WHOLE


def test_the_tool_keeps_the_settings_of_the_c_library_that_there_are(tool, monkeypatch):
    say = 'cat >/dev/null; cp $cubin $out; echo "[$GLIBC_TUNABLES|$MALLOC_TOP_PAD_|$HOME]"'
    monkeypatch.setenv("HOME", "/somewhere")
    for name in ("GLIBC_TUNABLES", "MALLOC_TOP_PAD_"):
        monkeypatch.delenv(name, raising=False)
    tool(say)
    (line,) = assemble.assemble("ptx", TARGET).warnings
    assert line == f"[{assemble._LARGE_PAGES}|{assemble._HEAP_STEP}|/somewhere]"
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
    monkeypatch.setenv("MALLOC_TOP_PAD_", "4096")
    (line,) = assemble.assemble("ptx", TARGET).warnings
    assert line == f"[glibc.malloc.arena_max=1:{assemble._LARGE_PAGES}|4096|/somewhere]"
