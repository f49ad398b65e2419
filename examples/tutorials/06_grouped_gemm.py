"""# 6. Grouped GEMM

Many matmuls of different sizes in one launch: a fixed number of programs takes tiles from a list of problems. Sizes and addresses are read from
memory.
"""

# %% Each problem has a row in a table: sizes M, N, K. Addresses are integers that the kernel casts to pointers.
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def grouped(addresses_ptr, sizes_ptr, problems, PROGRAMS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
            BK: tl.constexpr):  # fmt: skip
    tile = tl.program_id(0)
    first = 0
    for g in range(problems):
        M, N, K = (
            tl.load(sizes_ptr + 3 * g),
            tl.load(sizes_ptr + 3 * g + 1),
            tl.load(sizes_ptr + 3 * g + 2),
        )
        a_ptr = tl.load(addresses_ptr + 3 * g).to(tl.pointer_type(tl.float32))
        b_ptr = tl.load(addresses_ptr + 3 * g + 1).to(tl.pointer_type(tl.float32))
        c_ptr = tl.load(addresses_ptr + 3 * g + 2).to(tl.pointer_type(tl.float32))
        columns = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * columns
        while tile < first + tiles:
            m = (tile - first) // columns * BM + tl.arange(0, BM)
            n = (tile - first) % columns * BN + tl.arange(0, BN)
            accumulator = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                at = k + tl.arange(0, BK)
                a = tl.load(
                    a_ptr + m[:, None] * K + at[None, :], (m[:, None] < M) & (at[None, :] < K), 0.0
                )
                b = tl.load(
                    b_ptr + at[:, None] * N + n[None, :], (at[:, None] < K) & (n[None, :] < N), 0.0
                )
                accumulator = tl.dot(a, b, accumulator)
            tl.store(
                c_ptr + m[:, None] * N + n[None, :],
                accumulator,
                (m[:, None] < M) & (n[None, :] < N),
            )
            tile += PROGRAMS
        first += tiles


# %% The arrays must outlive the launch: only their addresses are passed.
shapes = [(40, 64, 32), (100, 20, 70), (16, 16, 16)]
a = [np.random.randn(m, k).astype(np.float32) for m, _, k in shapes]
b = [np.random.randn(k, n).astype(np.float32) for _, n, k in shapes]
c = [np.empty((m, n), np.float32) for m, n, _ in shapes]
addresses = np.array(
    [[x.ctypes.data for x in group] for group in zip(a, b, c, strict=True)], np.int64
)
sizes = np.array(shapes, np.int32)
grouped[(4,)](addresses, sizes, len(shapes), PROGRAMS=4, BM=32, BN=32, BK=32)
for x, y, z in zip(a, b, c, strict=True):
    assert np.abs(z - x.astype(np.float64) @ y).max() < 1e-4
print(len(shapes), "problems, one launch")
