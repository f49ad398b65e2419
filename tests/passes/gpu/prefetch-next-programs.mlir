// RUN: prefetch-next-programs
// Two arrays are loaded by rows, one twice: each address is prefetched once.
// CHECK-LABEL: func.func @rows
// CHECK: tile.load_view {{.*}}no_allocate
// CHECK: arith.constant 33 : i32
// CHECK: tile.cmpi "slt", %p
// CHECK: gpu.prefetch {{.*}} of 65536 : i64 if
// CHECK: tile.load_view {{.*}}{limited = array<i64>} :
// CHECK: gpu.prefetch {{.*}} of 65536 : i64 if
// CHECK-NOT: gpu.prefetch
// CHECK: tile.reduce
// A matrix of one row: its limit along the first dimension decides whether there is any.
// CHECK-LABEL: func.func @matrix
// CHECK: tile.cmpi "sgt"
// CHECK: gpu.prefetch {{.*}} of 16384 : i64 if
// A row whose address is loaded, one under a mask, one that is not contiguous, several rows, a short row, and a row
// after the reduction.
// CHECK-LABEL: func.func @others
// CHECK-NOT: gpu.prefetch
// Resident programs load and store more than L2 keeps.
// CHECK-LABEL: func.func @large
// CHECK-NOT: gpu.prefetch
// A CTA that has an SM for itself loads two rows.
// CHECK-LABEL: func.func @alone
// CHECK-NOT: gpu.prefetch
// Nothing is known about CTAs on an SM.
// CHECK-LABEL: func.func @unplanned
// CHECK-NOT: gpu.prefetch
func.func @rows(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %w: !tile.ptr<f32>, %n: i64) attributes {gpu.num_warps = 64 : i32, gpu.num_ctas = 8 : i32, gpu.ctas_per_sm = 2 : i32} {
  %one = arith.constant 1 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %n : i64
  %a = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %u = tile.load_view %a ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<65536xf32>
  %b = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %again = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %c = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %m = "tile.reduce"(%u) <{axis = 0 : i32}> ({
  ^bb0(%d: f32, %e: f32):
    %f = arith.maximumf %d, %e : f32
    tile.yield %f : f32
  }) : (tensor<65536xf32>) -> f32
  func.return
}
func.func @matrix(%x: !tile.ptr<f32>, %n: i64) attributes {gpu.num_warps = 16 : i32, gpu.ctas_per_sm = 2 : i32} {
  %one = arith.constant 1 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %n : i64
  %left = arith.subi %n, %q : i64
  %a = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %u = tile.load_view %a ["strided", "strided"] strides(%n, %one) limits(%left, %n) {limited = array<i64: 0, 1>} : !tile.ptr<f32> to tensor<1x16384xf32>
  %m = "tile.reduce"(%u) <{axis = 1 : i32}> ({
  ^bb0(%d: f32, %e: f32):
    %f = arith.maximumf %d, %e : f32
    tile.yield %f : f32
  }) : (tensor<1x16384xf32>) -> tensor<1xf32>
  func.return
}
func.func @others(%x: !tile.ptr<f32>, %table: !tile.ptr<i64>, %n: i64, %bit: i1) attributes {gpu.num_warps = 16 : i32, gpu.ctas_per_sm = 2 : i32} {
  %one = arith.constant 1 : i64
  %p = tile.program_id 0 : i32 : i32
  %y = tile.program_id 1 : i32 : i32
  %entry = tile.addptr %table, %p : !tile.ptr<i64>, i32 to !tile.ptr<i64>
  %loaded = tile.load %entry : !tile.ptr<i64> to i64
  %a = tile.addptr %x, %loaded : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %u = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %n : i64
  %b = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %mask = tile.splat %bit : i1 to tensor<16384xi1>
  %v = tile.load_view %b ["strided"] strides(%one) mask %mask : tensor<16384xi1> {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  %s = tile.load_view %b ["strided"] strides(%n) {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  %r = tile.load_view %b ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<2x16384xf32>
  %short = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<8192xf32>
  %along = tile.addptr %x, %y : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %column = tile.load_view %along ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  %m = "tile.reduce"(%u) <{axis = 0 : i32}> ({
  ^bb0(%d: f32, %e: f32):
    %f = arith.maximumf %d, %e : f32
    tile.yield %f : f32
  }) : (tensor<16384xf32>) -> f32
  %late = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  func.return
}
func.func @large(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64) attributes {gpu.num_warps = 64 : i32, gpu.num_ctas = 8 : i32, gpu.ctas_per_sm = 2 : i32} {
  %one = arith.constant 1 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %n : i64
  %a = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %u = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<131072xf32>
  %b = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %m = "tile.reduce"(%u) <{axis = 0 : i32}> ({
  ^bb0(%d: f32, %e: f32):
    %f = arith.maximumf %d, %e : f32
    tile.yield %f : f32
  }) : (tensor<131072xf32>) -> f32
  tile.store_view %u, %b ["strided"] strides(%one) {limited = array<i64>} : tensor<131072xf32>, !tile.ptr<f32>
  func.return
}
func.func @alone(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>, %n: i64) attributes {gpu.num_warps = 64 : i32, gpu.num_ctas = 8 : i32, gpu.ctas_per_sm = 1 : i32} {
  %one = arith.constant 1 : i64
  %p = tile.program_id 0 : i32 : i32
  %q = arith.extsi %p : i32 to i64
  %at = arith.muli %q, %n : i64
  %a = tile.addptr %x, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %u = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %b = tile.addptr %y, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %v = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %m = "tile.reduce"(%u) <{axis = 0 : i32}> ({
  ^bb0(%d: f32, %e: f32):
    %f = arith.maximumf %d, %e : f32
    tile.yield %f : f32
  }) : (tensor<65536xf32>) -> f32
  func.return
}
func.func @unplanned(%x: !tile.ptr<f32>, %n: i64) attributes {gpu.num_warps = 16 : i32} {
  %one = arith.constant 1 : i64
  %p = tile.program_id 0 : i32 : i32
  %a = tile.addptr %x, %p : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %u = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  %m = "tile.reduce"(%u) <{axis = 0 : i32}> ({
  ^bb0(%d: f32, %e: f32):
    %f = arith.maximumf %d, %e : f32
    tile.yield %f : f32
  }) : (tensor<16384xf32>) -> f32
  func.return
}
