"""Ways to run a random program: as Python, by the interpreter of the IR, natively, and on the PTX emulator."""

import linecache
import os
import pathlib

import numpy as np
from tests.ptx.launch import run_ptx
from xdsl.dialects.builtin import ModuleOp

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.frontend import build
from tilewright.interpreter.executor import run_module
from tilewright.ir.text import parse_ir
from tilewright.language.kernel_function import KernelFunction

TYPES = {"int32": dtypes.int32, "float16": dtypes.float16}

SCRIPT = '''"""{text}

Run from the root of the repository: python {name}
"""

import sys

sys.path.insert(0, ".")

from tests.random.engines import compare
from tests.random.memory_programs import Program

SOURCE = """\\
{source}"""

compare(Program(SOURCE, {scalars!r}, {lanes}, {grid}, {shift}), *{options!r})
'''


def function_of(program):
    """The kernel as a Python function whose source `inspect` finds."""
    name = f"<memory program {hash(program.source) & 0xFFFFFFFF:08x}>"
    lines = program.source.splitlines(keepends=True)
    linecache.cache[name] = (len(program.source), None, lines, name)
    scope = {"tl": tl, "__name__": "memory_program"}
    exec(compile(program.source, name, "exec"), scope)
    return scope["kernel"]


def module_of(function, program, arguments) -> ModuleOp:
    signature = {
        name: dtypes.pointer_type(TYPES[str(value.dtype)]) if isinstance(value, np.ndarray) else dtypes.int32
        for name, value in arguments.items()
    }  # fmt: skip
    signature["B"] = dtypes.constexpr(program.lanes)
    divisible = {
        name: 16
        for name, value in arguments.items()
        if (value.ctypes.data if isinstance(value, np.ndarray) else value) % 16 == 0
    }
    return build(KernelFunction(function), signature, divisible).module


def launched(function, program, mode):
    """The arrays after a launch on fresh arguments; `mode` is that of TILEWRIGHT_INTERPRET."""
    arguments = program.arguments()
    before = os.environ.pop("TILEWRIGHT_INTERPRET", None)
    if mode:
        os.environ["TILEWRIGHT_INTERPRET"] = mode
    try:
        tw.jit(function)[(program.grid,)](*arguments.values(), B=program.lanes)
    finally:
        os.environ.pop("TILEWRIGHT_INTERPRET", None)
        if before is not None:
            os.environ["TILEWRIGHT_INTERPRET"] = before
    return [arguments[name] for name in "xyz"]


def differences(program, engine, expected, found):
    for name, a, b in zip("xyz", expected, found, strict=True):
        wrong = np.flatnonzero(a != b)
        if len(wrong):
            yield (
                f"{engine} differs in '{name}' at {wrong[:8]}: {b[wrong[:4]]}, expected {a[wrong[:4]]}\n"
                f"{program}\n{program.source}"
            )


def compare(program, target="sm_80", warps=4, stages=3, engines=("1", "", "ptx")):
    """Raise AssertionError where an engine gives other results than the interpreter of the IR.

    `engines`: "1" is Python, "" native code, "ptx" the emulator (not where arguments overlap, which GPUs rule out).
    """
    function = function_of(program)
    arguments = program.arguments()
    module = module_of(function, program, arguments)
    text = str(module)
    run_module(parse_ir(text), list(arguments.values()), (program.grid,))
    expected = [arguments[name] for name in "xyz"]
    for engine in engines:
        if engine == "ptx":
            if program.shift is not None:
                continue
            options = Options(num_warps=warps, num_stages=stages)
            artifact = backend.compile(parse_ir(text), options, target_info(target))
            values = list(program.arguments().values())
            found = run_ptx(artifact, values, (program.grid,))[:3]
        else:
            found = launched(function, program, engine)
        for message in differences(program, engine or "native code", expected, found):
            raise AssertionError(message)


def save(program, options, error, folder):
    """Write a script that shows the difference; its path."""
    path = pathlib.Path(folder) / f"differs_{hash(program.source) & 0xFFFFFFFF:08x}.py"
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    fields = {
        "scalars": program.scalars,
        "lanes": program.lanes,
        "grid": program.grid,
        "shift": program.shift,
    }
    path.write_text(
        SCRIPT.format(text=text, name=path, source=program.source, options=options, **fields)
    )
    return path


__all__ = ["compare", "function_of", "launched", "module_of", "save"]
