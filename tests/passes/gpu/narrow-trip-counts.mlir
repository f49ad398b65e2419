// RUN: narrow-trip-counts
// A count of blocks fits in 32 bits: it is divided, and the loop counts, in them. Other users of the counter get an extension.
// CHECK-LABEL: func.func @blocks
// CHECK: [[SIZE:%[0-9]+]] = arith.maxsi %n, {{.*}} : i32
// CHECK: [[MORE:%[0-9]+]] = arith.addi [[SIZE]], {{.*}} : i32
// CHECK: [[TRIPS:%[0-9]+]] = arith.shrui [[MORE]], {{.*}} : i32
// CHECK: scf.for {{.*}} to [[TRIPS]] step {{.*}} : i32
// CHECK: arith.extsi {{.*}} : i32 to i64
// Full blocks, and batches of four of them.
// CHECK-LABEL: func.func @batches
// CHECK: arith.minsi {{.*}} : i32
// CHECK: arith.shrui {{.*}} : i32
// CHECK: scf.for {{.*}} : i32 {
// Single elements from the least to the largest number: 2^32 - 1 of them.
// CHECK-LABEL: func.func @elements
// CHECK: scf.for {{.*}} : i64 {
func.func @blocks(%p: !tile.ptr<i64>, %n: i32) {
  %size = arith.extsi %n : i32 to i64
  %more = arith.constant 511 : i64
  %block = arith.constant 512 : i64
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %rounded = arith.addi %size, %more : i64
  %blocks = arith.divsi %rounded, %block : i64
  %trips = arith.maxsi %blocks, %zero : i64
  scf.for %i = %zero to %trips step %one : i64 {
    tile.store %p, %i : !tile.ptr<i64>, i64
  }
  func.return
}
func.func @batches(%p: !tile.ptr<i32>, %n: i32, %m: i32) {
  %a = arith.extsi %n : i32 to i64
  %b = arith.extsi %m : i32 to i64
  %two = arith.constant 2 : i64
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %least = arith.minsi %a, %b : i64
  %some = arith.maxsi %least, %zero : i64
  %batches = arith.shrui %some, %two : i64
  scf.for %i = %zero to %batches step %one : i64 {
    %narrow = arith.trunci %i : i64 to i32
    tile.store %p, %narrow : !tile.ptr<i32>, i32
  }
  func.return
}
func.func @elements(%p: !tile.ptr<i32>, %n: i32, %m: i32) {
  %a = arith.extsi %n : i32 to i64
  %b = arith.extsi %m : i32 to i64
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %span = arith.subi %b, %a : i64
  %trips = arith.maxsi %span, %zero : i64
  scf.for %i = %zero to %trips step %one : i64 {
    %narrow = arith.trunci %i : i64 to i32
    tile.store %p, %narrow : !tile.ptr<i32>, i32
  }
  func.return
}
