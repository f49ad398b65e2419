"""# 10. Ahead of time: a kernel for a C program

A compiled kernel leaves as a header and an object file that need neither Python nor this package.
"""

# %% The grid is an expression of the kernel's arguments, so that the C function takes sizes, not a grid.
import shutil
import subprocess
import tempfile
from pathlib import Path

import tilewright as tw
import tilewright.language as tl


@tw.jit
def axpy(x_ptr, y_ptr, a, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, at < n)
    tl.store(y_ptr + at, a * tl.load(x_ptr + at, at < n) + y, at < n)


folder = Path(tempfile.mkdtemp())
types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "a": "fp32", "n": "i32"}
axpy.compile(types, {"BLOCK": 1024}).export(folder, "axpy", grid="cdiv(n, BLOCK)")
header = (folder / "axpy.h").read_text()
print(header[header.index("int axpy(") : header.index(";", header.index("int axpy("))])

# %% The C program. The last argument is the number of threads (0: one per core).
(folder / "main.c").write_text(
    """
#include <stdio.h>
#include "axpy.h"

int main(void) {
    float x[3000], y[3000];
    for (int i = 0; i < 3000; i++) { x[i] = i; y[i] = 1; }
    int status = axpy(x, y, 2.0f, 3000, 1);
    if (status) { puts(axpy_error(status)); return 1; }
    printf("%g %g\\n", y[1], y[2999]);
    return 0;
}
"""
)

# %% Built and run where there is a C compiler.
if shutil.which("cc"):
    program = folder / "main"
    subprocess.run(
        ["cc", "main.c", "axpy.o", "-o", program, "-lpthread", "-lm"], cwd=folder, check=True
    )
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    print(said)
    assert said.split() == ["3", "5999"]

# %% For a GPU the files are a header and a C launcher that holds the machine code and calls the driver only.
axpy.compile(types, {"BLOCK": 1024}, target="sm_90a").export(
    folder, "axpy_gpu", grid="cdiv(n, BLOCK)"
)
assert (folder / "axpy_gpu.c").is_file()
shutil.rmtree(folder)
