"""# 8. A torch operator with autograd and torch.compile

A kernel becomes an operator of torch: with a shape function for `torch.compile`, and a backward pass for autograd. Needs torch.
"""

# %% The kernels: y = x * sigmoid(x), and its derivative.
import torch

import tilewright as tw
import tilewright.language as tl


@tw.jit
def silu_forward(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, at < n)
    tl.store(y_ptr + at, x * tl.sigmoid(x), at < n)


@tw.jit
def silu_backward(x_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, dy = tl.load(x_ptr + at, at < n), tl.load(dy_ptr + at, at < n)
    s = tl.sigmoid(x)
    tl.store(dx_ptr + at, dy * s * (1 + x * (1 - s)), at < n)


# %% The operators. Arrays on a GPU run there, those on the CPU on the CPU.
@torch.library.custom_op("tutorial::silu", mutates_args=())
def silu(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    silu_forward[(tw.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


@torch.library.custom_op("tutorial::silu_backward", mutates_args=())
def silu_grad(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    dx = torch.empty_like(x)
    silu_backward[(tw.cdiv(x.numel(), 1024),)](x, dy.contiguous(), dx, x.numel(), BLOCK=1024)
    return dx


silu.register_fake(torch.empty_like)
silu_grad.register_fake(lambda x, dy: torch.empty_like(x))
silu.register_autograd(
    lambda ctx, dy: silu_grad(ctx.saved_tensors[0], dy),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)

# %% Values and gradients agree with torch's own.
x = torch.randn(3000, dtype=torch.float32, requires_grad=True)
expected = torch.nn.functional.silu(x)
torch.testing.assert_close(silu(x), expected)
(gradient,) = torch.autograd.grad(silu(x).sum(), x)
(wanted,) = torch.autograd.grad(expected.sum(), x)
torch.testing.assert_close(gradient, wanted)

# %% `torch.compile` traces through the operator as one node (here with the backend "eager", which compiles nothing else).
compiled = torch.compile(lambda x: silu(x) + 1, backend="eager", fullgraph=True)
torch.testing.assert_close(compiled(x), expected + 1)
print("eager, autograd and torch.compile agree")
