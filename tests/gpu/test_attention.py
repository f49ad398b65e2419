"""Attention and products of converted operands on a GPU, against float64."""

import pytest
from tests.attention import attention_ir
from tests.gpu.errors_of_products import assert_product
from tests.mixed_precision_dots import mixed_ir

from tilewright import dtypes
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.runtime.compiled import CompiledKernel

torch = pytest.importorskip("torch")


def compiled(module, **options):
    made, target = Options(**options), backend.target()
    artifact = backend.compile(module, made, target)
    return CompiledKernel(artifact, "kernel", made, target, None, False)


@pytest.mark.parametrize("without", [
    (), ("pipeline-loads",), ("promote-shared{register-operands=false}",), ("pipeline-loads{tma=false}",),
    ("promote-shared",),
])  # fmt: skip
@pytest.mark.parametrize(("blocks", "warps", "stages"), [
    ((64, 64), 4, 3), ((128, 64), 8, 2), ((128, 128), 8, 2), ((64, 32), 8, 4), ((32, 32), 2, 3),
])  # fmt: skip
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("n", "ragged"), [(512, False), (333, True)])
@pytest.mark.parametrize(("depth", "dtype"), [(64, "float16"), (128, "bfloat16")])
def test_attention(depth, dtype, n, ragged, causal, blocks, warps, stages, without):
    kind = getattr(torch, dtype)
    module = attention_ir(*blocks, depth, causal, ragged, getattr(dtypes, dtype))
    kernel = compiled(module, num_warps=warps, num_stages=stages, disable=without)
    torch.manual_seed(n)
    q, k, v = (torch.randn(6, n, depth, device="cuda").to(kind) for _ in range(3))
    out, logs = torch.full_like(q, float("nan")), torch.empty(6, n, device="cuda")
    scale = depth**-0.5
    kernel.run((-(-n // blocks[0]), 6, 1), q, k, v, out, logs, scale, n * depth, depth, n)
    scores = scale * q.double() @ k.double().transpose(1, 2)
    if causal:
        later = torch.ones(n, n, device="cuda", dtype=torch.bool).triu(1)
        scores.masked_fill_(later, float("-inf"))
    wanted = torch.softmax(scores, -1) @ v.double()
    tolerance = 4e-3 if dtype == "float16" else 2e-2
    torch.testing.assert_close(out.double(), wanted, rtol=tolerance, atol=tolerance)
    sums = torch.logsumexp(scores, -1) / 0.6931471805599453
    torch.testing.assert_close(logs.double(), sums, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("warps", [4, 8])
def test_weights_of_8_bits(warps, stages):
    kernel = compiled(mixed_ir("weights", (128, 64, 64)), num_warps=warps, num_stages=stages)
    torch.manual_seed(0)
    a = torch.randn(256, 512, device="cuda").half()
    b = torch.randint(-100, 100, (512, 192), device="cuda", dtype=torch.int8)
    c = torch.full((256, 192), float("nan"), device="cuda")
    kernel.run((2, 3, 1), a, b, c, 512, 512, 192, 192)
    assert_product(c, a, b)


@pytest.mark.parametrize("warps", [4, 8])
def test_scaled_products(warps):
    kernel = compiled(mixed_ir("scaled", (128, 64, 64)), num_warps=warps, num_stages=3)
    torch.manual_seed(0)
    a = torch.randn(256, 512, device="cuda").to(torch.float8_e4m3fn)
    s = torch.randint(124, 130, (256, 16), device="cuda").to(torch.uint8)
    b = torch.randn(512, 192, device="cuda").bfloat16()
    c = torch.full((256, 192), float("nan"), device="cuda")
    kernel.run((2, 3, 1), a.view(torch.uint8), s, b, c, 512, 512, 192, 192)
    scales = torch.exp2(s.double() - 127).repeat_interleave(32, 1)
    assert_product(c, a.double() * scales, b)
