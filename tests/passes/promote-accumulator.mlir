// RUN: promote-accumulator{assume-noalias=true}
// Listing 1 of arXiv 2108.13191: the sums are loaded and stored at every step of k. The rows beyond a limit
// are carried too and never stored.
// CHECK-LABEL: @product
func.func @product(%a: !tile.ptr<f16>, %b: !tile.ptr<f16>, %c: !tile.ptr<f32>, %m: i64, %n: i64, %k: i64) {
  // CHECK: [[RUNS:%.+]] = tile.cmpi "slt", %zero, %k
  // CHECK: [[START:%.+]] = scf.if [[RUNS]]
  // CHECK: tile.load_view %c ["strided", "strided"] strides(%n, %one) limits(%m)
  // CHECK: [[SUM:%.+]] = scf.for {{.+}} iter_args([[ACC:%.+]] = [[START]])
  // CHECK-NOT: tile.store_view
  // CHECK: [[D:%.+]] = tile.dot {{%.+}}, {{%.+}}, [[ACC]]
  // CHECK-NEXT: scf.yield [[D]]
  // CHECK: scf.if [[RUNS]]
  // CHECK-NEXT: tile.store_view [[SUM]], %c ["strided", "strided"] strides(%n, %one) limits(%m)
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %k step %one : i64 {
    %p = tile.addptr %a, %i : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %x = tile.load_view %p ["strided", "strided"] strides(%k, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<16x16xf16>
    %y = tile.load_view %b ["strided", "strided"] strides(%n, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<16x16xf16>
    %z = tile.load_view %c ["strided", "strided"] strides(%n, %one) limits(%m) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<16x16xf32>
    %d = tile.dot %x, %y, %z, "ieee" : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
    tile.store_view %d, %c ["strided", "strided"] strides(%n, %one) limits(%m) {limited = array<i64: 0>} : tensor<16x16xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// A number of iterations that is known needs no branches.
// CHECK-LABEL: @counted
func.func @counted(%p: !tile.ptr<f32>, %x: tensor<64xf32>) {
  // CHECK-NOT: scf.if
  // CHECK: tile.load_view
  // CHECK: scf.for
  // CHECK-NOT: tile.store_view
  // CHECK: }
  // CHECK-NEXT: tile.store_view
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %ten = arith.constant 10 : i64
  scf.for %i = %zero to %ten step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %x : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// What else the loop reads may be the tile: the same argument, an unknown one; or it waits for others.
// CHECK-LABEL: @touched
func.func @touched(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %t: i1) {
  // CHECK-COUNT-3: scf.for {{.+}} : i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %r = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %r ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %x : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  %either = arith.select %t, %p, %q : !tile.ptr<f32>
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %x = tile.load_view %either ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %x : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %c : tensor<64xf32>
    tile.barrier
    tile.store_view %d, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// Other lanes, other addresses in each iteration, lanes that share an address, dead lanes that are needed.
// CHECK-LABEL: @different
func.func @different(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64) {
  // CHECK-COUNT-4: scf.for {{.+}} : i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %ten = arith.constant 10 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %c : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%one) limits(%ten) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  scf.for %i = %zero to %n step %one : i64 {
    %r = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %c = tile.load_view %r ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %c : tensor<64xf32>
    tile.store_view %d, %r ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%zero) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %c : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%zero) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) limits(%ten) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %c : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%one) limits(%ten) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
    tile.store_view %c, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// RUN: promote-accumulator
// Without the assumption that arguments are apart.
// CHECK-LABEL: @may_alias
func.func @may_alias(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64) {
  // CHECK: scf.for {{.+}} : i64 {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %x : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// RUN: promote-accumulator
// One argument has the attribute: whoever launches it has looked.
// CHECK-LABEL: @known_to_be_apart
func.func @known_to_be_apart(%p: !tile.ptr<f32> {tile.noalias}, %q: !tile.ptr<f32>, %n: i64) {
  // CHECK: scf.for {{.+}} iter_args
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    %d = arith.mulf %c, %x : tensor<64xf32>
    tile.store_view %d, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
