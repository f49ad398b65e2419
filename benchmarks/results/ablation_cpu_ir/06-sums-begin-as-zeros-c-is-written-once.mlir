// + sums begin as zeros, C is written once
// Build(blocks=(256, 256, 128), warps=1, stages=1, group=1, form='tiled', off=('licm', 'vectorize{split-bounds=false}', 'vectorize{prefetch=false}'), persistent=False)
builtin.module {
  func.func @matmul_fp32_256x256x128_g1_w1_s1(%0: i64, %1: i64) attributes {cpu.scratch_bytes = 524480 : i64, cpu.scheduled = ["!tile.ptr<f32>", "!tile.ptr<f32>", "!tile.ptr<f32>", "i32", "i32", "i32", "i32", "i32", "i32"], cpu.asserts = []} {
    %a = "cpu.argument"() <{index = 0 : i64}> : () -> !tile.ptr<f32>
    %b = "cpu.argument"() <{index = 1 : i64}> : () -> !tile.ptr<f32>
    %out = "cpu.argument"() <{index = 2 : i64}> : () -> !tile.ptr<f32>
    %M = "cpu.argument"() <{index = 3 : i64}> : () -> i32
    %N = "cpu.argument"() <{index = 4 : i64}> : () -> i32
    %K = "cpu.argument"() <{index = 5 : i64}> : () -> i32
    %a_m = "cpu.argument"() <{index = 6 : i64}> : () -> i32
    %b_k = "cpu.argument"() <{index = 7 : i64}> : () -> i32
    %out_m = "cpu.argument"() <{index = 8 : i64}> : () -> i32
    %2 = "cpu.argument"() <{index = 9 : i64}> : () -> i64
    %3 = "cpu.argument"() <{index = 10 : i64}> : () -> i64
    %4 = "cpu.argument"() <{index = 11 : i64}> : () -> i64
    %5 = arith.constant 1 : i64
    scf.for %6 = %0 to %1 step %5 : i64 {
      %7 = arith.remui %6, %2 : i64
      %8 = arith.trunci %7 : i64 to i32
      %9 = "cpu.scratch_address"() <{offset = 393344 : i64}> : () -> !tile.ptr<f32>
      %10 = "cpu.scratch_address"() <{offset = 262208 : i64}> : () -> !tile.ptr<f32>
      %11 = "cpu.scratch_address"() <{offset = 0 : i64}> : () -> !tile.ptr<f32>
      %12 = arith.constant 255 : i32
      %13 = arith.addi %N, %12 : i32
      %14 = arith.constant 256 : i32
      %15 = arith.divsi %13, %14 : i32
      %16 = arith.divsi %8, %15 : i32
      %17 = arith.remsi %8, %15 : i32
      %18 = arith.muli %16, %14 : i32
      %19 = arith.muli %17, %14 : i32
      %20 = arith.constant 127 : i32
      %21 = arith.addi %K, %20 : i32
      %22 = arith.constant 128 : i32
      %23 = arith.divsi %21, %22 : i32
      %24 = arith.constant 0.000000e+00 : f32
      %25 = arith.constant 0 : i32
      %26 = arith.constant 1 : i32
      %27 = arith.constant 0 : i64
      %28 = arith.constant 256 : i64
      scf.for %29 = %27 to %28 step %5 : i64 {
        %30 = arith.constant 64 : i64
        scf.for %31 = %27 to %28 step %30 : i64 {
          %32 = arith.constant 6 : i64
          %33 = arith.shrui %31, %32 : i64
          %34 = arith.muli %33, %28 : i64
          %35 = arith.addi %34, %29 : i64
          %36 = arith.muli %35, %30 : i64
          %37 = arith.constant 63 : i64
          %38 = arith.andi %31, %37 : i64
          %39 = arith.addi %36, %38 : i64
          %40 = "cpu.splat"(%24) : (f32) -> vector<64xf32>
          "cpu.vector_store"(%11, %39, %40) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
        }
      }
      scf.for %k = %25 to %23 step %26 : i32 {
        %41 = arith.muli %k, %22 : i32
        %42 = arith.extsi %a_m : i32 to i64
        %43 = arith.extsi %18 : i32 to i64
        %44 = arith.muli %42, %43 : i64
        %45 = arith.extsi %41 : i32 to i64
        %46 = arith.addi %44, %45 : i64
        %47 = tile.addptr %a, %46 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %48 = arith.extsi %M : i32 to i64
        %49 = arith.subi %48, %43 : i64
        %50 = arith.extsi %K : i32 to i64
        %51 = arith.subi %50, %45 : i64
        scf.for %52 = %27 to %28 step %5 : i64 {
          %53 = arith.constant 128 : i64
          %54 = arith.constant 64 : i64
          scf.for %55 = %27 to %53 step %54 : i64 {
            %56 = tile.cmpi "slt", %52, %49 : i64, i64 to i1
            %57 = arith.subi %51, %55 : i64
            %58 = tile.select %56, %57, %27 : i1, i64, i64 to i64
            %59 = arith.muli %52, %42 : i64
            %60 = arith.addi %59, %55 : i64
            %61 = "cpu.lane_mask"(%58) : (i64) -> vector<64xi1>
            %62 = "cpu.vector_load"(%47, %60, %61, %24) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
            %63 = arith.muli %52, %53 : i64
            %64 = arith.addi %63, %55 : i64
            "cpu.vector_store"(%10, %64, %62) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
        %65 = arith.extsi %19 : i32 to i64
        %66 = arith.extsi %b_k : i32 to i64
        %67 = arith.muli %66, %45 : i64
        %68 = arith.addi %65, %67 : i64
        %69 = tile.addptr %b, %68 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %70 = arith.extsi %N : i32 to i64
        %71 = arith.subi %70, %65 : i64
        %72 = arith.constant 128 : i64
        scf.for %73 = %27 to %72 step %5 : i64 {
          %74 = arith.constant 64 : i64
          scf.for %75 = %27 to %28 step %74 : i64 {
            %76 = tile.cmpi "slt", %73, %51 : i64, i64 to i1
            %77 = arith.subi %71, %75 : i64
            %78 = tile.select %76, %77, %27 : i1, i64, i64 to i64
            %79 = arith.muli %73, %66 : i64
            %80 = arith.addi %79, %75 : i64
            %81 = "cpu.lane_mask"(%78) : (i64) -> vector<64xi1>
            %82 = "cpu.vector_load"(%69, %80, %81, %24) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
            %83 = arith.constant 6 : i64
            %84 = arith.shrui %75, %83 : i64
            %85 = arith.muli %84, %72 : i64
            %86 = arith.addi %85, %73 : i64
            %87 = arith.muli %86, %74 : i64
            %88 = arith.constant 63 : i64
            %89 = arith.andi %75, %88 : i64
            %90 = arith.addi %87, %89 : i64
            "cpu.vector_store"(%9, %90, %82) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
        "cpu.dot_call"(%10, %9, %11) <{plan = "fma 256x256x128 f32,f32,f32 4x4x16u4 row:128[256x128] panel:64[128x256] panel:64[256x256] 256x512 128x1024", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>) -> ()
      }
      %91 = arith.extsi %18 : i32 to i64
      %92 = arith.extsi %out_m : i32 to i64
      %93 = arith.muli %91, %92 : i64
      %94 = arith.extsi %19 : i32 to i64
      %95 = arith.addi %93, %94 : i64
      %96 = tile.addptr %out, %95 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %97 = arith.extsi %M : i32 to i64
      %98 = arith.subi %97, %91 : i64
      %99 = arith.extsi %N : i32 to i64
      %100 = arith.subi %99, %94 : i64
      scf.for %101 = %27 to %28 step %5 : i64 {
        %102 = arith.constant 64 : i64
        scf.for %103 = %27 to %28 step %102 : i64 {
          %104 = arith.constant 6 : i64
          %105 = arith.shrui %103, %104 : i64
          %106 = arith.muli %105, %28 : i64
          %107 = arith.addi %106, %101 : i64
          %108 = arith.muli %107, %102 : i64
          %109 = arith.constant 63 : i64
          %110 = arith.andi %103, %109 : i64
          %111 = arith.addi %108, %110 : i64
          %112 = "cpu.vector_load"(%11, %111) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
          %113 = tile.cmpi "slt", %101, %98 : i64, i64 to i1
          %114 = arith.subi %100, %103 : i64
          %115 = tile.select %113, %114, %27 : i1, i64, i64 to i64
          %116 = arith.muli %101, %92 : i64
          %117 = arith.addi %116, %103 : i64
          %118 = "cpu.lane_mask"(%115) : (i64) -> vector<64xi1>
          "cpu.vector_store"(%96, %117, %112, %118) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
        }
      }
    }
    func.return
  }
}
