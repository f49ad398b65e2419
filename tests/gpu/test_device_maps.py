"""Tensor maps that kernels make, on the GPU: grouped matmuls of ragged shapes, launched often and side by side."""

import pytest

import tilewright as tw
import tilewright.language as tl

torch = pytest.importorskip("torch")


@tw.jit
def grouped(tables, sizes, pitches, groups, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    last = 0
    for g in range(groups):
        m = tl.load(sizes + g * 3)
        n = tl.load(sizes + g * 3 + 1)
        k = tl.load(sizes + g * 3 + 2)
        columns = tl.cdiv(n, BN)
        tiles = tl.cdiv(m, BM) * columns
        if tile >= last and tile < last + tiles:
            a = tl.load(tables + g * 3).to(tl.pointer_type(tl.float16))
            b = tl.load(tables + g * 3 + 1).to(tl.pointer_type(tl.float16))
            c = tl.load(tables + g * 3 + 2).to(tl.pointer_type(tl.float16))
            a = tl.make_tensor_descriptor(a, [m, k], [tl.load(pitches + g * 3), 1], [BM, BK])
            b = tl.make_tensor_descriptor(b, [n, k], [tl.load(pitches + g * 3 + 1), 1], [BN, BK])
            c = tl.make_tensor_descriptor(c, [m, n], [tl.load(pitches + g * 3 + 2), 1], [BM, BN])
            while tile >= last and tile < last + tiles:
                row = (tile - last) // columns * BM
                column = (tile - last) % columns * BN
                total = tl.zeros((BM, BN), dtype=tl.float32)
                for i in range(0, tl.cdiv(k, BK)):
                    total += tl.dot(a.load([row, i * BK]), b.load([column, i * BK]).T)
                c.store([row, column], total.to(tl.float16))
                tile += tl.num_programs(0)
        last = last + tiles


def padded(rows, columns):
    pitch = -(-columns // 8) * 8
    return torch.randn(rows, pitch, device="cuda", dtype=torch.float16)[:, :columns]


@pytest.mark.parametrize(("warps", "stages"), [(4, 3), (8, 4)])
def test_grouped_matmul(warps, stages):
    shapes = [(300, 200, 333), (64, 1000, 64), (5, 7, 0), (777, 96, 1024), (128, 128, 4096)]
    operands = [(padded(m, k), padded(n, k), padded(m, n)) for m, n, k in shapes]
    flat = [x for group in operands for x in group]
    tables = torch.tensor([x.data_ptr() for x in flat], device="cuda")
    sizes = torch.tensor(shapes, device="cuda", dtype=torch.int32)
    pitches = torch.tensor([x.stride(0) for x in flat], device="cuda", dtype=torch.int32)
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    for launch in range(40):
        with torch.cuda.stream(streams[launch % 4]):
            programs = (7, 132, 400)[launch % 3]
            grouped[(programs,)](tables, sizes, pitches, len(shapes), BM=128, BN=128, BK=64, num_warps=warps, num_stages=stages)  # fmt: skip
    torch.cuda.synchronize()
    for a, b, c in operands:
        torch.testing.assert_close(c.float(), a.float() @ b.float().T, rtol=1e-2, atol=1e-1)
