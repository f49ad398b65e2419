"""Signatures from the command line: types, values, and what fills the rest."""

from pathlib import Path

import pytest

from tilewright import dtypes
from tilewright.cli import signature
from tilewright.cli.loading import find_kernel
from tilewright.errors import LaunchError

FILE = Path(__file__).with_name("kernels.py")


def resolve(name, text=""):
    found = find_kernel(f"{FILE}:{name}")
    given = signature.split(text)
    return signature.resolve(found.kernel, given, found.decorated, vars(found.module))


def test_split_respects_brackets_and_quotes():
    text = "a=*fp32[2,3], b=(1, 2);c='x,y'\nd=i32"
    assert signature.split(text) == {"a": "*fp32[2,3]", "b": "(1, 2)", "c": "'x,y'", "d": "i32"}
    assert signature.split("") == {}


def test_guesses_and_decorators():
    found = resolve("tuned_kernel")
    assert found.line() == (
        "source: *fp32:16, out: *fp32:16, n: i32, scale: fp32, wide: i64, BLOCK = 64, num = 3, "
        "EVEN = True, ACTIVATION = None, FUNCTION = None"
    )
    assert found.guesses == "source, out, n, scale"
    assert found.reasons["BLOCK"] == "autotune's first configuration"
    assert found.reasons["EVEN"] == "its heuristic, with 1024 for unknown values"
    assert found.reasons["wide"] == "its annotation"
    assert found.reasons["ACTIVATION"] == "its default"


def test_values_specialise_as_a_launch_would():
    found = resolve("tuned_kernel", "n=1000,scale=2.0,BLOCK=128")
    assert found.text("n") == "i32" and found.text("scale") == "fp32"
    assert found.text("EVEN") == "= False" and found.reasons["EVEN"] == "its heuristic"
    assert resolve("tuned_kernel", "n=1024").text("n") == "i32:16"
    assert resolve("tuned_kernel", "n=1").text("n") == "= 1"
    assert resolve("tuned_kernel", f"n={1 << 40}").text("n") == "i64:16"


def test_words():
    assert resolve("tuned_kernel", "ACTIVATION=relu").values["ACTIVATION"] == "relu"
    assert (
        resolve("tuned_kernel", "FUNCTION=half_below_zero").text("FUNCTION") == "= half_below_zero"
    )
    assert resolve("tuned_kernel", "num=fp16").values["num"] is dtypes.float16
    assert resolve("tuned_kernel", "num=tl.float16").values["num"] is dtypes.float16
    assert resolve("tuned_kernel", "num=SLOPE").values["num"] == 0.5


@pytest.mark.parametrize("kind", [t.short_name for t in dtypes.ALL_SCALARS])
def test_every_type(kind):
    found = resolve("add_kernel", f"x_ptr=*{kind}:16,n={kind},BLOCK=4")
    assert found.text("x_ptr") == f"*{kind}:16" and found.text("n") == kind


def test_undecorated_functions_are_kernels():
    assert resolve("undecorated", "N=8").line() == "x_ptr: *fp32:16, N = 8"


def test_tuples():
    found = resolve("undecorated", "x_ptr=(*fp16, i32, 3),N=8").types["x_ptr"]
    assert [str(kind) for kind in found.type[:2]] == ["pointer<fp16>", "i32"]
    assert found.type[2].value == 3 and found.kind == "tuple"
    assert resolve("undecorated", "x_ptr=(*fp16,3),N=8").text("x_ptr") == "(*fp16, = 3)"
    assert resolve("undecorated", "x_ptr=(5, 1),N=8").types["x_ptr"].type[0] is dtypes.int32


def test_missing_values_are_listed():
    with pytest.raises(LaunchError, match="constexpr parameters BLOCK"):
        resolve("add_kernel")
