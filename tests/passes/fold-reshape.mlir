// RUN: fold-reshape
// CHECK-LABEL: @one_of_a_batch
func.func @one_of_a_batch(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %x = "tile.load_view"(%p, %s, %s, %one, %n) <{kinds = ["strided", "strided", "strided"], limited = array<i64: 2>, operandSegmentSizes = array<i32: 1, 3, 0, 0, 0, 1, 0, 0>}> : (!tile.ptr<f32>, i64, i64, i64, i64) -> tensor<1x16x32xf32>
  // CHECK: "tile.load_view"(%p, %s, %one, %n)
  // CHECK-SAME: limited = array<i64: 1>
  // CHECK-NOT: tile.reshape
  %y = tile.reshape %x : tensor<1x16x32xf32> to tensor<16x32xf32>
  %z = arith.addf %y, %y : tensor<16x32xf32>
  %w = tile.reshape %z : tensor<16x32xf32> to tensor<16x1x32xf32>
  // CHECK: "tile.store_view"(%q, %n, %one, 
  "tile.store_view"(%q, %n, %s, %one, %w) <{kinds = ["strided", "strided", "strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 3, 0, 0, 0, 0, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, tensor<16x1x32xf32>) -> ()
  func.return
}

// CHECK-LABEL: @limited
func.func @limited(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  // CHECK: tile.reshape
  %x = "tile.load_view"(%p, %s, %one, %n) <{kinds = ["strided", "strided"], limited = array<i64: 0>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 1, 0, 0>}> : (!tile.ptr<f32>, i64, i64, i64) -> tensor<1x32xf32>
  %y = tile.reshape %x : tensor<1x32xf32> to tensor<32xf32>
  "tile.store_view"(%q, %one, %y) <{kinds = ["strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 1>}> : (!tile.ptr<f32>, i64, tensor<32xf32>) -> ()
  func.return
}

// CHECK-LABEL: @tile_beyond
func.func @tile_beyond(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %o = "tile.load_view"(%q, %s, %s, %one) <{kinds = ["strided", "strided", "strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 3, 0, 0, 0, 0, 0, 0>}> : (!tile.ptr<f32>, i64, i64, i64) -> tensor<1x16x32xf32>
  // CHECK: tile.reshape
  %x = "tile.load_view"(%p, %s, %s, %one, %n, %o) <{kinds = ["strided", "strided", "strided"], limited = array<i64: 2>, operandSegmentSizes = array<i32: 1, 3, 0, 0, 0, 1, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<1x16x32xf32>) -> tensor<1x16x32xf32>
  %y = tile.reshape %x : tensor<1x16x32xf32> to tensor<16x32xf32>
  "tile.store_view"(%q, %s, %one, %y) <{kinds = ["strided", "strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 0, 0, 1>}> : (!tile.ptr<f32>, i64, i64, tensor<16x32xf32>) -> ()
  func.return
}
