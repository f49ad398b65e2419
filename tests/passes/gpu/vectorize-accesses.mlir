// RUN: assign-layouts,vectorize-accesses
// 16 bytes where the address is a multiple of so much, less where not; code generation compares the lanes of a mask.
// CHECK-LABEL: @loads
func.func @loads(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f16> {tile.divisibility = 8 : i32}, %m: tensor<512xi1>, %n: i64) {
  // CHECK: tile.load_view %p {{.+}} {gpu.vector_width = 4 : i32, tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [{{[0-9]+}}], contiguous = [{{[0-9]}}, 4]]>
  // CHECK: tile.load_view %q {{.+}} {gpu.vector_width = 4 : i32, tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [{{[0-9]+}}], contiguous = [{{[0-9]}}, 4]]>
  // CHECK: tile.store_view {{.+}}, %p {{.+}} {gpu.vector_width = 4 : i32, tile.assumes = {{.+}} :
  %one = arith.constant 1 : i64
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<512xf32>
  %y = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f16> to tensor<512xf16>
  %w = arith.extf %y : tensor<512xf16> to tensor<512xf32>
  %s = arith.addf %x, %w : tensor<512xf32>
  tile.store_view %s, %p ["strided"] strides(%one) mask %m : tensor<512xi1> {limited = array<i64>} : tensor<512xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts,vectorize-accesses{max-bytes=8}
// CHECK-LABEL: @narrow
func.func @narrow(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}) {
  // CHECK: tile.load_view{{.+}} {gpu.vector_width = 2 : i32, tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [{{[0-9]+}}], contiguous = [{{[0-9]}}, 2]]>
  // CHECK: tile.store_view{{.+}} {gpu.vector_width = 2 : i32, tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [{{[0-9]+}}], contiguous = [{{[0-9]}}, 2]]>
  %one = arith.constant 1 : i64
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<512xf32>
  tile.store_view %x, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<512xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: select-mma,assign-layouts,promote-shared,swizzle-shared,vectorize-accesses
// Copies of 16 bytes, and the conversion in front of the store.
// CHECK-LABEL: @copies
func.func @copies(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_warps = 2 : i32} {
  // CHECK: gpu.async_copy {{.+}} {gpu.vector_width = 8 : i32, tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [{{[0-9]+}}], contiguous = [{{[0-9]}}, 8]]>
  // CHECK: gpu.async_copy {{.+}} {gpu.vector_width = 8 : i32, tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [{{[0-9]+}}], contiguous = [{{[0-9]}}, 8]]>
  // CHECK: gpu.convert_layout {{.+}} {gpu.vector_width = 4 : i32}
  // CHECK: tile.store_view {{.+}} {gpu.vector_width = 4 : i32, tile.assumes = #tile.assumes<"vectorize-accesses" [aligned = [{{[0-9]+}}], contiguous = [{{[0-9]}}, 4]]>
  %one = arith.constant 1 : i64
  %f = arith.constant 0.0 : f32
  %start = tile.splat %f : f32 to tensor<64x64xf32>
  %x = tile.load_view %a ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x32xf16>
  %y = tile.load_view %b ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<32x64xf16>
  %d = tile.dot %x, %y, %start, "ieee" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  tile.store_view %d, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts,vectorize-accesses
// A histogram's counts are 4 bytes each, whatever is counted; one a thread is nothing to say.
// CHECK-LABEL: @counted
func.func @counted(%x: tensor<128xi8>, %p: tensor<4x!tile.ptr<i32>>, %q: !tile.ptr<i32> {tile.divisibility = 16 : i32}) {
  // CHECK: tile.histogram {{%[^ ]+}} : {{.+}} to tensor<4xi32
  // CHECK: tile.histogram {{.+}} {gpu.vector_width = 4 : i32} : {{.+}} to tensor<1024xi32
  %few = tile.histogram %x : tensor<128xi8> to tensor<4xi32>
  tile.store %p, %few : tensor<4x!tile.ptr<i32>>, tensor<4xi32>
  %many = tile.histogram %x : tensor<128xi8> to tensor<1024xi32>
  %unit = arith.constant 1 : i64
  tile.store_view %many, %q ["strided"] strides(%unit) {limited = array<i64>} : tensor<1024xi32>, !tile.ptr<i32>
  func.return
}
// -----
// RUN: assign-layouts,vectorize-accesses
// A row that a tile repeats is loaded once per column of a thread, also where its registers are no neighbors along the rows; but not
// where rows beyond a limit have other values.
// CHECK-LABEL: @repeated
func.func @repeated(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32>, %n: i64, %m: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: %row = tile.load_view{{.+}}gpu.equal_registers = array<i64: 0, 64>{{.+}} "64x64 r[2,0 4,0 8,0 16,0 32,0] {{.+}}
  // CHECK-NOT: equal_registers
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %f = arith.constant 1.0 : f32
  %row = tile.load_view %p ["strided", "strided"] strides(%zero, %one) limits(%n) other %f : f32 {limited = array<i64: 1>} : !tile.ptr<f32> to tensor<64x64xf32>
  %cut = tile.load_view %p ["strided", "strided"] strides(%zero, %one) limits(%m) other %f : f32 {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64x64xf32>
  %sum = arith.addf %row, %cut : tensor<64x64xf32>
  tile.store_view %sum, %q ["strided", "strided"] strides(%m, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
