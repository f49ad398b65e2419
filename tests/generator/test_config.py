"""`MatmulConfig`: its words, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import LaunchError
from tilewright.generator import MatmulConfig
from tilewright.generator.config import FORMS, Panels

_NUMBERS = st.integers(1, 16)


@st.composite
def configs(draw: st.DrawFn) -> MatmulConfig:
    """Configurations of every form, with every option that goes with it."""
    form = draw(st.sampled_from(FORMS))
    persistent = draw(st.booleans())
    split = draw(_NUMBERS) if form != "listing1" else 1
    panels = None
    columns, rows = draw(st.sampled_from([8, 32])), draw(st.sampled_from([1, 2, 4]))
    if form == "tiled" and split == 1 and not persistent and draw(st.booleans()):
        panels = Panels(columns, rows, draw(st.sampled_from(["", "fp32", "bf16"])))
    return MatmulConfig(
        draw(_NUMBERS), columns * draw(_NUMBERS), rows * draw(_NUMBERS), draw(_NUMBERS),
        draw(st.sampled_from([1, 2, 4, 8, 12])), draw(_NUMBERS), split_k=split, persistent=persistent,
        tma_multicast=persistent and draw(st.booleans()), use_tma=draw(st.booleans()),
        wgmma_rs=draw(st.booleans()), form=form,
        rows_per_load=draw(_NUMBERS) if form == "gemv" else 1, prepack=panels,
    )  # fmt: skip


@given(configs())
def test_text_tells_all(config: MatmulConfig) -> None:
    assert MatmulConfig.from_text(config.text) == config


def test_every_word() -> None:
    text = "1x64x8 g1 w4 s3 k2 j8 persistent multicast no-tma no-rs gemv"
    assert MatmulConfig.from_text(text) == MatmulConfig(
        1, 64, 8, 1, 4, 3, 2, persistent=True, use_tma=False, wgmma_rs=False, form="gemv",
        rows_per_load=8, tma_multicast=True,
    )  # fmt: skip
    assert MatmulConfig.from_text("4x64x8 p32x2 fp32").prepack == Panels(32, 2, "fp32")


@pytest.mark.parametrize(
    "text",
    ["", "64", "64x64", "64x64xk", "64x64x32 fast", "64x64x32 g", "64x64x32 g0", "64x64x32 pairs", "64x64x32 p32 w4 fp32", "64x64x32 p32 w4", "64x64x32 p32x2 fp32 g4"],
)  # fmt: skip
def test_other_words(text: str) -> None:
    with pytest.raises(LaunchError, match="MatmulConfig"):
        MatmulConfig.from_text(text)
