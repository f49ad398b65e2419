// RUN: form-fusion-groups,plan-scratch
// CHECK-LABEL: @kept
// CHECK-SAME: cpu.scratch_bytes = 1088
func.func @kept(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  // CHECK: [[B:%.+]] = cpu.scratch at 0 : i64 : !cpu.buffer<tensor<256xf32>, "row:256[1x256]">
  // CHECK: cpu.write {{%.+}}, [[B]]
  // CHECK: cpu.read [[B]]
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
// RUN: lower-dot,form-fusion-groups,plan-scratch
// One buffer for the accumulator: it is updated in place around the loop.
// CHECK-LABEL: @accumulator
func.func @accumulator(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %t: i64) {
  // CHECK-DAG: [[C:%.+]] = cpu.scratch {{.*}} !cpu.buffer<tensor<32x32xf32>, "panel:
  // CHECK-DAG: cpu.scratch {{.*}} !cpu.buffer<tensor<32x16xf32>, "row:
  // CHECK-DAG: cpu.scratch {{.*}} !cpu.buffer<tensor<16x32xf32>, "panel:
  // CHECK-NOT: cpu.scratch"
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %ld = arith.constant 64 : i64
  %z = arith.constant 0.0 : f32
  %zs = tile.splat %z : f32 to tensor<32x32xf32>
  // CHECK: cpu.write {{%.+}}, [[C]]
  // CHECK: scf.for
  // CHECK: cpu.buffer_dot {{%.+}}, {{%.+}}, [[C]]
  // CHECK: cpu.read [[C]]
  %r = scf.for %i = %zero to %t step %one iter_args(%acc = %zs) -> (tensor<32x32xf32>) : i64 {
    %a = tile.load_view %p ["strided", "strided"] strides(%ld, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x16xf32>
    %b = tile.load_view %q ["strided", "strided"] strides(%ld, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16x32xf32>
    %d = tile.dot %a, %b, %acc, "ieee" : tensor<32x16xf32>, tensor<16x32xf32>, tensor<32x32xf32> to tensor<32x32xf32>
    scf.yield %d : tensor<32x32xf32>
  }
  tile.store_view %r, %p ["strided", "strided"] strides(%ld, %one) {limited = array<i64>} : tensor<32x32xf32>, !tile.ptr<f32>
  func.return
}
