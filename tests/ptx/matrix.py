"""What a warp or a warpgroup does together: matrices to and from shared memory, and products.

Fragments as in the PTX ISA: "Matrix Fragments for mma.m16n8k16" and its kin, "Register Fragments for
wgmma.mma_async", "ldmatrix", "stmatrix", "Matrix descriptor format".
"""

import re

import numpy as np
from tests.ptx.values import KINDS, Fault, bits_of, seen, swizzled

_TF32 = np.uint64(0xFFFFE000)
"""What tensor cores read of an fp32 number."""
_GROUP, _IN_GROUP = np.arange(32) >> 2, np.arange(32) & 3


def _rows_of(addresses, warp, count):
    """Addresses of the rows of `count` matrices that a warp's lanes name: [count, 8]."""
    return addresses[warp][: 8 * count].reshape(count, 8)


def load_matrices(shared, addresses, warp, count, turned):
    """Registers of `ldmatrix`, [count][32]."""
    threads = np.repeat(warp[: 8 * count], 1)
    raw = shared.read(_rows_of(addresses, warp, count).ravel(), 16, threads)
    tiles = np.ascontiguousarray(raw).view(np.uint16).reshape(count, 8, 8)
    if turned:
        tiles = tiles.transpose(0, 2, 1)
    low = tiles[:, _GROUP, 2 * _IN_GROUP].astype(np.uint64)
    high = tiles[:, _GROUP, 2 * _IN_GROUP + 1].astype(np.uint64)
    return low | high << np.uint64(16)


def store_matrices(shared, addresses, warp, words, turned):
    """`stmatrix` of words [count][32]."""
    count = len(words)
    tiles = np.zeros((count, 8, 8), np.uint16)
    tiles[:, _GROUP, 2 * _IN_GROUP] = (words & np.uint64(0xFFFF)).astype(np.uint16)
    tiles[:, _GROUP, 2 * _IN_GROUP + 1] = (words >> np.uint64(16)).astype(np.uint16)
    if turned:
        tiles = np.ascontiguousarray(tiles.transpose(0, 2, 1))
    data = tiles.reshape(count * 8, 8).view(np.uint8)
    shared.write(_rows_of(addresses, warp, count).ravel(), data, warp[: 8 * count])


# ---- mma.sync -----------------------------------------------------------------------------------------


def _elements(words, kind):
    """Registers [n][32] as elements [n][elements of one][32]."""
    if kind == "f64":
        return np.stack([seen(w, kind)[None] for w in words])
    if kind == "tf32":
        return np.stack([seen(w & _TF32, "f32")[None] for w in words])
    size = np.dtype(KINDS[kind]).itemsize
    return np.stack(
        [
            np.stack([seen(w >> np.uint64(8 * size * i), kind) for i in range(4 // size)])
            for w in words
        ]
    )


def _wide(kind):
    return np.int64 if kind in ("s8", "u8") else np.float64


def multiply(shape, kinds, a, b, c):
    """`mma.sync` of a warp: registers [n][32] of A, B and C -> those of D."""
    m, k = int(shape[1 : shape.index("n")]), int(shape.split("k")[1])
    sums, left, right, _ = kinds
    x, y = _elements(a, left), _elements(b, right)
    pack = x.shape[1]
    wide_a, wide_b = np.zeros((m, k), _wide(left)), np.zeros((k, 8), _wide(right))
    for register in range(len(a)):
        row = _GROUP + (8 * (register & 1) if m == 16 else 0)
        step = 4 * pack * (register >> 1 if m == 16 else register)
        for i in range(pack):
            wide_a[row, step + _IN_GROUP * pack + i] = x[register, i]
    for register in range(len(b)):
        for i in range(pack):
            wide_b[4 * pack * register + _IN_GROUP * pack + i, _GROUP] = y[register, i]
    made = wide_a @ wide_b
    if sums == "f16":
        before = _elements(c, "f16")
        result = []
        for register in range(2):
            word = np.zeros(32, np.uint64)
            for i in (0, 1):
                total = made[_GROUP + 8 * register, 2 * _IN_GROUP + i] + before[register, i]
                word |= bits_of(total.astype(np.float16)) << np.uint64(16 * i)
            result.append(word)
        return result
    result = []
    for register in range(len(c)):
        at = made[_GROUP + 8 * (register >> 1), 2 * _IN_GROUP + (register & 1)]
        total = seen(c[register], sums).astype(at.dtype) + at
        result.append(bits_of(_narrowed(total, sums)))
    return result


def _narrowed(values, kind):
    if kind == "s32":
        return values.astype(np.int64).astype(np.int32)
    return values.astype(KINDS[kind])


# ---- wgmma ------------------------------------------------------------------------------------------------

_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}


def _operand(shared, origin, descriptor, extent, k, size, along_k, warps):
    """The bytes [extent, k, size] of an operand that a descriptor describes, and where they are."""
    start = origin + ((descriptor & 0x3FFF) << 4)
    leading = (descriptor >> 16 & 0x3FFF) << 4
    stride = (descriptor >> 32 & 0x3FFF) << 4
    span = _SPANS[descriptor >> 62]
    if descriptor >> 49 & 7:
        raise Fault("a descriptor with a base offset")
    mn, kk = np.meshgrid(np.arange(extent), np.arange(k), indexing="ij")
    if along_k:
        line, inside = mn, kk * size
    else:
        line, inside = kk, mn * size
    width = span or 16
    panel, inside = inside // width, inside % width
    if span or along_k:
        offset = line // 8 * stride + line % 8 * width + panel * leading
        if along_k and span and k * size > span:
            raise Fault("an operand wider than its swizzle")
    else:
        offset = line // 8 * leading + line % 8 * width + panel * stride
    address = swizzled(start + offset + inside, span)
    cells = shared.at(address.ravel(), size)
    return shared.begin_reading(cells, warps).reshape(extent, k, size), cells


_WGMMA = re.compile(r"m64n(\d+)k(\d+)")


def _from_registers(words, kind, k):
    """The 64 x k operand that 128 threads have in four registers each."""
    elements = _elements(words, kind)
    pack, lanes = elements.shape[1], np.arange(128)
    rows, columns = lanes // 32 * 16 + (lanes % 32 >> 2), pack * (lanes & 3)
    result = np.zeros((64, k), _wide(kind))
    for i in range(len(words)):
        for j in range(pack):
            result[rows + 8 * (i & 1), columns + 4 * pack * (i >> 1) + j] = elements[i, j]
    return result


def group_multiply(shared, origin, mods, descriptors, flags, words, left_words, warps):
    """`wgmma.mma_async` of 128 threads, in `warps` of the CTA whose shared memory begins `origin` bytes behind the
    first one's: accumulators [n][128] -> new ones, and the cells that are read."""
    shape, sums, left, right = mods
    n, k = map(int, _WGMMA.fullmatch(shape).groups())
    add, *rest = flags
    majors = rest[2:] if len(rest) > 2 else [0, 0]
    majors = [0] * (2 - len(majors)) + majors  # of an operand in registers there is none
    operands, taken = [], []
    for descriptor, extent, kind, major in zip(
        descriptors, (64, n), (left, right), majors, strict=True
    ):
        if left_words is not None and not operands:
            operands.append(_from_registers(left_words, kind, k))
            continue
        cut, kind = kind == "tf32", "f32" if kind == "tf32" else kind
        size = np.dtype(KINDS[kind]).itemsize
        raw, cells = _operand(shared, origin, descriptor, extent, k, size, not major, warps)
        taken.append(cells.ravel())
        raw = np.ascontiguousarray(raw)
        if cut:
            raw = (raw.view(np.uint32) & np.uint32(_TF32)).view(np.uint8)
        operands.append(raw.view(KINDS[kind])[..., 0].astype(_wide(kind)))
    made = operands[0] @ operands[1].T
    lanes = np.arange(128)
    rows, columns = lanes // 32 * 16 + (lanes % 32 >> 2), 2 * (lanes & 3)
    result = []
    for i, word in enumerate(words):
        if sums == "f16":
            total = np.zeros(128, np.uint64)
            for j in (0, 1):
                at = made[rows + 8 * (i & 1), columns + 8 * (i >> 1) + j]
                before = seen(word >> np.uint64(16 * j), "f16").astype(np.float64) if add else 0
                total |= bits_of((at + before).astype(np.float16)) << np.uint64(16 * j)
            result.append(total)
            continue
        at = made[rows + 8 * (i >> 1 & 1), columns + 8 * (i >> 2) + (i & 1)]
        before = seen(word, sums).astype(at.dtype) if add else 0
        result.append(bits_of(_narrowed(at + before, sums)))
    return np.array(result), np.concatenate(taken)
