// RUN: licm
// Out of both loops as far as the operands allow; loads and branches stay.
// CHECK-LABEL: @nest
func.func @nest(%p: !tile.ptr<i32>, %x: i32, %n: i32, %c: i1) {
  // CHECK: arith.muli %x, %x
  // CHECK: scf.for %i
  // CHECK: arith.addi %sq, %i
  // CHECK-NEXT: scf.for %j
  // CHECK-NEXT: tile.load
  // CHECK: scf.if
  // CHECK-NEXT: arith.muli %x, %n
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  scf.for %i = %zero to %n step %one : i32 {
    scf.for %j = %zero to %n step %one : i32 {
      %sq = arith.muli %x, %x : i32
      %s = arith.addi %sq, %i : i32
      %l = tile.load %p : !tile.ptr<i32> to i32
      %t = arith.addi %s, %l : i32
      tile.store %p, %t : !tile.ptr<i32>, i32
      scf.if %c {
        %u = arith.muli %x, %n : i32
        tile.store %p, %u : !tile.ptr<i32>, i32
      }
    }
  }
  func.return
}

// -----
// From the body and the condition of a while loop, and reductions with their regions.
// CHECK-LABEL: @while
func.func @while(%p: !tile.ptr<i32>, %x: tensor<8xi32>, %n: i32) {
  // CHECK: arith.addi %n, %n
  // CHECK: "tile.reduce"
  // CHECK: scf.while
  // CHECK-NEXT: tile.cmpi
  %zero = arith.constant 0 : i32
  %r = scf.while (%i = %zero) : (i32) -> i32 {
    %end = arith.addi %n, %n : i32
    %c = tile.cmpi "slt", %i, %end : i32, i32 to i1
    scf.condition(%c) %i : i32
  } do {
  ^bb0(%i: i32):
    %s = "tile.reduce"(%x) <{axis = 0 : i64}> ({
    ^bb0(%u: i32, %v: i32):
      %w = arith.addi %u, %v : i32
      tile.yield %w : i32
    }) : (tensor<8xi32>) -> i32
    %next = arith.addi %i, %s : i32
    scf.yield %next : i32
  }
  tile.store %p, %r : !tile.ptr<i32>, i32
  func.return
}
