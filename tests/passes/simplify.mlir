// RUN: simplify
// CHECK-LABEL: @integers
func.func @integers(%p: tensor<8x!tile.ptr<i32>>, %x: tensor<8xi32>) {
  // CHECK-NEXT: tile.store %p, %x
  // CHECK-NEXT: func.return
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zeros = tile.splat %c0 : i32 to tensor<8xi32>
  %ones = tile.splat %c1 : i32 to tensor<8xi32>
  %a = arith.addi %zeros, %x : tensor<8xi32>
  %b = arith.muli %a, %ones : tensor<8xi32>
  %c = arith.muli %b, %zeros : tensor<8xi32>
  %d = arith.ori %b, %c : tensor<8xi32>
  %e = arith.remsi %d, %ones : tensor<8xi32>
  %f = arith.subi %d, %e : tensor<8xi32>
  %g = arith.andi %f, %f : tensor<8xi32>
  tile.store %p, %g : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
  func.return
}

// -----
// x + 0.0 is not x when x is -0.0; x - 0.0, x * 1.0 and x / 1.0 are.
// CHECK-LABEL: @floats
func.func @floats(%p: !tile.ptr<f32>, %x: f32) {
  // CHECK: [[S:%.+]] = arith.addf %x, {{%.+}} : f32
  // CHECK-NEXT: tile.store %p, [[S]]
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %a = arith.addf %x, %zero : f32
  %b = arith.subf %a, %zero : f32
  %c = arith.mulf %one, %b : f32
  %d = arith.divf %c, %one : f32
  tile.store %p, %d : !tile.ptr<f32>, f32
  func.return
}

// -----
// -(-0.0) is 0.0, as in the interpreter.
// CHECK-LABEL: @negated_zero
func.func @negated_zero(%p: !tile.ptr<f32>) {
  // CHECK-NEXT: [[Z:%.+]] = arith.constant 0.0
  // CHECK-NEXT: tile.store %p, [[Z]]
  %zero = arith.constant -0.0 : f32
  %a = arith.negf %zero : f32
  tile.store %p, %a : !tile.ptr<f32>, f32
  func.return
}

// -----
// CHECK-LABEL: @conversions
func.func @conversions(%p: !tile.ptr<i32>, %q: !tile.ptr<f16>, %x: i32, %h: f16, %c: i1) {
  // CHECK-NEXT: tile.store %p, %x
  // CHECK-NEXT: tile.store %q, %h
  // CHECK-NEXT: scf.if %c
  %a = arith.extsi %x : i32 to i64
  %b = arith.trunci %a : i64 to i32
  tile.store %p, %b : !tile.ptr<i32>, i32
  %f = arith.extf %h : f16 to f32
  %g = arith.extf %f : f32 to f64
  %i = arith.truncf %g : f64 to f16
  tile.store %q, %i : !tile.ptr<f16>, f16
  %w = arith.extui %c : i1 to i32
  %z = arith.constant 0 : i32
  %d = tile.cmpi "ne", %w, %z : i32, i32 to i1
  scf.if %d {
    tile.store %p, %x : !tile.ptr<i32>, i32
  }
  func.return
}

// -----
// Arithmetic on equal lanes is scalar arithmetic; shapes of splats are free.
// CHECK-LABEL: @lanes
func.func @lanes(%p: tensor<4x8x!tile.ptr<f32>>, %x: f32, %y: f32) {
  // CHECK-NEXT: [[S:%.+]] = arith.addf %x, %y : f32
  // CHECK-NEXT: [[T:%.+]] = tile.splat [[S]] : f32 to tensor<4x8xf32>
  // CHECK-NEXT: tile.store %p, [[T]]
  %a = tile.splat %x : f32 to tensor<8xf32>
  %b = tile.splat %y : f32 to tensor<8xf32>
  %c = arith.addf %a, %b : tensor<8xf32>
  %d = tile.expand_dims %c, 0 : i32 : tensor<8xf32> to tensor<1x8xf32>
  %e = tile.broadcast %d : tensor<1x8xf32> to tensor<4x8xf32>
  tile.store %p, %e : tensor<4x8x!tile.ptr<f32>>, tensor<4x8xf32>
  func.return
}

// -----
// CHECK-LABEL: @branches
func.func @branches(%p: !tile.ptr<i32>, %x: i32, %c: i1) {
  // CHECK-NEXT: arith.constant
  // CHECK-NEXT: [[R:%.+]] = scf.if %c -> (i32)
  // CHECK: tile.store %p, %x
  // CHECK: tile.store %p, [[R]]
  %true = arith.constant true
  %one = arith.constant 1 : i32
  %a = scf.if %true -> (i32) {
    scf.yield %x : i32
  } else {
    scf.yield %one : i32
  }
  %r:3 = scf.if %c -> (i32, i32, i32) {
    scf.yield %a, %x, %one : i32, i32, i32
  } else {
    scf.yield %x, %one, %one : i32, i32, i32
  }
  tile.store %p, %r#0 : !tile.ptr<i32>, i32
  tile.store %p, %r#1 : !tile.ptr<i32>, i32
  func.return
}

// -----
// Loops of no and of one iteration; the second store is that of iteration 5.
// CHECK-LABEL: @loops
func.func @loops(%p: !tile.ptr<i32>, %x: i32) {
  // CHECK-NEXT: [[I:%.+]] = arith.constant 5 : i32
  // CHECK-NEXT: tile.store %p, [[I]]
  // CHECK-NEXT: tile.store %p, %x
  // CHECK-NEXT: func.return
  %lb = arith.constant 5 : i32
  %ub = arith.constant 6 : i32
  %step = arith.constant 4 : i32
  %r = scf.for %i = %ub to %lb step %step iter_args(%a = %x) -> (i32) : i32 {
    %b = arith.addi %a, %i : i32
    scf.yield %b : i32
  }
  scf.for %i = %lb to %ub step %step : i32 {
    tile.store %p, %i : !tile.ptr<i32>, i32
  }
  tile.store %p, %r : !tile.ptr<i32>, i32
  func.return
}

// -----
// Unused loads go, volatile ones and loops with effects stay.
// CHECK-LABEL: @dead
func.func @dead(%p: !tile.ptr<i32>, %n: i32) {
  // CHECK-NEXT: tile.load %p {volatile = true}
  // CHECK-NEXT: func.return
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = tile.load %p : !tile.ptr<i32> to i32
  %b = tile.load %p {volatile = true} : !tile.ptr<i32> to i32
  scf.for %i = %zero to %n step %one : i32 {
    %c = tile.load %p : !tile.ptr<i32> to i32
  }
  func.return
}

// -----
// CHECK-LABEL: @reciprocal_shapes
func.func @reciprocal_shapes(%p: tensor<4x8x!tile.ptr<f32>>, %x: tensor<4x8xf32>, %y: tensor<32xf32>) {
  // CHECK-NEXT: tile.store %p, %x
  // CHECK-NEXT: [[R:%.+]] = tile.reshape %y : tensor<32xf32> to tensor<4x8xf32>
  // CHECK-NEXT: tile.store %p, [[R]]
  %t = tile.trans %x, [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  %u = tile.trans %t, [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  tile.store %p, %u : tensor<4x8x!tile.ptr<f32>>, tensor<4x8xf32>
  %v = tile.reshape %y : tensor<32xf32> to tensor<2x16xf32>
  %w = tile.reshape %v : tensor<2x16xf32> to tensor<4x8xf32>
  tile.store %p, %w : tensor<4x8x!tile.ptr<f32>>, tensor<4x8xf32>
  func.return
}

// -----
// Constants: wrapping, signed and unsigned, shifts; division by zero stays for run time.
// CHECK-LABEL: @constants
func.func @constants(%p: !tile.ptr<i32>, %q: !tile.ptr<f32>) {
  // CHECK-NEXT: [[ZERO:%.+]] = arith.constant 0 : i32
  // CHECK-NEXT: [[SEVEN:%.+]] = arith.constant -7 : i32
  // CHECK-NEXT: [[A:%.+]] = arith.constant -3 : i32
  // CHECK-NEXT: [[B:%.+]] = arith.constant 2147483644 : i32
  // CHECK-NEXT: [[C:%.+]] = arith.constant -1 : i32
  // CHECK-NEXT: [[D:%.+]] = arith.constant 1 : i32
  // CHECK-NEXT: [[E:%.+]] = arith.divsi [[SEVEN]], [[ZERO]] : i32
  // CHECK: arith.constant 0xff800000 : f32
  %zero = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %m7 = arith.constant -7 : i32
  %a = arith.divsi %m7, %two : i32
  %b = arith.divui %m7, %two : i32
  %c = arith.remsi %m7, %two : i32
  %l = tile.cmpi "ugt", %m7, %two : i32, i32 to i1
  %d = arith.extui %l : i1 to i32
  %e = arith.divsi %m7, %zero : i32
  tile.store %p, %a : !tile.ptr<i32>, i32
  tile.store %p, %b : !tile.ptr<i32>, i32
  tile.store %p, %c : !tile.ptr<i32>, i32
  tile.store %p, %d : !tile.ptr<i32>, i32
  tile.store %p, %e : !tile.ptr<i32>, i32
  %f0 = arith.constant 0.0 : f32
  %inf = arith.constant 0x7F800000 : f32
  %f = arith.subf %f0, %inf : f32
  tile.store %q, %f : !tile.ptr<f32>, f32
  func.return
}

// -----
// Offsets of programs are at least 0: the first branch is always taken.
// CHECK-LABEL: @offsets_are_not_negative
func.func @offsets_are_not_negative(%p: !tile.ptr<i32>, %n: i32) {
  // CHECK-NOT: scf.if
  // CHECK: tile.store
  // CHECK: scf.if
  // CHECK: tile.store
  %zero = arith.constant 0 : i32
  %id = tile.program_id 0 : i32 : i32
  %wide = arith.extsi %id : i32 to i64
  %blocks = arith.constant 32 : i64
  %start = arith.muli %wide, %blocks : i64
  %none = arith.constant 0 : i64
  %inside = tile.cmpi "sge", %start, %none : i64, i64 to i1
  scf.if %inside {
    tile.store %p, %n : !tile.ptr<i32>, i32
  }
  %unknown = tile.cmpi "sge", %n, %zero : i32, i32 to i1
  scf.if %unknown {
    tile.store %p, %zero : !tile.ptr<i32>, i32
  }
  func.return
}

// -----
// One address in all lanes is loaded once, so that what it indexes has a scalar offset.
// CHECK-LABEL: @loads_of_one_address
func.func @loads_of_one_address(%p: !tile.ptr<i64>, %q: !tile.ptr<f32>, %n: i32) {
  // CHECK-NOT: tile.arange
  // CHECK: [[C:%.+]] = tile.cmpi "slt"
  // CHECK: [[I:%.+]] = tile.load {{%.+}} mask [[C]] : i1 : !tile.ptr<i64> to i64
  // CHECK: [[X:%.+]] = tile.load {{%.+}} : !tile.ptr<f32> to f32
  // CHECK: tile.splat [[X]] : f32 to tensor<1x1xf32>
  // CHECK: tile.load {{.+}} {volatile = true}
  %id = tile.program_id 0 : i32 : i32
  %lane = tile.arange 0 : i32, 1 : i32 : tensor<1xi32>
  %ids = tile.splat %id : i32 to tensor<1xi32>
  %offs = arith.addi %ids, %lane : tensor<1xi32>
  %ns = tile.splat %n : i32 to tensor<1xi32>
  %m = tile.cmpi "slt", %offs, %ns : tensor<1xi32>, tensor<1xi32> to tensor<1xi1>
  %ps = tile.splat %p : !tile.ptr<i64> to tensor<1x!tile.ptr<i64>>
  %a = tile.addptr %ps, %offs : tensor<1x!tile.ptr<i64>>, tensor<1xi32> to tensor<1x!tile.ptr<i64>>
  %i = tile.load %a mask %m : tensor<1xi1> : tensor<1x!tile.ptr<i64>> to tensor<1xi64>
  %wide = tile.expand_dims %i, 1 : i32 : tensor<1xi64> to tensor<1x1xi64>
  %qs = tile.splat %q : !tile.ptr<f32> to tensor<1x1x!tile.ptr<f32>>
  %b = tile.addptr %qs, %wide : tensor<1x1x!tile.ptr<f32>>, tensor<1x1xi64> to tensor<1x1x!tile.ptr<f32>>
  %x = tile.load %b : tensor<1x1x!tile.ptr<f32>> to tensor<1x1xf32>
  %y = tile.load %b {volatile = true} : tensor<1x1x!tile.ptr<f32>> to tensor<1x1xf32>
  %z = arith.addf %x, %y : tensor<1x1xf32>
  tile.store %b, %z : tensor<1x1x!tile.ptr<f32>>, tensor<1x1xf32>
  func.return
}

// -----
// Ranges decide a comparison of all lanes, and of no lane; not of some.
// CHECK-LABEL: @comparisons_of_ranges
func.func @comparisons_of_ranges(%p: !tile.ptr<i1>) {
  // CHECK: [[T:%.+]] = arith.constant true
  // CHECK-NEXT: [[TS:%.+]] = tile.splat [[T]]
  // CHECK-NEXT: [[F:%.+]] = arith.constant false
  // CHECK-NEXT: [[FS:%.+]] = tile.splat [[F]]
  // CHECK-NEXT: [[S:%.+]] = tile.cmpi "slt"
  // CHECK: tile.store {{%.+}}, [[TS]]
  // CHECK: tile.store {{%.+}}, [[FS]]
  // CHECK: tile.store {{%.+}}, [[S]]
  %c64 = arith.constant 64 : i32
  %c63 = arith.constant 63 : i32
  %lanes = tile.arange 0 : i32, 64 : i32 : tensor<64xi32>
  %all = tile.splat %c64 : i32 to tensor<64xi32>
  %most = tile.splat %c63 : i32 to tensor<64xi32>
  %a = tile.cmpi "slt", %lanes, %all : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %b = tile.cmpi "sge", %lanes, %all : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %c = tile.cmpi "slt", %lanes, %most : tensor<64xi32>, tensor<64xi32> to tensor<64xi1>
  %ps = tile.splat %p : !tile.ptr<i1> to tensor<64x!tile.ptr<i1>>
  %q = tile.addptr %ps, %lanes : tensor<64x!tile.ptr<i1>>, tensor<64xi32> to tensor<64x!tile.ptr<i1>>
  tile.store %q, %a : tensor<64x!tile.ptr<i1>>, tensor<64xi1>
  tile.store %q, %b : tensor<64x!tile.ptr<i1>>, tensor<64xi1>
  tile.store %q, %c : tensor<64x!tile.ptr<i1>>, tensor<64xi1>
  func.return
}

// -----
// Every program promises that n is a multiple of 8; that m is one, only some do.
// CHECK-LABEL: @multiples
// CHECK-SAME: %n: i32 {tile.divisibility = 8 : i32}, %m: i32 {tile.divisibility = 2 : i32}
func.func @multiples(%p: !tile.ptr<i32>, %n: i32 {tile.divisibility = 4 : i32}, %m: i32 {tile.divisibility = 2 : i32}, %c: i1) {
  // CHECK-NEXT: [[Q:%.+]] = tile.addptr %p, %n
  // CHECK-NEXT: tile.store [[Q]], %n
  %k = tile.hint %n, "multiple_of", [8] : i32 to i32
  %q = tile.addptr %p, %k : !tile.ptr<i32>, i32 to !tile.ptr<i32>
  tile.store %q, %k : !tile.ptr<i32>, i32
  scf.if %c {
    // CHECK: [[K:%.+]] = tile.hint %m
    %l = tile.hint %m, "multiple_of", [8] : i32 to i32
    tile.store %p, %l : !tile.ptr<i32>, i32
  }
  func.return
}
// -----
// The difference from the maximum with minus infinity is that from itself; that of minus infinity is not.
// RUN: simplify
// CHECK-LABEL: @largest
// CHECK: [[M:%.+]] = arith.maxnumf
// CHECK: [[Z:%.+]] = arith.subf %x, %x
// CHECK: [[ONE:%.+]] = arith.addf [[Z]]
// CHECK: [[D:%.+]] = arith.subf %low, [[M]]
// CHECK: math.exp [[D]]
func.func @largest(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %lowest = arith.constant 0xff800000 : f32
  %low = tile.splat %lowest : f32 to tensor<64xf32>
  %m = arith.maxnumf %low, %x : tensor<64xf32>
  %d = arith.subf %x, %m : tensor<64xf32>
  %p = math.exp %d : tensor<64xf32>
  %e = arith.subf %low, %m : tensor<64xf32>
  %q = math.exp %e : tensor<64xf32>
  func.return %p, %q : tensor<64xf32>, tensor<64xf32>
}
// -----
// A reduction over an axis of extent 1 has nothing to combine; one to a scalar stays.
// RUN: simplify
// CHECK-LABEL: @reduced_once
// CHECK-NEXT: [[Y:%.+]] = tile.reshape %x : tensor<64x1xf32> to tensor<64xf32>
// CHECK-NEXT: [[Z:%.+]] = "tile.reduce"(%one)
// CHECK: return [[Y]], [[Z]]
func.func @reduced_once(%x: tensor<64x1xf32>, %one: tensor<1xf32>) -> (tensor<64xf32>, f32) {
  %y = "tile.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<64x1xf32>) -> tensor<64xf32>
  %z = "tile.reduce"(%one) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<1xf32>) -> f32
  func.return %y, %z : tensor<64xf32>, f32
}
