// RUN: widen-dots{widest=32}
// Two blocks of 32 columns are loaded and multiplied at once; what is the same for all columns is broadcast to 64. The
// last of an odd number of iterations is left as it was.
// CHECK-LABEL: @scores
func.func @scores(%q: tensor<64x16xf16>, %k: !tile.ptr<f16>, %m: tensor<64x1xf32>, %sums: tensor<64x16xf32>, %p: tensor<64x16x!tile.ptr<f32>>, %n: i64, %s: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: [[ROWS:%.+]] = tile.broadcast %m : tensor<64x1xf32> to tensor<64x32xf32>
  // CHECK: [[HALF:%.+]] = arith.divsi %n, {{.*}}
  // CHECK: scf.for {{.*}} to [[HALF]] step
  // CHECK: tile.load_view {{.*}} to tensor<16x64xf16>
  // CHECK: tile.dot %q, {{.*}} to tensor<64x64xf32>
  // CHECK: tile.broadcast %m : tensor<64x1xf32> to tensor<64x64xf32>
  // CHECK: tile.dot {{.*}} : tensor<64x64xf16>, tensor<64x16xf16>, tensor<64x16xf32>
  // CHECK: [[ODD:%.+]] = arith.andi %n, {{.*}}
  // CHECK: [[IS:%.+]] = tile.cmpi "eq", [[ODD]], {{.*}}
  // CHECK: scf.if [[IS]]
  // CHECK: tile.dot %q, {{.*}} to tensor<64x32xf32>
  // CHECK: arith.subf {{.*}}, [[ROWS]]
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %columns = arith.constant 32 : i64
  %f = arith.constant 0.0 : f32
  %none = tile.splat %f : f32 to tensor<64x32xf32>
  %rows = tile.broadcast %m : tensor<64x1xf32> to tensor<64x32xf32>
  %r = scf.for %i = %zero to %n step %one iter_args(%x = %sums) -> (tensor<64x16xf32>) : i64 {
    %first = arith.muli %i, %columns : i64
    %o = arith.muli %first, %s : i64
    %at = tile.addptr %k, %o : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %key = tile.load_view %at ["strided", "strided"] strides(%one, %s) {limited = array<i64>} : !tile.ptr<f16> to tensor<16x32xf16>
    %score = tile.dot %q, %key, %none, "ieee" {gpu.mma = "wgmma.k16.f16"} : tensor<64x16xf16>, tensor<16x32xf16>, tensor<64x32xf32> to tensor<64x32xf32>
    %less = arith.subf %score, %rows : tensor<64x32xf32>
    %e = math.exp2 %less : tensor<64x32xf32>
    %h = arith.truncf %e : tensor<64x32xf32> to tensor<64x32xf16>
    %turned = tile.trans %key, [1, 0] : tensor<16x32xf16> to tensor<32x16xf16>
    %y = tile.dot %h, %turned, %x, "ieee" {gpu.mma = "wgmma.k16.f16"} : tensor<64x32xf16>, tensor<32x16xf16>, tensor<64x16xf32> to tensor<64x16xf32>
    scf.yield %y : tensor<64x16xf32>
  }
  tile.store %p, %r : tensor<64x16x!tile.ptr<f32>>, tensor<64x16xf32>
  func.return
}
