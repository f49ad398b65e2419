"""The drop-in: what `import triton` gives, and that torch does not notice.

Each test runs in its own process, because what is imported first is what is tested.
"""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")


def run(code, **env):
    import os

    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=250, env={**os.environ, **env},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_names_are_ours():
    run(
        """
        from tilewright.integrations import triton as drop_in
        module = drop_in.install()
        import triton, triton.language as tl, triton.testing, triton.runtime
        import tilewright.language, tilewright.testing, tilewright.errors
        assert module is triton and tl is tilewright.language
        assert triton.language is tl and triton.testing is tilewright.testing
        assert tl.__name__ == "tilewright.language" == tl.__spec__.name
        from pathlib import Path
        assert Path(triton.__file__).is_file() and Path(triton.compiler.__file__).is_file()
        from triton.runtime import Autotuner, Heuristics, KernelInterface, OutOfResources
        from triton.runtime.autotuner import Autotuner as again, Config
        from triton.runtime.errors import OutOfResources as error
        from triton.errors import TritonError
        from triton.compiler.errors import CompilationError
        assert Autotuner is again and triton.Config is Config and error is OutOfResources
        assert issubclass(CompilationError, TritonError)
        assert issubclass(Autotuner, KernelInterface)
        assert triton.autotune and triton.heuristics
        from triton.testing import do_bench, perf_report, Benchmark
        """
    )


def test_driver():
    run(
        """
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import triton
        active = triton.runtime.driver.active
        assert active.get_current_target().backend == "cpu"
        assert active.utils.get_device_properties(0)["multiprocessor_count"] >= 1
        assert active.get_active_torch_device() == "cpu"
        assert active.get_current_device() == 0
        assert active.get_benchmarker() is triton.testing.do_bench
        from triton.runtime.driver import driver
        assert driver.active is active
        import triton.runtime.driver
        assert triton.runtime.driver.active is active
        """
    )


@pytest.mark.parametrize(
    "module",
    [
        "triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice",
        "triton.language.math", "triton.language.core", "triton.language.standard",
    ],
)  # fmt: skip
def test_language_submodules(module):
    run(
        f"""
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import importlib, sys, triton.language as tl
        found = importlib.import_module("{module}")
        assert sys.modules["{module}"] is found
        twice = [m for m in sys.modules.values() if getattr(m, "__file__", None) == tl.__file__]
        assert len({{id(m) for m in twice}}) == 1
        """
    )


def test_installing_twice_and_taking_back():
    run(
        """
        import builtins, importlib.util, sys
        import_before, find_before = builtins.__import__, importlib.util.find_spec
        from tilewright.integrations import triton as drop_in
        assert drop_in.install() is drop_in.install()
        assert len([f for f in sys.meta_path if type(f).__name__ == "_Finder"]) == 1
        drop_in.uninstall()
        drop_in.uninstall()
        assert not drop_in.is_installed()
        assert builtins.__import__ is import_before and importlib.util.find_spec is find_before
        assert not [n for n in sys.modules if n.split(".")[0] == "triton"]
        import tilewright.language
        assert drop_in.install() and drop_in.is_installed()
        import triton.language
        assert triton.language is tilewright.language
        assert repr(triton.language.float8e5) == "triton.language.float8e5"
        """
    )


def test_the_real_triton_is_left_alone():
    run(
        """
        import sys, types
        sys.modules["triton"] = real = types.ModuleType("triton")
        real.__file__ = "/site-packages/triton/__init__.py"
        from tilewright.integrations import triton as drop_in
        try:
            drop_in.install()
        except ImportError as error:
            assert "/site-packages/triton/__init__.py" in str(error) and "before" in str(error)
        else:
            raise SystemExit("no error")
        assert sys.modules["triton"] is real
        drop_in.uninstall()
        assert sys.modules["triton"] is real
        """
    )


def test_what_we_do_not_have_is_said():
    run(
        """
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import triton
        try:
            import triton.profiler
        except ModuleNotFoundError as error:
            assert "tilewright stands in for triton" in str(error) and error.name == "triton.profiler"
        else:
            raise SystemExit("no error")
        try:
            triton.no_such_thing
        except AttributeError as error:
            assert "tilewright" in str(error)
        try:
            from triton import no_such_thing
        except ImportError:
            pass
        assert not hasattr(triton.runtime, "nothing")
        """
    )


def test_import_is_light():
    run(
        """
        import sys
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import triton
        heavy = {"torch", "xdsl", "llvmlite", "matplotlib", "pandas"} & sys.modules.keys()
        assert not heavy, heavy
        """
    )


TORCH_IS_UNAWARE = """
from torch.utils._triton import has_triton, has_triton_package
assert not has_triton_package() and not has_triton()
import torch._inductor.runtime.triton_compat as compat
assert getattr(compat.triton, "__version__", "") == ""
import triton, triton.language as tl
assert tl.__name__ == "tilewright.language"
import importlib.util
assert importlib.util.find_spec("triton") is not None
exec("import importlib.util\\nfound = importlib.util.find_spec('triton')", torch_like := {"__name__": "torch.x"})
assert torch_like["found"] is None
compiled = torch.compile(lambda x: torch.softmax(x * 2 + 1, -1), backend=BACKEND)
x = torch.randn(4, 7)
assert torch.allclose(compiled(x), torch.softmax(x * 2 + 1, -1))
"""


@needs_torch
@pytest.mark.parametrize(
    "order",
    [
        "torch first",
        pytest.param("torch later", marks=pytest.mark.long),
        pytest.param("compiled before", marks=pytest.mark.slow),
    ],
)
def test_torch_does_not_take_it_for_inductors_triton(order, tmp_path):
    torch = "import torch\n"
    install = "from tilewright.integrations import triton as drop_in; drop_in.install()\n"
    early = torch + "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))\n"
    start = {
        "torch first": torch + install,
        "torch later": install + torch,
        "compiled before": early + install,
    }
    # One of them through the C++ compiler, which takes seconds.
    backend = f"BACKEND = {'inductor' if order == 'torch later' else 'aot_eager'!r}\n"
    run(backend + start[order] + TORCH_IS_UNAWARE, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))


def test_names_that_programs_import():
    run(
        """
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import triton, triton.language as tl
        from triton.tools.tensor_descriptor import TensorDescriptor
        from triton.backends import backends
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.language.libdevice import pow
        from triton.language.standard import _log2
        from triton.runtime import MockTensor, reinterpret
        from triton.runtime.jit import constexpr_function
        from triton.testing import do_bench_cudagraph, get_max_tensorcore_tflops, nvsmi
        import textwrap
        assert {name: b.driver.is_active() for name, b in backends.items()} == {"nvidia": False, "cpu": True}
        assert tl.core.get_int_dtype(16, signed=False) is tl.uint16 and _log2(64) == 6
        assert tl.float8e4b8 != tl.float8e4nv
        tuned = triton.autotune([triton.Config({})], key=[])(triton.jit(lambda: None))
        assert not tuned.user_defined_pre_hook and not tuned.user_defined_post_hook
        by_name = triton.jit(lambda x, y=1: None).params[1]
        kernel = triton.jit(textwrap.dedent)
        assert kernel.__name__ == 'dedent' and kernel.__globals__ is textwrap.dedent.__globals__
        assert (by_name.num, by_name.name, by_name.is_const) == (1, 'y', False)
        """
    )


def test_compile_for_a_target(tmp_path):
    (tmp_path / "kernel.py").write_text(
        """
from tilewright.integrations import triton as drop_in
drop_in.install()
import triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def scale(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

source = ASTSource(
    scale, {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2,): 256},
    {(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
)
compiled = triton.compile(source, target=GPUTarget("cuda", 80, 32))
assert ".target sm_80" in compiled.asm["ptx"]
assert triton.compile(source).asm["tile"]
"""
    )
    result = subprocess.run(
        [sys.executable, tmp_path / "kernel.py"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.sampled(2)
@needs_torch
@pytest.mark.parametrize("first", ["torch", "triton"])
def test_wrap_triton_gives_the_kernel(first, tmp_path):
    (tmp_path / "kernel.py").write_text(
        f"""
{"import torch.library" if first == "torch" else ""}
from tilewright.integrations import triton as drop_in
drop_in.install()
import torch, triton, triton.language as tl

@triton.autotune([triton.Config(dict(BLOCK=64))], key=["n"])
@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=i < n)

x = torch.arange(100.0)
assert torch.library.wrap_triton(double) is double
torch.library.wrap_triton(double)[(2,)](x, 100)
assert (x == 2 * torch.arange(100.0)).all()
drop_in.uninstall()
try:
    torch.library.wrap_triton(double)
except ImportError:
    pass
else:
    raise AssertionError("torch's own function is not back")
"""
    )
    result = subprocess.run(
        [sys.executable, tmp_path / "kernel.py"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_knobs():
    run(
        """
        import os, warnings
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        from triton import knobs
        from tilewright import config
        from tilewright.runtime.cache import cache_root
        assert knobs.runtime.interpret is False and not config.current().interpret
        with knobs.runtime.scope():
            knobs.runtime.interpret = True
            assert config.current().interpret and os.environ["TRITON_INTERPRET"] == "1"
            assert knobs.runtime.knobs["interpret"] is True
        assert not knobs.runtime.interpret and "TRITON_INTERPRET" not in os.environ
        os.environ["TRITON_CACHE_AUTOTUNING"] = "1"
        assert knobs.autotuning.cache is True
        os.environ["TRITON_DEBUG"] = "maybe"
        try:
            knobs.runtime.debug
        except RuntimeError as error:
            assert "TRITON_DEBUG=maybe" in str(error)
        del os.environ["TRITON_DEBUG"]
        copy = knobs.cache.copy()
        copy.dir = "/somewhere"
        assert knobs.cache.dir == "/somewhere" == os.environ.pop("TRITON_CACHE_DIR")
        assert copy.dir == "/somewhere" and copy.reset().dir == str(cache_root())
        knobs.runtime.debug = True
        knobs.runtime.debug = knobs.env
        assert knobs.runtime.debug is True
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            knobs.runtime.kernel_unload_hook = print
            knobs.runtime.kernel_unload_hook = None
        assert len(found) == 1 and "does not call kernel_unload_hook" in str(found[0].message)
        assert all(isinstance(g, knobs.base_knobs) for g in (knobs.nvidia, knobs.compilation))
        """
    )


def test_hooks_of_compilations(tmp_path):
    """Called once for each specialization; what they are given names it."""
    (tmp_path / "hooked.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            from tilewright.integrations import triton as drop_in
            drop_in.install()
            import triton, triton.language as tl

            @triton.jit
            def kernel(x, i, B: tl.constexpr):
                tl.store(x + tl.arange(0, B), i)

            seen = []
            with triton.knobs.runtime.scope():
                triton.knobs.runtime.jit_cache_hook = lambda **given: seen.append(("before", given))
                triton.knobs.runtime.jit_post_compile_hook = lambda **given: seen.append(("after", given))
                for i in (1, 3, 5, 16):
                    kernel[(1,)](np.zeros(8, np.int32), i, B=8)
            kernel[(1,)](np.zeros(8, np.float32), 3, B=8)
            assert triton.knobs.runtime.jit_cache_hook is None
            assert [when for when, _ in seen] == ["before", "after"] * 3
            given = seen[2][1]
            assert given["fn"].name == "kernel" and given["fn"].jit_function is kernel
            assert given["compile"]["constants"] == {"B": 8} and not given["compile"]["is_warmup"]
            assert given["compile"]["signature"]["x"].startswith("*i32")
            assert given["compile"]["key"] in kernel.device_caches[0][0]
            """
        )
    )
    done = subprocess.run([sys.executable, tmp_path / "hooked.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_torch
def test_what_suites_import():
    run(
        """
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import numpy as np, torch, triton, triton.language as tl
        from triton._internal_testing import (
            dtypes_with_bfloat16, is_cpu, is_cuda, is_hip, is_hip_cdna3, is_hopper, is_interpreter,
            numpy_random, requires_tma, str_to_triton_dtype, tma_dtypes, to_numpy, to_triton,
            torch_dtype_name, uint_dtypes, unwrap_tensor,
        )
        from triton.runtime.jit import type_canonicalisation_dict
        from triton import CompilationError, InterpreterError, aggregate, must_use_result

        assert is_cpu() and not (is_cuda() or is_hip() or is_hip_cdna3() or is_hopper() or is_interpreter())
        assert len(tma_dtypes) == 9 and requires_tma.args == (False,)
        for name in dtypes_with_bfloat16 + ["bool", "float8e5"]:
            x = numpy_random((4, 8), name)
            there = to_triton(x, device="cpu", dst_type=name)
            assert x.shape == (4, 8) == tuple(there.shape) and "float8" in name or (to_numpy(there) == x).all()
            assert (name in uint_dtypes or "8e" in name) == (there is not unwrap_tensor(there))
        assert numpy_random((), "int32").shape == () and (numpy_random(99, "int8") != 0).all()
        assert str_to_triton_dtype("float8_e5m2") == tl.float8e5 and str_to_triton_dtype("bool") == tl.int1
        assert torch_dtype_name(torch.bfloat16) == "bfloat16" and torch_dtype_name(tl.int8) == "int8"
        assert type_canonicalisation_dict["double"] == "fp64"

        from triton.tools.mxfp import MXFP4Tensor, MXScaleTensor
        codes = MXFP4Tensor(size=(6, 5)).random()
        again = MXFP4Tensor(data=codes.to(torch.float32))
        assert torch.equal(again.data, codes.data)
        packed = codes.to_packed_tensor(dim=1)
        assert packed.shape == (6, 3)
        assert torch.equal(codes.unpack_packed_tensor(packed, 1, (6, 5)), codes.data)
        near = MXFP4Tensor(data=torch.tensor([0.25, 0.75, 2.5, 5.0, 9.0, -1.3]))
        assert near.to(torch.float32).tolist() == [0.0, 1.0, 2.0, 4.0, 6.0, -1.5]
        scales = MXScaleTensor(size=(64,)).random(low=0.5, high=64.0)
        assert scales.to(torch.float32).min() >= 0.5 and scales.to(torch.float32).max() <= 64
        assert MXScaleTensor(data=torch.tensor([1.0, 3.0, 0.0])).data.tolist() == [127, 128, 255]
        """
    )


def test_target_info():
    run(
        """
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import numpy as np, triton, triton.language as tl
        from triton.language.target_info import current_target, is_cuda

        assert current_target() == triton.runtime.driver.active.get_current_target() and not is_cuda()
        """
    )


def test_products_of_fp32_are_tf32_on_a_gpu(tmp_path):
    """As in Triton, for kernels that import it; tilewright's own are IEEE, and so is all on a CPU."""
    source = tmp_path / "products.py"
    source.write_text(
        textwrap.dedent(
            """
            import triton, triton.language as tl
            import tilewright

            def product(a, out):
                i = tl.arange(0, 16)
                at = i[:, None] * 16 + i[None, :]
                x = tl.load(a + at)
                tl.store(out + at, tl.dot(x, x))

            written_for_triton = triton.jit(product)
            own = tilewright.jit(product)
            """
        )
    )
    code = f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from tilewright.integrations import triton as drop_in
        drop_in.install()
        import products
        assert products.written_for_triton.cache_key != products.own.cache_key or {{0}}
        def precision(kernel, target):
            made = kernel.compile({{{{"a": "*fp32:16", "out": "*fp32:16"}}}}, target=target)
            return [n for n in ("tf32", "ieee") if '"' + n + '"' in made.asm["tile"]]
        assert precision(products.own, "sm_90a") == precision(products.own, "cpu") == ["ieee"]
        assert precision(products.written_for_triton, "cpu") == ["ieee"]
        assert precision(products.written_for_triton, "sm_90a") == [{{1}}]
        """
    run(code.format("False", '"tf32"'))
    run(code.format("True", '"ieee"'), TRITON_F32_DEFAULT="ieee")
