// RUN: strip-mine-tiles{elements-per-thread=4 strip-elements-per-thread=1 skip-if-fits=false},assign-layouts,cse,cache-in-shared
// Chunks for 16 warps of 32 threads, gone through twice: the second time they are in shared memory.
// CHECK-LABEL: @centred
func.func @centred(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}, %q: !tile.ptr<f32> {tile.divisibility = 16 : i32}) attributes {gpu.num_warps = 16 : i32} {
  // CHECK: [[KEPT:%.+]] = gpu.local_alloc : !gpu.shared<tensor<1x512xf32>
  // CHECK: tile.load_view
  // CHECK: gpu.local_store {{.+}}, [[KEPT]]
  // CHECK: scf.for
  // CHECK: tile.load_view
  // CHECK: gpu.local_store {{.+}}, [[KEPT]]
  // CHECK: tile.reduce
  // CHECK: gpu.barrier
  // CHECK-NOT: tile.load_view
  // CHECK: gpu.local_load [[KEPT]]
  // CHECK: tile.store_view
  // CHECK-NOT: gpu.cache_in_shared
  %one = arith.constant 1 : i64
  %id = tile.program_id 0 : i32 : i32
  %row = tile.addptr %p, %id : !tile.ptr<f32>, i32 to !tile.ptr<f32>
  %x = tile.load_view %row ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<32768xf32>
  %s = "tile.reduce"(%x) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tile.yield %c : f32
  }) : (tensor<32768xf32>) -> f32
  %t = tile.splat %s : f32 to tensor<32768xf32>
  %y = arith.subf %x, %t : tensor<32768xf32>
  tile.store_view %y, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<32768xf32>, !tile.ptr<f32>
  func.return
}
