"""LLVM IR that makes the tensor maps of a launch, and the descriptions that it reads.

A map's description (offsets in bytes):

    0 index of the slot with the address   8 CUtensorMapDataType   16 dimensions   24 CUtensorMapSwizzle
    32 bytes of an element   40 box (5 i32)   64 programs of extents (5 words)   104 of pitches (4 words)
    192… a direct-mapped cache of 8 entries of 256: address, extents, pitches in bytes (10 words), 48
    spare, map

A program is `terms, then for each: coefficient, factors, slot indices…`: the sum of products that
`backends.base.Extent` is. Everything happens under the GIL, and what the driver reads later is a copy
on the launching thread's stack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tilewright.backends.base import Extent, TensorMap

MAP_BYTES, CACHE_ENTRIES, ENTRY_BYTES = 128, 8, 256
DESCRIPTION_BYTES = 192 + CACHE_ENTRIES * ENTRY_BYTES
#: of CUtensorMapDataType, unsigned integers by size: boxes are copied as they are
DATA_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
#: of CUtensorMapSwizzle, by span in bytes
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
#: of CUtensorMapL2promotion: how much of L2's lines of 128 bytes a miss fetches from memory
_WHOLE_LINES, _PAIRS_OF_LINES = 2, 3
_LINE = 128


def promotion(places: Sequence[int]) -> int:
    """CUtensorMapL2promotion for a matrix with this address and these pitches in bytes.

    Pairs of lines, unless rows begin inside of lines: each row of a box then is on two of them as it is, and pairs
    made products of fp16 slower by a seventh (an H200, 128 × 256 tiles, 4104³; 1000³ by a ninth).
    """
    return _WHOLE_LINES if any(place % _LINE for place in places) else _PAIRS_OF_LINES


ENCODE = r"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.vector.reduce.or.v4i64(<4 x i64>)

define internal i64 @evaluate(ptr %program, ptr %slots) nounwind {
entry:
  %terms = load i64, ptr %program
  %start = getelementptr i64, ptr %program, i64 1
  br label %term
term:
  %t = phi i64 [ 0, %entry ], [ %t.next, %end ]
  %at = phi ptr [ %start, %entry ], [ %rest, %end ]
  %total = phi i64 [ 0, %entry ], [ %sum, %end ]
  %more = icmp ult i64 %t, %terms
  br i1 %more, label %open, label %done
open:
  %coefficient = load i64, ptr %at
  %count.p = getelementptr i64, ptr %at, i64 1
  %count = load i64, ptr %count.p
  %factors = getelementptr i64, ptr %at, i64 2
  br label %factor
factor:
  %f = phi i64 [ 0, %open ], [ %f.next, %multiply ]
  %product = phi i64 [ %coefficient, %open ], [ %multiplied, %multiply ]
  %another = icmp ult i64 %f, %count
  br i1 %another, label %multiply, label %end
multiply:
  %index.p = getelementptr i64, ptr %factors, i64 %f
  %index = load i64, ptr %index.p
  %value.p = getelementptr i64, ptr %slots, i64 %index
  %value = load i64, ptr %value.p
  %multiplied = mul i64 %product, %value
  %f.next = add i64 %f, 1
  br label %factor
end:
  %sum = add i64 %total, %product
  %rest = getelementptr i64, ptr %factors, i64 %count
  %t.next = add i64 %t, 1
  br label %term
done:
  ret i64 %total
}

; the map of one description, in `out`; a CUresult
define internal i32 @make_map(ptr %map, ptr %slots, ptr %out) nounwind {
entry:
  %key = alloca [10 x i64], align 16
  %steps = alloca [5 x i32], align 16
  call void @llvm.memset.p0.i64(ptr align 16 %key, i8 0, i64 80, i1 false)
  %slot = load i64, ptr %map
  %address.p = getelementptr i64, ptr %slots, i64 %slot
  %address = load i64, ptr %address.p
  store i64 %address, ptr %key
  %p16 = getelementptr i8, ptr %map, i64 16
  %rank = load i64, ptr %p16
  %p32 = getelementptr i8, ptr %map, i64 32
  %size = load i64, ptr %p32
  %extents = getelementptr i8, ptr %map, i64 64
  %pitches = getelementptr i8, ptr %map, i64 104
  %dims = getelementptr i64, ptr %key, i64 1
  %strides = getelementptr i64, ptr %key, i64 6
  br label %extent
extent:
  %d = phi i64 [ 0, %entry ], [ %d.next, %short ]
  %e.pp = getelementptr ptr, ptr %extents, i64 %d
  %e.p = load ptr, ptr %e.pp
  %e.0 = call i64 @evaluate(ptr %e.p, ptr %slots)
  %e = call i64 @llvm.smax.i64(i64 %e.0, i64 1)
  %long = icmp ugt i64 %e, LARGEST_EXTENT
  br i1 %long, label %refused, label %short
refused:
  ret i32 1
short:
  %dim.p = getelementptr i64, ptr %dims, i64 %d
  store i64 %e, ptr %dim.p
  %step.p = getelementptr i32, ptr %steps, i64 %d
  store i32 1, ptr %step.p
  %d.next = add i64 %d, 1
  %d.more = icmp ult i64 %d.next, %rank
  br i1 %d.more, label %extent, label %lines
lines:
  %planes = sub i64 %rank, 1
  %l.p = load ptr, ptr %pitches
  %l = call i64 @evaluate(ptr %l.p, ptr %slots)
  %line = mul i64 %l, %size
  store i64 %line, ptr %strides
  br label %pitch
pitch:
  %s = phi i64 [ 1, %lines ], [ %s.next, %plane ]
  %s.more = icmp ult i64 %s, %planes
  br i1 %s.more, label %plane, label %look
plane:
  %s.pp = getelementptr ptr, ptr %pitches, i64 %s
  %s.p = load ptr, ptr %s.pp
  %s.0 = call i64 @evaluate(ptr %s.p, ptr %slots)
  %s.1 = mul i64 %s.0, %size
  %flat = icmp eq i64 %s.1, 0
  %stride = select i1 %flat, i64 %line, i64 %s.1
  %stride.p = getelementptr i64, ptr %strides, i64 %s
  store i64 %stride, ptr %stride.p
  %s.next = add i64 %s, 1
  br label %pitch
look:
  %h1 = lshr i64 %address, 9
  %h2 = lshr i64 %address, 16
  %h3 = lshr i64 %address, 21
  %h4 = xor i64 %h1, %h2
  %h5 = xor i64 %h4, %h3
  %hash = and i64 %h5, 7
  %entry.o = mul i64 %hash, 256
  %cache = getelementptr i8, ptr %map, i64 192
  %known = getelementptr i8, ptr %cache, i64 %entry.o
  %kept = getelementptr i8, ptr %known, i64 128
  br label %compare
compare:
  %w = phi i64 [ 0, %look ], [ %w.next, %same ]
  %ours.p = getelementptr i64, ptr %key, i64 %w
  %ours = load i64, ptr %ours.p
  %theirs.p = getelementptr i64, ptr %known, i64 %w
  %theirs = load i64, ptr %theirs.p
  %equal = icmp eq i64 %ours, %theirs
  br i1 %equal, label %same, label %encode
same:
  %w.next = add i64 %w, 1
  %w.more = icmp ult i64 %w.next, 10
  br i1 %w.more, label %compare, label %copy
encode:
  %p8 = getelementptr i8, ptr %map, i64 8
  %type64 = load i64, ptr %p8
  %type = trunc i64 %type64 to i32
  %rank32 = trunc i64 %rank to i32
  %box = getelementptr i8, ptr %map, i64 40
  %p24 = getelementptr i8, ptr %map, i64 24
  %swizzle64 = load i64, ptr %p24
  %swizzle = trunc i64 %swizzle64 to i32
  %to = inttoptr i64 %address to ptr
  %first = getelementptr i64, ptr %known, i64 1
  store i64 0, ptr %first
  %function.p = getelementptr i8, ptr @tw_cuda_state, i64 48
  %function = load ptr, ptr %function.p
  %places = load <4 x i64>, ptr %strides, align 8
  %any.0 = call i64 @llvm.vector.reduce.or.v4i64(<4 x i64> %places)
  %any = or i64 %any.0, %address
  %inside = and i64 %any, 127
  %begins = icmp eq i64 %inside, 0
  %promotion = select i1 %begins, i32 3, i32 2
  %code = call i32 %function(ptr %kept, i32 %type, i32 %rank32, ptr %to, ptr %dims, ptr %strides, ptr %box, ptr %steps, i32 0, i32 %swizzle, i32 %promotion, i32 0)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %remember
failed:
  ret i32 %code
remember:
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %known, ptr align 16 %key, i64 80, i1 false)
  br label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %out, ptr align 64 %kept, i64 128, i1 false)
  ret i32 0
}

define internal i32 @make_maps(ptr %described, i64 %count, ptr %slots, ptr %space, ptr %params) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %made ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %offset = mul i64 %i, DESCRIPTION_BYTES
  %map = getelementptr i8, ptr %described, i64 %offset
  %at = mul i64 %i, 128
  %out = getelementptr i8, ptr %space, i64 %at
  %code = call i32 @make_map(ptr %map, ptr %slots, ptr %out)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %made
failed:
  ret i32 %code
made:
  %param = getelementptr ptr, ptr %params, i64 %i
  store ptr %out, ptr %param
  %next = add i64 %i, 1
  br label %loop
done:
  ret i32 0
}
""".replace("DESCRIPTION_BYTES", str(DESCRIPTION_BYTES)).replace(
    "LARGEST_EXTENT", str(TensorMap.LARGEST_EXTENT)
)


def describe(maps: Sequence[TensorMap]) -> tuple[int, Any]:
    """`(address, keep)` of the descriptions of a kernel's tensor maps; keep `keep` as long."""
    buffer = ctypes.create_string_buffer(64 + DESCRIPTION_BYTES * len(maps))
    base = (ctypes.addressof(buffer) + 63) & ~63
    programs: list[Any] = []
    for i, tensor_map in enumerate(maps):
        words = (ctypes.c_int64 * 24).from_address(base + i * DESCRIPTION_BYTES)
        x, y = tensor_map.box_dims
        words[0], words[1] = tensor_map.argument, DATA_TYPES[tensor_map.element_bytes]
        words[2], words[3] = len(tensor_map.global_dims), SWIZZLES[tensor_map.swizzle_bytes]
        words[4] = tensor_map.element_bytes
        words[5:8] = [x | y << 32, 1 | 1 << 32, 1]
        for first, sizes in ((8, tensor_map.global_dims), (13, tensor_map.global_strides)):
            made = [_program(size) for size in sizes]
            words[first : first + len(made)] = [ctypes.addressof(program) for program in made]
            programs += made
    return base, (buffer, programs)


def _program(extent: Extent) -> Any:
    words = [len(extent.terms)]
    for coefficient, factors in extent.terms:
        words += [coefficient, len(factors), *factors]
    return (ctypes.c_int64 * len(words))(*words)
