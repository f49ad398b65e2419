"""Generated products on the GPU against float64: dtypes, orders, batches, epilogues, odd sizes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generator.random_calls import compare, random_call, reference

import tilewright as tw
import tilewright.language as tl

torch = pytest.importorskip("torch")

E = tw.epilogue
#: relative error of one rounding of the result, with room for the sums' order
EPS = {
    "float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2,
    "float8_e4m3fn": 2e-3, "float8_e5m2": 2e-3, "int8": 1e-5,
}  # fmt: skip
SIZES = (1, 2, 7, 16, 33, 64, 100, 128, 256, 300, 520, 1000, 1024)
F = torch.nn.functional
STEPS = {
    "relu": lambda x: x.relu(),
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def random_tensor(shape, dtype, turned=False):
    if turned and len(shape) > 1:
        return random_tensor((*shape[:-2], shape[-1], shape[-2]), dtype).transpose(-1, -2)
    kind = getattr(torch, dtype)
    if dtype == "int8":
        return torch.randint(-9, 9, shape, device="cuda").to(kind)
    return torch.randn(shape, device="cuda").to(kind)


def check(result, reference, eps, k, what=""):
    assert result.shape == reference.shape
    error = (result.double() - reference).abs()
    allowed = eps * (reference.abs() + 4 * (k**0.5 + 4))
    worst = float((error / allowed).max()) if error.numel() else 0.0
    assert worst <= 1, f"{what}: {worst} times the tolerance"


def random_epilogue(rng, reference, dtype):
    parts = []
    for _ in range(rng.integers(3)):
        kind = str(rng.choice([*STEPS, "bias n", "bias m", "residual"]))
        if kind in STEPS:
            parts.append(kind)
            reference = STEPS[kind](reference)
        elif kind == "residual":
            array = random_tensor(reference.shape, dtype)
            parts.append(E.residual(array))
            reference = reference + array.double()
        else:
            vector = random_tensor((reference.shape[-1 if kind[-1] == "n" else -2],), dtype)
            parts.append(E.bias(vector, kind[-1]))
            wide = vector.double()
            reference = reference + (wide if kind[-1] == "n" else wide[:, None])
    return parts, reference


def random_config(rng):
    return tw.MatmulConfig(
        int(rng.choice([64, 128])), int(rng.choice([32, 64, 96, 128])), int(rng.choice([32, 64])),
        int(rng.choice([1, 8])), int(rng.choice([4, 8])), int(rng.choice([1, 2, 3])),
        int(rng.choice([1, 1, 3])), bool(rng.random() < 0.3),
    )  # fmt: skip


def run_case(seed):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["float16", "bfloat16", "float32", "float64", "int8", "float8_e4m3fn"]))
    m, n, k = (int(rng.choice(SIZES)) for _ in range(3))
    batch = [(), (), (3,), (2, 3)][rng.integers(4)]
    a = random_tensor((*(batch if rng.random() < 0.7 else ()), m, k), dtype, rng.random() < 0.4)
    b = random_tensor((*(batch if rng.random() < 0.7 else ()), k, n), dtype, rng.random() < 0.4)
    reference = torch.matmul(a.double(), b.double())
    options = {}
    if rng.random() < 0.3:
        options["alpha"], reference = 0.5, 0.5 * reference
    if rng.random() < 0.3:
        c = random_tensor(reference.shape, dtype)
        options |= {"c": c, "beta": 2.0}
        reference = reference + 2 * c.double()
    parts, reference = random_epilogue(rng, reference, dtype)
    config = random_config(rng) if rng.random() < 0.4 else None
    if config is not None:
        config = config.with_(swap_operands=bool(rng.random() < 0.4))
    out_dtype = torch.float32 if dtype == "int8" else None
    result = tw.matmul(a, b, epilogue=parts, out_dtype=out_dtype, config=config, **options)
    check(result, reference, EPS[dtype], k, (dtype, m, n, k, parts, config))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30))
def test_random_products(seed):
    run_case(seed)


@pytest.mark.long
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 1 << 30))
def test_many_random_products(seed):
    run_case(seed)


def by_torch(a, b):
    return (
        torch.matmul(*(torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in (a, b)))
        .cpu()
        .numpy()
    )


def run_call(seed):
    """A call with everything that `matmul` takes (`tests/generator/random_calls.py`)."""
    call = random_call(seed, (0, *SIZES[:-2], 3, 17, 65, 130))
    a, b, out, options = call.arguments(lambda x: x.torch("cuda"))
    if "out_dtype" in options:
        options["out_dtype"] = getattr(torch, call.out_dtype)
    value, bound = reference(call, by_torch)
    result = tw.matmul(a, b, out, **options)
    assert result.dtype == getattr(torch, call.out_dtype), call
    shown = result.float() if result.dtype in (torch.float16, torch.bfloat16) else result
    wrong = compare(call, shown.cpu().numpy(), value, bound)
    assert not wrong, f"{call}: {wrong}"
    if out is not None:
        call.out.back()
        assert call.out.outside_is_as_before, call


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30))
def test_random_calls(seed):
    run_call(seed)


@pytest.mark.long
@pytest.mark.parametrize("shard", range(4))
@settings(max_examples=125, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_many_random_calls(shard, seed):
    run_call(4 * seed + shard)


def test_nothing_of_a_vector():
    """Extents of 0 beside extents of 1."""
    for m, n, k in ((0, 1, 8), (1, 0, 8), (1, 1, 0), (0, 0, 0), (1, 64, 0)):
        found = tw.matmul(random_tensor((m, k), "float16"), random_tensor((k, n), "float16"))
        assert found.shape == (m, n) and (found == 0).all()


@pytest.mark.parametrize(
    "shape", [(70000, 70000, 64), (2_200_000_000, 1, 2), (1, 2_200_000_000, 1)]
)
def test_more_elements_than_32_bits_count(shape):
    m, n, k = shape
    a, b = (torch.empty(s, device="cuda", dtype=torch.float16).normal_() for s in ((m, k), (k, n)))
    found = tw.matmul(a, b)
    rows, columns = (torch.tensor([0, x // 2, x - 1], device="cuda").unique() for x in (m, n))
    wanted = a[rows].double() @ b[:, columns].double()
    error = (found[rows][:, columns].double() - wanted).abs().max()
    assert error <= 1e-3 * (k**0.5 + 4)
    del a, b, found, wanted
    torch.cuda.empty_cache()


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
def test_dtypes_and_orders(dtype, turned):
    a = random_tensor((200, 304), dtype, turned[0])
    b = random_tensor((304, 144), dtype, turned[1])
    check(tw.matmul(a, b), a.double() @ b.double(), EPS[dtype], 304)


@pytest.mark.parametrize(
    "shape",
    [(1000, 1000, 1000), (1024, 1024, 8192), (128, 4096, 4096), (4096, 16, 4096), (1, 4096, 4096),
     (4096, 1, 4096), (1, 1, 100_000), (3, 5, 1), (777, 555, 333), (2048, 3072, 64)],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_shapes(shape, turned):
    m, n, k = shape
    a, b = random_tensor((m, k), "float16"), random_tensor((k, n), "float16", turned)
    check(tw.matmul(a, b), a.double() @ b.double(), 2e-3, k)


def test_batches():
    for shapes in (
        ((64, 96, 128), (64, 128, 80)),
        ((5, 96, 120), (5, 120, 80)),
        ((7, 64), (3, 64, 9)),
    ):
        a, b = (random_tensor(shape, "float16") for shape in shapes)
        check(tw.matmul(a, b), a.double() @ b.double(), 2e-3, a.shape[-1])


@pytest.mark.parametrize("split_k", [1, 3])
@pytest.mark.parametrize("persistent", [False, True])
def test_batches_in_each_form(split_k, persistent):
    a, b = random_tensor((5, 128, 192), "float16"), random_tensor((5, 192, 144), "float16")
    config = tw.MatmulConfig(64, 48, 64, 2, 4, 3, split_k, persistent)
    check(tw.matmul(a, b, config=config), a.double() @ b.double(), 2e-3, 192)


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("tile", [(128, 256, 8, 2), (64, 128, 4, 7), (192, 192, 12, 2)])
@pytest.mark.parametrize(
    "shape", [(1000, 1000, 1000), (384, 520, 264), (1096, 136, 4104), (64, 264, 72)]
)
def test_pairs_of_tiles(shape, tile, turned):
    """Rows that begin inside of lines, by blocks that fetch what both need together."""
    m, n, k = shape
    a, b = random_tensor((m, k), "float16", turned[0]), random_tensor((k, n), "float16", turned[1])
    config = tw.MatmulConfig(*tile[:2], 64, 8, *tile[2:], persistent=True, tma_multicast=True)
    first = tw.matmul(a, b, config=config)
    check(first, a.double() @ b.double(), EPS["float16"], k)
    assert all(torch.equal(first, tw.matmul(a, b, config=config)) for _ in range(20))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("k", "n"), [(64, 1031), (4096, 4097), (128, 70001), (72, 2050)])
def test_rows_of_odd_extents_times_a_vector(k, n, dtype):
    x, y = random_tensor((1, k), dtype), random_tensor((k, n), dtype)
    check(tw.matmul(x, y), x.double() @ y.double(), EPS[dtype], k)
    check(tw.matmul(y.T, x.T), y.T.double() @ x.T.double(), EPS[dtype], k)


def test_nothing_to_sum_and_nothing_to_compute():
    a, b = random_tensor((30, 0), "float16"), random_tensor((0, 20), "float16")
    assert (tw.matmul(a, b) == 0).all()
    assert tw.matmul(a.t(), random_tensor((30, 5), "float16")).shape == (0, 5)


def test_sums_in_half_precision():
    a, b = random_tensor((256, 128), "float16"), random_tensor((128, 256), "float16")
    result = tw.matmul(a, b, accumulate=tl.float16)
    check(result, a.double() @ b.double(), 2e-2, 128)


def test_tf32():
    a, b = random_tensor((256, 512), "float32"), random_tensor((512, 128), "float32")
    check(tw.matmul(a, b, precision="tf32"), a.double() @ b.double(), 2e-3, 512)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("tile", [
    (256, 128, 32, 8), (128, 256, 32, 8), (192, 256, 32, 8), (256, 192, 32, 12), (192, 192, 32, 12), (64, 128, 64, 4),
])  # fmt: skip
def test_tf32_in_every_order(tile, turned):
    """Tiles whose operands pass through registers, one of the forms of large products."""
    m, n, k = 520, 776, 328
    a = random_tensor((k, m) if turned[0] else (m, k), "float32")
    b = random_tensor((n, k) if turned[1] else (k, n), "float32")
    a, b = a.t() if turned[0] else a, b.t() if turned[1] else b
    *blocks, warps = tile
    for through in (True, False):
        config = tw.MatmulConfig(*blocks, 4, warps, 3, wgmma_rs=through)
        result = tw.matmul(a, b, precision="tf32", config=config)
        check(result, a.double() @ b.double(), 2e-3, k)
    config = tw.MatmulConfig(128, 128, 32, 4, 8, 3, persistent=True)
    result = tw.matmul(a, b, precision="tf32", config=config)
    check(result, a.double() @ b.double(), 2e-3, k)


def test_split_products_are_reproducible():
    a, b = random_tensor((128, 8192), "float16"), random_tensor((8192, 128), "float16")
    config = tw.MatmulConfig(128, 128, 64, num_warps=8, num_stages=3, split_k=8)
    first = tw.matmul(a, b, config=config)
    check(first, a.double() @ b.double(), 2e-3, 8192)
    assert all((tw.matmul(a, b, config=config) == first).all() for _ in range(10))


@tw.jit
def gated(x, gate, shift):
    return x * tl.sigmoid(gate.to(tl.float32)) + shift


def test_functions_of_the_user():
    a, b = random_tensor((200, 64), "float16"), random_tensor((64, 300), "float16")
    gate, shift = random_tensor((200, 300), "float16"), random_tensor((200, 1), "float16")
    reference = (a.double() @ b.double()) * torch.sigmoid(gate.double()) + shift.double()
    check(tw.matmul(a, b, epilogue=E.apply(gated, gate, shift)), reference, 2e-3, 64)


@tw.loop_nest
def product(A, B, C, M, N, K):
    for i in range(M):
        for j in range(N):
            for k in range(K):
                C[i, j] += A[i, k] * B[k, j]


def test_loops():
    a, b = random_tensor((200, 64), "float16"), random_tensor((64, 304), "float16")
    c = random_tensor((200, 304), "float32")
    reference = c.double() + a.double() @ b.double()
    product(a, b, c, 200, 304, 64)
    check(c, reference, 1e-5, 64)


def test_results_go_to_the_current_stream():
    a, b = random_tensor((512, 512), "float16"), random_tensor((512, 512), "float16")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        a2 = a * 2
        result = tw.matmul(a2, b)
    stream.synchronize()
    check(result, 2 * (a.double() @ b.double()), 2e-3, 512)


@pytest.mark.parametrize("m", [1, 200])
def test_calls_like_the_last_one_on_other_streams_and_addresses(m):
    b = torch.randn(300, 160, device="cuda").half()
    whole = torch.randn(40, 1 + m * 300, device="cuda").half()
    out = torch.empty(m, 160, device="cuda", dtype=torch.float16)
    torch.cuda.synchronize()
    for i in range(40):
        a = whole[i, i % 3 == 1 :][: m * 300].view(m, 300)  # now and then at an odd address
        stream = torch.cuda.Stream() if i % 4 == 1 else torch.cuda.current_stream()
        with torch.cuda.stream(stream):
            out.zero_()
            tw.matmul(a, b, out, alpha=0.5)
            found = out.clone()
        stream.synchronize()
        check(found, 0.5 * a.double() @ b.double(), EPS["float16"], 300, f"call {i}")


def test_calls_like_the_last_one_are_captured():
    a, b = (torch.randn(256, 256, device="cuda").half() for _ in range(2))
    out = torch.empty_like(a)
    for _ in range(3):
        tw.matmul(a, b, out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tw.matmul(a, b, out)
    for _ in range(2):
        a.copy_(torch.randn(256, 256, device="cuda"))
        out.zero_()
        graph.replay()
        check(out, a.double() @ b.double(), EPS["float16"], 256)
