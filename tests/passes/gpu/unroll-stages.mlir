// RUN: select-mma,assign-layouts,promote-shared,swizzle-shared,pipeline-loads,unroll-stages{most-stages=2},cse
// Two iterations of a loop with two stages, the first with stage 0 and the second with stage 1; the last of an odd number
// behind it.
// CHECK-LABEL: @two_dots
func.func @two_dots(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %d: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 2 : i32} {
  // CHECK-DAG: [[ZERO:%.+]] = arith.constant 0 : i32
  // CHECK-DAG: [[ONE:%.+]] = arith.constant 1 : i32
  // CHECK: [[HALF:%.+]] = arith.divui
  // CHECK: scf.for {{.+}} to [[HALF]] step
  // CHECK: gpu.mbarrier_wait {{.+}}[[[ZERO]]]
  // CHECK-NEXT: gpu.wgmma {{.+}}[[[ZERO]]], {{.+}}[[[ZERO]]]
  // CHECK: gpu.tma_load {{.+}} to {{.+}}[[[ONE]]]
  // CHECK: gpu.mbarrier_wait {{.+}}[[[ONE]]]
  // CHECK-NEXT: gpu.wgmma {{.+}}[[[ZERO]]], {{.+}}[[[ONE]]]
  // CHECK: gpu.tma_load {{.+}} to {{.+}}[[[ZERO]]]
  // CHECK: scf.yield
  // CHECK: scf.if
  // CHECK: gpu.mbarrier_wait {{.+}}[[[ZERO]]]
  // CHECK-NOT: scf.for
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %w = arith.constant 64 : i64
  %step = arith.constant 1 : i64
  %f = arith.constant 0.0 : f32
  %x = tile.load_view %a ["strided", "strided"] strides(%w, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x64xf16>
  %start = tile.splat %f : f32 to tensor<64x64xf32>
  %sum = scf.for %i = %zero to %k step %step iter_args(%s = %start) -> (tensor<64x64xf32>) : i64 {
    %first = arith.muli %i, %w : i64
    %o = arith.muli %first, %w : i64
    %p = tile.addptr %b, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = tile.load_view %p ["strided", "strided"] strides(%w, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x64xf16>
    %q = tile.dot %x, %y, %start, "tf32" : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
    %e = math.exp2 %q : tensor<64x64xf32>
    %h = arith.truncf %e : tensor<64x64xf32> to tensor<64x64xf16>
    %r = tile.addptr %d, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %z = tile.load_view %r ["strided", "strided"] strides(%w, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x64xf16>
    %t = tile.dot %h, %z, %s, "tf32" : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
    scf.yield %t : tensor<64x64xf32>
  }
  tile.store_view %sum, %c ["strided", "strided"] strides(%w, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
