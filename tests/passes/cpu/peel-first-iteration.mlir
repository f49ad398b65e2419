// RUN: peel-first-iteration
// An online softmax: the first iteration starts from minus infinity and has no sum to rescale.
// CHECK-LABEL: @online
// CHECK: tile.cmpi "slt"
// CHECK: scf.if
// CHECK-NOT: math.exp
// CHECK: arith.maxnumf
// CHECK: [[ZERO:%.+]] = arith.subf %x, %x
// CHECK: arith.addf [[ZERO]]
// CHECK: } else {
// CHECK: scf.for
// CHECK-NOT: scf.if
// CHECK-COUNT-2: math.exp
func.func @online(%p: !tile.ptr<f32>, %n: i64) -> vector<8xf32> {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %lowest = arith.constant 0xff800000 : f32
  %none = arith.constant 0.0 : f32
  %m0 = cpu.splat %lowest : f32 to vector<8xf32>
  %s0 = cpu.splat %none : f32 to vector<8xf32>
  %sum, %most = scf.for %i = %zero to %n step %one iter_args(%s = %s0, %m = %m0) -> (vector<8xf32>, vector<8xf32>) : i64 {
    %x = cpu.vector_load %p[%i] {alignment = 4 : i64} : !tile.ptr<f32> to vector<8xf32>
    %larger = arith.maxnumf %m, %x : vector<8xf32>
    %later = tile.cmpi "ne", %i, %zero : i64, i64 to i1
    %scaled = scf.if %later -> (vector<8xf32>) {
      %d = arith.subf %m, %larger : vector<8xf32>
      %f = math.exp %d : vector<8xf32>
      %t = arith.mulf %s, %f : vector<8xf32>
      scf.yield %t : vector<8xf32>
    } else {
      scf.yield %s : vector<8xf32>
    }
    %e = arith.subf %x, %larger : vector<8xf32>
    %y = math.exp %e : vector<8xf32>
    %more = arith.addf %scaled, %y : vector<8xf32>
    scf.yield %more, %larger : vector<8xf32>, vector<8xf32>
  }
  func.return %sum : vector<8xf32>
}
// -----
// Another iteration than the first, a start that is known at run time only, or one behind which counters wrap: as it is.
// RUN: peel-first-iteration
// CHECK-LABEL: @others
// CHECK-NOT: tile.cmpi "slt"
func.func @others(%p: !tile.ptr<f32>, %n: i64, %from: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %v = arith.constant 1.0 : f32
  scf.for %i = %zero to %n step %one : i64 {
    %second = tile.cmpi "eq", %i, %one : i64, i64 to i1
    scf.if %second {
      tile.store %p, %v : !tile.ptr<f32>, f32
    }
  }
  scf.for %i = %from to %n step %one : i64 {
    %first = tile.cmpi "eq", %i, %from : i64, i64 to i1
    scf.if %first {
      tile.store %p, %v : !tile.ptr<f32>, f32
    }
  }
  %last = arith.constant 9223372036854775807 : i64
  scf.for %i = %last to %n step %one : i64 {
    %first = tile.cmpi "eq", %i, %last : i64, i64 to i1
    scf.if %first {
      tile.store %p, %v : !tile.ptr<f32>, f32
    }
  }
  func.return
}
