"""`run`, `explain`, `bench`, `cache`, `doctor`, and files that need what is not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli.main import main

FILE = Path(__file__).with_name("kernels.py")
PROGRAM = """
import sys
import numpy as np
import triton
import triton.language as tl
import beside

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)

if __name__ == "__main__":
    x = np.arange(5, dtype=np.float32)
    double[(1,)](x, 5, BLOCK=8)
    print(sys.argv[1:], x.tolist(), beside.NAME, tl.__name__)
    if "fail" in sys.argv:
        double[(1,)](x, 5)
    if "exit" in sys.argv:
        sys.exit(3)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "beside.py").write_text("NAME = 'a module beside it'\n")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    yield path
    sys.modules.pop("beside", None)


def test_run(program, capsys):
    kept = sys.argv, sys.path[:]
    assert main(["run", str(program), "--flag", "-s", "x"]) == 0
    out = capsys.readouterr().out
    assert out == (
        "['--flag', '-s', 'x'] [0.0, 2.0, 4.0, 6.0, 8.0] a module beside it tilewright.language\n"
    )
    assert (sys.argv, sys.path) == kept


def test_run_gives_the_programs_status(program):
    assert main(["run", str(program), "exit"]) == 3


def test_run_shows_the_programs_traceback(program, capsys):
    assert main(["run", str(program), "fail"]) == 1
    err = capsys.readouterr().err
    assert "double[(1,)](x, 5)" in err and "BLOCK" in err
    assert "runpy" not in err and "tilewright/cli" not in err


def test_run_without_a_file(capsys):
    assert main(["run", "nowhere.py"]) == 1
    assert "no file nowhere.py" in capsys.readouterr().err


def test_explain(capsys):
    assert main(["explain", f"{FILE}:tuned_kernel", "-s", "FUNCTION=half_below_zero"]) == 0
    out = capsys.readouterr().out
    for part in (
        "BLOCK       = 64        compiled in; autotune's first configuration",
        "SLOPE = 0.5, read by half_below_zero",
        "half_below_zero, inlined",
        "structured (strides and bounds known): 1 loads, 1 stores",
        "slot: out, pointer",
        "bytes per thread",
        "ns a program",
    ):
        assert part in out, out


def test_explain_for_a_gpu(capsys):
    """Long rows are held by a cluster, and it says so."""
    place = f"{Path(__file__).parents[1] / 'large_tiles.py'}:softmax"
    given = ["-s", "x=*fp32,out=*fp32,n=i32:16,BLOCK=65536"]
    assert main(["explain", place, *given, "--target", "sm_90a", "-o", "num_warps=16"]) == 0
    out = capsys.readouterr().out
    assert "a program: 4 CTAs (a cluster) of 512 threads" in out and "cluster: its CTAs hold" in out
    off = ["--disable", "distribute-rows-over-cluster", "--target", "sm_90a"]
    assert main(["explain", place, *given, *off]) == 0
    out = capsys.readouterr().out
    assert "left out: distribute-rows-over-cluster" in out and "cluster:" not in out


def test_bench_of_a_kernel(capsys):
    arrays = ",".join(f"{name}=*fp32[5,100]" for name in ("x_ptr", "y_ptr", "out_ptr"))
    arguments = ["bench", f"{FILE}:add_kernel", "--grid", "4", "--rep", "5", "-s"]
    assert main([*arguments, f"{arrays},n=500,BLOCK=128"]) == 0
    assert "add_kernel: " in capsys.readouterr().out
    assert main([*arguments, "n=500,BLOCK=128"]) == 1
    assert "'x_ptr' needs a value" in capsys.readouterr().err
    assert main(["bench", f"{FILE}:add_kernel", "-s", "BLOCK=128"]) == 1
    assert "needs a grid" in capsys.readouterr().err


def test_bench_of_perf_reports(tmp_path, capsys):
    path = tmp_path / "report.py"
    path.write_text(
        "import triton\n\n\n"
        "@triton.testing.perf_report(triton.testing.Benchmark(\n"
        "    x_names=['n'], x_vals=[1, 2], line_arg='what', line_vals=['a'], line_names=['A'],\n"
        "    plot_name='numbers', args={}))\n"
        "def measure(n, what):\n    return float(n)\n"
    )
    assert main(["bench", str(path)]) == 0
    assert "numbers" in capsys.readouterr().out


def test_cache(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert main(["cache", "path"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "kernels")
    assert main(["cache", "info"]) == 0
    assert "entries  0" in capsys.readouterr().out
    from tilewright.runtime.cache import disk_cache

    disk_cache().store("ab" * 32, {"object": b"x" * 2048})
    assert main(["cache", "info"]) == 0
    out = capsys.readouterr().out
    assert "entries  1" in out and "KiB of at most" in out
    assert main(["cache", "clear"]) == 0
    assert "deleted 1 entries" in capsys.readouterr().out
    assert main(["cache", "info"]) == 0
    assert "entries  0" in capsys.readouterr().out


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for part in ("LLVM", "vectors", "threads", "writeable", "a softmax", "all is well"):
        assert part in out
    for part in ("NVIDIA GPUs", "driver", "ptxas", "nvdisasm", "for sm_90a", "lines of PTX"):
        assert part in out


def test_doctor_tells_of_gpus(monkeypatch, capsys):
    from tests.runtime.fake_cuda import FakeCuda

    from tilewright.runtime.drivers import cuda

    fake = FakeCuda()
    monkeypatch.setattr(cuda, "_driver", cuda.CudaDriver(fake))
    assert main(["doctor"]) == 1, "this driver runs nothing"
    out = " ".join(capsys.readouterr().out.split())
    assert "driver CUDA 13.0, GPUs: 2" in out
    assert "GPU 0 Fake H200, 132 SMs, 227 KiB shared, code for sm_90a" in out
    assert "on GPU 1 WRONG: a softmax" in out and "something is wrong" in out
    fake.fail["cuLaunchKernelEx"] = 700
    assert main(["doctor"]) == 1
    assert "on GPU 0 KernelFault: a kernel failed" in " ".join(capsys.readouterr().out.split())


def test_doctor_finds_an_assembler_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "/no/such/ptxas")
    assert main(["doctor"]) == 1
    assert "/no/such/ptxas, which TILEWRIGHT_PTXAS names, is not a file" in capsys.readouterr().out


def test_doctor_finds_a_cache_that_cannot_be_written(tmp_path, monkeypatch, capsys):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(file))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "set TILEWRIGHT_CACHE_DIR" in out and "something is wrong" in out


def test_doctor_writes_what_it_calls_writeable(tmp_path, monkeypatch, capsys):
    """A folder where files can be made is not enough: entries go into folders below it."""
    from tilewright.cli import doctor
    from tilewright.runtime.cache import disk_cache

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    assert doctor._writeable(disk_cache()) == ("yes: an entry was written and read again", True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name[0] != "."]
    (tmp_path / "tuning").rmdir()
    (tmp_path / "tuning").write_text("")
    answer, good = doctor._writeable(disk_cache())
    assert "tuning results are not" in answer and not good
    monkeypatch.setattr("tilewright.runtime.cache._is_ours", lambda status: False)
    answer, good = doctor._writeable(disk_cache())
    assert "another user" in answer and not good


def test_doctor_tells_of_settings_that_are_not_understood(monkeypatch, capsys):
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "many")
    assert main(["doctor"]) == 1
    assert "TILEWRIGHT_NUM_THREADS='many'" in capsys.readouterr().out


def test_placeholders_for_missing_packages(tmp_path, capsys):
    path = tmp_path / "needs.py"
    path.write_text(
        "import missing_package.nn as nn\nfrom missing_package import Tensor, compile\n"
        "try:\n    import another_missing\nexcept ImportError:\n    another_missing = None\n"
        "import triton\nimport triton.language as tl\n"
        "DEVICE = nn.device('cuda:0')\n\n\nclass Layer(nn.Module):\n    pass\n\n\n"
        "@triton.jit\ndef one(x_ptr):\n    tl.store(x_ptr, 1.0)\n\n\n"
        "@compile\ndef host(x: Tensor):\n    return Layer()\n"
    )
    assert main(["show", str(path), "--after", "cse"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "note: not installed, replaced by placeholders: missing_package\n"
    assert "tile.store" in captured.out
    assert "missing_package" not in sys.modules


def test_version_and_module():
    result = subprocess.run(
        [sys.executable, "-m", "tilewright", "--version"], capture_output=True, text=True
    )
    import tilewright

    assert result.stdout == f"tilewright {tilewright.__version__}\n"
