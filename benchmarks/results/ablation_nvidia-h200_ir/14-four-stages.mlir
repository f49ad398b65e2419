// + four stages
// Build(blocks=(128, 128, 64), warps=8, stages=4, group=8, form='tiled', off=('store-boxes',))
builtin.module {
  func.func @matmul_fp16_128x128x64_g8_w8_s4(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 4 : i32, gpu.ordered, gpu.unroll} {
    %0 = arith.extsi %K : i32 to i64
    %1 = arith.extsi %M : i32 to i64
    %2 = arith.extsi %N : i32 to i64
    %3 = gpu.barriers : !gpu.barriers<#builtin.int<5>>
    %4 = gpu.alloc : !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<5>>
    %5 = gpu.alloc : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<5>>
    %6 = tile.program_id 0 : i32 : i32
    %7 = arith.constant 127 : i32
    %8 = arith.addi %M, %7 : i32
    %9 = arith.constant 128 : i32
    %10 = arith.divsi %8, %9 : i32
    %11 = arith.addi %N, %7 : i32
    %12 = arith.divsi %11, %9 : i32
    %13 = arith.constant 8 : i32
    %14 = arith.muli %13, %12 : i32
    %15 = arith.divsi %6, %14 : i32
    %16 = arith.muli %15, %13 : i32
    %17 = arith.subi %10, %16 : i32
    %18 = arith.minsi %17, %13 : i32
    %19 = arith.remsi %6, %18 : i32
    %20 = arith.addi %16, %19 : i32
    %21 = arith.remsi %6, %14 : i32
    %22 = arith.divsi %21, %18 : i32
    %23 = arith.muli %20, %9 : i32
    %24 = arith.muli %22, %9 : i32
    %25 = arith.constant 63 : i32
    %26 = arith.addi %K, %25 : i32
    %27 = arith.constant 64 : i32
    %28 = arith.divsi %26, %27 : i32
    %29 = arith.constant 0.000000e+00 : f32
    %30 = arith.constant 0 : i32
    %31 = arith.constant 1 : i32
    %32 = arith.extsi %a_m : i32 to i64
    %33 = arith.extsi %23 : i32 to i64
    %34 = arith.constant 1 : i64
    %35 = arith.subi %1, %33 : i64
    %36 = arith.extsi %24 : i32 to i64
    %37 = arith.extsi %b_k : i32 to i64
    %38 = arith.subi %2, %36 : i64
    %39 = tile.splat %29 : f32 to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %40 = arith.extsi %30 : i32 to i64
    %41 = arith.constant 64 : i64
    %42 = arith.muli %40, %41 : i64
    %43 = arith.extsi %15 : i32 to i64
    %44 = arith.constant 1024 : i64
    %45 = arith.muli %43, %44 : i64
    %46 = arith.extsi %19 : i32 to i64
    %47 = arith.constant 128 : i64
    %48 = arith.muli %46, %47 : i64
    %49 = arith.addi %45, %48 : i64
    %50 = arith.extsi %22 : i32 to i64
    %51 = arith.muli %50, %47 : i64
    %52 = tile.cmpi "slt", %30, %28 : i32, i32 to i1
    %53 = gpu.elect : i1
    %54 = arith.andi %53, %52 : i1
    scf.if %54 {
      gpu.expect %3[%30], 32768 : i32 : !gpu.barriers<#builtin.int<5>>
      "gpu.tma_copy"(%a, %0, %1, %32, %42, %49, %5, %3, %30) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
      "gpu.tma_copy"(%b, %2, %0, %37, %51, %42, %4, %3, %30) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
    } else {
    }
    %55 = arith.addi %30, %31 : i32
    %56 = arith.extsi %55 : i32 to i64
    %57 = arith.muli %56, %41 : i64
    %58 = tile.cmpi "slt", %55, %28 : i32, i32 to i1
    %59 = gpu.elect : i1
    %60 = arith.andi %59, %58 : i1
    scf.if %60 {
      gpu.expect %3[%31], 32768 : i32 : !gpu.barriers<#builtin.int<5>>
      "gpu.tma_copy"(%a, %0, %1, %32, %57, %49, %5, %3, %31) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
      "gpu.tma_copy"(%b, %2, %0, %37, %51, %57, %4, %3, %31) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
    } else {
    }
    %61 = arith.addi %55, %31 : i32
    %62 = arith.extsi %61 : i32 to i64
    %63 = arith.muli %62, %41 : i64
    %64 = arith.constant 2 : i32
    %65 = tile.cmpi "slt", %61, %28 : i32, i32 to i1
    %66 = gpu.elect : i1
    %67 = arith.andi %66, %65 : i1
    scf.if %67 {
      gpu.expect %3[%64], 32768 : i32 : !gpu.barriers<#builtin.int<5>>
      "gpu.tma_copy"(%a, %0, %1, %32, %63, %49, %5, %3, %64) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
      "gpu.tma_copy"(%b, %2, %0, %37, %51, %63, %4, %3, %64) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
    } else {
    }
    %68 = arith.addi %61, %31 : i32
    %69 = arith.extsi %68 : i32 to i64
    %70 = arith.muli %69, %41 : i64
    %71 = arith.constant 3 : i32
    %72 = tile.cmpi "slt", %68, %28 : i32, i32 to i1
    %73 = gpu.elect : i1
    %74 = arith.andi %73, %72 : i1
    scf.if %74 {
      gpu.expect %3[%71], 32768 : i32 : !gpu.barriers<#builtin.int<5>>
      "gpu.tma_copy"(%a, %0, %1, %32, %70, %49, %5, %3, %71) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
      "gpu.tma_copy"(%b, %2, %0, %37, %51, %70, %4, %3, %71) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
    } else {
    }
    %75 = arith.addi %68, %31 : i32
    %76 = arith.constant 4 : i32
    %77, %78, %79 = scf.if %52 -> (tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32) {
      %80 = arith.constant 5 : i32
      %81, %82, %83, %84, %85, %86 = scf.for %k = %30 to %28 step %31 iter_args(%87 = %39, %88 = %75, %89 = %30, %90 = %76, %91 = %30, %92 = %30) -> (tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32) : i32 {
        gpu.tma_wait %3[%91], %92 : !gpu.barriers<#builtin.int<5>>
        %93 = gpu.wgmma "wgmma.k16.f16" %5[%91], %4[%91], %87 : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<5>>, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<5>>, tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        %94 = gpu.wgmma_wait %93, 1 : i32 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        gpu.barrier
        %95 = arith.extsi %88 : i32 to i64
        %96 = arith.muli %95, %41 : i64
        %97 = tile.cmpi "slt", %88, %28 : i32, i32 to i1
        %98 = gpu.elect : i1
        %99 = arith.andi %98, %97 : i1
        scf.if %99 {
          gpu.expect %3[%90], 32768 : i32 : !gpu.barriers<#builtin.int<5>>
          "gpu.tma_copy"(%a, %0, %1, %32, %96, %49, %5, %3, %90) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
          "gpu.tma_copy"(%b, %2, %0, %37, %51, %96, %4, %3, %90) : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x128xf16>, "64x128x2 dim1 span128", #builtin.int<5>>, !gpu.barriers<#builtin.int<5>>, i32) -> ()
        } else {
        }
        %100 = arith.addi %88, %31 : i32
        %101 = arith.addi %90, %31 : i32
        %102 = tile.cmpi "eq", %101, %80 : i32, i32 to i1
        %103 = tile.select %102, %30, %101 : i1, i32, i32 to i32
        %104 = arith.addi %91, %31 : i32
        %105 = tile.cmpi "eq", %104, %80 : i32, i32 to i1
        %106 = tile.select %105, %30, %104 : i1, i32, i32 to i32
        %107 = arith.xori %92, %31 : i32
        %108 = tile.select %105, %107, %92 : i1, i32, i32 to i32
        scf.yield %94, %100, %89, %103, %106, %108 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32
      }
      %109 = gpu.wgmma_wait %81, 0 : i32 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      scf.yield %109, %85, %86 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    } else {
      scf.yield %39, %30, %30 : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    }
    %110 = arith.extsi %out_m : i32 to i64
    %111 = arith.muli %33, %110 : i64
    %112 = arith.addi %111, %36 : i64
    %113 = tile.addptr %out, %112 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %114 = gpu.convert %77 {gpu.vector = 4 : i32} : tensor<128x128xf32, "128x128 r[0,1 8,0 0,8 0,16 0,32 0,64] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">
    "tile.store_view"(%113, %110, %34, %35, %38, %114) <{kinds = ["strided", "strided"], limited = array<i64: 0, 1>, operandSegmentSizes = array<i32: 1, 2, 0, 0, 0, 2, 0, 1>}> {gpu.vector = 4 : i32} : (!tile.ptr<f32>, i64, i64, i64, i64, tensor<128x128xf32, "128x128 r[0,1 0,2 8,0 16,0 32,0 64,0] l[0,4 0,8 0,16 0,32 0,64] w[1,0 2,0 4,0]">) -> ()
    func.return
  }
}
