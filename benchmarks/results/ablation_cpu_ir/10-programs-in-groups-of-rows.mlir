// + programs in groups of rows
// Build(blocks=(256, 256, 128), warps=1, stages=1, group=8, form='tiled', off=(), persistent=False)
builtin.module {
  func.func @matmul_fp32_256x256x128_g8_w1_s1(%0: i64, %1: i64) attributes {cpu.scratch_bytes = 524480 : i64, cpu.scheduled = ["!tile.ptr<f32>", "!tile.ptr<f32>", "!tile.ptr<f32>", "i32", "i32", "i32", "i32", "i32", "i32"], cpu.asserts = []} {
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
    %10 = arith.addi %M, %9 : i32
    %11 = arith.constant 256 : i32
    %12 = arith.divsi %10, %11 : i32
    %13 = arith.addi %N, %9 : i32
    %14 = arith.divsi %13, %11 : i32
    %15 = arith.constant 8 : i32
    %16 = arith.muli %15, %14 : i32
    %17 = arith.constant 127 : i32
    %18 = arith.addi %K, %17 : i32
    %19 = arith.constant 128 : i32
    %20 = arith.divsi %18, %19 : i32
    %21 = arith.constant 0.000000e+00 : f32
    %22 = arith.constant 0 : i32
    %23 = arith.constant 1 : i32
    %24 = arith.extsi %a_m : i32 to i64
    %25 = arith.extsi %M : i32 to i64
    %26 = arith.extsi %K : i32 to i64
    %27 = arith.extsi %b_k : i32 to i64
    %28 = arith.extsi %N : i32 to i64
    %29 = arith.constant 0 : i64
    %30 = arith.constant 256 : i64
    %31 = arith.constant 64 : i64
    %32 = arith.constant 6 : i64
    %33 = arith.constant 63 : i64
    %34 = "cpu.splat"(%21) : (f32) -> vector<64xf32>
    %35 = arith.constant 128 : i64
    %36 = arith.constant 4 : i64
    %37 = arith.muli %24, %36 : i64
    %38 = arith.muli %27, %36 : i64
    %39 = arith.extsi %out_m : i32 to i64
    scf.for %40 = %0 to %1 step %5 : i64 {
      %41 = arith.remui %40, %2 : i64
      %42 = arith.trunci %41 : i64 to i32
      %43 = arith.divsi %42, %16 : i32
      %44 = arith.muli %43, %15 : i32
      %45 = arith.subi %12, %44 : i32
      %46 = arith.minsi %45, %15 : i32
      %47 = arith.remsi %42, %46 : i32
      %48 = arith.addi %44, %47 : i32
      %49 = arith.remsi %42, %16 : i32
      %50 = arith.divsi %49, %46 : i32
      %51 = arith.muli %48, %11 : i32
      %52 = arith.muli %50, %11 : i32
      %53 = arith.extsi %51 : i32 to i64
      %54 = arith.muli %24, %53 : i64
      %55 = arith.subi %25, %53 : i64
      %56 = arith.extsi %52 : i32 to i64
      %57 = arith.subi %28, %56 : i64
      scf.for %58 = %29 to %30 step %5 : i64 {
        scf.for %59 = %29 to %30 step %31 : i64 {
          %60 = arith.shrui %59, %32 : i64
          %61 = arith.muli %60, %30 : i64
          %62 = arith.addi %61, %58 : i64
          %63 = arith.muli %62, %31 : i64
          %64 = arith.andi %59, %33 : i64
          %65 = arith.addi %63, %64 : i64
          "cpu.vector_store"(%8, %65, %34) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
        }
      }
      %66 = tile.cmpi "sge", %55, %30 : i64, i64 to i1
      %67 = tile.cmpi "sge", %57, %30 : i64, i64 to i1
      scf.for %k = %22 to %20 step %23 : i32 {
        %68 = arith.muli %k, %19 : i32
        %69 = arith.extsi %68 : i32 to i64
        %70 = arith.addi %54, %69 : i64
        %71 = tile.addptr %a, %70 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %72 = arith.subi %26, %69 : i64
        %73 = tile.cmpi "sge", %72, %35 : i64, i64 to i1
        %74 = arith.andi %66, %73 : i1
        scf.if %74 {
          %75 = arith.constant 64 : i64
          scf.for %76 = %29 to %30 step %5 : i64 {
            %77 = arith.muli %76, %24 : i64
            %78 = arith.muli %76, %35 : i64
            scf.for %79 = %29 to %35 step %75 : i64 {
              %80 = arith.addi %77, %79 : i64
              %81 = "cpu.vector_load"(%71, %80) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
              %82 = arith.addi %78, %79 : i64
              "cpu.vector_store"(%7, %82, %81) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        } else {
          %83 = arith.constant 64 : i64
          scf.for %84 = %29 to %30 step %5 : i64 {
            %85 = tile.cmpi "slt", %84, %55 : i64, i64 to i1
            %86 = arith.muli %84, %24 : i64
            %87 = arith.muli %84, %35 : i64
            scf.for %88 = %29 to %35 step %83 : i64 {
              %89 = arith.subi %72, %88 : i64
              %90 = tile.select %85, %89, %29 : i1, i64, i64 to i64
              %91 = arith.addi %86, %88 : i64
              %92 = "cpu.lane_mask"(%90) : (i64) -> vector<64xi1>
              %93 = "cpu.vector_load"(%71, %91, %92, %21) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
              %94 = arith.addi %87, %88 : i64
              "cpu.vector_store"(%7, %94, %93) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        }
        %95 = arith.muli %27, %69 : i64
        %96 = arith.addi %56, %95 : i64
        %97 = tile.addptr %b, %96 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %98 = arith.andi %73, %67 : i1
        scf.if %98 {
          %99 = arith.constant 64 : i64
          %100 = arith.constant 6 : i64
          %101 = arith.constant 63 : i64
          scf.for %102 = %29 to %35 step %5 : i64 {
            %103 = arith.muli %102, %27 : i64
            scf.for %104 = %29 to %30 step %99 : i64 {
              %105 = arith.addi %103, %104 : i64
              %106 = "cpu.vector_load"(%97, %105) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
              %107 = arith.shrui %104, %100 : i64
              %108 = arith.muli %107, %35 : i64
              %109 = arith.addi %108, %102 : i64
              %110 = arith.muli %109, %99 : i64
              %111 = arith.andi %104, %101 : i64
              %112 = arith.addi %110, %111 : i64
              "cpu.vector_store"(%6, %112, %106) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        } else {
          %113 = arith.constant 64 : i64
          %114 = arith.constant 6 : i64
          %115 = arith.constant 63 : i64
          scf.for %116 = %29 to %35 step %5 : i64 {
            %117 = tile.cmpi "slt", %116, %72 : i64, i64 to i1
            %118 = arith.muli %116, %27 : i64
            scf.for %119 = %29 to %30 step %113 : i64 {
              %120 = arith.subi %57, %119 : i64
              %121 = tile.select %117, %120, %29 : i1, i64, i64 to i64
              %122 = arith.addi %118, %119 : i64
              %123 = "cpu.lane_mask"(%121) : (i64) -> vector<64xi1>
              %124 = "cpu.vector_load"(%97, %122, %123, %21) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
              %125 = arith.shrui %119, %114 : i64
              %126 = arith.muli %125, %35 : i64
              %127 = arith.addi %126, %116 : i64
              %128 = arith.muli %127, %113 : i64
              %129 = arith.andi %119, %115 : i64
              %130 = arith.addi %128, %129 : i64
              "cpu.vector_store"(%6, %130, %124) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        }
        %131 = arith.addi %k, %23 : i32
        %132 = arith.muli %131, %19 : i32
        %133 = arith.extsi %132 : i32 to i64
        %134 = arith.addi %54, %133 : i64
        %135 = tile.addptr %a, %134 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %136 = arith.muli %27, %133 : i64
        %137 = arith.addi %56, %136 : i64
        %138 = tile.addptr %b, %137 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        "cpu.dot_call"(%7, %6, %8, %135, %37, %138, %38) <{plan = "fma 256x256x128 f32,f32,f32 4x4x16u4 row:128[256x128] panel:64[128x256] panel:64[256x256] 256x512 128x1024", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>, i64, !tile.ptr<f32>, i64) -> ()
      }
      %139 = arith.muli %53, %39 : i64
      %140 = arith.addi %139, %56 : i64
      %141 = tile.addptr %out, %140 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %142 = tile.cmpi "sge", %55, %30 : i64, i64 to i1
      %143 = tile.cmpi "sge", %57, %30 : i64, i64 to i1
      %144 = arith.andi %142, %143 : i1
      scf.if %144 {
        %145 = arith.constant 64 : i64
        %146 = arith.constant 6 : i64
        %147 = arith.constant 63 : i64
        scf.for %148 = %29 to %30 step %5 : i64 {
          %149 = arith.muli %148, %39 : i64
          scf.for %150 = %29 to %30 step %145 : i64 {
            %151 = arith.shrui %150, %146 : i64
            %152 = arith.muli %151, %30 : i64
            %153 = arith.addi %152, %148 : i64
            %154 = arith.muli %153, %145 : i64
            %155 = arith.andi %150, %147 : i64
            %156 = arith.addi %154, %155 : i64
            %157 = "cpu.vector_load"(%8, %156) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
            %158 = arith.addi %149, %150 : i64
            "cpu.vector_store"(%141, %158, %157) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
      } else {
        %159 = arith.constant 64 : i64
        %160 = arith.constant 6 : i64
        %161 = arith.constant 63 : i64
        scf.for %162 = %29 to %30 step %5 : i64 {
          %163 = tile.cmpi "slt", %162, %55 : i64, i64 to i1
          %164 = arith.muli %162, %39 : i64
          scf.for %165 = %29 to %30 step %159 : i64 {
            %166 = arith.shrui %165, %160 : i64
            %167 = arith.muli %166, %30 : i64
            %168 = arith.addi %167, %162 : i64
            %169 = arith.muli %168, %159 : i64
            %170 = arith.andi %165, %161 : i64
            %171 = arith.addi %169, %170 : i64
            %172 = "cpu.vector_load"(%8, %171) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
            %173 = arith.subi %57, %165 : i64
            %174 = tile.select %163, %173, %29 : i1, i64, i64 to i64
            %175 = arith.addi %164, %165 : i64
            %176 = "cpu.lane_mask"(%174) : (i64) -> vector<64xi1>
            "cpu.vector_store"(%141, %175, %172, %176) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
          }
        }
      }
    }
    func.return
  }
}
