// RUN: rematerialize-across-reductions
// Softmax: the row waits in bf16 for both reductions, and the exponentials are computed again behind the second.
// CHECK-LABEL: @softmax
func.func @softmax(%p: !tile.ptr<bf16>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
  // CHECK: [[X:%.+]] = tile.load_view
  // CHECK: tile.reduce
  // CHECK: [[Y:%.+]] = tile.optimization_barrier [[X]] {number = 0 : i32}
  // CHECK: arith.extf [[Y]]
  // CHECK: math.exp
  // CHECK: tile.reduce
  // CHECK: [[Z:%.+]] = tile.optimization_barrier [[X]] {number = 1 : i32}
  // CHECK: arith.extf [[Z]]
  // CHECK: math.exp
  // CHECK: tile.store_view
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<65536xbf16>
  %f = arith.extf %x : tensor<65536xbf16> to tensor<65536xf32>
  %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<65536xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<65536xf32>
  %d = arith.subf %f, %s : tensor<65536xf32>
  %e = math.exp %d : tensor<65536xf32>
  %t = "tile.reduce"(%e) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<65536xf32>) -> f32
  %u = tile.splat %t : f32 to tensor<65536xf32>
  %y = arith.divf %e, %u : tensor<65536xf32>
  %z = arith.truncf %y : tensor<65536xf32> to tensor<65536xbf16>
  tile.store_view %z, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<65536xbf16>, !tile.ptr<bf16>
  func.return
}
// -----
// One warp can hold a row in fp32 and one in bf16, but not their product as well, which is computed again.
// CHECK-LABEL: @few_warps
func.func @few_warps(%p: !tile.ptr<f32>, %q: !tile.ptr<bf16>, %one: i64) attributes {gpu.num_warps = 1 : i32} {
  // CHECK: tile.reduce
  // CHECK: [[P:%.+]] = tile.optimization_barrier {{.*}} tensor<4096xf32>
  // CHECK: [[Q:%.+]] = tile.optimization_barrier {{.*}} tensor<4096xbf16>
  // CHECK: [[F:%.+]] = arith.extf [[Q]]
  // CHECK: arith.mulf [[P]], [[F]]
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<4096xf32>
  %d = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<4096xbf16>
  %f = arith.extf %d : tensor<4096xbf16> to tensor<4096xf32>
  %m = arith.mulf %x, %f : tensor<4096xf32>
  %t = "tile.reduce"(%m) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<4096xf32>) -> f32
  %s = tile.splat %t : f32 to tensor<4096xf32>
  %y = arith.mulf %x, %s : tensor<4096xf32>
  %z = arith.subf %m, %y : tensor<4096xf32>
  tile.store_view %z, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<4096xf32>, !tile.ptr<f32>
  func.return
}
// -----
// A row for which no cluster has registers with two CTAs to an SM: weights are loaded again behind the reduction instead of being held.
// CHECK-LABEL: @reload
func.func @reload(%p: !tile.ptr<bf16>, %w: !tile.ptr<bf16>, %n: i64, %one: i64) attributes {gpu.num_warps = 32 : i32} {
  // CHECK: [[X:%.+]] = tile.load_view %at
  // CHECK: tile.load_view %w
  // CHECK: tile.reduce
  // CHECK: [[Y:%.+]] = tile.optimization_barrier [[X]]
  // CHECK-NOT: tile.optimization_barrier
  // CHECK: [[V:%.+]] = tile.load_view %w
  // CHECK: arith.extf [[Y]]
  // CHECK: arith.extf [[V]]
  // CHECK: tile.store_view
  %id = tile.program_id 0 : i32 : i32
  %wide = arith.extsi %id : i32 to i64
  %offset = arith.muli %wide, %n : i64
  %at = tile.addptr %p, %offset : !tile.ptr<bf16>, i64 to !tile.ptr<bf16>
  %x = tile.load_view %at ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<524288xbf16>
  %v = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<524288xbf16>
  %f = arith.extf %x : tensor<524288xbf16> to tensor<524288xf32>
  %g = arith.extf %v : tensor<524288xbf16> to tensor<524288xf32>
  %h = arith.mulf %f, %g : tensor<524288xf32>
  %m = "tile.reduce"(%h) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<524288xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<524288xf32>
  %y = arith.subf %h, %s : tensor<524288xf32>
  %z = arith.truncf %y : tensor<524288xf32> to tensor<524288xbf16>
  tile.store_view %z, %at ["strided"] strides(%one) {limited = array<i64>} : tensor<524288xbf16>, !tile.ptr<bf16>
  func.return
}
// -----
// In fp32 nothing is narrower than what waits; a sine is not computed twice; a row that one CTA holds waits as it is; weights would
// take the registers.
// CHECK-NOT: tile.optimization_barrier
func.func @wide(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %f = math.absf %x : tensor<65536xf32>
  %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<65536xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<65536xf32>
  %y = arith.subf %f, %s : tensor<65536xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<65536xf32>, !tile.ptr<f32>
  func.return
}
func.func @sine(%p: !tile.ptr<bf16>, %q: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<65536xbf16>
  %g = arith.extf %x : tensor<65536xbf16> to tensor<65536xf32>
  %f = math.sin %g : tensor<65536xf32>
  %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<65536xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<65536xf32>
  %y = arith.subf %f, %s : tensor<65536xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<65536xf32>, !tile.ptr<f32>
  func.return
}
func.func @short(%p: !tile.ptr<bf16>, %q: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 8 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<16384xbf16>
  %f = arith.extf %x : tensor<16384xbf16> to tensor<16384xf32>
  %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<16384xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<16384xf32>
  %y = arith.subf %f, %s : tensor<16384xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<16384xf32>, !tile.ptr<f32>
  func.return
}
func.func @weights(%p: !tile.ptr<bf16>, %w: !tile.ptr<f32>, %n: i64, %q: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 8 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<bf16> to tensor<65536xbf16>
  %f = arith.extf %x : tensor<65536xbf16> to tensor<65536xf32>
  %m = "tile.reduce"(%f) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<65536xf32>) -> f32
  %v = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %s = tile.splat %m : f32 to tensor<65536xf32>
  %d = arith.subf %f, %s : tensor<65536xf32>
  %y = arith.mulf %d, %v : tensor<65536xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<65536xf32>, !tile.ptr<f32>
  func.return
}
