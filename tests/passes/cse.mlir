// RUN: cse
// Equal operations in one block, commuted operands included.
// CHECK-LABEL: @commuted
func.func @commuted(%p: !tile.ptr<i32>, %x: i32, %y: i32) {
  // CHECK: [[A:%.+]] = arith.addi %x, %y : i32
  // CHECK-NEXT: arith.muli [[A]], [[A]]
  %a = arith.addi %x, %y : i32
  %b = arith.addi %y, %x : i32
  %c = arith.muli %a, %b : i32
  tile.store %p, %c : !tile.ptr<i32>, i32
  func.return
}

// -----
// Subtraction does not commute.
// CHECK-LABEL: @ordered
func.func @ordered(%p: !tile.ptr<i32>, %x: i32, %y: i32) {
  // CHECK-COUNT-2: arith.subi
  %a = arith.subi %x, %y : i32
  %b = arith.subi %y, %x : i32
  %c = arith.muli %a, %b : i32
  tile.store %p, %c : !tile.ptr<i32>, i32
  func.return
}

// -----
// What one branch computes is not known in the other, nor after the branches.
// CHECK-LABEL: @branches
func.func @branches(%p: !tile.ptr<i32>, %x: i32, %c: i1) {
  // CHECK-COUNT-3: arith.addi
  scf.if %c {
    %a = arith.addi %x, %x : i32
    tile.store %p, %a : !tile.ptr<i32>, i32
  } else {
    %a = arith.addi %x, %x : i32
    tile.store %p, %a : !tile.ptr<i32>, i32
  }
  %b = arith.addi %x, %x : i32
  tile.store %p, %b : !tile.ptr<i32>, i32
  func.return
}

// -----
// 0.0 and -0.0 are different constants; loads are never merged.
// CHECK-LABEL: @zeros
func.func @zeros(%p: !tile.ptr<f32>) {
  // CHECK: arith.constant 0.0
  // CHECK: arith.constant -0.0
  // CHECK-COUNT-2: tile.load
  %a = arith.constant 0.0 : f32
  %b = arith.constant -0.0 : f32
  %x = tile.load %p : !tile.ptr<f32> to f32
  tile.store %p, %a : !tile.ptr<f32>, f32
  %y = tile.load %p : !tile.ptr<f32> to f32
  %z = arith.addf %x, %y : f32
  tile.store %p, %z : !tile.ptr<f32>, f32
  tile.store %p, %b : !tile.ptr<f32>, f32
  func.return
}

// -----
// Reductions are equal when their regions are.
// CHECK-LABEL: @reductions
func.func @reductions(%p: !tile.ptr<f32>, %x: tensor<8xf32>) {
  // CHECK-COUNT-2: "tile.reduce"
  // CHECK-NOT: "tile.reduce"
  %a = "tile.reduce"(%x) <{axis = 0 : i64}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tile.yield %w : f32
  }) : (tensor<8xf32>) -> f32
  %b = "tile.reduce"(%x) <{axis = 0 : i64}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.addf %u, %v : f32
    tile.yield %w : f32
  }) : (tensor<8xf32>) -> f32
  %c = "tile.reduce"(%x) <{axis = 0 : i64}> ({
  ^bb0(%u: f32, %v: f32):
    %w = arith.maximumf %u, %v : f32
    tile.yield %w : f32
  }) : (tensor<8xf32>) -> f32
  tile.store %p, %a : !tile.ptr<f32>, f32
  tile.store %p, %b : !tile.ptr<f32>, f32
  tile.store %p, %c : !tile.ptr<f32>, f32
  func.return
}

// -----
// A tile that each iteration computes as it was computed before the loop is not carried, and what is computed of it
// neither.
// CHECK-LABEL: @carried
func.func @carried(%p: !tile.ptr<i32>, %n: i32) {
  // CHECK: [[LANES:%.+]] = tile.arange
  // CHECK: [[NEXT:%.+]] = arith.addi [[LANES]], [[LANES]]
  // CHECK: scf.for {{%.+}} = {{%.+}} to {{%.+}} step {{%.+}} : i32
  // CHECK-NOT: arith.addi
  // CHECK: tile.store {{%.+}}, [[NEXT]]
  // CHECK-NOT: scf.yield
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = tile.arange 0 : i32, 8 : i32 : tensor<8xi32>
  %c = arith.addi %a, %a : tensor<8xi32>
  %q = tile.splat %p : !tile.ptr<i32> to tensor<8x!tile.ptr<i32>>
  %r = scf.for %i = %zero to %n step %one iter_args(%x = %a) -> (tensor<8xi32>) : i32 {
    %y = arith.addi %x, %x : tensor<8xi32>
    tile.store %q, %y : tensor<8x!tile.ptr<i32>>, tensor<8xi32>
    %b = tile.arange 0 : i32, 8 : i32 : tensor<8xi32>
    scf.yield %b : tensor<8xi32>
  }
  func.return
}

// -----
// RUN: cse{loads=true}
// A load is repeated behind a store, behind a loop that stores, and where the author asks for it; not behind another load.
// CHECK-LABEL: @loads
func.func @loads(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %n: i32) -> (f32, f32, f32, f32, f32, f32) {
  // CHECK: [[A:%.+]] = tile.load %p
  // CHECK-NEXT: [[B:%.+]] = tile.load %q
  // CHECK-NEXT: tile.store
  // CHECK-NEXT: [[C:%.+]] = tile.load %p
  // CHECK: scf.for
  // CHECK: [[D:%.+]] = tile.load %p
  // CHECK: [[E:%.+]] = tile.load %p {volatile
  // CHECK: return [[A]], [[A]], [[B]], [[C]], [[D]], [[E]]
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = tile.load %p : !tile.ptr<f32> to f32
  %b = tile.load %q : !tile.ptr<f32> to f32
  %again = tile.load %p : !tile.ptr<f32> to f32
  tile.store %q, %a : !tile.ptr<f32>, f32
  %c = tile.load %p : !tile.ptr<f32> to f32
  scf.for %i = %zero to %n step %one : i32 {
    %o = tile.addptr %q, %i : !tile.ptr<f32>, i32 to !tile.ptr<f32>
    tile.store %o, %a : !tile.ptr<f32>, f32
  }
  %d = tile.load %p : !tile.ptr<f32> to f32
  %e = tile.load %p {volatile = true} : !tile.ptr<f32> to f32
  func.return %a, %again, %b, %c, %d, %e : f32, f32, f32, f32, f32, f32
}

// -----
// A loop without effects changes nothing, and has loads of its own.
// CHECK-LABEL: @loads_around_a_loop
func.func @loads_around_a_loop(%p: !tile.ptr<f32>, %n: i32) -> (f32, f32, f32) {
  // CHECK: [[A:%.+]] = tile.load %p
  // CHECK: scf.for
  // CHECK: [[X:%.+]] = tile.load %p
  // CHECK: arith.addf [[X]], [[X]]
  // CHECK: return [[A]], [[A]]
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %a = tile.load %p : !tile.ptr<f32> to f32
  %r = scf.for %i = %zero to %n step %one iter_args(%s = %a) -> (f32) : i32 {
    %x = tile.load %p : !tile.ptr<f32> to f32
    %y = tile.load %p : !tile.ptr<f32> to f32
    %z = arith.addf %x, %y : f32
    %t = arith.addf %s, %z : f32
    scf.yield %t : f32
  }
  %b = tile.load %p : !tile.ptr<f32> to f32
  func.return %a, %b, %r : f32, f32, f32
}
