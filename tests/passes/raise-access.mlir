// RUN: raise-access
// Base, stride and limit of a vector.
// CHECK-LABEL: @vector
func.func @vector(%p: !tile.ptr<f32>, %n: i32, %start: i32, %s: i32) {
  // CHECK: [[OFF:%.+]] = arith.muli [[START:%.+]], [[S:%.+]] : i64
  // CHECK: [[BASE:%.+]] = tile.addptr %p, [[OFF]]
  // CHECK: [[LIMIT:%.+]] = arith.subi {{%.+}}, {{%.+}} : i64
  // CHECK: tile.load_view [[BASE]] ["strided"] strides({{%.+}}) limits([[LIMIT]]) other %z{{.+}}limited = array<i64: 0>
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %st = tile.splat %start : i32 to tensor<64xi32>
  %o = arith.addi %st, %a : tensor<64xi32>
  %ns = tile.splat %n : i32 to tensor<64xi32>
  %m = tile.cmpi "slt", %o, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %ss = tile.splat %s : i32 to tensor<64xi32>
  %os = arith.muli %o, %ss : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %ps, %os : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  %z = arith.constant 2.5 : f32
  %zs = tile.splat %z : f32 to tensor<64xf32>
  %x = tile.load %q mask %m : tensor<64xi1> other %zs : tensor<64xf32> : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
  tile.store %q, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}

// -----
// Comparisons the other way round, <=, a bound with a stride, two limits on one dimension: one minimum.
// CHECK-LABEL: @limits
func.func @limits(%p: !tile.ptr<f32>, %n: i32, %m: i32, %x: tensor<64xf32>) {
  // CHECK: arith.divsi
  // CHECK: [[A:%.+]] = arith.minsi
  // CHECK: [[B:%.+]] = arith.minsi [[A]]
  // CHECK: tile.store_view %x, %p ["strided"] strides({{%.+}}) limits([[B]]) {{.*}}limited = array<i64: 0>
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %ns = tile.splat %n : i32 to tensor<64xi32>
  %ms = tile.splat %m : i32 to tensor<64xi32>
  %two = arith.constant 2 : i32
  %twos = tile.splat %two : i32 to tensor<64xi32>
  %a2 = arith.muli %a, %twos : tensor<64xi32>
  %c1 = tile.cmpi "slt", %a2, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %c2 = tile.cmpi "sge", %ms, %a : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %c3 = tile.cmpi "ult", %a, %ms : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %c4 = arith.andi %c1, %c2 : tensor<64xi1>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %ps, %a : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  %c5 = tile.cmpi "sle", %a, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %c6 = arith.andi %c4, %c5 : tensor<64xi1>
  tile.store %q, %x mask %c6 : tensor<64xi1> : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}

// -----
// Unsigned comparison with a bound that may be negative is no limit.
// CHECK-LABEL: @unsigned
func.func @unsigned(%p: !tile.ptr<f32>, %n: i32, %x: tensor<64xf32>) {
  // CHECK: [[M:%.+]] = tile.cmpi "ult"
  // CHECK: tile.store_view %x, %p ["strided"] strides({{%.+}}) mask [[M]] {{.+}}limited = array<i64>
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %ns = tile.splat %n : i32 to tensor<64xi32>
  %c = tile.cmpi "ult", %a, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %ps, %a : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  tile.store %q, %x mask %c : tensor<64xi1> : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}

// -----
// A condition on the whole tile and a data-dependent mask; `other` that varies becomes a select.
// CHECK-LABEL: @conditions
func.func @conditions(%p: !tile.ptr<f32>, %n: i32, %c: i1, %d: tensor<64xi1>, %o: tensor<64xf32>) {
  // CHECK: [[LIMIT:%.+]] = tile.select %c, {{%.+}}, {{%.+}} : i1, i64, i64 to i64
  // CHECK: [[V:%.+]] = tile.load_view %p ["strided"] strides({{%.+}}) limits([[LIMIT]]) mask %d {{.+}}limited = array<i64: 0>
  // CHECK: tile.select [[M:%.+]], [[V]], %o
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %ns = tile.splat %n : i32 to tensor<64xi32>
  %cs = tile.splat %c : i1 to tensor<64xi1>
  %m1 = tile.cmpi "slt", %a, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %m2 = arith.andi %m1, %cs : tensor<64xi1>
  %m3 = arith.andi %m2, %d : tensor<64xi1>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %ps, %a : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  %x = tile.load %q mask %m3 : tensor<64xi1> other %o : tensor<64xf32> : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
  tile.store %q, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}

// -----
// Rows gathered through loaded indices, columns strided, row mask on loaded values.
// CHECK-LABEL: @gathered_rows
func.func @gathered_rows(%p: !tile.ptr<f32>, %i: !tile.ptr<i32>, %s: i32, %n: i32) {
  // CHECK: [[IDX:%.+]] = tile.load_view %i
  // CHECK: [[WIDE:%.+]] = arith.extsi [[IDX]]
  // CHECK: [[TERM:%.+]] = arith.muli [[WIDE]]
  // CHECK: tile.load_view %p ["indexed", "strided"] strides({{%.+}}, {{%.+}}) indices([[TERM]] : {{.+}}) mask {{%.+}}limited = array<i64>
  %a = tile.arange 0 : i32, 16 : i32 : tensor<16xi32>
  %b = tile.arange 0 : i32, 32 : i32 : tensor<32xi32>
  %is = tile.splat %i : !tile.ptr<i32> to tensor<16x!tile.ptr<i32>>
  %iq = tile.addptr %is, %a : tensor<16x!tile.ptr<i32>>, tensor<16xi32> to tensor<16x!tile.ptr<i32>>
  %rows = tile.load %iq : tensor<16x!tile.ptr<i32>> to tensor<16xi32>
  %r2 = tile.expand_dims %rows, 1 : i32 : tensor<16xi32> to tensor<16x1xi32>
  %ss = tile.splat %s : i32 to tensor<16x1xi32>
  %r3 = arith.muli %r2, %ss : tensor<16x1xi32>
  %r4 = tile.broadcast %r3 : tensor<16x1xi32> to tensor<16x32xi32>
  %b2 = tile.expand_dims %b, 0 : i32 : tensor<32xi32> to tensor<1x32xi32>
  %b4 = tile.broadcast %b2 : tensor<1x32xi32> to tensor<16x32xi32>
  %o = arith.addi %r4, %b4 : tensor<16x32xi32>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<16x32x!tile.ptr<f32>>
  %q = tile.addptr %ps, %o : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xi32> to tensor<16x32x!tile.ptr<f32>>
  %ns = tile.splat %n : i32 to tensor<16x1xi32>
  %c = tile.cmpi "slt", %r2, %ns : tensor<16x1xi32>, tensor<16x1xi32> to tensor<16x1xi1>
  %m = tile.broadcast %c : tensor<16x1xi1> to tensor<16x32xi1>
  %x = tile.load %q mask %m : tensor<16x32xi1> : tensor<16x32x!tile.ptr<f32>> to tensor<16x32xf32>
  tile.store %q, %x : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xf32>
  func.return
}

// -----
// `(start + lane) % size` wraps if the start is known not to be negative, else it is an index tile.
// CHECK-LABEL: @wrapped
func.func @wrapped(%p: !tile.ptr<f32>, %n: i32, %start: i32) {
  // CHECK: [[W:%.+]] = arith.remsi
  // CHECK: tile.load_view {{.+}} ["wrapped"]
  // CHECK: [[I:%.+]] = arith.extsi [[W]]
  // CHECK: tile.store_view %x, {{.+}} ["indexed"] {{.+}} indices([[I]]
  %pid = tile.program_id 0 : i32 : i32
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %ns = tile.splat %n : i32 to tensor<64xi32>
  %s1 = tile.splat %pid : i32 to tensor<64xi32>
  %o1 = arith.addi %s1, %a : tensor<64xi32>
  %w1 = arith.remsi %o1, %ns : tensor<64xi32>
  %s2 = tile.splat %start : i32 to tensor<64xi32>
  %o2 = arith.addi %s2, %a : tensor<64xi32>
  %w2 = arith.remsi %o2, %ns : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %q1 = tile.addptr %ps, %w1 : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  %x = tile.load %q1 : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
  %q2 = tile.addptr %ps, %w2 : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  tile.store %q2, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}

// -----
// Transposes, unit extents, pointers broadcast after a first offset, rows of a flat tile; a stride that another
// access has is not written again.
// CHECK-LABEL: @shapes
func.func @shapes(%p: !tile.ptr<f32>, %s: i64, %x: tensor<32x16xf32>, %y: tensor<4x8x1xf32>) {
  // CHECK: [[ZERO:%.+]] = arith.constant 0 : i64
  // CHECK: [[ONE:%.+]] = arith.constant 1 : i64
  // CHECK: tile.store_view %x, %p ["strided", "strided"] strides([[ONE]], %s) {{.*}}limited = array<i64>
  // CHECK: [[EIGHT:%.+]] = arith.constant 8 : i64
  // CHECK: tile.store_view %y, %p ["strided", "strided", "strided"] strides([[EIGHT]], [[ONE]], [[ZERO]])
  %a = tile.arange 0 : i32, 16 : i32 : tensor<16xi32>
  %b = tile.arange 0 : i32, 32 : i32 : tensor<32xi32>
  %a1 = arith.extsi %a : tensor<16xi32> to tensor<16xi64>
  %a2 = tile.expand_dims %a1, 1 : i32 : tensor<16xi64> to tensor<16x1xi64>
  %ss = tile.splat %s : i64 to tensor<16x1xi64>
  %a3 = arith.muli %a2, %ss : tensor<16x1xi64>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<16x1x!tile.ptr<f32>>
  %q1 = tile.addptr %ps, %a3 : tensor<16x1x!tile.ptr<f32>>, tensor<16x1xi64> to tensor<16x1x!tile.ptr<f32>>
  %q2 = tile.broadcast %q1 : tensor<16x1x!tile.ptr<f32>> to tensor<16x32x!tile.ptr<f32>>
  %b2 = tile.expand_dims %b, 0 : i32 : tensor<32xi32> to tensor<1x32xi32>
  %b3 = tile.broadcast %b2 : tensor<1x32xi32> to tensor<16x32xi32>
  %q3 = tile.addptr %q2, %b3 : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xi32> to tensor<16x32x!tile.ptr<f32>>
  %q4 = tile.trans %q3, [1, 0] : tensor<16x32x!tile.ptr<f32>> to tensor<32x16x!tile.ptr<f32>>
  tile.store %q4, %x : tensor<32x16x!tile.ptr<f32>>, tensor<32x16xf32>
  %f = tile.reshape %b : tensor<32xi32> to tensor<4x8x1xi32>
  %p3 = tile.splat %p : !tile.ptr<f32> to tensor<4x8x1x!tile.ptr<f32>>
  %q5 = tile.addptr %p3, %f : tensor<4x8x1x!tile.ptr<f32>>, tensor<4x8x1xi32> to tensor<4x8x1x!tile.ptr<f32>>
  tile.store %q5, %y : tensor<4x8x1x!tile.ptr<f32>>, tensor<4x8x1xf32>
  func.return
}

// -----
// Clamped rows are an index tile, rebuilt in one dimension from a two-dimensional expression.
// CHECK-LABEL: @clamped
func.func @clamped(%p: !tile.ptr<f32>, %n: i32, %x: tensor<16x32xf32>) {
  // CHECK: [[N:%.+]] = tile.splat %n : i32 to tensor<16xi32>
  // CHECK: arith.minsi %a, [[N]] : tensor<16xi32>
  // CHECK: tile.store_view {{.+}} ["indexed", "strided"]
  %a = tile.arange 0 : i32, 16 : i32 : tensor<16xi32>
  %b = tile.arange 0 : i32, 32 : i32 : tensor<32xi32>
  %a2 = tile.expand_dims %a, 1 : i32 : tensor<16xi32> to tensor<16x1xi32>
  %a3 = tile.broadcast %a2 : tensor<16x1xi32> to tensor<16x32xi32>
  %ns = tile.splat %n : i32 to tensor<16x32xi32>
  %a4 = arith.minsi %a3, %ns : tensor<16x32xi32>
  %b2 = tile.expand_dims %b, 0 : i32 : tensor<32xi32> to tensor<1x32xi32>
  %b3 = tile.broadcast %b2 : tensor<1x32xi32> to tensor<16x32xi32>
  %o = arith.addi %a4, %b3 : tensor<16x32xi32>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<16x32x!tile.ptr<f32>>
  %q = tile.addptr %ps, %o : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xi32> to tensor<16x32x!tile.ptr<f32>>
  tile.store %q, %x : tensor<16x32x!tile.ptr<f32>>, tensor<16x32xf32>
  func.return
}

// -----
// Volatile loads, scalar accesses, tiles of unrelated pointers, and offsets that mix dimensions stay.
// CHECK-LABEL: @kept
func.func @kept(%p: !tile.ptr<f32>, %t: tensor<8x!tile.ptr<f32>>, %o: tensor<4x8xi32>) {
  // CHECK: tile.load {{.*}} {volatile = true}
  // CHECK: tile.store %t
  // CHECK: tile.load %p
  // CHECK: tile.load {{.*}} : tensor<4x8x!tile.ptr<f32>>
  // CHECK-NOT: view
  %a = tile.arange 0 : i32, 8 : i32 : tensor<8xi32>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<8x!tile.ptr<f32>>
  %q = tile.addptr %ps, %a : tensor<8x!tile.ptr<f32>>, tensor<8xi32> to tensor<8x!tile.ptr<f32>>
  %x = tile.load %q {volatile = true} : tensor<8x!tile.ptr<f32>> to tensor<8xf32>
  tile.store %t, %x : tensor<8x!tile.ptr<f32>>, tensor<8xf32>
  %s = tile.load %p : !tile.ptr<f32> to f32
  tile.store %p, %s : !tile.ptr<f32>, f32
  %p2 = tile.splat %p : !tile.ptr<f32> to tensor<4x8x!tile.ptr<f32>>
  %q2 = tile.addptr %p2, %o : tensor<4x8x!tile.ptr<f32>>, tensor<4x8xi32> to tensor<4x8x!tile.ptr<f32>>
  %y = tile.load %q2 : tensor<4x8x!tile.ptr<f32>> to tensor<4x8xf32>
  tile.store %q2, %y : tensor<4x8x!tile.ptr<f32>>, tensor<4x8xf32>
  func.return
}

// -----
// Bounds from below: one that always holds goes, the other stays in the mask.
// CHECK-LABEL: @below
func.func @below(%p: !tile.ptr<f32>, %n: i32, %low: i32) {
  // CHECK: [[M:%.+]] = tile.cmpi "sge", %o, %ls
  // CHECK: tile.load_view {{.+}} ["strided"] strides({{.+}}) limits({{.+}}) mask [[M]] {{.+}}limited = array<i64: 0>
  %pid = tile.program_id 0 : i32 : i32
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %st = tile.splat %pid : i32 to tensor<64xi32>
  %o = arith.addi %st, %a : tensor<64xi32>
  %ns = tile.splat %n : i32 to tensor<64xi32>
  %ls = tile.splat %low : i32 to tensor<64xi32>
  %z = arith.constant 0 : i32
  %zs = tile.splat %z : i32 to tensor<64xi32>
  %m1 = tile.cmpi "slt", %o, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %m2 = tile.cmpi "sge", %o, %zs : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %m3 = tile.cmpi "sge", %o, %ls : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %m4 = arith.andi %m1, %m2 : tensor<64xi1>
  %m5 = arith.andi %m4, %m3 : tensor<64xi1>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %ps, %o : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  %x = tile.load %q mask %m5 : tensor<64xi1> : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
  tile.store %q, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}

// -----
// One element for all lanes is loaded once, and the row that it names is strided.
// CHECK-LABEL: @row_of_a_loaded_index
func.func @row_of_a_loaded_index(%p: !tile.ptr<f32>, %i: !tile.ptr<i64>, %o: !tile.ptr<f32>) {
  // CHECK: [[ROW:%.+]] = tile.load %i : !tile.ptr<i64> to i64
  // CHECK: tile.load_view {{%.+}} ["strided"]
  %is = tile.splat %i : !tile.ptr<i64> to tensor<64x!tile.ptr<i64>>
  %row = tile.load %is : tensor<64x!tile.ptr<i64>> to tensor<64xi64>
  %w = arith.constant 64 : i64
  %ws = tile.splat %w : i64 to tensor<64xi64>
  %first = arith.muli %row, %ws : tensor<64xi64>
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %l = arith.extsi %a : tensor<64xi32> to tensor<64xi64>
  %at = arith.addi %first, %l : tensor<64xi64>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %q = tile.addptr %ps, %at : tensor<64x!tile.ptr<f32>>, tensor<64xi64> to tensor<64x!tile.ptr<f32>>
  %x = tile.load %q : tensor<64x!tile.ptr<f32>> to tensor<64xf32>
  %os = tile.splat %o : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %r = tile.addptr %os, %a : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  tile.store %r, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}

// -----
// Masked: the store leaves out the lanes of which the load gives 0. Another store that does not keeps the tile.
// CHECK-LABEL: @masked_element
func.func @masked_element(%i: !tile.ptr<i64>, %n: i32, %o: !tile.ptr<i64>, %u: !tile.ptr<i64>) {
  // CHECK: [[LIVE:%.+]] = tile.cmpi "sgt"
  // CHECK: tile.load %i mask [[LIVE]]
  // CHECK: tile.load_view %u ["strided"]
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %ns = tile.splat %n : i32 to tensor<64xi32>
  %m = tile.cmpi "slt", %a, %ns : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %is = tile.splat %i : !tile.ptr<i64> to tensor<64x!tile.ptr<i64>>
  %x = tile.load %is mask %m : tensor<64xi1> : tensor<64x!tile.ptr<i64>> to tensor<64xi64>
  %os = tile.splat %o : !tile.ptr<i64> to tensor<64x!tile.ptr<i64>>
  %q = tile.addptr %os, %a : tensor<64x!tile.ptr<i64>>, tensor<64xi32> to tensor<64x!tile.ptr<i64>>
  tile.store %q, %x mask %m : tensor<64xi1> : tensor<64x!tile.ptr<i64>>, tensor<64xi64>
  %us = tile.splat %u : !tile.ptr<i64> to tensor<64x!tile.ptr<i64>>
  %y = tile.load %us mask %m : tensor<64xi1> : tensor<64x!tile.ptr<i64>> to tensor<64xi64>
  tile.store %q, %y : tensor<64x!tile.ptr<i64>>, tensor<64xi64>
  func.return
}

// -----
// Exclusive additions to distinct addresses become vector operations; those to one address and those whose result is
// used do not.
// CHECK-LABEL: @exclusive_additions
func.func @exclusive_additions(%p: !tile.ptr<f32>, %x: tensor<64xf32>, %q: tensor<64x!tile.ptr<f32>>) {
  // CHECK: [[OLD:%.+]] = tile.load_view %p
  // CHECK: [[NEW:%.+]] = arith.addf [[OLD]], %x
  // CHECK: tile.store_view [[NEW]], %p
  // CHECK: tile.atomic_rmw "fadd", "exclusive"
  // CHECK: tile.atomic_rmw "fadd", "exclusive"
  // CHECK: tile.atomic_rmw "fadd", "relaxed"
  %a = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %ps = tile.splat %p : !tile.ptr<f32> to tensor<64x!tile.ptr<f32>>
  %r = tile.addptr %ps, %a : tensor<64x!tile.ptr<f32>>, tensor<64xi32> to tensor<64x!tile.ptr<f32>>
  %o1 = tile.atomic_rmw "fadd", "exclusive", "gpu", %r, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32> to tensor<64xf32>
  %o2 = tile.atomic_rmw "fadd", "exclusive", "gpu", %ps, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32> to tensor<64xf32>
  %o3 = tile.atomic_rmw "fadd", "exclusive", "gpu", %r, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32> to tensor<64xf32>
  %o4 = tile.atomic_rmw "fadd", "relaxed", "gpu", %r, %x : tensor<64x!tile.ptr<f32>>, tensor<64xf32> to tensor<64xf32>
  tile.store %q, %o3 : tensor<64x!tile.ptr<f32>>, tensor<64xf32>
  func.return
}
