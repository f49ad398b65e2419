"""The tutorial's matmul as tile IR with blocks of any extents.

The language has powers of two only; tile IR, and what a generator of it may write, has not. So the kernel
is built for large powers of two, and these are replaced in its text.
"""

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.frontend import build
from tilewright.ir.text import parse_ir
from tilewright.runtime.jit import JITFunction

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
M, N = 512, 1024
"""The extents that are replaced: no other number of the kernel is one of these, or one less."""


def _kernel() -> Any:
    name = "seeds_loader"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    kernel = sys.modules[name].load("tutorial_matmul").matmul_kernel
    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel


def product_ir(
    m: int, n: int, k: int, *, even: bool = True, dtype: Any = dtypes.float16, group: int = 8
) -> ModuleOp:
    """Blocks of m×n, k at a time; sizes and strides divisible by 16, matrices row-major.

    Arguments: a, b, c, M, N, K, stride_am, stride_bk, stride_cm. `even`: k divides K.
    """
    fixed = {
        "BLOCK_SIZE_M": M, "BLOCK_SIZE_N": N, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": group,
        "EVEN_K": even, "ACTIVATION": "", "stride_ak": 1, "stride_bn": 1, "stride_cn": 1,
    }  # fmt: skip
    kernel = _kernel()
    signature: dict[str, Any] = {}
    for parameter in kernel.params:
        if parameter.name in fixed:
            signature[parameter.name] = constexpr(fixed[parameter.name])
        elif parameter.name.endswith("_ptr"):
            signature[parameter.name] = dtypes.pointer_type(dtype)
        else:
            signature[parameter.name] = dtypes.int32
    divisible = {name: 16 for name, kind in signature.items() if not isinstance(kind, constexpr)}
    text = str(build(kernel, signature, divisible).module)
    for old, new in ((M, m), (N, n)):
        for less in (0, 1):
            number = rf"(?<![\w.]){old - less}(?=[x :>])|(?<=x){old - less}(?=x)"
            text = re.sub(number, str(new - less), text)
    return parse_ir(text)


def grid(m: int, n: int, blocks: tuple[int, int]) -> tuple[int, int, int]:
    """Programs for an m×n result."""
    return (-(-m // blocks[0]) * -(-n // blocks[1]), 1, 1)
