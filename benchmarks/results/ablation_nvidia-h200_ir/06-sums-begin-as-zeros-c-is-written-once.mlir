// + sums begin as zeros, C is written once
// Build(blocks=(128, 128, 32), warps=8, stages=1, group=1, form='tiled', off=('pipeline-loads', 'insert-barriers', 'vectorize-copies', 'swizzle-shared{mode="pad"}', 'select-mma{wgmma=false}', 'specialize-warps', 'store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x128x32_g1_w8_s1(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 1 : i32, gpu.unroll} {
    %0 = gpu.alloc : !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<1>>
    %1 = gpu.alloc : !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<1>>
    %2 = tile.program_id 0 : i32 : i32
    %3 = arith.constant 127 : i32
    %4 = arith.addi %N, %3 : i32
    %5 = arith.constant 128 : i32
    %6 = arith.divsi %4, %5 : i32
    %7 = arith.divsi %2, %6 : i32
    %8 = arith.remsi %2, %6 : i32
    %9 = arith.muli %7, %5 : i32
    %10 = arith.muli %8, %5 : i32
    %11 = arith.constant 31 : i32
    %12 = arith.addi %K, %11 : i32
    %13 = arith.constant 32 : i32
    %14 = arith.divsi %12, %13 : i32
    %15 = arith.constant 0.000000e+00 : f32
    %16 = arith.constant 0 : i32
    %17 = arith.constant 1 : i32
    %18 = arith.extsi %a_m : i32 to i64
    %19 = arith.extsi %9 : i32 to i64
    %20 = arith.muli %18, %19 : i64
    %21 = arith.constant 1 : i64
    %22 = arith.extsi %M : i32 to i64
    %23 = arith.subi %22, %19 : i64
    %24 = arith.extsi %K : i32 to i64
    %25 = arith.extsi %10 : i32 to i64
    %26 = arith.extsi %b_k : i32 to i64
    %27 = arith.extsi %N : i32 to i64
    %28 = arith.subi %27, %25 : i64
    %29 = tile.splat %15 : f32 to tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
    %30 = arith.constant true
    %31 = scf.for %k = %16 to %14 step %17 iter_args(%32 = %29) -> (tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">) : i32 {
      %33 = arith.muli %k, %13 : i32
      %34 = arith.extsi %33 : i32 to i64
      %35 = arith.addi %20, %34 : i64
      %36 = tile.addptr %a, %35 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %37 = arith.subi %24, %34 : i64
      %38 = arith.muli %26, %34 : i64
      %39 = arith.addi %25, %38 : i64
      %40 = tile.addptr %b, %39 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      "gpu.copy"(%36, %18, %21, %23, %37, %1, %16, %30) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<1>>, i32, i1) -> ()
      "gpu.copy"(%40, %26, %21, %37, %28, %0, %16, %30) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<1>>, i32, i1) -> ()
      gpu.commit
      gpu.wait 0 : i32
      gpu.barrier
      %41 = gpu.local_load %1[%16] : !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<1>> to tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">
      %42 = gpu.local_load %0[%16] : !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<1>> to tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">
      %43 = tile.dot %41, %42, %32, "ieee" {gpu.mma = "m16n8k16.f16"} : tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">, tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">, tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
      gpu.barrier
      scf.yield %43 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
    }
    %44 = arith.extsi %out_m : i32 to i64
    %45 = arith.muli %19, %44 : i64
    %46 = arith.addi %45, %25 : i64
    %47 = tile.addptr %out, %46 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %48 = gpu.convert %31 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%47, %44, %21, %23, %28, %48) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    func.return
  }
}
