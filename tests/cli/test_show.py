"""`tilewright show`: text, selection, switches, dumps that are edited and compiled again."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tilewright import jit
from tilewright import language as tl
from tilewright.backends.nvidia import tools
from tilewright.cli.loading import find_kernel
from tilewright.cli.main import main
from tilewright.cli.stages import compile_dump, stages_of

FILE = Path(__file__).with_name("kernels.py")
ADD = f"{FILE}:add_kernel"


@pytest.fixture
def command(capsys):
    """`command(*arguments)` -> (status, output, error output)."""

    def run(*arguments):
        status = main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_text(command, golden):
    status, out, err = command(
        "show", ADD, "-s", "BLOCK=128,n=i32", "--after", "raise-access", "--no-times"
    )
    assert (status, err) == (0, "")
    golden(out, "show_add.txt")


def test_diff_of_one_pass(command, golden):
    status, out, _ = command(
        "show", ADD, "-s", "BLOCK=128", "--after=cse:2", "--pass=raise-access", "--pass=cse:2",
        "--diff", "--no-times",
    )  # fmt: skip
    assert status == 0
    golden(out, "show_add_diff.txt")


def test_times_and_whole_pipeline(command):
    status, out, _ = command("show", ADD, "-s", "BLOCK=128", "--pass", "licm")
    assert status == 0
    assert "---- vectorize (" in out and " ms\n" in out
    assert out.splitlines()[-1].startswith("---- ") and "passes" in out.splitlines()[-1]


def test_disabled_passes_and_their_dependents_are_named(command):
    status, out, _ = command(
        "show", ADD, "-s", "BLOCK=128", "--disable", "form-fusion-groups", "--pass", "input"
    )
    assert status == 0
    line = next(line for line in out.splitlines() if line.startswith("left out: "))
    assert "form-fusion-groups" in line and "vectorize" in line
    assert "---- vectorize" not in out


@pytest.mark.parametrize("kind, mark", [("llvm", "define i32 @"), ("asm", ".globl\tadd_kernel")])
def test_code(command, kind, mark):
    status, out, _ = command("show", ADD, "-s", "BLOCK=128", "--asm", kind)
    assert status == 0 and mark in out and "----" not in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "needs values for its constexpr parameters BLOCK"),
        (("-s", "BLOCK=128,m=i32"), "has no parameter m"),
        (("-s", "BLOCK=128,n=i23x"), "neither a type nor a value"),
        (("-s", "BLOCK"), "is not NAME=TYPE"),
        (("-s", "BLOCK=128", "--after", "vektorize"), "did you mean vectorize"),
        (("-s", "BLOCK=128", "--pass", "vektorize"), "did you mean vectorize"),
        (("-s", "BLOCK=128", "--disable", "vektorize"), "did you mean vectorize"),
        (("-s", "BLOCK=128", "--asm", "ptx"), "takes llvm or asm"),
        (("-s", "BLOCK=128", "--after", "cse", "--asm", "asm"), "there is no machine code"),
        (("-s", "BLOCK=128", "--resume-after", "cse"), "--resume-after goes with a dump"),
    ],
)
def test_mistakes(command, arguments, message):
    status, _, err = command("show", ADD, *arguments)
    assert status == 1
    assert message in err and err.startswith("error: ") and "Traceback" not in err


@pytest.mark.parametrize(
    "place, message",
    [
        ("nowhere.py:k", "there is no file nowhere.py"),
        (str(FILE), "it has add_kernel, half_below_zero, tuned_kernel"),
        (f"{FILE}:SLOPE", "its kernels are add_kernel"),
        ("nowhere.mlir", "cannot be read"),
    ],
)
def test_wrong_places(command, place, message):
    status, _, err = command("show", place)
    assert status == 1 and message in err


def test_wrong_usage_gives_2(command):
    assert command("show")[0] == 2
    assert command("sho")[0] == 2


def test_a_mistake_in_the_kernel_is_shown_with_its_place(command, tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef wrong(x_ptr):\n"
        "    tl.store(x_ptr + tl.arange(0, 100), 1.0)\n"
    )
    status, _, err = command("show", file)
    assert status == 1
    assert "wrong.py:7:" in err and "^" in err and "Traceback" not in err


def test_settings_count(command, monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_DISABLE", "licm")
    out = command("show", ADD, "-s", "BLOCK=128", "--pass", "input")[1]
    assert "left out: licm\n" in out and "---- licm" not in out
    file = tmp_path / "asserting.py"
    file.write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef asserting(n):\n"
        "    tl.device_assert(n > 0)\n"
    )
    assert "tile.assert" not in command("show", file, "--pass", "input")[1]
    monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
    assert "tile.assert" in command("show", file, "--pass", "input")[1]


def test_colours_only_on_terminals():
    from tilewright.cli.show import _coloured

    text = "---- cse (unchanged)\n---- licm (3 operations)\n+new\n-old\n same\n"
    styled = _coloured(text)
    assert "\x1b[32m+new" in styled and "\x1b[31m-old" in styled and styled.endswith(" same\n")


# ---- dumps -----------------------------------------------------------------------------------------


def test_an_edited_dump_compiles_again_and_runs(command, tmp_path):
    status, _, err = command(
        "show", ADD, "-s", "BLOCK=128", "--after", "raise-access", "--dump", tmp_path
    )
    assert status == 0 and str(tmp_path) in err
    path = next(tmp_path.glob("*-raise-access.mlir"))
    path.write_text(path.read_text().replace("arith.addf", "arith.mulf"))
    status, out, _ = command("show", path, "--pass", "vectorize")
    assert status == 0
    assert "---- raise-access" in out and "---- normalize-loops" not in out
    kernel = compile_dump(path)
    x, y = np.random.default_rng(0).standard_normal((2, 1000), dtype=np.float32)
    result = np.zeros_like(x)
    kernel[(8,)](x, y, result, 1000)
    np.testing.assert_array_equal(result, x * y)


@pytest.mark.parametrize("stage", ["form-fusion-groups", "vectorize", "licm:2"])
def test_dumps_of_late_stages_give_the_same_code(command, tmp_path, stage):
    assert command("show", ADD, "-s", "BLOCK=128", "--dump", tmp_path)[0] == 0
    whole = command("show", ADD, "-s", "BLOCK=128", "--asm", "llvm")[1]
    path = next(tmp_path.glob(f"*-{stage.replace(':', '-')}.mlir"))
    assert command("show", path, "--asm", "llvm")[1] == whole


def test_options_of_a_launch_on_a_gpu(command):
    gpu = ("show", ADD, "-s", "BLOCK=4096", "--target", "sm_90a")
    assert "\nfor sm_90a: num_warps=4, num_stages=3, num_ctas=1\n" in command(*gpu)[1]
    given = (*gpu, "-o", "num_warps=16,maxnreg=64", "--option", "num_stages=2")
    assert (
        "\nfor sm_90a: num_warps=16, num_stages=2, num_ctas=1, maxnreg=64\n" in command(*given)[1]
    )
    ptx = command(*given, "--asm", "ptx")[1]
    assert ".maxntid 512" in ptx and ".maxnreg 64" in ptx
    for wrong in ("num_warps=3", "num_warps=x", "warps=8", "8"):
        status, _, err = command(*gpu, "-o", wrong)
        assert status == 1 and err.startswith("error: ") and "Traceback" not in err


def test_an_autotuned_kernel_is_shown_with_its_first_configuration(command):
    place, signature = f"{FILE}:increment_tuned", ("-s", "x_ptr=*fp32:16,n=i32")
    out = command("show", place, *signature, "--target", "sm_90a")[1]
    assert "BLOCK = 2048" in out and "\nfor sm_90a: num_warps=8, num_stages=2, num_ctas=1\n" in out
    out = command("show", place, *signature, "--target", "sm_90a", "-o", "num_warps=4")[1]
    assert "\nfor sm_90a: num_warps=4, num_stages=2, num_ctas=1\n" in out


@pytest.mark.parametrize("stage", ["front-end", "assign-layouts", "vectorize-accesses"])
def test_dumps_for_a_gpu_go_on_for_it(command, tmp_path, stage):
    gpu = ("show", ADD, "-s", "BLOCK=4096", "--target", "sm_80", "-o", "num_warps=8")
    assert command(*gpu, "--dump", tmp_path)[0] == 0
    whole = command(*gpu, "--asm", "ptx")[1]
    path = next(tmp_path.glob(f"*-{stage}.mlir"))
    assert command("show", path, "--asm", "ptx")[1] == whole
    status, _, err = command("show", path, "--target", "sm_90a")
    assert status == 1 and "has its target and options in it" in err


def test_ptx(command):
    status, out, err = command("show", ADD, "-s", "BLOCK=128", "--asm", "ptx", "--target", "sm_90a")
    assert status == 0 and ".target sm_90a" in out and "error" not in err


@pytest.mark.skipif(
    not (tools.find("ptxas") and tools.find("nvdisasm")), reason="needs ptxas and nvdisasm"
)
def test_sass(command):
    status, out, err = command(
        "show", ADD, "-s", "BLOCK=128", "--asm", "sass", "--target", "sm_90a"
    )
    assert status == 0 and "STG.E" in out and "error" not in err


def test_files_alone_print_nothing(command, tmp_path):
    status, out, err = command("show", ADD, "-s", "BLOCK=128", "--html", tmp_path / "page.html")
    assert (status, out) == (0, "") and "page.html" in err
    out = command("show", ADD, "-s", "BLOCK=128", "--pass", "cse", "--dump", tmp_path / "stages")[1]
    assert "---- cse" in out


def test_object_files(command, tmp_path):
    target = tmp_path / "add.o"
    status, _, err = command("show", ADD, "-s", "BLOCK=128", "--pass", "input", "--compile", target)
    assert status == 0 and "entry add_kernel" in err
    assert target.stat().st_size > 0
    plan = json.loads(target.with_suffix(".json").read_text())
    assert [a["name"] for a in plan["arguments"]] == ["x_ptr", "y_ptr", "out_ptr", "n"]
    assert [a["written"] for a in plan["arguments"]] == [False, False, True, False]


def test_stage_names_in_a_continued_dump_count_from_the_start(command, tmp_path):
    assert command("show", ADD, "-s", "BLOCK=128", "--after", "cse", "--dump", tmp_path)[0] == 0
    path = next(tmp_path.glob("*-cse.mlir"))
    out = command("show", path, "--after", "cse:2", "--no-times")[1]
    assert out.splitlines()[-1] != "" and "---- cse:2" in out and "---- licm" not in out
    status, _, err = command("show", path, "--after", "normalize-loops")
    assert status == 1 and "from a later stage" in err


def test_bad_dumps(command, tmp_path):
    path = tmp_path / "bad.mlir"
    path.write_text("func.func @k( {")
    status, _, err = command("show", path)
    assert status == 1 and "is not IR" in err
    path.write_text("func.func @k(%p: !tile.ptr<f32>) {\n  func.return\n}\n")
    assert command("show", path, "--resume-after", "input", "--after", "cse")[0] == 0
    status, _, err = command("show", path, "--resume-after", "cse:9")
    assert status == 1 and "no pass cse:9" in err


def test_page(command, tmp_path):
    page = tmp_path / "sub" / "page.html"
    status, _, _ = command("show", ADD, "-s", "BLOCK=128", "--pass", "input", "--html", page)
    text = page.read_text()
    assert status == 0
    assert "<b>vectorize</b>" in text and "unchanged" in text and 'class="line add"' in text
    assert 'name="viewport"' in text and '<a href="#vectorize">' in text
    assert '<details id="front-end"><summary>' in text, "the front end's IR is folded"
    aside, stages = text.partition("</aside>")[::2]
    source = {int(n) for n in re.findall(r'data-l="(\d+)"', aside)}
    linked = {int(n) for n in re.findall(r'data-l="(\d+)"', stages)}
    assert "def add_kernel" in aside and len(linked) > 3 and linked <= source
    assert "http" not in text, "the page needs no other file"


def test_stages_of():
    found = find_kernel(ADD)
    stages = stages_of(found.decorated, {"x_ptr": "*fp16", "BLOCK": 256}, stop_after="cse")
    assert [s.name for s in stages] == ["front-end", "normalize-loops", "simplify", "cse"]
    assert stages[0].changed and stages[0].milliseconds > 0
    assert "!tile.ptr<f16>" in stages[0].text and "256" in stages[0].text


@jit
def first_row(x, out):
    tl.store(out + tl.arange(0, 32), tl.reshape(x.load([0, 0]), (32,)))


def test_a_descriptor_has_the_facts_of_a_launch():
    types = {"x": "tensordesc<fp16[1, 32]>", "out": "*fp16"}
    text = stages_of(first_row, types, stop_after="front-end")[0].text
    assert 'divisibility = 16 : i32, tile.name = "x.base"' in text
    assert 'tile.name = "x.shape.1", tile.nonnegative' in text
