"""# 3. Matmul, and what each optimization brings

A blocked matmul with grouped program order, its configurations, and the passes that make it fast.
"""

# %% Each program computes one tile of C. Consecutive programs work on `GROUP` rows of tiles, so that they share operands in the L2 cache.
import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           GROUP: tl.constexpr):  # fmt: skip
    tile = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = tile // (GROUP * columns)
    height = min(rows - group * GROUP, GROUP)
    m = (group * GROUP + tile % (GROUP * columns) % height) * BM + tl.arange(0, BM)
    n = tile % (GROUP * columns) // height * BN + tl.arange(0, BN)
    accumulator = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + at[None, :], (m[:, None] < M) & (at[None, :] < K), 0.0)
        b = tl.load(b_ptr + at[:, None] * N + n[None, :], (at[:, None] < K) & (n[None, :] < N), 0.0)
        accumulator = tl.dot(a, b, accumulator)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * N + n[None, :], accumulator.to(c_ptr.dtype.element_ty), mask)


M, N, K = 200, 176, 160
a, b = np.random.randn(M, K).astype(np.float32), np.random.randn(K, N).astype(np.float32)
c = np.empty((M, N), np.float32)
blocks = {"BM": 64, "BN": 64, "BK": 32, "GROUP": 4}
grid = (tw.cdiv(M, 64) * tw.cdiv(N, 64),)
matmul[grid](a, b, c, M, N, K, **blocks)
assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-4

# %% Every optimization is a pass that can be disabled, and results stay the same. `python -m benchmarks.ablation` measures each of them on a
# described matmul; here the unit that multiplies changes, on a Hopper GPU.
types = {name: "*fp16:16" for name in ("a_ptr", "b_ptr", "c_ptr")} | dict.fromkeys("MNK", "i32:16")
tiles = {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8}
for disabled, unit in (
    ((), "wgmma"),
    (("select-mma{wgmma=false}",), "mma.sync"),
    (("select-mma",), "fma.rn"),
):
    options = {"num_warps": 8, "num_stages": 3, "disable": disabled}
    compiled = matmul.compile(types, tiles if unit != "fma.rn" else {**tiles, "BM": 64, "BN": 64}, target="sm_90a", options=options)  # fmt: skip
    ptx = compiled.asm["ptx"]
    print(
        f"{unit:10}",
        f"{compiled.plan.shared_bytes >> 10:4} KB of shared memory,",
        "TMA" if "cp.async.bulk.tensor" in ptx else "no TMA",
    )
    assert unit in ptx

# %% `tw.autotune` measures configurations on the first call of each shape and keeps the fastest, on disk too.
tuned = tw.autotune(
    [tw.Config({"BM": s, "BN": s, "BK": 32, "GROUP": 4}) for s in (32, 64)], key=["M", "N", "K"]
)(matmul)
tuned[lambda meta: (tw.cdiv(M, meta["BM"]) * tw.cdiv(N, meta["BN"]),)](a, b, c, M, N, K)
print("fastest:", tuned.best_config)
assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-4
