"""LLVM IR that reads a launch's grid and numbers from Python objects, for launchers of any target."""

from __future__ import annotations

#: `i64 @read_grid(grid tuple, ptr out)`, for launchers of any target
READ_GRID = r"""; the product of the extents in a tuple, -1 if it is no grid; writes the three extents
define internal i64 @read_grid(ptr %grid, ptr %out) nounwind {
entry:
  %n = call i64 @PyTuple_Size(ptr %grid)
  %low = icmp sgt i64 %n, 0
  %high = icmp slt i64 %n, 4
  %fits = and i1 %low, %high
  %out1 = getelementptr i64, ptr %out, i64 1
  %out2 = getelementptr i64, ptr %out, i64 2
  store i64 1, ptr %out1
  store i64 1, ptr %out2
  br i1 %fits, label %loop, label %bad
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %good ]
  %total = phi i64 [ 1, %entry ], [ %product, %good ]
  %item = call ptr @PyTuple_GetItem(ptr %grid, i64 %i)
  %extent = call i64 @PyLong_AsLongLong(ptr %item)
  %slot = getelementptr i64, ptr %out, i64 %i
  store i64 %extent, ptr %slot
  %unfit = icmp ugt i64 %extent, 2147483647
  br i1 %unfit, label %bad, label %multiply
multiply:
  %pair = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %total, i64 %extent)
  %product = extractvalue { i64, i1 } %pair, 0
  %overflow = extractvalue { i64, i1 } %pair, 1
  br i1 %overflow, label %bad, label %good
good:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i64 %product
bad:
  call void @PyErr_Clear()
  ret i64 -1
}
"""

#: `i64 @fetch(i8 kind, object)`: the slot of a number; PyErr_Occurred() says whether it was one
FETCH = r"""
declare i64 @PyLong_AsLongLong(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i32 @PyObject_IsTrue(ptr)

define internal i64 @fetch(i8 %kind, ptr %object) nounwind {
entry:
  switch i8 %kind, label %unsigned [ i8 4, label %signed
    i8 6, label %single
    i8 7, label %double
    i8 8, label %bool ]
unsigned:
  %v.u = call i64 @PyLong_AsUnsignedLongLong(ptr %object)
  ret i64 %v.u
signed:
  %v.s = call i64 @PyLong_AsLongLong(ptr %object)
  ret i64 %v.s
single:
  %d1 = call double @PyFloat_AsDouble(ptr %object)
  %f1 = fptrunc double %d1 to float
  %b1 = bitcast float %f1 to i32
  %v.f = zext i32 %b1 to i64
  ret i64 %v.f
double:
  %d2 = call double @PyFloat_AsDouble(ptr %object)
  %v.d = bitcast double %d2 to i64
  ret i64 %v.d
bool:
  %truth = call i32 @PyObject_IsTrue(ptr %object)
  %v.b = zext i32 %truth to i64
  ret i64 %v.b
}
"""
