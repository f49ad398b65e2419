"""LLVM IR that makes the tensor maps of a launch, and the descriptions that it reads.

A map's description (offsets in bytes):

    0 index of the slot with the address   8 CUtensorMapDataType   16 box x, y (i32 each)
    24 CUtensorMapSwizzle   32 bytes of an element   40 programs of width, height, pitch (3 words)
    64… a direct-mapped cache of 8 entries of 192: address, width, height, pitch (bytes), 32 spare, map

A program is `terms, then for each: coefficient, factors, slot indices…`: the sum of products that
`backends.base.Extent` is. Everything happens under the GIL, and what the driver reads later is a copy
on the launching thread's stack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from tilewright.backends.base import Extent, TensorMap

MAP_BYTES, CACHE_ENTRIES, ENTRY_BYTES = 128, 8, 192
DESCRIPTION_BYTES = 64 + CACHE_ENTRIES * ENTRY_BYTES
#: of CUtensorMapDataType, unsigned integers by size: boxes are copied as they are
DATA_TYPES = {1: 0, 2: 1, 4: 2, 8: 4}
#: of CUtensorMapSwizzle, by span in bytes
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
L2_PROMOTION_256 = 3

ENCODE = r"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)

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
  %dims = alloca [2 x i64], align 16
  %strides = alloca [2 x i64], align 16
  %steps = alloca [2 x i32], align 16
  %slot = load i64, ptr %map
  %address.p = getelementptr i64, ptr %slots, i64 %slot
  %address = load i64, ptr %address.p
  %p40 = getelementptr i8, ptr %map, i64 40
  %width.f = load ptr, ptr %p40
  %width.0 = call i64 @evaluate(ptr %width.f, ptr %slots)
  %width = call i64 @llvm.smax.i64(i64 %width.0, i64 1)
  %p48 = getelementptr i8, ptr %map, i64 48
  %height.f = load ptr, ptr %p48
  %height.0 = call i64 @evaluate(ptr %height.f, ptr %slots)
  %height = call i64 @llvm.smax.i64(i64 %height.0, i64 1)
  %p56 = getelementptr i8, ptr %map, i64 56
  %pitch.f = load ptr, ptr %p56
  %pitch.e = call i64 @evaluate(ptr %pitch.f, ptr %slots)
  %p32 = getelementptr i8, ptr %map, i64 32
  %size = load i64, ptr %p32
  %pitch = mul i64 %pitch.e, %size
  %h1 = lshr i64 %address, 9
  %h2 = lshr i64 %address, 16
  %h3 = lshr i64 %address, 21
  %h4 = xor i64 %h1, %h2
  %h5 = xor i64 %h4, %h3
  %hash = and i64 %h5, 7
  %entry.o = mul i64 %hash, 192
  %cache = getelementptr i8, ptr %map, i64 64
  %known = getelementptr i8, ptr %cache, i64 %entry.o
  %k1.p = getelementptr i64, ptr %known, i64 1
  %k2.p = getelementptr i64, ptr %known, i64 2
  %k3.p = getelementptr i64, ptr %known, i64 3
  %k0 = load i64, ptr %known
  %k1 = load i64, ptr %k1.p
  %k2 = load i64, ptr %k2.p
  %k3 = load i64, ptr %k3.p
  %e0 = icmp eq i64 %k0, %address
  %e1 = icmp eq i64 %k1, %width
  %e2 = icmp eq i64 %k2, %height
  %e3 = icmp eq i64 %k3, %pitch
  %e01 = and i1 %e0, %e1
  %e23 = and i1 %e2, %e3
  %hit = and i1 %e01, %e23
  %kept = getelementptr i8, ptr %known, i64 64
  br i1 %hit, label %copy, label %encode
encode:
  store i64 %width, ptr %dims
  %d1 = getelementptr i64, ptr %dims, i64 1
  store i64 %height, ptr %d1
  store i64 %pitch, ptr %strides
  store i32 1, ptr %steps
  %s1 = getelementptr i32, ptr %steps, i64 1
  store i32 1, ptr %s1
  %p8 = getelementptr i8, ptr %map, i64 8
  %type64 = load i64, ptr %p8
  %type = trunc i64 %type64 to i32
  %box = getelementptr i8, ptr %map, i64 16
  %p24 = getelementptr i8, ptr %map, i64 24
  %swizzle64 = load i64, ptr %p24
  %swizzle = trunc i64 %swizzle64 to i32
  %to = inttoptr i64 %address to ptr
  store i64 -1, ptr %k1.p
  %function.p = getelementptr i8, ptr @tw_cuda_state, i64 48
  %function = load ptr, ptr %function.p
  %code = call i32 %function(ptr %kept, i32 %type, i32 2, ptr %to, ptr %dims, ptr %strides, ptr %box, ptr %steps, i32 0, i32 %swizzle, i32 3, i32 0)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %remember
failed:
  ret i32 %code
remember:
  store i64 %address, ptr %known
  store i64 %width, ptr %k1.p
  store i64 %height, ptr %k2.p
  store i64 %pitch, ptr %k3.p
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
""".replace("DESCRIPTION_BYTES", str(DESCRIPTION_BYTES))


def describe(maps: Sequence[TensorMap]) -> tuple[int, Any]:
    """`(address, keep)` of the descriptions of a kernel's tensor maps; keep `keep` as long."""
    buffer = ctypes.create_string_buffer(64 + DESCRIPTION_BYTES * len(maps))
    base = (ctypes.addressof(buffer) + 63) & ~63
    programs = [[_program(e) for e in (m.width, m.height, m.pitch)] for m in maps]
    for i, tensor_map in enumerate(maps):
        words = (ctypes.c_int64 * 8).from_address(base + i * DESCRIPTION_BYTES)
        x, y = tensor_map.box
        words[0], words[1] = tensor_map.argument, DATA_TYPES[tensor_map.element_bytes]
        words[2], words[3] = x | y << 32, SWIZZLES[tensor_map.span]
        words[4] = tensor_map.element_bytes
        words[5:8] = [ctypes.addressof(program) for program in programs[i]]
    return base, (buffer, programs)


def _program(extent: Extent) -> Any:
    words = [len(extent.terms)]
    for coefficient, factors in extent.terms:
        words += [coefficient, len(factors), *factors]
    return (ctypes.c_int64 * len(words))(*words)
