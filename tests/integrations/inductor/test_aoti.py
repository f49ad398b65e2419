"""Shared objects of kernels for models that AOTInductor compiles for a CPU."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import Argument
from tilewright.errors import IntegrationError
from tilewright.integrations.inductor import aoti, kernels


@tw.jit
def add_scaled(x, y, o, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, i < n) + tl.load(y + i, i < n) * s, i < n)


def compiled():
    types = {"x": "*fp32", "y": "*fp32", "o": "*fp32", "n": "i32", "s": "fp32", "B": "constexpr"}
    return kernels.compile(kernels.ASTSource(add_scaled, types, {"B": 64}))


@pytest.mark.skipif(shutil.which("c++") is None, reason="AOTInductor needs a C++ compiler")
def test_the_launcher_runs_the_kernel(tmp_path, monkeypatch):
    """As torch's C++ wrapper does: addresses of tensors, pointers to scalars, nothing for a constant."""
    monkeypatch.setattr(aoti, "cpp_compiler", lambda: "c++")
    kernel = compiled()
    for stage in ("so", "launcher.so"):
        (tmp_path / stage).write_bytes(kernel.asm[stage])
    code, launcher = (ctypes.CDLL(str(tmp_path / stage)) for stage in ("so", "launcher.so"))
    x, y, o = np.arange(200, dtype=np.float32), np.ones(200, np.float32), np.zeros(200, np.float32)
    n, s = ctypes.c_int64(200), ctypes.c_float(2.5)
    scalars = [ctypes.addressof(n), ctypes.addressof(s)]
    arguments = (ctypes.c_void_p * 6)(*(a.ctypes.data for a in (x, y, o)), *scalars, None)
    entry = ctypes.cast(getattr(code, kernel.metadata.name), ctypes.c_void_p)
    launcher.run_from_nativert(4, 1, 1, 1, arguments, entry)
    np.testing.assert_array_equal(o, x + 2.5)


def test_other_stages_are_those_of_the_kernel():
    kernel = compiled()
    assert "so" not in list(kernel.asm) and kernel.asm["object"]
    assert kernel.asm.get("no such stage") is None


def test_scalars_that_the_wrapper_does_not_pass_are_rejected():
    plan = SimpleNamespace(arguments=(Argument("s", "float", "fp16"),))
    kernel = SimpleNamespace(name="k", plan=plan, src=SimpleNamespace(signature={"s": "fp16"}))
    with pytest.raises(IntegrationError, match="no scalars of type fp16"):
        aoti.launcher_source(kernel)


MODEL = """
from tilewright.integrations import inductor
inductor.install("cpu")
import torch, triton, triton.language as tl
from torch.library import triton_op, wrap_triton

@triton.jit
def triple(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, i < n) * 3, i < n)

@triton_op("aoti_test::triple", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    o = torch.empty_like(x)
    wrap_triton(triple)[(triton.cdiv(x.numel(), 64),)](x, o, x.numel(), B=64)
    return o

class Model(torch.nn.Module):
    def forward(self, x):
        return tripled(x.sin() + 1).softmax(1)

x = torch.randn(30, 50)
program = torch.export.export(Model(), (x,))
path = torch._inductor.aoti_compile_and_package(program, package_path="model.pt2")
torch.testing.assert_close(torch._inductor.aoti_load_package(path)(x), Model()(x))
with torch._inductor.config.patch(cpp_wrapper=True):
    y = x.clone().requires_grad_()
    compiled = torch.compile(lambda x: x.exp().softmax(1))(y)
compiled.square().sum().backward()
expected = torch.autograd.grad(y.exp().softmax(1).square().sum(), y)[0]
torch.testing.assert_close(y.grad, expected)
"""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("c++") is None, reason="AOTInductor needs a C++ compiler")
def test_models_compile_without_settings(tmp_path):
    """Inductor's own kernels become C++ in C++ wrappers, next to kernels of users."""
    torch = pytest.importorskip("torch")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        pytest.skip("torch has no launcher of kernels for a CPU")
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "torch"),
        "TILEWRIGHT_CACHE_DIR": str(tmp_path / "kernels"),
    }  # fmt: skip
    program = tmp_path / "model.py"  # torch writes out the source of kernels
    program.write_text(MODEL)
    command = [sys.executable, str(program)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-5000:]
