// RUN: select-mma,assign-layouts,promote-shared
// Loads that only the dot uses become copies to shared memory.
// CHECK-LABEL: @copies
func.func @copies(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK-DAG: [[B:%.+]] = gpu.local_alloc : !gpu.shared<tensor<32x64xf16>, "32x64x2 dim1 swizzle0"
  // CHECK-DAG: [[A:%.+]] = gpu.local_alloc : !gpu.shared<tensor<64x32xf16>, "64x32x2 dim1 swizzle0"
  // CHECK-NOT: tile.load_view
  // CHECK: gpu.async_copy {{.+}} to [[A]][
  // CHECK: gpu.async_copy {{.+}} to [[B]][
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK-NEXT: gpu.async_wait 0
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: gpu.wgmma "wgmma.k16.f16" [[A]][
  // CHECK-NEXT: gpu.wgmma_wait
  // CHECK-NEXT: gpu.barrier
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
// Addresses that may be odd: elements of two bytes are too narrow for a copy, so registers are stored.
// CHECK-LABEL: @stores
func.func @stores(%a: !tile.ptr<f16>, %b: !tile.ptr<f16>, %c: !tile.ptr<f32>, %n: i64, %k: i64) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: tile.load_view
  // CHECK: tile.load_view
  // CHECK: gpu.local_store %x
  // CHECK: gpu.local_store %y
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: gpu.wgmma
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
// Two warps are no warp group: operands of mma.sync are copied to whole lines and read into registers.
// CHECK-LABEL: @fragments
func.func @fragments(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_warps = 2 : i32} {
  // CHECK-DAG: [[B:%.+]] = gpu.local_alloc : !gpu.shared<tensor<32x64xf16>, "32x64x2 dim1 pad0"
  // CHECK-DAG: [[A:%.+]] = gpu.local_alloc : !gpu.shared<tensor<64x32xf16>, "64x32x2 dim1 pad0"
  // CHECK-NOT: tile.load_view
  // CHECK: gpu.async_copy {{.+}} to [[A]][
  // CHECK: gpu.async_copy {{.+}} to [[B]][
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK-NEXT: gpu.async_wait 0
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: [[X:%.+]] = gpu.local_load [[A]][
  // CHECK-NEXT: [[Y:%.+]] = gpu.local_load [[B]][
  // CHECK-NEXT: tile.dot [[X]], [[Y]], 
  // CHECK-NEXT: gpu.barrier
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
// Bytes are copied as they are and become fp16 in the registers of the instruction.
// CHECK-LABEL: @extended
func.func @extended(%a: !tile.ptr<f8E4M3FN> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f8E4M3FN> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_warps = 2 : i32} {
  // CHECK-COUNT-2: gpu.async_copy
  // CHECK: [[A:%.+]] = gpu.local_load
  // CHECK-NEXT: [[X:%.+]] = arith.extf [[A]]
  // CHECK-NEXT: [[B:%.+]] = gpu.local_load
  // CHECK-NEXT: [[Y:%.+]] = arith.extf [[B]]
  // CHECK-NEXT: tile.dot [[X]], [[Y]], 
  %one = arith.constant 1 : i64
  %f = arith.constant 0.0 : f16
  %start = tile.splat %f : f16 to tensor<64x64xf16>
  %x = tile.load_view %a ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<f8E4M3FN> to tensor<64x32xf8E4M3FN>
  %y = tile.load_view %b ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f8E4M3FN> to tensor<32x64xf8E4M3FN>
  %d = tile.dot %x, %y, %start, "ieee" : tensor<64x32xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<64x64xf16> to tensor<64x64xf16>
  tile.store_view %d, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf16>, !tile.ptr<f16>
  func.return
}
// -----
// What is converted on its way is copied to buffers of its own, and read from them; the left operand is read
// as its product takes it from registers.
// CHECK-LABEL: @converted
func.func @converted(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<i8> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) {
  // CHECK: scf.for
  // CHECK-NOT: tile.load_view
  // CHECK: gpu.async_copy
  // CHECK: gpu.async_copy
  // CHECK-NEXT: gpu.async_commit_group
  // CHECK-NEXT: gpu.async_wait 0
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: %x = gpu.local_load
  // CHECK-NEXT: %y = gpu.local_load
  // CHECK: gpu.local_store %w
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: gpu.wgmma "wgmma.k16.f16" %v[
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %step = arith.constant 32 : i64
  %f = arith.constant 0.0 : f32
  %start = tile.splat %f : f32 to tensor<64x64xf32>
  %sum = scf.for %i = %zero to %k step %step iter_args(%s = %start) -> (tensor<64x64xf32>) : i64 {
    %p = tile.addptr %a, %i : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %x = tile.load_view %p ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x32xf16>
    %o = arith.muli %i, %n : i64
    %q = tile.addptr %b, %o : !tile.ptr<i8>, i64 to !tile.ptr<i8>
    %y = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<i8> to tensor<32x64xi8>
    %v = arith.mulf %x, %x : tensor<64x32xf16>
    %w = arith.sitofp %y : tensor<32x64xi8> to tensor<32x64xf16>
    %d = tile.dot %v, %w, %s, "tf32" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
    scf.yield %d : tensor<64x64xf32>
  }
  tile.store_view %sum, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: select-mma,assign-layouts,promote-shared
// A tile that one dot takes converted, and that is combined with the sums of another, is read in both layouts.
// CHECK-LABEL: @read_twice
func.func @read_twice(%a: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %g: tensor<32x16xbf16>, %h: tensor<16x64xbf16>, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) {
  // CHECK: scf.for
  // CHECK: %y = gpu.local_load {{.+}} to tensor<32x64xf32, "32x64 r[1,0 8,0 16,0 0,16 0,32]
  // CHECK-NEXT: [[AGAIN:%.+]] = gpu.local_load {{.+}} to tensor<32x64xf32, "32x64 r[0,1 8,0 0,32 16,0]
  // CHECK-NEXT: arith.truncf %y
  // CHECK-NOT: gpu.convert_layout
  // CHECK: arith.mulf [[AGAIN]], %e
  // CHECK: scf.yield
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %step = arith.constant 32 : i64
  %f = arith.constant 0.0 : f32
  %start = tile.splat %f : f32 to tensor<32x64xf32>
  %none = tile.splat %f : f32 to tensor<64xf32>
  %sum, %row = scf.for %i = %zero to %k step %step iter_args(%s = %start, %r = %none) -> (tensor<32x64xf32>, tensor<64xf32>) : i64 {
    %p = tile.addptr %a, %i : !tile.ptr<bf16>, i64 to !tile.ptr<bf16>
    %x = tile.load_view %p ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<32x32xbf16>
    %o = arith.muli %i, %n : i64
    %q = tile.addptr %b, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %y = tile.load_view %q ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
    %w = arith.truncf %y : tensor<32x64xf32> to tensor<32x64xbf16>
    %d = tile.dot %x, %w, %s, "tf32" : tensor<32x32xbf16>, tensor<32x64xbf16>, tensor<32x64xf32> to tensor<32x64xf32>
    %e = tile.dot %g, %h, %start, "tf32" : tensor<32x16xbf16>, tensor<16x64xbf16>, tensor<32x64xf32> to tensor<32x64xf32>
    %m = arith.mulf %y, %e : tensor<32x64xf32>
    %t = "tile.reduce"(%m) <{axis = 0 : i32}> ({
    ^bb0(%u: f32, %v: f32):
      %uv = arith.addf %u, %v : f32
      tile.yield %uv : f32
    }) : (tensor<32x64xf32>) -> tensor<64xf32>
    %z = arith.addf %r, %t : tensor<64xf32>
    scf.yield %d, %z : tensor<32x64xf32>, tensor<64xf32>
  }
  tile.store_view %sum, %c ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<32x64xf32>, !tile.ptr<f32>
  tile.store_view %row, %c ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: select-mma,assign-layouts,promote-shared
// The second product adds on to the first before that is over; between others there is one barrier.
// CHECK-LABEL: @chain
func.func @chain(%u: tensor<64x32xf16>, %v: tensor<32x64xf16>, %s: tensor<64x64xf32>, %p: !tile.ptr<f32>, %n: i64) {
  // CHECK-COUNT-4: gpu.local_store
  // CHECK: gpu.barrier
  // CHECK-NEXT: [[X:%.+]] = gpu.wgmma
  // CHECK-NEXT: [[Y:%.+]] = gpu.wgmma {{.+}}, [[X]] :
  // CHECK-NEXT: [[Z:%.+]] = gpu.wgmma_wait [[Y]], 0
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: gpu.wgmma
  // CHECK-NEXT: gpu.wgmma_wait
  // CHECK-NEXT: gpu.barrier
  %a = arith.mulf %u, %u : tensor<64x32xf16>
  %b = arith.mulf %v, %v : tensor<32x64xf16>
  %c = arith.addf %a, %u : tensor<64x32xf16>
  %d = arith.addf %b, %v : tensor<32x64xf16>
  %1 = tile.dot %a, %b, %s, "tf32" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %2 = tile.dot %c, %d, %1, "tf32" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %3 = arith.mulf %2, %2 : tensor<64x64xf32>
  %4 = tile.dot %a, %d, %3, "tf32" : tensor<64x32xf16>, tensor<32x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %one = arith.constant 1 : i64
  tile.store_view %4, %p ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// Lanes hold neighbors along the first dimension, threads none: buffers contiguous along it have no bank conflicts.
// RUN: promote-shared
// CHECK-LABEL: @lanes
func.func @lanes(%x: tensor<64x16xf16, "64x16 r[0,2 0,4 0,8] l[1,0 2,0 4,0 8,0 16,0] w[32,0 0,1]">, %y: tensor<16x16xf16, "16x16 r[0,8] l[1,0 2,0 4,0 8,0 0,1] w[0,2 0,4]">, %s: tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">) -> tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> {
  // CHECK-DAG: gpu.local_store %x, {{.+}} !gpu.shared<tensor<64x16xf16>, "64x16x2 dim0 swizzle0", 1>
  // CHECK-DAG: gpu.local_store %y, {{.+}} !gpu.shared<tensor<16x16xf16>, "16x16x2 dim0 swizzle0", 1>
  %d = tile.dot %x, %y, %s, "ieee" {gpu.mma = "wgmma.k16.f16"} : tensor<64x16xf16, "64x16 r[0,2 0,4 0,8] l[1,0 2,0 4,0 8,0 16,0] w[32,0 0,1]">, tensor<16x16xf16, "16x16 r[0,8] l[1,0 2,0 4,0 8,0 0,1] w[0,2 0,4]">, tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> to tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
  func.return %d : tensor<64x16xf32, "64x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
}
