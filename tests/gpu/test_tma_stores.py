"""Tiles stored as boxes (`lower-stores-to-tma`) on a GPU: types, orders, ragged ends, loops over tiles."""

import pytest
from tests.gpu.errors_of_products import assert_product
from tests.tiled_products import one_tile, product, shifted

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.descriptors import TensorDescriptor

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("kernel", [product, one_tile], ids=["loop", "program"])
@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("sizes", "blocks", "warps"),
    [
        ((256, 256, 128), (64, 64, 64), 4), ((1008, 1104, 528), (128, 128, 64), 8),
        ((80, 48, 64), (64, 64, 32), 4), ((304, 272, 0), (128, 64, 32), 4),
        ((512, 512, 256), (128, 256, 64), 8),
    ],
)  # fmt: skip
def test_products(kernel, order, dtype, sizes, blocks, warps):
    m, n, k = sizes
    torch.manual_seed(m)
    a, b = (torch.randn(*shape, device="cuda").half() for shape in ((m, k), (k, n)))
    kind = getattr(torch, dtype)
    room = torch.full((m + 2, n) if order == "rows" else (n + 2, m), 7.0, device="cuda", dtype=kind)
    c = room[1:-1] if order == "rows" else room[1:-1].T
    tiles = -(-m // blocks[0]) * -(-n // blocks[1])
    programs = tiles if kernel is one_tile else max(1, tiles // 3)
    made = kernel[(programs,)](
        a, b, c, m, n, k, *c.stride(), *blocks, num_warps=warps, num_stages=3
    )
    if "ptx" in made.asm and torch.cuda.get_device_capability() == (9, 0):
        assert "bulk_group" in made.asm["ptx"]
    assert_product(c, a, b, roundings=(kind,))
    assert bool((room[0] == 7).all()) and bool((room[-1] == 7).all())  # nothing beside it


def test_what_is_also_read_is_stored_in_order():
    @tw.jit
    def add_to(a, b, c, N: tl.constexpr):
        r = tl.arange(0, N)
        at = c + r[:, None] * N + r[None, :]
        x = tl.load(a + r[:, None] * N + r[None, :])
        y = tl.load(b + r[:, None] * N + r[None, :])
        tl.store(at, tl.dot(x, y, tl.load(at)))

    a, b = (torch.randn(64, 64, device="cuda").half() for _ in range(2))
    c = torch.randn(64, 64, device="cuda")
    before = c.clone()
    made = add_to[(1,)](a, b, c, 64, num_warps=4)
    assert "bulk_group" not in made.asm["ptx"]
    assert_product(c, a, b, added=before)


@pytest.mark.parametrize("width", [27, 32, 64])
@pytest.mark.parametrize("first", [0, 7, 16])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_what_begins_or_ends_within_16_bytes(dtype, first, width):
    """The hardware takes no box that begins there, and would store what is beside the lines."""
    kind = getattr(torch, dtype)
    a, b = (torch.randn(64, n, device="cuda").to(kind) for n in (96, 64))
    c = torch.full((2, 64, 64), -3.0, device="cuda", dtype=torch.float16)
    shifted[(2,)](a, b, c, first, width, num_warps=4)
    for i, k in enumerate((64, 32)):
        wanted = a[:, 2 * first :][:, :k].double() @ b[:k, :width].double()
        assert float((c[i, :, :width].double() - wanted).norm() / wanted.norm()) < 2e-3
        assert bool((c[i, :, width:] == -3).all())


@pytest.mark.parametrize("width", [64, 62, 1])
@pytest.mark.parametrize("host", [True, False], ids=["host", "kernel"])
def test_descriptors_of_lines_that_end_within_16_bytes(host, width):
    @tw.jit
    def store(a, b, c, w, HOST: tl.constexpr):
        r = tl.arange(0, 64)
        x, y = tl.load(a + r[:, None] * 64 + r), tl.load(b + r[:, None] * 64 + r)
        z = c if HOST else tl.make_tensor_descriptor(c, [64, w], [128, 1], [64, 64])
        z.store([0, 0], tl.dot(x, y).to(tl.float16))

    a, b = (torch.randn(64, 64, device="cuda").half() for _ in range(2))
    c = torch.full((64, 128), -3.0, device="cuda", dtype=torch.float16)
    given = TensorDescriptor.from_tensor(c[:, :width], [64, 64]) if host else c
    store[(1,)](a, b, given, width, host, num_warps=4)
    assert_product(c[:, :width], a, b[:, :width], roundings=(torch.float16,))
    assert bool((c[:, width:] == -3).all())
