// RUN: strip-mine-tiles{elements-per-thread=1 strip-elements-per-thread=1 skip-if-fits=false},cse
// A tile of 64 elements for 32 threads: two chunks, of which a reduction starts from the first.
// CHECK-LABEL: @total
func.func @total(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %one: i64, %n: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: tile.load_view {{.+}} strides(%one) {{.+}} to tensor<32xf32>
  // CHECK: [[SUMS:%.+]] = scf.for {{.+}} iter_args([[SO_FAR:%.+]] = %x)
  // CHECK: [[NEXT:%.+]] = tile.load_view {{.+}} strides(%one) {{.+}} to tensor<32xf32>
  // CHECK-NEXT: [[SUM:%.+]] = arith.addf [[SO_FAR]], [[NEXT]] : tensor<32xf32>
  // CHECK-NEXT: scf.yield [[SUM]]
  // CHECK: "tile.reduce"([[SUMS]])
  // CHECK-NOT: 64xf32
  %x = tile.load_view %p ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
  %s = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<64xf32>) -> f32
  tile.store %q, %s : !tile.ptr<f32>, f32
  func.return
}
// -----
// What was loaded before the store to the same argument cannot be loaded again after it.
// CHECK-LABEL: @kept
func.func @kept(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %one: i64, %v: tensor<64xf32>) attributes {gpu.num_warps = 1 : i32} {
  // CHECK-NOT: scf.for
  // CHECK: return
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %f = arith.constant 0.0 : f32
  %z = tile.splat %f : f32 to tensor<64xf32>
  tile.store_view %z, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  tile.barrier
  tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// A loop that carries a tile runs once a chunk.
// CHECK-LABEL: @exchanged
func.func @exchanged(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %one: i64, %n: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: scf.for {{.+}} = %{{.+}} to %{{.+}} step
  // CHECK: scf.for {{.+}} to %n step %one iter_args({{.+}}) -> (tensor<32xf32>)
  // CHECK: tile.load_view {{.+}} to tensor<32xf32>
  // CHECK: tile.store_view {{.+}} : tensor<32xf32>
  // CHECK-NOT: 64xf32
  %zero = arith.constant 0 : i64
  %f = arith.constant 0.0 : f32
  %z = tile.splat %f : f32 to tensor<64xf32>
  %s = scf.for %i = %zero to %n step %one iter_args(%t = %z) -> (tensor<64xf32>) : i64 {
    %r = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %r ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %u = arith.addf %t, %x : tensor<64xf32>
    scf.yield %u : tensor<64xf32>
  }
  tile.store_view %s, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: strip-mine-tiles
// CHECK-LABEL: @small
func.func @small(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK-NOT: scf.for
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  tile.store_view %x, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
