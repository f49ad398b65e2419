// RUN: hoist-conditional-loads
// Both sides load in front of the branch, each where it is taken; what follows a store stays.
// CHECK-LABEL: @sides
func.func @sides(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i64, %one: i64) {
  // CHECK: scf.for %i
  // CHECK: %c = tile.cmpi
  // CHECK: [[ELSE:%.+]] = arith.xori %c, {{.+}} : i1
  // CHECK: tile.load %p mask [[ELSE]]
  // CHECK: [[AT:%.+]] = tile.addptr %p, %i
  // CHECK: tile.select %c
  // CHECK: %x = tile.load_view [[AT]] ["strided"] strides(%one) limits
  // CHECK: scf.if %c {
  // CHECK: tile.store_view %x
  // CHECK: tile.load %p
  // CHECK: } else {
  // CHECK-NOT: tile.load
  %zero = arith.constant 0 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %c = tile.cmpi "slt", %i, %one : i64, i64 to i1
    scf.if %c {
      %r = tile.addptr %p, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %x = tile.load_view %r ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">
      tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[] l[1 2 4 8 16] w[32]">, !tile.ptr<f32>
      %y = tile.load %p : !tile.ptr<f32> to f32
      tile.store %q, %y : !tile.ptr<f32>, f32
    } else {
      %z = tile.load %p : !tile.ptr<f32> to f32
      tile.store %q, %z : !tile.ptr<f32>, f32
    }
  }
  func.return
}
// -----
// Without a loop there is nothing to load ahead of.
// CHECK-LABEL: @once
func.func @once(%p: !tile.ptr<f32>, %c: i1) {
  // CHECK: scf.if
  // CHECK-NEXT: tile.load
  scf.if %c {
    %z = tile.load %p : !tile.ptr<f32> to f32
    tile.store %p, %z : !tile.ptr<f32>, f32
  }
  func.return
}
// -----
// Registers for one of the loads only.
// RUN: hoist-conditional-loads{registers-per-thread=1}
// CHECK-LABEL: @few
func.func @few(%p: !tile.ptr<f32>, %c: i1, %n: i64, %one: i64) {
  // CHECK: scf.for
  // CHECK-NEXT: %x = tile.load %p mask %c
  // CHECK-NEXT: scf.if
  // CHECK-NEXT: %y = tile.load %p
  %zero = arith.constant 0 : i64
  scf.for %i = %zero to %n step %one : i64 {
    scf.if %c {
      %x = tile.load %p : !tile.ptr<f32> to f32
      %y = tile.load %p : !tile.ptr<f32> to f32
      %z = arith.addf %x, %y : f32
      tile.store %p, %z : !tile.ptr<f32>, f32
    }
  }
  func.return
}
