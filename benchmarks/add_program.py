"""A whole program of a user: adds two vectors and looks at the result."""

import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def main() -> None:
    x = np.arange(10000, dtype=np.float32)
    out = np.empty_like(x)
    add_kernel[(10,)](x, x, out, x.size, BLOCK=1024)
    if out[-1] != 2 * x[-1]:
        raise SystemExit("wrong result")


if __name__ == "__main__":
    main()
