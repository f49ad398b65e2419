// RUN: deallocate-shared
// One buffer is dead when the next is written: both have one place, and an SM has room for twice as many CTAs.
// CHECK-LABEL: @dead
func.func @dead(%x: tensor<128x128xf32>) {
  // CHECK: [[A:%.+]] = gpu.local_alloc
  // CHECK: [[B:%.+]] = gpu.local_alloc
  // CHECK: scf.for
  // CHECK: gpu.local_load [[A]]
  // CHECK-NEXT: gpu.local_dealloc [[A]] :
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.local_load [[B]]
  // CHECK-NEXT: gpu.local_dealloc [[B]] :
  // CHECK-NEXT: gpu.barrier
  %n = arith.constant 2 : i32
  %s = arith.constant 0 : i32
  %t = arith.constant 1 : i32
  %a = gpu.local_alloc : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  %b = gpu.local_alloc : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  scf.for %i = %s to %n step %t : i32 {
    gpu.local_store %x, %a[%s] : tensor<128x128xf32>, !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
    gpu.barrier
    %y = gpu.local_load %a[%s] : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1> to tensor<128x128xf32>
    gpu.barrier
    gpu.local_store %y, %b[%s] : tensor<128x128xf32>, !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
    gpu.barrier
    %z = gpu.local_load %b[%s] : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1> to tensor<128x128xf32>
    gpu.barrier
  }
  func.return
}

// -----
// What an iteration reads before it writes it was left by the one before: it is live all the time.
// CHECK-LABEL: @carried
func.func @carried(%x: tensor<128x128xf32>) {
  // CHECK-NOT: gpu.local_dealloc
  %n = arith.constant 2 : i32
  %s = arith.constant 0 : i32
  %t = arith.constant 1 : i32
  %a = gpu.local_alloc : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  %b = gpu.local_alloc : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  gpu.local_store %x, %a[%s] : tensor<128x128xf32>, !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
  gpu.barrier
  scf.for %i = %s to %n step %t : i32 {
    %y = gpu.local_load %a[%s] : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1> to tensor<128x128xf32>
    gpu.barrier
    gpu.local_store %y, %b[%s] : tensor<128x128xf32>, !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
    gpu.barrier
    %z = gpu.local_load %b[%s] : !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1> to tensor<128x128xf32>
    gpu.barrier
    gpu.local_store %z, %a[%s] : tensor<128x128xf32>, !gpu.shared<tensor<128x128xf32>, "128x128x4 dim1 swizzle0", 1>
    gpu.barrier
  }
  func.return
}
