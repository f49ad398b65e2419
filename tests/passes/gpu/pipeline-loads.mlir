// RUN: select-mma,assign-layouts,promote-shared,pipeline-loads{mma-in-flight=0 tma=false}
// Two iterations ahead of three stages; the loop waits for all copies but the newest.
// CHECK-LABEL: @threads
func.func @threads(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: gpu.local_alloc {{.+}}3
  // CHECK: gpu.async_copy
  // CHECK: gpu.async_copy
  // CHECK: gpu.async_commit_group
  // CHECK: gpu.async_copy
  // CHECK: gpu.async_copy
  // CHECK: gpu.async_commit_group
  // CHECK: scf.for
  // CHECK-NEXT: gpu.async_wait 1
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.async_copy
  // CHECK: gpu.async_copy
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK-NEXT: gpu.wgmma 
  // CHECK-NEXT: gpu.wgmma_wait {{.+}}, 0
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
// RUN: select-mma,assign-layouts,promote-shared,pipeline-loads{mma-in-flight=0}
// Boxes: one thread starts the copies of a stage, and its barrier counts their bytes.
// CHECK-LABEL: @boxes
func.func @boxes(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: [[M:%.+]] = gpu.mbarrier_init : !gpu.mbarriers<3>
  // CHECK: scf.if
  // CHECK: gpu.mbarrier_arrive_expect_tx [[M]][{{.+}}], 8192
  // CHECK: gpu.tma_load %a[
  // CHECK: gpu.tma_load %b[
  // CHECK: scf.if
  // CHECK: scf.for
  // CHECK-NEXT: gpu.mbarrier_wait [[M]][
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.elect
  // CHECK: scf.if
  // CHECK: gpu.tma_load %a[
  // CHECK: gpu.wgmma 
  // CHECK-NEXT: gpu.wgmma_wait {{.+}}, 0
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
// RUN: select-mma,assign-layouts,promote-shared,pipeline-loads
// With a product under way the boxes are copied behind it: one barrier, where tensor cores are busy.
// CHECK-LABEL: @late
func.func @late(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: scf.if
  // CHECK: scf.if
  // CHECK: scf.if
  // CHECK: scf.for
  // CHECK-NEXT: gpu.mbarrier_wait
  // CHECK-NEXT: gpu.wgmma 
  // CHECK-NEXT: gpu.wgmma_wait {{.+}}, 1
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.tma_load %a[
  // CHECK: gpu.wgmma_wait {{.+}}, 0
  // CHECK: else
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
// RUN: select-mma,assign-layouts,promote-shared,pipeline-loads{tma=false}
// One stage more, where it costs no program its place: a product is not waited for in its iteration.
// CHECK-LABEL: @lag
func.func @lag(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: gpu.local_alloc {{.+}}[[N:[0-9]]]
  // CHECK: scf.for
  // CHECK: gpu.wgmma_wait
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
// Where one stage was asked for there are two, if several CTAs have room for them.
// CHECK-LABEL: @one
func.func @one(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 1 : i32} {
  // CHECK: gpu.local_alloc : !gpu.shared<{{.+}}, 2>
  // CHECK: gpu.async_copy
  // CHECK: scf.for
  // CHECK: gpu.async_wait 0
  // CHECK: gpu.async_copy
  // CHECK: gpu.wgmma
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
// Sums that something else looks at are waited for; copies are ahead all the same.
// CHECK-LABEL: @looked_at
func.func @looked_at(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: scf.for
  // CHECK-NEXT: gpu.async_wait 1
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.async_copy
  // CHECK: gpu.async_copy
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK-NEXT: gpu.wgmma 
  // CHECK-NEXT: gpu.wgmma_wait {{.+}}, 0
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
    tile.store_view %d, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store_view %sum, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
