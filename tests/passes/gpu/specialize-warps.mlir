// RUN: select-mma,assign-layouts,promote-shared,swizzle-shared,specialize-warps{all-loops=true}
// A warp of its own waits for free stages and fills them; the others wait for full ones and give them back.
// CHECK-LABEL: @roles
func.func @roles(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: [[FREE:%.+]] = gpu.mbarrier_init of 4 : i32 : !gpu.mbarriers<[[S:[0-9]]]>
  // CHECK-NEXT: [[FULL:%.+]] = gpu.mbarrier_init : !gpu.mbarriers<[[S]]>
  // CHECK: gpu.producer_warp {
  // CHECK: scf.for
  // CHECK-NEXT: gpu.mbarrier_wait [[FREE]][
  // CHECK: gpu.mbarrier_arrive_expect_tx [[FULL]][{{.+}}], 8192
  // CHECK: gpu.tma_load %a[
  // CHECK: gpu.tma_load %b[
  // CHECK: scf.if
  // CHECK: scf.for
  // CHECK-NEXT: gpu.mbarrier_wait [[FULL]][
  // CHECK-NEXT: gpu.wgmma 
  // CHECK-NEXT: gpu.wgmma_wait {{.+}}, 1
  // CHECK: gpu.mbarrier_arrive [[FREE]][
  // CHECK-NOT: gpu.tma_load
  // CHECK: gpu.wgmma_wait {{.+}}, 0
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %step = arith.constant 32 : i64
  %f = arith.constant 0.0 : f32
  %start = tile.splat %f : f32 to tensor<64x64xf32>
  %sum = scf.for %i = %zero to %k step %step iter_args(%s = %start) -> (tensor<64x64xf32>) : i64 {
    %p = tile.addptr %a, %i : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %x = tile.load_view %p ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x32xf16>
    %o = arith.muli %i, %n : i64
    %q = tile.addptr %b, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<32x64xf16>
    %d = tile.dot %x, %y, %s, "tf32" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store_view %sum, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// A program that does more than computing before its loop keeps one role.
// CHECK-LABEL: @loads_before
func.func @loads_before(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK-NOT: gpu.producer_warp
  // CHECK: gpu.async_copy
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %step = arith.constant 32 : i64
  %f = tile.load %c : !tile.ptr<f32> to f32
  %start = tile.splat %f : f32 to tensor<64x64xf32>
  %sum = scf.for %i = %zero to %k step %step iter_args(%s = %start) -> (tensor<64x64xf32>) : i64 {
    %p = tile.addptr %a, %i : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %x = tile.load_view %p ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x32xf16>
    %o = arith.muli %i, %n : i64
    %q = tile.addptr %b, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<32x64xf16>
    %d = tile.dot %x, %y, %s, "tf32" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store_view %sum, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
