"""`tilewright generate --export` and `--explain-config`."""

from tilewright.cli.main import main

TEXT = """
func.func @product(%A: tensor<64x48xf32>, %B: tensor<48x32xf32>) -> tensor<64x32xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x32xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<64x32xf32>) -> tensor<64x32xf32>
  %p = linalg.matmul ins(%A, %B : tensor<64x48xf32>, tensor<48x32xf32>)
      outs(%init : tensor<64x32xf32>) -> tensor<64x32xf32>
  func.return %p : tensor<64x32xf32>
}
"""


def test_files(tmp_path, capsys):
    (tmp_path / "product.mlir").write_text(TEXT)
    place = str(tmp_path / "product.mlir")
    assert main(["generate", place, "--export", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("int product(const float *a, const float *b, float *out, int32_t M, ")
    assert (tmp_path / "out" / "product.o").read_bytes()[:4] == b"\x7fELF"
    assert "a multiple of 16" in (tmp_path / "out" / "product.h").read_text()
    assert main(["generate", place, "--export", str(tmp_path), "--target", "sm_90a"]) == 0
    assert "cuLaunchKernel" in (tmp_path / "product.c").read_text()


def test_why(tmp_path, capsys):
    (tmp_path / "product.mlir").write_text(TEXT)
    assert (
        main(["generate", str(tmp_path / "product.mlir"), "--explain-config", "--target", "sm_90a"])
        == 0
    )
    out = capsys.readouterr().out
    assert out.startswith("64 x 32 x 48 fp32 -> fp32 on sm_90a: ") and "wave utilization" in out


def test_configurations(tmp_path, capsys):
    (tmp_path / "product.mlir").write_text(TEXT)
    command = ["generate", str(tmp_path / "product.mlir"), "--target", "sm_90a", "--config"]
    told = "block_m=64,block_n=32, block_k = 16,persistent=true,tma_multicast=yes,wgmma_rs=false,use_tma=0"
    assert main([*command, told]) == 0
    assert "persistent multicast no-tma no-rs for sm_90a" in capsys.readouterr().err
    for wrong, says in {
        "persistent=perhaps": "neither persistent=true nor persistent=false",
        "tma_multicast": "neither tma_multicast=true", "block_m=x": "is not NAME=NUMBER", "prepack=3": "no field prepack",
        "speed=9": "no field speed", "tma_multicast=true,persistent=false": "tma_multicast is for persistent programs",
    }.items():  # fmt: skip
        assert main([*command, wrong]) != 0
        assert says in capsys.readouterr().err
