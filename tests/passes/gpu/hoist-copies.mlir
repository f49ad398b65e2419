// RUN: hoist-copies
// Both groups are issued first, with the address of the second, in the order of their waits; a store is not passed.
// CHECK-LABEL: @straight
func.func @straight(%p: !tile.ptr<f16>, %q: !tile.ptr<f16>, %n: i64, %s: i64) {
  // CHECK: gpu.async_copy %p
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK: %r = tile.addptr %q, %n
  // CHECK-NEXT: gpu.async_copy %r
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK: gpu.async_wait 1
  // CHECK: gpu.local_load %a
  // CHECK: gpu.async_wait 0
  // CHECK: gpu.local_load %b
  // CHECK: tile.store_view
  // CHECK: gpu.async_copy %p
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK-NEXT: gpu.async_wait 0
  %a = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  %b = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  %c = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i64
  %true = arith.constant true
  gpu.async_copy %p ["strided", "strided"] strides(%s, %one) to %a[%zero] if %true {layout = "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]", limited = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  gpu.async_commit_group
  gpu.async_wait 0 : i32
  gpu.barrier
  %x = gpu.local_load %a[%zero] : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1> to tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
  gpu.barrier
  %r = tile.addptr %q, %n : !tile.ptr<f16>, i64 to !tile.ptr<f16>
  gpu.async_copy %r ["strided", "strided"] strides(%s, %one) to %b[%zero] if %true {layout = "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]", limited = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  gpu.async_commit_group
  gpu.async_wait 0 : i32
  gpu.barrier
  %y = gpu.local_load %b[%zero] : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1> to tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
  %z = arith.addf %x, %y : tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
  tile.store_view %z, %p ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">, !tile.ptr<f16>
  gpu.barrier
  gpu.async_copy %p ["strided", "strided"] strides(%s, %one) to %c[%zero] if %true {layout = "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]", limited = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  gpu.async_commit_group
  gpu.async_wait 0 : i32
  gpu.barrier
  %u = gpu.local_load %c[%zero] : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1> to tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
  tile.store_view %u, %q ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">, !tile.ptr<f16>
  func.return
}
// -----
// RUN: hoist-copies
// In a loop the last read of a buffer must be over, by a barrier at the end, for a copy to pass barriers.
// CHECK-LABEL: @repeated
func.func @repeated(%p: !tile.ptr<f16>, %q: !tile.ptr<f16>, %n: i64, %s: i64) {
  // CHECK: scf.for %i
  // CHECK: gpu.async_copy %p{{.+}} to %a
  // CHECK: gpu.async_wait 0
  // CHECK: gpu.local_load %a
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.async_copy %q{{.+}} to %b
  // CHECK: gpu.async_wait 0
  %a = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  %b = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  %zero = arith.constant 0 : i32
  %start = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %true = arith.constant true
  scf.for %i = %start to %n step %one : i64 {
    gpu.async_copy %p ["strided", "strided"] strides(%s, %one) to %a[%zero] if %true {layout = "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]", limited = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
    gpu.async_commit_group
    gpu.async_wait 0 : i32
    gpu.barrier
    %x = gpu.local_load %a[%zero] : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1> to tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
    gpu.barrier
    gpu.async_copy %q ["strided", "strided"] strides(%s, %one) to %b[%zero] if %true {layout = "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]", limited = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
    gpu.async_commit_group
    gpu.async_wait 0 : i32
    gpu.barrier
    %y = gpu.local_load %b[%zero] : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1> to tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
    %z = arith.addf %x, %y : tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
    tile.store_view %z, %p ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">, !tile.ptr<f16>
  }
  func.return
}
// -----
// RUN: hoist-copies
// Buffers that are never live at once are counted once: a longer life of a small one leaves as many CTAs on an SM.
// CHECK-LABEL: @in_turn
func.func @in_turn(%p: !tile.ptr<f16>, %x: tensor<128x128xf32>, %s: i64) {
  // CHECK: gpu.async_copy %p{{.+}} to %c
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK: gpu.local_store %x
  // CHECK: gpu.local_store %y
  // CHECK: gpu.async_wait 0
  %a = gpu.local_alloc : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  %b = gpu.local_alloc : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  %c = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i64
  %true = arith.constant true
  gpu.local_store %x, %a[%zero] : tensor<128x128xf32>, !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  gpu.barrier
  %y = gpu.local_load %a[%zero] : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1> to tensor<128x128xf32>
  gpu.local_dealloc %a : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  gpu.barrier
  gpu.local_store %y, %b[%zero] : tensor<128x128xf32>, !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  gpu.barrier
  %z = gpu.local_load %b[%zero] : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1> to tensor<128x128xf32>
  gpu.local_dealloc %b : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  gpu.barrier
  gpu.async_copy %p ["strided", "strided"] strides(%s, %one) to %c[%zero] if %true {layout = "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]", limited = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1>
  gpu.async_commit_group
  gpu.async_wait 0 : i32
  gpu.barrier
  %u = gpu.local_load %c[%zero] : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle32", 1> to tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">
  tile.store_view %u, %p ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<64x16xf16, "64x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[16,0 32,0]">, !tile.ptr<f16>
  func.return
}
