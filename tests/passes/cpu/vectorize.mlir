// RUN: form-fusion-groups,plan-scratch,vectorize
// Full chunks without masks, then the rest with.
// CHECK-LABEL: @main_and_tail
func.func @main_and_tail(%p: !tile.ptr<f32>, %n: i64) {
  %one = arith.constant 1 : i64
  // CHECK: scf.for
  // CHECK-NOT: cpu.lane_mask
  // CHECK: [[V:%.+]] = cpu.vector_load %p[[[I:%.+]]] {{.*}} to vector<64xf32>
  // CHECK: arith.addf [[V]], [[V]] : vector<64xf32>
  // CHECK: cpu.vector_store
  // CHECK: scf.for
  // CHECK: cpu.lane_mask
  // CHECK: cpu.vector_load {{.+}}vector<64xi1> {{.*}} to vector<64xf32>
  %x = tile.load_view %p ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<256xf32>
  %d = arith.addf %x, %x : tensor<256xf32>
  tile.store_view %d, %p ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}

// -----
// Different pointers may overlap: their ranges are compared, and there is an ordered variant.
// CHECK-LABEL: @range_checked
func.func @range_checked(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  %one = arith.constant 1 : i64
  // CHECK: tile.ptr_to_int %p
  // CHECK: tile.ptr_to_int %q
  // CHECK: tile.cmpi "sle"
  // CHECK: scf.if
  // CHECK: cpu.vector_store %q
  // CHECK: } else {
  // CHECK: cpu.vector_store [[T:%[0-9]+]]
  // CHECK: cpu.vector_load [[T]]
  // CHECK: cpu.vector_store %q
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
  tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}

// -----
// RUN: form-fusion-groups,plan-scratch,vectorize
// What is contiguous down columns is loaded so and transposed in blocks.
// CHECK-LABEL: @turned
func.func @turned(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %ld: i64) {
  // CHECK: cpu.vector_load %p
  // CHECK-SAME: vector<16xf32>
  // CHECK: cpu.transpose
  // CHECK: cpu.vector_store %q
  // CHECK-NOT: cpu.gather
  %one = arith.constant 1 : i64
  %x = tile.load_view %p ["strided", "strided"] strides(%one, %ld) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  tile.store_view %x, %q ["strided", "strided"] strides(%ld, %one) {limited = array<i64>} : tensor<32x64xf32>, !tile.ptr<f32>
  func.return
}

// -----
// RUN: form-fusion-groups,plan-scratch,vectorize
// Elements `i ^ 100` lie in another chunk (100 - 100 % 64), and there in lane `i ^ 36`.
// CHECK-LABEL: @butterfly
func.func @butterfly(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>) {
  // CHECK: [[B:%[0-9]+]] = arith.xori
  // CHECK: [[V:%[0-9]+]] = cpu.vector_load {{.*}}[[B]]{{.*}} to vector<64xf32>
  // CHECK: cpu.shuffle_xor [[V]][36 : i32] : vector<64xf32>
  // CHECK-NOT: cpu.gather
  %one = arith.constant 1 : i64
  %c = arith.constant 100 : i32
  %i = tile.arange 0 : i32, 256 : i32 : tensor<256xi32>
  %s = tile.splat %c : i32 to tensor<256xi32>
  %m = arith.xori %i, %s : tensor<256xi32>
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
  %y = tile.gather %x, %m, 0 : i32 : tensor<256xf32>, tensor<256xi32> to tensor<256xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}
