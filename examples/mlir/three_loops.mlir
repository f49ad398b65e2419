// A matmul as three loops: section 3.1 of arXiv 2108.13191.
func.func @mm(%A: memref<8192x8192xf16>, %B: memref<8192x8192xf16>, %C: memref<8192x8192xf32>) {
  affine.for %i = 0 to 8192 {
    affine.for %j = 0 to 8192 {
      affine.for %k = 0 to 8192 {
        %a = affine.load %A[%i, %k] : memref<8192x8192xf16>
        %b = affine.load %B[%k, %j] : memref<8192x8192xf16>
        %c = affine.load %C[%i, %j] : memref<8192x8192xf32>
        %p = arith.extf %a : f16 to f32
        %q = arith.extf %b : f16 to f32
        %t = arith.mulf %p, %q : f32
        %co = arith.addf %c, %t : f32
        affine.store %co, %C[%i, %j] : memref<8192x8192xf32>
      }
    }
  }
  func.return
}
