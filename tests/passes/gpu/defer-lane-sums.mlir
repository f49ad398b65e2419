// RUN: select-mma,assign-layouts,defer-lane-sums
// The four lanes of a row each carry the sum of their columns, times the factor; the other sum has a factor that may be
// infinite, and stays.
// CHECK-LABEL: @rows
func.func @rows(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32}, %o: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %n: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: [[L:%.+]] = gpu.split_over_lanes {{.+}}, 3 : i32
  // CHECK-NOT: split_over_lanes
  // CHECK: scf.for {{.+}}[[L]]
  // CHECK: "tile.reduce"
  // CHECK: {gpu.in_parts}
  // CHECK: "tile.reduce"
  // CHECK-NOT: in_parts
  // CHECK: scf.yield
  // CHECK: gpu.sum_over_lanes {{.+}}, 3 : i32
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %w = arith.constant 64 : i64
  %f = arith.constant 0.0 : f32
  %none = tile.splat %f : f32 to tensor<64x64xf32>
  %start = tile.splat %f : f32 to tensor<64xf32>
  %x = tile.load_view %a ["strided", "strided"] strides(%w, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x64xf16>
  %l, %s, %m = scf.for %i = %zero to %n step %one iter_args(%l0 = %start, %s0 = %start, %m0 = %start) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) : i64 {
    %first = arith.muli %i, %w : i64
    %at = arith.muli %first, %w : i64
    %p = tile.addptr %b, %at : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %y = tile.load_view %p ["strided", "strided"] strides(%w, %one) {limited = array<i64>} : !tile.ptr<f16> to tensor<64x64xf16>
    %q = tile.dot %x, %y, %none, "tf32" : tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf32> to tensor<64x64xf32>
    %top = "tile.reduce"(%q) <{axis = 1 : i32}> ({
    ^bb0(%c: f32, %d: f32):
      %e = arith.maxnumf %c, %d : f32
      tile.yield %e : f32
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %m1 = arith.maxnumf %m0, %top : tensor<64xf32>
    %less = arith.subf %m0, %m1 : tensor<64xf32>
    %factor = math.exp2 %less : tensor<64xf32>
    %sum = "tile.reduce"(%q) <{axis = 1 : i32}> ({
    ^bb0(%c: f32, %d: f32):
      %e = arith.addf %c, %d : f32
      tile.yield %e : f32
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %l1 = arith.mulf %l0, %factor : tensor<64xf32>
    %l2 = arith.addf %l1, %sum : tensor<64xf32>
    %again = "tile.reduce"(%q) <{axis = 1 : i32}> ({
    ^bb0(%c: f32, %d: f32):
      %e = arith.addf %c, %d : f32
      tile.yield %e : f32
    }) : (tensor<64x64xf32>) -> tensor<64xf32>
    %s1 = arith.mulf %s0, %top : tensor<64xf32>
    %s2 = arith.addf %s1, %again : tensor<64xf32>
    scf.yield %l2, %s2, %m1 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
  }
  %both = arith.addf %l, %s : tensor<64xf32>
  %all = arith.addf %both, %m : tensor<64xf32>
  tile.store_view %all, %o ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
