// listing 1: C loaded and stored at every step
// Build(blocks=(16, 16, 16), warps=1, stages=1, group=1, form='listing1', off=('lower-dot{register-tile=false}', 'lower-dot{unroll=false}', 'lower-dot{wide=false}', 'promote-accumulator', 'licm', 'vectorize{split-bounds=false}', 'vectorize{prefetch=false}'), persistent=False)
builtin.module {
  func.func @matmul_fp32_16x16x16_g1_w1_s1_listing1(%0: i64, %1: i64) attributes {cpu.scratch_bytes = 3264 : i64, cpu.scheduled = ["!tile.ptr<f32>", "!tile.ptr<f32>", "!tile.ptr<f32>", "i32", "i32", "i32", "i32", "i32", "i32"], cpu.asserts = []} {
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
      %9 = "cpu.scratch_address"() <{offset = 2176 : i64}> : () -> !tile.ptr<f32>
      %10 = "cpu.scratch_address"() <{offset = 1088 : i64}> : () -> !tile.ptr<f32>
      %11 = "cpu.scratch_address"() <{offset = 0 : i64}> : () -> !tile.ptr<f32>
      %12 = arith.constant 15 : i32
      %13 = arith.addi %N, %12 : i32
      %14 = arith.constant 16 : i32
      %15 = arith.divsi %13, %14 : i32
      %16 = arith.divsi %8, %15 : i32
      %17 = arith.remsi %8, %15 : i32
      %18 = arith.muli %16, %14 : i32
      %19 = arith.muli %17, %14 : i32
      %20 = arith.constant 0.000000e+00 : f32
      %21 = arith.extsi %out_m : i32 to i64
      %22 = arith.extsi %18 : i32 to i64
      %23 = arith.muli %21, %22 : i64
      %24 = arith.extsi %19 : i32 to i64
      %25 = arith.addi %23, %24 : i64
      %26 = tile.addptr %out, %25 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %27 = arith.extsi %M : i32 to i64
      %28 = arith.subi %27, %22 : i64
      %29 = arith.extsi %N : i32 to i64
      %30 = arith.subi %29, %24 : i64
      %31 = arith.constant 0 : i64
      %32 = arith.constant 16 : i64
      scf.for %33 = %31 to %32 step %5 : i64 {
        %34 = "cpu.splat"(%20) : (f32) -> vector<16xf32>
        %35 = tile.cmpi "slt", %33, %28 : i64, i64 to i1
        %36 = tile.select %35, %30, %31 : i1, i64, i64 to i64
        %37 = arith.muli %33, %21 : i64
        %38 = "cpu.lane_mask"(%36) : (i64) -> vector<16xi1>
        "cpu.vector_store"(%26, %37, %34, %38) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<16xf32>, vector<16xi1>) -> ()
      }
      %39 = arith.addi %K, %12 : i32
      %40 = arith.divsi %39, %14 : i32
      %41 = arith.constant 0 : i32
      %42 = arith.constant 1 : i32
      scf.for %k = %41 to %40 step %42 : i32 {
        %43 = arith.muli %k, %14 : i32
        %44 = arith.extsi %a_m : i32 to i64
        %45 = arith.muli %22, %44 : i64
        %46 = arith.extsi %43 : i32 to i64
        %47 = arith.addi %45, %46 : i64
        %48 = tile.addptr %a, %47 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %49 = arith.extsi %K : i32 to i64
        %50 = arith.subi %49, %46 : i64
        %51 = arith.extsi %b_k : i32 to i64
        %52 = arith.muli %51, %46 : i64
        %53 = arith.addi %24, %52 : i64
        %54 = tile.addptr %b, %53 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        scf.for %55 = %31 to %32 step %5 : i64 {
          %56 = arith.constant 4 : i64
          scf.for %57 = %31 to %32 step %56 : i64 {
            %58 = tile.cmpi "slt", %55, %28 : i64, i64 to i1
            %59 = arith.subi %30, %57 : i64
            %60 = tile.select %58, %59, %31 : i1, i64, i64 to i64
            %61 = arith.muli %55, %21 : i64
            %62 = arith.addi %61, %57 : i64
            %63 = "cpu.lane_mask"(%60) : (i64) -> vector<4xi1>
            %64 = "cpu.vector_load"(%26, %62, %63, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<4xi1>, f32) -> vector<4xf32>
            %65 = arith.subi %50, %57 : i64
            %66 = tile.select %58, %65, %31 : i1, i64, i64 to i64
            %67 = arith.muli %55, %44 : i64
            %68 = arith.addi %67, %57 : i64
            %69 = "cpu.lane_mask"(%66) : (i64) -> vector<4xi1>
            %70 = "cpu.vector_load"(%48, %68, %69, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<4xi1>, f32) -> vector<4xf32>
            %71 = tile.cmpi "slt", %55, %50 : i64, i64 to i1
            %72 = tile.select %71, %59, %31 : i1, i64, i64 to i64
            %73 = arith.muli %55, %51 : i64
            %74 = arith.addi %73, %57 : i64
            %75 = "cpu.lane_mask"(%72) : (i64) -> vector<4xi1>
            %76 = "cpu.vector_load"(%54, %74, %75, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<4xi1>, f32) -> vector<4xf32>
            %77 = arith.constant 2 : i64
            %78 = arith.shrui %57, %77 : i64
            %79 = arith.muli %78, %32 : i64
            %80 = arith.addi %79, %55 : i64
            %81 = arith.muli %80, %56 : i64
            %82 = arith.constant 3 : i64
            %83 = arith.andi %57, %82 : i64
            %84 = arith.addi %81, %83 : i64
            "cpu.vector_store"(%11, %84, %64) <{alignment = 16 : i64}> : (!tile.ptr<f32>, i64, vector<4xf32>) -> ()
            %85 = arith.muli %55, %32 : i64
            %86 = arith.addi %85, %57 : i64
            "cpu.vector_store"(%10, %86, %70) <{alignment = 16 : i64}> : (!tile.ptr<f32>, i64, vector<4xf32>) -> ()
            "cpu.vector_store"(%9, %84, %76) <{alignment = 16 : i64}> : (!tile.ptr<f32>, i64, vector<4xf32>) -> ()
          }
        }
        "cpu.dot_call"(%10, %9, %11) <{plan = "fma 16x16x16 f32,f32,f32 1x1x4u1 row:16[16x16] panel:4[16x16] panel:4[16x16] 16x64 16x64", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>) -> ()
        scf.for %87 = %31 to %32 step %5 : i64 {
          %88 = arith.constant 4 : i64
          scf.for %89 = %31 to %32 step %88 : i64 {
            %90 = arith.constant 2 : i64
            %91 = arith.shrui %89, %90 : i64
            %92 = arith.muli %91, %32 : i64
            %93 = arith.addi %92, %87 : i64
            %94 = arith.muli %93, %88 : i64
            %95 = arith.constant 3 : i64
            %96 = arith.andi %89, %95 : i64
            %97 = arith.addi %94, %96 : i64
            %98 = "cpu.vector_load"(%11, %97) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 16 : i64}> : (!tile.ptr<f32>, i64) -> vector<4xf32>
            %99 = tile.cmpi "slt", %87, %28 : i64, i64 to i1
            %100 = arith.subi %30, %89 : i64
            %101 = tile.select %99, %100, %31 : i1, i64, i64 to i64
            %102 = arith.muli %87, %21 : i64
            %103 = arith.addi %102, %89 : i64
            %104 = "cpu.lane_mask"(%101) : (i64) -> vector<4xi1>
            "cpu.vector_store"(%26, %103, %98, %104) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<4xf32>, vector<4xi1>) -> ()
          }
        }
      }
      scf.for %105 = %31 to %32 step %5 : i64 {
        %106 = tile.cmpi "slt", %105, %28 : i64, i64 to i1
        %107 = tile.select %106, %30, %31 : i1, i64, i64 to i64
        %108 = arith.muli %105, %21 : i64
        %109 = "cpu.lane_mask"(%107) : (i64) -> vector<16xi1>
        %110 = "cpu.vector_load"(%26, %108, %109, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<16xi1>, f32) -> vector<16xf32>
        "cpu.vector_store"(%26, %108, %110, %109) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<16xf32>, vector<16xi1>) -> ()
      }
    }
    func.return
  }
}
