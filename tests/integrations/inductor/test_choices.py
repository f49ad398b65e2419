"""Block sizes of kernels on a CPU."""

from __future__ import annotations

import pytest

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
