"""Ways to run a random program: as Python, by the interpreter of the IR, natively, and on the PTX emulator."""

import dataclasses
import linecache
import os
import pathlib
import random

import numpy as np
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.interpreter.executor import run_module
from tilewright.ir.text import parse_ir
from tilewright.runtime.compiler import build_ir
from tilewright.runtime.specialize import ir_arguments

SCRIPT = '''"""{text}

Run from the root of the repository: python {name}
"""

import sys

sys.path.insert(0, ".")

from tests.random.engines import compare
from {module} import Program

SOURCE = """\\
{source}"""

compare(Program(SOURCE, **{fields!r}), *{options!r})
'''


def function_of(program):
    """The kernel as a Python function whose source `inspect` finds."""
    name = f"<memory program {hash(program.source) & 0xFFFFFFFF:08x}>"
    lines = program.source.splitlines(keepends=True)
    linecache.cache[name] = (len(program.source), None, lines, name)
    scope = {"tl": tl, "jit": tw.jit, "__name__": "memory_program"}
    exec(compile(program.source, name, "exec"), scope)
    return scope["kernel"]


def specialized(function, program, arguments):
    """The kernel's tile IR as text, and its arguments: specialized as a launch does, on signs, divisors and ones."""
    kernel = tw.jit(function)
    specializer = kernel.launcher.specializer
    values = {**arguments, "B": program.lanes}
    types = {p.name: specializer.argument(p, values[p.name]) for p in kernel.params}
    text = str(build_ir(kernel, types, Options()))
    return text, ir_arguments(types.values(), [values[name] for name in types])


def arrays_of(arguments):
    return [value for value in arguments.values() if isinstance(value, np.ndarray)]


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
    return arrays_of(arguments)


def differences(program, engine, expected, found):
    names = [name for name, value in program.arguments().items() if isinstance(value, np.ndarray)]
    for name, a, b in zip(names, expected, found, strict=True):
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
    text, slots = specialized(function, program, arguments)
    run_module(parse_ir(text), slots, (program.grid,))
    expected = arrays_of(arguments)
    for engine in engines:
        if engine == "ptx":
            if program.shift is not None:
                continue
            options = Options(num_warps=warps, num_stages=stages)
            artifact = backend.compile(parse_ir(text), options, target_info(target))
            values = specialized(function, program, program.arguments())[1]
            found = run_ptx(artifact, values, (program.grid,), random.Random(warps))
        else:
            found = launched(function, program, engine)
        for message in differences(program, engine or "native code", expected, found):
            raise AssertionError(message)


def save(program, options, error, folder):
    """Write a script that shows the difference; its path."""
    path = pathlib.Path(folder) / f"differs_{hash(program.source) & 0xFFFFFFFF:08x}.py"
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    fields = dataclasses.asdict(program)
    source, module = fields.pop("source"), type(program).__module__
    path.write_text(
        SCRIPT.format(
            text=text, name=path, source=source, module=module, fields=fields, options=options
        )
    )
    return path


__all__ = ["compare", "function_of", "launched", "save", "specialized"]
