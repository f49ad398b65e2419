// + prefetching
// Build(blocks=(256, 256, 128), warps=1, stages=1, group=1, form='tiled', off=(), persistent=False)
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
    %32 = arith.constant 4 : i64
    %33 = arith.muli %20, %32 : i64
    %34 = arith.muli %23, %32 : i64
    %35 = arith.extsi %out_m : i32 to i64
    scf.for %36 = %0 to %1 step %5 : i64 {
      %37 = arith.remui %36, %2 : i64
      %38 = arith.trunci %37 : i64 to i32
      %39 = arith.divsi %38, %12 : i32
      %40 = arith.remsi %38, %12 : i32
      %41 = arith.muli %39, %11 : i32
      %42 = arith.muli %40, %11 : i32
      %43 = arith.extsi %41 : i32 to i64
      %44 = arith.muli %20, %43 : i64
      %45 = arith.subi %21, %43 : i64
      %46 = arith.extsi %42 : i32 to i64
      %47 = arith.subi %24, %46 : i64
      scf.for %48 = %25 to %26 step %5 : i64 {
        scf.for %49 = %25 to %26 step %27 : i64 {
          %50 = arith.shrui %49, %28 : i64
          %51 = arith.muli %50, %26 : i64
          %52 = arith.addi %51, %48 : i64
          %53 = arith.muli %52, %27 : i64
          %54 = arith.andi %49, %29 : i64
          %55 = arith.addi %53, %54 : i64
          "cpu.vector_store"(%8, %55, %30) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
        }
      }
      %56 = tile.cmpi "sge", %45, %26 : i64, i64 to i1
      %57 = tile.cmpi "sge", %47, %26 : i64, i64 to i1
      scf.for %k = %18 to %16 step %19 : i32 {
        %58 = arith.muli %k, %15 : i32
        %59 = arith.extsi %58 : i32 to i64
        %60 = arith.addi %44, %59 : i64
        %61 = tile.addptr %a, %60 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %62 = arith.subi %22, %59 : i64
        %63 = tile.cmpi "sge", %62, %31 : i64, i64 to i1
        %64 = arith.andi %56, %63 : i1
        scf.if %64 {
          %65 = arith.constant 64 : i64
          scf.for %66 = %25 to %26 step %5 : i64 {
            %67 = arith.muli %66, %20 : i64
            %68 = arith.muli %66, %31 : i64
            scf.for %69 = %25 to %31 step %65 : i64 {
              %70 = arith.addi %67, %69 : i64
              %71 = "cpu.vector_load"(%61, %70) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
              %72 = arith.addi %68, %69 : i64
              "cpu.vector_store"(%7, %72, %71) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        } else {
          %73 = arith.constant 64 : i64
          scf.for %74 = %25 to %26 step %5 : i64 {
            %75 = tile.cmpi "slt", %74, %45 : i64, i64 to i1
            %76 = arith.muli %74, %20 : i64
            %77 = arith.muli %74, %31 : i64
            scf.for %78 = %25 to %31 step %73 : i64 {
              %79 = arith.subi %62, %78 : i64
              %80 = tile.select %75, %79, %25 : i1, i64, i64 to i64
              %81 = arith.addi %76, %78 : i64
              %82 = "cpu.lane_mask"(%80) : (i64) -> vector<64xi1>
              %83 = "cpu.vector_load"(%61, %81, %82, %17) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
              %84 = arith.addi %77, %78 : i64
              "cpu.vector_store"(%7, %84, %83) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        }
        %85 = arith.muli %23, %59 : i64
        %86 = arith.addi %46, %85 : i64
        %87 = tile.addptr %b, %86 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %88 = arith.andi %63, %57 : i1
        scf.if %88 {
          %89 = arith.constant 64 : i64
          %90 = arith.constant 6 : i64
          %91 = arith.constant 63 : i64
          scf.for %92 = %25 to %31 step %5 : i64 {
            %93 = arith.muli %92, %23 : i64
            scf.for %94 = %25 to %26 step %89 : i64 {
              %95 = arith.addi %93, %94 : i64
              %96 = "cpu.vector_load"(%87, %95) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
              %97 = arith.shrui %94, %90 : i64
              %98 = arith.muli %97, %31 : i64
              %99 = arith.addi %98, %92 : i64
              %100 = arith.muli %99, %89 : i64
              %101 = arith.andi %94, %91 : i64
              %102 = arith.addi %100, %101 : i64
              "cpu.vector_store"(%6, %102, %96) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        } else {
          %103 = arith.constant 64 : i64
          %104 = arith.constant 6 : i64
          %105 = arith.constant 63 : i64
          scf.for %106 = %25 to %31 step %5 : i64 {
            %107 = tile.cmpi "slt", %106, %62 : i64, i64 to i1
            %108 = arith.muli %106, %23 : i64
            scf.for %109 = %25 to %26 step %103 : i64 {
              %110 = arith.subi %47, %109 : i64
              %111 = tile.select %107, %110, %25 : i1, i64, i64 to i64
              %112 = arith.addi %108, %109 : i64
              %113 = "cpu.lane_mask"(%111) : (i64) -> vector<64xi1>
              %114 = "cpu.vector_load"(%87, %112, %113, %17) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
              %115 = arith.shrui %109, %104 : i64
              %116 = arith.muli %115, %31 : i64
              %117 = arith.addi %116, %106 : i64
              %118 = arith.muli %117, %103 : i64
              %119 = arith.andi %109, %105 : i64
              %120 = arith.addi %118, %119 : i64
              "cpu.vector_store"(%6, %120, %114) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        }
        %121 = arith.addi %k, %19 : i32
        %122 = arith.muli %121, %15 : i32
        %123 = arith.extsi %122 : i32 to i64
        %124 = arith.addi %44, %123 : i64
        %125 = tile.addptr %a, %124 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %126 = arith.muli %23, %123 : i64
        %127 = arith.addi %46, %126 : i64
        %128 = tile.addptr %b, %127 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        "cpu.dot_call"(%7, %6, %8, %125, %33, %128, %34) <{plan = "fma 256x256x128 f32,f32,f32 4x4x16u4 row:128[256x128] panel:64[128x256] panel:64[256x256] 256x512 128x1024", operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>, i64, !tile.ptr<f32>, i64) -> ()
      }
      %129 = arith.muli %43, %35 : i64
      %130 = arith.addi %129, %46 : i64
      %131 = tile.addptr %out, %130 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %132 = tile.cmpi "sge", %45, %26 : i64, i64 to i1
      %133 = tile.cmpi "sge", %47, %26 : i64, i64 to i1
      %134 = arith.andi %132, %133 : i1
      scf.if %134 {
        %135 = arith.constant 64 : i64
        %136 = arith.constant 6 : i64
        %137 = arith.constant 63 : i64
        scf.for %138 = %25 to %26 step %5 : i64 {
          %139 = arith.muli %138, %35 : i64
          scf.for %140 = %25 to %26 step %135 : i64 {
            %141 = arith.shrui %140, %136 : i64
            %142 = arith.muli %141, %26 : i64
            %143 = arith.addi %142, %138 : i64
            %144 = arith.muli %143, %135 : i64
            %145 = arith.andi %140, %137 : i64
            %146 = arith.addi %144, %145 : i64
            %147 = "cpu.vector_load"(%8, %146) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
            %148 = arith.addi %139, %140 : i64
            "cpu.vector_store"(%131, %148, %147) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
      } else {
        %149 = arith.constant 64 : i64
        %150 = arith.constant 6 : i64
        %151 = arith.constant 63 : i64
        scf.for %152 = %25 to %26 step %5 : i64 {
          %153 = tile.cmpi "slt", %152, %45 : i64, i64 to i1
          %154 = arith.muli %152, %35 : i64
          scf.for %155 = %25 to %26 step %149 : i64 {
            %156 = arith.shrui %155, %150 : i64
            %157 = arith.muli %156, %26 : i64
            %158 = arith.addi %157, %152 : i64
            %159 = arith.muli %158, %149 : i64
            %160 = arith.andi %155, %151 : i64
            %161 = arith.addi %159, %160 : i64
            %162 = "cpu.vector_load"(%8, %161) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
            %163 = arith.subi %47, %155 : i64
            %164 = tile.select %153, %163, %25 : i1, i64, i64 to i64
            %165 = arith.addi %154, %155 : i64
            %166 = "cpu.lane_mask"(%164) : (i64) -> vector<64xi1>
            "cpu.vector_store"(%131, %165, %162, %166) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
          }
        }
      }
    }
    func.return
  }
}
