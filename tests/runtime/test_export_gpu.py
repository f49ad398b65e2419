"""The C launcher of GPU kernels against a driver that writes down what it is asked for."""

import subprocess

import pytest
from tests.runtime.test_export import PLACES, build, needs_compiler, places

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.generator import Contraction, Extra, MatmulConfig, Operand, Step
from tilewright.runtime.export.matmul import argument_types, export_matmul
from tilewright.runtime.matmul.kernels import kernels
from tilewright.runtime.native.tensor_maps import L2_PROMOTION

#: a libcuda that prints every call; context 7 is current
FAKE = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
int64_t fault_record[3];
static unsigned long long current = 7;
void set_context(unsigned long long id) { current = id; }
int cuCtxGetCurrent(void **context) { *context = current ? (void *)(uintptr_t)current : 0; return 0; }
int cuCtxGetId(void *context, unsigned long long *id) { *id = (uintptr_t)context; return 0; }
int cuModuleLoadData(void **module, const void *image) {
    printf("load %s\\n", memcmp(image, "\\177ELF", 4) == 0 || strstr(image, ".entry") ? "code" : "?");
    *module = (void *)1;
    return 0;
}
int cuModuleUnload(void *module) { printf("unload %d\\n", (int)(uintptr_t)module); return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    *function = (void *)2;
    printf("function %s\\n", name);
    return 0;
}
int cuFuncSetAttribute(void *function, int what, int value) {
    (void)function;
    printf("attribute %d = %d\\n", what, value);
    return 0;
}
int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    printf("host memory %d %u\\n", (int)bytes, flags);
    *memory = fault_record;
    return 0;
}
int cuMemFreeHost(void *memory) { return memory != fault_record; }
int cuStreamIsCapturing(void *stream, int *status) { (void)stream; *status = 0; return 0; }
int cuStreamSynchronize(void *stream) {
    printf("wait %d\\n", (int)(uintptr_t)stream);
    return 0;
}
int cuTensorMapEncodeTiled(
    uint64_t *map, int type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides,
    const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int fill) {
    printf("map type %d rank %u at %d:", type, rank, (int)(uintptr_t)address);
    for (uint32_t d = 0; d < rank; ++d) {
        printf(" %lld of %u by %u", (long long)dims[d], box[d], steps[d]);
        if (d > 0) printf(" every %lld", (long long)strides[d - 1]);
    }
    printf(", %d %d %d %d\\n", interleave, swizzle, promotion, fill);
    map[0] = (uintptr_t)address;
    return (uintptr_t)map % 64 ? 1 : (uintptr_t)address == 4096 * 7 ? 1 : 0;
}
int cuMemAllocAsync(unsigned long long *memory, size_t bytes, void *stream) {
    printf("memory %d, stream %d\\n", (int)bytes, (int)(uintptr_t)stream);
    *memory = 1 << 20;
    return bytes > 1 << 24 ? 2 : 0;
}
int cuMemFreeAsync(unsigned long long memory, void *stream) {
    printf("free %d, stream %d\\n", (int)memory, (int)(uintptr_t)stream);
    return 0;
}
/* of the next launch; those of several kernels are separated */
static const char *next_kinds(const char *kinds) {
    static const char *next = 0;
    const char *found = next && *next ? next : kinds;
    for (next = found; *next && *next != '/';) ++next;
    if (*next == '/') ++next;
    return found;
}
static void show(const char *kinds, void **params) {
    kinds = next_kinds(kinds);
    for (; *kinds && *kinds != '/'; ++kinds, ++params) {
        if (*kinds == 'p') printf(" %d", (int)*(uint64_t *)*params);
        if (*kinds == 'i') printf(" %d", *(int32_t *)*params);
        if (*kinds == 'b') printf(" %d", *(uint8_t *)*params);
        if (*kinds == 'l') printf(" %lld", (long long)*(int64_t *)*params);
        if (*kinds == 'f') printf(" %g", *(float *)*params);
        if (*kinds == 'r') printf(" %s", *(int64_t **)*params == fault_record ? "record" : "?");
    }
    printf("%s\\n", *params == 0 ? "" : " and more");
}
extern const char *kinds;
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
    printf("launch %d: %u %u %u of %u %u %u, %u bytes, stream %d:", (int)(uintptr_t)function, x, y, z, bx, by,
           bz, shared, (int)(uintptr_t)stream);
    show(kinds, params);
    return extra != 0;
}
struct config { unsigned grid[3], block[3], shared; void *stream; unsigned *attributes; unsigned count; };
int cuLaunchKernelEx(const struct config *c, void *function, void **params, void **extra) {
    printf("launch %d: %u %u %u of %u, %u bytes, stream %d, %u: %u = %u %u %u:", (int)(uintptr_t)function,
           c->grid[0], c->grid[1], c->grid[2], c->block[0], c->shared, (int)(uintptr_t)c->stream, c->count,
           c->attributes[0], c->attributes[2], c->attributes[3], c->attributes[4]);
    show(kinds, params);
    return extra != 0;
}
"""


@tw.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        a = tl.load(a_ptr + i * K + at[None, :], mask=(i < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + j, mask=(at[:, None] < K) & (j < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i * N + j, acc.to(tl.float16), mask=(i < M) & (j < N))


POINTERS = dict(a_ptr="*fp16:16", b_ptr="*fp16:16", c_ptr="*fp16:16")
PRODUCT = dict(
    **POINTERS, M="i32", N="i32:16", K="i32:16",
    BM=128, BN=128, BK=64,
)  # fmt: skip


def outcome(folder, exported, main, kinds):
    (folder / "fake.c").write_text(FAKE)
    (folder / "main.c").write_text(
        f'#include <stdio.h>\n#include "{exported.header.name}"\nconst char *kinds = "{kinds}";\n'
        "void set_context(unsigned long long id);\nextern int64_t fault_record[3];\n"
        "#define AT(n) ((void *)(uintptr_t)(n))\n" + main
    )
    program = build(folder, "main.c", exported.code.name, "fake.c")
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def map_line(recipe, values):
    """What the driver of paper says of a tensor map."""
    extents, pitches = recipe.sizes(values)
    dims = zip(
        extents, (*recipe.box_dims, 1, 1, 1), ["", *(f" every {p}" for p in pitches)], strict=False
    )
    swizzle = {0: 0, 32: 1, 64: 2, 128: 3}[recipe.swizzle_bytes]
    return (
        f"map type 1 rank {len(extents)} at {values[recipe.argument]}:"
        + "".join(f" {extent} of {size} by 1{pitch}" for extent, size, pitch in dims)
        + f", 0 {swizzle} {L2_PROMOTION} 0"
    )


@needs_compiler
def test_a_launch_with_tensor_maps(tmp_path):
    compiled = product.compile(PRODUCT, target="sm_90a")
    plan = compiled.plan
    assert plan.tensor_maps
    exported = compiled.export(tmp_path, grid=("cdiv(M, BM)", "cdiv(N, BN)"))
    main = """int main(void) {
        printf("%d\\n", product(AT(4096), AT(8192), AT(16384), 1000, 512, 256, (CUstream)3));
        printf("%d\\n", product(AT(4096), AT(8192), AT(16384), 1000, 504, 256, 0));
        printf("%d\\n", product(AT(4096), AT(8200), AT(16384), 1000, 512, 256, 0));
        printf("%d\\n", product(AT(4096), AT(8192), AT(16384), 0, 512, 256, 0));
        printf("%d\\n", product(AT(4096 * 7), AT(8192), AT(16384), 1000, 512, 256, 0));
        set_context(0);
        printf("%d\\n", product(AT(4096), AT(8192), AT(16384), 1000, 512, 256, 0));
        set_context(8);
        printf("%d\\n", product_load());
        printf("%d\\n", product_unload());
        return product_unload();
    }"""
    pointers = dict(a_ptr=4096, b_ptr=8192, c_ptr=16384)
    values = [*pointers.values(), 1000, 512, 256]
    maps = [map_line(m, values) for m in plan.tensor_maps]
    kinds = "pppiii" + "l" * len(maps)
    handles = " ".join(str(values[m.argument]) for m in plan.tensor_maps)
    loaded = ["load code", "function product", f"attribute 8 = {plan.shared_bytes}"]
    lines = outcome(tmp_path, exported, main, kinds)
    first = lines.index("0")
    assert lines[: first + 1] == [
        *loaded,
        *maps,
        f"launch 2: 8 4 1 of {plan.threads} 1 1, {plan.shared_bytes} bytes, stream 3: "
        f"4096 8192 16384 1000 512 256 {handles}",
        "0",
    ]
    assert [line for line in lines[first + 1 :] if not line.startswith("map")] == [
        "104", "101", "0", "100001", "100201", *loaded, "0", "unload 1", "0",
    ]  # fmt: skip


@tw.jit
def batch(a_ptr, b_ptr, c_ptr, M, N, K, plane, BLOCK: tl.constexpr):
    i, r = tl.program_id(0), tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        at = k + r
        place = a_ptr + i * plane + r[:, None] * K + at[None, :]
        a = tl.load(place, mask=(r[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + r, mask=(at[:, None] < K) & (r < N), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(
        c_ptr + (i * M + r[:, None]) * N + r, acc.to(tl.float16), mask=(r[:, None] < M) & (r < N)
    )


@needs_compiler
def test_tensor_maps_of_a_batch(tmp_path):
    """Three dimensions; a plane that is used for all has a pitch of 0, in whose place another is encoded."""
    integers = dict.fromkeys(("M", "N", "K", "plane"), "i32:16")
    compiled = batch.compile({**POINTERS, **integers, "BLOCK": 64}, target="sm_90a")
    maps = compiled.plan.tensor_maps
    assert [len(m.global_dims) for m in maps] == [3, 2, 3]
    exported = compiled.export(tmp_path, grid=("7",))
    main = """int main(void) {
        printf("%d\\n", batch(AT(4096), AT(8192), AT(16384), 64, 48, 80, 8192, 0));
        printf("%d\\n", batch(AT(4096), AT(8192), AT(16384), 64, 48, 80, 0, 0));
        return 0;
    }"""
    lines = outcome(tmp_path, exported, main, "pppiiiilll")
    found = [line for line in lines if line.startswith("map")]
    values = [4096, 8192, 16384, 64, 48, 80]
    wanted = [map_line(m, [*values, plane]) for plane in (8192, 0) for m in maps]
    assert found == wanted and lines.count("0") == 2
    assert ": 80 of 64 by 1 64 of 64 by 1 every 160 2147483648 of 1 by 1 every 16384," in wanted[0]
    assert " every 160 2147483648 of 1 by 1 every 160," in wanted[3]


@needs_compiler
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_a_product_whose_k_is_split(tmp_path, target):
    half = Operand(dtypes.float16)
    contraction = Contraction(half, half, half, epilogue=(Step("add", (Extra(half.dtype, "n"),)),))
    config = MatmulConfig(64, 128, 64, num_stages=3, split_k=4)
    exported = export_matmul(
        contraction, tmp_path, "product", sizes=(128, 256, 4096), target=target, config=config
    )
    assert exported.prototype == (
        "int product(const uint16_t *a, const uint16_t *b, uint16_t *out, const uint16_t *x0, int32_t M, "
        "int32_t N, int32_t K, int32_t a_m, int32_t b_k, int32_t out_m, CUstream stream)"
    )
    main = """int main(void) {
        printf("%d\\n", product(AT(4096), AT(8192), AT(16384), AT(32768), 100, 256, 512, 512, 256, 256, (CUstream)3));
        printf("%d\\n", product(AT(4096), AT(8192), AT(16384), AT(32768), 0, 256, 512, 512, 256, 256, 0));
        printf("%d\\n", product(AT(4096), AT(8192), AT(16384), AT(32768), 65536, 256, 512, 512, 256, 256, 0));
        return product_unload();
    }"""
    values = dict(
        a=4096, b=8192, out=16384, x0=32768, work=1 << 20, M=100, N=256, K=512, a_m=512, b_k=256, out_m=256
    )  # fmt: skip
    kernels_of = kernels(contraction, config)
    plans = [
        k.compile(argument_types(k.program, True), target=target, options=k.launch_options()).plan
        for k in kernels_of
    ]
    kinds = ["".join("p" if a.kind == "pointer" else "i" for a in p.arguments) for p in plans]
    kinds = "/".join(k + "l" * len(p.tensor_maps) for k, p in zip(kinds, plans, strict=True))
    lines = outcome(tmp_path, exported, main, kinds)
    launches = [line for line in lines if not line.startswith(("map", "attribute"))]
    shown = []
    for plan, grid in zip(plans, ("4 4 1", "14 1 1"), strict=True):
        given = [values[a.name] for a in plan.arguments]
        given += [given[m.argument] for m in plan.tensor_maps]
        shown.append(
            f"launch 2: {grid} of {plan.threads} 1 1, {plan.shared_bytes} bytes, stream 3: "
            + " ".join(map(str, given))
        )
    assert launches == [
        "load code", f"function {plans[0].name}", "load code", f"function {plans[1].name}",
        f"memory {100 * 256 * 4 * 4}, stream 3", *shown, f"free {1 << 20}, stream 3", "0", "0",
        f"memory {65536 * 256 * 4 * 4}, stream 0", "100002", "unload 1", "unload 1",
    ]  # fmt: skip


@needs_compiler
def test_assertions_clusters_and_every_kind_of_argument(tmp_path):
    for target, ctas in (("sm_80", 1), ("sm_90a", 2), ("sm_90a", 16)):
        options = {"debug": True, "num_ctas": ctas, "num_warps": 2}
        exported = places.compile(PLACES, target=target, options=options).export(tmp_path)
        main = """int main(void) {
            printf("%d\\n", places(AT(4096), true, -5, 1ll << 40, 0.5f, 24, 4, 2, 3, 0));
            fault_record[0] = 1, fault_record[2] = 0;
            const int code = places(AT(4096), false, -5, 9, 0.5f, 24, 4, 2, 3, (CUstream)5);
            printf("%d %s\\n", code, places_error(code));
            printf("%d\\n", places(AT(4096), true, -5, 9, 0.5f, 24, 4, 2, 1 << 16, 0));
            return places(AT(4096), true, -5, 9, 0.5f, 24, 4, 0, 3, 0);
        }"""
        config = f"0, 1: 4 = {ctas} 1 1" if ctas > 1 else "0"
        threads = "32" if ctas > 1 else "32 1 1"  # one warp: there are no tiles
        asked = ["attribute 14 = 1"] if ctas > 8 else []  # a cluster that not every chip can place
        lines = outcome(tmp_path, exported, main, "pbblfir")
        line = f"test_export.py:{places.first_line + 3}"
        assert lines == [
            "load code", "function places", *asked, "host memory 24 3",
            f"launch 2: {4 * ctas} 2 3 of {threads}, 0 bytes, stream {config}: "
            f"4096 1 251 {1 << 40} 0.5 24 record",
            "wait 0", "0",
            f"launch 2: {4 * ctas} 2 3 of {threads}, 0 bytes, stream {config.replace('0', '5', 1)}: "
            "4096 0 251 9 0.5 24 record",
            "wait 5", f'1000 {line}: device_assert failed: beyond "the limit"', "1",
        ]  # fmt: skip


@needs_compiler
def test_cooperative_grids(tmp_path):
    options = {"num_warps": 2, "launch_cooperative_grid": True}
    exported = places.compile(PLACES, target="sm_90a", options=options).export(tmp_path)
    main = "int main(void) { return places(AT(4096), true, -5, 9, 0.5f, 24, 4, 2, 3, 0); }"
    lines = outcome(tmp_path, exported, main, "pbblfi")
    assert lines[2] == "launch 2: 4 2 3 of 32, 0 bytes, stream 0, 1: 2 = 1 0 0: 4096 1 251 9 0.5 24"


@needs_compiler
@pytest.mark.parametrize("form", ["object", "text"])
def test_machine_code_or_ptx(tmp_path, monkeypatch, form):
    if form == "text":
        monkeypatch.setenv("TILEWRIGHT_PTXAS", str(tmp_path / "none"))
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))
    compiled = product.compile({**PRODUCT, "BM": 64}, target="sm_80", options={"num_warps": 4})
    exported = compiled.export(tmp_path, "other_name")
    lines = outcome(tmp_path, exported, "int main(void) { return other_name_load(); }", "pppiii")
    assert lines[:2] == ["load code", "function product"]
