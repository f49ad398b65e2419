"""Kernels compiled for GPUs on a machine without one: texts, cubins, registers, errors of tools."""

from dataclasses import replace

import pytest
from tests.attention import attention

import tilewright as tw
import tilewright.language as tl
from tilewright import config
from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.backends.nvidia import assemble, tools
from tilewright.backends.nvidia.target import of_capability, target_info
from tilewright.errors import (
    KernelTypeError,
    LaunchError,
    OutOfResources,
    PassError,
    UnsupportedTarget,
)
from tilewright.runtime.compiler import forms_as_asked
from tilewright.runtime.options import of_parameters, parse

TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry one(.param .u64 out)
{
  .reg .b64 %d<2>; .reg .b32 %r<2>;
  ld.param.u64 %d1, [out]; mov.u32 %r1, 1;
  st.global.u32 [%d1], %r1;
  ret;
}
"""
needs_ptxas = pytest.mark.skipif(tools.find("ptxas") is None, reason="no ptxas")


@tw.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


def compiled(target, **options):
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32", "factor": "fp32"}
    return scale.compile(types, {"BLOCK": 512}, target=target, options=options)


def test_no_more_threads_than_there_is_work_for():
    few, asked = (
        compiled("sm_90a", num_warps=8),
        compiled("sm_90a", num_warps=8, disable=("reduce-num-warps",)),
    )
    assert (few.plan.threads, asked.plan.threads) == (128, 256)
    assert ".maxntid 128" in few.asm["ptx"] and ".maxntid 256" in asked.asm["ptx"]


def test_less_shared_memory_is_used_where_a_form_does_not_fit():
    """Stages, then operands in shared memory, are given up before a kernel is; the log tells of it."""
    pointers = dict.fromkeys(("Q", "K", "V", "Out", "L"), "*fp32:16")
    types = {**pointers, "scale": "fp32", "stride_h": "i32:16", "pitch": "i32:16", "N": "i32:16"}
    sizes = {"BLOCK_M": 64, "BLOCK_N": 64, "D": 64, "CAUSAL": False, "RAGGED": True}
    whole = target_info("sm_90a")

    def of_size(kib):
        target = replace(whole, shared_bytes=kib << 10)
        return attention.compile(types, sizes, target=target, num_warps=4, num_stages=3)

    small = of_size(44)
    assert small.plan.shared_bytes <= 44 << 10
    assert "num_stages=3" in small.asm["log"] and "compiled with num_stages=1" in small.asm["log"]
    assert "gpu.local_alloc" not in small.asm["gpu"]  # the text of the form that was taken
    with forms_as_asked(), pytest.raises(OutOfResources):
        of_size(40)
    with pytest.raises(OutOfResources):
        of_size(16)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target):
    kernel = compiled(target, num_warps=8)
    assert kernel.target.name == target and kernel.metadata.num_warps == 8
    assert f".target {target}" in kernel.asm["ptx"]
    assert [a.name for a in kernel.plan.arguments] == ["x_ptr", "out_ptr", "n", "factor"]
    assert "tile.load" in kernel.asm["ttir"] and kernel.asm["gpu"] and kernel.asm["llir"]
    if tools.find("ptxas"):
        assert kernel.asm["cubin"][:4] == b"\x7fELF" and 0 < kernel.n_regs < 64
        assert kernel.metadata.n_regs == kernel.n_regs and kernel.metadata.n_spills == 0
        assert kernel.n_spills == 0 and kernel.metadata.shared == kernel.plan.shared_bytes
        if assemble.can_disassemble():
            assert "STG" in kernel.asm["sass"]
            assert {"ptx", "cubin", "sass", "llvm"} <= set(kernel.asm)


def test_texts_that_a_missing_tool_would_make_are_not_there(monkeypatch):
    kernel = compiled("sm_90a")
    assert {"ttir", "tile", "ptx"} <= {
        name for name in ("ttir", "tile", "ptx") if name in kernel.asm
    }
    assert "nonsense" not in kernel.asm and kernel.asm.get("nonsense") is None
    monkeypatch.setattr(assemble.tools, "find", lambda tool: None)
    fresh = scale.compile(
        {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "factor": "fp32"}, {"BLOCK": 512},
        target="sm_90a",
    )  # fmt: skip
    for found in (kernel, fresh):
        assert "sass" not in found.asm and found.asm.get("sass") is None
        with pytest.raises((PassError, KeyError), match=r"nvdisasm|ptxas"):
            found.asm["sass"]


@pytest.mark.parametrize("target", ["sm_75", "sm90", "gfx942", "", None, 90])
def test_targets_that_there_are_not(target):
    with pytest.raises(UnsupportedTarget) as caught:
        scale.compile(
            x_ptr="*fp32", out_ptr="*fp32", n="i32", factor="fp32", BLOCK=64, target=target
        )
    assert ", ".join(TARGETS) in str(caught.value)


@pytest.mark.parametrize("kind", ["*fp33", "*fp32:7", "*fp32:", "*fp32:x", "*"])
def test_types_that_there_are_not(kind):
    with pytest.raises(LaunchError, match="for parameter 'x_ptr' is an unknown type"):
        scale.compile(x_ptr=kind, out_ptr="*fp32", n="i32", factor="fp32", BLOCK=64)


@pytest.mark.parametrize("given", ["*fp32", ["*fp32"], 3])
def test_signatures_are_mappings(given):
    with pytest.raises(LaunchError, match="is not a mapping"):
        scale.compile(given, {"BLOCK": 64})


@tw.jit
def square(a_ptr, b_ptr, c_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    tl.store(c_ptr + at, tl.dot(a, b))


def refused(kind, n, **options):
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), f"*{kind}:16")
    with forms_as_asked(), pytest.raises(OutOfResources) as caught:
        square.compile(types, {"N": n}, target="sm_90a", options=options)
    return str(caught.value)


def test_what_does_not_fit_is_told_with_the_kernels_line():
    """Exchanges, buffers of products, and registers, which only the assembler counts."""
    for kind in ("fp32", "fp16"):
        text = refused(kind, 256)
        assert "shared memory of sm_90a, Required: " in text and "Hardware limit: 232448" in text
        assert f"{__file__}:{square.first_line + 2}:" in text or (
            f"{__file__}:{square.first_line + 3}:" in text
        )
        assert "compiled for square(a_ptr: *" in text
    if tools.find("ptxas"):
        text = refused("fp16", 128, maxnreg=64)
        assert "registers a thread, Required" in text and f"{__file__}:{square.first_line}:" in text


@tw.jit
def normalise(x_ptr, out_ptr, tickets_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x / tl.sum(x, 0) + tl.num_programs(0))
    tl.atomic_add(tickets_ptr, 1, scope="cta")


@tw.jit
def lopsided(a, b):
    return a + b * 0.75


@tw.jit
def two_sums(x_ptr, out_ptr, N: tl.constexpr, LOPSIDED: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    if LOPSIDED:
        tl.store(out_ptr + tl.arange(0, N), x - tl.reduce(x, 0, lopsided))
    else:
        tl.store(out_ptr + tl.arange(0, N), x - tl.sum(x * x, 0))


def test_lanes_that_reduce_together_compute_the_same():
    """No product of a lane's own part fuses with the sum, and order is the lanes' where it matters."""

    def made(lopsided):
        constants = {"N": 32, "LOPSIDED": lopsided}
        types = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
        return two_sums.compile(types, constants, "sm_80", {"num_warps": 1}).asm["ptx"]

    assert made(False).count("add.rn.f32") == 5 and "fma" not in made(False)
    assert made(True).count("selp.f32") == 10


def test_programs_of_several_blocks():
    """Threads count through the cluster, meet in its barriers and in its first block's memory."""
    types = {"x_ptr": "*fp32:16", "out_ptr": "*fp32:16", "tickets_ptr": "*i32"}

    def made(target, ctas):
        options = {"num_ctas": ctas, "num_warps": 2}
        return normalise.compile(types, {"BLOCK": 2048}, target=target, options=options)

    one, four = made("sm_90a", 1), made("sm_90a", 4)
    assert (one.plan.cluster_size, four.plan.cluster_size) == (1, 4)
    assert four.plan.threads == 64 and ".maxntid 64" in four.asm["ptx"]
    ptx = four.asm["ptx"]
    assert ".reqnctapercluster 4" in ptx and "bar.sync" not in ptx and "st.shared.b" not in ptx
    for form in ("%clusterid.x", "%nclusterid.x", "%cluster_ctarank", "mapa.shared::cluster"):
        assert form in ptx and form not in one.asm["ptx"]
    assert "red.release.cluster" in ptx and "red.release.cta" in one.asm["ptx"]
    assert ptx.count("ld.global") < one.asm["ptx"].count("ld.global")
    old = made("sm_80", 4)
    assert old.plan.cluster_size == 1 and "cluster" not in old.asm["ptx"]


def test_a_second_process_finds_it_on_disk():
    first = compiled("sm_80")
    again = compiled("sm_80")
    assert not first.from_cache and again.from_cache
    assert again.asm["ptx"] == first.asm["ptx"] and again.n_regs == first.n_regs
    assert again.artifact.object_code == first.artifact.object_code


def test_without_an_assembler_the_ptx_is_the_code(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "none")
    kernel = compiled("sm_90a")
    assert kernel.asm["object"] == kernel.asm["ptx"].encode() + b"\0"
    assert "cubin" not in kernel.asm and kernel.n_regs == 0
    with pytest.raises(KeyError, match="no ptxas"):
        kernel.asm["sass"]


def test_code_of_a_gpu_does_not_run_on_the_cpu():
    import numpy as np

    x = np.ones(8, np.float32)
    with pytest.raises(LaunchError, match="compiled for sm_90a, and 'x_ptr' is in host memory"):
        compiled("sm_90a")[(1,)](x, x, 8, 1.0)


@needs_ptxas
def test_registers_can_be_bounded():
    assert compiled("sm_90a", maxnreg=16).n_regs <= 16


def test_names_of_targets():
    assert registry.machine("sm_86").name == "sm_86"
    assert registry.machine("sm_90").name == "sm_90a"
    assert registry.machine("nvidia").name in TARGETS
    assert registry.machine("cpu").name == "cpu"
    for wrong in ("sm_70", "sm_12345", "tpu"):
        with pytest.raises(UnsupportedTarget):
            registry.machine(wrong)
    found = [of_capability(*c).name for c in ((8, 0), (8, 6), (8, 7), (8, 9), (9, 0))]
    assert found == ["sm_80", "sm_86", "sm_86", "sm_89", "sm_90a"]
    assert of_capability(9, 0, 114).cores == 114
    assert of_capability(9, 0, 132).key == target_info("sm_90a").key
    with pytest.raises(UnsupportedTarget, match=r"7\.5"):
        of_capability(7, 5)


@needs_ptxas
def test_assemble():
    made = assemble.assemble(PTX, target_info("sm_90a"), Options(enable_fp_fusion=False))
    assert assemble.is_cubin(made.cubin) and made.registers > 0
    assert (made.spills, made.shared, made.warnings) == (0, 0, ())
    assert made.object_code(PTX) is made.cubin


@needs_ptxas
def test_what_the_assembler_rejects():
    with pytest.raises(PassError, match=r"ptxas rejects.*\n.*Not a name.*<mvo\.u32 %r1, 1;>"):
        assemble.assemble(PTX.replace("ld.param.u64 %d1, [out]; mov", "ld.param.u64 %d1, [out];\n mvo"), target_info("sm_80"))  # fmt: skip
    large = PTX.replace(".visible", ".shared .align 4 .b8 room[300000];\n.visible").replace(
        "ret;", "st.shared.u32 [room], %r1;\n ret;"
    )
    with pytest.raises(OutOfResources, match="shared memory, Required: 300000"):
        assemble.assemble(large, target_info("sm_80"))
    newer = assemble.assemble(PTX.replace("8.0", "99.0"), target_info("sm_80"))
    assert newer.cubin is None and "too old" in newer.warnings[0]


def test_logs():
    log = """ptxas info    : 0 bytes gmem
ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    8 bytes stack frame, 16 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 32 bytes smem
"""
    made = assemble._parsed(b"", log)
    assert (made.registers, made.spills, made.shared) == (168, 4, 32)
    assert len(made.warnings) == 1 and "(C7514)" in made.warnings[0]


def test_tools_are_looked_for_in_order(tmp_path, monkeypatch):
    tools._find.cache_clear()
    home = tmp_path / "cuda"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "nvdisasm").write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert tools.find("nvdisasm") == home / "bin" / "nvdisasm"
    own = tmp_path / "ptxas"
    own.write_text("")
    monkeypatch.setenv("TILEWRIGHT_PTXAS", str(own))
    assert tools.find("ptxas") == own and str(own) in tools.fingerprint("ptxas")
    monkeypatch.setenv("TILEWRIGHT_PTXAS", "none")
    assert tools.find("ptxas") is None and tools.fingerprint("ptxas") == ""
    tools._find.cache_clear()


@pytest.mark.parametrize("number", [1, 2, 4, 8, 12, 20, 32])
def test_numbers_of_warps(number):
    options = parse({"num_warps": number}, scale, config.current(), gpu=True)
    assert options.num_warps == number


@tw.jit
def scale_by_so_many_warps(x_ptr, num_warps: tl.constexpr, num_stages: tl.constexpr = 0):
    offsets = tl.arange(0, 4096)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * num_warps)


def test_a_parameter_may_be_an_option_as_well():
    """As in Triton, where the keyword of a launch is both."""
    kernel = scale_by_so_many_warps.compile({"x_ptr": "*fp32:16"}, {"num_warps": 8}, "sm_90a")
    assert kernel.plan.threads == 256
    values = {"num_warps": tl.constexpr(16), "num_stages": 1000, "x_ptr": 4}
    assert of_parameters(scale_by_so_many_warps, values) == {"num_warps": 16}


@pytest.mark.parametrize("number", [0, 3, 6, 10, 33, 64])
def test_numbers_of_warps_that_cannot_be(number):
    with pytest.raises(AssertionError, match="must be a power of 2 or a multiple of 4") as caught:
        parse({"num_warps": number}, scale, config.current(), gpu=True)
    assert isinstance(caught.value, LaunchError)


@tw.jit
def names_of_cuda(x_ptr):
    threads: tl.constexpr = tl.extra.cuda.num_threads()
    tl.static_assert(tl.extra.cuda.num_warps() * 32 == threads)
    value = tl.extra.cuda.globaltimer() + tl.extra.cuda.smid()
    tl.store(x_ptr + tl.arange(0, threads), value)


def test_names_of_cuda():
    found = names_of_cuda.compile({"x_ptr": "*i64"}, target="sm_90a", options={"num_warps": 8})
    assert found.plan.threads == 256
    assert all(f"%{name};" in found.asm["ptx"] for name in ("globaltimer", "smid"))
    with pytest.raises(
        KernelTypeError, match=r"num_threads\(\) needs an NVIDIA GPU, but the target is cpu"
    ):
        names_of_cuda.compile({"x_ptr": "*i64"})
