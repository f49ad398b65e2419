// RUN: fold-transpose
// CHECK-LABEL: @transposed
func.func @transposed(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %x = "tile.load_view"(%p, %s, %one, %n) <{kinds = ["strided", "strided"], limited = array<i64: 0>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 1, 0, 0>}> : (!tile.ptr<f32>, i64, i64, i64) -> tensor<16x32xf32>
  // CHECK: "tile.load_view"(%p, %one, %s, %n)
  // CHECK-SAME: limited = array<i64: 1>
  // CHECK-NOT: tile.trans
  %t = tile.trans %x, [1, 0] : tensor<16x32xf32> to tensor<32x16xf32>
  "tile.store_view"(%q, %s, %one, %t) <{kinds = ["strided", "strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 0, 0, 1>}> : (!tile.ptr<f32>, i64, i64, tensor<32x16xf32>) -> ()
  func.return
}

// CHECK-LABEL: @tile_beyond
func.func @tile_beyond(%p: !tile.ptr<f32>, %s: i64, %n: i64, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  %o = "tile.load_view"(%q, %s, %one) <{kinds = ["strided", "strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 0, 0, 0>}> : (!tile.ptr<f32>, i64, i64) -> tensor<16x16xf32>
  // CHECK: tile.trans
  %x = "tile.load_view"(%p, %s, %one, %n, %o) <{kinds = ["strided", "strided"], limited = array<i64: 0>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 1, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, tensor<16x16xf32>) -> tensor<16x16xf32>
  %t = tile.trans %x, [1, 0] : tensor<16x16xf32> to tensor<16x16xf32>
  "tile.store_view"(%q, %s, %one, %t) <{kinds = ["strided", "strided"], limited = array<i64>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 0, 0, 1>}> : (!tile.ptr<f32>, i64, i64, tensor<16x16xf32>) -> ()
  func.return
}
