// RUN: split-loop-bounds
// The index of a loop from %lo in steps of 64 reaches the bound after ceil((end - lo) / 64) iterations.
// CHECK-LABEL: @prefix
func.func @prefix(%p: !tile.ptr<f32>, %ps: tensor<16x16x!tile.ptr<f32>>, %a: tensor<16x16xf32>, %n: i64, %lo: i32, %t: i32, %c: i32) {
  // CHECK: [[END:%.+]] = arith.subi %t, %c
  // CHECK: [[WIDE:%.+]] = arith.extsi [[END]]
  // CHECK: [[SPAN:%.+]] = arith.subi [[WIDE]], {{.*}}
  // CHECK: [[MORE:%.+]] = arith.addi [[SPAN]], {{.*}}
  // CHECK: [[COUNT:%.+]] = arith.divsi [[MORE]], {{.*}}
  // CHECK: [[AFTER:%.+]] = arith.maxsi [[COUNT]], {{.*}}
  // CHECK: [[CUT:%.+]] = arith.minsi [[AFTER]], %n
  // CHECK: scf.for {{.*}} to [[CUT]] step
  // CHECK-NOT: scf.if
  // CHECK: tile.dot
  // CHECK: [[REST:%.+]] = arith.subi %n, [[CUT]]
  // CHECK: scf.for {{.*}} to [[REST]] step
  // CHECK-NOT: scf.if
  // CHECK: arith.addi {{.*}} {tile.loop_index = array<i64: 0, 2147483647>}
  // CHECK-NOT: tile.dot
  // CHECK: func.return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %step = arith.constant 64 : i32
  %r = scf.for %k = %zero to %n step %one iter_args(%x = %a) -> (tensor<16x16xf32>) : i64 {
    %narrow = arith.trunci %k : i64 to i32
    %far = arith.muli %narrow, %step : i32
    %i = arith.addi %lo, %far {tile.loop_index = array<i64: 0, 2147483647>} : i32
    %end = arith.subi %t, %c : i32
    %cond = tile.cmpi "slt", %i, %end : i32, i32 to i1
    %s = scf.if %cond -> (tensor<16x16xf32>) {
      %y = tile.dot %x, %a, %a, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
      scf.yield %y : tensor<16x16xf32>
    } else {
      scf.yield %x : tensor<16x16xf32>
    }
    %q = tile.addptr %p, %i : !tile.ptr<f32>, i32 to !tile.ptr<f32>
    %v = tile.load %q : !tile.ptr<f32> to f32
    tile.store %p, %v : !tile.ptr<f32>, f32
    scf.yield %s : tensor<16x16xf32>
  }
  tile.store %ps, %r : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xf32>
  func.return
}

// -----
// The bound on the left, included; the dot is in the last iterations.
// CHECK-LABEL: @suffix
func.func @suffix(%p: tensor<16x16x!tile.ptr<f32>>, %a: tensor<16x16xf32>, %n: i32, %end: i32) {
  // CHECK: arith.addi {{.*}}
  // CHECK: scf.for
  // CHECK-NOT: tile.dot
  // CHECK: scf.for
  // CHECK: tile.dot
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = scf.for %i = %zero to %n step %one iter_args(%x = %a) -> (tensor<16x16xf32>) : i32 {
    %cond = tile.cmpi "slt", %end, %i : i32, i32 to i1
    %s = scf.if %cond -> (tensor<16x16xf32>) {
      %y = tile.dot %x, %a, %a, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
      scf.yield %y : tensor<16x16xf32>
    } else {
      scf.yield %x : tensor<16x16xf32>
    }
    scf.yield %s : tensor<16x16xf32>
  }
  tile.store %p, %r : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xf32>
  func.return
}

// -----
// Left alone: a bound that the loop changes, an unsigned comparison, a sum that may wrap, and a branch without a dot.
// CHECK-LABEL: @kept
func.func @kept(%p: !tile.ptr<f32>, %ps: tensor<16x16x!tile.ptr<f32>>, %a: tensor<16x16xf32>, %n: i32, %end: i32, %c: f32) {
  // CHECK-COUNT-4: scf.if
  // CHECK-NOT: scf.for
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r, %last = scf.for %i = %zero to %n step %one iter_args(%x = %a, %e = %end) -> (tensor<16x16xf32>, i32) : i32 {
    %c0 = tile.cmpi "slt", %i, %e : i32, i32 to i1
    %c1 = tile.cmpi "ult", %i, %end : i32, i32 to i1
    %far = arith.addi %i, %end : i32
    %c2 = tile.cmpi "slt", %far, %n : i32, i32 to i1
    %c3 = tile.cmpi "slt", %i, %end : i32, i32 to i1
    %s0 = scf.if %c0 -> (tensor<16x16xf32>) {
      %y = tile.dot %x, %a, %a, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
      scf.yield %y : tensor<16x16xf32>
    } else {
      scf.yield %x : tensor<16x16xf32>
    }
    %s1 = scf.if %c1 -> (tensor<16x16xf32>) {
      %y = tile.dot %s0, %a, %a, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
      scf.yield %y : tensor<16x16xf32>
    } else {
      scf.yield %s0 : tensor<16x16xf32>
    }
    %s2 = scf.if %c2 -> (tensor<16x16xf32>) {
      %y = tile.dot %s1, %a, %a, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
      scf.yield %y : tensor<16x16xf32>
    } else {
      scf.yield %s1 : tensor<16x16xf32>
    }
    scf.if %c3 {
      tile.store %p, %c : !tile.ptr<f32>, f32
    }
    %less = arith.subi %e, %one : i32
    scf.yield %s2, %less : tensor<16x16xf32>, i32
  }
  tile.store %ps, %r : tensor<16x16x!tile.ptr<f32>>, tensor<16x16xf32>
  func.return
}
