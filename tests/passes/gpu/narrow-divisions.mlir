// RUN: narrow-divisions
// Both are known to fit in 32 bits and not to be negative.
// CHECK-LABEL: func.func @indices
// CHECK: arith.trunci
// CHECK: arith.divui {{.*}} : i32
// CHECK: arith.extui
// Nothing is known of the divisor's sign: 32 bits, signed.
// CHECK-LABEL: func.func @signs
// CHECK: arith.divsi {{.*}} : i32
// The quotient of the least number and -1 has 33 bits.
// CHECK-LABEL: func.func @least
// CHECK: arith.divsi {{.*}} : i64
// Divisors of what forms an address are positive, also within the operand of an absolute value.
// CHECK-LABEL: func.func @reflected
// CHECK: arith.divui
// CHECK: arith.remui
// So are the same divisors of other divisions, but not of those that may run without the one that forms an address.
// CHECK-LABEL: func.func @same_divisor
// CHECK: arith.divui
// CHECK: arith.remui
// CHECK-LABEL: func.func @guarded
// CHECK: arith.divui
// CHECK: arith.remsi
func.func @indices(%x: i32 {tile.nonnegative}, %d: i32 {tile.nonnegative}) -> i64 {
  %a = arith.extsi %x : i32 to i64
  %b = arith.extsi %d : i32 to i64
  %q = arith.divsi %a, %b : i64
  func.return %q : i64
}
func.func @signs(%x: i32 {tile.nonnegative}, %d: i32) -> i64 {
  %a = arith.extsi %x : i32 to i64
  %b = arith.extsi %d : i32 to i64
  %q = arith.divsi %a, %b : i64
  func.return %q : i64
}
func.func @least(%x: i32, %d: i32) -> i64 {
  %a = arith.extsi %x : i32 to i64
  %b = arith.extsi %d : i32 to i64
  %q = arith.divsi %a, %b : i64
  func.return %q : i64
}
func.func @reflected(%p: !tile.ptr<f32>, %x: i32 {tile.nonnegative}, %d: i32, %e: i32) -> f32 {
  %one = arith.constant 1 : i32
  %q = arith.divsi %x, %d : i32
  %y = arith.subi %q, %one : i32
  %a = math.absi %y : i32
  %r = arith.remsi %a, %e : i32
  %at = tile.addptr %p, %r : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %v = tile.load %at : !tile.ptr<f32> to f32
  func.return %v : f32
}
func.func @same_divisor(%p: !tile.ptr<f32>, %x: i32 {tile.nonnegative}, %d: i32) -> i32 {
  %q = arith.divsi %x, %d : i32
  %at = tile.addptr %p, %q : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %v = tile.load %at : !tile.ptr<f32> to f32
  %r = arith.remsi %x, %d : i32
  func.return %r : i32
}
func.func @guarded(%p: !tile.ptr<f32>, %x: i32 {tile.nonnegative}, %d: i32, %c: i1) -> i32 {
  scf.if %c {
    %q = arith.divsi %x, %d : i32
    %at = tile.addptr %p, %q : !tile.ptr<f32>, i32 to !tile.ptr<f32>
    %v = tile.load %at : !tile.ptr<f32> to f32
    tile.store %p, %v : !tile.ptr<f32>, f32
  }
  %r = arith.remsi %x, %d : i32
  func.return %r : i32
}
