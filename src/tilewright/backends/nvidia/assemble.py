"""PTX to cubin and cubin to SASS, through NVIDIA's tools where they are installed.

Without `ptxas` the PTX itself is the object code and the driver assembles it when it loads it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import select
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tilewright import config
from tilewright.backends.base import Options
from tilewright.backends.nvidia import tools
from tilewright.errors import REGISTERS, OutOfResources, PassError
from tilewright.passes.gpu.analysis.registers import max_registers_per_thread
from tilewright.targets import TargetInfo

#: the longest that a tool may take
_PATIENCE_SECONDS = 300.0
_INPUT = "/dev/stdin"


@dataclass(frozen=True)
class Assembled:
    """What the assembler made of a kernel. Figures are 0 and `cubin` None where there is none.

    `spills` counts 32-bit registers that are stored to memory for want of registers, `shared` the
    bytes of static shared memory; `warnings` are the assembler's lines other than figures.
    """

    cubin: bytes | None = None
    registers: int = 0
    spills: int = 0
    shared: int = 0
    warnings: tuple[str, ...] = ()

    def object_code(self, ptx: str) -> bytes:
        """What the driver is to load: the cubin, or PTX text with its NUL."""
        return self.cubin if self.cubin is not None else ptx.encode() + b"\0"


def assemble(ptx: str, target: TargetInfo, options: Options | None = None) -> Assembled:
    """Assemble PTX for `target`; see `Assembler.assemble`."""
    with Assembler(target, options) as assembler:
        return assembler.assemble(ptx)


class Assembler:
    """`ptxas`, started before there is anything to assemble.

    To load it takes longer than to assemble a small kernel, and goes on while the kernel is still being
    compiled. A context manager: the process ends with the block, used or not.
    """

    def __init__(self, target: TargetInfo, options: Options | None = None) -> None:
        self.target = target
        self.tool = tools.find("ptxas")
        self._arguments = ["-v", f"-arch={target.name}"]
        if options is not None and not options.enable_fp_fusion:
            self._arguments.append("--fmad=false")

    def __enter__(self) -> Self:
        if self.tool is None:
            return self
        _reap()
        self._made = _file_in_memory()
        command = (str(self.tool), *self._arguments, _INPUT, "-o", f"/dev/fd/{self._made}")
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(self._made,),
                env=_with_large_pages(config.environment_of_child()),
            )
        except OSError as error:
            os.close(self._made)
            raise PassError(f"{self.tool} does not run: {error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self.tool is None:
            return
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        os.close(self._made)
        if self._process.poll() is None:
            self._process.kill()
            _ending.append(self._process)

    def assemble(self, ptx: str, meanwhile: Callable[[], object] | None = None) -> Assembled:
        """Assemble PTX, once. `meanwhile` is called while the tool is at it.

        Raises OutOfResources where a kernel asks for more than a chip has, PassError with the
        assembler's log for anything else that it rejects.
        """
        if self.tool is None:
            return Assembled(warnings=("no ptxas: the driver assembles",))
        log, done = _converse(self._process, ptx.encode(), meanwhile)
        if log is None:
            raise PassError(f"{self.tool} does not end within {_PATIENCE_SECONDS:.0f} seconds")
        log = log.replace(_INPUT, "kernel.ptx")
        cubin = _content(self._made)
        if is_whole(cubin) and (done or self._process.wait() == 0):
            return _parsed(cubin, log)
        self._process.wait()
        if "Unsupported .version" in log or "is not defined for option 'gpu-name'" in log:
            # older than the PTX that we write; the driver may be newer
            return Assembled(
                warnings=(f"{self.tool} is too old for this kernel: {_first_line(log)}",)
            )
        raise _failure(log, ptx, self.target)


#: bytes by which a tool's heap grows
_HEAP_STEP = 16 << 20
_LARGE_PAGES = "glibc.malloc.hugetlb=1"


def _with_large_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a tool whose heap is to grow in large steps and of large pages.

    Even for a small kernel ptxas touches megabytes for the first time, otherwise with a page fault for every 4 KB and a
    call for every 128. What the C library does not know it ignores.
    """
    given = environment.get("GLIBC_TUNABLES")
    tunables = f"{given}:{_LARGE_PAGES}" if given else _LARGE_PAGES
    return {"MALLOC_TOP_PAD_": str(_HEAP_STEP), **environment, "GLIBC_TUNABLES": tunables}


_ending: list[subprocess.Popen[bytes]] = []
"""Processes that nobody waits for any more, until their ends have been seen."""


def _reap() -> None:
    """Take note of processes that have ended."""
    for process in _ending[:]:
        if process.poll() is not None:
            with contextlib.suppress(ValueError):  # another thread was here
                _ending.remove(process)


@atexit.register
def _reap_all() -> None:
    for process in _ending:
        process.wait()


def _file_in_memory() -> int:
    """A file without a name, as a descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tilewright cubin")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _converse(
    process: subprocess.Popen[bytes], text: bytes, meanwhile: Callable[[], object] | None
) -> tuple[str | None, bool]:
    """Give `text` to a process, call `meanwhile` and read what the process says: its log, None if it took
    too long, and whether it said that it is done.

    With `-v` the last line of ptxas is the time that it took. The cubin has been written by then, and
    what is left is to give memory back, which takes longer than reading its result.
    """
    given, said = process.stdin, process.stdout
    if given is None or said is None:
        raise PassError("ptxas was started without pipes")
    os.set_blocking(given.fileno(), False)
    poll = select.poll()
    poll.register(given, select.POLLOUT)
    poll.register(said, select.POLLIN)
    rest, log = memoryview(text), bytearray()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while ready := poll.poll(1e3 * max(0.0, deadline - time.monotonic())):
        files = [file for file, _ in ready]
        if not given.closed and given.fileno() in files:
            rest = rest[_written(given.fileno(), rest) :]
            if not rest:
                poll.unregister(given)
                given.close()
                if meanwhile is not None:
                    meanwhile()
        if said.fileno() in files:
            more = os.read(said.fileno(), 1 << 16)
            log += more
            done = _DONE.search(log) is not None
            if done or not more:
                return log.decode("utf-8", "replace"), done
    return None, False


_DONE = re.compile(rb"Compile time = .*\n\Z")


def _written(file: int, text: memoryview) -> int:
    """How much of `text` was taken; all of it where nobody reads any more, whose log says why."""
    try:
        return os.write(file, text)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(text)


def is_whole(code: bytes) -> bool:
    """Whether a cubin has the tables of headers that it promises (they come last)."""
    if not is_cubin(code) or len(code) < 64:
        return False
    places = struct.unpack_from("<QQ", code, 32)  # e_phoff, e_shoff
    shapes = struct.unpack_from("<HHHH", code, 54)  # e_phentsize, e_phnum, e_shentsize, e_shnum
    ends = (places[0] + shapes[0] * shapes[1], places[1] + shapes[2] * shapes[3])
    return max(ends) <= len(code)


def _run(arguments: tuple[str, ...]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PassError(f"{arguments[0]} does not run: {error}") from None
    return done.returncode, done.stderr + done.stdout


def _parsed(cubin: bytes, log: str) -> Assembled:
    def total(pattern: str) -> int:
        return sum(int(n) for n in re.findall(pattern, log))

    registers = [int(n) for n in re.findall(r"Used (\d+) registers", log)]
    return Assembled(
        cubin,
        registers=max(registers, default=0),
        spills=total(r"(\d+) bytes spill stores") // 4,
        shared=total(r"(\d+) bytes smem"),
        warnings=warnings_of(log),
    )


_FIGURES = re.compile(
    r"bytes gmem|Compiling entry|Function properties|bytes stack frame|Used \d+ registers|"
    r"Compile time"
)


def warnings_of(log: str) -> tuple[str, ...]:
    """The lines of an assembler's log that are no figures; wgmma ones hold "(C75"."""
    lines = (line.strip() for line in log.splitlines())
    return tuple(line for line in lines if line and not _FIGURES.search(line))


def _first_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"error|fatal", line)), (lines or ["?"])[0])


_SHARED = re.compile(r"uses too much shared data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max")


def _failure(log: str, ptx: str, target: TargetInfo) -> OutOfResources | PassError:
    shared = _SHARED.search(log)
    if shared is not None:
        return OutOfResources(int(shared[1], 16), int(shared[2], 16), "shared memory")
    if "(C7602)" in log or "Insufficient registers" in log:
        given = re.search(r"\.maxnreg\s+(\d+)", ptx)
        threads = re.search(r"\.maxntid\s+(\d+)", ptx)
        limit = max_registers_per_thread(-(-int(threads[1]) // 32)) if threads else 0
        limit = int(given[1]) if given else limit
        return OutOfResources(target.max_registers, limit, REGISTERS)
    lines = ptx.splitlines()
    shown: list[str] = []
    for line in warnings_of(log)[:8]:
        at = re.search(r"line (\d+)", line)
        text = lines[int(at[1]) - 1].strip() if at and 0 < int(at[1]) <= len(lines) else ""
        shown.append(f"{line}  <{text}>" if text else line)
    return PassError(f"ptxas rejects the kernel for {target.name}:\n" + "\n".join(shown))


# ---- the way back ----------------------------------------------------------------------------------


def can_disassemble() -> bool:
    """Whether a disassembler is installed."""
    return tools.find("nvdisasm") is not None or tools.find("cuobjdump") is not None


def disassemble(cubin: bytes) -> str:
    """SASS of a cubin through nvdisasm or cuobjdump. Raises PassError where neither is found."""
    for tool, option in (("nvdisasm", "-c"), ("cuobjdump", "--dump-sass")):
        path = tools.find(tool)
        if path is None:
            continue
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            file = Path(folder, "kernel.cubin")
            file.write_bytes(cubin)
            code, log = _run((str(path), option, str(file)))
        if code == 0:
            return log
        raise PassError(f"{tool} cannot read the cubin: {_first_line(log)}")
    raise PassError(
        "there is no disassembler: neither nvdisasm nor cuobjdump is found",
        help="pip install nvidia-cuda-nvdisasm, or install a CUDA toolkit",
    )


def is_cubin(code: bytes) -> bool:
    """Whether object code is a cubin (an ELF file) and not PTX."""
    return code[:4] == b"\x7fELF"
