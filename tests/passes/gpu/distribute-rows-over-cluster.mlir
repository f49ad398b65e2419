// RUN: distribute-rows-over-cluster
// A row that a CTA has registers for stays with it.
// CHECK: func.func @short{{.+}}gpu.num_warps = 8 : i32}
func.func @short(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 8 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<16384xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<16384xf32>
  %y = arith.subf %x, %s : tensor<16384xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<16384xf32>, !tile.ptr<f32>
  func.return
}
// -----
// Two CTAs of 16 warps share an SM, those of 32 do not.
// CHECK: func.func @wide{{.+}}gpu.num_warps = 16 : i32, gpu.ctas_per_sm = 2 : i32}
func.func @wide(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 32 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<16384xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<16384xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<16384xf32>
  %y = arith.subf %x, %s : tensor<16384xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<16384xf32>, !tile.ptr<f32>
  func.return
}
// -----
// Two CTAs for twice as much, whoever asked for how many warps.
// CHECK: func.func @long{{.+}}gpu.num_warps = 32 : i32, gpu.num_ctas = 2 : i32, gpu.ctas_per_sm = 2 : i32}
func.func @long(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 1 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32768xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<32768xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<32768xf32>
  %y = arith.subf %x, %s : tensor<32768xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<32768xf32>, !tile.ptr<f32>
  func.return
}
// -----
// What is reduced as it is loaded does not wait for anything, and needs no registers.
// CHECK: func.func @sum{{.+}}gpu.num_warps = 8 : i32}
func.func @sum(%p: !tile.ptr<f32>, %o: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 8 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %y = math.absf %x : tensor<65536xf32>
  %m = "tile.reduce"(%y) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<65536xf32>) -> f32
  tile.store %o, %m : !tile.ptr<f32>, f32
  func.return
}
// -----
// Barriers are the author's, and so is a number of CTAs.
// CHECK: func.func @barrier{{.+}}gpu.num_warps = 8 : i32}
func.func @barrier(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 8 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<65536xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<65536xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<65536xf32>
  %y = arith.subf %x, %s : tensor<65536xf32>
  tile.barrier
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<65536xf32>, !tile.ptr<f32>
  func.return
}
// -----
// CHECK: func.func @given{{.+}}gpu.num_warps = 16 : i32, gpu.num_ctas = 2 : i32}
func.func @given(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 16 : i32, gpu.num_ctas = 2 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<131072xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<131072xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<131072xf32>
  %y = arith.subf %x, %s : tensor<131072xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<131072xf32>, !tile.ptr<f32>
  func.return
}
// -----
// What all programs load is loaded, and converted, where it is used; not past a store that may write it.
// CHECK-LABEL: @weights
// CHECK: gpu.num_ctas = 4 : i32
// CHECK: tile.load_view %p {{.+}} to tensor<8192xf32>
// CHECK: "tile.reduce"
// CHECK: tile.splat
// CHECK-NEXT: arith.subf
// CHECK: tile.load_view {{.+}} to tensor<32768xf16>
// CHECK-NEXT: arith.extf
// CHECK-NEXT: arith.mulf
func.func @weights(%p: !tile.ptr<f32>, %q: !tile.ptr<f16>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
  %id = tile.program_id 0 : i32 : i32
  %at = arith.extsi %id : i32 to i64
  %row = tile.addptr %p, %at : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %w = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f16> to tensor<32768xf16>
  %v = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<8192xf32>
  %u = arith.extf %w : tensor<32768xf16> to tensor<32768xf32>
  %x = tile.load_view %row ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32768xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<32768xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<32768xf32>
  %y = arith.subf %x, %s : tensor<32768xf32>
  %z = arith.mulf %y, %u : tensor<32768xf32>
  tile.store_view %z, %row ["strided"] strides(%one) {limited = array<i64>} : tensor<32768xf32>, !tile.ptr<f32>
  tile.store_view %v, %row ["strided"] strides(%one) {limited = array<i64>} : tensor<8192xf32>, !tile.ptr<f32>
  func.return
}
// -----
// Sums that do not wait for each other are exchanged together; one that does, by itself.
// CHECK-LABEL: @sums
// CHECK: [[S:%.+]], [[T:%.+]] = "tile.reduce"([[X:%.+]], [[Y:%.+]]) <{axis = 0 : i32}> ({
// CHECK-NEXT: ^bb0([[A:%.+]]: f32, [[B:%.+]]: f32, [[C:%.+]]: f32, [[D:%.+]]: f32):
// CHECK-NEXT: [[M:%.+]] = arith.maximumf [[A]], [[C]] : f32
// CHECK-NEXT: [[N:%.+]] = arith.addf [[B]], [[D]] : f32
// CHECK-NEXT: tile.yield [[M]], [[N]] : f32, f32
// CHECK: tile.splat [[S]]
// CHECK: tile.splat [[T]]
// CHECK: "tile.reduce"(%w)
// CHECK-NOT: tile.reduce
func.func @sums(%p: !tile.ptr<f32>, %o: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 4 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32768xf32>
  %y = math.absf %x : tensor<32768xf32>
  %s = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<32768xf32>) -> f32
  %u = tile.splat %s : f32 to tensor<32768xf32>
  %t = "tile.reduce"(%y) <{axis = 0 : i32}> ({
  ^bb1(%a1: f32, %b1: f32):
    %c1 = arith.addf %a1, %b1 : f32
    tile.yield %c1 : f32
  }) : (tensor<32768xf32>) -> f32
  %v = tile.splat %t : f32 to tensor<32768xf32>
  %d = arith.subf %x, %u : tensor<32768xf32>
  %w = arith.mulf %d, %v : tensor<32768xf32>
  %r = "tile.reduce"(%w) <{axis = 0 : i32}> ({
  ^bb2(%a2: f32, %b2: f32):
    %c2 = arith.addf %a2, %b2 : f32
    tile.yield %c2 : f32
  }) : (tensor<32768xf32>) -> f32
  tile.store %o, %r : !tile.ptr<f32>, f32
  func.return
}
// -----
// Two CTAs to an SM hold so much in sixteen, ...
// CHECK: func.func @sixteen{{.+}}gpu.num_ctas = 16 : i32, gpu.ctas_per_sm = 2 : i32}
func.func @sixteen(%p: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 32 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<262144xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<262144xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<262144xf32>
  %y = arith.subf %x, %s : tensor<262144xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<262144xf32>, !tile.ptr<f32>
  func.return
}
// -----
// ... if they need no registers for weights as well.
// CHECK: func.func @eight{{.+}}gpu.num_ctas = 8 : i32, gpu.ctas_per_sm = 1 : i32}
func.func @eight(%p: !tile.ptr<f32>, %w: !tile.ptr<f32>, %one: i64) attributes {gpu.num_warps = 32 : i32} {
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<262144xf32>
  %m = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.maximumf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<262144xf32>) -> f32
  %s = tile.splat %m : f32 to tensor<262144xf32>
  %v = tile.load_view %w ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<262144xf32>
  %d = arith.subf %x, %s : tensor<262144xf32>
  %y = arith.mulf %d, %v : tensor<262144xf32>
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<262144xf32>, !tile.ptr<f32>
  func.return
}
