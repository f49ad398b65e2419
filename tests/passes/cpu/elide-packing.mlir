// RUN: lower-dot,elide-packing
// Rows of A one after the other and panels of B: both are read where they stand.
// CHECK-LABEL: @packed
func.func @packed(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %acc: tensor<32x64xf32>, %o: tensor<32x64x!tile.ptr<f32>>) {
  // CHECK-DAG: cpu.prepacked %p layout "row:16[32x16]@"
  // CHECK-DAG: cpu.prepacked %q layout "panel:32[16x64]@"
  // CHECK: cpu.dot
  // CHECK-SAME: row:16[32x16]@ panel:32[16x64]@
  %one = arith.constant 1 : i64
  %k = arith.constant 16 : i64
  %width = arith.constant 32 : i64
  %panel = arith.constant 512 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x16xf32>
  %b = tile.load_view %q ["strided", "strided", "strided"] strides(%width, %panel, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16x2x32xf32>
  %c = tile.reshape %b : tensor<16x2x32xf32> to tensor<16x64xf32>
  %d = tile.dot %a, %c, %acc, "ieee" : tensor<32x16xf32>, tensor<16x64xf32>, tensor<32x64xf32> to tensor<32x64xf32>
  tile.store %o, %d : tensor<32x64x!tile.ptr<f32>>, tensor<32x64xf32>
  func.return
}

// -----
// RUN: lower-dot,elide-packing
// Rows of a larger matrix have gaps between them, and a store may write what is read.
// CHECK-LABEL: @not_so
// CHECK-NOT: cpu.prepacked
func.func @not_so(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %ld: i64, %acc: tensor<32x32xf32>, %o: tensor<32x32x!tile.ptr<f32>>, %v: f32) {
  %one = arith.constant 1 : i64
  %width = arith.constant 32 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%ld, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x16xf32>
  %b = tile.load_view %q ["strided", "strided"] strides(%width, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16x32xf32>
  tile.store %p, %v : !tile.ptr<f32>, f32
  %d = tile.dot %a, %b, %acc, "ieee" : tensor<32x16xf32>, tensor<16x32xf32>, tensor<32x32xf32> to tensor<32x32xf32>
  tile.store %o, %d : tensor<32x32x!tile.ptr<f32>>, tensor<32x32xf32>
  func.return
}
