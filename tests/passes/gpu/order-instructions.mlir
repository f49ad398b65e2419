// RUN: order-instructions
// CHECK: func.func @k() attributes {gpu.order_instructions}
func.func @k() {
  func.return
}
