"""A hundred launches of the same kernel on the same data give the same bits."""

import pytest

import tilewright as tw
import tilewright.language as tl

torch = pytest.importorskip("torch")
REPEATS = 100


def test_a_hundred_launches_agree():
    from tests.gpu.programs import programs

    differ = []
    for program in programs():
        program.run()
        torch.cuda.synchronize()
        first = [out.clone() for out in program.outputs]
        agree = torch.ones((), device="cuda", dtype=torch.bool)
        for _ in range(REPEATS):
            for out in program.outputs:
                out.zero_()
            program.again()
            program.launch()
            for a, b in zip(first, program.outputs, strict=True):
                if program.exact:
                    agree &= torch.equal(a.view(torch.uint8), b.view(torch.uint8))
                else:  # additions of floats in any order
                    agree &= torch.allclose(a, b, rtol=1e-4, atol=1e-4)
        if not agree:
            differ.append(program.name)
    assert not differ


@tw.jit
def mixed(m, d, n, e):
    return m + n * 0.75, d * 0.5 + e * m


@tw.jit
def in_every_lane(x_ptr, out_ptr, N: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + row * N + at)
    total = tl.sum(x * x, 0)
    first, second = tl.reduce((x, x * 3), 0, mixed)
    out = out_ptr + row * 3 * N + at
    tl.store(out, tl.zeros([N], tl.float32) + total)
    tl.store(out + N, tl.zeros([N], tl.float32) + first)
    tl.store(out + 2 * N, tl.zeros([N], tl.float32) + second)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("n", [32, 128, 1024])
def test_all_threads_hold_the_same_result(n, warps):
    """Products fuse with sums, and combinations that do not commute meet from two sides."""
    x = torch.randn(500, n, device="cuda")
    out = torch.zeros(500, 3, n, device="cuda")
    in_every_lane[(500,)](x, out, N=n, num_warps=warps)
    bits = out.view(torch.int32)
    assert (bits == bits[:, :, :1]).all()
    torch.testing.assert_close(out[:, 0, 0], (x.double() ** 2).sum(1).float())
