"""Installing, taking back, and what is said where neither is possible."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import IntegrationError
from tilewright.integrations import inductor
from tilewright.integrations.inductor import choices, drivers, kernels, state, torch_caches
from tilewright.integrations.triton_driver import GPUTarget

ROOT = Path(__file__).parents[3]


def run(folder: Path, code: str, **variables: str) -> str:
    """A process of its own in which tilewright's entry points are those of pyproject.toml."""
    packages = folder / "packages"
    described = packages / "tilewright-0.dist-info"
    described.mkdir(parents=True, exist_ok=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: tilewright\nVersion: 0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in points.items())
        for group, points in entry_points().items()
    ]
    (described / "entry_points.txt").write_text("\n".join(lines))
    given = {
        "PYTHONPATH": os.pathsep.join([str(packages), *filter(None, sys.path)]),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "torch"),
        "TILEWRIGHT_CACHE_DIR": str(folder / "kernels"),
    }
    environment = {n: v for n, v in os.environ.items() if n != "TILEWRIGHT_INDUCTOR"}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=600,
        env={**environment, **given, **variables},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def entry_points() -> dict[str, dict[str, str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]


def test_install_does_not_load_the_compiler(tmp_path):
    """Compile workers load it; a process whose kernels are cached needs none."""
    run(
        tmp_path,
        """
        import sys
        from tilewright.integrations import inductor
        inductor.install()
        import tilewright.integrations.inductor.kernels
        loaded = {"xdsl", "llvmlite", "tilewright.frontend", "tilewright.runtime.export"}
        assert not loaded & sys.modules.keys(), loaded & sys.modules.keys()
        """,
    )


def test_entry_points_name_functions():
    found = entry_points()
    assert set(found) == {"torch.backends", "torch_dynamo_backends"}
    for group, points in found.items():
        for name, value in points.items():
            assert callable(metadata.EntryPoint(name, value, group).load())


def test_nothing_is_imported_for_programs_that_do_not_ask(tmp_path):
    out = run(
        tmp_path,
        """
        import importlib.metadata, sys
        for value in (None, "0", "off"):
            import os
            os.environ.pop("TILEWRIGHT_INDUCTOR", None) if value is None else os.environ.update(TILEWRIGHT_INDUCTOR=value)
            for point in importlib.metadata.entry_points(group="torch.backends"):
                point.load()()
        print(*sorted(n for n in sys.modules if n.startswith("tilewright")))
        """,
    )
    assert out.split() == [
        "tilewright", "tilewright.integrations", "tilewright.integrations.torch_autoload",
    ]  # fmt: skip


@pytest.mark.slow
def test_installing_and_taking_back(tmp_path):
    """And the plain drop-in beside it: torch sees Triton only while the former is there."""
    pytest.importorskip("torch")
    run(
        tmp_path,
        """
        import os, sys, warnings
        warnings.simplefilter("error", RuntimeWarning)
        import torch
        from torch.utils._triton import has_triton_package
        from tilewright.integrations import inductor, triton as drop_in
        assert inductor.is_installed("cpu") and not inductor.is_installed("cuda")
        assert "torch._inductor.config" not in sys.modules  # `import torch` stays as fast as it was
        import torch._inductor.config as settings
        import triton, triton.backends
        assert settings.cpu_backend == "triton" and list(triton.backends.backends) == ["cpu"]
        assert has_triton_package() and triton.__version__.startswith("3.")
        with inductor.installed("cuda"):
            assert sorted(triton.backends.backends) == ["cpu", "nvidia"]
        assert list(triton.backends.backends) == ["cpu"]
        import threading
        found = []
        thread = threading.Thread(target=lambda: found.append(settings.cpu_backend))
        thread.start(), thread.join()
        assert found == ["triton"]  # settings that are assigned count in one thread only
        drop_in.install()
        inductor.uninstall()
        assert settings.cpu_backend == "cpp" and not has_triton_package()
        assert "TILEWRIGHT_INDUCTOR" not in os.environ
        inductor.install()
        assert has_triton_package() and sorted(triton.backends.backends) == ["cpu", "nvidia"]
        inductor.uninstall()
        drop_in.uninstall()
        assert not [n for n in sys.modules if n.split(".")[0] == "triton"]
        """,
        TILEWRIGHT_INDUCTOR="cpu",
    )


# ---- errors ------------------------------------------------------------------------------------------


def test_wrong_device():
    with pytest.raises(IntegrationError, match="no device 'tpu'"):
        inductor.install("tpu")


def test_version_that_is_not_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.5.1+cpu"))
    with pytest.raises(IntegrationError, match=r"torch 2.5.1\+cpu is not among the versions"):
        state._check_torch()


def test_inductor_that_settled_on_having_no_triton(monkeypatch):
    for name, values in {
        torch_caches._COMPAT: {"HAS_TRITON": False},
        torch_caches._BUILT[0]: {},
    }.items():
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(IntegrationError, match="found none and is settled on that") as error:
        torch_caches.forget()
    assert "TILEWRIGHT_INDUCTOR=1" in error.value.help


# ---- kernels -----------------------------------------------------------------------------------------


@tw.jit
def scale(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) * factor, i < n)


class Array:
    """What a kernel needs of a tensor."""

    def __init__(self, array):
        self.array = array

    def data_ptr(self):
        return self.array.ctypes.data


def test_launch_protocol_and_pickle():
    """What torch does with a kernel: compile from a source description, pickle, load, run."""
    signature = {
        "x_ptr": "*fp32",
        "out_ptr": "*fp32",
        "factor": "fp32",
        "n": "i32",
        "BLOCK": "constexpr",
    }
    attributes = {(0,): [["tt.divisibility", 16]], (3,): [["tt.divisibility", 16]]}
    source = kernels.ASTSource(scale, signature, {"BLOCK": 64}, attributes)
    assert source.types() == {
        "x_ptr": "*fp32:16",
        "out_ptr": "*fp32",
        "factor": "fp32",
        "n": "i32:16",
    }
    target = GPUTarget("cpu", "", 1)
    options = {"num_warps": 8, "num_stages": 1, "debug": True, "sanitize_overflow": False}
    kernel = kernels.compile(source, target=target, options=options)
    dropped = {**vars(kernel), "module": None, "function": None, "run": None, "src": None}
    again = kernels.CompiledKernel.__new__(kernels.CompiledKernel)
    again.__dict__.update(pickle.loads(pickle.dumps(dropped)), src=source)
    for each in (kernel, again):
        each._init_handles()
        x, out = np.arange(160, dtype=np.float32), np.zeros(160, np.float32)
        seen = []
        each.run(3, 1, 1, 0, each.function, each.packed_metadata, "given", seen.append, seen.append,
                 Array(x), Array(out), 2.5, 160, 64)  # fmt: skip
        np.testing.assert_array_equal(out, 2.5 * x)
        assert seen == ["given", "given"] and each.metadata.num_warps == 4


def test_kernels_without_their_function_can_be_pickled():
    """As torch's workers send them: `fn` and globals set to None, the name fixed."""
    kernel = tw.jit(scale.fn)
    assert kernel.src.startswith("def scale")
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "factor": "fp32", "n": "i32"}
    kernel.compile(types, {"BLOCK": 32})  # which leaves things behind that stay in the process
    kernel.fn = kernel.__globals__ = kernel.used_global_vals = None
    kernel.repr = str
    got = pickle.loads(pickle.dumps(kernel))
    assert got.arg_names == scale.arg_names and got.src == scale.src and got.__name__ == "scale"
    assert [p.num for p in got.params if p.is_constexpr] == [4]


def test_hash_of_a_target():
    compiler = drivers.make_backend(GPUTarget("cpu", "", 1))
    assert compiler.hash() == drivers.make_backend(GPUTarget("cpu", "", 1)).hash()
    assert compiler.hash() != drivers.make_backend(GPUTarget("cuda", 90, 32)).hash()
    assert compiler.parse_options({"num_warps": 2, "unknown": 1}).num_warps == 2


# ---- block sizes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "given", "chosen"),
    [
        (choices.Work("pointwise", {"x": 1 << 20}), "XBLOCK", {"XBLOCK": 512}),
        (choices.Work("pointwise", {"x": 64}), "XBLOCK", {"XBLOCK": 64}),
        (choices.Work("pointwise", {"y": 16, "x": 4096}, scatters=True), "YBLOCK XBLOCK", {"YBLOCK": 1, "XBLOCK": 128}),
        (choices.Work("persistent_reduction", {"x": 8192, "r0_": 64}, scatters=True), "XBLOCK", {"XBLOCK": 1}),
        (choices.Work("pointwise", {"y": 16, "x": 4096}), "YBLOCK XBLOCK", {"YBLOCK": 16, "XBLOCK": 128}),
        (choices.Work("reduction", {"x": 64, "r0_": 8192}), "XBLOCK R0_BLOCK", {"XBLOCK": 1, "R0_BLOCK": 64}),
        (choices.Work("reduction", {"x": 1024, "r0_": 512}, across=True), "XBLOCK R0_BLOCK", {"XBLOCK": 128, "R0_BLOCK": 1}),
        (choices.Work("reduction", {"x": 256, "r0_": 512}, across=True, threads=8), "XBLOCK R0_BLOCK", {"XBLOCK": 32, "R0_BLOCK": 1}),
        (choices.Work("reduction", {"x": 64, "r0_": 1 << 16}, across=True), "XBLOCK R0_BLOCK", {"XBLOCK": 64, "R0_BLOCK": 64}),
        (choices.Work("reduction", {"x": 1024, "r0_": 256}, across=True, transposes=True), "XBLOCK R0_BLOCK", {"XBLOCK": 64, "R0_BLOCK": 16}),
        (choices.Work("persistent_reduction", {"x": 512, "r0_": 1024}, transposes=True), "XBLOCK", {"XBLOCK": 16}),
        (choices.Work("persistent_reduction", {"x": 512, "r0_": 1024}), "XBLOCK", {"XBLOCK": 1}),
        (choices.Work("persistent_reduction", {"x": 8192, "r0_": 64}), "XBLOCK", {"XBLOCK": 4}),
        (choices.Work("persistent_reduction", {"x": 512, "r0_": 1024}, across=True), "XBLOCK", {"XBLOCK": 16}),
        (choices.Work("pointwise", {"x": 1 << 20}, divisors={"x": (64, 8192)}), "XBLOCK", {"XBLOCK": 64}),
        (choices.Work("pointwise", {"x": 1 << 20}, divisors={"x": (784, 32)}), "XBLOCK", {"XBLOCK": 16}),
        (choices.Work("reduction", {"x": 32, "r0_": 8192}, divisors={"r0_": (784,)}), "XBLOCK R0_BLOCK", {"XBLOCK": 1, "R0_BLOCK": 16}),
        (choices.Work("pointwise", {"y": 8192, "x": 32}, divisors={"y": (784,)}), "YBLOCK XBLOCK", {"YBLOCK": 16, "XBLOCK": 32}),
        (choices.Work("reduction", {"x": 1024, "r0_": 128}, across=True, divisors={"x": (64,)}), "XBLOCK R0_BLOCK", {"XBLOCK": 64, "R0_BLOCK": 1}),
        (choices.Work("reduction", {"y": 16, "x": 256, "r0_": 128}, across=True), "YBLOCK XBLOCK R0_BLOCK", {"YBLOCK": 1, "XBLOCK": 128, "R0_BLOCK": 1}),
        (choices.Work("persistent_reduction", {"y": 512, "x": 128, "r0_": 16}), "YBLOCK XBLOCK", {"YBLOCK": 1, "XBLOCK": 16}),
        (choices.Work("reduction", {"x": 32, "r0_": 8192}, passes=2), "XBLOCK R0_BLOCK", {"XBLOCK": 1, "R0_BLOCK": 1024}),
        (choices.Work("reduction", {"x": 32, "r0_": 8, "r1_": 1024}), "XBLOCK R1_BLOCK R0_BLOCK", {"XBLOCK": 1, "R0_BLOCK": 1, "R1_BLOCK": 1024}),
        (choices.Work("template", {"x": 512}), "XBLOCK", None),
        (choices.Work("pointwise", {"x": 512}), "XBLOCK RSPLIT", None),
    ],
)  # fmt: skip
def test_block_sizes(work, given, chosen):
    assert choices.blocks(work, dict.fromkeys(given.split(), 1)) == chosen


def test_configurations_for_gpus_are_left_alone():
    given = [SimpleNamespace(kwargs={"XBLOCK": 256}), SimpleNamespace(kwargs={"XBLOCK": 512})]
    kind = SimpleNamespace(name="POINTWISE")

    def chosen(device, **meta):
        device = SimpleNamespace(type=device, multi_processor_count=4)
        make = lambda kwargs, **_: SimpleNamespace(kwargs=kwargs)
        return choices.choose(make, {"x": 4096}, given, {"device": device}, kind, meta)

    assert chosen("cuda") is given
    assert [c.kwargs for c in chosen("cpu")] == [{"XBLOCK": 512}]
    tuned = [c.kwargs["XBLOCK"] for c in chosen("cpu", max_autotune=True)]
    assert tuned == [512, 1024, 256]


def test_neighbours_stay_within_the_sizes():
    assert choices.neighbors({"YBLOCK": 4, "XBLOCK": 64}, {"y": 4, "x": 64}) == [
        {"YBLOCK": 4, "XBLOCK": 64}, {"YBLOCK": 4, "XBLOCK": 32},
    ]  # fmt: skip
    assert choices.neighbors({"XBLOCK": 16}, {"x": 16}) == [{"XBLOCK": 16}]


# ---- workers and caches ------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("method", ["subprocess", "fork", "spawn"])
def test_workers_and_warm_caches(tmp_path, method):
    """Kernels are compiled by Inductor's workers; a second process takes graph and kernels from caches."""
    pytest.importorskip("torch")
    code = """
        import json, torch
        import torch._inductor.config as settings
        from torch._dynamo.utils import counters
        from torch._inductor.async_compile import AsyncCompile
        def function(x, y):
            return torch.softmax(x, -1) + y.sum(0), (x * 2).t().contiguous()
        if settings.compile_threads > 1:
            AsyncCompile.wait_pool_ready()
        x, y = torch.randn(40, 50), torch.randn(60, 50)
        got = torch.compile(function)(x, y)
        for a, b in zip(got, function(x, y)):
            torch.testing.assert_close(a, b)
        print(json.dumps({**counters["inductor"]}))
    """
    given = {
        "TILEWRIGHT_INDUCTOR": "1", "TORCHINDUCTOR_COMPILE_THREADS": "2",
        "TORCHINDUCTOR_WORKER_START": method,
    }  # fmt: skip
    cold = run(tmp_path, code, **given)
    entries = len([*(tmp_path / "kernels").rglob("*.entry")])
    warm = run(tmp_path, code, **given)
    assert '"fxgraph_cache_miss": 1' in cold and '"fxgraph_cache_hit": 1' in warm
    assert entries and len([*(tmp_path / "kernels").rglob("*.entry")]) == entries


def test_workers_are_forked_with_the_compiler_loaded(tmp_path):
    out = run(
        tmp_path,
        """
        import sys, torch
        from torch._inductor.async_compile import pre_fork_setup
        from tilewright.integrations import inductor
        names = "tilewright.backends.cpu.codegen", "tilewright.passes.raise_access"
        print(*(name in sys.modules for name in names))
        pre_fork_setup()
        print(*(name in sys.modules for name in names))
        inductor.uninstall()
        from torch._inductor import async_compile
        print(async_compile.pre_fork_setup.__module__)
        """,
        TILEWRIGHT_INDUCTOR="cpu",
    )
    assert out.splitlines() == ["False False", "True True", "torch._inductor.async_compile"]
