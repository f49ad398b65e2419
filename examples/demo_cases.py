"""The cases of the demo: every kernel of the seed documents, its inputs, its reference, its peers."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import seeds_loader


@dataclass
class Row:
    """One line of the table. Times in milliseconds; `rate` in GB/s or GFLOP/s as `unit` says."""

    kernel: str
    shape: str
    dtype: str
    error: float
    tolerance: float
    ours_ms: float
    rate: float
    unit: str
    numpy_ms: float | None = None
    torch_ms: float | None = None
    note: str = ""

    @property
    def passed(self) -> bool:
        return bool(self.error <= self.tolerance)

    @property
    def ratio(self) -> float | None:
        """Time of torch (NumPy without torch) over ours: above 1 is faster."""
        peer = self.torch_ms or self.numpy_ms
        return peer / self.ours_ms if peer else None


@dataclass
class Case:
    """One kernel at one shape. `launch` runs it into arrays that `result` reads."""

    kernel: str
    shape: str
    dtype: str
    launch: Callable[[], Any]
    result: Callable[[], np.ndarray]
    reference: Callable[[], np.ndarray]
    tolerance: float
    work: float
    unit: str
    numpy: Callable[[], Any] | None = None
    torch: Callable[[], Any] | None = None
    reset: Callable[[], Any] = field(default=lambda: None)
    note: Callable[[], str] = field(default=lambda: "")

    def run(self, quick: bool) -> Row:
        from tilewright.testing import do_bench

        self.reset()
        self.launch()
        want = self.reference()
        got = np.asarray(self.result(), dtype=np.float64)
        scale = max(1.0, float(np.abs(want).max()))
        error = float(np.abs(got - want).max()) / scale
        warmup, rep = (2, 10) if quick else (25, 100)

        def time(fn: Callable[[], Any] | None) -> float | None:
            if fn is None:
                return None
            return float(do_bench(fn, warmup=warmup, rep=rep, return_mode="median"))

        ours = time(self.launch)
        assert ours is not None
        return Row(
            self.kernel, self.shape, self.dtype, error, self.tolerance, ours,
            self.work / ours * 1e-6, self.unit, time(self.numpy), time(self.torch), self.note(),
        )  # fmt: skip


def _torch() -> Any:
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else None


def all_cases(quick: bool) -> Iterator[Case]:
    """Every case, smallest kernels first."""
    yield from _adds(quick)
    yield from _softmaxes(quick)
    yield from _ropes(quick)
    yield from _matmuls(quick)


def _adds(quick: bool) -> Iterator[Case]:
    program = seeds_loader.load("vector_add", stand_in=True)
    rng = np.random.default_rng(0)
    torch = _torch()
    for n in (98432, 1 << (16 if quick else 24)):
        x, y = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
        out, peer = np.empty_like(x), np.empty_like(x)

        def one_block(x=x, y=y, out=out, n=n):
            grid = lambda meta: (-(-n // meta["BLOCK_SIZE"]),)  # noqa: E731
            program.add_kernel_one_block[grid](x, y, out, n, BLOCK_SIZE=1024)

        def several(x=x, y=y, out=out, n=n):
            program.add_kernel_several_blocks[(-(-n // 4096),)](x, y, out, n, 4, BLOCK_SIZE=1024)

        for name, launch in (
            ("add, one block a program", one_block),
            ("add, 4 blocks a program", several),
        ):
            yield Case(
                name, f"{n}", "fp32", launch, lambda out=out: out,
                lambda x=x, y=y: x.astype(np.float64) + y, 1e-6, 12.0 * n, "GB/s",
                numpy=lambda x=x, y=y, p=peer: np.add(x, y, out=p),
                torch=_add_torch(torch, x, y), reset=lambda out=out: out.fill(0),
            )  # fmt: skip


def _add_torch(torch: Any, x: np.ndarray, y: np.ndarray) -> Callable[[], Any] | None:
    if torch is None:
        return None
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    out = torch.empty_like(a)
    return lambda: torch.add(a, b, out=out)


def _softmaxes(quick: bool) -> Iterator[Case]:
    program = seeds_loader.load("softmax", stand_in=True)
    rng = np.random.default_rng(1)
    torch = _torch()
    rows = 64 if quick else 1024
    for n in (781, 4096) if quick else (781, 4096, 32768):
        x = rng.standard_normal((rows, n), dtype=np.float32)
        out = np.empty_like(x)
        block = 1 << (n - 1).bit_length()

        def fused(x=x, out=out, n=n, block=block):
            program.kernel_softmax_fuse[[len(x)]](x, n, out, n, n, BLOCK_SIZE=block, num_warps=32)

        def tiled(cache, x=x, out=out, n=n):
            program.kernel_softmax_tile[[len(x)]](
                x, n, out, n, n, BLOCK_SIZE=2**14, CACHE_OPT=cache, num_warps=32
            )

        def online(cache, x=x, out=out, n=n):
            program.kernel_softmax_online[[len(x)]](
                x, n, out, n, n, BLOCK_SIZE=2**12, CACHE_OPT=cache, num_warps=32
            )

        kinds = {
            "softmax, fused": fused,
            "softmax, tiled": lambda t=tiled: t(False),
            "softmax, tiled, CACHE_OPT": lambda t=tiled: t(True),
            "softmax, online": lambda o=online: o(False),
            "softmax, online, CACHE_OPT": lambda o=online: o(True),
        }
        numpy_out = np.empty_like(x)

        def numpy_softmax(x=x, out=numpy_out):
            np.subtract(x, x.max(axis=1, keepdims=True), out=out)
            np.exp(out, out=out)
            np.divide(out, out.sum(axis=1, keepdims=True), out=out)

        def reference(x=x):
            e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
            return e / e.sum(axis=1, keepdims=True)

        peer = None
        if torch is not None:
            a = torch.from_numpy(x)
            b = torch.empty_like(a)
            peer = lambda a=a, b=b: torch.softmax(a, 1, out=b)  # noqa: E731
        for name, launch in kinds.items():
            yield Case(
                name, f"{rows} x {n}", "fp32", launch, lambda out=out: out, reference, 2e-6,
                8.0 * rows * n, "GB/s", numpy=numpy_softmax, torch=peer,
                reset=lambda out=out: out.fill(0),
            )  # fmt: skip


def _ropes(quick: bool) -> Iterator[Case]:
    import ml_dtypes

    program = seeds_loader.load("rope", stand_in=True)
    rng = np.random.default_rng(2)
    tokens, heads, dim, length = (64 if quick else 4096), 32, 128, (32 if quick else 2048)
    angle = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, dim, 2) / dim))
    torch = _torch()
    for kind, label, tolerance in ((np.float32, "fp32", 1e-6), (ml_dtypes.bfloat16, "bf16", 1e-2)):
        start = rng.standard_normal((tokens, heads, dim), dtype=np.float32).astype(kind)
        q = start.copy()
        cos, sin = (np.concatenate([f(angle)] * 2, axis=1).astype(kind) for f in (np.cos, np.sin))

        def launch(q=q, cos=cos, sin=sin):
            program._rope_embedding[program.rope_grid(tokens, heads)](
                q, q.strides[0] // q.itemsize, cos, cos.strides[0] // cos.itemsize,
                sin, sin.strides[0] // sin.itemsize, length,
                head_dim=dim, n_heads=heads, BLOCK_SIZE=dim // 2,
            )  # fmt: skip

        def reference(start=start, cos=cos, sin=sin):
            x = start.astype(np.float64)
            c = cos.astype(np.float64)[np.arange(tokens) % length][:, None, : dim // 2]
            s = sin.astype(np.float64)[np.arange(tokens) % length][:, None, : dim // 2]
            a, b = x[..., : dim // 2], x[..., dim // 2 :]
            return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)

        def numpy_rope(start=start, cos=cos, sin=sin):
            c = cos[np.arange(tokens) % length][:, None]
            s = sin[np.arange(tokens) % length][:, None]
            half = np.concatenate([-start[..., dim // 2 :], start[..., : dim // 2]], axis=-1)
            return start * c + half * s

        yield Case(
            "RoPE, in place", f"{tokens} x {heads} x {dim}", label, launch, lambda q=q: q,
            reference, tolerance, 2.0 * start.nbytes, "GB/s",
            numpy=numpy_rope if label == "fp32" else None,
            torch=_rope_torch(torch, start, cos, sin, tokens, length),
            reset=lambda q=q, s=start: np.copyto(q, s),
        )  # fmt: skip


def _rope_torch(torch: Any, start: Any, cos: Any, sin: Any, tokens: int, length: int) -> Any:
    if torch is None:
        return None
    kind = torch.float32 if start.dtype == np.float32 else torch.bfloat16
    q, c, s = (torch.from_numpy(a.astype(np.float32)).to(kind) for a in (start, cos, sin))
    c, s = (t.repeat(tokens // length, 1)[:, None] for t in (c, s))

    def eager() -> Any:
        half = q.shape[-1] // 2
        return q * c + torch.cat((-q[..., half:], q[..., :half]), dim=-1) * s

    return eager


def _matmuls(quick: bool) -> Iterator[Case]:
    blocked = seeds_loader.load("blocked_matmul", stand_in=True)
    rng = np.random.default_rng(3)
    torch = _torch()
    m, n, k = (100, 70, 50) if quick else (1000, 777, 515)
    a, b = (
        rng.standard_normal((m, k), dtype=np.float32),
        rng.standard_normal((k, n), dtype=np.float32),
    )
    c = np.empty((m, n), np.float32)

    def launch_blocked():
        blocked.matmul_kernel[(-(-m // 64), -(-n // 64), 1)](
            a, b, c, m, n, k, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32
        )

    yield Case(
        "matmul, blocked, masks", f"{m} x {n} x {k}", "fp32", launch_blocked, lambda: c,
        lambda: a.astype(np.float64) @ b, 1e-5, 2.0 * m * n * k, "GFLOP/s",
        numpy=lambda: np.matmul(a, b), torch=_mm_torch(torch, a, b),
    )  # fmt: skip
    size = 128 if quick else 1024
    for hip in (None, "6.0"):
        program = seeds_loader.load("tutorial_matmul", hip=hip, stand_in=True)
        for activation in ("", "leaky_relu"):
            yield _tutorial_case(program, hip, activation, size, rng, torch)


def _tutorial_case(
    program: Any, hip: Any, activation: str, size: int, rng: Any, torch: Any
) -> Case:
    a, b = (
        seeds_loader._tensor(rng.standard_normal((size, size), dtype=np.float32).astype(np.float16))
        for _ in range(2)
    )
    held: list[Any] = [None]

    def launch():
        held[0] = program.matmul(a, b, activation=activation)

    def reference():
        r = a.astype(np.float64) @ b.astype(np.float64)
        if activation:
            r = np.where(r + 1 >= 0, r + 1, 0.01 * (r + 1))
        return r

    name = f"matmul, tutorial, {'ROCm' if hip else 'CUDA'} configs{', leaky_relu' if activation else ''}"
    return Case(
        name, f"{size} x {size} x {size}", "fp16", launch, lambda: held[0], reference, 2e-3,
        2.0 * size**3, "GFLOP/s", torch=_mm_torch(torch, np.asarray(a), np.asarray(b)),
        note=lambda: f"best: {program.matmul_kernel.get_best_config(size, size, size)}",
    )  # fmt: skip


def _mm_torch(torch: Any, a: np.ndarray, b: np.ndarray) -> Callable[[], Any] | None:
    if torch is None:
        return None
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty((x.shape[0], y.shape[1]), dtype=x.dtype)
    return lambda: torch.mm(x, y, out=out)
