// RUN: form-fusion-groups
// A reduction ends its group; the load is cheap, so the second group does it again.
// CHECK-LABEL: @reload_after_reduction
func.func @reload_after_reduction(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64) {
  %one = arith.constant 1 : i64
  // CHECK: [[M:%.+]] = cpu.fusion_group -> f32 attributes {iteration_space = array<i64: 256>}
  // CHECK: tile.load_view
  // CHECK: tile.reduce
  // CHECK: cpu.yield {{%.+}} : f32
  %x = tile.load_view %p ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<256xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i64}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.maxnumf %u, %v : f32
    tile.yield %w : f32
  }) : (tensor<256xf32>) -> f32
  // CHECK: cpu.fusion_group
  // CHECK: tile.load_view
  // CHECK: tile.splat [[M]]
  // CHECK: arith.subf
  // CHECK: tile.store_view
  %s = tile.splat %m : f32 to tensor<256xf32>
  %d = arith.subf %x, %s : tensor<256xf32>
  tile.store_view %d, %q ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}

// -----
// An exponential is not done twice: it crosses the groups as a tile.
// CHECK-LABEL: @keep_expensive
func.func @keep_expensive(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  // CHECK: %e, %m = cpu.fusion_group
  // CHECK: math.exp
  // CHECK: cpu.yield {{%.+}}, {{%.+}} : tensor<256xf32>, f32
  // CHECK: cpu.fusion_group
  // CHECK-NOT: math.exp
  // CHECK: arith.divf
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
  %e = math.exp %x : tensor<256xf32>
  %m = "tile.reduce"(%e) <{axis = 0 : i64}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tile.yield %w : f32
  }) : (tensor<256xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<256xf32>
  %d = arith.divf %e, %s : tensor<256xf32>
  tile.store_view %d, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}

// -----
// A loop whose tile work is lane by lane goes inside the group: chunks outside, steps inside.
// CHECK-LABEL: @lanewise_loop
func.func @lanewise_loop(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %t: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %z = arith.constant 0.0 : f32
  %zs = tile.splat %z : f32 to tensor<64xf32>
  // CHECK: cpu.fusion_group
  // CHECK: scf.for
  // CHECK: tile.load_view
  // CHECK: arith.addf
  %r = scf.for %i = %zero to %t step %one iter_args(%a = %zs) -> (tensor<64xf32>) : i64 {
    %b = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %s = arith.addf %a, %x : tensor<64xf32>
    scf.yield %s : tensor<64xf32>
  }
  // The store's range cannot be compared with the loads' inside the loop: a group of its own.
  // CHECK: cpu.fusion_group
  // CHECK: tile.store_view
  tile.store_view %r, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}

// -----
// A load after a store is never moved before it.
// CHECK-LABEL: @load_after_store
func.func @load_after_store(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  // CHECK: cpu.fusion_group
  // CHECK: tile.load_view
  // CHECK: tile.store_view
  // CHECK: cpu.yield
  // CHECK: cpu.fusion_group
  // CHECK: tile.load_view
  // CHECK: tile.store_view
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  %y = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}

// -----
// What is computed for rows between operations over the whole tile is done before them, and does not part them.
// CHECK-LABEL: @rows_between
func.func @rows_between(%p: !tile.ptr<f32>, %r: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %n = arith.constant 128 : i64
  // CHECK: cpu.fusion_group -> tensor<32x1xf32> attributes {iteration_space = array<i64: 32, 1>}
  // CHECK: cpu.fusion_group attributes {iteration_space = array<i64: 32, 128>}
  // CHECK: math.exp
  // CHECK: arith.addf
  // CHECK: tile.store_view
  // CHECK-NOT: cpu.fusion_group
  // CHECK: func.return
  %x = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x128xf32>
  %e = math.exp %x : tensor<32x128xf32>
  %y = tile.load_view %r ["strided", "strided"] strides(%one, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x1xf32>
  %f = math.exp %y : tensor<32x1xf32>
  %b = tile.broadcast %f : tensor<32x1xf32> to tensor<32x128xf32>
  %s = arith.addf %e, %b : tensor<32x128xf32>
  tile.store_view %s, %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<32x128xf32>, !tile.ptr<f32>
  func.return
}
