// + results through shared memory
// Build(blocks=(128, 256, 64), warps=8, stages=4, group=8, form='tiled', off=())
builtin.module {
  func.func @matmul_fp16_128x256x64_g8_w8_s4(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 4 : i32, gpu.ordered, gpu.unroll} {
    %0 = arith.extsi %N : i32 to i64
    %1 = arith.extsi %M : i32 to i64
    %2 = gpu.alloc : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 span128", #builtin.int<1>>
    %3 = arith.extsi %K : i32 to i64
    %4 = gpu.barriers : !gpu.barriers<#builtin.int<4>>
    %5 = gpu.alloc : !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>
    %6 = gpu.alloc : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>
    %7 = tile.program_id 0 : i32 : i32
    %8 = arith.constant 127 : i32
    %9 = arith.addi %M, %8 : i32
    %10 = arith.constant 128 : i32
    %11 = arith.divsi %9, %10 : i32
    %12 = arith.constant 255 : i32
    %13 = arith.addi %N, %12 : i32
    %14 = arith.constant 256 : i32
    %15 = arith.divsi %13, %14 : i32
    %16 = arith.constant 8 : i32
    %17 = arith.muli %16, %15 : i32
    %18 = arith.divsi %7, %17 : i32
    %19 = arith.muli %18, %16 : i32
    %20 = arith.subi %11, %19 : i32
    %21 = arith.minsi %20, %16 : i32
    %22 = arith.remsi %7, %21 : i32
    %23 = arith.remsi %7, %17 : i32
    %24 = arith.divsi %23, %21 : i32
    %25 = arith.constant 63 : i32
    %26 = arith.addi %K, %25 : i32
    %27 = arith.constant 64 : i32
    %28 = arith.divsi %26, %27 : i32
    %29 = arith.constant 0.000000e+00 : f32
    %30 = arith.constant 0 : i32
    %31 = arith.constant 1 : i32
    %32 = arith.extsi %a_m : i32 to i64
    %33 = arith.extsi %b_k : i32 to i64
    %34 = tile.splat %29 : f32 to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %35 = arith.extsi %30 : i32 to i64
    %36 = arith.constant 64 : i64
    %37 = arith.muli %35, %36 : i64
    %38 = arith.extsi %18 : i32 to i64
    %39 = arith.constant 1024 : i64
    %40 = arith.muli %38, %39 : i64
    %41 = arith.extsi %22 : i32 to i64
    %42 = arith.constant 128 : i64
    %43 = arith.muli %41, %42 : i64
    %44 = arith.addi %40, %43 : i64
    %45 = arith.extsi %24 : i32 to i64
    %46 = arith.constant 256 : i64
    %47 = arith.muli %45, %46 : i64
    %48 = tile.cmpi "slt", %30, %28 : i32, i32 to i1
    %49 = gpu.elect : i1
    %50 = arith.andi %49, %48 : i1
    scf.if %50 {
      gpu.expect %4[%30], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %3, %1, %32, %37, %44, %6, %4, %30) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %0, %3, %33, %47, %37, %5, %4, %30) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %51 = arith.addi %30, %31 : i32
    %52 = arith.extsi %51 : i32 to i64
    %53 = arith.muli %52, %36 : i64
    %54 = tile.cmpi "slt", %51, %28 : i32, i32 to i1
    %55 = gpu.elect : i1
    %56 = arith.andi %55, %54 : i1
    scf.if %56 {
      gpu.expect %4[%31], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %3, %1, %32, %53, %44, %6, %4, %31) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %0, %3, %33, %47, %53, %5, %4, %31) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %57 = arith.addi %51, %31 : i32
    %58 = arith.extsi %57 : i32 to i64
    %59 = arith.muli %58, %36 : i64
    %60 = arith.constant 2 : i32
    %61 = tile.cmpi "slt", %57, %28 : i32, i32 to i1
    %62 = gpu.elect : i1
    %63 = arith.andi %62, %61 : i1
    scf.if %63 {
      gpu.expect %4[%60], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %3, %1, %32, %59, %44, %6, %4, %60) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %0, %3, %33, %47, %59, %5, %4, %60) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %64 = arith.addi %57, %31 : i32
    %65 = arith.constant 3 : i32
    %66, %67, %68 = scf.if %48 -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32) {
      %69 = arith.constant 4 : i32
      %70, %71, %72, %73, %74, %75 = scf.for %k = %30 to %28 step %31 iter_args(%76 = %34, %77 = %64, %78 = %30, %79 = %65, %80 = %30, %81 = %30) -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32) : i32 {
        gpu.tma_wait %4[%80], %81 : !gpu.barriers<#builtin.int<4>>
        %82 = gpu.wgmma "wgmma.k16.f16" %6[%80], %5[%80], %76 : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        %83 = gpu.wgmma_wait %82, 1 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        gpu.barrier
        %84 = arith.extsi %77 : i32 to i64
        %85 = arith.muli %84, %36 : i64
        %86 = tile.cmpi "slt", %77, %28 : i32, i32 to i1
        %87 = gpu.elect : i1
        %88 = arith.andi %87, %86 : i1
        scf.if %88 {
          gpu.expect %4[%79], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
          "gpu.tma_copy"(%a, %3, %1, %32, %85, %44, %6, %4, %79) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
          "gpu.tma_copy"(%b, %0, %3, %33, %47, %85, %5, %4, %79) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
        } else {
        }
        %89 = arith.addi %77, %31 : i32
        %90 = arith.addi %79, %31 : i32
        %91 = tile.cmpi "eq", %90, %69 : i32, i32 to i1
        %92 = tile.select %91, %30, %90 : i1, i32, i32 to i32
        %93 = arith.addi %80, %31 : i32
        %94 = tile.cmpi "eq", %93, %69 : i32, i32 to i1
        %95 = tile.select %94, %30, %93 : i1, i32, i32 to i32
        %96 = arith.xori %81, %31 : i32
        %97 = tile.select %94, %96, %81 : i1, i32, i32 to i32
        scf.yield %83, %89, %78, %92, %95, %97 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32
      }
      %98 = gpu.wgmma_wait %70, 0 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      scf.yield %98, %74, %75 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    } else {
      scf.yield %34, %30, %30 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    }
    gpu.release %5, %6 : !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>
    %99 = arith.extsi %out_m : i32 to i64
    gpu.barrier
    gpu.local_store %66, %2[%30] {gpu.vector = 2 : i32} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 span128", #builtin.int<1>>
    gpu.barrier
    %100 = gpu.elect : i1
    scf.if %100 {
      "gpu.tma_store"(%out, %0, %1, %99, %47, %44, %2, %30) : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 span128", #builtin.int<1>>, i32) -> ()
    } else {
    }
    gpu.tma_store_wait %2 : !gpu.shared<tensor<128x256xf32>, "128x256x4 dim1 span128", #builtin.int<1>>
    func.return
  }
}
