// relu(A @ B + bias) on tensors: tilewright generate linear.mlir --target sm_90a
#id = affine_map<(d0, d1) -> (d0, d1)>
#col = affine_map<(d0, d1) -> (d1)>
func.func @mm(%A: tensor<512x256xf16>, %B: tensor<256x1024xf16>, %bias: tensor<1024xf16>) -> tensor<512x1024xf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<512x1024xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %p = linalg.matmul ins(%A, %B : tensor<512x256xf16>, tensor<256x1024xf16>) outs(%init : tensor<512x1024xf32>) -> tensor<512x1024xf32>
  %o = tensor.empty() : tensor<512x1024xf16>
  %r = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %bias : tensor<512x1024xf32>, tensor<1024xf16>) outs(%o : tensor<512x1024xf16>) {
  ^bb0(%x: f32, %b: f16, %out: f16):
    %w = arith.extf %b : f16 to f32
    %s = arith.addf %x, %w : f32
    %m = arith.maximumf %s, %zero : f32
    %h = arith.truncf %m : f32 to f16
    linalg.yield %h : f16
  } -> tensor<512x1024xf16>
  func.return %r : tensor<512x1024xf16>
}
