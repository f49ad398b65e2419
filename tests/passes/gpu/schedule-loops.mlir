// RUN: select-mma,assign-layouts,promote-shared,swizzle-shared,schedule-loops{all-loops=true}
// The producer warp fills the stages of both operands; the second product of an iteration runs beside the first of
// the next.
// CHECK-LABEL: @two_dots
func.func @two_dots(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %d: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: [[FULL:%.+]] = gpu.mbarrier_init : !gpu.mbarriers<3>
  // CHECK-NEXT: [[FREE:%.+]] = gpu.mbarrier_init of 4 : i32 : !gpu.mbarriers<3>
  // CHECK-NEXT: [[FULL2:%.+]] = gpu.mbarrier_init : !gpu.mbarriers<3>
  // CHECK-NEXT: [[FREE2:%.+]] = gpu.mbarrier_init of 4 : i32 : !gpu.mbarriers<3>
  // CHECK-NEXT: gpu.producer_warp registers 40 : i32, 2{{[0-9]+}} : i32 {
  // CHECK: scf.for
  // CHECK: gpu.mbarrier_wait [[FREE]][
  // CHECK: gpu.tma_load %b[
  // CHECK: gpu.mbarrier_wait [[FREE2]][
  // CHECK: gpu.tma_load %d[
  // CHECK: scf.if
  // CHECK: gpu.mbarrier_wait [[FULL]][
  // CHECK-NEXT: gpu.wgmma
  // CHECK-NOT: [[FULL2]]
  // CHECK: scf.for
  // CHECK: gpu.mbarrier_wait [[FULL]][
  // CHECK-NEXT: gpu.wgmma
  // CHECK: gpu.mbarrier_wait [[FULL2]][
  // CHECK-NEXT: gpu.wgmma
  // CHECK: gpu.wgmma_wait {{.+}}, 1
  // CHECK: gpu.mbarrier_arrive [[FREE]][
  // CHECK: math.exp2
  // CHECK-NEXT: gpu.wgmma_wait {{.+}}, 0
  // CHECK: gpu.mbarrier_arrive [[FREE2]][
  // CHECK: arith.truncf
  // CHECK: scf.yield
  // CHECK: gpu.mbarrier_wait [[FULL2]][
  // CHECK-NEXT: gpu.wgmma
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %w = arith.constant 64 : i64
  %step = arith.constant 64 : i64
  %f = arith.constant 0.0 : f32
  %x = tile.load_view %a ["strided", "strided"] strides(%w, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x64xf16>
  %start = tile.splat %f : f32 to tensor<64x64xf32>
  %sum = scf.for %i = %zero to %k step %step iter_args(%s = %start) -> (tensor<64x64xf32>) : i64 {
    %o = arith.muli %i, %w : i64
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
