"""Products on the GPU: every type, every major of both operands, extents that nothing divides."""

import pytest

import tilewright as tw
import tilewright.language as tl

torch = pytest.importorskip("torch")


@tw.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    KIND: tl.constexpr, PRECISION: tl.constexpr, IMPRECISE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), KIND)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a_at = a_ptr + m[:, None] * sam + k[None, :] * sak
        b_at = b_ptr + k[:, None] * sbk + n[None, :] * sbn
        a = tl.load(a_at, (m[:, None] < M) & (k[None, :] < K), other=0)
        b = tl.load(b_at, (k[:, None] < K) & (n[None, :] < N), other=0)
        sums = tl.dot(
            a, b, sums, out_dtype=KIND, input_precision=PRECISION, max_num_imprecise_acc=IMPRECISE
        )
    at = c_ptr + m[:, None] * scm + n[None, :] * scn
    tl.store(at, sums, (m[:, None] < M) & (n[None, :] < N))


#: operands, sums, precision -> error relative to the Frobenius norm
TYPES = {
    "ieee": ("float32", "float32", "float32", "ieee", 1e-6),
    "tf32": ("float32", "float32", "float32", "tf32", 2e-3),
    "tf32x3": ("float32", "float32", "float32", "tf32x3", 2e-6),
    "bf16x3": ("float32", "float32", "float32", "bf16x3", 2e-5),
    "bf16x6": ("float32", "float32", "float32", "bf16x6", 2e-6),
    "f16": ("float16", "float16", "float32", "tf32", 1e-5),
    "f16 sums": ("float16", "float16", "float16", "tf32", 4e-3),
    "bf16": ("bfloat16", "bfloat16", "float32", "tf32", 1e-5),
    "int8": ("int8", "int8", "int32", "tf32", 0.0),
    "e4m3": ("float8_e4m3fn", "float8_e4m3fn", "float32", "tf32", 2e-3),
    "e5m2": ("float8_e5m2", "float8_e5m2", "float32", "tf32", 2e-3),
    "e4m3 e5m2": ("float8_e4m3fn", "float8_e5m2", "float32", "tf32", 2e-3),
    "e5m2 e4m3": ("float8_e5m2", "float8_e4m3fn", "float32", "tf32", 2e-3),
    "e4m3 f16 sums": ("float8_e4m3fn", "float8_e4m3fn", "float16", "tf32", 4e-3),
}
SHAPES = [(128, 256, 256), (200, 264, 136), (333, 257, 129), (64, 48, 520), (80, 512, 64)]
CONFIGS = [(64, 64, 64, 4, 3), (128, 64, 128, 4, 2), (128, 128, 32, 8, 3)]


def values(shape, kind, by_k):
    """Random numbers; `by_k`: the last dimension is contiguous, else the first."""
    stored = shape if by_k else shape[::-1]
    if kind == "int8":
        made = torch.randint(-128, 128, stored, device="cuda", dtype=torch.int8)
    else:
        made = torch.randn(stored, device="cuda").to(getattr(torch, kind))
    return made if by_k else made.t()


def error(types, shape, config, a_by_k, b_by_k, imprecise=None):
    left, right, sums, precision, _ = TYPES[types]
    (m, n, k), (bm, bn, bk, warps, stages) = shape, config
    a, b = values((m, k), left, a_by_k), values((k, n), right, not b_by_k)
    c = torch.full((m, n), 77, device="cuda", dtype=getattr(torch, sums))
    product[(-(-m // bm), -(-n // bn))](
        a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(),
        KIND=getattr(tl, sums), PRECISION=precision, IMPRECISE=imprecise,
        BM=bm, BN=bn, BK=bk, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    want = a.double() @ b.double()
    return float((c.double() - want).norm() / want.norm())


@pytest.mark.parametrize("b_by_k", [False, True], ids=["b by n", "b by k"])
@pytest.mark.parametrize("a_by_k", [False, True], ids=["a by m", "a by k"])
@pytest.mark.parametrize("types", TYPES)
def test_types_and_majors(types, a_by_k, b_by_k):
    for config in CONFIGS:
        for shape in SHAPES:
            made = error(types, shape, config, a_by_k, b_by_k)
            assert made <= TYPES[types][-1], (shape, config, made)


@pytest.mark.parametrize("types", ["e4m3", "e5m2 e4m3"])
def test_fewer_imprecise_sums_are_closer(types):
    """The tensor cores sum 8-bit products in less than single precision."""
    shape, config = (256, 256, 4096), (128, 128, 128, 8, 3)
    made = [error(types, shape, config, True, True, limit) for limit in (None, 128, 32)]
    assert made[1] < made[0] and made[2] <= made[1] * 1.01, made


def test_what_is_not_finite_stays_so():
    """An infinity is one among the parts of a split operand too, and no number stays none."""
    a = torch.ones((64, 64), device="cuda")
    a[3, 5], a[4, 6] = float("inf"), float("nan")
    b = torch.ones((64, 64), device="cuda")
    for precision in ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"):
        c = torch.zeros((64, 64), device="cuda")
        product[(1, 1)](
            a, b, c, 64, 64, 64, *a.stride(), *b.stride(), *c.stride(), KIND=tl.float32,
            PRECISION=precision, IMPRECISE=None, BM=64, BN=64, BK=64,
        )  # fmt: skip
        assert torch.isinf(c[3]).all() and torch.isnan(c[4]).all(), precision
        c[3:5] = 64
        assert (c == 64).all(), precision
