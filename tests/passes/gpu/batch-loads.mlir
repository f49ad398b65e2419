// RUN: batch-loads{iterations=2},cse
// In place, each iteration its own tile: two iterations at a time, then the one that may be left.
// CHECK-LABEL: @in_place
func.func @in_place(%p: !tile.ptr<f32>, %n: i64) {
  // CHECK: [[TRIPS:%.+]] = arith.maxsi %n, %zero
  // CHECK: [[HALF:%.+]] = arith.shrui [[TRIPS]], %one
  // CHECK: scf.for %i = %zero to [[HALF]] step %one
  // CHECK: %x = tile.load_view
  // CHECK: %x_1 = tile.load_view
  // CHECK: %y = arith.addf %x, %x
  // CHECK-NEXT: tile.store_view %y, {{.+}}
  // CHECK: %y_1 = arith.addf %x_1, %x_1
  // CHECK-NEXT: tile.store_view %y_1, {{.+}}
  // CHECK: } {tile.no_unroll, tile.assumes = #tile.assumes<"batch-loads" [order_each = [{{[0-9]+}}]]>}
  // CHECK: [[REST:%.+]] = arith.andi [[TRIPS]], %one
  // CHECK: scf.for {{.+}} = %zero to [[REST]] step %one
  // CHECK: tile.load_view
  // CHECK-NOT: tile.load_view
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %o = arith.muli %i, %width : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    %y = arith.addf %x, %x : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, !tile.ptr<f32>
  }
  func.return
}
// -----
// What an iteration writes, the next one reads: nothing moves.
// CHECK-LABEL: @chain
func.func @chain(%p: !tile.ptr<f32>, %n: i64) {
  // CHECK: scf.for %i = %zero to %n
  // CHECK: tile.load_view
  // CHECK-NOT: tile.load_view
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %o = arith.muli %i, %width : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    %r = tile.addptr %q, %width : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    tile.store_view %x, %r ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, !tile.ptr<f32>
  }
  func.return
}
// -----
// Tiles that overlap from one iteration to the next, in another argument that may be the same array.
// CHECK-LABEL: @overlapping
func.func @overlapping(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64) {
  // CHECK: scf.for %i = %zero to %n
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %r = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %s = tile.addptr %q, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %r ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    tile.store_view %x, %s ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, !tile.ptr<f32>
  }
  func.return
}
// -----
// RUN: batch-loads{iterations=1}
// A known even number of iterations needs no test; a sum is carried from one to the next, in order.
// CHECK-LABEL: @sum
func.func @sum(%p: !tile.ptr<f32>, %z: tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">) {
  // CHECK: scf.for {{.+}} iter_args([[S:%.+]] = %z)
  // CHECK: %x = tile.load_view
  // CHECK: %x_1 = tile.load_view
  // CHECK: [[A:%.+]] = arith.addf [[S]], %x :
  // CHECK: [[B:%.+]] = arith.addf [[A]], %x_1 :
  // CHECK: scf.yield [[B]]
  %six = arith.constant 6 : i64
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  %t = scf.for %i = %zero to %six step %one iter_args(%s = %z) -> (tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">) : i64 {
    %o = arith.muli %i, %width : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    %u = arith.addf %s, %x : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    scf.yield %u : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
  }
  tile.store_view %t, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, !tile.ptr<f32>
  func.return
}
// -----
// A reduction in each iteration waits for the loads of its own iteration alone.
// CHECK-LABEL: @reduced
func.func @reduced(%p: !tile.ptr<f32>, %n: i64) -> f32 {
  // CHECK: scf.for %i = %zero to {{%.+}} step %one iter_args
  // CHECK: %x = tile.load_view
  // CHECK: %x_1 = tile.load_view
  // CHECK: "tile.reduce"(%x)
  // CHECK: "tile.reduce"(%x_1)
  // CHECK: tile.no_unroll
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  %none = arith.constant 0.0 : f32
  %last = scf.for %i = %zero to %n step %one iter_args(%most = %none) -> (f32) : i64 {
    %o = arith.muli %i, %width : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    %sum = "tile.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tile.yield %c : f32
    }) : (tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">) -> f32
    %more = arith.maxnumf %most, %sum : f32
    scf.yield %more : f32
  }
  func.return %last : f32
}
// -----
// Five iterations are four and one.
// RUN: batch-loads,cse
// CHECK-LABEL: @five
func.func @five(%p: !tile.ptr<f32>) {
  // CHECK: scf.for %i = %zero to %one step %one
  // CHECK-COUNT-4: tile.load_view
  // CHECK-COUNT-4: tile.store_view
  // CHECK: scf.for %i_1 = %zero to %one step %one
  // CHECK-NEXT: arith.addi {{.+}}, %i_1
  // CHECK: tile.load_view
  // CHECK-NEXT: tile.store_view
  // CHECK-NOT: scf.for
  %five = arith.constant 5 : i64
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  scf.for %i = %zero to %five step %one : i64 {
    %o = arith.muli %i, %width : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, !tile.ptr<f32>
  }
  func.return
}
// -----
// Registers for one iteration only.
// RUN: batch-loads{registers-per-thread=1}
// CHECK-LABEL: @narrow
func.func @narrow(%p: !tile.ptr<f32>, %n: i64) {
  // CHECK: scf.for %i = %zero to %n
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %width = arith.constant 64 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %o = arith.muli %i, %width : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, !tile.ptr<f32>
  }
  func.return
}
// -----
// In CTAs of four warps and less, what a loop of known length carries leaves registers for the loads of two iterations.
// RUN: batch-loads,cse
// CHECK-LABEL: @accumulated
func.func @accumulated(%p: !tile.ptr<f32>, %init: tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">) -> tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]"> attributes {gpu.num_warps = 4 : i32} {
  // CHECK: scf.for
  // CHECK-COUNT-2: tile.load
  // CHECK: arith.addf
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %n = arith.constant 8 : i64
  %width = arith.constant 4096 : i64
  %last, %squares = scf.for %i = %zero to %n step %one iter_args(%sum = %init, %square = %init) -> (tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">, tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">) : i64 {
    %o = arith.muli %i, %width : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">
    %more = arith.addf %sum, %x : tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">
    %y = arith.mulf %x, %x : tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">
    %most = arith.addf %square, %y : tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">
    scf.yield %more, %most : tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">, tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">
  }
  %all = arith.addf %last, %squares : tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">
  func.return %all : tensor<4096xf32, "4096 r[1 2 512 1024 2048] l[4 8 16 32 64] w[128 256]">
}
// -----
// Each of eight elements per thread in a sector of its own: 256 bytes are in flight, and more registers would cost CTAs.
// RUN: batch-loads,cse
// CHECK-LABEL: @sectors
func.func @sectors(%p: !tile.ptr<f32>, %init: tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">, %n: i64, %columns: i64 {tile.divisibility = 8 : i32}) -> tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]"> attributes {gpu.num_warps = 2 : i32} {
  // CHECK: scf.for %i = %zero to %n
  // CHECK: tile.load_view
  // CHECK-NOT: tile.load_view
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %last = scf.for %i = %zero to %n step %one iter_args(%sum = %init) -> (tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">) : i64 {
    %o = arith.muli %i, %columns : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%columns) {limited = array<i64>} : !tile.ptr<f32> to tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
    %more = arith.addf %sum, %x : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
    scf.yield %more : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
  }
  func.return %last : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
}
// -----
// Neighbors share sectors if the stride may be less: as many iterations as registers allow.
// RUN: batch-loads,cse
// CHECK-LABEL: @shared_sectors
func.func @shared_sectors(%p: !tile.ptr<f32>, %init: tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">, %n: i64, %columns: i64 {tile.divisibility = 4 : i32}) -> tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]"> attributes {gpu.num_warps = 2 : i32} {
  // CHECK: scf.for
  // CHECK-COUNT-4: tile.load_view
  // CHECK: arith.addf
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %last = scf.for %i = %zero to %n step %one iter_args(%sum = %init) -> (tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">) : i64 {
    %o = arith.muli %i, %columns : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%columns) {limited = array<i64>} : !tile.ptr<f32> to tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
    %more = arith.addf %sum, %x : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
    scf.yield %more : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
  }
  func.return %last : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
}
// -----
// One element per thread: the registers of more iterations cost no CTA.
// RUN: batch-loads,cse
// CHECK-LABEL: @sectors_of_few_registers
func.func @sectors_of_few_registers(%p: !tile.ptr<f32>, %init: tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, %n: i64, %columns: i64 {tile.divisibility = 8 : i32}) -> tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]"> attributes {gpu.num_warps = 2 : i32} {
  // CHECK: scf.for
  // CHECK-COUNT-8: tile.load_view
  // CHECK: arith.addf
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %last = scf.for %i = %zero to %n step %one iter_args(%sum = %init) -> (tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">) : i64 {
    %o = arith.muli %i, %columns : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%columns) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    %more = arith.addf %sum, %x : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
    scf.yield %more : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
  }
  func.return %last : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
}
// -----
// A column after the other: iterations read the same sectors, so that registers decide.
// RUN: batch-loads,cse
// CHECK-LABEL: @sectors_of_iterations
func.func @sectors_of_iterations(%p: !tile.ptr<f32>, %init: tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">, %n: i64, %columns: i64 {tile.divisibility = 8 : i32}) -> tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]"> attributes {gpu.num_warps = 2 : i32} {
  // CHECK: scf.for
  // CHECK-COUNT-4: tile.load_view
  // CHECK: arith.addf
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : i64
  %last = scf.for %i = %zero to %n step %one iter_args(%sum = %init) -> (tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">) : i64 {
    %q = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%columns) {limited = array<i64>} : !tile.ptr<f32> to tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
    %more = arith.addf %sum, %x : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
    scf.yield %more : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
  }
  func.return %last : tensor<512xf32, "512 r[64 128 256] l[1 2 4 8 16] w[32]">
}
