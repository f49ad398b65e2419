// RUN: narrow-dot-operands
// Through changes of shape, fp16 as well as bf16, in every precision that tensor cores compute.
// CHECK-LABEL: @narrowed
func.func @narrowed(%a: tensor<16x16xf16>, %b: tensor<16x8xf16>, %c: tensor<16x8xf32>) -> tensor<16x8xf32> {
  // CHECK-NOT: arith.extf
  // CHECK: %[[T:.+]] = tile.trans %a, [1, 0] : tensor<16x16xf16>
  // CHECK: tile.dot %[[T]], %b, %c, "tf32x3"
  %0 = arith.extf %a : tensor<16x16xf16> to tensor<16x16xf32>
  %1 = tile.trans %0, [1, 0] : tensor<16x16xf32> to tensor<16x16xf32>
  %2 = arith.extf %b : tensor<16x8xf16> to tensor<16x8xf32>
  %d = tile.dot %1, %2, %c, "tf32x3" : tensor<16x16xf32>, tensor<16x8xf32>, tensor<16x8xf32> to tensor<16x8xf32>
  func.return %d : tensor<16x8xf32>
}
// -----
// Rows that a mask sets to zero after they were widened.
// CHECK-LABEL: @masked
func.func @masked(%a: tensor<16x16xbf16>, %c: tensor<16x16xf32>, %m: tensor<16x16xi1>) -> tensor<16x16xf32> {
  // CHECK-NOT: arith.extf
  // CHECK: %[[S:.+]] = tile.select %m, %a, %{{.+}} : tensor<16x16xi1>, tensor<16x16xbf16>
  // CHECK: tile.dot %[[S]], %a, %c, "tf32"
  %0 = arith.extf %a : tensor<16x16xbf16> to tensor<16x16xf32>
  %z = arith.constant 0.0 : f32
  %zeros = tile.splat %z : f32 to tensor<16x16xf32>
  %1 = tile.select %m, %0, %zeros : tensor<16x16xi1>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  %d = tile.dot %1, %0, %c, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  func.return %d : tensor<16x16xf32>
}
// -----
// Two types, one operand that is not widened, ieee, and an inner extent that no instruction takes.
// CHECK-LABEL: @kept
func.func @kept(%a: tensor<16x16xf16>, %b: tensor<16x16xbf16>, %c: tensor<16x16xf32>, %s: tensor<16x8xf16>, %t: tensor<8x16xf16>) {
  // CHECK-COUNT-4: arith.extf
  %0 = arith.extf %a : tensor<16x16xf16> to tensor<16x16xf32>
  %1 = arith.extf %b : tensor<16x16xbf16> to tensor<16x16xf32>
  %2 = arith.extf %s : tensor<16x8xf16> to tensor<16x8xf32>
  %3 = arith.extf %t : tensor<8x16xf16> to tensor<8x16xf32>
  // CHECK: tile.dot %0, %1, %c, "tf32"
  %d = tile.dot %0, %1, %c, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  // CHECK: tile.dot %0, %c, %c, "tf32"
  %e = tile.dot %0, %c, %c, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  // CHECK: tile.dot %0, %0, %c, "ieee"
  %f = tile.dot %0, %0, %c, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  // CHECK: tile.dot %2, %3, %c, "tf32"
  %g = tile.dot %2, %3, %c, "tf32" : tensor<16x8xf32>, tensor<8x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  func.return
}
