// RUN: combine-accesses
// Four fields of records of four, stored in another order: one load, whose columns are the fields, and one store.
// CHECK-LABEL: func.func @records
// CHECK: tile.load_view {{.*}} tensor<32x4xf32
// CHECK: tile.split
// CHECK: tile.split
// CHECK: tile.split
// CHECK: tile.join
// CHECK: tile.store_view {{.*}} tensor<32x4xf32
// CHECK-NEXT: func.return
// Records of three fields start at odd places: neither vectors nor pairs.
// CHECK-LABEL: func.func @odd_records
// CHECK-NOT: tile.split
// CHECK-NOT: tile.join
// CHECK: func.return
// Fields 1 and 2 are no aligned pair, 2 and 3 are one.
// CHECK-LABEL: func.func @pairs
// CHECK: tensor<32xf32
// CHECK: tile.load_view {{.*}} tensor<32x2xf32
// CHECK: tile.split
// CHECK-NOT: tile.join
// CHECK: func.return
func.func @records(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64) {
  %s = arith.constant 4 : i64
  %c0 = arith.constant 0 : i64
  %p0 = tile.addptr %p, %c0 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x0 = tile.load_view %p0 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %c1 = arith.constant 1 : i64
  %p1 = tile.addptr %p, %c1 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x1 = tile.load_view %p1 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %c2 = arith.constant 2 : i64
  %p2 = tile.addptr %p, %c2 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x2 = tile.load_view %p2 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %c3 = arith.constant 3 : i64
  %p3 = tile.addptr %p, %c3 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x3 = tile.load_view %p3 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %o0 = tile.addptr %o, %c0 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %x3, %o0 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  %o1 = tile.addptr %o, %c1 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %x2, %o1 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  %o2 = tile.addptr %o, %c2 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %x1, %o2 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  %o3 = tile.addptr %o, %c3 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %x0, %o3 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  func.return
}
func.func @odd_records(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64) {
  %s = arith.constant 3 : i64
  %c0 = arith.constant 0 : i64
  %p0 = tile.addptr %p, %c0 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x0 = tile.load_view %p0 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %c1 = arith.constant 1 : i64
  %p1 = tile.addptr %p, %c1 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x1 = tile.load_view %p1 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %o0 = tile.addptr %o, %c0 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %x1, %o0 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  %o1 = tile.addptr %o, %c1 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %x0, %o1 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  func.return
}
func.func @pairs(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64) {
  %s = arith.constant 4 : i64
  %c1 = arith.constant 1 : i64
  %p1 = tile.addptr %p, %c1 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x1 = tile.load_view %p1 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %c2 = arith.constant 2 : i64
  %p2 = tile.addptr %p, %c2 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x2 = tile.load_view %p2 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %c3 = arith.constant 3 : i64
  %p3 = tile.addptr %p, %c3 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %x3 = tile.load_view %p3 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">
  %o1 = tile.addptr %o, %c1 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %x2, %o1 ["strided"] strides(%s) limits(%n) {limited = array<i64: 0>} : tensor<32xf32, "32 r[] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  func.return
}
