// + one program a multiprocessor
// Build(blocks=(128, 256, 64), warps=8, stages=4, group=8, form='tiled', off=('specialize-warps',), persistent=True)
builtin.module {
  func.func @matmul_fp16_128x256x64_g8_w8_s4_persistent(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 4 : i32, gpu.ordered, gpu.unroll} {
    %0 = arith.extsi %N : i32 to i64
    %1 = arith.extsi %M : i32 to i64
    %2 = arith.extsi %out_m : i32 to i64
    %3 = gpu.alloc : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
    %4 = arith.extsi %K : i32 to i64
    %5 = arith.extsi %a_m : i32 to i64
    %6 = arith.extsi %b_k : i32 to i64
    %7 = gpu.barriers : !gpu.barriers<#builtin.int<3>>
    %8 = gpu.alloc : !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>
    %9 = gpu.alloc : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>
    %10 = tile.program_id 0 : i32 : i32
    %11 = arith.constant 127 : i32
    %12 = arith.addi %M, %11 : i32
    %13 = arith.constant 128 : i32
    %14 = arith.divsi %12, %13 : i32
    %15 = arith.constant 255 : i32
    %16 = arith.addi %N, %15 : i32
    %17 = arith.constant 256 : i32
    %18 = arith.divsi %16, %17 : i32
    %19 = arith.muli %14, %18 : i32
    %20 = tile.num_programs 0 : i32 : i32
    %21 = arith.extsi %10 : i32 to i64
    %22 = arith.extsi %19 : i32 to i64
    %23 = arith.extsi %20 : i32 to i64
    %24 = arith.constant 0 : i64
    %25 = tile.cmpi "sgt", %23, %24 : i64, i64 to i1
    %26 = tile.select %25, %21, %22 : i1, i64, i64 to i64
    %27 = tile.select %25, %22, %21 : i1, i64, i64 to i64
    %28 = arith.subi %24, %23 : i64
    %29 = tile.select %25, %23, %28 : i1, i64, i64 to i64
    %30 = arith.subi %27, %26 : i64
    %31 = tile.cmpi "slt", %26, %27 : i64, i64 to i1
    %32 = arith.constant 1 : i64
    %33 = arith.subi %30, %32 : i64
    %34 = arith.divui %33, %29 : i64
    %35 = arith.addi %34, %32 : i64
    %36 = tile.select %31, %35, %24 : i1, i64, i64 to i64
    %37 = arith.constant 8 : i32
    %38 = arith.muli %37, %18 : i32
    %39 = arith.constant 63 : i32
    %40 = arith.addi %K, %39 : i32
    %41 = arith.constant 64 : i32
    %42 = arith.divsi %40, %41 : i32
    %43 = arith.constant 0.000000e+00 : f32
    %44 = arith.constant 0 : i32
    %45 = arith.constant 1 : i32
    %46 = tile.splat %43 : f32 to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %47 = arith.extsi %44 : i32 to i64
    %48 = arith.constant 64 : i64
    %49 = arith.muli %47, %48 : i64
    %50 = arith.constant 1024 : i64
    %51 = arith.constant 128 : i64
    %52 = arith.constant 256 : i64
    %53 = arith.constant 3 : i32
    %54 = tile.cmpi "slt", %44, %42 : i32, i32 to i1
    %55 = arith.addi %44, %45 : i32
    %56 = arith.extsi %55 : i32 to i64
    %57 = arith.muli %56, %48 : i64
    %58 = tile.cmpi "slt", %55, %42 : i32, i32 to i1
    %59 = arith.addi %55, %45 : i32
    %60 = arith.constant 2 : i32
    %61 = arith.constant 32 : i64
    %62 = arith.constant 96 : i64
    %63 = arith.constant 4 : i32
    %64 = arith.constant 160 : i64
    %65 = arith.constant 192 : i64
    %66 = arith.constant 224 : i64
    %67, %68 = scf.for %tile = %24 to %36 step %32 iter_args(%69 = %44, %70 = %44) -> (i32, i32) : i64 {
      %71 = arith.trunci %tile : i64 to i32
      %72 = arith.muli %71, %20 : i32
      %tile_1 = arith.addi %10, %72 : i32
      %73 = arith.divsi %tile_1, %38 : i32
      %74 = arith.muli %73, %37 : i32
      %75 = arith.subi %14, %74 : i32
      %76 = arith.minsi %75, %37 : i32
      %77 = arith.remsi %tile_1, %76 : i32
      %78 = arith.remsi %tile_1, %38 : i32
      %79 = arith.divsi %78, %76 : i32
      gpu.barrier
      %80 = arith.extsi %73 : i32 to i64
      %81 = arith.muli %80, %50 : i64
      %82 = arith.extsi %77 : i32 to i64
      %83 = arith.muli %82, %51 : i64
      %84 = arith.addi %81, %83 : i64
      %85 = arith.extsi %79 : i32 to i64
      %86 = arith.muli %85, %52 : i64
      %87 = arith.addi %69, %44 : i32
      %88 = tile.cmpi "sge", %87, %53 : i32, i32 to i1
      %89 = arith.subi %87, %53 : i32
      %90 = tile.select %88, %89, %87 : i1, i32, i32 to i32
      %91 = gpu.elect : i1
      %92 = arith.andi %91, %54 : i1
      scf.if %92 {
        gpu.expect %7[%90], 49152 : i32 : !gpu.barriers<#builtin.int<3>>
        "gpu.tma_copy"(%a, %4, %1, %5, %49, %84, %9, %7, %90) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
        "gpu.tma_copy"(%b, %0, %4, %6, %86, %49, %8, %7, %90) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
      } else {
      }
      %93 = arith.addi %69, %45 : i32
      %94 = tile.cmpi "sge", %93, %53 : i32, i32 to i1
      %95 = arith.subi %93, %53 : i32
      %96 = tile.select %94, %95, %93 : i1, i32, i32 to i32
      %97 = gpu.elect : i1
      %98 = arith.andi %97, %58 : i1
      scf.if %98 {
        gpu.expect %7[%96], 49152 : i32 : !gpu.barriers<#builtin.int<3>>
        "gpu.tma_copy"(%a, %4, %1, %5, %57, %84, %9, %7, %96) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
        "gpu.tma_copy"(%b, %0, %4, %6, %86, %57, %8, %7, %96) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
      } else {
      }
      %99 = arith.addi %69, %60 : i32
      %100 = tile.cmpi "sge", %99, %53 : i32, i32 to i1
      %101 = arith.subi %99, %53 : i32
      %102 = tile.select %100, %101, %99 : i1, i32, i32 to i32
      %103, %104, %105 = scf.if %54 -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32) {
        %106, %107, %108, %109, %110, %111 = scf.for %k = %44 to %42 step %45 iter_args(%112 = %46, %113 = %59, %114 = %44, %115 = %102, %116 = %69, %117 = %70) -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32) : i32 {
          gpu.tma_wait %7[%116], %117 : !gpu.barriers<#builtin.int<3>>
          %118 = gpu.wgmma "wgmma.k16.f16" %9[%116], %8[%116], %112 : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>, tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
          %119 = gpu.wgmma_wait %118, 1 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
          gpu.barrier
          %120 = arith.extsi %113 : i32 to i64
          %121 = arith.muli %120, %48 : i64
          %122 = tile.cmpi "slt", %113, %42 : i32, i32 to i1
          %123 = gpu.elect : i1
          %124 = arith.andi %123, %122 : i1
          scf.if %124 {
            gpu.expect %7[%115], 49152 : i32 : !gpu.barriers<#builtin.int<3>>
            "gpu.tma_copy"(%a, %4, %1, %5, %121, %84, %9, %7, %115) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
            "gpu.tma_copy"(%b, %0, %4, %6, %86, %121, %8, %7, %115) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
          } else {
          }
          %125 = arith.addi %113, %45 : i32
          %126 = arith.addi %115, %45 : i32
          %127 = tile.cmpi "eq", %126, %53 : i32, i32 to i1
          %128 = tile.select %127, %44, %126 : i1, i32, i32 to i32
          %129 = arith.addi %116, %45 : i32
          %130 = tile.cmpi "eq", %129, %53 : i32, i32 to i1
          %131 = tile.select %130, %44, %129 : i1, i32, i32 to i32
          %132 = arith.xori %117, %45 : i32
          %133 = tile.select %130, %132, %117 : i1, i32, i32 to i32
          scf.yield %119, %125, %114, %128, %131, %133 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32
        }
        %134 = gpu.wgmma_wait %106, 0 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        scf.yield %134, %110, %111 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
      } else {
        scf.yield %46, %69, %70 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
      }
      gpu.tma_store_wait %3 written : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %135 = gpu.part %103 {start = array<i64: 0, 0>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %135, %3[%44] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %136 = gpu.elect : i1
      scf.if %136 {
        "gpu.tma_store"(%out, %0, %1, %2, %86, %84, %3, %44) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %137 = gpu.part %103 {start = array<i64: 0, 32>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %137, %3[%45] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %138 = gpu.elect : i1
      %139 = arith.addi %86, %61 : i64
      scf.if %138 {
        "gpu.tma_store"(%out, %0, %1, %2, %139, %84, %3, %45) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %140 = gpu.part %103 {start = array<i64: 0, 64>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %140, %3[%60] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %141 = gpu.elect : i1
      %142 = arith.addi %86, %48 : i64
      scf.if %141 {
        "gpu.tma_store"(%out, %0, %1, %2, %142, %84, %3, %60) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %143 = gpu.part %103 {start = array<i64: 0, 96>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %143, %3[%53] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %144 = gpu.elect : i1
      %145 = arith.addi %86, %62 : i64
      scf.if %144 {
        "gpu.tma_store"(%out, %0, %1, %2, %145, %84, %3, %53) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %146 = gpu.part %103 {start = array<i64: 0, 128>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %146, %3[%63] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.tma_store_wait %3 but 3 : i32 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %147 = gpu.elect : i1
      %148 = arith.addi %86, %51 : i64
      scf.if %147 {
        "gpu.tma_store"(%out, %0, %1, %2, %148, %84, %3, %63) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %149 = gpu.part %103 {start = array<i64: 0, 160>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %149, %3[%44] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.tma_store_wait %3 but 3 : i32 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %150 = gpu.elect : i1
      %151 = arith.addi %86, %64 : i64
      scf.if %150 {
        "gpu.tma_store"(%out, %0, %1, %2, %151, %84, %3, %44) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %152 = gpu.part %103 {start = array<i64: 0, 192>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %152, %3[%45] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.tma_store_wait %3 but 3 : i32 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %153 = gpu.elect : i1
      %154 = arith.addi %86, %65 : i64
      scf.if %153 {
        "gpu.tma_store"(%out, %0, %1, %2, %154, %84, %3, %45) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %155 = gpu.part %103 {start = array<i64: 0, 224>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %155, %3[%60] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %156 = gpu.elect : i1
      %157 = arith.addi %86, %66 : i64
      scf.if %156 {
        "gpu.tma_store"(%out, %0, %1, %2, %157, %84, %3, %60) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      scf.yield %104, %105 : i32, i32
    }
    gpu.tma_store_wait %3 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
    func.return
  }
}
