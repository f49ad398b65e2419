// RUN: carry-offsets
// Through a nest: the inner loop's amount is added to the outer loop's.
// CHECK-LABEL: @nest
func.func @nest(%p: tensor<8x!tile.ptr<f32>>, %x: tensor<8xf32>, %n: i32, %s: i32) {
  // CHECK: scf.for {{.*}} iter_args([[A:%.+]] = {{.*}}) -> (i64)
  // CHECK: scf.for {{.*}} -> (i64)
  // CHECK: tile.store
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%q = %p) -> (tensor<8x!tile.ptr<f32>>) : i32 {
    %t = scf.for %j = %zero to %n step %one iter_args(%u = %q) -> (tensor<8x!tile.ptr<f32>>) : i32 {
      tile.store %u, %x : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
      %ss = tile.splat %s : i32 to tensor<8xi32>
      %v = tile.addptr %u, %ss : tensor<8x!tile.ptr<f32>>, tensor<8xi32> to tensor<8x!tile.ptr<f32>>
      scf.yield %v : tensor<8x!tile.ptr<f32>>
    }
    scf.yield %t : tensor<8x!tile.ptr<f32>>
  }
  func.return
}

// -----
// Moved on one branch only, and by a subtraction; 32-bit offsets wrap as before.
// CHECK-LABEL: @branch
func.func @branch(%p: tensor<8x!tile.ptr<i32>>, %o: tensor<8xi32>, %n: i32, %s: i32, %c: i1) {
  // CHECK: scf.for {{.*}} -> (i32)
  // CHECK: scf.if %c -> (i32)
  // CHECK: arith.subi
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%q = %o) -> (tensor<8xi32>) : i32 {
    tile.store %p, %q : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
    %t = scf.if %c -> (tensor<8xi32>) {
      %ss = tile.splat %s : i32 to tensor<8xi32>
      %v = arith.subi %q, %ss : tensor<8xi32>
      scf.yield %v : tensor<8xi32>
    } else {
      scf.yield %q : tensor<8xi32>
    }
    scf.yield %t : tensor<8xi32>
  }
  tile.store %p, %r : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
  func.return
}

// -----
// CHECK-LABEL: @while
func.func @while(%p: tensor<8x!tile.ptr<i32>>, %x: tensor<8xi32>, %n: i32) {
  // CHECK: scf.while ({{.*}}) : (i32, i64) -> (i32, i64)
  // CHECK: scf.condition({{.*}}) {{.*}} : i32, i64
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:2 = scf.while (%q = %p, %i = %zero) : (tensor<8x!tile.ptr<i32>>, i32) -> (tensor<8x!tile.ptr<i32>>, i32) {
    %c = tile.cmpi "slt", %i, %n : i32, i32 to i1
    scf.condition(%c) %q, %i : tensor<8x!tile.ptr<i32>>, i32
  } do {
  ^bb0(%q: tensor<8x!tile.ptr<i32>>, %i: i32):
    tile.store %q, %x : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
    %ss = tile.splat %n : i32 to tensor<8xi32>
    %v = tile.addptr %q, %ss : tensor<8x!tile.ptr<i32>>, tensor<8xi32> to tensor<8x!tile.ptr<i32>>
    %next = arith.addi %i, %one : i32
    scf.yield %v, %next : tensor<8x!tile.ptr<i32>>, i32
  }
  tile.store %r#0, %x : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
  func.return
}

// -----
// Moved by a tile, and floating accumulators: these stay tiles.
// CHECK-LABEL: @kept
func.func @kept(%p: tensor<8x!tile.ptr<f32>>, %o: tensor<8xi32>, %x: tensor<8xf32>, %n: i32, %f: f32) {
  // CHECK: -> (tensor<8x!tile.ptr<f32>>, tensor<8xf32>)
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%q = %p, %y = %x) -> (tensor<8x!tile.ptr<f32>>, tensor<8xf32>) : i32 {
    tile.store %q, %y : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
    %v = tile.addptr %q, %o : tensor<8x!tile.ptr<f32>>, tensor<8xi32> to tensor<8x!tile.ptr<f32>>
    %ff = tile.splat %f : f32 to tensor<8xf32>
    %z = arith.addf %y, %ff : tensor<8xf32>
    scf.yield %v, %z : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  }
  func.return
}
