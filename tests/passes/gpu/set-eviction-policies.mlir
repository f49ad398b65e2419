// RUN: set-eviction-policies
// A row of the program is loaded twice, weights by all programs, the result once.
// CHECK-LABEL: func.func @rows
// CHECK: tile.load_view {{.*}}evict_last
// CHECK: tile.load_view {{.*}}evict_first
// CHECK: tile.load_view {{.*}}evict_last
// CHECK: tile.store_view {{.*}}evict_first
// Two programs have one row.
// CHECK-LABEL: func.func @divided
// CHECK-NOT: evict
// All programs have one row.
// CHECK-LABEL: func.func @shared
// CHECK-NOT: evict
// The second loop loads something else.
// CHECK-LABEL: func.func @other
// CHECK-NOT: evict
// What the author asks for stays.
// CHECK-LABEL: func.func @given
// CHECK: tile.load_view {{.*}}no_allocate
// CHECK: tile.load_view {{.*}}evict_first
func.func @rows(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %w: !tile.ptr<f32>, %n: i64, %zero: i64, %one: i64, %size: i64) attributes {gpu.num_warps = 1 : i32} {
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %size : i64
  %row = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %a = tile.addptr %row, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %b = tile.addptr %row, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %s = tile.addptr %w, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %shared = tile.load_view %s ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.mulf %v, %shared : tensor<64xf32>
    %c = tile.addptr %out, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %c ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @divided(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %w: !tile.ptr<f32>, %n: i64, %zero: i64, %one: i64, %size: i64) attributes {gpu.num_warps = 1 : i32} {
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.divsi %q, %size : i64
  %row = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %a = tile.addptr %row, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %b = tile.addptr %row, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %s = tile.addptr %w, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %shared = tile.load_view %s ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.mulf %v, %shared : tensor<64xf32>
    %c = tile.addptr %out, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %c ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @shared(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %w: !tile.ptr<f32>, %n: i64, %zero: i64, %one: i64, %size: i64) attributes {gpu.num_warps = 1 : i32} {
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %size, %size : i64
  %row = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %a = tile.addptr %row, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %b = tile.addptr %row, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %s = tile.addptr %w, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %shared = tile.load_view %s ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.mulf %v, %shared : tensor<64xf32>
    %c = tile.addptr %out, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %c ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @other(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %w: !tile.ptr<f32>, %n: i64, %zero: i64, %one: i64, %size: i64) attributes {gpu.num_warps = 1 : i32} {
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %size : i64
  %row = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %a = tile.addptr %row, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %b = tile.addptr %row, %size : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %s = tile.addptr %w, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %shared = tile.load_view %s ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.mulf %v, %shared : tensor<64xf32>
    %c = tile.addptr %out, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %c ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
func.func @given(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %w: !tile.ptr<f32>, %n: i64, %zero: i64, %one: i64, %size: i64) attributes {gpu.num_warps = 1 : i32} {
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %size : i64
  %row = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %a = tile.addptr %row, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>, eviction = "no_allocate"} : !tile.ptr<f32> to tensor<64xf32>
  }
  scf.for %j = %zero to %n step %one : i64 {
    %b = tile.addptr %row, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %s = tile.addptr %w, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %shared = tile.load_view %s ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.mulf %v, %shared : tensor<64xf32>
    %c = tile.addptr %out, %j : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %u, %c ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
