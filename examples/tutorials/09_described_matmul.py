"""# 9. A matmul without a kernel

A contraction that is described is compiled to the same tile IR that a kernel would give, and goes through the same passes.
"""

# %% A call. Epilogues are fused: they are applied to the accumulator before it is stored.
import numpy as np

import tilewright as tw
import tilewright.language as tl

a, b = np.random.randn(60, 40).astype(np.float32), np.random.randn(40, 50).astype(np.float32)
bias = np.random.randn(50).astype(np.float32)
c = tw.matmul(a, b, epilogue=[tw.epilogue.bias(bias), "relu"])
assert np.abs(c - np.maximum(a.astype(np.float64) @ b + bias, 0)).max() < 1e-4


# %% A function of the language is an epilogue step too.
@tw.jit
def gated(x, gate):
    return x * tl.sigmoid(gate)


gate = np.random.randn(60, 50).astype(np.float32)
c = tw.matmul(a, b, epilogue=tw.epilogue.apply(gated, gate))
assert np.abs(c - (a.astype(np.float64) @ b) / (1 + np.exp(-gate.astype(np.float64)))).max() < 1e-4


# %% Loops. They are never run: the contraction is recognized in them.
@tw.loop_nest
def matmul(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


total = np.zeros((60, 50), np.float32)
matmul(a, b, total, 60, 50, 40)
assert np.abs(total - a.astype(np.float64) @ b).max() < 1e-4

# %% MLIR. `tilewright generate examples/mlir/linear.mlir --target sm_90a` prints the tiles that the cost model chose, and the IR after every pass.
from tilewright.backends import registry
from tilewright.generator import model

chosen = model.choose(model.Workload(1536, 1536, 1536), registry.machine("sm_90a"))
print(chosen.explain(3))
