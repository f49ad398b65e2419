"""`num_ctas`: a program's warps spread over a cluster of blocks; results are those of one block."""

import random

import pytest
from tests.gpu.test_random_programs import on_gpu
from tests.random.programs import generate

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError
from tilewright.runtime.drivers.cuda import driver

torch = pytest.importorskip("torch")
COUNTS = (1, 2, 4, 8)


@tw.jit
def softmax(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * stride + columns, e / tl.sum(e, 0), mask=columns < n)


@tw.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           ACC: tl.constexpr):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), ACC)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + (k + ks)[None, :],
                    mask=(rows < M)[:, None] & (k + ks < K)[None, :], other=0.0)  # fmt: skip
        b = tl.load(b_ptr + (k + ks)[:, None] * N + columns[None, :],
                    mask=(k + ks < K)[:, None] & (columns < N)[None, :], other=0.0)  # fmt: skip
        acc = tl.dot(a, b, acc)
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc.to(tl.float32), mask=mask)


@tw.jit
def in_order(x_ptr, turns, N: tl.constexpr):
    """Each turn reads what other blocks' threads wrote in the turn before."""
    at = tl.program_id(0) * N + tl.arange(0, N)
    other = tl.program_id(0) * N + (N - 1) - tl.arange(0, N)
    for _ in range(turns):
        x = tl.load(x_ptr + other)
        tl.debug_barrier()
        tl.store(x_ptr + at, x + 1)
        tl.debug_barrier()


@tw.jit
def counted(x_ptr, bins_ptr, tickets_ptr, sums_ptr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.atomic_add(bins_ptr + tl.arange(0, 64), tl.histogram(x, 64))
    ticket = tl.atomic_add(tickets_ptr, 1)
    tl.atomic_max(tickets_ptr + 1, ticket)
    tl.store(sums_ptr + at, tl.cumsum(x, 0) + ticket * 0)
    tl.store(x_ptr + at, tl.sort(x, 0))


@tw.jit
def ids(out_ptr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    size = tl.num_programs(0) * 10000 + tl.num_programs(1) * 100 + tl.num_programs(2)
    place = (x * tl.num_programs(1) + y) * tl.num_programs(2) + z
    tl.store(out_ptr + 2 * place, size)
    tl.atomic_add(out_ptr + 2 * place + 1, 1)


@pytest.fixture(autouse=True)
def _clusters():
    if driver().device(0).capability < (9, 0):
        pytest.skip("clusters come with compute capability 9.0")


@pytest.mark.parametrize("ctas", COUNTS)
@pytest.mark.parametrize("warps", [1, 4, 16])
@pytest.mark.parametrize("n", [1, 1000, 4096, 16384])
def test_softmax(n, warps, ctas):
    x = torch.randn(37, n, device="cuda")
    out = torch.full_like(x, float("nan"))
    block = tw.next_power_of_2(n)
    made = softmax[(37,)](x, out, n, n, BLOCK=block, num_warps=warps, num_ctas=ctas)
    assert made.plan.cluster_size == ctas and made.plan.threads <= 32 * warps
    torch.testing.assert_close(out, torch.softmax(x, 1))


@tw.jit
def layer_norm_backward(x_ptr, w_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    w = tl.load(w_ptr + columns, mask=columns < n, other=0.0)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    slope = tl.load(dy_ptr + row * n + columns, mask=columns < n, other=0.0).to(tl.float32) * w
    x = tl.where(columns < n, x - tl.sum(x, 0) / n, 0.0)
    rstd = tl.rsqrt(tl.sum(x * x, 0) / n + 1e-5)
    along, shift = tl.sum(x * slope, 0) * rstd * rstd / n, tl.sum(slope, 0) / n
    tl.store(dx_ptr + row * n + columns, (slope - x * along - shift) * rstd, mask=columns < n)


@pytest.mark.parametrize(
    ("n", "ctas"), [(30000, 4), (50257, 8), (65536, 8), (131072, 16), (262144, 16)]
)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_pass_gives_long_rows_a_cluster(n, ctas, dtype):
    """Also those whose length divides nothing, and weights of another type. Rows of 262144 bf16 wait in half the
    registers, so that half the CTAs hold them."""
    if dtype == "bfloat16" and n == 262144:
        ctas = 8
    x, dy = (torch.randn(67, n, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
    w, dx = torch.randn(n, device="cuda"), torch.full_like(x, float("nan"))
    block = tw.next_power_of_2(n)
    made = layer_norm_backward[(67,)](x, w, dy, dx, n, BLOCK=block, num_warps=8)
    assert made.plan.cluster_size == ctas
    given = x.double().requires_grad_()
    torch.nn.functional.layer_norm(given, (n,), w.double()).backward(dy.double())
    error = (dx.double() - given.grad).norm() / given.grad.norm()
    assert error.item() < (1e-5 if dtype == "float32" else 4e-3)


@pytest.mark.parametrize("ctas", COUNTS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("blocks", [(128, 128, 64), (64, 32, 32), (16, 16, 16)])
def test_matmul(blocks, dtype, ctas):
    m, n, k = 257, 129, 100
    a, b = (torch.randn(s, device="cuda").to(getattr(torch, dtype)) for s in ((m, k), (k, n)))
    if dtype == "float64":
        blocks = (32, 32, 16)
    acc = tl.float64 if dtype == "float64" else tl.float32
    c = torch.full((m, n), float("nan"), device="cuda")
    bm, bn, bk = blocks
    grid = (tw.cdiv(m, bm), tw.cdiv(n, bn))
    matmul[grid](a, b, c, m, n, k, BM=bm, BN=bn, BK=bk, ACC=acc, num_warps=4, num_ctas=ctas)
    wanted = a.double() @ b.double()
    assert ((c.double() - wanted).norm() / wanted.norm()).item() < 2e-3


@pytest.mark.parametrize("ctas", COUNTS)
def test_what_threads_of_other_blocks_wrote(ctas):
    n, turns = 2048, 101
    x = torch.arange(4 * n, device="cuda", dtype=torch.int32).reshape(4, n)
    wanted = x.flip(1) + turns
    in_order[(4,)](x, turns, N=n, num_ctas=ctas, num_warps=4)
    assert torch.equal(x, wanted)


@pytest.mark.parametrize("ctas", COUNTS)
def test_atomics_scans_and_sorts(ctas):
    n, programs = 1024, 9
    x = torch.randint(0, 64, (programs, n), device="cuda", dtype=torch.int32)
    given = x.clone()
    bins, tickets = (torch.zeros(64, device="cuda", dtype=torch.int32) for _ in range(2))
    sums = torch.zeros_like(x)
    counted[(programs,)](x, bins, tickets, sums, N=n, num_ctas=ctas)
    assert torch.equal(bins.long(), torch.bincount(given.flatten(), minlength=64))
    assert tickets[:2].tolist() == [programs, programs - 1]
    assert torch.equal(sums.long(), given.cumsum(1))
    assert torch.equal(x, given.sort(1).values)


@pytest.mark.parametrize("ctas", COUNTS)
def test_the_grid_counts_programs(ctas):
    out = torch.zeros(3 * 5 * 7, 2, device="cuda", dtype=torch.int32)
    ids[(3, 5, 7)](out, num_ctas=ctas)
    assert (out[:, 0] == 30507).all() and (out[:, 1] == 1).all()
    with pytest.raises(LaunchError, match=str(2147483647 // ctas)):
        ids[(2147483647 // ctas + 1,)](out, num_ctas=ctas)


@pytest.mark.parametrize("ctas", [2, 4, 16])
def test_random_programs(ctas, tmp_path, monkeypatch):
    """The same bits as one block where the order of operations is fixed, close ones elsewhere."""
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    for number in range(ctas, 40 + ctas):
        program = generate(random.Random(number))
        warps = 1 << number % 3
        alone = on_gpu(program, warps)
        together = on_gpu(program, warps, num_ctas=ctas)
        for a, b in zip(alone, together, strict=True):
            x, y = (torch.from_numpy(v.astype("float64")) for v in (a, b))
            finite = x[torch.isfinite(x)]
            scale = max(1.0, finite.abs().max().item() if len(finite) else 1.0)
            close = torch.allclose(
                x, y, rtol=program.tolerance, atol=program.tolerance * scale, equal_nan=True
            )
            assert close, f"program {number}\n{program.source}"
