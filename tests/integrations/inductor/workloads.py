"""Functions to compile, by name: `(function, shapes of its arguments, options)`.

Options: `grad` compares gradients as well; `dynamic` compiles for any sizes; `half` allows for results of 16 bits;
`tuned` takes templates for products; `whole` allows for no breaks of the graph, without which `scan` has no gradient;
`quick` is for every run of the tests.
Run as a program it compiles those that are named, each compared with eager mode, and prints a line of JSON for each.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F
from torch.nn.attention import flex_attention as flex_module

Workload = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], frozenset[str]]
WORKLOADS: dict[str, Workload] = {}


def add(name: str, *shapes: tuple[int, ...], options: str = "") -> Callable[[Any], Any]:
    def remember(function: Any) -> Any:
        WORKLOADS[name] = function, shapes, frozenset(options.split())
        return function

    return remember


ROWS = ((32, 200),)
add("pointwise", (33, 65), (33, 65), options="quick")(
    lambda x, y: (x * 2 + y).relu().sigmoid() * torch.tanh(y) - x.abs().sqrt()
)
add("activations", (64, 40), options="grad")(
    lambda x: F.gelu(x, approximate="tanh") + F.silu(x) + F.mish(x) + F.softplus(x) + F.elu(x)
)
add("unpool", (2, 3, 16, 18), options="quick")(
    lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)
)
add("shifts", (4, 64), options="quick")(
    lambda x: tuple(
        shifted
        for type_ in (torch.int8, torch.uint8, torch.int32, torch.int64)
        for value in [(x * 50).abs().to(type_) - (x * 9).abs().to(type_)]
        for amount in [torch.arange(64).to(type_) + 3 * torch.arange(4).to(type_)[:, None] - 4]
        for shifted in (value << amount, value >> amount, value << 3, value >> 3)
    )
)
add("complex_copies", (4, 6), options="quick")(
    lambda x: (
        torch.view_as_real(torch.view_as_complex(x.view(4, 3, 2)).diagonal_scatter(x[0, :3] * 1j)),
        F.conv2d(
            (x * 1j).view(1, 2, 3, 4), (x * 1j).view(4, 1, 2, 3)[:, :, :, ::2].expand(4, 2, 2, 2)
        ).real,
    )
)
add("numbered_device", (3,), options="quick")(
    lambda x: (x.to("cpu:0").sin(), torch.arange(5, device=torch.device("cpu", 0)) * 2)
)
add("scan", (5,), (20, 5), options="quick grad whole")(
    lambda start, x: scan(lambda sum_, row: (sum_ * 0.9 + row, (sum_ + row).sin()), start, x, dim=0)
)
add("without_dimensions", (), (4, 6), options="quick grad")(lambda s, x: (x * s + s.exp(), s * 2))
add("broadcast", (8, 1, 16), (4, 16))(lambda x, y: x + y)
add("transpose", (40, 70), options="quick")(lambda x: (x.t() * 2).contiguous())
add("transposed_matrices", (3, 40, 70), (40,), options="quick grad")(
    lambda x, b: (x.transpose(1, 2) * b).contiguous()
)
add("permute", (6, 10, 14))(lambda x: x.permute(2, 0, 1).contiguous() + 1)
add("sums", (100, 300), options="quick")(lambda x: (x.sum(), x.sum(0), x.sum(1)))
add("long_sums", (3000, 40))(lambda x: (x.sum(), x.sum(0), x.t().contiguous().sum(1)))
add("mean_var", *ROWS)(lambda x: (x.mean(1), x.var(1), x.std(0), x.norm(dim=1)))
add("extremes", *ROWS, options="quick")(lambda x: (x.amax(1), x.argmin(0), *x.max(1)))
add("prod_any_all", (8, 20))(lambda x: (x.prod(1), (x > 2).any(1), (x > -2).all(0)))
add("softmax", (32, 100), options="quick grad")(lambda x: torch.softmax(x, -1))
add("long_softmax", (4, 5000))(lambda x: torch.softmax(x, -1))
add("column_softmax", (200, 33))(lambda x: torch.softmax(x, 0))
add("cross_entropy", (32, 100), options="grad")(
    lambda x: F.cross_entropy(x, torch.arange(32)) + torch.logsumexp(x, 1).sum()
)
add("layer_norm", (64, 256), (256,), (256,), options="quick grad")(
    lambda x, w, b: F.layer_norm(x, (256,), w, b)
)
add("long_layer_norm", (8, 5000), options="grad")(lambda x: F.layer_norm(x, (5000,)))
add("rms_norm", (64, 256), (256,), options="grad")(lambda x, w: F.rms_norm(x, (256,), w))
add("group_norm", (4, 32, 6, 6), options="grad")(lambda x: F.group_norm(x, 8))
add("batch_norm", (8, 16, 6, 6), options="grad")(
    lambda x: F.batch_norm(x, None, None, training=True)
)
add("scans", (30, 300), options="quick")(lambda x: (torch.cumsum(x, 1), torch.cummax(x, 1).values))
add("more_scans", (30, 30))(lambda x: (torch.cumprod(x, 1), torch.logcumsumexp(x, 1)))
add("column_scan", (300, 30))(lambda x: torch.cumsum(x, 0))
add("split_scan", (3, 20000))(lambda x: torch.cumsum(x.double(), 1))
add("scan_of_one_row", (65536,), options="quick")(lambda x: torch.cumsum(x.double(), 0))
add("sort_topk", (20, 100))(lambda x: (*torch.sort(x, 1), *torch.topk(x, 5), x.median(1).values))
add("gather_scatter", (20, 30), options="quick")(
    lambda x: (
        x.gather(1, torch.arange(140).reshape(20, 7) % 30),
        torch.zeros(10, 30).to(x.dtype).scatter_add(0, torch.arange(600).reshape(20, 30) % 10, x),
        torch.zeros(10, 30).to(x.dtype).index_add(0, torch.arange(20) % 10, x),
        torch.ones(10, 30).to(x.dtype).index_add(0, torch.arange(20) % 10, x, alpha=3) + 1,
    )
)
add("indexing", (20, 30))(
    lambda x: (
        x[torch.arange(7), torch.arange(7)],
        x.clone().index_put((torch.arange(7),), x[:7] * 2, accumulate=True),
    )
)
add("embedding", (100, 32), options="grad")(
    lambda x: F.embedding(torch.arange(60).reshape(6, 10), x)
)
add("masks", (20, 30))(lambda x: torch.where(x > 0, x, x.exp()).masked_fill(x < -1, 0.0).tril())
add("cat_pad_roll", (20, 30), (20, 30))(
    lambda x, y: (
        torch.cat([x * 2, y + 1], 1),
        torch.stack([x, y]),
        F.pad(x, (1, 2)),
        x.roll(3, 1).flip(0),
    )
)
add("linear", (40, 50), (70, 50), (70,), options="grad")(lambda x, w, b: F.linear(x, w, b).tanh())
add("products", (4, 10, 20), (4, 20, 30))(
    lambda x, y: (torch.bmm(x, y).relu(), torch.einsum("bij,bjk->bik", x, y))
)
add("convolution", (2, 3, 12, 12), (8, 3, 3, 3), options="grad")(
    lambda x, k: F.conv2d(x, k, padding=1).relu()
)
add("pooling", (2, 3, 16, 16), options="grad")(
    lambda x: F.max_pool2d(x, 2).sum() + F.avg_pool2d(x, 3, 2, 1).sum()
)
add("resampling", (2, 3, 8, 8))(
    lambda x: (F.interpolate(x, scale_factor=2, mode="bilinear"), F.interpolate(x, size=(13, 17)))
)
add("attention", (2, 4, 32, 16), (2, 4, 32, 16), (2, 4, 32, 16), options="grad")(
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)
)
add("special", (30, 30))(
    lambda x: (
        torch.erf(x),
        torch.erfc(x),
        torch.lgamma(x.abs() + 1),
        torch.special.i0(x),
        torch.special.i1e(x),
    )
)
add("inverse_special", (30, 30))(
    lambda x: (torch.erfinv(x.tanh()), torch.special.erfcx(x), torch.special.ndtri(x.sigmoid()))
)
add("bessel", (30, 30))(
    lambda x: (
        torch.special.bessel_j0(x),
        torch.special.bessel_y1(x.abs()),
        torch.special.modified_bessel_k0(x.abs()),
    )
)
add("exponents", (30, 30))(lambda x: (torch.ldexp(x, torch.arange(30) - 15), *torch.frexp(x)))
add("trigonometric", (30, 30))(
    lambda x: (
        x.sin(),
        x.cos(),
        x.tan(),
        x.tanh().asin(),
        x.atan(),
        x.sinh(),
        x.asinh(),
        torch.atan2(x, x + 1),
    )
)
add("exponential", (30, 30))(
    lambda x: (
        x.exp(),
        x.expm1(),
        x.abs().log2(),
        x.abs().log1p(),
        x.abs().pow(1.7),
        2**x,
        x.rsqrt(),
    )
)
add("rounding", (30, 30))(
    lambda x: (
        x.floor(),
        x.round(),
        x.trunc(),
        torch.fmod(x, 0.3),
        torch.remainder(x, 0.3),
        x // 0.7,
    )
)
add("integers", (30, 30), options="quick")(
    lambda x: (
        (x * 9).int() // 7,
        (x * 9).long() % 7,
        (x * 9).int() & 15,
        (x * 9).to(torch.int8) ^ 3,
    )
)
add("half", (64, 100), options="quick half")(
    lambda x: (
        F.softmax(x.half(), -1).float(),
        F.layer_norm(x.bfloat16(), (100,)).float(),
        x.half().float().sum(0),
    )
)
add("eight_bits", (64, 100))(
    lambda x: x.to(torch.float8_e4m3fn).float() + x.to(torch.float8_e5m2).float()
)
add("double", (64, 100))(lambda x: F.softmax(x.double(), -1) * x.double().erf() + x.double().sum(0))
add("losses", (32, 40), (32, 40), options="grad")(
    lambda x, y: F.smooth_l1_loss(x, y) + F.kl_div(x.log_softmax(1), y.softmax(1), reduction="sum")
)
add("search", (20, 30))(lambda x: torch.bucketize(x, torch.linspace(-2, 2, 9).to(x.dtype)))
add("mlp", (16, 32), (64, 32), (64,), (32, 64), (32,), options="grad")(
    lambda x, a, b, c, d: F.linear(F.gelu(F.linear(x, a, b)), c, d)
)
add("dynamic", (17, 30), options="quick dynamic")(lambda x: (x.softmax(1) * 2).sum(0) + x.mean(0))
add("dynamic_layer_norm", (17, 30), options="dynamic grad")(
    lambda x: F.layer_norm(x, (x.shape[1],))
)


@add(
    "block",
    (2, 16, 32),
    (32, 96),
    (32, 32),
    (32, 128),
    (128, 32),
    (32,),
    (32,),
    options="quick grad",
)
def block(x: Any, wq: Any, wo: Any, w1: Any, w2: Any, g1: Any, g2: Any) -> Any:
    """A Transformer block."""
    batch, time, channels = x.shape
    h = F.layer_norm(x, (channels,), g1)
    q, k, v = (h @ wq).view(batch, time, 3, 4, channels // 4).permute(2, 0, 3, 1, 4)
    scores = (q @ k.transpose(-1, -2)) * (channels // 4) ** -0.5
    above = torch.ones(time, time, dtype=torch.bool).triu(1)
    heads = scores.masked_fill(above, float("-inf")).softmax(-1) @ v
    x = x + heads.transpose(1, 2).reshape(batch, time, channels) @ wo
    return x + F.gelu(F.layer_norm(x, (channels,), g2) @ w1) @ w2


# ---- flex_attention ----------------------------------------------------------------------------------


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def flex(
    q: Any,
    k: Any,
    v: Any,
    score: Callable[..., Any] | None = None,
    mask: Any = None,
    block: int = 128,
) -> Any:
    """torch's flex_attention where it is compiled, else what it computes."""
    if torch.compiler.is_compiling():
        sizes = q.shape[2], k.shape[2]
        blocks = mask and flex_module.create_block_mask(
            mask, None, None, *sizes, device="cpu", BLOCK_SIZE=block
        )
        return flex_module.flex_attention(
            q, k, v, score, blocks, enable_gqa=q.shape[1] != k.shape[1]
        )
    type_, groups = q.dtype, q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(t.double().repeat_interleave(groups, 1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    at = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
    scores = score(scores, *at) if score else scores
    if mask:
        scores = scores.masked_fill(~mask(*at), float("-inf"))
    return (torch.softmax(scores, -1).nan_to_num() @ v).to(type_)


add("flex", (2, 4, 150, 24), (2, 2, 150, 24), (2, 2, 150, 24), (4, 150), options="quick grad")(
    lambda q, k, v, bias: flex(q, k, v, lambda s, b, h, m, n: s + bias[h, n] * (m - n), causal)
)
add("flex_blocks", (1, 2, 100, 8), (1, 2, 70, 8), (1, 2, 70, 20), options="grad")(
    lambda q, k, v: flex(
        q, k, v, None, lambda b, h, m, n: (m > n) & (m - n < 33) & (m % 5 != 0), 16
    )
)
add("flex_dynamic", (1, 2, 256, 64), (1, 2, 256, 64), (1, 2, 256, 64), options="grad dynamic")(
    lambda q, k, v: flex(q, k, v, lambda s, *_: 20 * torch.tanh(s / 20))
)
add("flex_half", (1, 2, 128, 64), (1, 2, 128, 64), (1, 2, 128, 64), options="grad half")(
    lambda q, k, v: flex(q.bfloat16(), k.bfloat16(), v.bfloat16(), None, causal).float()
)
add("flex_decoding", (2, 8, 1, 64), (2, 2, 300, 64), (2, 2, 300, 64))(
    lambda q, k, v: flex(q, k, v, lambda s, b, h, m, n: s - n * 2.0 ** -(h + 1.0))
)


# ---- matrix products and convolutions from templates -------------------------------------------------

add("tuned_linear", (3, 33, 96), (65, 96), (65,), options="quick tuned grad")(
    lambda x, w, b: F.gelu(F.linear(x * 2, w, b))
)
add("tuned_convolution", (2, 8, 11, 11), (12, 8, 3, 3), (12,), options="quick tuned")(
    lambda x, w, b: F.conv2d(x, w, b, padding=1).relu()
)
add("tuned_batches", (5, 40, 30), (5, 30, 70), (5, 40, 70), options="tuned")(
    lambda x, y, b: (torch.bmm(x, y).sigmoid(), torch.baddbmm(b, x, y, alpha=0.5, beta=2))
)
add("tuned_depthwise", (2, 16, 21), (16, 1, 3), (16,), options="tuned")(
    lambda x, w, b: F.conv1d(x, w, b, stride=2, groups=16)
)
add("tuned_sum", (64, 80), (80, 64), (64, 96), (96, 64), options="tuned")(
    lambda x, a, y, b: x @ a + y @ b
)
add("tuned_half", (64, 128), (96, 128), (96,), options="tuned half")(
    lambda x, w, b: F.silu(F.linear(x.half(), w.half(), b.half())).float()
)
add("tuned_mix", (100, 100), (100, 100), options="tuned dynamic")(lambda x, y: (x + 1) @ y + x)


# ---- comparison --------------------------------------------------------------------------------------


def results(function: Any, given: list[torch.Tensor], grad: bool) -> list[torch.Tensor]:
    """What `function` returns, and the gradients of a weighted sum of that."""
    given = [t.clone().requires_grad_(grad) for t in given]
    returned = function(*given)
    returned = [*returned] if isinstance(returned, tuple) else [returned]
    found = [t.detach() for t in returned]
    if grad:
        torch.manual_seed(1)
        weights = [torch.randn(t.shape, dtype=torch.float64).to(t.dtype) for t in returned]
        found += torch.autograd.grad(returned, given, weights)
    return found


TUNED = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON",
}
"""Take templates only, where there is one."""


def compare(name: str) -> None:
    """Compile a workload and compare it with eager mode in fp64. Raises AssertionError."""
    function, shapes, options = WORKLOADS[name]
    torch.manual_seed(0)
    torch._dynamo.reset()
    scale = 0.3 if len(shapes) > 3 else 1.0
    given = [torch.randn(shape) * scale for shape in shapes]
    grad = "grad" in options
    dynamic = True if "dynamic" in options else None
    compiled = torch.compile(
        function,
        dynamic=dynamic,
        fullgraph="whole" in options,
        options=TUNED if "tuned" in options else None,
    )
    found = results(compiled, given, grad)
    eager = results(function, given, grad)
    wide = results(function, [t.double() for t in given], grad)
    for got, plain, true in zip(found, eager, wide, strict=True):
        assert (got.dtype, got.shape) == (plain.dtype, plain.shape)
        if not got.dtype.is_floating_point:
            assert torch.equal(got, plain), f"{(got != plain).sum()} integers differ"
            continue
        unit = torch.finfo(got.dtype).eps
        narrow = 2.0**-7 if "half" in options else 0.0
        size = true.double().abs().clamp(min=1)
        error, own = (got.double() - true).abs(), (plain.double() - true).abs()
        near = error <= (200 * unit + narrow) * size + 4 * own.max()
        assert (near | (got == plain) | (got.isnan() & plain.isnan())).all(), (
            f"largest error {error[~near].max()}, of eager mode {own.max()}"
        )


def main(names: list[str]) -> None:
    """Print `{"name", "error"}` for each."""
    from tilewright.integrations import inductor

    inductor.install("cpu")
    import torch._inductor.config as settings

    settings.force_disable_caches = True
    settings.compile_threads = 1
    for name in names:
        error = ""
        try:
            compare(name)
        except Exception:
            error = traceback.format_exc()
        print(json.dumps({"name": name, "error": error}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
