// RUN: share-exponentials
// CHECK-LABEL: @pair
// CHECK: [[D:%.+]] = arith.subf %a, %b
// CHECK: math.absf [[D]]
// CHECK: arith.negf
// CHECK: math.exp2
// CHECK-NOT: math.exp2
// CHECK-COUNT-2: tile.select
func.func @pair(%a: vector<8xf64>, %b: vector<8xf64>) -> vector<8xf64> {
  %m = arith.maxnumf %a, %b : vector<8xf64>
  %x = arith.subf %a, %m : vector<8xf64>
  %p = math.exp2 %x : vector<8xf64>
  %y = arith.subf %b, %m : vector<8xf64>
  %q = math.exp2 %y : vector<8xf64>
  %s = arith.addf %p, %q : vector<8xf64>
  func.return %s : vector<8xf64>
}
// -----
// One exponential only, and two of different kinds: as they are.
// RUN: share-exponentials
// CHECK-LABEL: @single
// CHECK-NOT: tile.select
func.func @single(%a: vector<8xf32>, %b: vector<8xf32>) -> vector<8xf32> {
  %m = arith.maxnumf %a, %b : vector<8xf32>
  %x = arith.subf %a, %m : vector<8xf32>
  %p = math.exp %x : vector<8xf32>
  %k = arith.maxnumf %p, %b : vector<8xf32>
  %y = arith.subf %p, %k : vector<8xf32>
  %q = math.exp %y : vector<8xf32>
  %z = arith.subf %b, %k : vector<8xf32>
  %r = math.exp2 %z : vector<8xf32>
  %s = arith.addf %q, %r : vector<8xf32>
  func.return %s : vector<8xf32>
}
