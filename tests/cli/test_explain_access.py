"""`tilewright explain --access`: forms, the facts that better forms lack, and what provides these."""

import json

import pytest

from tilewright.cli.main import main

KERNELS = """
import tilewright as tw
import tilewright.language as tl


@tw.jit
def rows(x_ptr, index_ptr, y_ptr, n, stride, N: tl.constexpr):
    row = tl.load(index_ptr + tl.program_id(0))
    picked = tl.load(index_ptr + tl.arange(0, N))
    x = tl.load(x_ptr + row * stride + tl.arange(0, N), mask=tl.arange(0, N) < n)
    tl.store(y_ptr + picked, x)


@tw.jit
def product(a_ptr, b_ptr, c_ptr, K, stride, M: tl.constexpr, B: tl.constexpr):
    m, k = tl.arange(0, M), tl.arange(0, B)
    total = tl.zeros((M, M), tl.float32)
    for i in range(0, K, B):
        a = tl.load(a_ptr + m[:, None] * 4096 + (i + k)[None, :])
        b = tl.load(b_ptr + (i + k)[:, None] * stride + m[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * M + m[None, :], total)


@tw.jit
def obstacle(first_ptr, a_ptr, b_ptr, K, n, FORM: tl.constexpr):
    m = tl.arange(0, 64)
    at = m[:, None] * 64 + m[None, :]
    total = tl.zeros((64, 64), tl.float32)
    for i in range(K):
        first = tl.load(first_ptr + i * 4096 + at)
        total = tl.dot(first, tl.load(a_ptr + i * 4096 + at), total)
        if FORM == "writes":
            tl.store(first_ptr + n * 4096 + at, total.to(tl.float16))
        if FORM == "branch":
            if i % n == 1:
                total = tl.dot(tl.load(b_ptr + at), tl.load(b_ptr + i * 4096 + at), total)
        if FORM == "loop":
            for j in range(n):
                total = tl.dot(tl.load(b_ptr + at), tl.load(b_ptr + j * 4096 + at), total)
    tl.store(b_ptr + n * 4096 + at, total.to(tl.float16))


@tw.jit
def described(out, a_ptr, K):
    m = tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for i in range(K):
        a = tl.load(a_ptr + m[:, None] * 4096 + i * 64 + m[None, :])
        total = tl.dot(a, a, total)
    out.store([tl.program_id(0) * 64, 0], total.to(tl.float16))
"""


@pytest.fixture
def accesses(tmp_path, capsys):
    """`accesses(kernel, signature, target, *more)` -> reports by line of `KERNELS`."""
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)

    def run(kernel, signature, target, *more):
        place = f"{file}:{kernel}"
        arguments = [
            "explain",
            "--access",
            place,
            "-s",
            signature,
            "--target",
            target,
            "--json",
            "-",
        ]
        assert main([*arguments, *more]) == 0
        found = json.loads(capsys.readouterr().out)["accesses"]
        return {a["source"].split(" ")[0] + a["kind"]: a for a in found}

    return run


def missed(access):
    return {m["form"]: m["code"] for m in access["missed"]}


PRODUCT = "a_ptr=*fp16:16,b_ptr=*fp16:16,c_ptr=*fp32:16,M=64,B=64,K=i32"


def test_copies(accesses):
    found = accesses("product", f"{PRODUCT},stride=i32:16", "sm_90a")
    a, b = found["aload"], found["bload"]
    assert (a["line"], a["column"], a["type"]) == (19, 13, "64x64xf16")
    assert a["forms"] == b["forms"] == ["TMA tile"] and a["stages"] > 1
    assert "TMA tile" not in missed(a)


def test_a_pitch_of_unknown_alignment(accesses):
    found = accesses("product", f"{PRODUCT},stride=i32", "sm_90a")
    b = found["bload"]
    assert b["forms"] == ["ld.global of 2 bytes"]
    assert missed(b)["asynchronous copy"] == missed(b)["16 bytes"] == "alignment"
    assert "'stride' is not known to be a multiple" in b["missed"][0]["fact"]
    assert "tl.multiple_of(stride" in b["missed"][0]["help"]


def test_a_descriptor_whose_rows_may_end_anywhere(accesses):
    """Launches know more of a descriptor than its type; what is missing is named as the field that it is."""
    found = accesses("described", "out=tensordesc<fp16[64, 64]>,a_ptr=*fp16:16,K=i32", "sm_90a")
    store = found["out.store([tl.program_id(0)store"]
    assert missed(store)["TMA tile"] == "alignment"
    assert "'out.shape.1' is not known to be a multiple of 16 bytes" in store["missed"][0]["fact"]


def test_one_stage_and_no_tma(accesses):
    one_stage = (f"{PRODUCT},stride=i32:16", "sm_80", "--option", "num_stages=1")
    assert accesses("product", *one_stage)["aload"]["stages"] == 2  # small: there is room
    large = one_stage[0].replace("M=64,B=64", "M=128,B=128")
    a = accesses("product", large, *one_stage[1:])["aload"]
    assert a["forms"] == ["cp.async of 16 bytes"] and a["stages"] == 1
    assert missed(a) == {"copy in a pipeline": "one-stage"}
    found = accesses("product", f"{PRODUCT},stride=i32:16", "sm_80")
    assert missed(found["aload"]) == {"TMA tile": "no-tma"}


@pytest.mark.parametrize(
    ("form", "code"),
    [("writes", "loop-writes"), ("branch", "dot-in-branch"), ("loop", "inner-loop")],
)
def test_why_a_loop_has_no_schedule(accesses, form, code):
    signature = "first_ptr=*fp16:16,a_ptr=*fp16:16,b_ptr=*fp16:16,K=i32,n=i32"
    found = accesses("obstacle", f"{signature},FORM={form}", "sm_90a")
    assert missed(found["firstload"])["copy in a pipeline"] == code


ROWS = "x_ptr=*fp32:16,index_ptr=*i32:16,y_ptr=*fp32:16,N=1024,n=i32"


@pytest.mark.parametrize(
    ("target", "store", "form"),
    [("sm_80", "st.global of 4 bytes (scatter)", "16 bytes"), ("cpu", "scatter", "vector")],
)
def test_a_scatter(accesses, target, store, form):
    found = accesses("rows", f"{ROWS},stride=i32", target)["tl.store(y_ptrstore"]
    assert found["forms"] == [store]
    assert missed(found) == {"strided": "loaded-index", form: "indexed"}
    assert "'picked' is loaded from memory" in found["missed"][0]["fact"]


def test_unaligned_rows(accesses):
    wide = accesses("rows", f"{ROWS},stride=i32:16", "sm_80")["xload"]
    assert wide["forms"] == ["ld.global of 16 bytes"] and not wide["missed"]
    narrow = accesses("rows", f"{ROWS},stride=i32", "sm_80")["xload"]
    assert narrow["forms"] == ["ld.global of 4 bytes"]
    assert missed(narrow) == {"16 bytes": "alignment"}


def test_text(tmp_path, capsys):
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    signature = f"{PRODUCT},stride=i32"
    assert (
        main(["explain", "--access", f"{file}:product", "-s", signature, "--target", "sm_90a"]) == 0
    )
    out = capsys.readouterr().out
    assert f"{file}:20:13\n    b = tl.load(b_ptr" in out
    assert "  load of 64x64xf16: ld.global of 2 bytes\n  no 16 bytes: 'stride' is not" in out
    assert main(["explain", f"{file}:product", "--json", "-"]) == 1
    assert "goes with --access\nhelp: add --access" in capsys.readouterr().err
