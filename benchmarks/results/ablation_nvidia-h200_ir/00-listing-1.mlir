// listing 1: C loaded and stored at every step
// Build(blocks=(16, 16, 16), warps=1, stages=1, group=1, form='listing1', off=('select-mma', 'promote-shared', 'swizzle-shared', 'promote-accumulator', 'pipeline-loads', 'insert-barriers', 'vectorize-copies', 'specialize-warps', 'store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_16x16x16_g1_w1_s1_listing1(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 1 : i32, gpu.stages = 1 : i32, gpu.unroll} {
    %0 = tile.program_id 0 : i32 : i32
    %1 = arith.constant 15 : i32
    %2 = arith.addi %N, %1 : i32
    %3 = arith.constant 16 : i32
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
    %21 = tile.splat %9 : f32 to tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]">
    "tile.store_view"(%15, %10, %16, %18, %20, %21) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]">) -> ()
    %22 = arith.addi %K, %1 : i32
    %23 = arith.divsi %22, %3 : i32
    %24 = arith.constant 0 : i32
    %25 = arith.constant 1 : i32
    %26 = arith.constant 0.000000e+00 : f16
    %27 = arith.extsi %a_m : i32 to i64
    %28 = arith.muli %11, %27 : i64
    %29 = arith.extsi %K : i32 to i64
    %30 = arith.extsi %b_k : i32 to i64
    scf.for %k = %24 to %23 step %25 : i32 {
      %31 = "tile.load_view"(%15, %10, %16, %18, %20, %9) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, f32) -> tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]">
      %32 = arith.muli %k, %3 : i32
      %33 = arith.extsi %32 : i32 to i64
      %34 = arith.addi %28, %33 : i64
      %35 = tile.addptr %a, %34 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %36 = arith.subi %29, %33 : i64
      %37 = "tile.load_view"(%35, %27, %16, %18, %36, %26) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, f16) -> tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
      %38 = arith.muli %30, %33 : i64
      %39 = arith.addi %13, %38 : i64
      %40 = tile.addptr %b, %39 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %41 = "tile.load_view"(%40, %30, %16, %36, %20, %26) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, f16) -> tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">
      %42 = tile.dot %37, %41, %31, "ieee" : tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, tensor<16x16xf16, "16x16 r[0,1 0,2 0,4] l[0,8 1,0 2,0 4,0 8,0] w[]">, tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]"> to tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]">
      "tile.store_view"(%15, %10, %16, %18, %20, %42) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]">) -> ()
    }
    %43 = "tile.load_view"(%15, %10, %16, %18, %20, %9) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, f32) -> tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]">
    "tile.store_view"(%15, %10, %16, %18, %20, %43) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<16x16xf32, "16x16 r[0,1 0,2 8,0] l[0,4 0,8 1,0 2,0 4,0] w[]">) -> ()
    func.return
  }
}
