"""Random kernels, to compare ways of running them: interpreter, native code, devices.

`generate(random.Random(seed))` writes the source of a kernel and the arguments to launch it with. Its
statements come from all parts of the language: loads and stores of every form, arithmetic on several
types, shapes, reductions, scans and sorts with functions of its own, products, atomics, calls, and nested
control flow. Comparisons look at loaded or integer values only, so that rounding differences cannot change
which way a program goes.
"""

from tests.random.programs.program import Program, generate

__all__ = ["Program", "generate"]
