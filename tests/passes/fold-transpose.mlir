// RUN: fold-transpose
// CHECK-LABEL: @transposed
func.func @transposed(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %x = tile.load_view %p ["strided", "strided"] strides(%s, %one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<16x32xf32>
  // CHECK: tile.load_view %p ["strided", "strided"] strides(%one, %s) limits(%n)
  // CHECK-SAME: limited = array<i64: 1>
  // CHECK-NOT: tile.trans
  %t = tile.trans %x, [1, 0] : tensor<16x32xf32> to tensor<32x16xf32>
  tile.store_view %t, %q ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<32x16xf32>, !tile.ptr<f32>
  func.return
}

// CHECK-LABEL: @tile_beyond
func.func @tile_beyond(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %o = tile.load_view %q ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16x16xf32>
  // CHECK: tile.trans
  %x = tile.load_view %p ["strided", "strided"] strides(%s, %one) limits(%n) other %o : tensor<16x16xf32> {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<16x16xf32>
  %t = tile.trans %x, [1, 0] : tensor<16x16xf32> to tensor<16x16xf32>
  tile.store_view %t, %q ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<16x16xf32>, !tile.ptr<f32>
  func.return
}
