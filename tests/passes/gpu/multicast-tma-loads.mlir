// RUN: multicast-tma-loads
// Boxes that are at the same place in both iterations are fetched together, others are not.
// CHECK-LABEL: @same
// CHECK-SAME: gpu.cluster_size = 2 : i32
func.func @same(%x: !tile.ptr<f16>, %n: i64, %slot: i32) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %buffer = gpu.local_alloc : !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>
  scf.for %i = %zero to %two step %one : i64 {
    %full = gpu.mbarrier_init : !gpu.mbarriers<2>
    // CHECK: gpu.producer_warp
    gpu.producer_warp {
      %first = arith.addi %i, %n : i64
      %last = scf.for %k = %zero to %n step %one iter_args(%at = %first) -> (i64) : i64 {
        %elected = gpu.elect : i1
        scf.if %elected {
          // CHECK: gpu.tma_load %x
          // CHECK-NOT: gpu.multicast
          // CHECK: gpu.tma_load %x
          // CHECK-SAME: gpu.multicast
          gpu.tma_load %x[%at, %zero] of [%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
          gpu.tma_load %x[%k, %zero] of [%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
        }
        %next = arith.addi %at, %one : i64
        scf.yield %next : i64
      }
    }
  } {tile.parallel_iterations = 1 : i32}
  func.return
}
// -----
// How many copies there are depends on the iteration: each block fetches its own.
// CHECK-LABEL: @numbers_differ
// CHECK-SAME: gpu.cluster_size = 2 : i32
func.func @numbers_differ(%x: !tile.ptr<f16>, %n: i64, %slot: i32) {
  // CHECK-NOT: gpu.multicast
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %buffer = gpu.local_alloc : !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>
  scf.for %i = %zero to %two step %one : i64 {
    %full = gpu.mbarrier_init : !gpu.mbarriers<2>
    gpu.producer_warp {
      %end = arith.addi %i, %n : i64
      scf.for %k = %zero to %end step %one : i64 {
        %elected = gpu.elect : i1
        scf.if %elected {
          gpu.tma_load %x[%k, %zero] of [%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
        }
      }
    }
  } {tile.parallel_iterations = 1 : i32}
  func.return
}
// -----
// Nobody says that the iterations are independent.
// CHECK-LABEL: @a_loop
// CHECK-NOT: gpu.cluster_size
func.func @a_loop(%x: !tile.ptr<f16>, %n: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %f = arith.constant 0.0 : f16
  scf.for %i = %zero to %two step %one : i64 {
    tile.store %x, %f : !tile.ptr<f16>, f16
  }
  func.return
}
// -----
// Both blocks would store what comes after the loop.
// CHECK-LABEL: @stores_after
// CHECK-NOT: gpu.cluster_size
func.func @stores_after(%x: !tile.ptr<f16>, %n: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %f = arith.constant 0.0 : f16
  scf.for %i = %zero to %two step %one : i64 {
    tile.store %x, %f : !tile.ptr<f16>, f16
  } {tile.parallel_iterations = 1 : i32}
  tile.store %x, %f : !tile.ptr<f16>, f16
  func.return
}
// -----
// A box whose place depends on the iteration only by what the loop carries.
// CHECK-LABEL: @carried
// CHECK-NOT: gpu.multicast
func.func @carried(%x: !tile.ptr<f16>, %n: i64, %slot: i32) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
  %buffer = gpu.local_alloc : !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>
  scf.for %i = %zero to %two step %one : i64 {
    %full = gpu.mbarrier_init : !gpu.mbarriers<2>
    gpu.producer_warp {
      %last = scf.for %k = %zero to %n step %one iter_args(%at = %zero) -> (i64) : i64 {
        %twice = arith.addi %at, %at : i64
        %elected = gpu.elect : i1
        scf.if %elected {
          gpu.tma_load %x[%at, %zero] of [%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
          gpu.tma_load %x[%twice, %zero] of [%n, %n] strides(%n) to %buffer[%slot], %full {range_checked = array<i64>} : !tile.ptr<f16>, !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>, !gpu.mbarriers<2>
        }
        %next = arith.addi %twice, %i : i64
        scf.yield %next : i64
      }
    }
  } {tile.parallel_iterations = 1 : i32}
  func.return
}
