"""The matrix products of the speed table: the seeds' two kernels against `torch.mm(out=)`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import protocol
from protocol import Call, Point, Row

if TYPE_CHECKING:
    from cpu_kernels import Settings

SEEDS_CONFIG = (128, 128, 32)
#: tile sizes in the seeds' lists, and larger ones for a CPU, whose programs keep tiles in L2
CONFIGS = {
    "float32": [SEEDS_CONFIG, (128, 256, 64), (256, 256, 64), (256, 256, 128)],
    "float16": [SEEDS_CONFIG, (128, 256, 64), (256, 256, 64), (256, 256, 128)],
    "bfloat16": [SEEDS_CONFIG, (128, 256, 64), (256, 256, 64), (256, 256, 128)],
    "int8": [SEEDS_CONFIG, (128, 128, 128), (256, 256, 64), (256, 256, 128)],
}
#: a peer that would need longer a call than this is left out
TOO_SLOW_SECONDS = 10.0
AMX = "amx-tile,amx-bf16,amx-int8,amx-fp16"
TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2, "int8": 0.0}


def sizes(s: Settings) -> list[int]:
    return s.pick([512, 1024, 2048, 4096], [512, 1024])


class Product:
    """One product `a @ b`: the launches of the seeds' kernels for it, and torch's call."""

    def __init__(self, s: Settings, n: int, dtype: str) -> None:
        import seeds_loader

        self.s, self.n, self.dtype = s, n, dtype
        self.a, self.b = (s.array(n, n, dtype=dtype) for _ in range(2))
        out = "int32" if dtype == "int8" else dtype
        self.c = s.array(n, n, dtype=out, random=False)
        self.blocked = seeds_loader.load("blocked_matmul").matmul_kernel
        self.grouped = seeds_loader.load("tutorial_matmul").matmul_kernel.fn

    def launches(self, configs: list[tuple[int, int, int]]) -> dict[str, Call]:
        """Both kernels at every tile size (the grouped one casts to fp16: not for int8)."""
        found = {}
        for config in configs:
            label = "x".join(map(str, config))
            found[f"blocked {label}"] = self._blocked(*config)
            if self.dtype != "int8":
                found[f"grouped {label}"] = self._grouped(*config)
        return found

    def _blocked(self, m: int, n: int, k: int) -> Call:
        size, a, b, c = self.n, self.a, self.b, self.c
        grid = (-(-size // m), -(-size // n), 1)
        return lambda: self.blocked[grid](
            a, b, c, size, size, size, BLOCK_M=m, BLOCK_N=n, BLOCK_K=k
        )

    def _grouped(self, m: int, n: int, k: int) -> Call:
        size, a, b, c = self.n, self.a, self.b, self.c
        grid = (-(-size // m) * -(-size // n),)
        return lambda: self.grouped[grid](
            a, b, c, size, size, size, size, 1, size, 1, size, 1,
            BLOCK_SIZE_M=m, BLOCK_SIZE_N=n, BLOCK_SIZE_K=k, GROUP_SIZE_M=8, ACTIVATION="",
        )  # fmt: skip

    @property
    def peer(self) -> Call | None:
        torch = self.s.torch
        if torch is None:
            return None
        product = torch._int_mm if self.dtype == "int8" else torch.mm
        return lambda: product(self.a, self.b, out=self.c)

    def check(self, launches: dict[str, Call]) -> None:
        """Each launch against torch (grouped ones round to fp16 on the way)."""
        from cpu_kernels import verify

        for name, call in launches.items():
            loose = max(TOLERANCE[self.dtype], 2e-3 if name.startswith("grouped") else 0.0)
            verify(call, self.peer, self.c, loose, f"{name} {self.dtype} {self.n}")


def rated(point: Point, n: int) -> Point:
    """The point with its GFLOP/s in the note."""
    gf = 2e-3 * n**3 / point.ours_us
    theirs = f", peer {2e-3 * n**3 / point.peer_us:.0f}" if point.peer_us else ""
    point.note = f"{point.note} {gf:.0f} GFLOP/s{theirs}".strip()
    return point


def against_torch(
    s: Settings, dtype: str, row: Row, configs: list[Any], floor: float | None
) -> Row:
    from cpu_kernels import compared

    slowest = 0.0
    for n in sizes(s):
        product = Product(s, n, dtype)
        launches = product.launches(configs)
        too_slow = (
            slowest * 8 > TOO_SLOW_SECONDS
        )  # a product of twice the size does eight times the work
        peer = None if too_slow else product.peer
        product.check({} if too_slow else launches)
        point = rated(compared(str(n), launches, peer, floor=floor), n)
        slowest = (point.peer_us or 0) * 1e-6 if not too_slow else slowest * 8
        point.note += f", torch would need {slowest:.0f} s" if too_slow else ""
        if dtype == "float32":
            point.note += f", NumPy's OpenBLAS {openblas(product):.0f}"
        row.points.append(point)
    return row


def openblas(product: Product) -> float:
    """GFLOP/s of NumPy's own product, for MKL is slower on some CPUs than on others."""
    import numpy as np

    a, b, c = (np.asarray(v) for v in (product.a, product.b, product.c))
    return 2e-9 * product.n**3 / protocol.block(lambda: np.matmul(a, b, out=c))


def against_ours(s: Settings, dtype: str, other: str, row: Row) -> Row:
    """One type against another, both ours, both at their best tile size."""
    for n in sizes(s):
        calls = {}
        for kind in (dtype, other):
            product = Product(s, n, kind)
            launches = product.launches(CONFIGS[kind])
            product.check(launches)
            best = protocol.fastest(launches)
            calls[kind] = (best, launches[best])
        times = protocol.measure({kind: call for kind, (_, call) in calls.items()})
        mine, theirs = times[dtype] * 1e6, times[other] * 1e6
        row.points.append(
            rated(Point(str(n), mine, theirs, theirs / mine, note=calls[dtype][0]), n)
        )
    return row


def matmul_fp32(s: Settings) -> Iterator[Row]:
    yield against_torch(
        s, "float32", Row("matmul", "fp32 matmul, best configuration, against torch.mm(out=)", 0.85),
        CONFIGS["float32"], 0.65,
    )  # fmt: skip
    yield against_torch(
        s, "float32", Row("matmul-128x128x32", "fp32 matmul, the seeds' 128x128x32", 0.72),
        [SEEDS_CONFIG], 0.65,
    )  # fmt: skip


def has_amx() -> bool:
    from tilewright.backends.cpu.target import current_target

    return current_target().has("amx-tile")


def matmul_amx(s: Settings) -> Iterator[Row]:
    rows = [
        (Row("amx-bf16", "bf16 matmul with AMX against torch.mm(out=)", 0.75), "bfloat16"),
        (Row("amx-fp16", "fp16 matmul with AMX against torch.mm(out=)", 1.4), "float16"),
        (Row("amx-int8", "int8 matmul with AMX against our bf16, exact", 1.5), "int8"),
    ]
    for row, dtype in rows:
        if not has_amx():
            row.skipped = "no AMX on this machine"
        elif dtype == "int8":
            against_ours(s, dtype, "bfloat16", row)
        else:
            against_torch(s, dtype, row, [*CONFIGS[dtype], (256, 256, 256)], None)
        yield row


@contextmanager
def features_off(names: str) -> Iterator[None]:
    """Compile as if the CPU lacked these features."""
    before = os.environ.get("TILEWRIGHT_CPU_FEATURES_OFF")
    os.environ["TILEWRIGHT_CPU_FEATURES_OFF"] = names
    try:
        yield
    finally:
        del os.environ["TILEWRIGHT_CPU_FEATURES_OFF"]
        if before is not None:
            os.environ["TILEWRIGHT_CPU_FEATURES_OFF"] = before


def matmul_without_amx(s: Settings) -> Iterator[Row]:
    with features_off(AMX):
        row = Row("noamx-fp16", "fp16 matmul, AMX masked off, against torch.mm(out=)", 0.8)
        yield against_torch(s, "float16", row, CONFIGS["float16"], None)
        row = Row("noamx-bf16", "bf16 matmul, AMX masked off, against our fp32", 0.9)
        yield against_ours(s, "bfloat16", "float32", row)
        row = Row("noamx-int8", "int8 matmul, AMX masked off, against our fp32 (no target)", None)
        yield against_ours(s, "int8", "float32", row)


FAMILIES = {"matmul": matmul_fp32, "amx": matmul_amx, "noamx": matmul_without_amx}
