// RUN: reuse-output-buffer
// CHECK-LABEL: @normalized
// CHECK: [[SUM:%.+]] = cpu.fusion_group
// CHECK: tile.store_view %{{.+}}, %q
// CHECK: cpu.fusion_group
// CHECK: tile.load_view %q
// CHECK: arith.divf
func.func @normalized(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %e, %m = cpu.fusion_group -> tensor<256xf32>, f32 attributes {iteration_space = array<i64: 256>} {
    %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
    %y = math.exp %x : tensor<256xf32>
    %n = "tile.reduce"(%y) <{axis = 0 : i64}> ({
    ^bb0(%u: f32, %v: f32):
      %w = arith.addf %u, %v : f32
      tile.yield %w : f32
    }) : (tensor<256xf32>) -> f32
    cpu.yield %y, %n : tensor<256xf32>, f32
  }
  cpu.fusion_group attributes {iteration_space = array<i64: 256>} {
    %s = tile.splat %m : f32 to tensor<256xf32>
    %d = arith.divf %e, %s : tensor<256xf32>
    tile.store_view %d, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
    cpu.yield
  }
  func.return
}

// -----
// RUN: reuse-output-buffer
// What only a group after the store needs cannot wait in the store's place.
// CHECK-LABEL: @needed_later
// CHECK: cpu.fusion_group
// CHECK-NOT: tile.store_view %{{.+}}, %q
// CHECK: cpu.yield %{{.+}} : tensor<256xf32>
// CHECK: cpu.fusion_group
func.func @needed_later(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %r: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %zero = arith.constant 0.0 : f32
  %e = cpu.fusion_group -> tensor<256xf32> attributes {iteration_space = array<i64: 256>} {
    %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
    %y = math.exp %x : tensor<256xf32>
    cpu.yield %y : tensor<256xf32>
  }
  cpu.fusion_group attributes {iteration_space = array<i64: 256>} {
    %z = tile.splat %zero : f32 to tensor<256xf32>
    tile.store_view %z, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
    cpu.yield
  }
  cpu.fusion_group attributes {iteration_space = array<i64: 256>} {
    tile.store_view %e, %r ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
    cpu.yield
  }
  func.return
}
