"""What the source of a user's kernel needs where torch writes it out again."""

from __future__ import annotations

import pytest
from tests.integrations.inductor.test_install import run

import tilewright as tw
import tilewright.language as tl
from tilewright.integrations.inductor import user_sources
from tilewright.language import float32
from tilewright.language import load as read
from tilewright.language.extra import libdevice as own_name
from tilewright.language.extra.libdevice import fast_dividef

FACTOR: tl.constexpr = tl.constexpr(4)


@tw.jit
def halved(x):
    return fast_dividef(x, 2.0)


@tw.jit
def kernel(x_ptr, y_ptr):
    x = read(x_ptr).to(float32)
    tl.store(y_ptr, own_name.sqrt(halved(x)) * FACTOR)


def test_imports_of_a_kernel():
    """Of kernels that it calls as well; what torch writes by itself is left to it."""
    assert sorted(user_sources.imports(kernel)) == [
        "from triton.language import float32 as float32",
        "from triton.language import load as read",
        "from triton.language.extra.libdevice import fast_dividef as fast_dividef",
        "import triton.language.extra.libdevice as own_name",
    ]


def test_annotated_constants_have_a_type_with_a_name():
    written = (
        "def kernel():\n    pass\nFACTOR: tilewright.compile_time.constexpr = tl.constexpr(4)\n"
    )
    lines = user_sources._with_imports(None, lambda *_: written)(halved).splitlines()
    assert lines == [
        "def kernel():", "    pass", "FACTOR: tl.constexpr = tl.constexpr(4)",
        "from triton.language.extra.libdevice import fast_dividef as fast_dividef",
    ]  # fmt: skip


@pytest.mark.long
def test_kernels_with_imported_names_in_compiled_functions(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "imported_names.py").write_text(
        "import triton\n"
        "import triton.language as tl\n"
        "from triton.language.extra import libdevice as own_name\n"
        "from triton.language.extra.libdevice import fast_dividef\n"
        "FACTOR: tl.constexpr = 4\n"
        "@triton.jit\n"
        "def scale(x_ptr, o_ptr, n, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    x = fast_dividef(tl.load(x_ptr + i, i < n), 2.0)\n"
        "    tl.store(o_ptr + i, own_name.exp(x) * FACTOR, i < n)\n"
    )
    run(
        tmp_path,
        f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import torch
        from imported_names import scale

        def scaled(x):
            out = torch.empty_like(x)
            scale[(2,)](x, out, x.numel(), BLOCK=64)
            return out

        x = torch.randn(100)
        torch.testing.assert_close(torch.compile(scaled, fullgraph=True)(x), (x / 2).exp() * 4)
        """,
        TILEWRIGHT_INDUCTOR="cpu",
    )
