// RUN: unroll
// CHECK: func.func @k() attributes {gpu.unroll}
func.func @k() {
  func.return
}
