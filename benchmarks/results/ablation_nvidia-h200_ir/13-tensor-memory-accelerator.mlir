// + tensor memory accelerator
// Build(blocks=(128, 128, 64), warps=8, stages=2, group=8, form='tiled', off=('store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x128x64_g8_w8_s2(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 2 : i32, gpu.ordered, gpu.unroll} {
    %0 = arith.extsi %K : i32 to i64
    %1 = arith.extsi %M : i32 to i64
    %2 = arith.extsi %a_m : i32 to i64
    %3 = arith.extsi %N : i32 to i64
    %4 = arith.extsi %b_k : i32 to i64
    %5 = gpu.barriers : !gpu.barriers<#builtin.int<2>>
    %6 = gpu.alloc : !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<2>>
    %7 = gpu.alloc : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<2>>
    %8 = tile.program_id 0 : i32 : i32
    %9 = arith.constant 127 : i32
    %10 = arith.addi %M, %9 : i32
    %11 = arith.constant 128 : i32
    %12 = arith.divsi %10, %11 : i32
    %13 = arith.addi %N, %9 : i32
    %14 = arith.divsi %13, %11 : i32
    %15 = arith.constant 8 : i32
    %16 = arith.muli %15, %14 : i32
    %17 = arith.divsi %8, %16 : i32
    %18 = arith.muli %17, %15 : i32
    %19 = arith.subi %12, %18 : i32
    %20 = arith.minsi %19, %15 : i32
    %21 = arith.remsi %8, %20 : i32
    %22 = arith.addi %18, %21 : i32
    %23 = arith.remsi %8, %16 : i32
    %24 = arith.divsi %23, %20 : i32
    %25 = arith.muli %22, %11 : i32
    %26 = arith.muli %24, %11 : i32
    %27 = arith.constant 63 : i32
    %28 = arith.addi %K, %27 : i32
    %29 = arith.constant 64 : i32
    %30 = arith.divsi %28, %29 : i32
    %31 = arith.constant 0.000000e+00 : f32
    %32 = arith.constant 0 : i32
    %33 = arith.constant 1 : i32
    %34 = arith.extsi %25 : i32 to i64
    %35 = arith.constant 1 : i64
    %36 = arith.subi %1, %34 : i64
    %37 = arith.extsi %26 : i32 to i64
    %38 = arith.subi %3, %37 : i64
    %39 = tile.splat %31 : f32 to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %40 = arith.extsi %32 : i32 to i64
    %41 = arith.constant 64 : i64
    %42 = arith.muli %40, %41 : i64
    %43 = arith.extsi %17 : i32 to i64
    %44 = arith.constant 1024 : i64
    %45 = arith.muli %43, %44 : i64
    %46 = arith.extsi %21 : i32 to i64
    %47 = arith.constant 128 : i64
    %48 = arith.muli %46, %47 : i64
    %49 = arith.addi %45, %48 : i64
    %50 = arith.extsi %24 : i32 to i64
    %51 = arith.muli %50, %47 : i64
    %52 = tile.cmpi "slt", %32, %30 : i32, i32 to i1
    %53 = gpu.elect : i1
    %54 = arith.andi %53, %52 : i1
    scf.if %54 {
      gpu.expect %5[%32], 32768 : i32 : !gpu.barriers<#builtin.int<2>>
      "gpu.tma_copy"(%a, %0, %1, %2, %42, %49, %7, %5, %32) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<2>>, !gpu.barriers<#builtin.int<2>>, i32) -> ()
      "gpu.tma_copy"(%b, %3, %0, %4, %51, %42, %6, %5, %32) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<2>>, !gpu.barriers<#builtin.int<2>>, i32) -> ()
    } else {
    }
    %55 = arith.addi %32, %33 : i32
    %56, %57, %58 = scf.if %52 -> (tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32) {
      %59 = arith.constant 2 : i32
      %60, %61, %62, %63, %64, %65 = scf.for %k = %32 to %30 step %33 iter_args(%66 = %39, %67 = %55, %68 = %32, %69 = %33, %70 = %32, %71 = %32) -> (tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32) : i32 {
        gpu.tma_wait %5[%70], %71 : !gpu.barriers<#builtin.int<2>>
        %72 = gpu.wgmma "wgmma.k16.f16" %7[%70], %6[%70], %66 : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<2>>, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<2>>, tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        %73 = gpu.wgmma_wait %72, 1 : i32 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        gpu.barrier
        %74 = arith.extsi %67 : i32 to i64
        %75 = arith.muli %74, %41 : i64
        %76 = tile.cmpi "slt", %67, %30 : i32, i32 to i1
        %77 = gpu.elect : i1
        %78 = arith.andi %77, %76 : i1
        scf.if %78 {
          gpu.expect %5[%69], 32768 : i32 : !gpu.barriers<#builtin.int<2>>
          "gpu.tma_copy"(%a, %0, %1, %2, %75, %49, %7, %5, %69) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<2>>, !gpu.barriers<#builtin.int<2>>, i32) -> ()
          "gpu.tma_copy"(%b, %3, %0, %4, %51, %75, %6, %5, %69) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<2>>, !gpu.barriers<#builtin.int<2>>, i32) -> ()
        } else {
        }
        %79 = arith.addi %67, %33 : i32
        %80 = arith.addi %69, %33 : i32
        %81 = tile.cmpi "eq", %80, %59 : i32, i32 to i1
        %82 = tile.select %81, %32, %80 : i1, i32, i32 to i32
        %83 = arith.addi %70, %33 : i32
        %84 = tile.cmpi "eq", %83, %59 : i32, i32 to i1
        %85 = tile.select %84, %32, %83 : i1, i32, i32 to i32
        %86 = arith.xori %71, %33 : i32
        %87 = tile.select %84, %86, %71 : i1, i32, i32 to i32
        scf.yield %73, %79, %68, %82, %85, %87 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32
      }
      %88 = gpu.wgmma_wait %60, 0 : i32 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      scf.yield %88, %64, %65 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    } else {
      scf.yield %39, %32, %32 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    }
    %89 = arith.extsi %out_m : i32 to i64
    %90 = arith.muli %34, %89 : i64
    %91 = arith.addi %90, %37 : i64
    %92 = tile.addptr %out, %91 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %93 = gpu.convert %56 {gpu.vector = 4 : i32} : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%92, %89, %35, %36, %38, %93) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> {gpu.vector = 4 : i32} : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    func.return
  }
}
