// + a warp of its own copies
// Build(blocks=(128, 256, 64), warps=8, stages=4, group=8, form='tiled', off=(), persistent=True)
builtin.module {
  func.func @matmul_fp16_128x256x64_g8_w8_s4_persistent(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 4 : i32, gpu.ordered, gpu.unroll} {
    %0 = arith.extsi %N : i32 to i64
    %1 = arith.extsi %M : i32 to i64
    %2 = arith.extsi %out_m : i32 to i64
    %3 = gpu.alloc : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
    %4 = arith.extsi %K : i32 to i64
    %5 = arith.extsi %a_m : i32 to i64
    %6 = arith.extsi %b_k : i32 to i64
    %7 = gpu.barriers of 8 : i32 : !gpu.barriers<#builtin.int<3>>
    %8 = gpu.barriers : !gpu.barriers<#builtin.int<3>>
    %9 = gpu.alloc : !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>
    %10 = gpu.alloc : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>
    %11 = tile.program_id 0 : i32 : i32
    %12 = arith.constant 127 : i32
    %13 = arith.addi %M, %12 : i32
    %14 = arith.constant 128 : i32
    %15 = arith.divsi %13, %14 : i32
    %16 = arith.constant 255 : i32
    %17 = arith.addi %N, %16 : i32
    %18 = arith.constant 256 : i32
    %19 = arith.divsi %17, %18 : i32
    %20 = arith.muli %15, %19 : i32
    %21 = tile.num_programs 0 : i32 : i32
    %22 = arith.extsi %11 : i32 to i64
    %23 = arith.extsi %20 : i32 to i64
    %24 = arith.extsi %21 : i32 to i64
    %25 = arith.constant 0 : i64
    %26 = tile.cmpi "sgt", %24, %25 : i64, i64 to i1
    %27 = tile.select %26, %22, %23 : i1, i64, i64 to i64
    %28 = tile.select %26, %23, %22 : i1, i64, i64 to i64
    %29 = arith.subi %25, %24 : i64
    %30 = tile.select %26, %24, %29 : i1, i64, i64 to i64
    %31 = arith.subi %28, %27 : i64
    %32 = tile.cmpi "slt", %27, %28 : i64, i64 to i1
    %33 = arith.constant 1 : i64
    %34 = arith.subi %31, %33 : i64
    %35 = arith.divui %34, %30 : i64
    %36 = arith.addi %35, %33 : i64
    %37 = tile.select %32, %36, %25 : i1, i64, i64 to i64
    %38 = arith.constant 8 : i32
    %39 = arith.muli %38, %19 : i32
    %40 = arith.constant 63 : i32
    %41 = arith.addi %K, %40 : i32
    %42 = arith.constant 64 : i32
    %43 = arith.divsi %41, %42 : i32
    %44 = arith.constant 0.000000e+00 : f32
    %45 = arith.constant 0 : i32
    %46 = arith.constant 1 : i32
    %47 = arith.constant true
    gpu.produce {
      %48 = arith.constant 64 : i64
      %49 = arith.constant 1024 : i64
      %50 = arith.constant 128 : i64
      %51 = arith.constant 256 : i64
      %52 = arith.constant 3 : i32
      %53, %54 = scf.for %55 = %25 to %37 step %33 iter_args(%56 = %45, %57 = %46) -> (i32, i32) : i64 {
        %58 = arith.trunci %55 : i64 to i32
        %59 = arith.muli %58, %21 : i32
        %tile = arith.addi %11, %59 : i32
        %60 = arith.divsi %tile, %39 : i32
        %61 = arith.muli %60, %38 : i32
        %62 = arith.subi %15, %61 : i32
        %63 = arith.minsi %62, %38 : i32
        %64 = arith.remsi %tile, %63 : i32
        %65 = arith.remsi %tile, %39 : i32
        %66 = arith.divsi %65, %63 : i32
        %67 = arith.extsi %60 : i32 to i64
        %68 = arith.muli %67, %49 : i64
        %69 = arith.extsi %64 : i32 to i64
        %70 = arith.muli %69, %50 : i64
        %71 = arith.addi %68, %70 : i64
        %72 = arith.extsi %66 : i32 to i64
        %73 = arith.muli %72, %51 : i64
        %74, %75 = scf.for %76 = %45 to %43 step %46 iter_args(%77 = %56, %78 = %57) -> (i32, i32) : i32 {
          gpu.tma_wait %7[%77], %78 : !gpu.barriers<#builtin.int<3>>
          %79 = arith.extsi %76 : i32 to i64
          %80 = arith.muli %79, %48 : i64
          %81 = gpu.elect : i1
          %82 = arith.andi %81, %47 : i1
          scf.if %82 {
            gpu.expect %8[%77], 49152 : i32 : !gpu.barriers<#builtin.int<3>>
            "gpu.tma_copy"(%a, %4, %1, %5, %80, %71, %10, %8, %77) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
            "gpu.tma_copy"(%b, %0, %4, %6, %73, %80, %9, %8, %77) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>, !gpu.barriers<#builtin.int<3>>, i32) -> ()
          } else {
          }
          %83 = arith.addi %77, %46 : i32
          %84 = arith.xori %78, %46 : i32
          %85 = tile.cmpi "eq", %83, %52 : i32, i32 to i1
          %86 = tile.select %85, %45, %83 : i1, i32, i32 to i32
          %87 = tile.select %85, %84, %78 : i1, i32, i32 to i32
          scf.yield %86, %87 : i32, i32
        }
        scf.yield %74, %75 : i32, i32
      }
    }
    %88 = tile.splat %44 : f32 to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %89 = tile.cmpi "slt", %45, %43 : i32, i32 to i1
    %90 = arith.constant 256 : i64
    %91 = arith.constant 1024 : i64
    %92 = arith.constant 128 : i64
    %93 = arith.constant 32 : i64
    %94 = arith.constant 2 : i32
    %95 = arith.constant 64 : i64
    %96 = arith.constant 3 : i32
    %97 = arith.constant 96 : i64
    %98 = arith.constant 4 : i32
    %99 = arith.constant 160 : i64
    %100 = arith.constant 192 : i64
    %101 = arith.constant 224 : i64
    %102, %103 = scf.for %tile_1 = %25 to %37 step %33 iter_args(%104 = %45, %105 = %45) -> (i32, i32) : i64 {
      %106 = arith.trunci %tile_1 : i64 to i32
      %107 = arith.muli %106, %21 : i32
      %tile_2 = arith.addi %11, %107 : i32
      %108 = arith.divsi %tile_2, %39 : i32
      %109 = arith.muli %108, %38 : i32
      %110 = arith.subi %15, %109 : i32
      %111 = arith.minsi %110, %38 : i32
      %112 = arith.remsi %tile_2, %111 : i32
      %113 = arith.remsi %tile_2, %39 : i32
      %114 = arith.divsi %113, %111 : i32
      %115, %116, %117 = scf.if %89 -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32) {
        %118, %119, %120, %121 = scf.for %k = %45 to %43 step %46 iter_args(%122 = %88, %123 = %45, %124 = %104, %125 = %105) -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32) : i32 {
          gpu.tma_wait %8[%124], %125 : !gpu.barriers<#builtin.int<3>>
          %126 = gpu.wgmma "wgmma.k16.f16" %10[%124], %9[%124], %122 : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<3>>, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<3>>, tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
          %127 = gpu.wgmma_wait %126, 1 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
          %128 = tile.cmpi "ne", %k, %45 : i32, i32 to i1
          gpu.arrive %7[%123], %128 : !gpu.barriers<#builtin.int<3>>
          %129 = arith.addi %124, %46 : i32
          %130 = arith.xori %125, %46 : i32
          %131 = tile.cmpi "eq", %129, %96 : i32, i32 to i1
          %132 = tile.select %131, %45, %129 : i1, i32, i32 to i32
          %133 = tile.select %131, %130, %125 : i1, i32, i32 to i32
          scf.yield %127, %124, %132, %133 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32
        }
        %134 = gpu.wgmma_wait %118, 0 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        gpu.arrive %7[%119], %47 : !gpu.barriers<#builtin.int<3>>
        scf.yield %134, %120, %121 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
      } else {
        scf.yield %88, %104, %105 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
      }
      gpu.tma_store_wait %3 written : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %135 = arith.extsi %114 : i32 to i64
      %136 = arith.muli %135, %90 : i64
      %137 = arith.extsi %108 : i32 to i64
      %138 = arith.muli %137, %91 : i64
      %139 = arith.extsi %112 : i32 to i64
      %140 = arith.muli %139, %92 : i64
      %141 = arith.addi %138, %140 : i64
      %142 = gpu.part %115 {start = array<i64: 0, 0>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %142, %3[%45] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %143 = gpu.elect : i1
      scf.if %143 {
        "gpu.tma_store"(%out, %0, %1, %2, %136, %141, %3, %45) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %144 = gpu.part %115 {start = array<i64: 0, 32>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %144, %3[%46] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %145 = gpu.elect : i1
      %146 = arith.addi %136, %93 : i64
      scf.if %145 {
        "gpu.tma_store"(%out, %0, %1, %2, %146, %141, %3, %46) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %147 = gpu.part %115 {start = array<i64: 0, 64>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %147, %3[%94] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %148 = gpu.elect : i1
      %149 = arith.addi %136, %95 : i64
      scf.if %148 {
        "gpu.tma_store"(%out, %0, %1, %2, %149, %141, %3, %94) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %150 = gpu.part %115 {start = array<i64: 0, 96>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %150, %3[%96] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %151 = gpu.elect : i1
      %152 = arith.addi %136, %97 : i64
      scf.if %151 {
        "gpu.tma_store"(%out, %0, %1, %2, %152, %141, %3, %96) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %153 = gpu.part %115 {start = array<i64: 0, 128>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %153, %3[%98] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.tma_store_wait %3 but 3 : i32 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %154 = gpu.elect : i1
      %155 = arith.addi %136, %92 : i64
      scf.if %154 {
        "gpu.tma_store"(%out, %0, %1, %2, %155, %141, %3, %98) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %156 = gpu.part %115 {start = array<i64: 0, 160>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %156, %3[%45] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.tma_store_wait %3 but 3 : i32 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %157 = gpu.elect : i1
      %158 = arith.addi %136, %99 : i64
      scf.if %157 {
        "gpu.tma_store"(%out, %0, %1, %2, %158, %141, %3, %45) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %159 = gpu.part %115 {start = array<i64: 0, 192>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %159, %3[%46] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.tma_store_wait %3 but 3 : i32 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %160 = gpu.elect : i1
      %161 = arith.addi %136, %100 : i64
      scf.if %160 {
        "gpu.tma_store"(%out, %0, %1, %2, %161, %141, %3, %46) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      %162 = gpu.part %115 {start = array<i64: 0, 224>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      gpu.local_store %162, %3[%94] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
      gpu.barrier
      %163 = gpu.elect : i1
      %164 = arith.addi %136, %101 : i64
      scf.if %163 {
        "gpu.tma_store"(%out, %0, %1, %2, %164, %141, %3, %94) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>, i32) -> ()
      } else {
      }
      scf.yield %116, %117 : i32, i32
    }
    gpu.tma_store_wait %3 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<5>>
    func.return
  }
}
