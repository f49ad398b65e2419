"""PTX in kernels, run."""

import pytest

import tilewright as tw
import tilewright.language as tl

torch = pytest.importorskip("torch")


@tw.jit
def instructions(x_ptr, y_ptr, out_ptr, bytes_ptr, halves_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    fused = tl.inline_asm_elementwise(
        "fma.rn.f32 $0, $1, $2, $2;", "=f,f,f", [x, y], dtype=tl.float32, is_pure=True, pack=1
    )
    ix, iy = x.to(tl.int32, bitcast=True), y.to(tl.int32, bitcast=True)
    high, low = tl.inline_asm_elementwise(
        "mul.hi.u32 $0, $2, $3; mul.lo.u32 $1, $2, $3;", "=&r,=r,r,r", [ix, iy],
        dtype=(tl.uint32, tl.uint32), is_pure=True, pack=1,
    )  # fmt: skip
    tl.store(out_ptr + at, fused)
    tl.store(out_ptr + N + at, (high ^ low).to(tl.float32, bitcast=True))
    b = tl.load(bytes_ptr + at)
    flipped = tl.inline_asm_elementwise(
        "xor.b32 $0, $1, 0x01020304;", "=r,r", [b], dtype=tl.int8, is_pure=False, pack=4
    )
    tl.store(bytes_ptr + at, tl.inline_asm_elementwise(
        "xor.b32 $0, $1, 0x01020304;", "=r,r", [flipped], dtype=tl.int8, is_pure=True, pack=4))  # fmt: skip
    h = tl.load(halves_ptr + at)
    tl.store(halves_ptr + at, tl.inline_asm_elementwise(
        "add.rn.f16x2 $0, $1, $2;", "=r,r,r", [h, x.to(tl.float16)], dtype=tl.float16,
        is_pure=True, pack=2))  # fmt: skip


@tw.jit
def scalars(out_ptr):
    lane = tl.inline_asm_elementwise(
        "mov.u32 $0, 42;", "=r", [], dtype=tl.int32, is_pure=True, pack=1
    )
    tl.store(out_ptr, lane + tl.program_id(0))


@pytest.mark.parametrize("n", [16, 128, 2048])
@pytest.mark.parametrize("warps", [1, 4])
def test_instructions(n, warps):
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out = torch.zeros(2, n, device="cuda")
    given = torch.randint(-128, 128, (n,), device="cuda", dtype=torch.int8)
    data, halves = given.clone(), torch.ones(n, device="cuda", dtype=torch.float16)
    instructions[(1,)](x, y, out, data, halves, N=n, num_warps=warps)
    torch.testing.assert_close(out[0], (x.double() * y.double() + y.double()).float())
    product = (x.view(torch.int32).long() & 0xFFFFFFFF) * (y.view(torch.int32).long() & 0xFFFFFFFF)
    wanted = ((product >> 32) ^ product) & 0xFFFFFFFF
    assert torch.equal(out[1].view(torch.int32).long() & 0xFFFFFFFF, wanted)
    assert torch.equal(data, given)
    assert torch.equal(halves, 1 + x.half())


def test_scalars():
    out = torch.zeros(1, device="cuda", dtype=torch.int32)
    scalars[(1,)](out)
    assert out.item() == 42
