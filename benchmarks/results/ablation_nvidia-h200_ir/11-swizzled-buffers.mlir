// + swizzled buffers
// Build(blocks=(128, 128, 32), warps=8, stages=2, group=8, form='tiled', off=('select-mma{wgmma=false}', 'pipeline-loads{boxes=false}', 'specialize-warps', 'store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x128x32_g8_w8_s2(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 2 : i32, gpu.ordered, gpu.unroll} {
    %0 = gpu.alloc : !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 span128", #builtin.int<2>>
    %1 = gpu.alloc : !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 span64", #builtin.int<2>>
    %2 = tile.program_id 0 : i32 : i32
    %3 = arith.constant 127 : i32
    %4 = arith.addi %M, %3 : i32
    %5 = arith.constant 128 : i32
    %6 = arith.divsi %4, %5 : i32
    %7 = arith.addi %N, %3 : i32
    %8 = arith.divsi %7, %5 : i32
    %9 = arith.constant 8 : i32
    %10 = arith.muli %9, %8 : i32
    %11 = arith.divsi %2, %10 : i32
    %12 = arith.muli %11, %9 : i32
    %13 = arith.subi %6, %12 : i32
    %14 = arith.minsi %13, %9 : i32
    %15 = arith.remsi %2, %14 : i32
    %16 = arith.addi %12, %15 : i32
    %17 = arith.remsi %2, %10 : i32
    %18 = arith.divsi %17, %14 : i32
    %19 = arith.muli %16, %5 : i32
    %20 = arith.muli %18, %5 : i32
    %21 = arith.constant 31 : i32
    %22 = arith.addi %K, %21 : i32
    %23 = arith.constant 32 : i32
    %24 = arith.divsi %22, %23 : i32
    %25 = arith.constant 0.000000e+00 : f32
    %26 = arith.constant 0 : i32
    %27 = arith.constant 1 : i32
    %28 = arith.extsi %a_m : i32 to i64
    %29 = arith.extsi %19 : i32 to i64
    %30 = arith.muli %28, %29 : i64
    %31 = arith.constant 1 : i64
    %32 = arith.extsi %M : i32 to i64
    %33 = arith.subi %32, %29 : i64
    %34 = arith.extsi %K : i32 to i64
    %35 = arith.extsi %20 : i32 to i64
    %36 = arith.extsi %b_k : i32 to i64
    %37 = arith.extsi %N : i32 to i64
    %38 = arith.subi %37, %35 : i64
    %39 = tile.splat %25 : f32 to tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
    %40 = arith.muli %26, %23 : i32
    %41 = arith.extsi %40 : i32 to i64
    %42 = arith.addi %30, %41 : i64
    %43 = tile.addptr %a, %42 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %44 = arith.subi %34, %41 : i64
    %45 = arith.muli %36, %41 : i64
    %46 = arith.addi %35, %45 : i64
    %47 = tile.addptr %b, %46 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %48 = tile.cmpi "slt", %26, %24 : i32, i32 to i1
    "gpu.copy"(%43, %28, %31, %33, %44, %1, %26, %48) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> {gpu.vector = 8 : i32} : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 span64", #builtin.int<2>>, i32, i1) -> ()
    "gpu.copy"(%47, %36, %31, %44, %38, %0, %26, %48) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> {gpu.vector = 8 : i32} : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 span128", #builtin.int<2>>, i32, i1) -> ()
    gpu.commit
    %49 = arith.addi %26, %27 : i32
    %50 = arith.constant 2 : i32
    %51, %52, %53, %54, %55, %56 = scf.for %k = %26 to %24 step %27 iter_args(%57 = %39, %58 = %49, %59 = %26, %60 = %27, %61 = %26, %62 = %26) -> (tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">, i32, i32, i32, i32, i32) : i32 {
      gpu.wait 0 : i32
      gpu.barrier
      %63 = arith.muli %58, %23 : i32
      %64 = arith.extsi %63 : i32 to i64
      %65 = arith.addi %30, %64 : i64
      %66 = tile.addptr %a, %65 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %67 = arith.subi %34, %64 : i64
      %68 = arith.muli %36, %64 : i64
      %69 = arith.addi %35, %68 : i64
      %70 = tile.addptr %b, %69 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %71 = tile.cmpi "slt", %58, %24 : i32, i32 to i1
      "gpu.copy"(%66, %28, %31, %33, %67, %1, %60, %71) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> {gpu.vector = 8 : i32} : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 span64", #builtin.int<2>>, i32, i1) -> ()
      "gpu.copy"(%70, %36, %31, %67, %38, %0, %60, %71) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> {gpu.vector = 8 : i32} : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 span128", #builtin.int<2>>, i32, i1) -> ()
      gpu.commit
      %72 = gpu.local_load %1[%61] {gpu.vector = 2 : i32} : !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 span64", #builtin.int<2>> to tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">
      %73 = gpu.local_load %0[%61] : !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 span128", #builtin.int<2>> to tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">
      %74 = tile.dot %72, %73, %57, "ieee" {gpu.mma = "m16n8k16.f16", gpu.vector = 8 : i32} : tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">, tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">, tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
      %75 = arith.addi %58, %27 : i32
      %76 = arith.addi %60, %27 : i32
      %77 = tile.cmpi "eq", %76, %50 : i32, i32 to i1
      %78 = tile.select %77, %26, %76 : i1, i32, i32 to i32
      %79 = arith.addi %61, %27 : i32
      %80 = tile.cmpi "eq", %79, %50 : i32, i32 to i1
      %81 = tile.select %80, %26, %79 : i1, i32, i32 to i32
      scf.yield %74, %75, %59, %78, %81, %62 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">, i32, i32, i32, i32, i32
    }
    %82 = arith.extsi %out_m : i32 to i64
    %83 = arith.muli %29, %82 : i64
    %84 = arith.addi %83, %35 : i64
    %85 = tile.addptr %out, %84 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %86 = gpu.convert %51 {gpu.vector = 4 : i32} : tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%85, %82, %31, %33, %38, %86) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> {gpu.vector = 4 : i32} : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    func.return
  }
}
