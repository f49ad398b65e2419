// RUN: select-mma,assign-layouts
// Sums stand as warp groups make them; lines of 64 bytes go to 4 lanes; a row is stored by 16 lanes.
// CHECK-LABEL: @groups
func.func @groups(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: scf.for {{.+}} -> (tensor<64x64xf32, "64x64 r[0,1 8,0 0,8 0,16 0,32] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">)
  // CHECK: %x = tile.load_view{{.+}} "64x32 r[0,1 0,2 0,4{{.*}}] l[0,8 0,16 1,0 2,0 4,0]
  // CHECK: %y = tile.load_view{{.+}} "32x64 r[0,1 0,2 0,4{{.*}}] l[0,8 0,16 0,32 1,0 2,0]
  // CHECK: [[S:%.+]] = gpu.convert_layout %sum
  // CHECK: tile.store_view{{.+}}[[S]]{{.+}} "64x64 r[0,1 0,2 8,0 16,0 32,0] l[0,4 0,8 0,16 0,32 1,0] w[2,0 4,0]"
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
// RUN: select-mma{wgmma=false},assign-layouts
// Operands are moved into the fragments of mma.sync.
// CHECK-LABEL: @warps
func.func @warps(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64 {tile.divisibility = 16 : i32}, %k: i64 {tile.divisibility = 16 : i32}) attributes {gpu.num_stages = 3 : i32} {
  // CHECK: [[X:%.+]] = gpu.convert_layout %x
  // CHECK: [[Y:%.+]] = gpu.convert_layout %y
  // CHECK: tile.dot [[X]], [[Y]], %s
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
// RUN: assign-layouts
// Masks and aranges are made again where they are wanted, not moved.
// CHECK-LABEL: @again
func.func @again(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %one: i64, %n: i32) attributes {gpu.num_warps = 1 : i32} {
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %r = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %l = tile.splat %n : i32 to tensor<64xi32>
  %m = tile.cmpi "slt", %r, %l : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %x = tile.load_view %p ["strided"] strides(%one) mask %m : tensor<64xi1> {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  tile.store_view %x, %q ["strided"] strides(%one) mask %m : tensor<64xi1> {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts
// A histogram counts lane by lane: its mask stands as the values do, however its bytes were loaded.
// CHECK-LABEL: @masked
func.func @masked(%a: !tile.ptr<i64> {tile.divisibility = 16 : i32}, %b: !tile.ptr<i1> {tile.divisibility = 16 : i32}, %c: !tile.ptr<i32>) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: %x = tile.load_view{{.+}} to tensor<128xi64, "128 r[1 64] l[2 4 8 16 32] w[]">
  // CHECK: %keep = tile.load_view{{.+}} to tensor<128xi1, "128 r[1 64] l[2 4 8 16 32] w[]">
  // CHECK: tile.histogram %x mask %keep : tensor<128xi1, "128 r[1 64] l[2 4 8 16 32] w[]">
  %one = arith.constant 1 : i64
  %x = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<i64> to tensor<128xi64>
  %keep = tile.load_view %b ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<i1> to tensor<128xi1>
  %h = tile.histogram %x mask %keep : tensor<128xi1> : tensor<128xi64> to tensor<4xi32>
  tile.store_view %h, %c ["strided"] strides(%one) {limited = array<i64>} : tensor<4xi32>, !tile.ptr<i32>
  func.return
}

// -----
// RUN: select-mma,assign-layouts
// Factors made of a row and a column are computed where the sums of the product are: only the row and the column move.
// CHECK-LABEL: @factors
func.func @factors(%a: tensor<64x16xf16>, %b: tensor<16x64xf16>, %x: tensor<64xf32>, %y: tensor<64xf32>, %p: !tile.ptr<f32>, %s: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: [[E:%.+]] = math.exp2 {{.+}} : tensor<64x64xf32, "64x64 r[0,1 8,0 0,8 0,16 0,32] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">
  // CHECK-NEXT: arith.mulf [[E]], %sums
  %zero = arith.constant 0.0 : f32
  %none = tile.splat %zero : f32 to tensor<64x64xf32>
  %sums = tile.dot %a, %b, %none, "tf32" : tensor<64x16xf16>, tensor<16x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %u = tile.expand_dims %x, 1 : i32 : tensor<64xf32> to tensor<64x1xf32>
  %v = tile.expand_dims %y, 0 : i32 : tensor<64xf32> to tensor<1x64xf32>
  %us = tile.broadcast %u : tensor<64x1xf32> to tensor<64x64xf32>
  %vs = tile.broadcast %v : tensor<1x64xf32> to tensor<64x64xf32>
  %d = arith.subf %us, %vs : tensor<64x64xf32>
  %e = math.exp2 %d : tensor<64x64xf32>
  %r = arith.mulf %e, %sums : tensor<64x64xf32>
  %q = tile.splat %p : !tile.ptr<f32> to tensor<64x64x!tile.ptr<f32>>
  tile.store %q, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  func.return
}
// -----
// RUN: select-mma,assign-layouts
// What is loaded and scaled by a column moves once, before it is widened, though it is computed before the dot.
// CHECK-LABEL: @scaled
func.func @scaled(%x: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %a: tensor<64x16xf16>, %b: tensor<16x64xf16>, %c: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %p: !tile.ptr<f32>, %s: i64, %one: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: gpu.convert_layout %narrow {{.+}}tensor<64x64xbf16{{.+}} to tensor<64x64xbf16, "64x64 r[0,1 8,0 0,8 0,16 0,32]
  // CHECK: %sums = tile.dot
  // CHECK-NEXT: arith.addf %sums, %scaled
  // CHECK-NEXT: math.log
  // CHECK-NEXT: arith.mulf %{{.+}}, %wide
  %narrow = tile.load_view %x ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<64x64xbf16>
  %wide = arith.extf %narrow : tensor<64x64xbf16> to tensor<64x64xf32>
  %column = tile.load_view %c ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %u = tile.expand_dims %column, 1 : i32 : tensor<64xf32> to tensor<64x1xf32>
  %us = tile.broadcast %u : tensor<64x1xf32> to tensor<64x64xf32>
  %scaled = arith.mulf %wide, %us : tensor<64x64xf32>
  %zero = arith.constant 0.0 : f32
  %none = tile.splat %zero : f32 to tensor<64x64xf32>
  %sums = tile.dot %a, %b, %none, "tf32" : tensor<64x16xf16>, tensor<16x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %t = arith.addf %sums, %scaled : tensor<64x64xf32>
  %l = math.log %t : tensor<64x64xf32>
  %r = arith.mulf %l, %wide : tensor<64x64xf32>
  %q = tile.splat %p : !tile.ptr<f32> to tensor<64x64x!tile.ptr<f32>>
  tile.store %q, %r : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  func.return
}
// -----
// RUN: select-mma,assign-layouts
// A tile that a dot multiplies, too, is read from shared memory: its transpose moves to the sums, not they to it.
// CHECK-LABEL: @transposed_factor
func.func @transposed_factor(%x: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %a: tensor<64x32xbf16>, %b: tensor<32x64xbf16>, %d: tensor<64x32xbf16>, %p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %s: i64, %one: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: %sums = tile.dot
  // CHECK-NOT: gpu.convert_layout %sums
  // CHECK: arith.mulf %{{.+}}, %sums
  // CHECK: return
  %loaded = tile.load_view %x ["strided", "strided"] strides(%s, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x64xf32>
  %operand = arith.truncf %loaded : tensor<32x64xf32> to tensor<32x64xbf16>
  %zero = arith.constant 0.0 : f32
  %none = tile.splat %zero : f32 to tensor<64x64xf32>
  %other = tile.dot %d, %operand, %none, "tf32" : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %few = tile.splat %zero : f32 to tensor<64x32xf32>
  %bt = tile.trans %b, [1, 0] : tensor<32x64xbf16> to tensor<64x32xbf16>
  %at = tile.trans %a, [1, 0] : tensor<64x32xbf16> to tensor<32x64xbf16>
  %square = tile.dot %bt, %at, %none, "tf32" : tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32> to tensor<64x64xf32>
  %narrow = arith.truncf %square : tensor<64x64xf32> to tensor<64x64xbf16>
  %sums = tile.dot %narrow, %a, %few, "tf32" : tensor<64x64xbf16>, tensor<64x32xbf16>, tensor<64x32xf32> to tensor<64x32xf32>
  %turned = tile.trans %loaded, [1, 0] : tensor<32x64xf32> to tensor<64x32xf32>
  %product = arith.mulf %turned, %sums : tensor<64x32xf32>
  %total = "tile.reduce"(%product) <{axis = 1 : i32}> ({
  ^bb0(%left: f32, %right: f32):
    %sum = arith.addf %left, %right : f32
    tile.yield %sum : f32
  }) : (tensor<64x32xf32>) -> tensor<64xf32>
  tile.store_view %total, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  %at_q = tile.splat %q : !tile.ptr<f32> to tensor<64x64x!tile.ptr<f32>>
  tile.store %at_q, %other : tensor<64x64x!tile.ptr<f32>>, tensor<64x64xf32>
  func.return
}
// -----
// RUN: assign-layouts
// A count of lanes that a loop carries has the layout of the sums beside it.
// CHECK-LABEL: @counted
func.func @counted(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %trips: i64, %n: i32) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: scf.for {{.+}} -> (tensor<256xi32, "256 r[1 2 4] l[8 16 32 64 128] w[]">, tensor<256xf32, "256 r[1 2 4] l[8 16 32 64 128] w[]">)
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %f = arith.constant 0.0 : f32
  %c = arith.constant 0 : i32
  %sums = tile.splat %f : f32 to tensor<256xf32>
  %counts = tile.splat %c : i32 to tensor<256xi32>
  %r = tile.arange 0 : i32, 256 : i32 : tensor<256xi32>
  %l = tile.splat %n : i32 to tensor<256xi32>
  %m = tile.cmpi "slt", %r, %l : tensor<256xi32>, tensor<256xi32> to tensor<256xi1>
  %count, %sum = scf.for %i = %zero to %trips step %one iter_args(%k = %counts, %s = %sums) -> (tensor<256xi32>, tensor<256xf32>) : i64 {
    %h = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f16> to tensor<256xf16>
    %x = arith.extf %h : tensor<256xf16> to tensor<256xf32>
    %t = arith.addf %s, %x : tensor<256xf32>
    %e = arith.extui %m : tensor<256xi1> to tensor<256xi32>
    %d = arith.addi %k, %e : tensor<256xi32>
    scf.yield %d, %t : tensor<256xi32>, tensor<256xf32>
  }
  %g = arith.sitofp %count : tensor<256xi32> to tensor<256xf32>
  %y = arith.divf %sum, %g : tensor<256xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts
// Tiles of one shape that a loop carries each keep a layout of their own.
// CHECK-LABEL: @apart
func.func @apart(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %trips: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: scf.for {{.+}} -> (tensor<32x32xf32, "32x32 r[0,1 0,2{{.+}}">, tensor<32x32xf32, "32x32 r[1,0 2,0{{.+}}">)
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %wide = arith.constant 32 : i64
  %f = arith.constant 0.0 : f32
  %sums = tile.splat %f : f32 to tensor<32x32xf32>
  %a, %b = scf.for %i = %zero to %trips step %one iter_args(%s = %sums, %t = %sums) -> (tensor<32x32xf32>, tensor<32x32xf32>) : i64 {
    %x = tile.load_view %p ["strided", "strided"] strides(%wide, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x32xf32>
    %y = tile.load_view %p ["strided", "strided"] strides(%one, %wide) {limited = array<i64>} : !tile.ptr<f32> to tensor<32x32xf32>
    %c = arith.addf %s, %x : tensor<32x32xf32>
    %d = arith.addf %t, %y : tensor<32x32xf32>
    scf.yield %c, %d : tensor<32x32xf32>, tensor<32x32xf32>
  }
  tile.store_view %a, %q ["strided", "strided"] strides(%wide, %one) {limited = array<i64>} : tensor<32x32xf32>, !tile.ptr<f32>
  tile.store_view %b, %q ["strided", "strided"] strides(%one, %wide) {limited = array<i64>} : tensor<32x32xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts
// Loads of 2 and of 4 bytes that are multiplied: 8 elements a thread of both, nothing is moved. Others keep 16 bytes.
// CHECK-LABEL: @mixed
func.func @mixed(%p: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %w: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i32}) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: %h = tile.load_view{{.+}} "4096 r[1 2 4 1024 2048]
  // CHECK: %v = tile.load_view{{.+}} "4096 r[1 2 4 1024 2048]
  // CHECK: %u = tile.load_view{{.+}} "4096 r[1 2 512 1024 2048]
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %one = arith.constant 1 : i64
  %h = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f16> to tensor<4096xf16>
  %x = arith.extf %h : tensor<4096xf16> to tensor<4096xf32>
  %v = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<4096xf32>
  %y = arith.mulf %x, %v : tensor<4096xf32>
  %z = arith.truncf %y : tensor<4096xf32> to tensor<4096xf16>
  tile.store_view %z, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<4096xf16>, !tile.ptr<f16>
  %u = tile.load_view %o ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<4096xf32>
  tile.store_view %u, %o ["strided"] strides(%one) {limited = array<i64>} : tensor<4096xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: select-mma,assign-layouts
// A loaded tile that a loop carries, multiplies, and subtracts a product from stays in the layout of accumulators.
// CHECK-LABEL: @carried
func.func @carried(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %w: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %trips: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: [[C:%.+]] = gpu.convert_layout %start
  // CHECK: scf.for {{.+}} iter_args({{.+}} = [[C]]) -> (tensor<64x64xf32, "64x64 r[0,1 8,0 0,8 0,16 0,32] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0]">)
  // CHECK-NOT: gpu.convert_layout
  // CHECK: scf.yield
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %line = arith.constant 64 : i64
  %f = arith.constant 0.0 : f32
  %none = tile.splat %f : f32 to tensor<64x64xf32>
  %start = tile.load_view %p ["strided", "strided"] strides(%line, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64x64xf32>
  %end = scf.for %i = %zero to %trips step %one iter_args(%q = %start) -> (tensor<64x64xf32>) : i64 {
    %y = tile.load_view %w ["strided", "strided"] strides(%line, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x64xf16>
    %x = arith.truncf %q : tensor<64x64xf32> to tensor<64x64xf16>
    %d = tile.dot %x, %y, %none, "tf32" : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
    %r = arith.subf %q, %d : tensor<64x64xf32>
    scf.yield %r : tensor<64x64xf32>
  }
  tile.store_view %end, %p ["strided", "strided"] strides(%line, %one) {limited = array<i64>} : tensor<64x64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts
// A row that is added to sums of columns is loaded in their layout, and as factors in the layout of rows; nothing moves.
// CHECK-LABEL: @sums_of_columns
func.func @sums_of_columns(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %trips: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %line = arith.constant 16 : i64
  %start = tile.load_view %p ["strided", "strided"] strides(%line, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16x16xf32>
  %end = scf.for %i = %zero to %trips step %one iter_args(%t = %start) -> (tensor<16x16xf32>) : i64 {
    %o = arith.muli %i, %line : i64
    %a = tile.addptr %q, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %row = tile.load_view %a ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16xf32>
    %f = tile.expand_dims %row, 1 : i32 : tensor<16xf32> to tensor<16x1xf32>
    %b = tile.broadcast %f : tensor<16x1xf32> to tensor<16x16xf32>
    %m = arith.mulf %b, %t : tensor<16x16xf32>
    %s = "tile.reduce"(%m) <{axis = 0 : i32}> ({
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      "tile.yield"(%z) : (f32) -> ()
    }) : (tensor<16x16xf32>) -> tensor<16xf32>
    %n = arith.addf %row, %s : tensor<16xf32>
    %e = tile.expand_dims %n, 0 : i32 : tensor<16xf32> to tensor<1x16xf32>
    %c = tile.broadcast %e : tensor<1x16xf32> to tensor<16x16xf32>
    %u = arith.addf %t, %c : tensor<16x16xf32>
    scf.yield %u : tensor<16x16xf32>
  }
  tile.store_view %end, %p ["strided", "strided"] strides(%line, %one) {limited = array<i64>} : tensor<16x16xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts
// Loads of 2 bytes that are stored as 4: a thread stores 16 bytes, for halves of sectors take as long as whole ones.
// CHECK-LABEL: @widened
func.func @widened(%p: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i32) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: %h = tile.load_view{{.+}} "4096 r[1 2 512 1024 2048]
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %h = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<4096xbf16>
  %x = arith.extf %h : tensor<4096xbf16> to tensor<4096xf32>
  %y = scf.for %i = %zero to %n step %step iter_args(%s = %x) -> (tensor<4096xf32>) : i32 {
    %d = arith.addf %s, %s : tensor<4096xf32>
    scf.yield %d : tensor<4096xf32>
  }
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<4096xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: assign-layouts
// A loop loads, and its result is stored once: the loads keep 16 bytes.
// CHECK-LABEL: @summed
func.func @summed(%p: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i32) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: %h = tile.load_view{{.+}} "4096 r[1 2 4 1024 2048]
  // CHECK: return
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %f = arith.constant 0.0 : f32
  %start = tile.splat %f : f32 to tensor<4096xf32>
  %y = scf.for %i = %zero to %n step %step iter_args(%s = %start) -> (tensor<4096xf32>) : i32 {
    %h = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<4096xbf16>
    %x = arith.extf %h : tensor<4096xbf16> to tensor<4096xf32>
    %d = arith.addf %s, %x : tensor<4096xf32>
    scf.yield %d : tensor<4096xf32>
  }
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<4096xf32>, !tile.ptr<f32>
  func.return
}
// -----
// RUN: simplify,assign-layouts
// What a loop has summed is combined with a load whose result is stored as 4 bytes: both loops load as many elements,
// and nothing changes its layout.
// CHECK-LABEL: @summed_and_scaled
func.func @summed_and_scaled(%p: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %w: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %r: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %n: i32) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: %g = tile.load_view{{.+}} "4096 r[1 2 512 1024 2048]
  // CHECK-NOT: gpu.convert_layout
  // CHECK: %h = tile.load_view{{.+}} "1x4096 r[0,1 0,2 0,512 0,1024 0,2048]
  // CHECK-NOT: gpu.convert_layout
  // CHECK: %k = tile.load_view{{.+}} "1x4096 r[0,1 0,2 0,512 0,1024 0,2048]
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %one = arith.constant 1 : i64
  %pitch = arith.constant 4096 : i64
  %zero = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %f = arith.constant 0.0 : f32
  %start = tile.splat %f : f32 to tensor<4096xf32>
  %g = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<4096xbf16>
  %v = arith.extf %g : tensor<4096xbf16> to tensor<4096xf32>
  %y = scf.for %i = %zero to %n step %step iter_args(%s = %start) -> (tensor<4096xf32>) : i32 {
    %h = tile.load_view %p ["strided", "strided"] strides(%pitch, %one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<1x4096xbf16>
    %x = arith.extf %h : tensor<1x4096xbf16> to tensor<1x4096xf32>
    %t = "tile.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    }) : (tensor<1x4096xf32>) -> tensor<4096xf32>
    %d = arith.addf %s, %t : tensor<4096xf32>
    scf.yield %d : tensor<4096xf32>
  }
  %z = arith.mulf %y, %v : tensor<4096xf32>
  tile.store_view %z, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<4096xf32>, !tile.ptr<f32>
  %e = tile.expand_dims %z, 0 : i32 : tensor<4096xf32> to tensor<1x4096xf32>
  scf.for %j = %zero to %n step %step : i32 {
    %k = tile.load_view %p ["strided", "strided"] strides(%pitch, %one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<1x4096xbf16>
    %l = arith.extf %k : tensor<1x4096xbf16> to tensor<1x4096xf32>
    %m = arith.mulf %l, %e : tensor<1x4096xf32>
    %o = arith.truncf %m : tensor<1x4096xf32> to tensor<1x4096xbf16>
    tile.store_view %o, %r ["strided", "strided"] strides(%pitch, %one) {limited = array<i64>} : tensor<1x4096xbf16>, !tile.ptr<bf16>
  }
  func.return
}
// -----
// RUN: assign-layouts
// The sums of a while loop have the layout of what it loads, neighbors in neighboring lanes, and not another one.
// CHECK-LABEL: @summed_while
func.func @summed_while(%p: !tile.ptr<bf16> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %pitch: i64, %n: i32) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: scf.while {{.+}} -> (tensor<1024xf32, "1024 r[128 256 512] l[1 2 4 8 16] w[32 64]">, i32)
  // CHECK: %h = tile.load_view{{.+}} "1024 r[128 256 512] l[1 2 4 8 16] w[32 64]
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %zero = arith.constant 0 : i32
  %step = arith.constant 1024 : i32
  %f = arith.constant 0.0 : f32
  %start = tile.splat %f : f32 to tensor<1024xf32>
  %y, %last = scf.while (%s = %start, %i = %zero) : (tensor<1024xf32>, i32) -> (tensor<1024xf32>, i32) {
    %more = tile.cmpi "slt", %i, %n : i32, i32 to i1
    scf.condition(%more) %s, %i : tensor<1024xf32>, i32
  } do {
  ^bb0(%t: tensor<1024xf32>, %j: i32):
    %h = tile.load_view %p ["strided"] strides(%pitch) {limited = array<i64>} : !tile.ptr<bf16> to tensor<1024xbf16>
    %x = arith.extf %h : tensor<1024xbf16> to tensor<1024xf32>
    %d = arith.addf %t, %x : tensor<1024xf32>
    %k = arith.addi %j, %step : i32
    scf.yield %d, %k : tensor<1024xf32>, i32
  }
  %z = "tile.reduce"(%y) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<1024xf32>) -> f32
  tile.store %q, %z : !tile.ptr<f32>, f32
  func.return
}
// -----
// RUN: assign-layouts
// Rows that are not known to be aligned are read and written element by element: lanes take neighbors, also of aligned weights.
// CHECK-LABEL: @unaligned
func.func @unaligned(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %w: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %pitch: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK-COUNT-2: tile.load_view{{.+}} "256 r[32 64 128] l[1 2 4 8 16] w[]"
  // CHECK: tile.store_view{{.+}} "256 r[32 64 128] l[1 2 4 8 16] w[]"
  %one = arith.constant 1 : i64
  %row = tile.addptr %p, %pitch : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %out = tile.addptr %q, %pitch : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %a = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
  %x = tile.load_view %row ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
  %y = arith.mulf %x, %a : tensor<256xf32>
  tile.store_view %y, %out ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}
// -----
// Also where only the result is not aligned, and a column lies between.
// CHECK-LABEL: @unaligned_result
func.func @unaligned_result(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %pitch: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: tile.load_view{{.+}} "2x128 r[0,32 0,64 1,0] l[0,1 0,2 0,4 0,8 0,16] w[]"
  // CHECK: tile.store_view{{.+}} "2x128 r[0,32 0,64 1,0] l[0,1 0,2 0,4 0,8 0,16] w[]"
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %size = arith.constant 128 : i64
  %x = tile.load_view %p ["strided", "strided"] strides(%size, %one) {limited = array<i64>} : !tile.ptr<f32> to tensor<2x128xf32>
  %c = tile.load_view %p ["strided", "strided"] strides(%size, %zero) {limited = array<i64>} : !tile.ptr<f32> to tensor<2x128xf32>
  %y = arith.mulf %x, %c : tensor<2x128xf32>
  tile.store_view %y, %q ["strided", "strided"] strides(%pitch, %one) {limited = array<i64>} : tensor<2x128xf32>, !tile.ptr<f32>
  func.return
}
// -----
// What a short axis of a table is reduced to has the layout of the row that it is added to.
// CHECK-LABEL: @reduced_beside
func.func @reduced_beside(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %k: i32) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: tile.load_view{{.+}} "256 r[1 2 128] l[4 8 16 32 64] w[]"
  // CHECK-NOT: gpu.convert_layout
  // CHECK: tile.select{{.+}} "256x4 r[0,1 0,2 1,0 2,0 128,0] l[4,0 8,0 16,0 32,0 64,0] w[]"
  // CHECK-NOT: gpu.convert_layout
  // CHECK: return
  %one = arith.constant 1 : i64
  %f = arith.constant 0.0 : f32
  %g = arith.constant 1.0 : f32
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<256xf32>
  %i = tile.arange 0 : i32, 256 : i32 : tensor<256xi32>
  %j = tile.arange 0 : i32, 4 : i32 : tensor<4xi32>
  %s = tile.splat %k : i32 to tensor<4xi32>
  %t = arith.muli %j, %s : tensor<4xi32>
  %column = tile.expand_dims %i, 1 : i32 : tensor<256xi32> to tensor<256x1xi32>
  %row = tile.expand_dims %t, 0 : i32 : tensor<4xi32> to tensor<1x4xi32>
  %columns = tile.broadcast %column : tensor<256x1xi32> to tensor<256x4xi32>
  %rows = tile.broadcast %row : tensor<1x4xi32> to tensor<256x4xi32>
  %same = tile.cmpi "eq", %columns, %rows : tensor<256x4xi32>, tensor<256x4xi32> to tensor<256x4xi1>
  %zeros = tile.splat %f : f32 to tensor<256x4xf32>
  %ones = tile.splat %g : f32 to tensor<256x4xf32>
  %found = tile.select %same, %ones, %zeros : tensor<256x4xi1>, tensor<256x4xf32>, tensor<256x4xf32> to tensor<256x4xf32>
  %n = "tile.reduce"(%found) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<256x4xf32>) -> tensor<256xf32>
  %y = arith.addf %x, %n : tensor<256xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<256xf32>, !tile.ptr<f32>
  func.return
}
