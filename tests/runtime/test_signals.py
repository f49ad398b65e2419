"""Ctrl-C stops native kernels; a memory fault in one says what ran. Each program runs in a process of its own."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64",
    reason="kernels are stopped on x86-64 Linux only",
)

COMMON = """
import asyncio, os, signal, subprocess, sys, threading, time
import numpy as np
import tilewright as tw, tilewright.language as tl

@tw.jit
def waits(flag, out):
    while tl.load(flag, volatile=True) == 0:
        pass
    tl.store(out + tl.program_id(0), 1)

@tw.jit
def locks(lock, out):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + tl.program_id(0), 1)
    tl.atomic_xchg(lock, 0)

@tw.jit
def counts(x, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x + i % 4)
    tl.store(x + 4 + tl.program_id(0), total)

@tw.jit
def prints(flag):
    while tl.load(flag, volatile=True) == 0:
        tl.device_print("x", 1)

@tw.jit
def strays(x, out, offset, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i + offset, tl.load(x + i))

flag, out, lock, x = np.zeros(1, np.int32), np.zeros(64, np.int32), np.ones(1, np.int32), np.zeros(68, np.float32)
PRESS = '''
import os, signal, time
for _ in range({n}):
    time.sleep(0.15)
    print(time.clock_gettime(~{pid} << 3 | 2), flush=True)
    os.kill({pid}, signal.SIGINT)
'''

def pressed(launch, times=1):
    "Seconds that this process computed from the last Ctrl-C to the KeyboardInterrupt: other processes do not count."
    program = PRESS.format(n=times, pid=os.getpid())
    sender = subprocess.Popen([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        launch()
    except KeyboardInterrupt:
        now = time.process_time()
        return now - float(sender.communicate()[0].split()[-1])
    raise SystemExit("the launch ended by itself")

def check(name, launch, **more):
    # a sender that has to wait between reading the clock and the signal measures too much
    seconds = []
    while len(seconds) < 4 and min(seconds, default=1) >= 0.3:
        seconds.append(pressed(launch, **more))
    assert min(seconds) < 0.3, (name, seconds)
    print(name, "ok", flush=True)
"""

EACH_KERNEL = """
for launch in (lambda n: waits.warmup(flag, out), lambda n: locks.warmup(lock, out), lambda n: counts.warmup(x, 1 << 30)):
    launch(1)
for programs in (1, 64) if "torch" not in sys.modules else (64,):
    check(f"waits {programs}", lambda: waits[(programs,)](flag, out))
    check(f"locks {programs}", lambda: locks[(programs,)](lock, out))
    check(f"counts {programs}", lambda: counts[(programs,)](x, 1 << 30))
check("counts under the GIL", lambda: counts[(1,)](x, 1 << 30))
assert not out.any()
flag[0], lock[0] = 1, 0
waits[(64,)](flag, out)
assert (out == 1).all()
locks[(64,)](lock, out)
print("goes on")
"""

HANDLERS = """
waits.warmup(flag, out)
flag[0] = 1; waits[(1,)](flag, out); flag[0] = 0

signal.signal(signal.SIGINT, signal.default_int_handler)  # takes ours away until the next launch
check("set again", lambda: waits[(1,)](flag, out))

seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
check("the user's handler", lambda: waits[(1,)](flag, out), times=2)
assert seen
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    waits[(1,)](flag, out)
check("asyncio", lambda: asyncio.run(main()), times=2)

def elsewhere():
    waits[(1,)](flag, out)
thread = threading.Thread(target=elsewhere)
thread.start()
check("another thread goes on", lambda: time.sleep(30))
assert thread.is_alive()
check("both", lambda: waits[(64,)](flag, out))
assert thread.is_alive()
flag[0] = 1
thread.join(20)
flag[0] = 0

child = os.fork()
if child == 0:
    check("in a child", lambda: waits[(64,)](flag, out))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0

signal.signal(signal.SIGINT, signal.SIG_IGN)
threading.Timer(0.5, lambda: flag.__setitem__(0, 1)).start()
subprocess.Popen([sys.executable, "-S", "-c", PRESS.format(n=1, pid=os.getpid())], stdout=subprocess.DEVNULL)
waits[(1,)](flag, out)
print("ignored")
"""

PRINTS = """
prints.warmup(flag, grid=(1,))
null, before = os.open(os.devnull, os.O_WRONLY), os.dup(1)
os.dup2(null, 1)
seconds = pressed(lambda: prints[(64,)](flag))
os.dup2(before, 1)
flag[0] = 1
prints[(1,)](flag)  # C's locks are free
print("printed", seconds < 0.6)
"""


def run(program, folder, *arguments, **environment):
    file = folder / "program.py"
    file.write_text(COMMON + program)
    return subprocess.run(
        [sys.executable, *arguments, str(file)], env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=100,
    )  # fmt: skip


def finished(program, folder, last, **environment):
    done = run(program, folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == last


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["own pool", "libgomp"])
def test_kernels_that_do_not_end_are_stopped(threads, tmp_path):
    library = ""
    if threads == "libgomp":
        pytest.importorskip("torch")
        library = "import torch\n"
    finished(library + EACH_KERNEL, tmp_path, "goes on", TILEWRIGHT_NUM_THREADS="2")


@pytest.mark.slow
def test_handlers_of_other_people(tmp_path):
    finished(HANDLERS, tmp_path, "ignored", TILEWRIGHT_NUM_THREADS="2")


@pytest.mark.slow
def test_a_kernel_that_prints_is_stopped_between_two_lines(tmp_path):
    finished(PRINTS, tmp_path, "printed True", TILEWRIGHT_NUM_THREADS="2")


STRAY = """
a = np.zeros(1 << 14, np.float32)
b = a.copy()
strays[({grid},)](a, b, 0, B=1024)
strays[({grid},)](a, b, 1 << 34, B=1024)
"""


@pytest.mark.parametrize("options", [(), ("-X", "faulthandler")])
@pytest.mark.parametrize("grid", [1, 16])
def test_a_memory_fault_says_what_ran(options, grid, tmp_path):
    done = run(STRAY.format(grid=grid), tmp_path, *options, TILEWRIGHT_NUM_THREADS="2")
    assert done.returncode == -11
    line = COMMON.splitlines().index("def strays(x, out, offset, B: tl.constexpr):") + 1
    head = f"tilewright: kernel 'strays' ({tmp_path}/program.py:{line}) accessed memory that it must not (SIGSEGV), address 0x"
    assert head in done.stderr
    assert done.stderr.count("tilewright: kernel") == 1
    assert "ran at the time: programs 0 to " in done.stderr
    assert "TILEWRIGHT_INTERPRET=1" in done.stderr
    assert f"  at {tmp_path}/program.py:{line + 2}:5\n" in done.stderr  # the store
    assert ("Fatal Python error: Segmentation fault" in done.stderr) == bool(options)


def test_faults_elsewhere_are_not_ours(tmp_path):
    program = "strays[(1,)](x, x, 0, B=4)\nimport ctypes; ctypes.string_at(8)"
    done = run(program, tmp_path)
    assert done.returncode == -11 and "tilewright" not in done.stderr
    done = run("strays[(1,)](x, x, 0, B=4)\nos.kill(os.getpid(), signal.SIGSEGV)", tmp_path)
    assert done.returncode == -11 and "tilewright" not in done.stderr


def test_faulthandler_enabled_later_speaks_first(tmp_path):
    program = "strays[(1,)](x, x, 0, B=4)\nimport faulthandler; faulthandler.enable()\n"
    done = run(program + "strays[(1,)](x, x, 1 << 34, B=4)", tmp_path)
    assert done.returncode == -11
    assert "Fatal Python error" in done.stderr and "tilewright: kernel 'strays'" in done.stderr
