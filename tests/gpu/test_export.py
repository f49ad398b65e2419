"""An exported matmul, called from a C program on the GPU."""

import shutil
import subprocess

import pytest
from tests.runtime.test_export import COMPILER, build
from tests.runtime.test_export_gpu import PRODUCT, product

from tilewright.dtypes import float16
from tilewright.generator import Contraction, MatmulConfig, Operand
from tilewright.runtime.export.matmul import export_matmul

MAIN = """
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "product.h"

typedef unsigned long long CUdeviceptr;
extern int cuInit(unsigned), cuDeviceGet(int *, int), cuDevicePrimaryCtxRetain(void **, int);
extern int cuCtxSetCurrent(void *), cuMemAlloc_v2(CUdeviceptr *, size_t), cuCtxSynchronize(void);
extern int cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t), cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);

/* small integers, exact in fp16: bits of |v| <= 8 */
static uint16_t half(int v) {
    int e = 0, m = abs(v);
    if (m == 0) return 0;
    while (m >> (e + 1)) ++e;
    return (uint16_t)((v < 0) << 15 | (e + 15) << 10 | (m - (1 << e)) << (10 - e));
}
static double number(uint16_t h) {
    const int e = h >> 10 & 31, m = h & 1023;
    return (h >> 15 ? -1 : 1) * (e ? ldexp(1024 + m, e - 25) : ldexp(m, -24));
}

int main(void) {
    enum { M = 300, N = 208, K = 160 };
    static uint16_t a[M * K], b[K * N], c[M * N];
    void *context = NULL;
    int device = 0;
    CUdeviceptr pa, pb, pc;
    if (product(NULL, NULL, NULL, 1, 16, 16, NULL) != TILEWRIGHT_CUDA_ERROR + 3) return 1; /* no cuInit */
    if (cuInit(0) || cuDeviceGet(&device, 0)) return 2;
    if (product(NULL, NULL, NULL, 1, 16, 16, NULL) != TILEWRIGHT_CUDA_ERROR + 201) return 3; /* no context */
    if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context)) return 4;
    for (int i = 0; i < M * K; ++i) a[i] = half(i * 7 % 5 - 2);
    for (int i = 0; i < K * N; ++i) b[i] = half(i * 5 % 7 - 3);
    if (cuMemAlloc_v2(&pa, sizeof a) || cuMemAlloc_v2(&pb, sizeof b) || cuMemAlloc_v2(&pc, sizeof c)) return 5;
    if (cuMemcpyHtoD_v2(pa, a, sizeof a) || cuMemcpyHtoD_v2(pb, b, sizeof b)) return 6;
    if (product_load() != TILEWRIGHT_OK) return 7;
    const int code = product((void *)pa, (void *)pb, (void *)pc, M, N, K, NULL);
    if (code != TILEWRIGHT_OK) return printf("%d %s\\n", code, product_error(code)), 8;
    if (product((void *)(pa + 2), (void *)pb, (void *)pc, M, N, K, NULL) != TILEWRIGHT_NOT_A_MULTIPLE) return 9;
    if (cuCtxSynchronize() || cuMemcpyDtoH_v2(c, pc, sizeof c)) return 10;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            double sum = 0;
            for (int k = 0; k < K; ++k) sum += number(a[i * K + k]) * number(b[k * N + j]);
            if (fabs(sum - number(c[i * N + j])) > 1e-3 * fabs(sum))
                return printf("%d %d: %g, not %g\\n", i, j, number(c[i * N + j]), sum), 11;
        }
    if (product_unload() != TILEWRIGHT_OK) return 12;
    puts("right");
    return 0;
}
"""


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("form", ["written", "described", "split"])
def test_a_c_program_multiplies_on_the_gpu(tmp_path, form):
    main = MAIN
    if form != "written":
        half = Operand(float16)
        exported = export_matmul(
            Contraction(half, half, half), tmp_path, "product", sizes=(300, 208, 160), target="cuda",
            config=MatmulConfig(64, 64, 32, split_k=3) if form == "split" else None,
        )  # fmt: skip
        # its strides are arguments
        main = main.replace(", M, N, K, NULL)", ", M, N, K, K, N, N, NULL)")
        main = main.replace("1, 16, 16, NULL)", "1, 16, 16, 16, 16, 16, NULL)")
    else:
        compiled = product.compile(PRODUCT, target="sm_90a")
        assert compiled.plan.tensor_maps
        exported = compiled.export(tmp_path, grid=("cdiv(M, BM)", "cdiv(N, BN)"))
    (tmp_path / "main.c").write_text(main)
    # the driver's library under the name that is there without a toolkit
    libraries = ("-l:libcuda.so.1", "-lm", *_folders())
    program = build(tmp_path, "main.c", exported.code.name, libraries=libraries)
    done = subprocess.run([program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def _folders():
    """Where this process's libcuda lies, for the linker."""
    tool = shutil.which("ldconfig") or "/sbin/ldconfig"
    listed = subprocess.run([tool, "-p"], capture_output=True, text=True).stdout.splitlines()
    paths = [line.split("=> ")[1] for line in listed if "libcuda.so.1 " in line and "=> " in line]
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths += [line.rstrip().split()[-1] for line in maps if "/libcuda.so" in line]
    return [f"-L{path.rpartition('/')[0]}" for path in paths]
