// C += A @ B, eight times, in memory.
func.func @bmm(%A: memref<8x512x256xf32>, %B: memref<8x256x1024xf32>, %C: memref<8x512x1024xf32>) {
  linalg.batch_matmul ins(%A, %B : memref<8x512x256xf32>, memref<8x256x1024xf32>) outs(%C : memref<8x512x1024xf32>)
  return
}
