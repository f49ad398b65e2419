"""Block sizes of kernels on a CPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tilewright.integrations.inductor import choices
from tilewright.integrations.inductor.choices import Work, _is_along_y, blocks

TILES = {"YBLOCK": 1, "XBLOCK": 1}


@pytest.mark.parametrize(
    ("extent", "block"),
    [(96, 32), (128, 128), (120, 128), (200, 32), (30, 32), (33, 16), (14, 16), (1000, 128)],
)
def test_blocks_end_near_the_end_of_a_dimension(extent: int, block: int) -> None:
    sizes = {"y": 4096, "x": 1 << (extent - 1).bit_length()}
    work = Work("pointwise", sizes, extents={"x": extent, "y": 4096})
    assert blocks(work, TILES) == {"YBLOCK": 32, "XBLOCK": block}


def test_matrices_are_transposed_one_by_one() -> None:
    tiles = {"ZBLOCK": 1, **TILES}
    work = Work("pointwise", {"z": 16, "y": 512, "x": 128}, extents={"z": 16, "y": 300, "x": 128})
    assert blocks(work, tiles) == {"ZBLOCK": 1, "YBLOCK": 32, "XBLOCK": 128}


def test_unknown_extents_take_the_usual_blocks() -> None:
    assert blocks(Work("pointwise", {"y": 4096, "x": 4096}), TILES) == {"YBLOCK": 32, "XBLOCK": 128}


@pytest.mark.parametrize(("columns", "block"), [(8, 8), (4, 4), (3, 128), (2, 128), (64, 64)])
def test_few_columns_are_a_block(columns: int, block: int) -> None:
    work = Work("reduction", {"x": 1024, "r0_": 4096}, across=True, divisors={"x": [columns]})
    assert blocks(work, {"XBLOCK": 1, "R0_BLOCK": 1}) == {"XBLOCK": block, "R0_BLOCK": 1}


@pytest.mark.parametrize(
    ("sizes", "threads", "block"),
    [
        ({"y": 2048, "x": 256}, 1, {"YBLOCK": 16, "XBLOCK": 256}),
        ({"y": 2048, "x": 1024}, 1, {"YBLOCK": 8, "XBLOCK": 512}),
        ({"y": 64, "x": 32}, 1, {"YBLOCK": 16, "XBLOCK": 32}),
        ({"y": 64, "x": 32}, 8, {"YBLOCK": 2, "XBLOCK": 32}),
    ],
    ids=str,
)
def test_whole_rows(sizes: dict[str, int], threads: int, block: dict[str, int]) -> None:
    assert blocks(Work("pointwise", sizes, in_rows=True, threads=threads), TILES) == block


@pytest.mark.parametrize(
    ("index", "along"),
    [
        ("x2 + 134*y3), xmask & ymask)", False),
        ("y0 + 128*x2), xmask)", True),
        ("x1 + 64*y0 + 128*ks0*y0), tmp0)", False),
        ("y3), ymask)", False),
        ("99 + (-1)*tl_math.abs((-3) + x2) + (-8)*tl_math.abs((-3) + y0)), xmask)", False),
    ],
)
def test_accesses_that_run_along_y(index: str, along: bool) -> None:
    assert _is_along_y(index) is along


LOOPS = """
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        tmp0 = tl.load(in_ptr0 + ({load}), r0_mask & xmask, other=0.0)
        tmp1 = tl.load(in_ptr1 + (r0_2), r0_mask, other=0.0)
        tl.store(out_ptr1 + ({store}), tmp1, r0_mask & xmask)
"""


@pytest.mark.parametrize(
    ("load", "store", "block"),
    [
        ("x0 + 256*r0_2 + 49152*x1", "r0_2 + 192*x3", {"XBLOCK": 64, "R0_BLOCK": 16}),
        ("r0_2 + 192*x3", "x0 + 256*r0_2 + 49152*x1", {"XBLOCK": 64, "R0_BLOCK": 16}),
        ("x0 + 256*r0_2 + 49152*x1", "x0 + 256*r0_2", {"XBLOCK": 128, "R0_BLOCK": 1}),
        ("r0_2 + 192*x3", "r0_2 + 192*x3", {"XBLOCK": 1, "R0_BLOCK": 64}),
    ],
)
def test_reductions_whose_stores_run_across_their_loads_go_in_blocks(
    load: str, store: str, block: dict[str, int]
) -> None:
    kind = SimpleNamespace(name="REDUCTION")
    scores = {"x": 1, "r0_": 2} if "r0_2" in (load[:4], store[:4]) else {"x": 2, "r0_": 1}
    meta = {"num_reduction": 1, "tiling_scores": scores}
    given = [SimpleNamespace(kwargs={"XBLOCK": 1, "R0_BLOCK": 1})]
    device = SimpleNamespace(type="cpu", multi_processor_count=1)
    sizes = {"x": 1024, "r0_": 256}
    source = LOOPS.format(load=load, store=store)

    def make(kwargs: dict[str, int], **_: object) -> dict[str, int]:
        return kwargs

    assert choices.choose(make, sizes, given, {"device": device}, kind, meta, source) == [block]
