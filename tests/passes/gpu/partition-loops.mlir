// RUN: partition-loops
// Down: the last iterations are cut.
// CHECK-LABEL: @down
func.func @down(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %size: i64, %n: i64) {
  // CHECK: [[ROOM:%.+]] = arith.subi {{.+}} : i64
  // CHECK: arith.divui
  // CHECK: [[FULL:%.+]] = arith.minsi {{.+}} : i64
  // CHECK: [[REST:%.+]] = arith.subi {{.+}}, [[FULL]] : i64
  // CHECK: scf.for %i = %zero to [[FULL]] step %one
  // CHECK: tile.load_view {{.+}} strides(%one) {{.+}}limited = array<i64>}
  // CHECK: tile.store_view %x, {{.+}} strides(%one) {{.+}}limited = array<i64>}
  // CHECK: scf.for %i_1 = %zero to [[REST]] step %one
  // CHECK-NEXT: arith.addi [[FULL]], %i_1
  // CHECK: tile.load_view{{.+}}limited = array<i64: 0>
  // CHECK: tile.store_view{{.+}}limited = array<i64: 0>
  // CHECK: } {tile.no_unroll}
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %width = arith.constant 64 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %o = arith.muli %i, %width overflow<nsw> : i64
    %left = arith.subi %size, %o overflow<nsw> : i64
    %a = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %b = tile.addptr %q, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %a ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %b ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// Up: the first iterations are cut.
// CHECK-LABEL: @up
func.func @up(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %start: i64, %n: i64) {
  // CHECK: scf.for
  // CHECK: tile.load_view{{.+}}limited = array<i64: 0>
  // CHECK: } {tile.no_unroll}
  // CHECK: scf.for
  // CHECK: tile.load_view{{.+}}limited = array<i64>}
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %width = arith.constant 64 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %o = arith.muli %i, %width overflow<nsw> : i64
    %left = arith.addi %start, %o overflow<nsw> : i64
    %b = tile.addptr %q, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %p ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %b ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// The same limit in all iterations, or one from memory.
// CHECK-LABEL: @others
func.func @others(%p: !tile.ptr<f32>, %q: !tile.ptr<i64>, %size: i64, %n: i64) {
  // CHECK-COUNT-1: scf.for
  // CHECK-NOT: scf.for
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %r = tile.addptr %q, %i : !tile.ptr<i64>, i64 to !tile.ptr<i64>
    %left = tile.load %r : !tile.ptr<i64> to i64
    %x = tile.load_view %p ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %p ["strided"] strides(%one) limits(%size) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// RUN: partition-loops,batch-loads
// Backwards, in 32 bits: the whole tiles come second, and several of them at a time (`batch-loads` sees by how
// much their addresses advance).
// CHECK-LABEL: @backwards
func.func @backwards(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %size: i64, %last: i32, %trips: i32) {
  // CHECK: tile.load_view{{.+}}limited = array<i64: 0>
  // CHECK: scf.for
  // CHECK: tile.load_view{{.+}}limited = array<i64>}
  // CHECK-NOT: tile.store_view
  // CHECK: tile.load_view{{.+}}limited = array<i64>}
  // CHECK: tile.store_view{{.+}}limited = array<i64>}
  %n = arith.extsi %trips : i32 to i64
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %width = arith.constant 64 : i32
  scf.for %i = %zero to %n step %one : i64 {
    %k = arith.trunci %i : i64 to i32
    %at = arith.subi %last, %k overflow<nsw> : i32
    %o32 = arith.muli %at, %width overflow<nsw> : i32
    %o = arith.extsi %o32 : i32 to i64
    %left = arith.subi %size, %o overflow<nsw> : i64
    %a = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %b = tile.addptr %q, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %a ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %b ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// RUN: partition-loops
// Comparisons that say what a limit does hold in all iterations that it does not cut; others are made in both loops.
// CHECK-LABEL: @masks
func.func @masks(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %size: i32, %other: i32, %n: i64) {
  // CHECK: scf.for
  // CHECK-NOT: tile.cmpi
  // CHECK: tile.splat %{{.+}} : i1 to tensor<64xi1>
  // CHECK: tile.cmpi "slt", %at{{.*}}, %t : tensor<64xi32>
  // CHECK-NOT: tile.cmpi
  // CHECK: scf.for
  // CHECK: tile.cmpi "slt", %at{{.*}}, %s : tensor<64xi32>
  // CHECK: tile.cmpi "slt", %at{{.*}}, %t : tensor<64xi32>
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %width = arith.constant 64 : i32
  %wide = arith.extsi %size : i32 to i64
  %lanes = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %s = tile.splat %size : i32 to tensor<64xi32>
  %t = tile.splat %other : i32 to tensor<64xi32>
  scf.for %i = %zero to %n step %one : i64 {
    %narrow = arith.trunci %i : i64 to i32
    %o = arith.muli %narrow, %width {tile.loop_index = array<i64: 0, 2147483631>} : i32
    %far = arith.extsi %o : i32 to i64
    %left = arith.subi %wide, %far : i64
    %a = tile.addptr %p, %far : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %b = tile.addptr %q, %far : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %start = tile.splat %o : i32 to tensor<64xi32>
    %at = arith.addi %start, %lanes : tensor<64xi32>
    %inside = tile.cmpi "slt", %at, %s : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
    %few = tile.cmpi "slt", %at, %t : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
    %x = tile.load_view %a ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    %y = tile.select %inside, %x, %x : tensor<64xi1>, tensor<64xf32>, tensor<64xf32> to tensor<64xf32>
    %z = tile.select %few, %y, %x : tensor<64xi1>, tensor<64xf32>, tensor<64xf32> to tensor<64xf32>
    tile.store_view %z, %b ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
