// + two-level tiling
// Build(blocks=(128, 128, 32), warps=8, stages=1, group=1, form='listing1', off=('select-mma', 'promote-shared', 'swizzle-shared', 'promote-accumulator', 'pipeline-loads', 'insert-barriers', 'vectorize-copies', 'specialize-warps', 'store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x128x32_g1_w8_s1_listing1(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 1 : i32, gpu.unroll} {
    %0 = tile.program_id 0 : i32 : i32
    %1 = arith.constant 127 : i32
    %2 = arith.addi %N, %1 : i32
    %3 = arith.constant 128 : i32
    %4 = arith.divsi %2, %3 : i32
    %5 = arith.divsi %0, %4 : i32
    %6 = arith.remsi %0, %4 : i32
    %7 = arith.muli %5, %3 : i32
    %8 = arith.muli %6, %3 : i32
    %9 = arith.constant 0.000000e+00 : f32
    %10 = arith.extsi %out_m : i32 to i64
    %11 = arith.extsi %7 : i32 to i64
    %12 = arith.muli %10, %11 : i64
    %13 = arith.extsi %8 : i32 to i64
    %14 = arith.addi %12, %13 : i64
    %15 = tile.addptr %out, %14 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %16 = arith.constant 1 : i64
    %17 = arith.extsi %M : i32 to i64
    %18 = arith.subi %17, %11 : i64
    %19 = arith.extsi %N : i32 to i64
    %20 = arith.subi %19, %13 : i64
    %21 = tile.splat %9 : f32 to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%15, %10, %16, %18, %20, %21) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    %22 = arith.constant 31 : i32
    %23 = arith.addi %K, %22 : i32
    %24 = arith.constant 32 : i32
    %25 = arith.divsi %23, %24 : i32
    %26 = arith.constant 0 : i32
    %27 = arith.constant 1 : i32
    %28 = arith.constant 0.000000e+00 : f16
    %29 = arith.extsi %a_m : i32 to i64
    %30 = arith.muli %11, %29 : i64
    %31 = arith.extsi %K : i32 to i64
    %32 = arith.extsi %b_k : i32 to i64
    scf.for %k = %26 to %25 step %27 : i32 {
      %33 = "tile.load_view"(%15, %10, %16, %18, %20, %9) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, f32) -> tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
      %34 = arith.muli %k, %24 : i32
      %35 = arith.extsi %34 : i32 to i64
      %36 = arith.addi %30, %35 : i64
      %37 = tile.addptr %a, %36 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %38 = arith.subi %31, %35 : i64
      %39 = "tile.load_view"(%37, %29, %16, %18, %38, %28) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, f16) -> tensor<128x32xf16, "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]">
      %40 = arith.muli %32, %35 : i64
      %41 = arith.addi %13, %40 : i64
      %42 = tile.addptr %b, %41 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %43 = "tile.load_view"(%42, %32, %16, %38, %20, %28) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, f16) -> tensor<32x128xf16, "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]">
      %44 = tile.dot %39, %43, %33, "ieee" : tensor<128x32xf16, "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]">, tensor<32x128xf16, "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]">, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]"> to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
      "tile.store_view"(%15, %10, %16, %18, %20, %44) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    }
    %45 = "tile.load_view"(%15, %10, %16, %18, %20, %9) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, f32) -> tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%15, %10, %16, %18, %20, %45) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    func.return
  }
}
