"""`tilewright show --layouts`: table and picture; `--target`: IR and assembly of other machines."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.cli.layouts import owners
from tilewright.cli.main import main
from tilewright.layouts.blocked import blocked

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


def test_ir_and_ptx_for_another_target(command):
    status, out, _ = command(
        "show", *PRODUCT, "--target", "sm_90a", "--disable", "promote-shared",
        "--pass", "pipeline-loads", "--pass", "select-mma", "--no-times",
    )  # fmt: skip
    assert status == 0
    left_out = next(line for line in out.splitlines() if line.startswith("left out: "))
    dependents = {
        "turn-in-registers", "promote-shared", "swizzle-shared", "specialize-warps", "pipeline-loads",
    }  # fmt: skip
    assert dependents <= set(left_out.removeprefix("left out: ").split(", "))
    assert "instead: select-mma{wgmma=false}\n" in out
    assert '"m16n8k16.f16"' in out and "gpu.wgmma" not in out
    status, out, _ = command("show", *PRODUCT, "--target", "sm_90a", "--asm", "asm")
    assert status == 0 and ".target sm_90a" in out and "wgmma.mma_async" in out
