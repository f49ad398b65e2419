// RUN: prefetch-loads,cse
// The factor of each iteration is loaded two iterations ahead, as one takes less time than a load; beyond the last nothing is.
// CHECK-LABEL: @decayed
func.func @decayed(%p: !tile.ptr<f32>, %n: i64) -> tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]"> attributes {gpu.num_warps = 1 : i32} {
  // CHECK: [[SOME:%.+]] = tile.cmpi "slt", %zero, %n
  // CHECK: [[FIRST:%.+]] = tile.load {{.+}} mask [[SOME]]
  // CHECK: [[SECOND:%.+]] = tile.load {{.+}} mask
  // CHECK: scf.for %i = %zero to %n step %one iter_args(%acc = %start, %g = [[FIRST]], [[LATER:%.+]] = [[SECOND]])
  // CHECK: [[MORE:%.+]] = tile.cmpi "slt", {{.+}}, %n
  // CHECK: [[ACTIVE:%.+]] = arith.andi {{.+}}, [[MORE]]
  // CHECK: [[NEXT:%.+]] = tile.load {{.+}} mask [[ACTIVE]]
  // CHECK: tile.splat %g
  // CHECK: tile.dot
  // CHECK: scf.yield {{.+}}, [[LATER]], [[NEXT]]
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %h = arith.constant 1.0 : f16
  %f = arith.constant 0.0 : f32
  %a = tile.splat %h : f16 to tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">
  %b = tile.splat %h : f16 to tensor<16x8xf16, "16x8 r[1,0 8,0] l[2,0 4,0 0,1 0,2 0,4] w[]">
  %start = tile.splat %f : f32 to tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
  %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %start) -> (tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">) : i64 {
    %q = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %g = "tile.load"(%q) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tile.ptr<f32>) -> f32
    %gs = tile.splat %g : f32 to tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
    %scaled = arith.mulf %acc, %gs : tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
    %d = tile.dot %a, %b, %scaled, "ieee" {gpu.mma = "m16n8k16.f16"} : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">, tensor<16x8xf16, "16x8 r[1,0 8,0] l[2,0 4,0 0,1 0,2 0,4] w[]">, tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
    scf.yield %d : tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
  }
  func.return %sum : tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
}
// -----
// The loop writes the argument that it reads: the load keeps its place.
// CHECK-LABEL: @written
func.func @written(%p: !tile.ptr<f32>, %n: i64) -> tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]"> attributes {gpu.num_warps = 1 : i32} {
  // CHECK: scf.for %i = %zero to %n step %one iter_args(%acc = %start)
  // CHECK: tile.load
  // CHECK-NOT: tile.load
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %h = arith.constant 1.0 : f16
  %f = arith.constant 0.0 : f32
  %a = tile.splat %h : f16 to tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">
  %b = tile.splat %h : f16 to tensor<16x8xf16, "16x8 r[1,0 8,0] l[2,0 4,0 0,1 0,2 0,4] w[]">
  %start = tile.splat %f : f32 to tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
  %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %start) -> (tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">) : i64 {
    %q = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %g = "tile.load"(%q) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tile.ptr<f32>) -> f32
    %gs = tile.splat %g : f32 to tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
    %scaled = arith.mulf %acc, %gs : tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
    %d = tile.dot %a, %b, %scaled, "ieee" {gpu.mma = "m16n8k16.f16"} : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">, tensor<16x8xf16, "16x8 r[1,0 8,0] l[2,0 4,0 0,1 0,2 0,4] w[]">, tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
    %o = arith.addi %i, %n : i64
    %w = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    "tile.store"(%w, %g) : (!tile.ptr<f32>, f32) -> ()
    scf.yield %d : tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
  }
  func.return %sum : tensor<16x8xf32, "16x8 r[0,1 8,0] l[0,2 0,4 1,0 2,0 4,0] w[]">
}
