// + full tiles without masks
// Build(blocks=(256, 256, 128), warps=1, stages=1, group=1, form='tiled', off=('vectorize{prefetch=false}',), persistent=False)
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
    %32 = arith.extsi %out_m : i32 to i64
    scf.for %33 = %0 to %1 step %5 : i64 {
      %34 = arith.remui %33, %2 : i64
      %35 = arith.trunci %34 : i64 to i32
      %36 = arith.divsi %35, %12 : i32
      %37 = arith.remsi %35, %12 : i32
      %38 = arith.muli %36, %11 : i32
      %39 = arith.muli %37, %11 : i32
      %40 = arith.extsi %38 : i32 to i64
      %41 = arith.muli %20, %40 : i64
      %42 = arith.subi %21, %40 : i64
      %43 = arith.extsi %39 : i32 to i64
      %44 = arith.subi %24, %43 : i64
      scf.for %45 = %25 to %26 step %5 : i64 {
        scf.for %46 = %25 to %26 step %27 : i64 {
          %47 = arith.shrui %46, %28 : i64
          %48 = arith.muli %47, %26 : i64
          %49 = arith.addi %48, %45 : i64
          %50 = arith.muli %49, %27 : i64
          %51 = arith.andi %46, %29 : i64
          %52 = arith.addi %50, %51 : i64
          "cpu.vector_store"(%8, %52, %30) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
        }
      }
      %53 = tile.cmpi "sge", %42, %26 : i64, i64 to i1
      %54 = tile.cmpi "sge", %44, %26 : i64, i64 to i1
      scf.for %k = %18 to %16 step %19 : i32 {
        %55 = arith.muli %k, %15 : i32
        %56 = arith.extsi %55 : i32 to i64
        %57 = arith.addi %41, %56 : i64
        %58 = tile.addptr %a, %57 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %59 = arith.subi %22, %56 : i64
        %60 = tile.cmpi "sge", %59, %31 : i64, i64 to i1
        %61 = arith.andi %53, %60 : i1
        scf.if %61 {
          %62 = arith.constant 64 : i64
          scf.for %63 = %25 to %26 step %5 : i64 {
            %64 = arith.muli %63, %20 : i64
            %65 = arith.muli %63, %31 : i64
            scf.for %66 = %25 to %31 step %62 : i64 {
              %67 = arith.addi %64, %66 : i64
              %68 = "cpu.vector_load"(%58, %67) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
              %69 = arith.addi %65, %66 : i64
              "cpu.vector_store"(%7, %69, %68) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        } else {
          %70 = arith.constant 64 : i64
          scf.for %71 = %25 to %26 step %5 : i64 {
            %72 = tile.cmpi "slt", %71, %42 : i64, i64 to i1
            %73 = arith.muli %71, %20 : i64
            %74 = arith.muli %71, %31 : i64
            scf.for %75 = %25 to %31 step %70 : i64 {
              %76 = arith.subi %59, %75 : i64
              %77 = tile.select %72, %76, %25 : i1, i64, i64 to i64
              %78 = arith.addi %73, %75 : i64
              %79 = "cpu.lane_mask"(%77) : (i64) -> vector<64xi1>
              %80 = "cpu.vector_load"(%58, %78, %79, %17) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
              %81 = arith.addi %74, %75 : i64
              "cpu.vector_store"(%7, %81, %80) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        }
        %82 = arith.muli %23, %56 : i64
        %83 = arith.addi %43, %82 : i64
        %84 = tile.addptr %b, %83 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
        %85 = arith.andi %60, %54 : i1
        scf.if %85 {
          %86 = arith.constant 64 : i64
          %87 = arith.constant 6 : i64
          %88 = arith.constant 63 : i64
          scf.for %89 = %25 to %31 step %5 : i64 {
            %90 = arith.muli %89, %23 : i64
            scf.for %91 = %25 to %26 step %86 : i64 {
              %92 = arith.addi %90, %91 : i64
              %93 = "cpu.vector_load"(%84, %92) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
              %94 = arith.shrui %91, %87 : i64
              %95 = arith.muli %94, %31 : i64
              %96 = arith.addi %95, %89 : i64
              %97 = arith.muli %96, %86 : i64
              %98 = arith.andi %91, %88 : i64
              %99 = arith.addi %97, %98 : i64
              "cpu.vector_store"(%6, %99, %93) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        } else {
          %100 = arith.constant 64 : i64
          %101 = arith.constant 6 : i64
          %102 = arith.constant 63 : i64
          scf.for %103 = %25 to %31 step %5 : i64 {
            %104 = tile.cmpi "slt", %103, %59 : i64, i64 to i1
            %105 = arith.muli %103, %23 : i64
            scf.for %106 = %25 to %26 step %100 : i64 {
              %107 = arith.subi %44, %106 : i64
              %108 = tile.select %104, %107, %25 : i1, i64, i64 to i64
              %109 = arith.addi %105, %106 : i64
              %110 = "cpu.lane_mask"(%108) : (i64) -> vector<64xi1>
              %111 = "cpu.vector_load"(%84, %109, %110, %17) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>, alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xi1>, f32) -> vector<64xf32>
              %112 = arith.shrui %106, %101 : i64
              %113 = arith.muli %112, %31 : i64
              %114 = arith.addi %113, %103 : i64
              %115 = arith.muli %114, %100 : i64
              %116 = arith.andi %106, %102 : i64
              %117 = arith.addi %115, %116 : i64
              "cpu.vector_store"(%6, %117, %111) <{alignment = 64 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
            }
          }
        }
        "cpu.dot_call"(%7, %6, %8) <{plan = "fma 256x256x128 f32,f32,f32 4x4x16u4 row:128[256x128] panel:64[128x256] panel:64[256x256] 256x512 128x1024", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0>}> : (!tile.ptr<f32>, !tile.ptr<f32>, !tile.ptr<f32>) -> ()
      }
      %118 = arith.muli %40, %32 : i64
      %119 = arith.addi %118, %43 : i64
      %120 = tile.addptr %out, %119 : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %121 = tile.cmpi "sge", %42, %26 : i64, i64 to i1
      %122 = tile.cmpi "sge", %44, %26 : i64, i64 to i1
      %123 = arith.andi %121, %122 : i1
      scf.if %123 {
        %124 = arith.constant 64 : i64
        %125 = arith.constant 6 : i64
        %126 = arith.constant 63 : i64
        scf.for %127 = %25 to %26 step %5 : i64 {
          %128 = arith.muli %127, %32 : i64
          scf.for %129 = %25 to %26 step %124 : i64 {
            %130 = arith.shrui %129, %125 : i64
            %131 = arith.muli %130, %26 : i64
            %132 = arith.addi %131, %127 : i64
            %133 = arith.muli %132, %124 : i64
            %134 = arith.andi %129, %126 : i64
            %135 = arith.addi %133, %134 : i64
            %136 = "cpu.vector_load"(%8, %135) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
            %137 = arith.addi %128, %129 : i64
            "cpu.vector_store"(%120, %137, %136) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>) -> ()
          }
        }
      } else {
        %138 = arith.constant 64 : i64
        %139 = arith.constant 6 : i64
        %140 = arith.constant 63 : i64
        scf.for %141 = %25 to %26 step %5 : i64 {
          %142 = tile.cmpi "slt", %141, %42 : i64, i64 to i1
          %143 = arith.muli %141, %32 : i64
          scf.for %144 = %25 to %26 step %138 : i64 {
            %145 = arith.shrui %144, %139 : i64
            %146 = arith.muli %145, %26 : i64
            %147 = arith.addi %146, %141 : i64
            %148 = arith.muli %147, %138 : i64
            %149 = arith.andi %144, %140 : i64
            %150 = arith.addi %148, %149 : i64
            %151 = "cpu.vector_load"(%8, %150) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, alignment = 64 : i64}> : (!tile.ptr<f32>, i64) -> vector<64xf32>
            %152 = arith.subi %44, %144 : i64
            %153 = tile.select %142, %152, %25 : i1, i64, i64 to i64
            %154 = arith.addi %143, %144 : i64
            %155 = "cpu.lane_mask"(%153) : (i64) -> vector<64xi1>
            "cpu.vector_store"(%120, %154, %151, %155) <{alignment = 4 : i64}> : (!tile.ptr<f32>, i64, vector<64xf32>, vector<64xi1>) -> ()
          }
        }
      }
    }
    func.return
  }
}
