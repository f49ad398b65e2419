"""Functions under torch.compile that launch kernels: torch follows them up to the launch, and no further."""

import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

KERNELS = """
import tilewright as tw
import tilewright.language as tl


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@tw.autotune([tw.Config({"BLOCK": 64}), tw.Config({"BLOCK": 128})], key=["n"])
@tw.heuristics({"EVEN": lambda given: given["n"] % 2 == 0})
@tw.jit
def tuned(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""


def run(folder, code):
    """A process of its own, in which every warning is an error."""
    (folder / "kernels.py").write_text(KERNELS)
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{textwrap.dedent(code)}"
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sampled(3)
@pytest.mark.parametrize("before", [0, 2])
def test_functions_that_torch_compiles_launch_kernels(tmp_path, before):
    """Also such as have run without it."""
    out = run(
        tmp_path,
        f"""
        import torch, warnings
        import tilewright as tw
        from kernels import add, tuned

        def function(x, y):
            x = x * 2
            one, two = torch.empty_like(x), torch.empty_like(x)
            add[(2,)](x, y, one, 1000, BLOCK=512)
            tuned[lambda given: (tw.cdiv(1000, given["BLOCK"]),)](one, y, two, 1000)
            return two.relu() + tw.matmul(two.view(10, 100), y.view(100, 10)).sum()

        x, y = torch.randn(1000), torch.randn(1000)
        for _ in range({before}):
            function(x, y)
        warnings.simplefilter("error")
        compiled = torch.compile(function, backend="eager")
        for _ in range(3):
            found = compiled(x, y)
        total = 2 * x + 2 * y
        wanted = total.relu() + (total.view(10, 100) @ y.view(100, 10)).sum()
        print(torch.allclose(found, wanted, rtol=1e-4, atol=1e-3))
        """,
    )
    assert out.strip() == "True"


@pytest.mark.slow
def test_launches_and_errors_are_the_same_where_torch_could_compile(tmp_path):
    out = run(
        tmp_path,
        """
        import traceback
        import numpy as np
        import torch._dynamo
        import tilewright as tw
        from kernels import add, tuned

        x = np.zeros(64, np.float32)
        add[(1,)](x, x, x, 64, BLOCK=64)
        assert add._run.__code__.co_filename.endswith("kernels.py"), "no wrapper around a launch"
        for call in (
            lambda: add[(1,)](x, x, x, 64),
            lambda: tuned[(1,)](x, x),
            lambda: tw.matmul(x.reshape(8, 8), x.reshape(4, 16)),
        ):
            try:
                call()
            except Exception as error:
                files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
                assert not any("torch" in file for file in files), files
                print(type(error).__name__, "torch" in str(error))
        """,
    )
    assert len(out.splitlines()) == 3 and "True" not in out


@pytest.mark.slow
def test_tensors_that_are_only_traced_are_told(tmp_path):
    out = run(
        tmp_path,
        """
        import torch, warnings
        from torch._subclasses import FakeTensorMode
        from kernels import add
        from tilewright.errors import LaunchError

        warnings.simplefilter("ignore")
        with FakeTensorMode():
            x = torch.zeros(64)
            try:
                add[(1,)](x, x, x, 64, BLOCK=64)
            except LaunchError as error:
                print(error)
        """,
    )
    assert "FakeTensor has no memory of its own" in out and "custom operator" in out
