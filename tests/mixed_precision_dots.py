"""Products whose operands are converted on their way, with other work in the loop: 8-bit weights beside fp16, and
microscaled operands."""

from typing import Any

from xdsl.dialects.builtin import ModuleOp

import tilewright as tw
import tilewright.language as tl
from tilewright import dtypes
from tilewright.dtypes import constexpr
from tilewright.frontend import build


@tw.jit
def weights(A, B, C, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A @ B of fp16 and int8 blocks."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(A + m[:, None] * sa + (start + k)[None, :])
        b = tl.load(B + (start + k)[:, None] * sb + n[None, :])
        acc = tl.dot(a, b.to(tl.float16), acc)
    tl.store(C + m[:, None] * sc + n[None, :], acc)


@tw.jit
def scaled(A, S, B, C, K, sa, sb, sc, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = (A * 2^(S-127)) @ B: e4m3 in groups of 32 along K, and bf16."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k, g = tl.arange(0, BK), tl.arange(0, BK // 32)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        a = tl.load(A + m[:, None] * sa + (start + k)[None, :])
        s = tl.load(S + m[:, None] * (K // 32) + (start // 32 + g)[None, :])
        b = tl.load(B + (start + k)[:, None] * sb + n[None, :])
        acc = tl.dot_scaled(a, s, "e4m3", b, None, "bf16", acc)
    tl.store(C + m[:, None] * sc + n[None, :], acc)


def mixed_ir(name: str, blocks: tuple[int, int, int]) -> ModuleOp:
    """Tile IR of one of the kernels. Arguments: the matrices, K and the three pitches, divisible by 16."""
    kernel: Any = {"weights": weights, "scaled": scaled}[name]
    kinds = {
        "weights": {"A": dtypes.float16, "B": dtypes.int8, "C": dtypes.float32},
        "scaled": {"A": dtypes.uint8, "S": dtypes.uint8, "B": dtypes.bfloat16, "C": dtypes.float32},
    }[name]
    signature: dict[str, Any] = {n: dtypes.pointer_type(kind) for n, kind in kinds.items()}
    signature |= dict.fromkeys(("K", "sa", "sb", "sc"), dtypes.int32)
    divisible = dict.fromkeys(signature, 16)
    signature |= {n: constexpr(e) for n, e in zip(("BM", "BN", "BK"), blocks, strict=True)}
    return build(kernel, signature, divisible).module
