// RUN: reduce-num-warps
// 64 elements are for one warp, not for eight.
// CHECK: func.func @small{{.+}}gpu.num_warps = 1 : i32
func.func @small(%p: !tile.ptr<f32> {tile.divisibility = 16 : i32}) attributes {gpu.num_warps = 8 : i32} {
  %one = arith.constant 1 : i64
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  func.return
}
// -----
// Strided elements are loaded one by one: one for each thread.
// CHECK: func.func @strided{{.+}}gpu.num_warps = 2 : i32
func.func @strided(%p: !tile.ptr<f32>, %stride: i64) attributes {gpu.num_warps = 4 : i32} {
  %x = tile.load_view %p ["strided"] strides(%stride) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  func.return
}
// -----
// The largest tile counts: four elements for each thread of four warps.
// CHECK: func.func @two{{.+}}gpu.num_warps = 4 : i32
func.func @two(%a: f32, %b: f32) attributes {gpu.num_warps = 16 : i32} {
  %x = tile.splat %a : f32 to tensor<8x64xf32>
  %y = tile.splat %b : f32 to tensor<16xf32>
  func.return
}
// -----
// More than four warps need eight elements a thread.
// CHECK: func.func @wide{{.+}}gpu.num_warps = 16 : i32
func.func @wide(%a: f32) attributes {gpu.num_warps = 32 : i32} {
  %x = tile.splat %a : f32 to tensor<4096xf32>
  func.return
}
// -----
// CHECK: func.func @enough{{.+}}gpu.num_warps = 4 : i32
func.func @enough(%a: f32) attributes {gpu.num_warps = 4 : i32} {
  %x = tile.splat %a : f32 to tensor<4096xf32>
  func.return
}
// -----
// A search: where an iteration loads depends on what the one before has loaded, and so a thread has one element or two.
// CHECK: func.func @search{{.+}}gpu.num_warps = 16 : i32
func.func @search(%p: !tile.ptr<i32>, %first: tensor<1024xi32>, %zero: i32, %n: i32, %one: i32) attributes {gpu.num_warps = 16 : i32} {
  %base = tile.splat %p : !tile.ptr<i32> to tensor<1024x!tile.ptr<i32>>
  %last = scf.for %i = %zero to %n step %one iter_args(%at = %first) -> (tensor<1024xi32>) : i32 {
    %q = tile.addptr %base, %at : tensor<1024x!tile.ptr<i32>>, tensor<1024xi32> to tensor<1024x!tile.ptr<i32>>
    %next = tile.load %q : tensor<1024x!tile.ptr<i32>> to tensor<1024xi32>
    scf.yield %next : tensor<1024xi32>
  }
  func.return
}
// -----
// A program of several blocks keeps a warp in each.
// CHECK: func.func @blocks{{.+}}gpu.num_warps = 4 : i32
func.func @blocks(%a: f32) attributes {gpu.num_warps = 16 : i32, gpu.num_ctas = 4 : i32} {
  %x = tile.splat %a : f32 to tensor<64xf32>
  func.return
}
// -----
// All threads compute the same scalars, and one of them stores.
// CHECK: func.func @scalars{{.+}}gpu.num_warps = 1 : i32
func.func @scalars(%a: f32) attributes {gpu.num_warps = 4 : i32} {
  func.return
}
// -----
// CHECK: func.func @product{{.+}}gpu.num_warps = 16 : i32
func.func @product(%a: tensor<16x16xf16>, %b: tensor<16x16xf16>, %c: tensor<16x16xf32>) attributes {gpu.num_warps = 16 : i32} {
  %d = tile.dot %a, %b, %c, "tf32" : tensor<16x16xf16>, tensor<16x16xf16>, tensor<16x16xf32> to tensor<16x16xf32>
  func.return
}
// -----
// Impure PTX may count threads: it names a barrier, say.
// CHECK: func.func @ptx{{.+}}gpu.num_warps = 8 : i32
func.func @ptx(%a: f32) attributes {gpu.num_warps = 8 : i32} {
  %x = tile.splat %a : f32 to tensor<128xf32>
  %t = tile.inline_asm "mov.u64 $0, %globaltimer;", "=l", 1 : i32, false to i64
  func.return
}
// -----
// RUN: reduce-num-warps{elements-per-thread=1}
// CHECK: func.func @share{{.+}}gpu.num_warps = 4 : i32
func.func @share(%a: f32) attributes {gpu.num_warps = 8 : i32} {
  %x = tile.splat %a : f32 to tensor<128xf32>
  func.return
}
