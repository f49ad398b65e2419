// RUN: normalize-loops
// A loop that counts 0, 1, 2 … already stays.
// CHECK-LABEL: @already
func.func @already(%p: !tile.ptr<i32>, %n: i32) {
  // CHECK: scf.for %i = %zero to %n step %one : i32
  // CHECK-NEXT: tile.store %p, %i
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  }
  func.return
}

// -----
// Trip counts of constant bounds are constants: 10, 7, 4, 1.
// CHECK-LABEL: @constant
func.func @constant(%p: !tile.ptr<i32>) {
  // CHECK: [[N:%.+]] = arith.constant 4 : i64
  // CHECK: scf.for %i = {{%.+}} to [[N]] step {{%.+}} : i64
  // CHECK: arith.trunci
  // CHECK: arith.muli
  // CHECK: arith.addi %lb
  %lb = arith.constant 10 : i32
  %ub = arith.constant 0 : i32
  %step = arith.constant -3 : i32
  scf.for %i = %lb to %ub step %step : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  }
  func.return
}

// -----
// A step known only at run time: sign and size are found before the loop.
// CHECK-LABEL: @runtime
func.func @runtime(%p: !tile.ptr<i32>, %lb: i32, %ub: i32, %step: i32) {
  // CHECK: tile.cmpi "sgt"
  // CHECK: arith.divui
  // CHECK: tile.select
  // CHECK: scf.for {{.*}} : i64
  scf.for %i = %lb to %ub step %step : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  }
  func.return
}

// -----
// Carried values: %a never changes, %b only computes itself, %c is needed; attributes stay.
// CHECK-LABEL: @carried
func.func @carried(%p: !tile.ptr<i32>, %n: i32, %x: i32) {
  // CHECK: scf.for %i = %zero to %n step %one iter_args(%c = %x) -> (i32)
  // CHECK-NEXT: arith.addi %c, %x
  // CHECK-NEXT: scf.yield
  // CHECK-NEXT: } {stages = 3 : i32}
  // CHECK: tile.store %p, %x
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r:3 = scf.for %i = %zero to %n step %one iter_args(%a = %x, %b = %x, %c = %x) -> (i32, i32, i32) : i32 {
    %b1 = arith.muli %b, %b : i32
    %c1 = arith.addi %c, %a : i32
    scf.yield %a, %b1, %c1 : i32, i32, i32
  } {stages = 3 : i32}
  tile.store %p, %r#0 : !tile.ptr<i32>, i32
  tile.store %p, %r#2 : !tile.ptr<i32>, i32
  func.return
}

// -----
// The inner loop's lower bound depends, through the outer loop, on the inner loop's own last result.
// CHECK-LABEL: @bound_from_own_result
func.func @bound_from_own_result(%p: !tile.ptr<i32>, %n: i32, %x: i32) {
  // CHECK: scf.for %i = %zero to %n step %one iter_args([[A:%.+]] = %x, [[S:%.+]] = %zero)
  // CHECK: scf.for %j = {{%.+}} to {{%.+}} step {{%.+}} iter_args([[C:%.+]] = [[S]], [[D:%.+]] = [[A]])
  // CHECK: arith.addi [[S]], {{%.+}} {{.*}}tile.loop_index = array<i64: -2147483648, 2147483646>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %r:2 = scf.for %i = %zero to %n step %one iter_args(%a = %x, %s = %zero) -> (i32, i32) : i32 {
    %t:2 = scf.for %j = %s to %n step %three iter_args(%c = %s, %d = %a) -> (i32, i32) : i32 {
      %c1 = arith.xori %c, %j : i32
      %d1 = arith.addi %d, %three : i32
      scf.yield %c1, %d1 : i32, i32
    }
    scf.yield %t#0, %t#1 : i32, i32
  }
  tile.store %p, %r#1 : !tile.ptr<i32>, i32
  func.return
}
