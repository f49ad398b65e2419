// + tiles of 128 x 256
// Build(blocks=(128, 256, 64), warps=8, stages=4, group=8, form='tiled', off=('store-boxes', 'specialize-warps'), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x256x64_g8_w8_s4(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 4 : i32, gpu.ordered, gpu.unroll} {
    %0 = arith.extsi %K : i32 to i64
    %1 = arith.extsi %M : i32 to i64
    %2 = arith.extsi %a_m : i32 to i64
    %3 = arith.extsi %N : i32 to i64
    %4 = arith.extsi %b_k : i32 to i64
    %5 = gpu.barriers : !gpu.barriers<#builtin.int<4>>
    %6 = gpu.alloc : !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>
    %7 = gpu.alloc : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>
    %8 = tile.program_id 0 : i32 : i32
    %9 = arith.constant 127 : i32
    %10 = arith.addi %M, %9 : i32
    %11 = arith.constant 128 : i32
    %12 = arith.divsi %10, %11 : i32
    %13 = arith.constant 255 : i32
    %14 = arith.addi %N, %13 : i32
    %15 = arith.constant 256 : i32
    %16 = arith.divsi %14, %15 : i32
    %17 = arith.constant 8 : i32
    %18 = arith.muli %17, %16 : i32
    %19 = arith.divsi %8, %18 : i32
    %20 = arith.muli %19, %17 : i32
    %21 = arith.subi %12, %20 : i32
    %22 = arith.minsi %21, %17 : i32
    %23 = arith.remsi %8, %22 : i32
    %24 = arith.addi %20, %23 : i32
    %25 = arith.remsi %8, %18 : i32
    %26 = arith.divsi %25, %22 : i32
    %27 = arith.muli %24, %11 : i32
    %28 = arith.muli %26, %15 : i32
    %29 = arith.constant 63 : i32
    %30 = arith.addi %K, %29 : i32
    %31 = arith.constant 64 : i32
    %32 = arith.divsi %30, %31 : i32
    %33 = arith.constant 0.000000e+00 : f32
    %34 = arith.constant 0 : i32
    %35 = arith.constant 1 : i32
    %36 = arith.extsi %27 : i32 to i64
    %37 = arith.constant 1 : i64
    %38 = arith.subi %1, %36 : i64
    %39 = arith.extsi %28 : i32 to i64
    %40 = arith.subi %3, %39 : i64
    %41 = tile.splat %33 : f32 to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %42 = arith.extsi %34 : i32 to i64
    %43 = arith.constant 64 : i64
    %44 = arith.muli %42, %43 : i64
    %45 = arith.extsi %19 : i32 to i64
    %46 = arith.constant 1024 : i64
    %47 = arith.muli %45, %46 : i64
    %48 = arith.extsi %23 : i32 to i64
    %49 = arith.constant 128 : i64
    %50 = arith.muli %48, %49 : i64
    %51 = arith.addi %47, %50 : i64
    %52 = arith.extsi %26 : i32 to i64
    %53 = arith.constant 256 : i64
    %54 = arith.muli %52, %53 : i64
    %55 = tile.cmpi "slt", %34, %32 : i32, i32 to i1
    %56 = gpu.elect : i1
    %57 = arith.andi %56, %55 : i1
    scf.if %57 {
      gpu.expect %5[%34], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %0, %1, %2, %44, %51, %7, %5, %34) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %3, %0, %4, %54, %44, %6, %5, %34) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %58 = arith.addi %34, %35 : i32
    %59 = arith.extsi %58 : i32 to i64
    %60 = arith.muli %59, %43 : i64
    %61 = tile.cmpi "slt", %58, %32 : i32, i32 to i1
    %62 = gpu.elect : i1
    %63 = arith.andi %62, %61 : i1
    scf.if %63 {
      gpu.expect %5[%35], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %0, %1, %2, %60, %51, %7, %5, %35) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %3, %0, %4, %54, %60, %6, %5, %35) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %64 = arith.addi %58, %35 : i32
    %65 = arith.extsi %64 : i32 to i64
    %66 = arith.muli %65, %43 : i64
    %67 = arith.constant 2 : i32
    %68 = tile.cmpi "slt", %64, %32 : i32, i32 to i1
    %69 = gpu.elect : i1
    %70 = arith.andi %69, %68 : i1
    scf.if %70 {
      gpu.expect %5[%67], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %0, %1, %2, %66, %51, %7, %5, %67) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %3, %0, %4, %54, %66, %6, %5, %67) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %71 = arith.addi %64, %35 : i32
    %72 = arith.constant 3 : i32
    %73, %74, %75 = scf.if %55 -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32) {
      %76 = arith.constant 4 : i32
      %77, %78, %79, %80, %81, %82 = scf.for %k = %34 to %32 step %35 iter_args(%83 = %41, %84 = %71, %85 = %34, %86 = %72, %87 = %34, %88 = %34) -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32) : i32 {
        gpu.tma_wait %5[%87], %88 : !gpu.barriers<#builtin.int<4>>
        %89 = gpu.wgmma "wgmma.k16.f16" %7[%87], %6[%87], %83 : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        %90 = gpu.wgmma_wait %89, 1 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        gpu.barrier
        %91 = arith.extsi %84 : i32 to i64
        %92 = arith.muli %91, %43 : i64
        %93 = tile.cmpi "slt", %84, %32 : i32, i32 to i1
        %94 = gpu.elect : i1
        %95 = arith.andi %94, %93 : i1
        scf.if %95 {
          gpu.expect %5[%86], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
          "gpu.tma_copy"(%a, %0, %1, %2, %92, %51, %7, %5, %86) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
          "gpu.tma_copy"(%b, %3, %0, %4, %54, %92, %6, %5, %86) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
        } else {
        }
        %96 = arith.addi %84, %35 : i32
        %97 = arith.addi %86, %35 : i32
        %98 = tile.cmpi "eq", %97, %76 : i32, i32 to i1
        %99 = tile.select %98, %34, %97 : i1, i32, i32 to i32
        %100 = arith.addi %87, %35 : i32
        %101 = tile.cmpi "eq", %100, %76 : i32, i32 to i1
        %102 = tile.select %101, %34, %100 : i1, i32, i32 to i32
        %103 = arith.xori %88, %35 : i32
        %104 = tile.select %101, %103, %88 : i1, i32, i32 to i32
        scf.yield %90, %96, %85, %99, %102, %104 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32
      }
      %105 = gpu.wgmma_wait %77, 0 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      scf.yield %105, %81, %82 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    } else {
      scf.yield %41, %34, %34 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    }
    %106 = arith.extsi %out_m : i32 to i64
    %107 = arith.muli %36, %106 : i64
    %108 = arith.addi %107, %39 : i64
    %109 = tile.addptr %out, %108 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %110 = gpu.convert %73 {gpu.vector = 4 : i32} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 0,2 4,0 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[0,128 1,0 2,0]">
    "tile.store_view"(%109, %106, %37, %38, %40, %110) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> {gpu.vector = 4 : i32} : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x256xf32, "128x256 r[0,1 0,2 4,0 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[0,128 1,0 2,0]">) -> ()
    func.return
  }
}
