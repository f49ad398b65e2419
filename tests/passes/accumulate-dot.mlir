// RUN: accumulate-dot
// CHECK-LABEL: @product_on_either_side
func.func @product_on_either_side(%p: tensor<4x4x!tile.ptr<f32>>, %a: tensor<4x4xf16>, %acc: tensor<4x4xf32>) {
  // CHECK: [[D:%.+]] = tile.dot %a, %a, %acc, "ieee"
  // CHECK-NOT: arith.addf
  // CHECK: tile.dot %a, %a, [[D]], "tf32"
  %z = arith.constant 0.0 : f32
  %zeros = tile.splat %z : f32 to tensor<4x4xf32>
  %d = tile.dot %a, %a, %zeros, "ieee" : tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf32> to tensor<4x4xf32>
  %r = arith.addf %d, %acc : tensor<4x4xf32>
  %e = tile.dot %a, %a, %zeros, "tf32" : tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf32> to tensor<4x4xf32>
  %s = arith.addf %r, %e : tensor<4x4xf32>
  tile.store %p, %s : tensor<4x4x!tile.ptr<f32>>, tensor<4x4xf32>
  func.return
}

// -----
// CHECK-LABEL: @integers
func.func @integers(%p: tensor<4x4x!tile.ptr<i32>>, %a: tensor<4x4xi8>, %acc: tensor<4x4xi32>) {
  // CHECK: tile.dot %a, %a, %acc
  // CHECK-NOT: arith.addi
  %z = arith.constant 0 : i32
  %zeros = tile.splat %z : i32 to tensor<4x4xi32>
  %d = tile.dot %a, %a, %zeros, "ieee" : tensor<4x4xi8>, tensor<4x4xi8>, tensor<4x4xi32> to tensor<4x4xi32>
  %r = arith.addi %acc, %d : tensor<4x4xi32>
  tile.store %p, %r : tensor<4x4x!tile.ptr<i32>>, tensor<4x4xi32>
  func.return
}

// -----
// A product with a second user, or one that already accumulates, stays.
// CHECK-LABEL: @kept
func.func @kept(%p: tensor<4x4x!tile.ptr<f32>>, %a: tensor<4x4xf16>, %acc: tensor<4x4xf32>) {
  // CHECK-COUNT-2: arith.addf
  %z = arith.constant 0.0 : f32
  %zeros = tile.splat %z : f32 to tensor<4x4xf32>
  %d = tile.dot %a, %a, %zeros, "ieee" : tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf32> to tensor<4x4xf32>
  %r = arith.addf %d, %acc : tensor<4x4xf32>
  tile.store %p, %d : tensor<4x4x!tile.ptr<f32>>, tensor<4x4xf32>
  %e = tile.dot %a, %a, %acc, "ieee" : tensor<4x4xf16>, tensor<4x4xf16>, tensor<4x4xf32> to tensor<4x4xf32>
  %s = arith.addf %r, %e : tensor<4x4xf32>
  tile.store %p, %s : tensor<4x4x!tile.ptr<f32>>, tensor<4x4xf32>
  func.return
}

// -----
// Sums of 8-bit floats are taken only where a loop carries them.
// CHECK-LABEL: @eight_bits
func.func @eight_bits(%p: tensor<4x4x!tile.ptr<f32>>, %a: tensor<4x4xf8E4M3FN>, %acc: tensor<4x4xf32>, %n: i32) {
  // CHECK: scf.for
  // CHECK: tile.dot %a, %a, %t
  // CHECK-NOT: arith.addf
  // CHECK: scf.yield
  // CHECK: tile.dot %a, %a, %zeros
  // CHECK: arith.addf
  %z = arith.constant 0.0 : f32
  %zeros = tile.splat %z : f32 to tensor<4x4xf32>
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %sum = scf.for %i = %i0 to %n step %i1 iter_args(%t = %acc) -> (tensor<4x4xf32>) : i32 {
    %d = tile.dot %a, %a, %zeros, "ieee" : tensor<4x4xf8E4M3FN>, tensor<4x4xf8E4M3FN>, tensor<4x4xf32> to tensor<4x4xf32>
    %r = arith.addf %t, %d : tensor<4x4xf32>
    scf.yield %r : tensor<4x4xf32>
  }
  %d = tile.dot %a, %a, %zeros, "ieee" : tensor<4x4xf8E4M3FN>, tensor<4x4xf8E4M3FN>, tensor<4x4xf32> to tensor<4x4xf32>
  %r = arith.addf %d, %sum : tensor<4x4xf32>
  tile.store %p, %r : tensor<4x4x!tile.ptr<f32>>, tensor<4x4xf32>
  func.return
}
