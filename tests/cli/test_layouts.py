"""`tilewright show --layouts`: table and picture; `--target`: IR and assembly of other machines."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.cli.layouts import owners
from tilewright.cli.main import main
from tilewright.layouts.blocked import blocked
from tilewright.layouts.layout import parse_layout

FILE = Path(__file__).with_name("kernels.py")
PRODUCT = [
    f"{FILE}:product_kernel",
    "-s",
    "a=*fp16:16,b=*fp16:16,c=*fp32:16,k=i32:16,M=64,N=64,K=32",
]


@pytest.fixture
def command(capsys):
    def run(*arguments):
        status = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_table_and_picture(command, tmp_path):
    picture = tmp_path / "folder" / "layouts.png"
    status, out, err = command("show", *PRODUCT, "--layouts", picture)
    assert (status, err) == (0, f"picture: {picture}\n")
    assert out.startswith("kernel product_kernel for sm_90a\n")
    assert (
        "64x32 of 2 bytes in shared memory, contiguous along dimension 1, swizzled over 64" in out
    )
    assert "64x64: 32 registers in each of 32 lanes of 4 warps\n" in out
    assert "total (carried by scf.for)" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_table_alone_and_other_targets(command):
    status, out, err = command("show", *PRODUCT, "--layouts", "-", "--target", "sm_80")
    assert (status, err) == (0, "")
    assert " for sm_80\n" in out
    assert (
        "64x32 of 2 bytes in shared memory, contiguous along dimension 1, swizzled over 64" in out
    )


def test_small_tiles_have_numbers(command, tmp_path):
    picture = tmp_path / "add.png"
    status, *_ = command("show", f"{FILE}:add_kernel", "-s", "BLOCK=64", "--layouts", picture)
    assert status == 0 and picture.is_file()


def test_kernels_of_the_cpu_have_no_layouts(command):
    status, out, _ = command(
        "show", f"{FILE}:add_kernel", "-s", "BLOCK=64", "--layouts", "-", "--target", "cpu"
    )
    assert status == 0 and "only GPU targets assign them" in out


def test_owners():
    register, lane, warp = owners(blocked((8, 64), 4, 2))
    assert register.shape == (8, 64)
    assert np.array_equal(register[0, :4], [0, 1, 0, 1]) and list(lane[0, :4]) == [0, 0, 1, 1]
    assert list(warp[:, 0]) == [0, 1, 2, 3, 0, 1, 2, 3]


def test_owners_in_more_dimensions():
    """One slice below the other, so that every element is in the picture."""
    layout = parse_layout("4x2x8 r[0,0,1 0,1,0] l[0,0,2 0,0,4 1,0,0 2,0,0 0,0,0] w[]")
    register, lane, warp = owners(layout)
    assert register.shape == (8, 8) and not warp.any()
    assert np.array_equal(lane[:, 0], [0, 0, 4, 4, 8, 8, 12, 12])
    for place in np.ndindex(4, 2, 8):
        row, column = 2 * place[0] + place[1], place[2]
        assert layout.holder(place) == (register[row, column], lane[row, column], 0)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        (
            "64x64 r[0,1 8,0 0,8 0,16 0,32] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]",
            "64x64: 32 registers",
        ),
        ("192 r[1 2] l[4 8 16 32 0] w[] x[3]", "192: 12 registers"),
        ("4x2x8 r[0,0,1 0,1,0] l[0,0,2 0,0,4 1,0,0 2,0,0 0,0,0] w[]", "4x2x8: 4 registers"),
        ("64x32x2 dim1 swizzle64", "swizzled over 64 bytes"),
        ("64x32x2 dim1 pad8", "lines padded by 8 elements"),
    ],
)
def test_any_layout_as_text(command, tmp_path, text, facts):
    picture = tmp_path / "layout.png"
    status, out, err = command("show", text, "--layouts", picture)
    assert (status, err) == (0, f"picture: {picture}\n") and facts in out and text in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert command("show", text, "--layouts", "-")[:2] == (0, out)


def test_ir_and_ptx_for_another_target(command):
    status, out, _ = command(
        "show", *PRODUCT, "--target", "sm_90a", "--disable", "promote-shared",
        "--pass", "pipeline-loads", "--pass", "select-mma", "--no-times",
    )  # fmt: skip
    assert status == 0
    left_out = next(line for line in out.splitlines() if line.startswith("left out: "))
    dependents = {
        "select-wgmma-rs", "promote-shared", "swizzle-shared", "specialize-warps", "pipeline-loads",
    }  # fmt: skip
    assert dependents <= set(left_out.removeprefix("left out: ").split(", "))
    assert "instead: select-mma{wgmma=false}\n" in out
    assert '"m16n8k16.f16"' in out and "gpu.wgmma" not in out
    status, out, _ = command("show", *PRODUCT, "--target", "sm_90a", "--asm", "asm")
    assert status == 0 and ".target sm_90a" in out and "wgmma.mma_async" in out
