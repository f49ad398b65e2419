// RUN: reverse-loops
// The second of two loops starts where the first one ends.
// CHECK-LABEL: func.func @rows
// CHECK: scf.for
// CHECK-NEXT: arith.muli
// CHECK: scf.for
// CHECK-NEXT: arith.subi
// Maxima may be taken in any order, but the loop that stores comes back already.
// CHECK-LABEL: func.func @maximum
// CHECK: scf.for
// CHECK-NEXT: arith.muli
// CHECK: scf.for
// CHECK-NEXT: arith.subi
// The sum in the middle has to run forwards, the loops around it backwards.
// CHECK-LABEL: func.func @three
// CHECK: scf.for
// CHECK-NEXT: arith.subi
// CHECK: scf.for
// CHECK-NEXT: arith.muli
// CHECK: scf.for
// CHECK-NEXT: arith.subi
// What an iteration stores, the next one loads.
// CHECK-LABEL: func.func @stores_ahead
// CHECK-NOT: arith.subi
// Another row.
// CHECK-LABEL: func.func @other_rows
// CHECK-NOT: arith.subi
// The loop in between starts from the other end already (strip-mine-tiles).
// CHECK-LABEL: func.func @alternating
// CHECK: arith.subi
// CHECK-NOT: arith.subi
// Two sums, whose order is the author's.
// CHECK-LABEL: func.func @both_sums
// CHECK-NOT: arith.subi
func.func @rows(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64, %init: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %row = tile.addptr %x, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %sum = scf.for %i = %zero to %n step %one iter_args(%total = %init) -> (tensor<64xf32>) : i64 {
    %a = arith.muli %i, %size : i64
    %b = tile.addptr %row, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %t = arith.addf %total, %v : tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %c = arith.muli %j, %size : i64
    %d = tile.addptr %row, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %w = tile.load_view %d ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.divf %w, %sum : tensor<64xf32>
    %e = tile.addptr %out, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %e ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @maximum(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64, %init: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %row = tile.addptr %x, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %sum = scf.for %i = %zero to %n step %one iter_args(%total = %init) -> (tensor<64xf32>) : i64 {
    %a = arith.muli %i, %size : i64
    %b = tile.addptr %row, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %t = arith.maxnumf %total, %v : tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %c = arith.muli %j, %size : i64
    %d = tile.addptr %row, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %w = tile.load_view %d ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.divf %w, %sum : tensor<64xf32>
    %e = tile.addptr %out, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %e ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @three(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64, %init: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %row = tile.addptr %x, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %sum = scf.for %i = %zero to %n step %one iter_args(%total = %init) -> (tensor<64xf32>) : i64 {
    %a = arith.muli %i, %size : i64
    %b = tile.addptr %row, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %t = arith.maxnumf %total, %v : tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  %again = scf.for %k = %zero to %n step %one iter_args(%more = %init) -> (tensor<64xf32>) : i64 {
    %g = arith.muli %k, %size : i64
    %h = tile.addptr %row, %g : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %r = tile.load_view %h ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %m = arith.addf %more, %r : tensor<64xf32>
    scf.yield %m : tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %c = arith.muli %j, %size : i64
    %d = tile.addptr %row, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %w = tile.load_view %d ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.divf %w, %sum : tensor<64xf32>
    %e = tile.addptr %out, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %e ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @stores_ahead(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64, %init: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %row = tile.addptr %x, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %sum = scf.for %i = %zero to %n step %one iter_args(%total = %init) -> (tensor<64xf32>) : i64 {
    %a = arith.muli %i, %size : i64
    %b = tile.addptr %row, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %t = arith.addf %total, %v : tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %c = arith.muli %j, %size : i64
    %d = tile.addptr %row, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %w = tile.load_view %d ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.divf %w, %sum : tensor<64xf32>
    %f = arith.addi %c, %one : i64
    %e = tile.addptr %row, %f : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %e ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @other_rows(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64, %init: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %row = tile.addptr %x, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %sum = scf.for %i = %zero to %n step %one iter_args(%total = %init) -> (tensor<64xf32>) : i64 {
    %a = arith.muli %i, %size : i64
    %b = tile.addptr %row, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %t = arith.addf %total, %v : tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %c = arith.muli %j, %size : i64
    %d = tile.addptr %y, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %w = tile.load_view %d ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.divf %w, %sum : tensor<64xf32>
    %e = tile.addptr %out, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %e ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @alternating(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64, %init: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %row = tile.addptr %x, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %sum = scf.for %i = %zero to %n step %one iter_args(%total = %init) -> (tensor<64xf32>) : i64 {
    %a = arith.muli %i, %size : i64
    %b = tile.addptr %row, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %t = arith.addf %total, %v : tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  %again = scf.for %k = %zero to %n step %one iter_args(%more = %init) -> (tensor<64xf32>) : i64 {
    %back = arith.subi %n, %k : i64
    %g = arith.muli %back, %size : i64
    %h = tile.addptr %row, %g : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %r = tile.load_view %h ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %m = arith.addf %more, %r : tensor<64xf32>
    scf.yield %m : tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %c = arith.muli %j, %size : i64
    %d = tile.addptr %row, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %w = tile.load_view %d ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.divf %w, %sum : tensor<64xf32>
    %e = tile.addptr %out, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %e ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @both_sums(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64, %init: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 64 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %row = tile.addptr %x, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %q : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %sum = scf.for %i = %zero to %n step %one iter_args(%total = %init) -> (tensor<64xf32>) : i64 {
    %a = arith.muli %i, %size : i64
    %b = tile.addptr %row, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %t = arith.addf %total, %v : tensor<64xf32>
    scf.yield %t : tensor<64xf32>
  }
  %more = scf.for %j = %zero to %n step %one iter_args(%s = %init) -> (tensor<64xf32>) : i64 {
    %c = arith.muli %j, %size : i64
    %d = tile.addptr %row, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %w = tile.load_view %d ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.divf %w, %sum : tensor<64xf32>
    %e = tile.addptr %out, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %e ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
    %z = arith.addf %s, %w : tensor<64xf32>
    scf.yield %z : tensor<64xf32>
  }
  func.return
}
