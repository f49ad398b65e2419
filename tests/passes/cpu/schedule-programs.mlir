// RUN: schedule-programs
// CHECK-LABEL: @k
// CHECK-SAME: ([[FIRST:%[^:]+]]: i64, [[LAST:%[^:]+]]: i64)
func.func @k(%p: !tile.ptr<i32>) {
  // CHECK: %p = cpu.argument 0 : i64
  // CHECK: [[X:%.+]] = cpu.argument 1 : i64
  // CHECK: scf.for [[I:%.+]] = [[FIRST]] to [[LAST]]
  // CHECK: [[R:%.+]] = arith.remui [[I]], [[X]]
  // CHECK: arith.trunci [[R]]
  %i = tile.program_id 0 : i32 : i32
  %q = tile.addptr %p, %i : !tile.ptr<i32>, i32 to !tile.ptr<i32>
  tile.store %q, %i : !tile.ptr<i32>, i32
  func.return
}
