"""# 1. Vector addition

A kernel computes on *tiles*. The launch grid says how many *programs* run, and each program handles one tile of the arrays.
"""

# %% The kernel names the elements of its tile by their offsets. The mask keeps the last program inside the arrays.
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)


# %% NumPy arrays and torch tensors are passed as they are; where they live decides the target. `BLOCK` is a
# compile-time constant, `n` is not: another size reuses the compiled kernel.
x, y = np.random.rand(2, 98432).astype(np.float32)
out = np.empty_like(x)
add[(tw.cdiv(x.size, 1024),)](x, y, out, x.size, BLOCK=1024)
assert (out == x + y).all()

# %% No GPU is needed to compile for one.
types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32"}
compiled = add.compile(types, {"BLOCK": 1024}, target="sm_90a")
print("\n".join(line for line in compiled.asm["ptx"].splitlines() if "global.v4" in line))
assert "ld.global.v4" in compiled.asm["ptx"]

# %% `do_bench` measures. It reports milliseconds per call.
from tilewright.testing import do_bench

milliseconds = do_bench(
    lambda: add[(tw.cdiv(x.size, 1024),)](x, y, out, x.size, BLOCK=1024), warmup=1, rep=5
)
print(f"{3 * x.nbytes / milliseconds / 1e6:.1f} GB/s")
