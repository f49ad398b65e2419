// RUN: schedule-programs
// CHECK-LABEL: @k
// CHECK-SAME: ([[FIRST:%[^:]+]]: i64, [[LAST:%[^:]+]]: i64)
func.func @k(%p: !tile.ptr<i32>) {
  // CHECK: %p = cpu.argument 0 : i64
  // CHECK: [[X:%.+]] = cpu.argument 1 : i64
  // CHECK: [[LEAST:%.+]] = arith.maxsi [[X]]
  // CHECK: [[BEGIN:%.+]] = arith.remui [[FIRST]], [[LEAST]]
  // CHECK: scf.for {{%.+}} = [[FIRST]] to [[LAST]] step {{%.+}} iter_args([[ID:%.+]] = [[BEGIN]])
  // CHECK: arith.trunci [[ID]]
  %i = tile.program_id 0 : i32 : i32
  %q = tile.addptr %p, %i : !tile.ptr<i32>, i32 to !tile.ptr<i32>
  tile.store %q, %i : !tile.ptr<i32>, i32
  // CHECK: [[MORE:%.+]] = arith.addi [[ID]]
  // CHECK: [[OVER:%.+]] = tile.cmpi "eq", [[MORE]], [[X]]
  // CHECK: [[NEXT:%.+]] = tile.select [[OVER]]
  // CHECK: scf.yield [[NEXT]]
  func.return
}
