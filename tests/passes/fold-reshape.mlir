// RUN: fold-reshape
// CHECK-LABEL: @one_of_a_batch
func.func @one_of_a_batch(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %x = tile.load_view %p ["strided", "strided", "strided"] strides(%s, %s, %one) limits(%n) {limited = array<i64: 2>} : !tile.ptr<f32> to tensor<1x16x32xf32>
  // CHECK: tile.load_view %p ["strided", "strided"] strides(%s, %one) limits(%n)
  // CHECK-SAME: limited = array<i64: 1>
  // CHECK-NOT: tile.reshape
  %y = tile.reshape %x : tensor<1x16x32xf32> to tensor<16x32xf32>
  %z = arith.addf %y, %y : tensor<16x32xf32>
  %w = tile.reshape %z : tensor<16x32xf32> to tensor<16x1x32xf32>
  // CHECK: tile.store_view {{.+}}, %q {{.+}} strides(%n, %one)
  tile.store_view %w, %q ["strided", "strided", "strided"] strides(%n, %s, %one) {limited = array<i64>} : tensor<16x1x32xf32>, !tile.ptr<f32>
  func.return
}

// CHECK-LABEL: @limited
func.func @limited(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  // CHECK: tile.reshape
  %x = tile.load_view %p ["strided", "strided"] strides(%s, %one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<1x32xf32>
  %y = tile.reshape %x : tensor<1x32xf32> to tensor<32xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<32xf32>, !tile.ptr<f32>
  func.return
}

// CHECK-LABEL: @tile_beyond
func.func @tile_beyond(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %o = tile.load_view %q ["strided", "strided", "strided"] strides(%s, %s, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<1x16x32xf32>
  // CHECK: tile.reshape
  %x = tile.load_view %p ["strided", "strided", "strided"] strides(%s, %s, %one) limits(%n) other %o : tensor<1x16x32xf32> {limited = array<i64: 2>} : !tile.ptr<f32> to tensor<1x16x32xf32>
  %y = tile.reshape %x : tensor<1x16x32xf32> to tensor<16x32xf32>
  tile.store_view %y, %q ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : tensor<16x32xf32>, !tile.ptr<f32>
  func.return
}
