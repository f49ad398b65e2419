// + barriers only where needed
// Build(blocks=(128, 128, 32), warps=8, stages=2, group=1, form='tiled', off=('vectorize-copies', 'swizzle-shared{mode="pad"}', 'select-mma{wgmma=false}', 'pipeline-loads{boxes=false}', 'specialize-warps', 'store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x128x32_g1_w8_s2(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 2 : i32, gpu.ordered, gpu.unroll} {
    %0 = gpu.alloc : !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<2>>
    %1 = gpu.alloc : !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<2>>
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
    %30 = arith.muli %16, %13 : i32
    %31 = arith.extsi %30 : i32 to i64
    %32 = arith.addi %20, %31 : i64
    %33 = tile.addptr %a, %32 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %34 = arith.subi %24, %31 : i64
    %35 = arith.muli %26, %31 : i64
    %36 = arith.addi %25, %35 : i64
    %37 = tile.addptr %b, %36 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
    %38 = tile.cmpi "slt", %16, %14 : i32, i32 to i1
    "gpu.copy"(%33, %18, %21, %23, %34, %1, %16, %38) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<2>>, i32, i1) -> ()
    "gpu.copy"(%37, %26, %21, %34, %28, %0, %16, %38) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<2>>, i32, i1) -> ()
    gpu.commit
    %39 = arith.addi %16, %17 : i32
    %40 = arith.constant 2 : i32
    %41, %42, %43, %44, %45, %46 = scf.for %k = %16 to %14 step %17 iter_args(%47 = %29, %48 = %39, %49 = %16, %50 = %17, %51 = %16, %52 = %16) -> (tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">, i32, i32, i32, i32, i32) : i32 {
      gpu.wait 0 : i32
      gpu.barrier
      %53 = arith.muli %48, %13 : i32
      %54 = arith.extsi %53 : i32 to i64
      %55 = arith.addi %20, %54 : i64
      %56 = tile.addptr %a, %55 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %57 = arith.subi %24, %54 : i64
      %58 = arith.muli %26, %54 : i64
      %59 = arith.addi %25, %58 : i64
      %60 = tile.addptr %b, %59 : !tile.ptr<f16>, i64 to !tile.ptr<f16>
      %61 = tile.cmpi "slt", %48, %14 : i32, i32 to i1
      "gpu.copy"(%56, %18, %21, %23, %57, %1, %50, %61) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "128x32 r[0,1 0,2 0,4 64,0] l[0,8 0,16 1,0 2,0 4,0] w[8,0 16,0 32,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<2>>, i32, i1) -> ()
      "gpu.copy"(%60, %26, %21, %57, %28, %0, %50, %61) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, layout = "32x128 r[0,1 0,2 0,4 16,0] l[0,8 0,16 0,32 0,64 1,0] w[2,0 4,0 8,0]", operandSegmentSizes = array<i32: 1, 2, 0, 0, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<2>>, i32, i1) -> ()
      gpu.commit
      %62 = gpu.local_load %1[%51] : !gpu.shared<tensor<128x32xf16>, "128x32x2 dim1 lines+8", #builtin.int<2>> to tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">
      %63 = gpu.local_load %0[%51] : !gpu.shared<tensor<32x128xf16>, "32x128x2 dim1 lines+8", #builtin.int<2>> to tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">
      %64 = tile.dot %62, %63, %47, "ieee" {gpu.mma = "m16n8k16.f16"} : tensor<128x32xf16, "128x32 r[0,1 8,0 0,8 0,16 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,0]">, tensor<32x128xf16, "32x128 r[1,0 8,0 16,0 0,16 0,32 0,64] l[2,0 4,0 0,1 0,2 0,4] w[0,0 0,0 0,8]">, tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">
      %65 = arith.addi %48, %17 : i32
      %66 = arith.addi %50, %17 : i32
      %67 = tile.cmpi "eq", %66, %40 : i32, i32 to i1
      %68 = tile.select %67, %16, %66 : i1, i32, i32 to i32
      %69 = arith.addi %51, %17 : i32
      %70 = tile.cmpi "eq", %69, %40 : i32, i32 to i1
      %71 = tile.select %70, %16, %69 : i1, i32, i32 to i32
      scf.yield %64, %65, %49, %68, %71, %52 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]">, i32, i32, i32, i32, i32
    }
    %72 = arith.extsi %out_m : i32 to i64
    %73 = arith.muli %19, %72 : i64
    %74 = arith.addi %73, %25 : i64
    %75 = tile.addptr %out, %74 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %76 = gpu.convert %41 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,16 0,32 0,64 64,0] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 0,8]"> to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%75, %72, %21, %23, %28, %76) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    func.return
  }
}
