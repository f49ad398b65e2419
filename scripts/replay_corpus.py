"""The fixed corpus of `replay.py`, compiled with whatever tilewright is on the path, as texts by name.

    python scripts/replay_corpus.py OUT.json --root CHECKOUT [--only PATTERN] [--full]

Uses the public interface only (`kernel.compile`, `tilewright generate`, `tilewright show`), so that other
commits' sources understand it. IR in the syntax of the checkout (`tests/passes/programs`) is read from
CHECKOUT; kernels come from the checkout of this file, so their paths and lines are the same for every source.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import functools
import importlib.util
import io
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
#: a fixed set of CPU features, so that every machine compiles the same code
CPU = "cpu:x86-64-v3"
TARGETS = (CPU, "sm_80", "sm_90a")

Texts = dict[str, str]


@dataclass(frozen=True)
class Entry:
    """One compilation: `compile` returns the code ("ptx", "asm") and the launch plan ("plan") by name."""

    name: str
    target: str
    compile: Callable[[str], Texts]
    full: bool = False
    """Whether only `--full` includes it."""

    @property
    def label(self) -> str:
        return f"{self.name} @{self.target.removeprefix('cpu:')}"


# ---- kernels ---------------------------------------------------------------------------------------


@functools.cache
def module_at(path: str) -> Any:
    """The Python file `path` of this checkout, imported with tilewright in the place of Triton."""
    from tilewright.integrations import triton

    triton.install()
    spec = importlib.util.spec_from_file_location(f"replay_{Path(path).stem}", HERE / path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def kernel_named(path: str, name: str) -> Any:
    """A kernel of a file, without the decorators around it."""
    import tilewright

    if path.startswith("examples/seeds/"):
        owner = module_at("examples/seeds_loader.py").load(Path(path).stem, stand_in=True)
    else:
        owner = module_at(path)
    kernel = getattr(owner, name)
    while not isinstance(kernel, tilewright.JITFunction):
        kernel = kernel.fn
    return kernel


def signature_of(text: str) -> tuple[dict[str, str], dict[str, Any]]:
    """Types and constants of `x=*fp32:16,n=i32,BLOCK=1024,PRECISION='tf32'`."""
    import tilewright.language

    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if value[:1] == "*" or value.partition(":")[0] in ("i1", "i8", "i32", "i64", "fp32", "fp16"):
            types[name] = value
        elif value.startswith("tl."):
            constants[name] = getattr(tilewright.language, value[3:])
        elif value in ("True", "False", "None"):
            constants[name] = {"True": True, "False": False, "None": None}[value]
        else:
            constants[name] = value.strip("'") if value.startswith("'") else int(value)
    return types, constants


def code_of(compiled: Any) -> Texts:
    """The last text before machine code, and the launch plan."""
    stage = "ptx" if "ptx" in compiled.asm else "asm"
    return {stage: compiled.asm[stage], "plan": compiled.plan.to_json()}


def compile_kernel(path: str, name: str, signature: str, options: str, target: str) -> Texts:
    types, constants = signature_of(signature)
    chosen = {} if target.startswith("cpu") or not options else signature_of(options)[1]
    kernel = kernel_named(path, name)
    return code_of(kernel.compile(types, constants, target=target, **chosen))


def compile_case(name: str, target: str) -> Texts:
    """A case of `tests/large_tiles.py` by its name."""
    case = next(c for c in module_at("tests/large_tiles.py").CASES if c.name == name)
    options = {} if target.startswith("cpu") else {"num_warps": case.warps}
    constants = case.constants
    if target.startswith("cpu"):  # what is a tile of many threads' registers is too long for one thread
        constants = {k: min(v, 1024 if k == "BLOCK" else 64) for k, v in constants.items()}
    return code_of(case.kernel.compile(case.types, constants, target=target, **options))


BLOCKED = "A=*{0}:16,B=*{0}:16,C=*{0}:16,M=i32:16,N=i32:16,K=i32:16"
GROUPED = "a=*{0}:16,b=*{1}:16,c=*{2}:16,M=i32,N=i32:16,K=i32:16,stride_am=i32:16,stride_bk=i32:16,stride_cm=i32:16,BM={3},BN={4},BK={5},GROUP=8,ACCUMULATOR=tl.{6},PRECISION='{7}'"
DESCRIBED = "a=*{0}:16,b=*{0}:16,c=*{0}:16,M=i32,N=i32:16,K=i32:16,BM={1},BN={2},BK=64,B_ROWS_OF_N={3}"
PERSISTENT = "a=*{0}:16,b=*{0}:16,c=*{0}:16,M=i32,N=i32:16,K=i32:16,BM=128,BN=128,BK=64,BIAS={1},bias=*fp32:16"
ATTENTION = "Q=*{0}:16,K=*{0}:16,V=*{0}:16,Out=*{0}:16,L=*fp32:16,scale=fp32,stride_h=i32:16,pitch=i32:16,N=i32:16,BLOCK_M={1},BLOCK_N={2},D={3},CAUSAL={4},RAGGED={5}"
ROPE = "Q=*{0}:16,Q_row_stride=i32:16,cos=*{0}:16,cos_row_stride=i32:16,sin=*{0}:16,sin_row_stride=i32:16,seqlen=i32,head_dim=128,n_heads=32,BLOCK_SIZE=64"
SOFTMAX = "x_ptr=*{0}:16,x_row_stride=i32:16,y_ptr=*{0}:16,y_row_stride=i32:16,n_cols=i32,BLOCK_SIZE={1}"
ADD = "x_ptr=*fp32:16,y_ptr=*fp32:16,{0}=*fp32:16,n_elements=i32"
TUTORIAL = "a_ptr=*{0}:16,b_ptr=*{0}:16,c_ptr=*{0}:16,M=i32,N=i32:16,K=i32:16,stride_am=i32:16,stride_ak=1,stride_bk=i32:16,stride_bn=1,stride_cm=i32:16,stride_cn=1,BLOCK_SIZE_M={1},BLOCK_SIZE_N={2},BLOCK_SIZE_K={3},EVEN_K={4},GROUP_SIZE_M=8,ACTIVATION='{5}'"
MN_MAJOR = "A=*fp32:16,B=*fp32:16,C=*fp32:16,M=i32,N=i32:16,K=i32:16,sa=i32:16,sb=i32:16,sc=i32:16,A_BY_M={0},B_BY_K={1},BM=128,BN=128,BK=32"
TILED = "a=*fp16:16,b=*fp16:16,c=*{0}:16,M=i32,N=i32:16,K=i32:16,stride_cm=i32:16,stride_cn=1,BM=128,BN=128,BK=64"
SEEDS, OWN = "examples/seeds/", "scripts/replay_kernels.py"

#: (file, kernel, signature, options for a GPU)
KERNELS = [
    (f"{SEEDS}vector_add.py", "add_kernel", ADD.format("output_ptr") + ",BLOCK_SIZE=1024", ""),
    (f"{SEEDS}vector_add.py", "add_kernel_several_blocks", ADD.format("o_ptr") + ",num_blocks_per_CTA=i32,BLOCK_SIZE=1024", ""),
    (f"{SEEDS}blocked_matmul.py", "matmul_kernel", BLOCKED.format("fp32") + ",BLOCK_M=32,BLOCK_N=32,BLOCK_K=32", ""),
    (f"{SEEDS}blocked_matmul.py", "matmul_kernel", BLOCKED.format("fp16") + ",BLOCK_M=128,BLOCK_N=64,BLOCK_K=64", "num_warps=4"),
    *((f"{SEEDS}rope.py", "_rope_embedding", ROPE.format(t), "") for t in ("fp32", "bf16")),
    *((f"{SEEDS}softmax.py", "kernel_softmax_fuse", SOFTMAX.format(t, 1024), "") for t in ("fp32", "fp16")),
    *((f"{SEEDS}softmax.py", f"kernel_softmax_{k}", SOFTMAX.format("fp32", 4096) + ",CACHE_OPT=True", "num_warps=8") for k in ("tile", "online")),
    *((f"{SEEDS}tutorial_matmul.py", "matmul_kernel", TUTORIAL.format(*v), "num_warps=4,num_stages=4") for v in (
        ("fp16", 64, 64, 32, True, ""), ("fp16", 128, 128, 64, False, "leaky_relu"), ("fp32", 64, 64, 32, True, ""), ("bf16", 256, 64, 32, True, "leaky_relu"))),
    *((OWN, "grouped_matmul", GROUPED.format(*v[:-2]), f"num_warps={v[-2]},num_stages={v[-1]}") for v in (
        ("fp16", "fp16", "fp16", 128, 128, 64, "float32", "ieee", 4, 3), ("bf16", "bf16", "bf16", 128, 256, 64, "float32", "ieee", 8, 4),
        ("fp16", "fp16", "fp16", 64, 64, 32, "float16", "ieee", 4, 3), ("fp32", "fp32", "fp32", 64, 64, 32, "float32", "tf32", 4, 4),
        ("fp32", "fp32", "fp32", 64, 64, 16, "float32", "ieee", 4, 2), ("fp32", "fp32", "fp32", 64, 64, 32, "float32", "tf32x3", 4, 2),
        ("i8", "i8", "i32", 128, 128, 64, "int32", "ieee", 4, 3), ("fp8e4nv", "fp8e4nv", "fp16", 128, 128, 128, "float32", "ieee", 4, 3))),
    *((OWN, "descriptor_matmul", DESCRIBED.format(*v), "num_warps=8,num_stages=4") for v in (
        ("fp16", 128, 256, True), ("fp16", 128, 256, False), ("bf16", 128, 128, True))),
    *((OWN, "persistent_matmul", PERSISTENT.format(*v), "num_warps=8,num_stages=3") for v in (("fp16", True), ("bf16", False))),
    (OWN, "persistent_matmul", PERSISTENT.format("fp16", False), "num_warps=8,num_stages=3,num_ctas=2"),
    (OWN, "gathered_matmul", "a=*fp16:16,rows=*i32:16,b=*fp16:16,c=*fp16:16,N=i32:16,K=i32:16,BM=64,BN=64,BK=64", "num_warps=4,num_stages=3"),
    (OWN, "histogram", "x=*i32:16,counts=*i32:16,n=i32,BLOCK=1024,BINS=128", ""),
    (OWN, "atomics", "x=*fp32:16,index=*i32:16,out=*fp32:16,last=*i32:16,n=i32,BLOCK=512", ""),
    (OWN, "first_order_scan", "gate=*fp32:16,x=*fp32:16,out=*fp32:16,n=i32,BLOCK=1024", ""),
    *((OWN, "math_of_all_kinds", f"x=*{t}:16,y=*i32:16,out=*{t}:16,n=i32,BLOCK=1024", "") for t in ("fp32", "fp16")),
    (OWN, "nested_loops", "x=*fp32:16,out=*fp32:16,lengths=*i32,n=i32:16,BLOCK=256", ""),
    *(("tests/attention.py", "attention", ATTENTION.format(*v[:-1]), f"num_warps={v[-1]},num_stages=2") for v in (
        ("fp16", 64, 64, 64, False, False, 4), ("fp16", 128, 64, 64, True, False, 4), ("bf16", 128, 128, 128, True, False, 8), ("fp16", 64, 32, 64, True, True, 4))),
    *((MN, "product", MN_MAJOR.format(*v), "num_warps=4") for MN in ("tests/mn_major_dots.py",) for v in itertools.product((True, False), repeat=2)),
    *((MIXED, name, text + ",K=i32:16,sa=i32:16,sb=i32:16,sc=i32:16,BM=64,BN=64,BK=64", "num_warps=4") for MIXED in ("tests/mixed_precision_dots.py",) for name, text in (
        ("weights", "A=*fp16:16,B=*i8:16,C=*fp32:16"), ("scaled", "A=*u8:16,S=*u8:16,B=*bf16:16,C=*fp32:16"))),
    *(("tests/tiled_products.py", name, TILED.format(t), "num_warps=8") for name in ("product", "one_tile") for t in ("fp16", "fp32")),
    ("benchmarks/elementwise_kernels.py", "scale_kernel", "x_ptr=*fp16:16,out_ptr=*fp16:16,factor=fp32,n_elements=i32,BLOCK_SIZE=1024", ""),
    ("benchmarks/elementwise_kernels.py", "relu_kernel", "x_ptr=*fp32:16,out_ptr=*fp32:16,n_elements=i32,BLOCK_SIZE=1024", ""),
    ("benchmarks/concurrent_kernels.py", "meet_kernel", "counter_ptr=*i64,met_ptr=*i64:16,wanted=i32,LIMIT=1000", ""),
]  # fmt: skip

# ---- described matmuls -----------------------------------------------------------------------------

LINEAR = """
#id = affine_map<({d}d0, d1) -> ({d}d0, d1)>
#col = affine_map<({d}d0, d1) -> (d1)>
func.func @linear(%A: tensor<{A}x{t}>, %B: tensor<{B}x{t}>, %bias: tensor<{N}x{t}>) -> tensor<{C}x{t}> {{
  %zero = arith.constant {zero} : {s}
  %e = tensor.empty() : tensor<{C}x{s}>
  %i = linalg.fill ins(%zero : {s}) outs(%e : tensor<{C}x{s}>) -> tensor<{C}x{s}>
  %p = linalg.{op} ins(%A, %B : tensor<{A}x{t}>, tensor<{B}x{t}>) outs(%i : tensor<{C}x{s}>) -> tensor<{C}x{s}>
  {tail}
}}
"""
PLAIN_TAIL = "func.return %p : tensor<{C}x{s}>"
RELU_TAIL = """%o = tensor.empty() : tensor<{C}x{t}>
  %r = linalg.generic {{indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}} ins(%p, %bias : tensor<{C}x{s}>, tensor<{N}x{t}>) outs(%o : tensor<{C}x{t}>) {{
  ^bb0(%x: {s}, %b: {t}, %old: {t}):
    %w = arith.extf %b : {t} to {s}
    %y = arith.addf %x, %w : {s}
    %m = arith.maximumf %y, %zero : {s}
    %h = arith.truncf %m : {s} to {t}
    linalg.yield %h : {t}
  }} -> tensor<{C}x{t}>
  func.return %r : tensor<{C}x{t}>"""


def linear_mlir(op: str, m: int, n: int, k: int, element: str, relu: bool) -> str:
    """A linalg matmul as MLIR, with bias and relu behind it if `relu`."""
    lead = "4x" if op.startswith("batch") else ""
    a, b = f"{lead}{m}x{k}", f"{lead}{k}x{n}"
    if op.endswith("transpose_a"):
        a = f"{lead}{k}x{m}"
    if op.endswith("transpose_b"):
        b = f"{lead}{n}x{k}"
    wide = {"f16": "f32", "bf16": "f32", "i8": "i32"}.get(element, element)
    names = {"A": a, "B": b, "C": f"{lead}{m}x{n}", "N": n, "t": element, "s": wide, "op": op, "d": ""}
    names["zero"] = "0" if wide.startswith("i") else "0.0"
    text = LINEAR.format(**names, tail=(RELU_TAIL if relu else PLAIN_TAIL).format(**names))
    return text if relu else text.replace(f"-> tensor<{names['C']}x{element}> {{", f"-> tensor<{names['C']}x{wide}> {{")


#: (operation, M, N, K, elements, relu, --config)
DESCRIBED_MATMULS = [
    ("matmul", 4096, 4096, 4096, "f16", False, ""), ("matmul", 4096, 4096, 4096, "bf16", True, ""),
    ("matmul", 512, 512, 512, "f32", False, ""), ("matmul", 333, 4096, 11008, "f16", False, ""),
    ("matmul", 1, 4096, 4096, "f16", False, ""), ("matmul", 16, 4096, 4096, "bf16", False, ""),
    ("matmul", 8192, 1, 4096, "f16", False, ""), ("matmul", 100, 77, 53, "f16", True, ""),
    ("matmul", 2048, 2048, 2048, "i8", False, ""), ("matmul_transpose_a", 1024, 1024, 1024, "f32", False, ""),
    ("matmul_transpose_b", 1024, 4096, 4096, "f16", True, ""), ("matmul_transpose_a", 1024, 1024, 1024, "f16", False, ""),
    ("batch_matmul", 256, 256, 128, "f16", False, ""), ("batch_matmul_transpose_b", 512, 512, 64, "bf16", False, ""),
    ("matmul", 128, 128, 16384, "f16", False, "split_k=4"), ("matmul", 1024, 1024, 1024, "f16", False, "persistent=true"),
    ("matmul", 256, 256, 256, "f64", False, ""), ("matmul", 512, 512, 512, "f32", False, "form=listing1"),
]  # fmt: skip


def command_line(arguments: list[str]) -> str:
    """What `tilewright ARGUMENTS` prints."""
    from tilewright.cli.main import main

    said, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        status = main(arguments)
    if status:
        raise RuntimeError(f"tilewright {arguments[0]}: {told.getvalue().strip()}")
    return said.getvalue()


def shown(arguments: list[str], target: str) -> Texts:
    """Code that a command prints, and the plans that it writes with --compile."""
    stage = "asm" if target.startswith("cpu") else "ptx"
    with tempfile.TemporaryDirectory() as folder:
        place = [f"--compile={folder}/kernel.o", "--asm", stage]
        text = command_line([*arguments, *place])
        plans = [file.read_text() for file in sorted(Path(folder).glob("*.json"))]
    return {stage: text, "plan": "\n".join(plans)}


def compile_described(text: str, config: str, target: str) -> Texts:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "described.mlir"
        file.write_text(text)
        more = ["--config", config] if config else []
        return shown(["generate", str(file), "--target", target, *more], target)


def compile_tile_program(path: Path, target: str) -> Texts:
    """IR that the front end could have made, in the syntax of its checkout."""
    header = {"stage": "input", "target": target, "options": {}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{path.stem}.mlir"
        file.write_text(f"// tilewright: {json.dumps(header)}\n{path.read_text()}")
        return shown(["show", str(file)], target)


# ---- all of it --------------------------------------------------------------------------------------


def corpus(root: Path) -> Iterator[Entry]:
    """Every entry in a fixed order."""
    for path, name, signature, options in KERNELS:
        short = ",".join(v for part in signature.split(",") if (v := part.partition("=")[2]) != "i32:16")
        label = f"{Path(path).stem}.{name} {short} {options}".strip()
        for target in TARGETS:
            compile_ = functools.partial(compile_kernel, path, name, signature, options)
            yield Entry(label, target, compile_)
    seen: set[str] = set()
    for name in case_names():
        kernel = name.split()[0]
        first = kernel not in seen
        seen.add(kernel)
        for target in TARGETS:
            wanted = first and (target == CPU or kernel in FEW_TILES)
            yield Entry(f"large_tiles.{name}", target, functools.partial(compile_case, name), not wanted)
    for op, m, n, k, element, relu, config in DESCRIBED_MATMULS:
        text = linear_mlir(op, m, n, k, element, relu)
        label = f"generate.{op} {m}x{n}x{k} {element}{' relu' if relu else ''} {config}".strip()
        for target in TARGETS:
            yield Entry(label, target, functools.partial(compile_described, text, config))
    for path in sorted((root / "tests/passes/programs").glob("*.tile")):
        for target in TARGETS:
            yield Entry(f"programs.{path.stem}", target, functools.partial(compile_tile_program, path))


#: large tiles that GPUs get without --full
FEW_TILES = (
    "cross_entropy", "group_norm", "rms_norm_rows", "layer_norm_backward", "softmax", "softmax_tiles",
    "transpose", "cumulative", "count_with_atomics", "linear_recurrence",
)  # fmt: skip


def case_names() -> list[str]:
    try:
        return [case.name for case in module_at("tests/large_tiles.py").CASES]
    except Exception as error:
        print(f"tests/large_tiles.py: {error}", file=sys.stderr)
        return []


def chosen(root: Path, only: str, full: bool) -> list[Entry]:
    """The entries whose labels contain or match `only`."""
    entries = [e for e in corpus(root) if full or only or not e.full]
    return [e for e in entries if not only or only in e.label or fnmatch.fnmatch(e.label, only)]


def compiled(entry: Entry) -> Texts:
    """The texts of an entry, or {"error": …}."""
    try:
        return entry.compile(entry.target)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    import tilewright

    source = Path(tilewright.__file__).resolve()
    if not source.is_relative_to(given.root.resolve()):
        raise SystemExit(f"imported {source}, which is not below {given.root}")
    os.environ["TILEWRIGHT_ALWAYS_COMPILE"] = "1"
    os.environ["TILEWRIGHT_PTXAS"] = "none"
    entries = chosen(given.root, given.only, given.full)
    found = {}
    for i, entry in enumerate(entries):
        found[entry.label] = compiled(entry)
        if sys.stderr.isatty():
            print(f"\r{i + 1}/{len(entries)}", end="", file=sys.stderr)
    given.out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
