"""# 7. Debugging a broken kernel

Three bugs, and the command or setting that finds each. The settings are environment variables; here the script sets them for single launches.
"""

# %% A mask that is off by one reads and writes beyond the arrays. Compiled code does that silently.
import os

import numpy as np

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import TilewrightError


@tw.jit
def scale(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at <= n)
    tl.store(x_ptr + at, 2 * x, mask=at <= n)


def report(setting: str, value: str, launch) -> str:
    """The error of a launch under a setting."""
    os.environ[setting] = value
    try:
        launch()
    except TilewrightError as error:
        return str(error)
    finally:
        del os.environ[setting]
    raise AssertionError("no error")


# %% `TILEWRIGHT_INTERPRET=1` runs the kernel as Python, with every access checked. `breakpoint()` works in it, and tiles print as arrays.
x = np.ones(100, np.float32)
text = report("TILEWRIGHT_INTERPRET", "1", lambda: scale[(1,)](x, 100, BLOCK=128))
print(text)
assert "mask=at <= n" in text and "100" in text

# %% `TILEWRIGHT_CHECK=bounds` compiles checks into native code: the same report at almost full speed, for large inputs.
text = report("TILEWRIGHT_CHECK", "bounds", lambda: scale[(1,)](x, 100, BLOCK=128))
assert "mask=at <= n" in text


# %% Two programs that add to one element without atomics are a race. The result may look right on one machine. `checks` turns on further checks.
@tw.jit
def total(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.load(out_ptr) + tl.sum(tl.load(x_ptr + at), 0))


from tilewright.debug import checks

x, out = np.ones(256, np.float32), np.zeros(1, np.float32)
with checks("races"):
    text = report("TILEWRIGHT_INTERPRET", "1", lambda: total[(4,)](x, out, BLOCK=64))
print(text)
assert "program" in text


# %% Lanes that a mask turned off read 0 here and anything on other machines, unless `other` says what they read.
@tw.jit
def row_maximum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.max(tl.load(x_ptr + at, mask=at < n), 0))


with checks("undefined"):
    text = report("TILEWRIGHT_INTERPRET", "1", lambda: row_maximum[(1,)](-x, out, 100, BLOCK=128))
print(text)
assert "other=" in text
