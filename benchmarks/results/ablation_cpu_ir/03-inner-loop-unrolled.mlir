// + inner loop unrolled
// Build(blocks=(256, 256, 128), warps=1, stages=1, group=1, form='listing1', off=('lower-dot{wide=false}', 'promote-accumulator', 'licm', 'vectorize{split-bounds=false}', 'vectorize{prefetch=false}'), persistent=False)
builtin.module {
  func.func @matmul_fp32_256x256x128_g1_w1_s1_listing1(%0: i64, %1: i64) attributes {cpu.scratch_bytes = 524480 : i64, cpu.scheduled = ["!tile.ptr<f32>", "!tile.ptr<f32>", "!tile.ptr<f32>", "i32", "i32", "i32", "i32", "i32", "i32"], cpu.asserts = []} {
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
      %32 = arith.constant 256 : i64
      scf.for %33 = %31 to %32 step %5 : i64 {
        %34 = arith.constant 64 : i64
        scf.for %35 = %31 to %32 step %34 : i64 {
          %36 = "cpu.splat"(%20) : (f32) -> vector<64xf32>
          %37 = tile.cmpi "slt", %33, %28 : i64, i64 to i1
          %38 = arith.subi %30, %35 : i64
          %39 = tile.select %37, %38, %31 : i1, i64, i64 to i64
          %40 = arith.muli %33, %21 : i64
          %41 = arith.addi %40, %35 : i64
          %42 = "cpu.lane_mask"(%39) : (i64) -> vector<64xi1>
          "cpu.vector_store"(%26, %41, %36, %42) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
        }
      }
      %43 = arith.constant 127 : i32
      %44 = arith.addi %K, %43 : i32
      %45 = arith.constant 128 : i32
      %46 = arith.divsi %44, %45 : i32
      %47 = arith.constant 0 : i32
      %48 = arith.constant 1 : i32
      scf.for %k = %47 to %46 step %48 : i32 {
        scf.for %49 = %31 to %32 step %5 : i64 {
          %50 = arith.constant 16 : i64
          scf.for %51 = %31 to %32 step %50 : i64 {
            %52 = tile.cmpi "slt", %49, %28 : i64, i64 to i1
            %53 = arith.subi %30, %51 : i64
            %54 = tile.select %52, %53, %31 : i1, i64, i64 to i64
            %55 = arith.muli %49, %21 : i64
            %56 = arith.addi %55, %51 : i64
            %57 = "cpu.lane_mask"(%54) : (i64) -> vector<16xi1>
            %58 = "cpu.vector_load"(%26, %56, %57, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<16xi1>, f32) -> vector<16xf32>
            %59 = arith.constant 4 : i64
            %60 = arith.shrui %51, %59 : i64
            %61 = arith.muli %60, %32 : i64
            %62 = arith.addi %61, %49 : i64
            %63 = arith.muli %62, %50 : i64
            %64 = arith.constant 15 : i64
            %65 = arith.andi %51, %64 : i64
            %66 = arith.addi %63, %65 : i64
            "cpu.vector_store"(%11, %66, %58) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<16xf32>) -> ()
          }
        }
        %67 = arith.muli %k, %45 : i32
        %68 = arith.extsi %a_m : i32 to i64
        %69 = arith.muli %22, %68 : i64
        %70 = arith.extsi %67 : i32 to i64
        %71 = arith.addi %69, %70 : i64
        %72 = tile.addptr %a, %71 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %73 = arith.extsi %K : i32 to i64
        %74 = arith.subi %73, %70 : i64
        scf.for %75 = %31 to %32 step %5 : i64 {
          %76 = arith.constant 128 : i64
          %77 = arith.constant 64 : i64
          scf.for %78 = %31 to %76 step %77 : i64 {
            %79 = tile.cmpi "slt", %75, %28 : i64, i64 to i1
            %80 = arith.subi %74, %78 : i64
            %81 = tile.select %79, %80, %31 : i1, i64, i64 to i64
            %82 = arith.muli %75, %68 : i64
            %83 = arith.addi %82, %78 : i64
            %84 = "cpu.lane_mask"(%81) : (i64) -> vector<64xi1>
            %85 = "cpu.vector_load"(%72, %83, %84, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
            %86 = arith.muli %75, %76 : i64
            %87 = arith.addi %86, %78 : i64
            "cpu.vector_store"(%10, %87, %85) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
        %88 = arith.extsi %b_k : i32 to i64
        %89 = arith.muli %88, %70 : i64
        %90 = arith.addi %24, %89 : i64
        %91 = tile.addptr %b, %90 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %92 = arith.constant 128 : i64
        scf.for %93 = %31 to %92 step %5 : i64 {
          %94 = arith.constant 16 : i64
          scf.for %95 = %31 to %32 step %94 : i64 {
            %96 = tile.cmpi "slt", %93, %74 : i64, i64 to i1
            %97 = arith.subi %30, %95 : i64
            %98 = tile.select %96, %97, %31 : i1, i64, i64 to i64
            %99 = arith.muli %93, %88 : i64
            %100 = arith.addi %99, %95 : i64
            %101 = "cpu.lane_mask"(%98) : (i64) -> vector<16xi1>
            %102 = "cpu.vector_load"(%91, %100, %101, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<16xi1>, f32) -> vector<16xf32>
            %103 = arith.constant 4 : i64
            %104 = arith.shrui %95, %103 : i64
            %105 = arith.muli %104, %92 : i64
            %106 = arith.addi %105, %93 : i64
            %107 = arith.muli %106, %94 : i64
            %108 = arith.constant 15 : i64
            %109 = arith.andi %95, %108 : i64
            %110 = arith.addi %107, %109 : i64
            "cpu.vector_store"(%9, %110, %102) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<16xf32>) -> ()
          }
        }
        "cpu.dot_call"(%10, %9, %11) <{plan = "fma 256x256x128 f32,f32,f32 4x4x4u4 row:128[256x128] panel:16[128x256] panel:16[256x256] 256x512 128x1024", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>) -> ()
        scf.for %111 = %31 to %32 step %5 : i64 {
          %112 = arith.constant 16 : i64
          scf.for %113 = %31 to %32 step %112 : i64 {
            %114 = arith.constant 4 : i64
            %115 = arith.shrui %113, %114 : i64
            %116 = arith.muli %115, %32 : i64
            %117 = arith.addi %116, %111 : i64
            %118 = arith.muli %117, %112 : i64
            %119 = arith.constant 15 : i64
            %120 = arith.andi %113, %119 : i64
            %121 = arith.addi %118, %120 : i64
            %122 = "cpu.vector_load"(%11, %121) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<16xf32>
            %123 = tile.cmpi "slt", %111, %28 : i64, i64 to i1
            %124 = arith.subi %30, %113 : i64
            %125 = tile.select %123, %124, %31 : i1, i64, i64 to i64
            %126 = arith.muli %111, %21 : i64
            %127 = arith.addi %126, %113 : i64
            %128 = "cpu.lane_mask"(%125) : (i64) -> vector<16xi1>
            "cpu.vector_store"(%26, %127, %122, %128) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<16xf32>, vector<16xi1>) -> ()
          }
        }
      }
      scf.for %129 = %31 to %32 step %5 : i64 {
        %130 = arith.constant 64 : i64
        scf.for %131 = %31 to %32 step %130 : i64 {
          %132 = tile.cmpi "slt", %129, %28 : i64, i64 to i1
          %133 = arith.subi %30, %131 : i64
          %134 = tile.select %132, %133, %31 : i1, i64, i64 to i64
          %135 = arith.muli %129, %21 : i64
          %136 = arith.addi %135, %131 : i64
          %137 = "cpu.lane_mask"(%134) : (i64) -> vector<64xi1>
          %138 = "cpu.vector_load"(%26, %136, %137, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
          "cpu.vector_store"(%26, %136, %138, %137) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
        }
      }
    }
    func.return
  }
}
