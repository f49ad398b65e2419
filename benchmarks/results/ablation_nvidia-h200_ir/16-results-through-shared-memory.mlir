// + results through shared memory
// Build(blocks=(128, 256, 64), warps=8, stages=4, group=8, form='tiled', off=('specialize-warps',), persistent=False)
builtin.module {
  func.func @matmul_fp16_128x256x64_g8_w8_s4(%a: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "a"}, %b: !tile.ptr<f16> {tile.divisibility = 16 : i32, tile.name = "b"}, %out: !tile.ptr<f32> {tile.divisibility = 16 : i32, tile.name = "out"}, %M: i32 {tile.name = "M"}, %N: i32 {tile.divisibility = 16 : i32, tile.name = "N"}, %K: i32 {tile.divisibility = 16 : i32, tile.name = "K"}, %a_m: i32 {tile.divisibility = 16 : i32, tile.name = "a_m"}, %b_k: i32 {tile.divisibility = 16 : i32, tile.name = "b_k"}, %out_m: i32 {tile.divisibility = 16 : i32, tile.name = "out_m"}) attributes {gpu.warps = 8 : i32, gpu.stages = 4 : i32, gpu.ordered, gpu.unroll} {
    %0 = arith.extsi %N : i32 to i64
    %1 = arith.extsi %M : i32 to i64
    %2 = arith.extsi %out_m : i32 to i64
    %3 = gpu.alloc : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    %4 = arith.extsi %K : i32 to i64
    %5 = arith.extsi %a_m : i32 to i64
    %6 = arith.extsi %b_k : i32 to i64
    %7 = gpu.barriers : !gpu.barriers<#builtin.int<4>>
    %8 = gpu.alloc : !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>
    %9 = gpu.alloc : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>
    %10 = tile.program_id 0 : i32 : i32
    %11 = arith.constant 127 : i32
    %12 = arith.addi %M, %11 : i32
    %13 = arith.constant 128 : i32
    %14 = arith.divsi %12, %13 : i32
    %15 = arith.constant 255 : i32
    %16 = arith.addi %N, %15 : i32
    %17 = arith.constant 256 : i32
    %18 = arith.divsi %16, %17 : i32
    %19 = arith.constant 8 : i32
    %20 = arith.muli %19, %18 : i32
    %21 = arith.divsi %10, %20 : i32
    %22 = arith.muli %21, %19 : i32
    %23 = arith.subi %14, %22 : i32
    %24 = arith.minsi %23, %19 : i32
    %25 = arith.remsi %10, %24 : i32
    %26 = arith.remsi %10, %20 : i32
    %27 = arith.divsi %26, %24 : i32
    %28 = arith.constant 63 : i32
    %29 = arith.addi %K, %28 : i32
    %30 = arith.constant 64 : i32
    %31 = arith.divsi %29, %30 : i32
    %32 = arith.constant 0.000000e+00 : f32
    %33 = arith.constant 0 : i32
    %34 = arith.constant 1 : i32
    %35 = tile.splat %32 : f32 to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %36 = arith.extsi %33 : i32 to i64
    %37 = arith.constant 64 : i64
    %38 = arith.muli %36, %37 : i64
    %39 = arith.extsi %21 : i32 to i64
    %40 = arith.constant 1024 : i64
    %41 = arith.muli %39, %40 : i64
    %42 = arith.extsi %25 : i32 to i64
    %43 = arith.constant 128 : i64
    %44 = arith.muli %42, %43 : i64
    %45 = arith.addi %41, %44 : i64
    %46 = arith.extsi %27 : i32 to i64
    %47 = arith.constant 256 : i64
    %48 = arith.muli %46, %47 : i64
    %49 = tile.cmpi "slt", %33, %31 : i32, i32 to i1
    %50 = gpu.elect : i1
    %51 = arith.andi %50, %49 : i1
    scf.if %51 {
      gpu.expect %7[%33], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %4, %1, %5, %38, %45, %9, %7, %33) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %0, %4, %6, %48, %38, %8, %7, %33) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %52 = arith.addi %33, %34 : i32
    %53 = arith.extsi %52 : i32 to i64
    %54 = arith.muli %53, %37 : i64
    %55 = tile.cmpi "slt", %52, %31 : i32, i32 to i1
    %56 = gpu.elect : i1
    %57 = arith.andi %56, %55 : i1
    scf.if %57 {
      gpu.expect %7[%34], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %4, %1, %5, %54, %45, %9, %7, %34) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %0, %4, %6, %48, %54, %8, %7, %34) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %58 = arith.addi %52, %34 : i32
    %59 = arith.extsi %58 : i32 to i64
    %60 = arith.muli %59, %37 : i64
    %61 = arith.constant 2 : i32
    %62 = tile.cmpi "slt", %58, %31 : i32, i32 to i1
    %63 = gpu.elect : i1
    %64 = arith.andi %63, %62 : i1
    scf.if %64 {
      gpu.expect %7[%61], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
      "gpu.tma_copy"(%a, %4, %1, %5, %60, %45, %9, %7, %61) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
      "gpu.tma_copy"(%b, %0, %4, %6, %48, %60, %8, %7, %61) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
    } else {
    }
    %65 = arith.addi %58, %34 : i32
    %66 = arith.constant 3 : i32
    %67, %68, %69 = scf.if %49 -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32) {
      %70 = arith.constant 4 : i32
      %71, %72, %73, %74, %75, %76 = scf.for %k = %33 to %31 step %34 iter_args(%77 = %35, %78 = %65, %79 = %33, %80 = %66, %81 = %33, %82 = %33) -> (tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32) : i32 {
        gpu.tma_wait %7[%81], %82 : !gpu.barriers<#builtin.int<4>>
        %83 = gpu.wgmma "wgmma.k16.f16" %9[%81], %8[%81], %77 : !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        %84 = gpu.wgmma_wait %83, 1 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
        gpu.barrier
        %85 = arith.extsi %78 : i32 to i64
        %86 = arith.muli %85, %37 : i64
        %87 = tile.cmpi "slt", %78, %31 : i32, i32 to i1
        %88 = gpu.elect : i1
        %89 = arith.andi %88, %87 : i1
        scf.if %89 {
          gpu.expect %7[%80], 49152 : i32 : !gpu.barriers<#builtin.int<4>>
          "gpu.tma_copy"(%a, %4, %1, %5, %86, %45, %9, %7, %80) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
          "gpu.tma_copy"(%b, %0, %4, %6, %48, %86, %8, %7, %80) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1, 1>}> : (!tile.ptr<f16>, i64, i64, i64, i64, i64, !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.barriers<#builtin.int<4>>, i32) -> ()
        } else {
        }
        %90 = arith.addi %78, %34 : i32
        %91 = arith.addi %80, %34 : i32
        %92 = tile.cmpi "eq", %91, %70 : i32, i32 to i1
        %93 = tile.select %92, %33, %91 : i1, i32, i32 to i32
        %94 = arith.addi %81, %34 : i32
        %95 = tile.cmpi "eq", %94, %70 : i32, i32 to i1
        %96 = tile.select %95, %33, %94 : i1, i32, i32 to i32
        %97 = arith.xori %82, %34 : i32
        %98 = tile.select %95, %97, %82 : i1, i32, i32 to i32
        scf.yield %84, %90, %79, %93, %96, %98 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32, i32, i32, i32
      }
      %99 = gpu.wgmma_wait %71, 0 : i32 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
      scf.yield %99, %75, %76 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    } else {
      scf.yield %35, %33, %33 : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, i32, i32
    }
    gpu.release %8, %9 : !gpu.shared<tensor<64x256xf16>, "64x256x2 dim1 span128", #builtin.int<4>>, !gpu.shared<tensor<128x64xf16>, "128x64x2 dim1 span128", #builtin.int<4>>
    %100 = gpu.part %67 {start = array<i64: 0, 0>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    gpu.barrier
    gpu.local_store %100, %3[%33] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %101 = gpu.elect : i1
    scf.if %101 {
      "gpu.tma_store"(%out, %0, %1, %2, %48, %45, %3, %33) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    %102 = gpu.part %67 {start = array<i64: 0, 32>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    gpu.local_store %102, %3[%34] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %103 = gpu.elect : i1
    %104 = arith.constant 32 : i64
    %105 = arith.addi %48, %104 : i64
    scf.if %103 {
      "gpu.tma_store"(%out, %0, %1, %2, %105, %45, %3, %34) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    %106 = gpu.part %67 {start = array<i64: 0, 64>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    gpu.local_store %106, %3[%61] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %107 = gpu.elect : i1
    %108 = arith.addi %48, %37 : i64
    scf.if %107 {
      "gpu.tma_store"(%out, %0, %1, %2, %108, %45, %3, %61) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    %109 = gpu.part %67 {start = array<i64: 0, 96>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    gpu.local_store %109, %3[%66] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %110 = gpu.elect : i1
    %111 = arith.constant 96 : i64
    %112 = arith.addi %48, %111 : i64
    scf.if %110 {
      "gpu.tma_store"(%out, %0, %1, %2, %112, %45, %3, %66) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    %113 = gpu.part %67 {start = array<i64: 0, 128>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %114 = arith.constant 4 : i32
    gpu.local_store %113, %3[%114] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %115 = gpu.elect : i1
    %116 = arith.addi %48, %43 : i64
    scf.if %115 {
      "gpu.tma_store"(%out, %0, %1, %2, %116, %45, %3, %114) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    %117 = gpu.part %67 {start = array<i64: 0, 160>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %118 = arith.constant 5 : i32
    gpu.local_store %117, %3[%118] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %119 = gpu.elect : i1
    %120 = arith.constant 160 : i64
    %121 = arith.addi %48, %120 : i64
    scf.if %119 {
      "gpu.tma_store"(%out, %0, %1, %2, %121, %45, %3, %118) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    %122 = gpu.part %67 {start = array<i64: 0, 192>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %123 = arith.constant 6 : i32
    gpu.local_store %122, %3[%123] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %124 = gpu.elect : i1
    %125 = arith.constant 192 : i64
    %126 = arith.addi %48, %125 : i64
    scf.if %124 {
      "gpu.tma_store"(%out, %0, %1, %2, %126, %45, %3, %123) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    %127 = gpu.part %67 {start = array<i64: 0, 224>} : tensor<128x256xf32, "128x256 r[0,1 8,0 0,8 0,16 0,32 0,64 0,128] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]"> to tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">
    %128 = arith.constant 7 : i32
    gpu.local_store %127, %3[%128] {gpu.vector = 2 : i32} : tensor<128x32xf32, "128x32 r[0,1 8,0 0,8 0,16] l[0,2 0,4 1,0 2,0 4,0] w[16,0 32,0 64,0]">, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    gpu.barrier
    %129 = gpu.elect : i1
    %130 = arith.constant 224 : i64
    %131 = arith.addi %48, %130 : i64
    scf.if %129 {
      "gpu.tma_store"(%out, %0, %1, %2, %131, %45, %3, %128) <{guarded = array<i64>, operandSegmentSizes = array<i32: 1, 2, 1, 2, 1, 1>}> : (!tile.ptr<f32>, i64, i64, i64, i64, i64, !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>, i32) -> ()
    } else {
    }
    gpu.tma_store_wait %3 : !gpu.shared<tensor<128x32xf32>, "128x32x4 dim1 span128", #builtin.int<8>>
    func.return
  }
}
