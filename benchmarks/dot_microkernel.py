"""A whole matrix product around the dot micro-kernels, as the compiler lays it out, against torch.mm.

Each program owns one BM × BN tile of C and runs the K loop `pack a, pack b, dot`; programs go in
grouped order (GROUP_M = 8), a contiguous range of them to each thread. What differs from the compiler
is only that the packing loops are written here by hand.

    python benchmarks/dot_microkernel.py                       the standard table
    python benchmarks/dot_microkernel.py --sizes 1024 --tiles 128x128x32 --variants plain,fetch

Threads are started through libgomp where torch has loaded it (as the CPU driver does), else through a
Python thread pool. Each side is timed in blocks of its own: two pools of threads that alternate fight.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np
from llvmlite import binding as llvm
from llvmlite import ir

from benchmarks.dot_probe import TARGETS, machine, runs_here
from tilewright.backends.base import TargetInfo
from tilewright.backends.cpu.lower.dot import emit_dot
from tilewright.backends.cpu.lower.dot_loops import (
    I64,
    POINTER,
    VOID,
    at,
    element_type,
    i64,
    load,
)
from tilewright.backends.cpu.target import request_amx
from tilewright.backends.llvm.blocks import counted_loop
from tilewright.passes.cpu.dot_plan import ELEMENT_BITS, BufferLayout, DotPlan, MicroTile, plan_dot

GROUP_M = 8
OUTPUT = {"f32": "f32", "bf16": "bf16", "f16": "f16", "i8": "i32", "f64": "f64"}


@dataclass(frozen=True)
class Variant:
    """How the product is laid out. `micro` forces (rows, vectors, unroll) of the register tile."""

    tile: tuple[int, int, int]
    fetch: bool = True
    keep_b: bool = False
    """Whether packed panels of b are kept for the next program of the same column block."""
    micro: tuple[int, int, int] | None = None


def forced(plan: DotPlan, micro: tuple[int, int, int]) -> DotPlan:
    """The plan with another register tile (vector kernels without interleaving only)."""
    rows, vectors, unroll = micro
    width = vectors * plan.micro.lanes
    return replace(
        plan,
        micro=MicroTile(rows, vectors, plan.micro.lanes, unroll),
        b_layout=BufferLayout.panel(plan.k, plan.n, width),
        acc_layout=BufferLayout.panel(plan.m, plan.n, width),
    )


def convert(b: ir.IRBuilder, value: ir.Value, source: str, wanted: str) -> ir.Value:
    """A vector of elements in another type."""
    if source == wanted:
        return value
    kind = ir.VectorType(element_type(wanted), value.type.count)
    if wanted == "f16":
        return b.fptrunc(value, kind)
    bits = ir.VectorType(ir.IntType(32), value.type.count)

    def constant(n: int) -> ir.Constant:
        return ir.Constant(bits, [n] * value.type.count)

    if source == "bf16":
        return b.bitcast(b.shl(b.zext(value, bits), constant(16)), kind)
    if wanted == "bf16":
        raw = b.bitcast(value, bits)
        odd = b.and_(b.lshr(raw, constant(16)), constant(1))
        return b.trunc(b.lshr(b.add(b.add(raw, constant(0x7FFF)), odd), constant(16)), kind)
    return b.fpext(value, kind) if source[0] == "f" else b.sext(value, kind)


class Product:
    """`c = a @ b`, compiled for one type, tile and target."""

    def __init__(self, dtype: str, variant: Variant, target: TargetInfo, size: int) -> None:
        started = time.perf_counter()
        self.variant, self.dtype, self.size = variant, dtype, size
        self.output = OUTPUT[dtype]
        acc = "i32" if dtype == "i8" else "f64" if dtype == "f64" else "f32"
        plan = plan_dot(*variant.tile, dtype, dtype, acc, target, prefetch=variant.fetch)
        self.plan = forced(plan, variant.micro) if variant.micro else plan
        self.module = ir.Module("product")
        self.module.triple = target.triple
        self.dot = emit_dot(self.module, self.plan, target)
        self.program = self._program()
        self._entry()
        code = machine(target)
        parsed = llvm.parse_assembly(str(self.module))
        parsed.verify()
        self._engine = llvm.create_mcjit_compiler(parsed, code)
        self._engine.finalize_object()
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4, ctypes.c_void_p)
        self.call = kind(self._engine.get_function_address("run"))
        bm, bn, _ = variant.tile
        self.programs = -(-size // bm) * -(-size // bn)
        self.scratch = [_aligned_bytes(self._scratch_bytes) for _ in range(os.cpu_count() or 1)]
        self.compile_ms = (time.perf_counter() - started) * 1e3

    # ---- code ------------------------------------------------------------------------------------

    def _offsets(self) -> tuple[int, int]:
        plan = self.plan
        sizes = [
            -(-layout.size * ELEMENT_BITS[name] // 8 // 64) * 64 + 64
            for layout, name in ((plan.acc_layout, plan.acc_type), (plan.a_layout, plan.a_type),
                                 (plan.b_layout, plan.b_type))
        ]  # fmt: skip
        self._panel_bytes = sizes[2]
        panels = self.size // plan.k if self.variant.keep_b else 1
        self._scratch_bytes = sizes[0] + sizes[1] + panels * sizes[2] + 64
        return sizes[0], sizes[0] + sizes[1]

    def _copy(self, b: ir.IRBuilder, source: ir.Value, stride: ir.Value, out: ir.Value,
              layout: BufferLayout, wanted: str) -> None:  # fmt: skip
        """Pack a tile, converting, one row a trip."""
        lanes = 64 * 8 // max(ELEMENT_BITS[self.dtype], ELEMENT_BITS[wanted])
        lanes = min(lanes, layout.run)
        element, packed = ELEMENT_BITS[self.dtype] // 8, ELEMENT_BITS[wanted] // 8
        kind = ir.VectorType(element_type(self.dtype), lanes)

        def row(i: ir.Value, _: list[ir.Value]) -> None:
            src = at(b, source, b.mul(i, stride))
            dst = at(b, out, b.mul(i, i64(layout.width * packed)))
            for j in range(0, layout.columns, lanes):
                value = convert(b, load(b, at(b, src, j * element), kind, 1), self.dtype, wanted)
                b.store(
                    value, at(b, dst, layout.offset(0, j) * packed), align=min(64, lanes * packed)
                )

        counted_loop(b, 0, layout.rows, 1, row)

    def _program(self) -> ir.Function:
        plan, size = self.plan, self.size
        function = ir.Function(
            self.module, ir.FunctionType(VOID, [POINTER] * 4 + [ir.IntType(1)]), "program"
        )
        function.linkage = "internal"
        function.attributes.add("noinline")
        a, right, c, scratch, fresh = function.args
        b = ir.IRBuilder(function.append_basic_block())
        element = ELEMENT_BITS[self.dtype] // 8
        acc_bytes, b_at = self._offsets()
        row_bytes = i64(size * element)
        size_acc = plan.acc_layout.size * ELEMENT_BITS[plan.acc_type] // 8
        zero = ir.Constant(ir.VectorType(ir.IntType(8), 64), None)
        counted_loop(
            b, 0, size_acc, 64, lambda i, _: b.store(zero, at(b, scratch, i), align=64) and None
        )
        a_buffer = at(b, scratch, acc_bytes)

        def step(k: ir.Value, _: list[ir.Value]) -> None:
            a_now = at(b, a, b.mul(k, i64(element)))
            b_now = at(b, right, b.mul(k, row_bytes))
            b_buffer = at(b, scratch, b_at)
            self._copy(b, a_now, row_bytes, a_buffer, plan.a_layout, plan.a_type)
            if self.variant.keep_b:
                number = b.udiv(k, i64(plan.k))
                b_buffer = at(b, b_buffer, b.mul(number, i64(self._panel_bytes)))
                with b.if_then(fresh):
                    self._copy(b, b_now, row_bytes, b_buffer, plan.b_layout, plan.b_type)
            else:
                self._copy(b, b_now, row_bytes, b_buffer, plan.b_layout, plan.b_type)
            more = b.icmp_unsigned("<", b.add(k, i64(plan.k)), i64(size))
            null = ir.Constant(POINTER, None)
            next_a = b.select(more, at(b, a_now, plan.k * element), null)
            next_b = b.select(more, at(b, b_now, plan.k * size * element), null)
            b.call(self.dot, [a_buffer, b_buffer, scratch, next_a, row_bytes, next_b, row_bytes])

        counted_loop(b, 0, size, plan.k, step)
        self._store(b, c, scratch)
        b.ret_void()
        return function

    def _store(self, b: ir.IRBuilder, c: ir.Value, acc: ir.Value) -> None:
        plan, lanes = self.plan, min(16, self.plan.micro.lanes)
        packed, element = ELEMENT_BITS[plan.acc_type] // 8, ELEMENT_BITS[self.output] // 8
        kind = ir.VectorType(element_type(plan.acc_type), lanes)

        def row(i: ir.Value, _: list[ir.Value]) -> None:
            src = at(b, acc, b.mul(i, i64(plan.acc_layout.width * packed)))
            dst = at(b, c, b.mul(i, i64(self.size * element)))
            for j in range(0, plan.n, lanes):
                value = load(
                    b, at(b, src, plan.acc_layout.offset(0, j) * packed), kind, lanes * packed
                )
                b.store(
                    convert(b, value, plan.acc_type, self.output), at(b, dst, j * element), align=1
                )

        counted_loop(b, 0, plan.m, 1, row)

    def _entry(self) -> None:
        """`run(scratch, first, last, a, b, c)`: programs first … last-1 in grouped order."""
        plan, size = self.plan, self.size
        kind = ir.FunctionType(VOID, [POINTER, I64, I64, I64, I64, POINTER])
        function = ir.Function(self.module, kind, "run")
        scratch, first, last, a, right, c = function.args
        b = ir.IRBuilder(function.append_basic_block())
        a, right = b.inttoptr(a, POINTER), b.inttoptr(right, POINTER)
        rows, columns = size // plan.m, size // plan.n
        element, out = ELEMENT_BITS[self.dtype] // 8, ELEMENT_BITS[self.output] // 8
        group = min(GROUP_M, rows)

        def program(p: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
            inside = b.urem(p, i64(group * columns))
            top = b.mul(b.udiv(p, i64(group * columns)), i64(group))
            left = b.sub(i64(rows), top)
            height = b.select(b.icmp_unsigned("<", left, i64(group)), left, i64(group))
            i = b.mul(b.add(top, b.urem(inside, height)), i64(plan.m))
            j = b.mul(b.udiv(inside, height), i64(plan.n))
            fresh = b.icmp_unsigned("!=", j, state[0])
            b.call(self.program, [
                at(b, a, b.mul(i, i64(size * element))), at(b, right, b.mul(j, i64(element))),
                at(b, c, b.mul(b.add(b.mul(i, i64(size)), j), i64(out))), scratch, fresh,
            ])  # fmt: skip
            return [j]

        counted_loop(b, first, last, 1, program, [i64(-1)])
        b.ret_void()

    # ---- running ---------------------------------------------------------------------------------

    def run(self, a: int, b: int, c: int, threads: Threads) -> None:
        shares = [self.programs * t // threads.count for t in range(threads.count + 1)]
        threads.each(
            lambda t: (
                self.call(self.scratch[t][1], shares[t], shares[t + 1], a, b, c)
                if shares[t] < shares[t + 1]
                else None
            )
        )


class Threads:
    """Runs a function once on each of `count` threads."""

    def __init__(self, count: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self.count = count
        self._pool = ThreadPoolExecutor(max(1, count - 1))

    def each(self, work: Callable[[int], None]) -> None:
        others = [self._pool.submit(work, t) for t in range(1, self.count)]
        work(0)
        for other in others:
            other.result()


def _aligned_bytes(count: int) -> tuple[np.ndarray, int]:
    raw = np.zeros(count + 4096, np.uint8)
    return raw, raw.ctypes.data + (-raw.ctypes.data % 4096)


def block(call: Callable[[], object], calls: int) -> float:
    """Median seconds of a block of calls after two warm-ups."""
    call(), call()
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def host() -> TargetInfo:
    """The widest of the known targets that this machine has, tuned for its own CPU."""
    for level in ("amx", "avx512bf16", "avx512vnni", "avx512", "avx2", "sse2"):
        if runs_here(TARGETS[level]) and (level != "amx" or request_amx()):
            name = llvm.get_host_cpu_name()
            return replace(TARGETS[level], cpu=name if level != "amx" else "sapphirerapids")
    raise SystemExit("no x86-64 machine")


def parse_variants(text: str, tiles: list[tuple[int, int, int]]) -> dict[str, Variant]:
    found = {}
    for tile in tiles:
        for word in text.split(","):
            label = f"{'x'.join(map(str, tile))} {word}"
            micro = next((w[1:] for w in word.split("+") if w.startswith("m")), "")
            found[label] = Variant(
                tile, "fetch" in word, "keepb" in word,
                tuple(int(v) for v in micro.split("x")) if micro else None,  # type: ignore[arg-type]
            )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="512,1024,2048")
    parser.add_argument("--tiles", default="64x64x32,128x128x32,128x128x64,256x256x64,256x256x128")
    parser.add_argument("--variants", default="plain,fetch")
    parser.add_argument("--dtype", default="f32", choices=list(OUTPUT))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--level", default="", help="one of " + " ".join(TARGETS))
    options = parser.parse_args()
    import torch

    target = TARGETS[options.level] if options.level else host()
    tiles = [tuple(int(v) for v in t.split("x")) for t in options.tiles.split(",")]
    variants = parse_variants(options.variants, tiles)  # type: ignore[arg-type]
    torch_type = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16,
                  "f64": torch.float64, "i8": torch.int8}[options.dtype]  # fmt: skip
    print(f"# {platform.processor()} {target.cpu} torch {torch.__version__} {options.dtype} "
          f"OMP_WAIT_POLICY={os.environ['OMP_WAIT_POLICY']}")  # fmt: skip
    for count in (int(v) for v in options.threads.split(",")):
        torch.set_num_threads(count)
        threads = Threads(count)
        for size in (int(v) for v in options.sizes.split(",")):
            measure(size, torch_type, options, variants, target, threads, torch)
    sys.stdout.flush()


def measure(size, torch_type, options, variants, target, threads, torch) -> None:  # type: ignore[no-untyped-def]
    """Print one block of the table: all variants at one size and number of threads."""
    torch.manual_seed(0)
    if torch_type == torch.int8:
        x, y = (torch.randint(-128, 128, (size, size), dtype=torch_type) for _ in range(2))
        out, theirs = (torch.empty(size, size, dtype=torch.int32) for _ in range(2))
        peer = lambda: torch._int_mm(x, y, out=theirs)  # noqa: E731
    else:
        x, y = (torch.randn(size, size).to(torch_type) for _ in range(2))
        out, theirs = (torch.empty(size, size, dtype=torch_type) for _ in range(2))
        peer = lambda: torch.mm(x, y, out=theirs)  # noqa: E731
    exact = x.double() @ y.double()
    products, calls = {}, {"torch": peer}
    for label, variant in variants.items():
        if any(size % extent for extent in variant.tile):
            continue
        product = products[label] = Product(options.dtype, variant, target, size)
        calls[label] = lambda p=product: p.run(x.data_ptr(), y.data_ptr(), out.data_ptr(), threads)
        out.zero_()
        calls[label]()
        error = ((out.double() - exact).abs() / (exact.abs() + size**0.5)).max().item()
        limit = {"f32": 1e-5, "f64": 1e-12, "i8": 0.0}.get(options.dtype, 1e-2)
        if error > limit:
            raise SystemExit(f"{label}: wrong, error {error:.2e}")
    number = max(4, min(20, int(0.3e11 / (2 * size**3))))
    times: dict[str, list[float]] = {label: [] for label in calls}
    for turn in range(options.rounds):
        for label in list(calls)[:: 1 if turn % 2 == 0 else -1]:
            times[label].append(block(calls[label], number))
    base = statistics.median(times["torch"])
    print(f"N={size} threads={threads.count} torch {2 * size**3 / base / 1e9:.0f} GF", flush=True)
    for label, product in products.items():
        taken = statistics.median(times[label])
        tile = product.plan.micro
        print(f"  {label:28s} {tile.rows}x{tile.columns}u{tile.unroll} {2 * size**3 / taken / 1e9:7.1f} GF"
              f"  ratio {base / taken:.2f}  compile {product.compile_ms:.0f} ms", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
