// RUN: lower-dot
// Halves are widened while they are packed; the product keeps its extents.
// CHECK-LABEL: @halves
func.func @halves(%a: tensor<32x16xf16>, %b: tensor<16x32xf16>, %c: tensor<32x32xf16>, %p: tensor<32x32x!tile.ptr<f16>>) {
  // CHECK: [[A:%.+]] = arith.extf %a : tensor<32x16xf16> to tensor<32x16xf32>
  // CHECK: [[B:%.+]] = arith.extf %b
  // CHECK: [[C:%.+]] = arith.extf %c
  // CHECK: [[D:%.+]] = cpu.dot [[A]], [[B]], [[C]] plan "fma 32x32x16 f32,f32,f32
  // CHECK: arith.truncf [[D]] : tensor<32x32xf32> to tensor<32x32xf16>
  %d = tile.dot %a, %b, %c, "ieee" : tensor<32x16xf16>, tensor<16x32xf16>, tensor<32x32xf16> to tensor<32x32xf16>
  tile.store %p, %d : tensor<32x32x!tile.ptr<f16>>, tensor<32x32xf16>
  func.return
}
