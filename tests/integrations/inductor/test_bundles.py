"""Files of kernels in the folders that torch bundles and launches from."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import Argument, LaunchPlan, TensorMap
from tilewright.errors import IntegrationError
from tilewright.integrations.inductor import bundles, kernels
from tilewright.integrations.triton_driver import GPUTarget


@tw.jit
def double(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, i < n) * 2, i < n)


def source():
    types = {"x": "*fp32", "o": "*fp32", "n": "i32", "B": "constexpr"}
    return kernels.ASTSource(double, types, {"B": 64})


def test_a_kernel_is_read_from_torchs_folder(tmp_path, monkeypatch):
    """As on a machine where torch wrote a bundle: tilewright's own cache is empty there."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "one"))
    first = kernels.compile(source())
    assert not first.loaded.from_cache
    assert (tmp_path / "triton" / first.hash / "kernel.entry").is_file()
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "two"))
    assert kernels.compile(source()).loaded.from_cache
    monkeypatch.delenv("TRITON_CACHE_DIR")
    assert not kernels.compile(source()).loaded.from_cache


def test_a_damaged_file_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "one"))
    first = kernels.compile(source())
    (tmp_path / "triton" / first.hash / "kernel.entry").write_bytes(b"tilewright-cache-1 0\n{}\n")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "two"))
    assert not kernels.compile(source()).loaded.from_cache


ARGUMENTS = (
    Argument("x", "pointer", "*fp32"), Argument("o", "pointer", "*fp32"), Argument("n", "int", "i32"),
)  # fmt: skip
PLAN = LaunchPlan("double", ARGUMENTS, threads=64)


def compiled(plan, types=None, name="double"):
    src = source()
    src.signature.update(types or {})
    return SimpleNamespace(name=name, plan=plan, src=src)


def test_what_torchs_static_launcher_can_launch():
    assert bundles.is_statically_launchable(compiled(PLAN))


@pytest.mark.parametrize(
    "kernel",
    [
        compiled(replace(PLAN, cluster_size=2)),
        compiled(replace(PLAN, prints=True)),
        compiled(replace(PLAN, threads=0)),
        compiled(replace(PLAN, tensor_maps=(TensorMap(0, 4, (), (), (16, 16), 0),))),
        compiled(replace(PLAN, arguments=ARGUMENTS[:2])),
        compiled(PLAN, {"n": "fp16"}),
        compiled(PLAN, name="another"),
    ],
    ids=["cluster", "prints", "cpu", "tensor maps", "arguments", "fp16", "name"],
)
def test_what_it_cannot_launch(kernel):
    assert not bundles.is_statically_launchable(kernel)


def test_the_number_of_warps_is_that_of_the_code():
    """torch launches 32 * num_warps threads; passes may have changed what was asked for."""
    options = SimpleNamespace(num_warps=8, num_stages=1, num_ctas=1, debug=False)
    native = SimpleNamespace(
        options=options, plan=PLAN, name="double", hash="0", target=SimpleNamespace(name="sm_90a")
    )
    assert kernels._metadata(native).num_warps == 2
    native.plan = replace(PLAN, threads=0)
    assert kernels._metadata(native).num_warps == 8


@tw.jit
def transpose(x, o, B: tl.constexpr):
    i, j = tl.program_id(0) * B + tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    tl.store(o + i + 1024 * j, tl.load(x + j + 64 * i))


def test_a_transposing_kernel_is_launched_without_tensor_maps():
    """TMA would store its tile, but torch's static launcher and AOTInductor pass no tensor maps."""
    types, constants = {"x": "*bf16", "o": "*bf16", "B": "constexpr"}, {"B": 64}
    divisible = [["tt.divisibility", 16]]
    src = kernels.ASTSource(transpose, types, constants, {(0,): divisible, (1,): divisible})
    own = transpose.compile(src.types(), src.values(), target="sm_90a")
    assert own.plan.tensor_maps
    compiled = kernels.compile(src, GPUTarget("cuda", 90, 32))
    assert not compiled.plan.tensor_maps and bundles.is_statically_launchable(compiled)


@tw.jit
def softmax(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    e = tl.exp(tl.load(x + i, i < n, other=-float("inf")))
    tl.store(o + i, e / tl.sum(e, 0), i < n)


@tw.jit
def product(x, o, n, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None] * B, tl.arange(0, B)[None, :]
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, n, B):
        acc = tl.dot(tl.load(x + k * B + i + j), tl.load(x + k * B + i + j), acc)
    tl.store(o + i + j, acc.to(tl.bfloat16))


@pytest.mark.parametrize(
    ("kernel", "size", "named"), [(softmax, 1 << 17, "clusters of"), (product, 64, "tensor maps")]
)
def test_what_cpp_wrappers_cannot_launch(kernel, size, named, monkeypatch):
    """They would launch a kernel of one CTA, or without some of its arguments."""
    types = {"x": "*bf16", "o": "*bf16", "n": "i32", "B": "constexpr"}
    divisible = [["tt.divisibility", 16]]
    src = kernels.ASTSource(kernel, types, {"B": size}, {(0,): divisible, (1,): divisible})
    compiled = kernels.compile(src, GPUTarget("cuda", 90, 32))
    assert compiled.asm.get("ptx")
    with pytest.raises(IntegrationError, match=f"launched with {named}") as caught:
        compiled.asm["cubin"]
    passes = caught.value.help.split("=", 1)[1].split()[0]
    monkeypatch.setenv("TILEWRIGHT_DISABLE", passes)
    plain = kernels.compile(src, GPUTarget("cuda", 90, 32))
    assert plain.plan.cluster_size == 1 and not plain.plan.tensor_maps
    monkeypatch.setattr(plain, "module", SimpleNamespace(asm={"cubin": b"code"}))
    assert plain.asm["cubin"] == b"code"
