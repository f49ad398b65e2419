// RUN: order-instructions
// CHECK: func.func @k() attributes {gpu.order_instructions}
// Weights of all programs are read-only data, the row of one program is not.
// CHECK-LABEL: func.func @weights
// CHECK-NOT: tile.load_view %row {{.*}}gpu.read_only
// CHECK: tile.load_view %w {{.*}}gpu.read_only
// A prefetch changes nothing.
// CHECK-LABEL: func.func @prefetched
// CHECK: tile.load_view %w {{.*}}gpu.read_only
// A program stores to what all load.
// CHECK-LABEL: func.func @stored
// CHECK-NOT: gpu.read_only
// Something else waits for other programs.
// CHECK-LABEL: func.func @atomic
// CHECK-NOT: gpu.read_only
func.func @k() {
  func.return
}
func.func @weights(%x: !tile.ptr<f32>, %w: !tile.ptr<f32>, %one: i64) {
  %p = tile.program_id 0 : i32 : i32
  %row = tile.addptr %x, %p : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %a = tile.load_view %row ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %b = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %c = arith.mulf %a, %b : tensor<64xf32>
  tile.store_view %c, %row ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
func.func @prefetched(%x: !tile.ptr<f32>, %w: !tile.ptr<f32>, %one: i64, %exists: i1) {
  %p = tile.program_id 0 : i32 : i32
  %row = tile.addptr %x, %p : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %a = tile.load_view %row ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  gpu.prefetch %row, %one of 64 : i64 if %exists : !tile.ptr<f32>
  %b = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %c = arith.mulf %a, %b : tensor<64xf32>
  tile.store_view %c, %row ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
func.func @stored(%x: !tile.ptr<f32>, %w: !tile.ptr<f32>, %one: i64) {
  %p = tile.program_id 0 : i32 : i32
  %row = tile.addptr %x, %p : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %a = tile.load_view %row ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %b = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %c = arith.mulf %a, %b : tensor<64xf32>
  tile.store_view %c, %w ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
func.func @atomic(%x: !tile.ptr<f32>, %w: !tile.ptr<f32>, %one: i64) {
  %p = tile.program_id 0 : i32 : i32
  %row = tile.addptr %x, %p : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %a = tile.load_view %row ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %b = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %c = arith.mulf %a, %b : tensor<64xf32>
  tile.store_view %c, %row ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  gpu.barrier
  func.return
}
