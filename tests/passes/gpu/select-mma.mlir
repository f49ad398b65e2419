// RUN: select-mma
// Warp groups multiply 16-bit floats into fp32 where 64 rows are there for four warps.
// CHECK-LABEL: @groups
func.func @groups(%a: tensor<64x32xbf16>, %b: tensor<32x64xbf16>, %c: tensor<64x64xf32>) {
  // CHECK: tile.dot %a, %b, %c, "tf32" {gpu.mma = "wgmma.k16.bf16"}
  %d = tile.dot %a, %b, %c, "tf32" : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
// -----
// RUN: select-mma{wgmma=false}
// CHECK-LABEL: @warps
func.func @warps(%a: tensor<64x32xbf16>, %b: tensor<32x64xbf16>, %c: tensor<64x64xf32>) {
  // CHECK: {gpu.mma = "m16n8k16.bf16"}
  %d = tile.dot %a, %b, %c, "tf32" : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
// -----
// RUN: select-mma
// One warp is no warp group.
// CHECK-LABEL: @one_warp
func.func @one_warp(%a: tensor<64x32xf16>, %b: tensor<32x64xf16>, %c: tensor<64x64xf32>) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: {gpu.mma = "m16n8k16.f16"}
  %d = tile.dot %a, %b, %c, "tf32" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  func.return
}
// -----
// Single precision asked for as such is not rounded to tf32.
// CHECK-LABEL: @single
func.func @single(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>, %c: tensor<16x16xf32>) {
  // CHECK: "ieee" {gpu.mma = "fma.f32"}
  %d = tile.dot %a, %b, %c, "ieee" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  // CHECK: "tf32" {gpu.mma = "m16n8k8.tf32.pairs"}
  %e = tile.dot %a, %b, %c, "tf32" : tensor<16x16xf32>, tensor<16x16xf32>, tensor<16x16xf32> to tensor<16x16xf32>
  func.return
}
// -----
// 8-bit floats of two kinds are multiplied as they are.
// CHECK-LABEL: @mixed_fp8
func.func @mixed_fp8(%a: tensor<16x32xf8E4M3FN>, %b: tensor<32x16xf8E5M2>, %c: tensor<16x16xf32>) {
  // CHECK: tile.dot %a, %b, %c, "tf32" {gpu.mma = "m16n8k32.e4m3.e5m2"}
  %d = tile.dot %a, %b, %c, "tf32" : tensor<16x32xf8E4M3FN>, tensor<32x16xf8E5M2>, tensor<16x16xf32> to tensor<16x16xf32>
  func.return
}
// -----
// With fp16 sums they meet as fp16, which holds both exactly.
// CHECK-LABEL: @half_sums
func.func @half_sums(%a: tensor<16x32xf8E4M3FN>, %b: tensor<32x16xf8E5M2>, %c: tensor<16x16xf16>) {
  // CHECK: [[A:%.+]] = arith.extf %a : tensor<16x32xf8E4M3FN> to tensor<16x32xf16>
  // CHECK: [[B:%.+]] = arith.extf %b : tensor<32x16xf8E5M2> to tensor<32x16xf16>
  // CHECK: tile.dot [[A]], [[B]], %c, "tf32" {gpu.mma = "m16n8k16.f16"}
  %d = tile.dot %a, %b, %c, "tf32" : tensor<16x32xf8E4M3FN>, tensor<32x16xf8E5M2>, tensor<16x16xf16> to tensor<16x16xf16>
  func.return
}
// -----
// Every type of the tensor cores, by warp groups.
// CHECK-LABEL: @types
func.func @types(%a: tensor<64x64xf8E4M3FN>, %b: tensor<64x64xf8E5M2>, %c: tensor<64x64xf32>, %h: tensor<64x64xf16>, %f: tensor<64x64xf32>, %i: tensor<64x64xi8>, %s: tensor<64x64xi32>) {
  // CHECK: {gpu.mma = "wgmma.k32.e4m3.e5m2"}
  %1 = tile.dot %a, %b, %c, "tf32" : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E5M2>, tensor<64x64xf32> to tensor<64x64xf32>
  // CHECK: {gpu.mma = "wgmma.k32.e4m3"}
  %2 = tile.dot %a, %a, %h, "tf32" : tensor<64x64xf8E4M3FN>, tensor<64x64xf8E4M3FN>, tensor<64x64xf16> to tensor<64x64xf16>
  // CHECK: {gpu.mma = "wgmma.k16.f16"}
  %3 = tile.dot %h, %h, %h, "tf32" : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf16> to tensor<64x64xf16>
  // CHECK: {gpu.mma = "wgmma.k8.tf32"}
  %4 = tile.dot %f, %f, %c, "tf32" : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32> to tensor<64x64xf32>
  // CHECK: {gpu.mma = "wgmma.k32.s8"}
  %5 = tile.dot %i, %i, %s, "tf32" : tensor<64x64xi8>, tensor<64x64xi8>, tensor<64x64xi32> to tensor<64x64xi32>
  func.return
}
// -----
// CHECK-LABEL: @small
func.func @small(%a: tensor<8x16xf16>, %b: tensor<16x8xf16>, %c: tensor<8x8xf32>) {
  // CHECK: {gpu.mma = "fma"}
  %d = tile.dot %a, %b, %c, "tf32" : tensor<8x16xf16>, tensor<16x8xf16>, tensor<8x8xf32> to tensor<8x8xf32>
  func.return
}
// -----
// CHECK-LABEL: @few_rows
func.func @few_rows(%a: tensor<8x16xf16>, %b: tensor<16x32xf16>, %c: tensor<8x32xf32>) {
  // CHECK: tile.trans %b, [1, 0]
  // CHECK: {gpu.mma = "m16n8k16.f16"} : tensor<32x16xf16>, tensor<16x8xf16>, tensor<32x8xf32> to tensor<32x8xf32>
  // CHECK: tile.trans
  %d = tile.dot %a, %b, %c, "tf32" : tensor<8x16xf16>, tensor<16x32xf16>, tensor<8x32xf32> to tensor<8x32xf32>
  func.return
}
