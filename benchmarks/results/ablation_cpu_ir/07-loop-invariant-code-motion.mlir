// + loop-invariant code motion
// Build(blocks=(256, 256, 128), warps=1, stages=1, group=1, form='tiled', off=('vectorize{split-bounds=false}', 'vectorize{prefetch=false}'), persistent=False)
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
    %6 = "cpu.scratch_address"() <{offset = 393344 : i64}> : () -> !tile.ptr<f32>
    %7 = "cpu.scratch_address"() <{offset = 262208 : i64}> : () -> !tile.ptr<f32>
    %8 = "cpu.scratch_address"() <{offset = 0 : i64}> : () -> !tile.ptr<f32>
    %9 = arith.constant 255 : i32
    %10 = arith.addi %N, %9 : i32
    %11 = arith.constant 256 : i32
    %12 = arith.divsi %10, %11 : i32
    %13 = arith.constant 127 : i32
    %14 = arith.addi %K, %13 : i32
    %15 = arith.constant 128 : i32
    %16 = arith.divsi %14, %15 : i32
    %17 = arith.constant 0.000000e+00 : f32
    %18 = arith.constant 0 : i32
    %19 = arith.constant 1 : i32
    %20 = arith.extsi %a_m : i32 to i64
    %21 = arith.extsi %M : i32 to i64
    %22 = arith.extsi %K : i32 to i64
    %23 = arith.extsi %b_k : i32 to i64
    %24 = arith.extsi %N : i32 to i64
    %25 = arith.constant 0 : i64
    %26 = arith.constant 256 : i64
    %27 = arith.constant 64 : i64
    %28 = arith.constant 6 : i64
    %29 = arith.constant 63 : i64
    %30 = "cpu.splat"(%17) : (f32) -> vector<64xf32>
    %31 = arith.constant 128 : i64
    %32 = arith.constant 64 : i64
    %33 = arith.constant 128 : i64
    %34 = arith.constant 64 : i64
    %35 = arith.constant 6 : i64
    %36 = arith.constant 63 : i64
    %37 = arith.extsi %out_m : i32 to i64
    %38 = arith.constant 64 : i64
    %39 = arith.constant 6 : i64
    %40 = arith.constant 63 : i64
    scf.for %41 = %0 to %1 step %5 : i64 {
      %42 = arith.remui %41, %2 : i64
      %43 = arith.trunci %42 : i64 to i32
      %44 = arith.divsi %43, %12 : i32
      %45 = arith.remsi %43, %12 : i32
      %46 = arith.muli %44, %11 : i32
      %47 = arith.muli %45, %11 : i32
      %48 = arith.extsi %46 : i32 to i64
      %49 = arith.muli %20, %48 : i64
      %50 = arith.subi %21, %48 : i64
      %51 = arith.extsi %47 : i32 to i64
      %52 = arith.subi %24, %51 : i64
      scf.for %53 = %25 to %26 step %5 : i64 {
        scf.for %54 = %25 to %26 step %27 : i64 {
          %55 = arith.shrui %54, %28 : i64
          %56 = arith.muli %55, %26 : i64
          %57 = arith.addi %56, %53 : i64
          %58 = arith.muli %57, %27 : i64
          %59 = arith.andi %54, %29 : i64
          %60 = arith.addi %58, %59 : i64
          "cpu.vector_store"(%8, %60, %30) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
        }
      }
      scf.for %k = %18 to %16 step %19 : i32 {
        %61 = arith.muli %k, %15 : i32
        %62 = arith.extsi %61 : i32 to i64
        %63 = arith.addi %49, %62 : i64
        %64 = tile.addptr %a, %63 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %65 = arith.subi %22, %62 : i64
        scf.for %66 = %25 to %26 step %5 : i64 {
          %67 = tile.cmpi "slt", %66, %50 : i64, i64 to i1
          %68 = arith.muli %66, %20 : i64
          %69 = arith.muli %66, %31 : i64
          scf.for %70 = %25 to %31 step %32 : i64 {
            %71 = arith.subi %65, %70 : i64
            %72 = tile.select %67, %71, %25 : i1, i64, i64 to i64
            %73 = arith.addi %68, %70 : i64
            %74 = "cpu.lane_mask"(%72) : (i64) -> vector<64xi1>
            %75 = "cpu.vector_load"(%64, %73, %74, %17) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
            %76 = arith.addi %69, %70 : i64
            "cpu.vector_store"(%7, %76, %75) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
        %77 = arith.muli %23, %62 : i64
        %78 = arith.addi %51, %77 : i64
        %79 = tile.addptr %b, %78 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        scf.for %80 = %25 to %33 step %5 : i64 {
          %81 = tile.cmpi "slt", %80, %65 : i64, i64 to i1
          %82 = arith.muli %80, %23 : i64
          scf.for %83 = %25 to %26 step %34 : i64 {
            %84 = arith.subi %52, %83 : i64
            %85 = tile.select %81, %84, %25 : i1, i64, i64 to i64
            %86 = arith.addi %82, %83 : i64
            %87 = "cpu.lane_mask"(%85) : (i64) -> vector<64xi1>
            %88 = "cpu.vector_load"(%79, %86, %87, %17) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
            %89 = arith.shrui %83, %35 : i64
            %90 = arith.muli %89, %33 : i64
            %91 = arith.addi %90, %80 : i64
            %92 = arith.muli %91, %34 : i64
            %93 = arith.andi %83, %36 : i64
            %94 = arith.addi %92, %93 : i64
            "cpu.vector_store"(%6, %94, %88) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
        "cpu.dot_call"(%7, %6, %8) <{plan = "fma 256x256x128 f32,f32,f32 4x4x16u4 row:128[256x128] panel:64[128x256] panel:64[256x256] 256x512 128x1024", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>) -> ()
      }
      %95 = arith.muli %48, %37 : i64
      %96 = arith.addi %95, %51 : i64
      %97 = tile.addptr %out, %96 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      scf.for %98 = %25 to %26 step %5 : i64 {
        %99 = tile.cmpi "slt", %98, %50 : i64, i64 to i1
        %100 = arith.muli %98, %37 : i64
        scf.for %101 = %25 to %26 step %38 : i64 {
          %102 = arith.shrui %101, %39 : i64
          %103 = arith.muli %102, %26 : i64
          %104 = arith.addi %103, %98 : i64
          %105 = arith.muli %104, %38 : i64
          %106 = arith.andi %101, %40 : i64
          %107 = arith.addi %105, %106 : i64
          %108 = "cpu.vector_load"(%8, %107) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
          %109 = arith.subi %52, %101 : i64
          %110 = tile.select %99, %109, %25 : i1, i64, i64 to i64
          %111 = arith.addi %100, %101 : i64
          %112 = "cpu.lane_mask"(%110) : (i64) -> vector<64xi1>
          "cpu.vector_store"(%97, %111, %108, %112) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
        }
      }
    }
    func.return
  }
}
