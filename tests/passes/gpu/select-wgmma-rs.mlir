// RUN: select-wgmma-rs
// A row-major B lies across k: it passes through registers, as the left operand of the transposed product.
// CHECK-LABEL: @row_row
func.func @row_row(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %c: tensor<64x64xf32>) {
  %one = arith.constant 1 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %b = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  // CHECK: tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32.rs.swap_ab"}
  %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
// -----
// A column-major A and a column-major B.
// CHECK-LABEL: @column_column
func.func @column_column(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %c: tensor<64x64xf32>) {
  %one = arith.constant 1 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%one, %n) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %b = tile.load_view %q ["strided", "strided"] strides(%one, %n) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  // CHECK: {gpu.mma = "wgmma.k8.tf32.rs"}
  %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
// -----
// Both across k: the larger one passes through registers.
// CHECK-LABEL: @column_row
func.func @column_row(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %c: tensor<64x128xf32>, %e: tensor<128x64xf32>) {
  %one = arith.constant 1 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%one, %n) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %b = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x128xf32>
  // CHECK: {gpu.mma = "wgmma.k8.tf32.rs.swap_ab"}
  %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x128xf32>, tensor<64x128xf32> to tensor<64x128xf32>
  %f = tile.load_view %p ["strided", "strided"] strides(%one, %n) {limited = array<i64>} : !tile.ptr<f32> to tensor<128x32xf32>
  %g = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  // CHECK: {gpu.mma = "wgmma.k8.tf32.rs"}
  %h = tile.dot %f, %g, %e, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<128x32xf32>, tensor<32x64xf32>, tensor<128x64xf32> to tensor<128x64xf32>
  func.return
}
// -----
// Along k as the instruction takes them, in 16 bits, or computed: as they are.
// CHECK-LABEL: @others
func.func @others(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %h: !tile.ptr<f16>, %n: i64, %c: tensor<64x64xf32>) {
  %one = arith.constant 1 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %b = tile.load_view %q ["strided", "strided"] strides(%one, %n) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  // CHECK: tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"}
  %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  %e = tile.load_view %h ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x32xf16>
  %f = tile.load_view %h ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<32x64xf16>
  // CHECK: {gpu.mma = "wgmma.k16.f16"}
  %g = tile.dot %e, %f, %c, "tf32" {gpu.mma = "wgmma.k16.f16"} : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %i = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %j = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  %k = arith.negf %j : tensor<32x64xf32>
  // CHECK: tile.dot %i, %k, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"}
  %l = tile.dot %i, %k, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
// -----
// Sums of both forms would lie in two layouts: products that add on to each other agree.
// CHECK-LABEL: @chain
func.func @chain(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %c: tensor<64x64xf32>) {
  %one = arith.constant 1 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %b = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  // CHECK: tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"}
  %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  %e = arith.negf %d : tensor<64x64xf32>
  %f = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %g = tile.load_view %q ["strided", "strided"] strides(%one, %n) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  // CHECK: tile.dot %f, %g, %e, "tf32" {gpu.mma = "wgmma.k8.tf32"}
  %h = tile.dot %f, %g, %e, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
// -----
// What is multiplied again stays as it is: the second product's operand would change its layout.
// CHECK-LABEL: @attention
func.func @attention(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %c: tensor<64x64xf32>) {
  %one = arith.constant 1 : i64
  %a = tile.load_view %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x32xf32>
  %b = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  // CHECK: tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"}
  %d = tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  %e = math.exp2 %d : tensor<64x64xf32>
  %f = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x64xf32>
  // CHECK: tile.dot %e, %f, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"}
  %g = tile.dot %e, %f, %c, "tf32" {gpu.mma = "wgmma.k8.tf32"} : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
