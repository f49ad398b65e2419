"""Ways to run a random program: as Python, by the interpreter of the IR, natively, and on the PTX emulator."""

import dataclasses
import linecache
import os
import pathlib
import random

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

TYPES = {
    "int8": dtypes.int8, "int32": dtypes.int32, "float16": dtypes.float16, "bfloat16": dtypes.bfloat16,
    "float32": dtypes.float32, "float8_e5m2": dtypes.float8e5,
}  # fmt: skip

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
    module = module_of(function, program, arguments)
    text = str(module)
    run_module(parse_ir(text), list(arguments.values()), (program.grid,))
    expected = arrays_of(arguments)
    for engine in engines:
        if engine == "ptx":
            if program.shift is not None:
                continue
            options = Options(num_warps=warps, num_stages=stages)
            artifact = backend.compile(parse_ir(text), options, target_info(target))
            values = list(program.arguments().values())
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


__all__ = ["compare", "function_of", "launched", "module_of", "save"]
