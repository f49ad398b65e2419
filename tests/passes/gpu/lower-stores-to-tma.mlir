// RUN: lower-stores-to-tma
// A tile of fragments goes to shared memory, and from there as a box; the limits are the matrix's end.
// CHECK-LABEL: @limits
func.func @limits(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %m: i64, %n: i64 {tile.divisibility = 16 : i32}, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: [[B:%.+]] = gpu.local_alloc : !gpu.shared<tensor<16x16xf16>, "16x16x2 dim1 swizzle32"
  // CHECK: gpu.barrier
  // CHECK: gpu.local_store %x, [[B]][
  // CHECK: gpu.barrier
  // CHECK-NEXT: gpu.elect
  // CHECK: scf.if
  // CHECK-NEXT: gpu.tma_store {{.+}} to %p[{{.+}}] of[%n, %m] strides(%pitch)
  // CHECK-NOT: tile.store_view
  // CHECK: gpu.tma_store_wait [[B]] :
  // CHECK-NEXT: func.return
  %c = arith.constant 1 : i64
  %s = arith.constant 16 : i64
  %i = tile.program_id 0 : i32 : i32
  %w = arith.extsi %i : i32 to i64
  %row = arith.muli %w, %s : i64
  %o = arith.muli %row, %pitch : i64
  %q = tile.addptr %p, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
  %l = arith.subi %m, %row overflow<nsw> : i64
  %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
  tile.store_view %y, %q ["strided", "strided"] strides(%pitch, %c) limits(%l, %n) {limited = array<i64: 0, 1>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
  func.return
}
// -----
// In a loop the boxes of one iteration have been read before shared memory is written again; each iteration stores
// other rows.
// CHECK-LABEL: @loop
func.func @loop(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %count: i64, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) attributes {gpu.num_warps = 1 : i32} {
  %c = arith.constant 1 : i64
  %z = arith.constant 0 : i64
  %s = arith.constant 16 : i64
  // CHECK: scf.for
  // CHECK-NEXT: gpu.tma_store_wait [[B:%[^ ]+]] :
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.tma_store
  scf.for %i = %z to %count step %c : i64 {
    %row = arith.muli %i, %s : i64
    %o = arith.muli %row, %pitch : i64
    %q = tile.addptr %p, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
    tile.store_view %y, %q ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
  }
  func.return
}
// -----
// Rows that may be those of an earlier iteration are written when that one's are in memory.
// CHECK-LABEL: @same_rows
func.func @same_rows(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %count: i64, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) attributes {gpu.num_warps = 1 : i32} {
  %c = arith.constant 1 : i64
  %z = arith.constant 0 : i64
  %s = arith.constant 16 : i64
  // CHECK: scf.for
  // CHECK: gpu.tma_store_wait {{.+}} complete
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.tma_store
  scf.for %i = %z to %count step %c : i64 {
    %row = arith.muli %s, %s : i64
    %o = arith.muli %row, %pitch : i64
    %q = tile.addptr %p, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
    tile.store_view %y, %q ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
  }
  func.return
}
// -----
// Iterations that are less than a tile apart store some of the same rows.
// CHECK-LABEL: @overlapping_rows
func.func @overlapping_rows(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %count: i64, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) attributes {gpu.num_warps = 1 : i32} {
  %c = arith.constant 1 : i64
  %z = arith.constant 0 : i64
  %s = arith.constant 8 : i64
  // CHECK: scf.for
  // CHECK: gpu.tma_store_wait {{.+}} complete
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.tma_store
  scf.for %i = %z to %count step %c : i64 {
    %row = arith.muli %i, %s : i64
    %o = arith.muli %row, %pitch : i64
    %q = tile.addptr %p, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
    tile.store_view %y, %q ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
  }
  func.return
}
// -----
// Another iteration of the loop around may store the same rows.
// CHECK-LABEL: @nested
func.func @nested(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %count: i64, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) attributes {gpu.num_warps = 1 : i32} {
  %c = arith.constant 1 : i64
  %z = arith.constant 0 : i64
  %s = arith.constant 16 : i64
  // CHECK: scf.for
  // CHECK-NEXT: gpu.tma_store_wait {{.+}} complete
  // CHECK-NEXT: scf.for
  // CHECK-NEXT: gpu.tma_store_wait [[B:%[^ ]+]] :
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.tma_store
  scf.for %j = %z to %count step %c : i64 {
  scf.for %i = %z to %count step %c : i64 {
    %row = arith.muli %i, %s : i64
    %o = arith.muli %row, %pitch : i64
    %q = tile.addptr %p, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
    tile.store_view %y, %q ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
  }
  }
  func.return
}
// -----
// What the kernel reads as well keeps the order of its accesses.
// CHECK-LABEL: @read
func.func @read(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) attributes {gpu.num_warps = 1 : i32} {
  // CHECK-NOT: gpu.tma_store
  // CHECK: tile.store_view
  %c = arith.constant 1 : i64
  %first = tile.load %p : !tile.ptr<f16> to f16
  %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
  tile.store_view %y, %p ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
  func.return
}
// -----
// Lines that may start anywhere are no box.
// CHECK-LABEL: @anywhere
func.func @anywhere(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %pitch: i64, %x: tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]">) attributes {gpu.num_warps = 1 : i32} {
  // CHECK-NOT: gpu.tma_store
  // CHECK: tile.store_view
  %c = arith.constant 1 : i64
  %y = gpu.convert_layout %x : tensor<16x16xf16, "16x16 r[0,1 8,0 0,8] l[0,2 0,4 1,0 2,0 4,0] w[]"> to tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
  tile.store_view %y, %p ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, !tile.ptr<f16>
  func.return
}
// -----
// A panel of columns at a time, each computed for itself, and each in a place of its own.
// CHECK-LABEL: @parts
func.func @parts(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<64x128xf32, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">, %b: tensor<1x128xf32, "1x128 r[0,1 0,8 0,16 0,32 0,64] l[0,2 0,4 0,0 0,0 0,0] w[0,0 0,0]">) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: [[B:%.+]] = gpu.local_alloc : !gpu.shared<tensor<64x64xf16>, "64x64x2 dim1 swizzle128", 2>
  // CHECK: [[X:%.+]] = gpu.extract_slice %x {start = array<i64: 0, 0>}
  // CHECK: [[C:%.+]] = gpu.extract_slice %b {start = array<i64: 0, 0>}
  // CHECK: [[D:%.+]] = tile.broadcast [[C]]
  // CHECK: [[S:%.+]] = arith.addf [[X]], [[D]]
  // CHECK: [[T:%.+]] = arith.truncf [[S]]
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.local_store [[T]], [[B]][
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.tma_store
  // CHECK: gpu.extract_slice %x {start = array<i64: 0, 64>}
  // CHECK: arith.addf
  // CHECK-NOT: gpu.tma_store_wait
  // CHECK: gpu.local_store
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.tma_store
  // CHECK: gpu.tma_store_wait [[B]] :
  %c = arith.constant 1 : i64
  %d = tile.broadcast %b : tensor<1x128xf32, "1x128 r[0,1 0,8 0,16 0,32 0,64] l[0,2 0,4 0,0 0,0 0,0] w[0,0 0,0]"> to tensor<64x128xf32, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
  %s = arith.addf %x, %d : tensor<64x128xf32, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
  %t = arith.truncf %s : tensor<64x128xf32, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> to tensor<64x128xf16, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
  %y = gpu.convert_layout %t : tensor<64x128xf16, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> to tensor<64x128xf16, "64x128 r[0,1 0,2 0,4 8,0 16,0 32,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0]">
  tile.store_view %y, %p ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<64x128xf16, "64x128 r[0,1 0,2 0,4 8,0 16,0 32,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0]">, !tile.ptr<f16>
  func.return
}
// -----
// RUN: lower-stores-to-tma{epilogue-stages=1}
// In a loop with fewer places than parts the place of a part is waited for.
// CHECK-LABEL: @turns
func.func @turns(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %count: i64, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<128x128xf16, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">) attributes {gpu.num_warps = 8 : i32} {
  %c = arith.constant 1 : i64
  %z = arith.constant 0 : i64
  %s = arith.constant 128 : i64
  // CHECK: scf.for
  // CHECK-NEXT: gpu.tma_store_wait [[B:%[^ ]+]] :
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.local_store
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: [[E:%.+]] = gpu.elect
  // CHECK: scf.if [[E]]
  // CHECK: gpu.tma_store
  // CHECK: gpu.tma_store_wait {{.+}} pending 0 : i32
  // CHECK-NEXT: gpu.barrier
  // CHECK: gpu.local_store
  scf.for %i = %z to %count step %c : i64 {
    %row = arith.muli %i, %s : i64
    %o = arith.muli %row, %pitch : i64
    %q = tile.addptr %p, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = gpu.convert_layout %x : tensor<128x128xf16, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf16, "128x128 r[0,1 0,2 0,4 16,0 32,0 64,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]">
    tile.store_view %y, %q ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<128x128xf16, "128x128 r[0,1 0,2 0,4 16,0 32,0 64,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]">, !tile.ptr<f16>
  }
  func.return
}
// -----
// RUN: lower-stores-to-tma
// A tile made of two would keep both in registers while parts are made: it goes as a whole.
// CHECK-LABEL: @two
func.func @two(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %pitch: i64 {tile.divisibility = 16 : i32}, %x: tensor<64x128xf16, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">, %r: tensor<64x128xf16, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: gpu.local_alloc : !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 swizzle128", 1>
  // CHECK-NOT: gpu.extract_slice
  // CHECK: arith.addf
  // CHECK: gpu.tma_store
  %c = arith.constant 1 : i64
  %s = arith.addf %x, %r : tensor<64x128xf16, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
  %y = gpu.convert_layout %s : tensor<64x128xf16, "64x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]"> to tensor<64x128xf16, "64x128 r[0,1 0,2 0,4 8,0 16,0 32,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0]">
  tile.store_view %y, %p ["strided", "strided"] strides(%pitch, %c) {limited = array<i64>} : tensor<64x128xf16, "64x128 r[0,1 0,2 0,4 8,0 16,0 32,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0]">, !tile.ptr<f16>
  func.return
}
