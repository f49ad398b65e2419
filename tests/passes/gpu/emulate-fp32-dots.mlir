// RUN: emulate-fp32-dots
// Three parts an operand, six products, the largest last.
// CHECK-LABEL: @six
func.func @six(%a: tensor<16x16xf32>, %b: tensor<16x8xf32>, %c: tensor<16x8xf32>) -> tensor<16x8xf32> {
  // CHECK-COUNT-3: arith.truncf {{.+}} tensor<16x16xf32> to tensor<16x16xbf16>
  // CHECK-COUNT-3: arith.truncf {{.+}} tensor<16x8xf32> to tensor<16x8xbf16>
  // CHECK-COUNT-5: tile.dot
  // CHECK: tile.select
  // CHECK: tile.dot
  // CHECK: arith.addf %c,
  %d = tile.dot %a, %b, %c, "bf16x6" : tensor<16x16xf32>, tensor<16x8xf32>, tensor<16x8xf32> to tensor<16x8xf32>
  func.return %d : tensor<16x8xf32>
}
// -----
// CHECK-LABEL: @kept
func.func @kept(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>, %c: tensor<8x8xf32>, %h: tensor<16x16xf16>, %s: tensor<16x16xf32>) {
  // CHECK: tile.dot %a, %b, %c, "tf32x3"
  %d = tile.dot %a, %b, %c, "tf32x3" : tensor<8x16xf32>, tensor<16x8xf32>, tensor<8x8xf32> to tensor<8x8xf32>
  // CHECK: tile.dot %h, %h, %s, "tf32x3"
  %e = tile.dot %h, %h, %s, "tf32x3" : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
  // CHECK: tile.dot %s, %s, %s, "ieee"
  %f = tile.dot %s, %s, %s, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  func.return
}
