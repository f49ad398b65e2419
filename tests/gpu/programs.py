"""Kernels that between them use every form of code generation, ready to launch: for the tests of
determinism and of several devices, and for compute-sanitizer (`sanitize.py`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import tilewright as tw
import tilewright.language as tl
from tilewright.backends.base import Options

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Program:
    """A launch that can be repeated. It reads what it does not write, unless `again` prepares it.

    `ptx` is what its code must hold to be of the form that it stands for; `exact` says that every
    launch gives the same bits.
    """

    name: str
    launch: Callable[[], Any]
    outputs: list[torch.Tensor]
    again: Callable[[], Any] = lambda: None
    ptx: tuple[str, ...] = ()
    exact: bool = True

    def run(self) -> None:
        """Prepare and launch once."""
        self.again()
        for form in self.ptx:
            code = self.launch().asm["ptx"]
            if form not in code:
                raise AssertionError(f"{self.name} is meant to use {form} and does not")
            self.again()
        self.launch()


def seed(name: str) -> Any:
    """One of the documents' programs, as a module."""
    from tilewright.integrations import triton as drop_in

    path = ROOT / "examples" / "seeds_loader.py"
    spec = importlib.util.spec_from_file_location("gpu_seeds_loader", path)
    loader: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(loader)  # type: ignore[union-attr]
    module = loader.load(name)
    drop_in.uninstall()
    return module


# ---- kernels ---------------------------------------------------------------------------------------


@tw.jit
def reductions(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * M * N + rows[:, None] * N + columns[None, :])
    at = out_ptr + tl.program_id(0) * 4 * (M + N)
    tl.store(at + rows, tl.sum(x, 1))
    tl.store(at + M + rows, tl.max(x, 1))
    tl.store(at + 2 * M + rows, tl.argmin(x, 1).to(tl.float32))
    tl.store(at + 3 * M + rows, tl.reduce(x * 0.5, 1, largest))
    at += 4 * M
    tl.store(at + columns, tl.sum(x, 0))
    tl.store(at + N + columns, tl.min(x, 0))
    tl.store(at + 2 * N + columns, tl.argmax(x, 0).to(tl.float32))
    tl.store(at + 3 * N + columns, tl.sum(tl.sum(x, 0), 0) + columns)


@tw.jit
def largest(a, b):
    return tl.where(tl.abs(a) > tl.abs(b), a, b)


@tw.jit
def decay(a, b):
    return a * 0.5 + b


@tw.jit
def scans(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    at = rows[:, None] * N + columns[None, :]
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, tl.cumsum(x, 1))
    tl.store(out_ptr + M * N + at, tl.cumsum(x, 0, reverse=True))
    tl.store(out_ptr + 2 * M * N + at, tl.associative_scan(x, 1, decay))
    tl.store(out_ptr + 3 * M * N + at, tl.sort(x, 1))


@tw.jit
def exchanges(x_ptr, index_ptr, out_ptr, bins_ptr, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    at = rows[:, None] * N + columns[None, :]
    x = tl.load(x_ptr + at)
    index = tl.load(index_ptr + at)
    tl.store(out_ptr + columns[:, None] * M + rows[None, :], tl.trans(x))
    tl.store(out_ptr + M * N + at, tl.gather(x, index, 1))
    tl.store(out_ptr + 2 * M * N + tl.arange(0, M * N), tl.reshape(tl.trans(x), [M * N]))
    tl.store(out_ptr + 3 * M * N + at, tl.flip(x, 1))
    tl.store(bins_ptr + tl.arange(0, N), tl.histogram(tl.reshape(index, [M * N]), N))


@tw.jit
def integer_atomics(counts_ptr, x_ptr, lock_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(counts_ptr + x, 1)
    tl.atomic_max(counts_ptr + 64 + x, tl.program_id(0))
    tl.atomic_xor(counts_ptr + 128 + x, 1 << (tl.program_id(0) % 31))
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(counts_ptr + 192, tl.load(counts_ptr + 192) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@tw.jit
def float_atomics(sums_ptr, x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(sums_ptr + tl.arange(0, BLOCK) % 64, x)


@tw.jit
def matmul(
    a, b, c, M, N, K, am, ak, bk, bn, cm, cn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ACC: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), ACC)
    for k in range(0, K, BK):
        x = tl.load(a + rows[:, None] * am + (k + ks)[None, :] * ak,
                    mask=(rows < M)[:, None] & (k + ks < K)[None, :], other=0)  # fmt: skip
        y = tl.load(b + (k + ks)[:, None] * bk + columns[None, :] * bn,
                    mask=(k + ks < K)[:, None] & (columns < N)[None, :], other=0)  # fmt: skip
        acc = tl.dot(x, y, acc, input_precision=PRECISION)
    at = c + rows[:, None] * cm + columns[None, :] * cn
    tl.store(at, acc.to(c.dtype.element_ty), mask=(rows < M)[:, None] & (columns < N)[None, :])


# ---- launches --------------------------------------------------------------------------------------


_TEXTS = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
    torch.int8: "i8", torch.int32: "i32", torch.float8_e4m3fn: "fp8e4nv",
}  # fmt: skip


def _matrix(shape: tuple[int, int], dtype: torch.dtype, device: str) -> torch.Tensor:
    if dtype is torch.int8:
        return torch.randint(-9, 9, shape, device=device, dtype=dtype)
    return torch.randn(shape, device=device).to(dtype)


def product(
    name: str,
    device: str,
    dtype: torch.dtype = torch.float16,
    shape: tuple[int, int, int] = (256, 256, 256),
    blocks: tuple[int, int, int] = (128, 128, 64),
    order: str = "nn",
    target: str | None = None,
    precision: str = "tf32",
    ptx: tuple[str, ...] = (),
    **options: Any,
) -> Program:
    """A matmul compiled in one of its forms: by dtype, blocks, operands' order, target, passes off."""
    m, n, k = shape
    a, b = _matrix((m, k), dtype, device), _matrix((k, n), dtype, device)
    a = a.t().contiguous().t() if order[0] == "t" else a
    b = b.t().contiguous().t() if order[1] == "t" else b
    wide = dtype in (torch.float64, torch.int8, torch.float32)
    out = {torch.int8: torch.int32}.get(dtype, dtype) if wide else torch.float16
    c = torch.zeros((m, n), device=device, dtype=out)
    acc = {torch.float64: tl.float64, torch.int8: tl.int32}.get(dtype, tl.float32)
    numbers = {
        "M": m, "N": n, "K": k, "am": a.stride(0), "ak": a.stride(1), "bk": b.stride(0),
        "bn": b.stride(1), "cm": c.stride(0), "cn": c.stride(1),
    }  # fmt: skip
    signature: dict[str, Any] = {
        x: f"*{_TEXTS[t.dtype]}:16" for x, t in zip("abc", (a, b, c), strict=True)
    }
    ones = {x: 1 for x, v in numbers.items() if v == 1}
    signature |= {x: "i32:16" if v % 16 == 0 else "i32" for x, v in numbers.items() if v != 1}
    constants = dict(zip(("BM", "BN", "BK"), blocks, strict=True)) | ones
    from tilewright.runtime.drivers.cuda import driver

    compiled = matmul.compile(
        signature,
        {**constants, "ACC": acc, "PRECISION": precision},
        target=target or driver().device(torch.device(device).index or 0).target.name,
        options=Options(**options),
    )
    grid = (tw.cdiv(m, blocks[0]), tw.cdiv(n, blocks[1]))
    values = [a, b, c, *[v for v in numbers.values() if v != 1]]

    def launch() -> Any:
        compiled[grid](*values)
        return compiled

    return Program(f"matmul {name}", launch, [c], ptx=ptx)


def products(device: str) -> list[Program]:
    """Matmuls by the way their operands come and the instruction that multiplies."""
    from tilewright.runtime.drivers.cuda import driver

    hopper = driver().device(torch.device(device).index or 0).capability[0] == 9
    made = [
        product("mma.sync", device, target="sm_80", ptx=("mma.sync",)),
        product("mma.sync odd", device, shape=(97, 65, 51), blocks=(32, 32, 32), target="sm_80"),
        product("multiply-add", device, dtype=torch.float32, blocks=(32, 32, 32), precision="ieee"),
        product("tf32", device, dtype=torch.float32, blocks=(64, 64, 32)),
        product("fp64", device, dtype=torch.float64, blocks=(32, 32, 16)),
        product("int8", device, dtype=torch.int8, blocks=(64, 64, 64)),
        product("fp8", device, dtype=torch.float8_e4m3fn, blocks=(64, 64, 64)),
        product("bf16 small", device, dtype=torch.bfloat16, blocks=(16, 16, 16), num_warps=1),
    ]
    if not hopper:
        return made
    box = ("wgmma.mma_async", "cp.async.bulk.tensor")
    orders = ("nn", "nt", "tn", "tt")
    made += [product(f"wgmma, boxes, {o}", device, order=o, ptx=box) for o in orders]
    made += [
        product("wgmma, boxes, 8 warps", device, num_warps=8, num_stages=4, ptx=box),
        product("wgmma, boxes, long", device, shape=(128, 128, 1024), blocks=(64, 64, 64), ptx=box),
        product("wgmma, boxes, edges", device, shape=(208, 176, 144), ptx=box),
        product("wgmma, cp.async", device, disable=("pipeline-loads",),
                ptx=("wgmma.mma_async", "cp.async.")),
        product("wgmma, through registers", device, shape=(257, 129, 65),
                ptx=("wgmma.mma_async",)),
        product("without promote-shared", device, disable=("promote-shared",), ptx=("mma.sync",)),
        product("without barriers placed", device, disable=("insert-barriers",)),
        product("two blocks a program", device, num_ctas=2, ptx=("barrier.cluster",)),
    ]  # fmt: skip
    return made


def documents(device: str) -> list[Program]:
    """The example kernels (`examples/seeds`)."""
    made = []
    softmax = seed("softmax")
    for dtype, n in ((torch.float32, 1000), (torch.bfloat16, 4096)):
        x = torch.randn(5, n, device=device).to(dtype)
        for form in ("fuse", "tile", "online"):
            y = torch.zeros_like(x)
            kernel = getattr(softmax, f"kernel_softmax_{form}")
            more = {} if form == "fuse" else {"CACHE_OPT": True}
            block = tw.next_power_of_2(n) if form == "fuse" else 256

            def launch(kernel=kernel, x=x, y=y, n=n, block=block, more=more) -> Any:
                return kernel[(5,)](x, n, y, n, n, BLOCK_SIZE=block, num_warps=8, **more)

            made.append(Program(f"softmax {form} {_TEXTS[dtype]}", launch, [y]))
    add = seed("vector_add")
    x, y = (torch.randn(5000, device=device) for _ in range(2))
    out = torch.zeros_like(x)
    made.append(
        Program(
            "add", lambda: add.add_kernel_one_block[(5,)](x, y, out, 5000, BLOCK_SIZE=1024), [out]
        )
    )
    several = torch.zeros_like(x)
    made.append(
        Program(
            "add, several blocks",
            lambda: add.add_kernel_several_blocks[(2,)](x, y, several, 5000, 3, BLOCK_SIZE=1024),
            [several],
        )
    )
    made += [_rope(device), _blocked(device), _tutorial(device)]
    return made


def _rope(device: str) -> Program:
    rows, heads, dim = 33, 6, 128
    given = torch.randn(rows, heads * dim, device=device).bfloat16()
    q = given.clone()
    angles = torch.randn(16, dim, device=device)
    kernel = seed("rope")._rope_embedding

    def launch() -> Any:
        return kernel[(rows, 2)](
            q, heads * dim, angles, dim, angles, dim, 16, head_dim=dim, n_heads=heads,
            BLOCK_SIZE=64, num_warps=4,
        )  # fmt: skip

    return Program("rope", launch, [q], again=lambda: q.copy_(given))


def _blocked(device: str) -> Program:
    a, b = torch.randn(97, 70, device=device), torch.randn(70, 129, device=device)
    c = torch.zeros(97, 129, device=device)
    kernel = seed("blocked_matmul").matmul_kernel
    return Program(
        "blocked matmul",
        lambda: kernel[(4, 5)](a, b, c, 97, 129, 70, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32),
        [c],
    )


def _tutorial(device: str) -> Program:
    m, n, k = 320, 192, 128
    a, b = torch.randn(m, k, device=device).half(), torch.randn(k, n, device=device).half()
    c = torch.zeros(m, n, device=device, dtype=torch.float16)
    kernel = seed("tutorial_matmul").matmul_kernel
    while type(kernel).__name__ != "JITFunction":
        kernel = kernel.fn
    return Program(
        "tutorial matmul",
        lambda: kernel[(3 * 2,)](
            a,
            b,
            c,
            m,
            n,
            k,
            *a.stride(),
            *b.stride(),
            *c.stride(),
            BLOCK_SIZE_M=128,
            BLOCK_SIZE_N=128,
            BLOCK_SIZE_K=64,
            EVEN_K=True,
            GROUP_SIZE_M=8,
            ACTIVATION="leaky_relu",
            num_warps=4,
            num_stages=3,
        ),
        [c],
    )


def others(device: str) -> list[Program]:
    """Reductions, scans, exchanges and atomics, in one block and in two."""
    made = []
    for options in ({"num_warps": 4}, {"num_warps": 2, "num_ctas": 2}):
        suffix = " (num_ctas=2)" if "num_ctas" in options else ""
        x = torch.randn(4, 32, 128, device=device)
        out = torch.zeros(4, 4 * (32 + 128), device=device)
        made.append(
            Program(
                "reductions" + suffix,
                lambda x=x, out=out, o=options: reductions[(4,)](x, out, M=32, N=128, **o),
                [out],
            )
        )
        scanned = torch.zeros(4, 32, 128, device=device)
        made.append(
            Program(
                "scans" + suffix,
                lambda x=x, out=scanned, o=options: scans[(1,)](x, out, M=32, N=128, **o),
                [scanned],
            )
        )
        index = torch.randint(0, 128, (32, 128), device=device, dtype=torch.int32)
        moved = torch.zeros(4, 32, 128, device=device)
        bins = torch.zeros(128, device=device, dtype=torch.int32)
        made.append(
            Program(
                "exchanges" + suffix,
                lambda x=x, i=index, out=moved, bins=bins, o=options: exchanges[(1,)](
                    x, i, out, bins, M=32, N=128, **o
                ),
                [moved, bins],
            )
        )
        picks = torch.randint(0, 64, (40, 256), device=device, dtype=torch.int32)
        counts = torch.zeros(200, device=device, dtype=torch.int32)
        lock = torch.zeros(1, device=device, dtype=torch.int32)
        made.append(
            Program(
                "integer atomics" + suffix,
                lambda c=counts, p=picks, k=lock, o=options: integer_atomics[(40,)](
                    c, p, k, BLOCK=256, **o
                ),
                [counts],
                again=counts.zero_,
            )
        )
        sums, values = torch.zeros(64, device=device), torch.randn(40, 256, device=device)
        made.append(
            Program(
                "float atomics" + suffix,
                lambda s=sums, v=values, o=options: float_atomics[(40,)](s, v, BLOCK=256, **o),
                [sums],
                again=sums.zero_,
                exact=False,
            )
        )
    return made  # fmt: skip


def described(device: str) -> list[Program]:
    """Products that the generator makes: groups of warps with roles, blocks that are no powers of two."""
    made = []
    for dtype, shape, steps in (
        (torch.float16, (384, 384, 512), ["gelu"]),
        (torch.bfloat16, (520, 200, 96), []),
        (torch.float32, (130, 70, 90), []),
    ):
        m, n, k = shape
        a, b = _matrix((m, k), dtype, device), _matrix((k, n), dtype, device)
        out = torch.zeros(m, n, device=device, dtype=dtype)
        name = f"described matmul {_TEXTS[dtype]}"

        def launch(a: Any = a, b: Any = b, out: Any = out, steps: Any = steps) -> Any:
            return tw.matmul(a, b, out, epilogue=steps)

        made.append(Program(name, launch, [out]))
    return made


def programs(device: str = "cuda:0") -> list[Program]:
    """All of them, with arrays on a device."""
    torch.manual_seed(0)
    return [*documents(device), *others(device), *products(device), *described(device)]
