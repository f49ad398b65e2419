// + sums kept out of C's memory
// Build(blocks=(256, 256, 128), warps=1, stages=1, group=1, form='listing1', off=('licm', 'vectorize{split-bounds=false}', 'vectorize{prefetch=false}'), persistent=False)
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
      %49 = tile.cmpi "slt", %47, %46 : i32, i32 to i1
      scf.for %50 = %31 to %32 step %5 : i64 {
        %51 = arith.constant 64 : i64
        scf.for %52 = %31 to %32 step %51 : i64 {
          %53 = scf.if %49 -> (vector<64xf32>) {
            %54 = tile.cmpi "slt", %50, %28 : i64, i64 to i1
            %55 = arith.subi %30, %52 : i64
            %56 = tile.select %54, %55, %31 : i1, i64, i64 to i64
            %57 = arith.muli %50, %21 : i64
            %58 = arith.addi %57, %52 : i64
            %59 = tile.cmpi "sge", %56, %51 : i64, i64 to i1
            %60 = scf.if %59 -> (vector<64xf32>) {
              %61 = "cpu.vector_load"(%26, %58) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 4 : i64, ahead = 1024 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
              scf.yield %61 : vector<64xf32>
            } else {
              %62 = "cpu.lane_mask"(%56) : (i64) -> vector<64xi1>
              %63 = "cpu.vector_load"(%26, %58, %62, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
              scf.yield %63 : vector<64xf32>
            }
            scf.yield %60 : vector<64xf32>
          } else {
            %64 = "cpu.splat"(%20) : (f32) -> vector<64xf32>
            scf.yield %64 : vector<64xf32>
          }
          %65 = arith.constant 6 : i64
          %66 = arith.shrui %52, %65 : i64
          %67 = arith.muli %66, %32 : i64
          %68 = arith.addi %67, %50 : i64
          %69 = arith.muli %68, %51 : i64
          %70 = arith.constant 63 : i64
          %71 = arith.andi %52, %70 : i64
          %72 = arith.addi %69, %71 : i64
          "cpu.vector_store"(%11, %72, %53) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
        }
      }
      scf.for %k = %47 to %46 step %48 : i32 {
        %73 = arith.muli %k, %45 : i32
        %74 = arith.extsi %a_m : i32 to i64
        %75 = arith.muli %22, %74 : i64
        %76 = arith.extsi %73 : i32 to i64
        %77 = arith.addi %75, %76 : i64
        %78 = tile.addptr %a, %77 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %79 = arith.extsi %K : i32 to i64
        %80 = arith.subi %79, %76 : i64
        scf.for %81 = %31 to %32 step %5 : i64 {
          %82 = arith.constant 128 : i64
          %83 = arith.constant 64 : i64
          scf.for %84 = %31 to %82 step %83 : i64 {
            %85 = tile.cmpi "slt", %81, %28 : i64, i64 to i1
            %86 = arith.subi %80, %84 : i64
            %87 = tile.select %85, %86, %31 : i1, i64, i64 to i64
            %88 = arith.muli %81, %74 : i64
            %89 = arith.addi %88, %84 : i64
            %90 = "cpu.lane_mask"(%87) : (i64) -> vector<64xi1>
            %91 = "cpu.vector_load"(%78, %89, %90, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
            %92 = arith.muli %81, %82 : i64
            %93 = arith.addi %92, %84 : i64
            "cpu.vector_store"(%10, %93, %91) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
        %94 = arith.extsi %b_k : i32 to i64
        %95 = arith.muli %94, %76 : i64
        %96 = arith.addi %24, %95 : i64
        %97 = tile.addptr %b, %96 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %98 = arith.constant 128 : i64
        scf.for %99 = %31 to %98 step %5 : i64 {
          %100 = arith.constant 64 : i64
          scf.for %101 = %31 to %32 step %100 : i64 {
            %102 = tile.cmpi "slt", %99, %80 : i64, i64 to i1
            %103 = arith.subi %30, %101 : i64
            %104 = tile.select %102, %103, %31 : i1, i64, i64 to i64
            %105 = arith.muli %99, %94 : i64
            %106 = arith.addi %105, %101 : i64
            %107 = "cpu.lane_mask"(%104) : (i64) -> vector<64xi1>
            %108 = "cpu.vector_load"(%97, %106, %107, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
            %109 = arith.constant 6 : i64
            %110 = arith.shrui %101, %109 : i64
            %111 = arith.muli %110, %98 : i64
            %112 = arith.addi %111, %99 : i64
            %113 = arith.muli %112, %100 : i64
            %114 = arith.constant 63 : i64
            %115 = arith.andi %101, %114 : i64
            %116 = arith.addi %113, %115 : i64
            "cpu.vector_store"(%9, %116, %108) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
        "cpu.dot_call"(%10, %9, %11) <{plan = "fma 256x256x128 f32,f32,f32 4x4x16u4 row:128[256x128] panel:64[128x256] panel:64[256x256] 256x512 128x1024", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>) -> ()
      }
      scf.if %49 {
        scf.for %117 = %31 to %32 step %5 : i64 {
          %118 = arith.constant 64 : i64
          scf.for %119 = %31 to %32 step %118 : i64 {
            %120 = arith.constant 6 : i64
            %121 = arith.shrui %119, %120 : i64
            %122 = arith.muli %121, %32 : i64
            %123 = arith.addi %122, %117 : i64
            %124 = arith.muli %123, %118 : i64
            %125 = arith.constant 63 : i64
            %126 = arith.andi %119, %125 : i64
            %127 = arith.addi %124, %126 : i64
            %128 = "cpu.vector_load"(%11, %127) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
            %129 = tile.cmpi "slt", %117, %28 : i64, i64 to i1
            %130 = arith.subi %30, %119 : i64
            %131 = tile.select %129, %130, %31 : i1, i64, i64 to i64
            %132 = arith.muli %117, %21 : i64
            %133 = arith.addi %132, %119 : i64
            %134 = "cpu.lane_mask"(%131) : (i64) -> vector<64xi1>
            "cpu.vector_store"(%26, %133, %128, %134) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
          }
        }
      } else {
      }
      scf.for %135 = %31 to %32 step %5 : i64 {
        %136 = arith.constant 64 : i64
        scf.for %137 = %31 to %32 step %136 : i64 {
          %138 = tile.cmpi "slt", %135, %28 : i64, i64 to i1
          %139 = arith.subi %30, %137 : i64
          %140 = tile.select %138, %139, %31 : i1, i64, i64 to i64
          %141 = arith.muli %135, %21 : i64
          %142 = arith.addi %141, %137 : i64
          %143 = "cpu.lane_mask"(%140) : (i64) -> vector<64xi1>
          %144 = "cpu.vector_load"(%26, %142, %143, %20) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
          "cpu.vector_store"(%26, %142, %144, %143) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
        }
      }
    }
    func.return
  }
}
