"""`tilewright export`."""

from pathlib import Path

from tilewright.cli.main import main

FILE = Path(__file__).with_name("kernels.py")


def test_files_and_the_prototype(tmp_path, capsys):
    place = f"{FILE}:add_kernel"
    signature = "x_ptr=*fp32,y_ptr=*fp32,out_ptr=*fp32,n=i32,BLOCK=64"
    assert main([
        "export", place, "-s", signature, "--output", str(tmp_path), "--name", "add",
        "--grid", "cdiv(n, BLOCK)", "--target", "cpu:x86-64-v3",
    ]) == 0  # fmt: skip
    assert capsys.readouterr().out == (
        "int add(const float *x_ptr, const float *y_ptr, float *out_ptr, int32_t n, int threads);\n"
        f"{tmp_path / 'add.h'}\n{tmp_path / 'add.o'}\n"
    )
    assert (tmp_path / "add.o").read_bytes()[:4] == b"\x7fELF"


def test_a_gpu_kernel_with_options(tmp_path, capsys):
    place = f"{FILE}:product_kernel"
    signature = "a=*fp16:16,b=*fp16:16,c=*fp32,k=i32,M=64,N=64,K=32"
    assert main([
        "export", place, "-s", signature, "--output", str(tmp_path), "--target", "sm_80",
        "--option", "num_warps=2", "--grid", "1, 2",
    ]) == 0  # fmt: skip
    text = (tmp_path / "product_kernel.c").read_text()
    assert "{ INT64_C(1), INT64_C(2), INT64_C(1) }" in text
    assert "gx, gy, gz, 64, 1, 1," in text
    assert "CUstream stream);" in capsys.readouterr().out


def test_mistakes(tmp_path, capsys):
    place = f"{FILE}:add_kernel"
    assert main(["export", place, "-s", "BLOCK=64", "-o", "warps=2"]) == 1
    assert "unknown option 'warps=2'" in capsys.readouterr().err
    assert main(["export", place, "-s", "BLOCK=64", "--target", "cpu:z80"]) == 1
    assert "there is no CPU target 'cpu:z80'" in capsys.readouterr().err
    assert main(["export", place, "-s", "BLOCK=64", "--grid", "m", "--output", str(tmp_path)]) == 1
    assert "the grid names 'm'" in capsys.readouterr().err
