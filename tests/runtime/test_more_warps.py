"""Kernels that spill are compiled in a form with more registers: dots with more warps, rows with smaller shares, MMAs that
ptxas would serialize with fewer of them in flight."""

from dataclasses import replace

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime import compile_variants
from tilewright.runtime.compile_variants import SMALLER_SHARES


@tw.jit
def sums(A, B, Out, n, M: tl.constexpr, N: tl.constexpr, BARRIER: tl.constexpr):
    m, k, c = tl.arange(0, M), tl.arange(0, 16), tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for i in range(n):
        a = tl.load(A + m[:, None] * 16 + k[None, :])
        total = tl.dot(a, tl.load(B + i * 16 * N + k[:, None] * N + c[None, :]), total)
    if BARRIER:
        tl.inline_asm_elementwise(
            "bar.sync 3, 128; mov.b32 $0, 0;", "=r", [], tl.int32, is_pure=False, pack=1
        )
    tl.store(Out + m[:, None] * N + c[None, :], total)


@tw.jit
def state_and_small_dots(A, B, Out, n, N: tl.constexpr):
    m, k, c = tl.arange(0, 16), tl.arange(0, 16), tl.arange(0, N)
    state = tl.zeros((N, N), tl.float32)
    for i in range(n):
        a = tl.load(A + i * 256 + m[:, None] * 16 + k[None, :])
        b = tl.load(B + i * 16 * N + k[:, None] * N + c[None, :])
        small = tl.dot(a, tl.trans(a)).to(tl.float16)
        state = tl.dot(tl.trans(b), tl.dot(small, b).to(tl.float16), state)
    tl.store(Out + c[:, None] * N + c[None, :], state)


def code(n=16, barrier=False, target="sm_90a", **options):
    types = {**dict.fromkeys(("A", "B"), "*fp16:16"), "Out": "*fp32:16", "n": "i32"}
    sizes = {"M": 128, "N": n, "BARRIER": barrier}
    return sums.compile(types, sizes, target=target, options=options)


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ALWAYS_COMPILE", "1")


def spilling(monkeypatch, **spills):
    """Let kernels of so many warps spill (`w4=100`), as far as the assembler says."""
    made = compile_variants.compile_with

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        found = spills.get(f"w{options.num_warps}", 0)
        return replace(artifact, plan=replace(artifact.plan, registers=255, spills=found))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)


def test_sums_that_no_warps_of_the_launch_could_hold():
    made = code(n=256)
    assert made.plan.threads >= 256 and "compiled with num_warps=8" in made.asm["log"]
    assert "gpu.num_warps = 8" in made.asm["gpu"]  # the text of the form that was taken


def test_more_warps_than_the_smallest_dot_has_parts():
    """Two warps share a 16x16 result, and could not hold what the loop carries."""
    types = {**dict.fromkeys(("A", "B"), "*fp16:16"), "Out": "*fp32:16", "n": "i32"}
    made = state_and_small_dots.compile(
        types, {"N": 128}, target="sm_90a", options={"num_warps": 1}
    )
    assert made.plan.threads >= 128 and "what a loop carries needs" in made.asm["log"]


def test_spills(monkeypatch):
    spilling(monkeypatch, w4=400, w8=20)
    assert code(num_warps=4).plan.threads == 256
    assert "400 registers would be spilled" in code(num_warps=4).asm["log"]


@pytest.mark.parametrize(("spills", "threads"), [
    ({"w2": 400, "w4": 20, "w8": 0}, 128),
    ({"w2": 400, "w4": 300, "w8": 20}, 256),
    ({"w2": 400, "w4": 300, "w8": 200}, 64),
])  # fmt: skip
def test_the_fewest_warps_that_suffice(monkeypatch, spills, threads):
    spilling(monkeypatch, **spills)
    assert code(num_warps=2).plan.threads == threads


@pytest.mark.parametrize(("spills", "options"), [
    ({"w4": 400, "w8": 300}, {}),  # which would be little gained
    ({"w4": 20, "w8": 0}, {}),
    ({"w4": 400, "w8": 0}, {"maxnreg": 128}),
])  # fmt: skip
def test_warps_as_asked(monkeypatch, spills, options):
    spilling(monkeypatch, **spills)
    assert code(num_warps=4, **options).plan.threads == 128


def test_inline_ptx_that_may_count_threads_keeps_its_warps(monkeypatch):
    spilling(monkeypatch, w4=400, w8=20)
    assert code(num_warps=4, barrier=True).plan.threads == 128


@pytest.mark.parametrize("always", [False, True])
def test_serialized_mmas(monkeypatch, always):
    made, said = (
        compile_variants.compile_with,
        "wgmma.mma_async instructions are serialized due to …",
    )

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        log = said if always or "schedule-loops" not in options.disable else ""
        return replace(artifact, asm={**artifact.asm, "log": log})

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    log = code(num_warps=4).asm["log"]
    assert log == (
        said if always else "ptxas would serialize MMAs: compiled without schedule-loops"
    )


@tw.jit
def softmax(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + at, e / tl.sum(e, 0))


@pytest.mark.parametrize(("spills", "threads"), [
    ({"w2": 20, "w4": 0}, 128), ({"w2": 200, "w4": 90, "w8": 0}, 256), ({"w2": 4, "w4": 0}, 64),
])  # fmt: skip
def test_rows_whose_warps_spill(monkeypatch, spills, threads):
    """Without dots a few spilled registers are enough: any number of warps shares out a row."""
    spilling(monkeypatch, **spills)
    types = {"x_ptr": "*bf16:16", "out_ptr": "*bf16:16"}
    made = softmax.compile(types, {"BLOCK": 4096}, target="sm_90a", options={"num_warps": 2})
    assert made.plan.threads == threads


@pytest.mark.parametrize(("spills", "taken"), [(4, 2), (20, 4)])
def test_rows_whose_ctas_spill(monkeypatch, spills, taken):
    """Twice as many CTAs, which exchange results, cost more than a few registers in memory."""
    made = compile_variants.compile_with
    shares = SMALLER_SHARES

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        found = 0 if shares in options.disable else spills
        return replace(artifact, plan=replace(artifact.plan, registers=64, spills=found))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    types = {"x_ptr": "*bf16:16", "out_ptr": "*bf16:16"}

    def ctas(**options):
        found = softmax.compile(types, {"BLOCK": 65536}, target="sm_90a", options=options)
        return found.plan.cluster_size

    assert (ctas(), ctas(num_warps=32), ctas(num_warps=32, disable=(shares,))) == (taken, taken, 4)
    assert ctas(num_ctas=2) == 2


@tw.jit
def attention(Q, K, Out, n, M: tl.constexpr, D: tl.constexpr, BARRIER: tl.constexpr):
    m, c, d = tl.arange(0, M), tl.arange(0, 64), tl.arange(0, D)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    total = tl.zeros((M, D), tl.float32)
    for i in range(n):
        k = tl.load(K + (i * 64 + c)[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(q, tl.trans(k)))
        total = tl.dot(p.to(k.dtype), tl.trans(k) if k.dtype == tl.float8e5 else k, total)
    if BARRIER:
        tl.inline_asm_elementwise(
            "bar.sync 3, 128; mov.b32 $0, 0;", "=r", [], tl.int32, is_pure=False, pack=1
        )
    tl.store(Out + m[:, None] * D + d[None, :], total)


def attention_code(rows=128, kind="fp16", barrier=False, **options):
    types = {**dict.fromkeys(("Q", "K"), f"*{kind}:16"), "Out": "*fp32:16", "n": "i32"}
    sizes = {"M": rows, "D": 64, "BARRIER": barrier}
    return attention.compile(types, sizes, target="sm_90a", options=options)


def registers_per_warp(monkeypatch, spills, **registers):
    """Let kernels of so many warps take registers (`w4=200`), and with eight warps spill by the number of stages."""
    made = compile_variants.compile_with

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        found = spills.get(options.num_stages, 0) if options.num_warps == 8 else 0
        count = registers[f"w{options.num_warps}"]
        return replace(artifact, plan=replace(artifact.plan, registers=count, spills=found))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)


@pytest.mark.parametrize(("w4", "spills", "threads", "stages"), [
    (200, {}, 256, 3),  # two CTAs of four warps: eight have half of the registers
    (200, {3: 40}, 256, 2),
    (200, {3: 40, 2: 40}, 128, 3),
    (120, {}, 128, 3),  # four CTAs share an SM
])  # fmt: skip
def test_more_warps_where_registers_leave_an_sm_few(monkeypatch, w4, spills, threads, stages):
    registers_per_warp(monkeypatch, spills, w4=w4, w8=128)
    made = attention_code(num_warps=4)
    assert made.plan.threads == threads
    assert f"gpu.num_stages = {stages}" in made.asm["gpu"]
    assert (".maxnreg 128" in made.asm["ptx"]) == (threads == 256)


@pytest.mark.parametrize(("form", "options"), [
    ({"rows": 64}, {}),  # two warpgroups would share one block of rows
    ({"kind": "fp8e5"}, {}),
    ({"barrier": True}, {}),  # which counts threads
    ({}, {"maxnreg": 255}), ({}, {"num_ctas": 2}),
])  # fmt: skip
def test_warps_as_asked_where_registers_leave_an_sm_few(monkeypatch, form, options):
    registers_per_warp(monkeypatch, {}, w4=200, w8=128)
    made = attention_code(**form, num_warps=4, **options)
    assert made.plan.threads == 128


@pytest.mark.parametrize(("limited", "spills", "stages"), [(128, {}, 3), (128, {3: 40}, 2), (128, {3: 40, 2: 40}, 0), (200, {}, 0)])  # fmt: skip
def test_a_second_cta_of_eight_warps(monkeypatch, limited, spills, stages):
    """Eight warps that have an SM to themselves get half of the registers, if they hardly spill with them."""
    made = compile_variants.compile_with

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        count = limited if options.maxnreg else 200
        found = spills.get(options.num_stages, 0) if options.maxnreg else 0
        return replace(artifact, plan=replace(artifact.plan, registers=count, spills=found))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    found = attention_code(num_warps=8)
    assert ("compiled with num_warps=8, maxnreg=128" in found.asm.get("log", "")) == bool(stages)
    assert (".maxnreg 128" in found.asm["ptx"]) == bool(stages)
    assert f"gpu.num_stages = {stages or 3}" in found.asm["gpu"]


@tw.jit
def narrow_dots(Q, K, Out, n, D: tl.constexpr):
    m, c, d = tl.arange(0, 128), tl.arange(0, 32), tl.arange(0, D)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    total = tl.zeros((128, D), tl.float32)
    for i in range(n):
        k = tl.load(K + (i * 32 + c)[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(q, tl.trans(k)))
        total = tl.dot(p.to(k.dtype), k, total)
    tl.store(Out + m[:, None] * D + d[None, :], total)


@pytest.mark.parametrize("spills", [0, 40])
def test_narrow_dots_of_ctas_that_share_an_sm(monkeypatch, spills):
    """Where few warps would share an SM, dots of 32 columns become dots of 64, unless they spill then."""
    made = compile_variants.compile_with

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        wide = any(name.startswith("widen-dots") for name in options.disable)
        plan = replace(artifact.plan, registers=128 if options.maxnreg else 200)
        return replace(artifact, plan=replace(plan, spills=spills if wide else 0))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    types = {**dict.fromkeys(("Q", "K"), "*fp16:16"), "Out": "*fp32:16", "n": "i32"}
    found = narrow_dots.compile(types, {"D": 64}, target="sm_90a", options={"num_warps": 4})
    assert "compiled with num_warps=8, maxnreg=128" in found.asm["log"]
    assert ("m64n64k16.f32.f16.f16" in found.asm["ptx"]) and found.plan.threads == 256
    assert ("wgmma" in found.asm["gpu"]) and ("tensor<128x32xf32" in found.asm["gpu"])
    assert ("64x64xf16" in found.asm["gpu"]) == (spills == 0)


@tw.jit
def row_gradients(X, G, W, DX, DW, DB, n, T: tl.constexpr, D: tl.constexpr):
    r, c = tl.arange(0, T), tl.arange(0, D)
    w = tl.load(W + c)[None, :]
    dw, db = tl.zeros((T, D), tl.float32), tl.zeros((T, D), tl.float32)
    for i in range(n):
        at = (i * T + r)[:, None] * D + c[None, :]
        x, g = tl.load(X + at) * 0.5, tl.load(G + at)
        wg, gate = w * g, x * g * g
        dw += g * x
        db += g
        a, b = tl.sum(x * wg, 1) / D, tl.sum(wg, 1) / D
        tl.store(DX + at, wg - x * a[:, None] - b[:, None])
        tl.store(G + at, gate * a[:, None])
    tl.store(DW + c, tl.sum(dw, 0))
    tl.store(DB + c, tl.sum(db, 0))


@pytest.mark.parametrize(("rows", "tried"), [(64, [4, 8]), (16, [4])])
def test_what_is_certain_to_spill_is_not_assembled(monkeypatch, rows, tried):
    """Sums of 64 rows and what waits for the reductions take 256 registers and more in four warps."""
    made, assembled, emitted = compile_variants.compile_with, [], []

    def compile_with(kernel, signature, options, machine, module=None):
        emitted.append(options.num_warps)
        artifact = made(kernel, signature, options, machine, module)
        assembled.append(options.num_warps)
        return replace(artifact, plan=replace(artifact.plan, spills=0))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    types = {**dict.fromkeys(("X", "G", "W", "DX", "DW", "DB"), "*fp32:16"), "n": "i32"}
    options = {"num_warps": 4}
    found = row_gradients.compile(types, {"T": rows, "D": 128}, target="sm_90a", options=options)
    assert emitted == tried and assembled == tried[-1:]
    assert found.plan.threads == 32 * tried[-1]
    assert ("would be spilled: compiled with num_warps=8" in found.asm.get("log", "")) == (
        rows == 64
    )


@tw.jit
def long_rows(Q, K, Out, n, D: tl.constexpr):
    m, c, d = tl.arange(0, 16), tl.arange(0, 32), tl.arange(0, D)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    total = tl.zeros((16, D), tl.float32)
    for i in range(n):
        k = tl.load(K + (i * 32 + c)[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(q, tl.trans(k)))
        total = tl.dot(p.to(k.dtype), k, total)
    tl.store(Out + m[:, None] * D + d[None, :], total)


@pytest.mark.parametrize(("depth", "spills", "shared"), [(512, 40, True), (512, 2, False), (256, 40, False)])  # fmt: skip
def test_large_operands_are_read_from_shared_memory_where_registers_spill(
    monkeypatch, depth, spills, shared
):
    made = compile_variants.compile_with

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        count = 0 if compile_variants.OPERANDS_IN_MEMORY in options.disable else spills
        return replace(artifact, plan=replace(artifact.plan, spills=count))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    types = {**dict.fromkeys(("Q", "K"), "*fp16:16"), "Out": "*fp32:16", "n": "i32"}
    found = long_rows.compile(types, {"D": depth}, target="sm_90a", options={"num_warps": 4})
    how = f"compiled with {compile_variants.OPERANDS_IN_MEMORY}"
    assert (how in found.asm.get("log", "")) == (found.plan.spills == 0) == shared


@tw.jit
def long_rows_under_condition(Q, K, Out, n, last, D: tl.constexpr):
    m, c, d = tl.arange(0, 16), tl.arange(0, 32), tl.arange(0, D)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    total = tl.zeros((16, D), tl.float32)
    for i in range(n):
        if i * 32 <= last:
            k = tl.load(K + (i * 32 + c)[:, None] * D + d[None, :])
            p = tl.exp2(tl.dot(q, tl.trans(k)))
            total = tl.dot(p.to(k.dtype), k, total)
    tl.store(Out + m[:, None] * D + d[None, :], total)


def test_operands_of_dots_under_conditions_are_read_from_shared_memory_if_half_as_many_spill(monkeypatch):  # fmt: skip
    made = compile_variants.compile_with

    def compile_with(kernel, signature, options, machine, module=None):
        artifact = made(kernel, signature, options, machine, module)
        count = 39 if compile_variants.OPERANDS_IN_MEMORY in options.disable else 80
        return replace(artifact, plan=replace(artifact.plan, spills=count))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    types = {**dict.fromkeys(("Q", "K"), "*fp16:16"), "Out": "*fp32:16", "n": "i32", "last": "i32"}
    kernel = long_rows_under_condition
    found = kernel.compile(types, {"D": 512}, target="sm_90a", options={"num_warps": 4})
    assert found.plan.spills == 39


def test_operands_of_wgmma_are_left_where_registers_spill(monkeypatch):
    """The option is for `mma.sync`, and a few spills are no reason for more warps."""
    made, tried = compile_variants.compile_with, []

    def compile_with(kernel, signature, options, machine, module=None):
        tried.append((options.num_warps, options.disable))
        artifact = made(kernel, signature, options, machine, module)
        return replace(artifact, plan=replace(artifact.plan, spills=20))

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    types = {**dict.fromkeys(("Q", "K"), "*fp16:16"), "Out": "*fp32:16", "n": "i32"}
    found = narrow_dots.compile(types, {"D": 64}, target="sm_90a", options={"num_warps": 4})
    assert "wgmma" in found.asm["ptx"] and compile_variants.MANY_SPILLS > 20
    assert found.plan.threads == 128
    assert not any(compile_variants.OPERANDS_IN_MEMORY in disable for _, disable in tried)


def test_as_asked_where_more_warps_spill_too(monkeypatch):
    spilling(monkeypatch, w4=0, w8=300)
    types = {**dict.fromkeys(("X", "G", "W", "DX", "DW", "DB"), "*fp32:16"), "n": "i32"}
    found = row_gradients.compile(
        types, {"T": 64, "D": 128}, target="sm_90a", options={"num_warps": 4}
    )
    assert found.plan.threads == 128


@tw.jit
def two_dots(Q, K, Out, n, D: tl.constexpr, N: tl.constexpr):
    """As in attention's backward pass: results of two dots are alive at once."""
    m, c, d = tl.arange(0, 128), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(Q + m[:, None] * D + d[None, :])
    total = tl.zeros((128, D), tl.float32)
    for i in range(n):
        k = tl.load(K + (i * N + c)[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(q, tl.trans(k)))
        s = p * tl.dot(q * 2, tl.trans(k))
        total += tl.dot(s.to(k.dtype), k)
    tl.store(Out + m[:, None] * D + d[None, :], total)


@pytest.mark.parametrize(("kernel", "sizes", "words"), [
    (two_dots, {"D": 128, "N": 64}, 128 * (128 + 64 + 64)),
    (two_dots, {"D": 64, "N": 32}, 128 * (64 + 32 + 32)),
    (attention, {"M": 128, "D": 64, "BARRIER": False}, 128 * (64 + 64)),
])  # fmt: skip
def test_words_that_live_at_a_dot(monkeypatch, kernel, sizes, words):
    seen = []

    def noted(*given):
        seen.append(given[-1])
        return with_half(*given)

    with_half = compile_variants.with_half_the_registers
    monkeypatch.setattr(compile_variants, "with_half_the_registers", noted)
    types = {**dict.fromkeys(("Q", "K"), "*fp16:16"), "Out": "*fp32:16", "n": "i32"}
    kernel.compile(types, sizes, target="sm_90a", options={"num_warps": 8})
    assert seen == [words]


@pytest.mark.parametrize("columns", [32, 64])
def test_half_of_the_registers_that_dots_would_take_are_not_tried(monkeypatch, columns):
    registers_per_warp(monkeypatch, {}, w8=200)
    tried, made = [], compile_variants.compile_with

    def compile_with(kernel, signature, options, machine, module=None):
        tried.append(options.maxnreg)
        return made(kernel, signature, options, machine, module)

    monkeypatch.setattr(compile_variants, "compile_with", compile_with)
    types = {**dict.fromkeys(("Q", "K"), "*fp16:16"), "Out": "*fp32:16", "n": "i32"}
    sizes = {"D": 2 * columns, "N": columns}
    two_dots.compile(types, sizes, target="sm_90a", options={"num_warps": 8})
    assert (set(tried) == {None}) == (columns == 64)
