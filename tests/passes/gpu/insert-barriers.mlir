// RUN: insert-barriers
// A thread meets only its own elements: the same addresses in the same layout.
// CHECK-LABEL: @in_place
func.func @in_place(%p: !tile.ptr<f32>, %one: i64) {
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: return
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[32] l[1 2 4 8 16] w[]">
  tile.store_view %x, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[32] l[1 2 4 8 16] w[]">, !tile.ptr<f32>
  func.return
}
// -----
// CHECK-LABEL: @other_layout
func.func @other_layout(%p: !tile.ptr<f32>, %one: i64) {
  // CHECK: tile.load_view
  // CHECK: gpu.convert_layout
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: tile.store_view
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32, "64 r[32] l[1 2 4 8 16] w[]">
  %y = gpu.convert_layout %x : tensor<64xf32, "64 r[32] l[1 2 4 8 16] w[]"> to tensor<64xf32, "64 r[1] l[2 4 8 16 32] w[]">
  tile.store_view %y, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32, "64 r[1] l[2 4 8 16 32] w[]">, !tile.ptr<f32>
  func.return
}
// -----
// Two arguments are apart, and reads do not meet.
// CHECK-LABEL: @apart
func.func @apart(%p: !tile.ptr<f32>, %q: !tile.ptr<f32>, %one: i64) {
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: return
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  %p1 = tile.addptr %p, %one : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %y = tile.load_view %p1 ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// What an iteration writes, the next one may read: the barrier is in the loop.
// CHECK-LABEL: @around
func.func @around(%p: !tile.ptr<f32>, %one: i64, %n: i32) {
  // CHECK: scf.for
  // CHECK: gpu.barrier
  // CHECK-NEXT: tile.load_view
  %zero = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  scf.for %i = %zero to %n step %step : i32 {
    %o = arith.extsi %i : i32 to i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// A branch leaves open what either side does.
// CHECK-LABEL: @branches
func.func @branches(%p: !tile.ptr<f32>, %one: i64, %c: i1, %v: tensor<64xf32>) {
  // CHECK: scf.if
  // CHECK: gpu.barrier
  // CHECK-NEXT: tile.load_view
  scf.if %c {
    tile.store_view %v, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  %p1 = tile.addptr %p, %one : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  %y = tile.load_view %p1 ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  func.return
}
// -----
// A loop may have no iteration: its barrier does not come between what is before and after it.
// CHECK-LABEL: @perhaps
func.func @perhaps(%p: !tile.ptr<f32>, %one: i64, %n: i32, %v: tensor<64xf32>) {
  // CHECK: scf.for
  // CHECK: tile.barrier
  // CHECK: gpu.barrier
  // CHECK-NEXT: tile.load_view
  %zero = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %q = tile.addptr %p, %one : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  tile.store_view %v, %p ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  scf.for %i = %zero to %n step %step : i32 {
    tile.barrier
  }
  %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  func.return
}
// -----
// The outer loop starts the inner one again where it has written: a barrier before it.
// CHECK-LABEL: @again
func.func @again(%p: !tile.ptr<f32>, %n: i32, %v: tensor<64xf32>) {
  // CHECK: scf.for
  // CHECK-NEXT: gpu.barrier
  // CHECK-NEXT: scf.for
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: tile.load_view
  %zero = arith.constant 0 : i32
  %step = arith.constant 1 : i32
  %one = arith.constant 1 : i64
  %width = arith.constant 64 : i64
  %back = arith.constant -80 : i64
  scf.for %j = %zero to %n step %step : i32 {
    scf.for %i = %zero to %n step %step : i32 {
      %w = arith.extsi %i : i32 to i64
      %o = arith.muli %w, %width : i64
      %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %x = tile.load_view %q ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
      %r = tile.addptr %q, %back : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      tile.store_view %x, %r ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
    }
  }
  func.return
}
// -----
// Chunks of blocks, which both loops move on: nothing meets.
// CHECK-LABEL: @chunks
func.func @chunks(%p: !tile.ptr<f32>, %n: i64) {
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %four = arith.constant 4 : i64
  %block = arith.constant 256 : i64
  %chunk = arith.constant 64 : i64
  scf.for %j = %zero to %n step %one : i64 {
    %a = arith.muli %j, %block : i64
    %q = tile.addptr %p, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    scf.for %i = %zero to %four step %one : i64 {
      %o = arith.muli %i, %chunk : i64
      %r = tile.addptr %q, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %x = tile.load_view %r ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
      tile.store_view %x, %r ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
    }
  }
  func.return
}
// -----
// Chunks that reach into the next block do.
// CHECK-LABEL: @overlapping
func.func @overlapping(%p: !tile.ptr<f32>, %n: i64) {
  // CHECK: gpu.barrier
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %five = arith.constant 5 : i64
  %block = arith.constant 256 : i64
  %chunk = arith.constant 64 : i64
  scf.for %j = %zero to %n step %one : i64 {
    %a = arith.muli %j, %block : i64
    %q = tile.addptr %p, %a : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    scf.for %i = %zero to %five step %one : i64 {
      %o = arith.muli %i, %chunk : i64
      %r = tile.addptr %q, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %x = tile.load_view %r ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
      tile.store_view %x, %r ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
    }
  }
  func.return
}
// -----
// Rows of n elements that end at n.
// CHECK-LABEL: @lines
func.func @lines(%p: !tile.ptr<f32>, %n: i64, %m: i64, %rows: i64) {
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %rows step %one : i64 {
    %row = arith.addi %i, %zero : i64
    %o = arith.muli %row, %n : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %q ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// Each program takes every so manieth of them.
// CHECK-LABEL: @lines_of_programs
func.func @lines_of_programs(%p: !tile.ptr<f32>, %n: i64, %m: i64, %rows: i64) {
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %pid = tile.program_id 0 : i32 : i32
  %pids = tile.num_programs 0 : i32 : i32
  %pid64 = arith.extsi %pid : i32 to i64
  %pids64 = arith.extsi %pids : i32 to i64
  scf.for %i = %zero to %rows step %one : i64 {
    %far = arith.muli %i, %pids64 : i64
    %row = arith.addi %pid64, %far : i64
    %o = arith.muli %row, %n : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %q ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// Rows that may end behind the next one's beginning.
// CHECK-LABEL: @other_limit
func.func @other_limit(%p: !tile.ptr<f32>, %n: i64, %m: i64, %rows: i64) {
  // CHECK: gpu.barrier
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %rows step %one : i64 {
    %row = arith.addi %i, %zero : i64
    %o = arith.muli %row, %n : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) limits(%m) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %q ["strided"] strides(%one) limits(%m) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// Rows one element too long.
// CHECK-LABEL: @longer
func.func @longer(%p: !tile.ptr<f32>, %n: i64, %m: i64, %rows: i64) {
  // CHECK: gpu.barrier
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %more = arith.addi %n, %one : i64
  scf.for %i = %zero to %rows step %one : i64 {
    %row = arith.addi %i, %zero : i64
    %o = arith.muli %row, %n : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %q ["strided"] strides(%one) limits(%more) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %q ["strided"] strides(%one) limits(%more) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// Chunks of rows: each ends where its row does.
// CHECK-LABEL: @chunks_of_lines
func.func @chunks_of_lines(%p: !tile.ptr<f32>, %n: i64, %m: i64, %rows: i64) {
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %four = arith.constant 4 : i64
  %chunk = arith.constant 64 : i64
  scf.for %i = %zero to %rows step %one : i64 {
    %o = arith.muli %i, %n : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    scf.for %j = %zero to %four step %one : i64 {
      %c = arith.muli %j, %chunk : i64
      %r = tile.addptr %q, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %left = arith.subi %n, %c overflow<nsw> : i64
      %x = tile.load_view %r ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
      tile.store_view %x, %r ["strided"] strides(%one) limits(%left) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
    }
  }
  func.return
}
// -----
// Chunks that go on into the next row.
// CHECK-LABEL: @chunks_beyond
func.func @chunks_beyond(%p: !tile.ptr<f32>, %n: i64, %m: i64, %rows: i64) {
  // CHECK: gpu.barrier
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %four = arith.constant 4 : i64
  %chunk = arith.constant 64 : i64
  scf.for %i = %zero to %rows step %one : i64 {
    %o = arith.muli %i, %n : i64
    %q = tile.addptr %p, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    scf.for %j = %zero to %four step %one : i64 {
      %c = arith.muli %j, %chunk : i64
      %r = tile.addptr %q, %c : !tile.ptr<f32>, i64 to !tile.ptr<f32>
      %x = tile.load_view %r ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : !tile.ptr<f32> to tensor<64xf32>
      tile.store_view %x, %r ["strided"] strides(%one) limits(%n) {limited = array<i64: 0>} : tensor<64xf32>, !tile.ptr<f32>
    }
  }
  func.return
}
// -----
// Selects choose among arguments to read, and among others to write. A thread writes the same elements in all iterations,
// whichever array it is.
// CHECK-LABEL: @selected
func.func @selected(%a: !tile.ptr<f32>, %b: !tile.ptr<f32>, %c: !tile.ptr<f32>, %d: !tile.ptr<f32>, %rows: i64, %o: i64) {
  // CHECK-NOT: {{gpu\.barrier\b}}
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %rows step %one : i64 {
    %first = tile.cmpi "eq", %i, %zero : i64, i64 to i1
    %p = tile.select %first, %a, %b : i1, !tile.ptr<f32>, !tile.ptr<f32> to !tile.ptr<f32>
    %q = tile.select %first, %c, %d : i1, !tile.ptr<f32>, !tile.ptr<f32> to !tile.ptr<f32>
    %r = tile.addptr %q, %o : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
    tile.store_view %x, %r ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// One of the arguments is read and written.
// CHECK-LABEL: @selected_of_both
func.func @selected_of_both(%a: !tile.ptr<f32>, %b: !tile.ptr<f32>, %c: !tile.ptr<f32>, %first: i1) {
  // CHECK: gpu.barrier
  // CHECK: return
  %one = arith.constant 1 : i64
  %p = tile.select %first, %a, %b : i1, !tile.ptr<f32>, !tile.ptr<f32> to !tile.ptr<f32>
  %q = tile.select %first, %b, %c : i1, !tile.ptr<f32>, !tile.ptr<f32> to !tile.ptr<f32>
  %x = tile.load_view %p ["strided"] strides(%one) {limited = array<i64>} : !tile.ptr<f32> to tensor<64xf32>
  tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  func.return
}
// -----
// A select chooses among places in one array: another thread writes an element in the next iteration.
// CHECK-LABEL: @selected_places
func.func @selected_places(%a: !tile.ptr<f32>, %x: tensor<64xf32>, %rows: i64) {
  // CHECK: gpu.barrier
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %b = tile.addptr %a, %one : !tile.ptr<f32>, i64 to !tile.ptr<f32>
  scf.for %i = %zero to %rows step %one : i64 {
    %first = tile.cmpi "eq", %i, %zero : i64, i64 to i1
    %q = tile.select %first, %a, %b : i1, !tile.ptr<f32>, !tile.ptr<f32> to !tile.ptr<f32>
    tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
  }
  func.return
}
// -----
// The inner loop repeats its addresses, the outer one does not.
// CHECK-LABEL: @repeated_in_inner_loop
func.func @repeated_in_inner_loop(%a: !tile.ptr<f32>, %x: tensor<64xf32>, %rows: i64) {
  // CHECK: gpu.barrier
  // CHECK: return
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %rows step %one : i64 {
    %q = tile.addptr %a, %i : !tile.ptr<f32>, i64 to !tile.ptr<f32>
    scf.for %j = %zero to %rows step %one : i64 {
      tile.store_view %x, %q ["strided"] strides(%one) {limited = array<i64>} : tensor<64xf32>, !tile.ptr<f32>
    }
  }
  func.return
}
