// + padded buffers
// Build(blocks=(128, 128, 32), warps=8, stages=1, group=1, form='listing1', off=('promote-accumulator', 'pipeline-loads', 'insert-barriers', 'vectorize-copies', 'swizzle-shared{mode="pad"}', 'select-mma{wgmma=false}', 'specialize-warps', 'store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x128x32_g1_w8_s1_listing1(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 1 : i32, gpu.unroll} {
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
    %11 = arith.constant 0.000000e+00 : f32
    %12 = arith.extsi %out_m : i32 to i64
    %13 = arith.extsi %9 : i32 to i64
    %14 = arith.muli %12, %13 : i64
    %15 = arith.extsi %10 : i32 to i64
    %16 = arith.addi %14, %15 : i64
    %17 = tile.addptr %out, %16 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %18 = arith.constant 1 : i64
    %19 = arith.extsi %M : i32 to i64
    %20 = arith.subi %19, %13 : i64
    %21 = arith.extsi %N : i32 to i64
    %22 = arith.subi %21, %15 : i64
    %23 = tile.splat %11 : f32 to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%17, %12, %18, %20, %22, %23) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    %24 = arith.constant 31 : i32
    %25 = arith.addi %K, %24 : i32
    %26 = arith.constant 32 : i32
    %27 = arith.divsi %25, %26 : i32
    %28 = arith.constant 0 : i32
    %29 = arith.constant 1 : i32
    %30 = arith.extsi %a_m : i32 to i64
    %31 = arith.muli %13, %30 : i64
    %32 = arith.extsi %K : i32 to i64
    %33 = arith.extsi %b_k : i32 to i64
    %34 = arith.constant true
    scf.for %k = %28 to %27 step %29 : i32 {
      %35 = "tile.load_view"(%17, %12, %18, %20, %22, %11) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, f32) -> tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
      %36 = arith.muli %k, %26 : i32
      %37 = arith.extsi %36 : i32 to i64
      %38 = arith.addi %31, %37 : i64
      %39 = tile.addptr %a, %38 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %40 = arith.subi %32, %37 : i64
      %41 = arith.muli %33, %37 : i64
      %42 = arith.addi %15, %41 : i64
      %43 = tile.addptr %b, %42 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %44 = gpu.convert %35 : tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
      "gpu.copy"(%39, %30, %18, %20, %40, %1, %28, %34) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<1>>, i32, i1) -> ()
      "gpu.copy"(%43, %33, %18, %40, %22, %0, %28, %34) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<1>>, i32, i1) -> ()
      gpu.commit
      gpu.wait 0 : i32
      gpu.barrier
      %45 = gpu.local_load %1[%28] : !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<1>> to tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">
      %46 = gpu.local_load %0[%28] : !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<1>> to tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">
      %47 = tile.dot %45, %46, %44, "ieee" {gpu.mma = "m16n8k16.f16"} : tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">, tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">, tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
      gpu.barrier
      %48 = gpu.convert %47 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
      "tile.store_view"(%17, %12, %18, %20, %22, %48) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    }
    %49 = "tile.load_view"(%17, %12, %18, %20, %22, %11) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, f32) -> tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%17, %12, %18, %20, %22, %49) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    func.return
  }
}
