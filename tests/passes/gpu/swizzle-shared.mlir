// RUN: swizzle-shared
// The widest panels that divide a line; lines of 16 bytes stay.
// CHECK-LABEL: @swizzled
func.func @swizzled() {
  // CHECK-NEXT: "64x64x2 dim1 swizzle128"
  // CHECK-NEXT: "32x96x2 dim1 swizzle64"
  // CHECK-NEXT: "64x64x4 dim0 swizzle128"
  // CHECK-NEXT: "16x8x2 dim1 pad0"
  // CHECK-NEXT: "64x16x2 dim1 swizzle32"
  %a = gpu.local_alloc : !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 pad0", 2>
  %b = gpu.local_alloc : !gpu.shared<tensor<32x96xf16>, "32x96x2 dim1 pad0", 2>
  %c = gpu.local_alloc : !gpu.shared<tensor<64x64xf32>, "64x64x4 dim0 pad0", 1>
  %d = gpu.local_alloc : !gpu.shared<tensor<16x8xf16>, "16x8x2 dim1 pad0", 1>
  %e = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle0", 1>
  func.return
}
// -----
// RUN: swizzle-shared{mode=pad}
// The paper's 128 + 8; what wgmma reads stays.
// CHECK-LABEL: @padded
func.func @padded() {
  // CHECK-NEXT: "64x128x2 dim1 pad8"
  // CHECK-NEXT: "64x32x4 dim1 pad4"
  // CHECK-NEXT: "64x16x2 dim1 swizzle0"
  %a = gpu.local_alloc : !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 pad0", 2>
  %b = gpu.local_alloc : !gpu.shared<tensor<64x32xf32>, "64x32x4 dim1 pad0", 2>
  %e = gpu.local_alloc : !gpu.shared<tensor<64x16xf16>, "64x16x2 dim1 swizzle0", 1>
  func.return
}
// -----
// RUN: swizzle-shared{mode=none}
// CHECK-LABEL: @none
func.func @none() {
  // CHECK-NEXT: "64x64x2 dim1 pad0"
  %a = gpu.local_alloc : !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 pad0", 2>
  func.return
}
