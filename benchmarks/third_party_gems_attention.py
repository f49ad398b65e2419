"""Attention and inference kernels of flag_gems."""

from __future__ import annotations

import importlib

import torch

from third_party_gems import case, each, gems, integers, uniform

# ---- attention ------------------------------------------------------------


def qkv(maker, b, h, hk, n, d, dtype=torch.float16):
    return (
        maker.normal(b, h, n, d, dtype=dtype),
        maker.normal(b, hk, n, d, dtype=dtype),
        maker.normal(b, hk, n, d, dtype=dtype),
    )


def sdpa(maker, d, causal, b=4, h=32, hk=32, n=1024, dtype=torch.float16, back=True):
    if not maker.large:
        b, h, hk, n = (1, 2, 2 if h == hk else 1, 80)
    q, k, v = qkv(maker, b, h, hk, n, d, dtype)
    o, m = gems.scaled_dot_product_attention_forward(q, k, v, is_causal=causal, enable_gqa=h != hk)
    return [o, m] + (
        [
            *gems.scaled_dot_product_attention_backward(
                torch.randn_like(o), q, k, v, o, m, is_causal=causal, enable_gqa=h != hk
            )
        ]
        if back
        else []
    )


@case
def sdpa_64(maker):
    return sdpa(maker, 64, False)


@case
def sdpa_64_causal(maker):
    return sdpa(maker, 64, True)


@case
def sdpa_128_causal(maker):
    return sdpa(maker, 128, True, dtype=torch.bfloat16, n=2048)


@case
def sdpa_128_gqa(maker):
    return sdpa(maker, 128, True, hk=8, n=2048, back=False)


def flash(maker, d, causal, n, **k):
    b, h, hk = maker.sized((1, 2, 1), (4, 32, 8))
    n = maker.sized(80, n)
    q, kk, v = (maker.normal(b, n, m, d, dtype=torch.float16) for m in (h, hk, hk))
    return gems.flash_attention_forward(q, kk, v, None, None, n, n, 0.0, causal, False, **k)[:2]


@case
def flash_64(maker):
    return flash(maker, 64, False, 2048)


@case
def flash_128_causal(maker):
    return flash(maker, 128, True, 4096)


@case
def flash_256_causal(maker):
    return flash(maker, 256, True, 1024)


@case
def flash_window(maker):
    return flash(maker, 128, False, 4096, window_size_left=256, window_size_right=0)


@case
def flash_softcap(maker):
    return flash(maker, 128, True, 2048, softcap=30.0)


@case
def flash_decode(maker):
    b, h, hk, d, n = maker.sized((1, 2, 1, 64, 200), (1, 16, 2, 128, 32768))
    q, k, v = (
        maker.normal(b, 1, h, d, dtype=torch.float16),
        maker.normal(b, n, hk, d, dtype=torch.float16),
        maker.normal(b, n, hk, d, dtype=torch.float16),
    )
    return each(
        lambda: gems.flash_attention_forward(q, k, v, None, None, 1, n, 0.0, False, False)[:2]
    )


def varlen(maker, paged, lens, d=128, h=32, hk=8):
    if not maker.large:
        lens, h, hk, d = ([(5, 40), (33, 70)], 2, 1, 64)
    sq, sk = ([a for a, _ in lens], [b for _, b in lens])

    def cu(z):
        return torch.tensor([0, *z], device=maker.device, dtype=torch.int32).cumsum(
            0, dtype=torch.int32
        )

    q = maker.normal(sum(sq), h, d)
    used = torch.tensor(sk, device=maker.device, dtype=torch.int32)
    if not paged:
        return gems.flash_attn_varlen_func(
            q,
            maker.normal(sum(sk), hk, d),
            maker.normal(sum(sk), hk, d),
            max(sq),
            cu(sq),
            max(sk),
            cu_seqlens_k=cu(sk),
            causal=True,
        )
    bs = 32
    nb = -(-max(sk) // bs)
    blocks = 2 * nb * len(lens)
    kc, vc = (maker.normal(blocks, bs, hk, d), maker.normal(blocks, bs, hk, d))
    table = torch.randperm(blocks, device=maker.device, dtype=torch.int32)[: nb * len(lens)].view(
        len(lens), nb
    )
    return gems.flash_attn_varlen_func(
        q, kc, vc, max(sq), cu(sq), max(sk), seqused_k=used, causal=True, block_table=table
    )


@case
def flash_varlen(maker):
    return varlen(maker, False, [(1024, 1024), (700, 700), (4096, 4096), (33, 33)])


@case
def flash_varlen_paged(maker):
    return varlen(maker, True, [(1024, 1328), (5, 4096), (129, 2048), (1, 8192)])


@case
def flash_varlen_paged_decode(maker):
    return varlen(maker, True, [(1, 4096)] * 32)


@case
def flash_mla(maker):
    b, h, d, dv, n = maker.sized((2, 16, 192, 128, 100), (32, 128, 576, 512, 4096))
    bs = 64
    pad = -(-n // 256) * 256
    q = maker.normal(b, 1, h, d)
    lens = torch.full((b,), n, device=maker.device, dtype=torch.int32)
    table = torch.arange(b * pad // bs, device=maker.device, dtype=torch.int32).view(b, pad // bs)
    kv = maker.normal(table.numel(), bs, 1, d)
    return each(lambda: gems.flash_mla(q, table, kv, pad, bs, b, 1, lens, h, 1, d, dv, True))


@case
def flash_mla_sparse(maker):
    sq, skv, k = maker.sized((3, 64, 32), (512, 8192, 2048))
    return each(
        lambda: gems.flash_mla_sparse_fwd(
            maker.normal(sq, 64, 576),
            maker.normal(skv, 1, 576),
            integers(maker, sq, 1, k, lo=0, hi=skv),
            0.04,
        )
    )


@case
def sparse_attn(maker):
    b, m, h, d, n, k = maker.sized((1, 3, 16, 64, 70, 64), (1, 1024, 16, 512, 8192, 640))
    return each(
        lambda: gems.sparse_attn_triton(
            maker.normal(b, m, h, d),
            maker.normal(b, n, d),
            maker.normal(h, dtype=torch.float32),
            integers(maker, b, m, k, lo=0, hi=n),
            0.05,
        )
    )


@case
def sparse_mla(maker):
    f = importlib.import_module("flag_gems.fused.DSA.sparse_mla").triton_sparse_mla_fwd_interface
    b, s, h, n, k = maker.sized((1, 3, 16, 64, 32), (1, 512, 64, 8192, 2048))
    return each(
        lambda: f(
            maker.normal(b, s, h, 576),
            maker.normal(b, n, 1, 576),
            integers(maker, b, s, 1, k, lo=0, hi=n),
        )
    )


@case
def lightning_indexer(maker):
    f = importlib.import_module(
        "flag_gems.fused.DSA.indexer_k_tiled"
    ).triton_lighting_indexer_k_tiled_interface
    s, h, d, n = maker.sized((16, 4, 64, 64), (2048, 32, 128, 8192))
    st = torch.zeros(s, device=maker.device, dtype=torch.int32)
    return each(
        lambda: f(
            maker.normal(s, h, d),
            maker.normal(n, d),
            maker.normal(s, h, dtype=torch.float32),
            st,
            torch.arange(s, device=maker.device, dtype=torch.int32) * (n // s) + n // s,
        )
    )


@case
def bucket_topk(maker):
    b, n, k = maker.sized((2, 5000, 64), (64, 65536, 2048))
    return each(
        lambda: gems.bucket_sort_topk(
            maker.normal(b, n, dtype=torch.float32),
            torch.zeros(b, device=maker.device, dtype=torch.int32),
            torch.full((b,), n, device=maker.device, dtype=torch.int32),
            k,
        ).sort(1)[0]
    )


@case
def metadata(maker):
    b = maker.sized(4, 256)
    return each(
        lambda: gems.get_scheduler_metadata(
            b, 1, 8192, 32, 8, 128, 128, torch.bfloat16, integers(maker, b, lo=1, hi=8192)
        ),
        lambda: gems.get_paged_mqa_logits_metadata(integers(maker, b, lo=1, hi=8192), 64, 132),
    )


# ---- inference kernels ------------------------------------------------------------


@case
def chunk_gated_delta_rule(maker):
    b, t, h, k = maker.sized((1, 128, 2, 64), (2, 4096, 16, 128))
    q, kk, v = (
        torch.nn.functional.normalize(maker.normal(b, t, h, k, dtype=torch.float32), dim=-1).to(
            torch.bfloat16
        ),
        torch.nn.functional.normalize(maker.normal(b, t, h, k, dtype=torch.float32), dim=-1).to(
            torch.bfloat16
        ),
        maker.normal(b, t, h, k),
    )
    gg = -uniform(maker, b, t, h, dtype=torch.float32)
    return each(
        lambda: [
            y
            for y in gems.chunk_gated_delta_rule_fwd(
                q,
                kk,
                v,
                gg,
                uniform(maker, b, t, h),
                k ** (-0.5),
                torch.zeros(b, h, k, k, device=maker.device),
                True,
            )
            if y is not None
        ]
    )


def recurrent(maker, t, n):
    h, k = maker.sized((2, 64), (16, 128))
    q, kk, v = (
        torch.nn.functional.normalize(maker.normal(1, t, h, k, dtype=torch.float32), dim=-1).to(
            torch.bfloat16
        )
        for _ in range(3)
    )
    cu = torch.arange(n + 1, device=maker.device) * (t // n)
    return each(
        lambda: gems.fused_recurrent_gated_delta_rule_fwd(
            q,
            kk,
            v,
            -uniform(maker, 1, t, h, dtype=torch.float32),
            uniform(maker, 1, t, h),
            k ** (-0.5),
            maker.normal(t + 1, h, k, k, dtype=torch.float32),
            True,
            cu,
            torch.arange(t, device=maker.device, dtype=torch.int32).view(n, t // n) + 1,
        )
    )


@case
def recurrent_gated_delta_rule(maker):
    return recurrent(maker, maker.sized(6, 64), maker.sized(6, 64))


@case
def recurrent_gated_delta_rule_long(maker):
    return recurrent(maker, maker.sized(130, 4096), maker.sized(2, 16))


def moe(maker, m, e, k, n, top, dtype=torch.bfloat16, **kw):
    if not maker.large:
        m, e, k, n, top = (17, 4, 64, 64, 2)
    w, j = torch.topk(torch.softmax(maker.normal(m, e, dtype=torch.float32), -1), top)
    return gems.fused_experts_impl(
        maker.normal(m, k, dtype=dtype, scale=0.1),
        maker.normal(e, 2 * n, k, dtype=dtype, scale=0.1),
        maker.normal(e, k, n, dtype=dtype, scale=0.1),
        w,
        j.to(torch.int32),
        **kw,
    )


@case
def fused_moe(maker):
    return each(lambda: moe(maker, 1024, 64, 2048, 1408, 6))


@case
def fused_moe_few(maker):
    return each(lambda: moe(maker, 8, 8, 4096, 3584, 2))


@case
def moe_align(maker):
    j = integers(maker, maker.sized(17, 8192), maker.sized(2, 8), lo=0, hi=maker.sized(8, 256))
    return each(lambda: gems.moe_align_block_size(j, 64, maker.sized(8, 256))[1:])


@case
def moe_route(maker):
    n, e, k = (maker.sized(33, 8192), maker.sized(16, 256), maker.sized(2, 8))
    y = [
        torch.empty(n, k, device=maker.device),
        torch.empty(n, k, device=maker.device, dtype=torch.int32),
        torch.empty(n, k, device=maker.device, dtype=torch.int32),
    ]
    return each(
        lambda: gems.topk_softmax(*y, maker.normal(n, e, dtype=torch.float32)) or y,
        lambda: gems.grouped_topk(
            maker.normal(n, e, dtype=torch.float32),
            maker.sized(4, 8),
            maker.sized(2, 4),
            k,
            True,
            2.5,
            maker.normal(e, dtype=torch.float32),
        ),
        lambda: (
            gems.moe_sum(
                maker.normal(n // 4, k, maker.sized(65, 7168)),
                (
                    z := torch.empty(
                        n // 4, maker.sized(65, 7168), device=maker.device, dtype=torch.bfloat16
                    )
                ),
            )
            or z
        ),
    )


@case
def kv_cache(maker):
    n, h, d, bs, nb = maker.sized((17, 2, 64, 16, 8), (8192, 8, 128, 16, 1024))
    k, v = (maker.normal(n, h, d), maker.normal(n, h, d))
    sl = torch.randperm(nb * bs, device=maker.device)[:n]
    one = torch.ones((), device=maker.device)
    kc, vc, kf, vf = (
        torch.zeros(nb, h, d // 8, bs, 8, device=maker.device, dtype=torch.bfloat16),
        torch.zeros(nb, h, d, bs, device=maker.device, dtype=torch.bfloat16),
        torch.zeros(nb, bs, h, d, device=maker.device, dtype=torch.bfloat16),
        torch.zeros(nb, bs, h, d, device=maker.device, dtype=torch.bfloat16),
    )
    return each(
        lambda: gems.reshape_and_cache(k, v, kc, vc, sl, "auto", one, one) or [kc, vc],
        lambda: gems.reshape_and_cache_flash(k, v, kf, vf, sl, "auto", one, one) or [kf, vf],
        lambda: (
            gems.concat_and_cache_mla(
                maker.normal(n, maker.sized(64, 512)),
                maker.normal(n, 64),
                (
                    z := torch.zeros(
                        nb, bs, maker.sized(64, 512) + 64, device=maker.device, dtype=torch.bfloat16
                    )
                ),
                sl,
                "auto",
                one,
            )
            or z
        ),
    )


@case
def rotary(maker):
    b, n, h, hk, d = maker.sized((2, 9, 2, 1, 64), (4, 2048, 32, 8, 128))
    return each(
        lambda: gems.apply_rotary_pos_emb(
            maker.normal(b, n, h, d),
            maker.normal(b, n, hk, d),
            maker.normal(n, d // 2),
            maker.normal(n, d // 2),
        ),
        lambda: gems.apply_rotary_pos_emb(
            maker.normal(b, n, h, d),
            maker.normal(b, n, hk, d),
            maker.normal(n, d // 2),
            maker.normal(n, d // 2),
            integers(maker, b, n, lo=0, hi=n, dtype=torch.int64),
            True,
        ),
    )


@case
def serving(maker):
    n, v = (maker.sized(5, 256), maker.sized(3000, 128256))
    logits = maker.normal(n, v, dtype=torch.float32)
    return each(
        lambda: (
            gems.apply_repetition_penalties(
                logits, logits > 1, logits < -1, uniform(maker, n, dtype=torch.float32) + 1
            )
            or logits
        )
    )


@case
def rwkv(maker):
    t, h, n = (maker.sized(5, 4096), maker.sized(3, 64), 64)
    c = h * n
    rows = maker.sized(512, 16384)  # a power of two: the wrapper rounds up, and reads as many
    return each(
        lambda: gems.rwkv_ka_fusion(
            maker.normal(t, c, dtype=torch.float16),
            maker.normal(c, dtype=torch.float16),
            maker.normal(t, c, dtype=torch.float16),
            maker.normal(c, dtype=torch.float16),
            h,
            n,
        ),
        lambda: gems.rwkv_mm_sparsity(
            torch.relu(maker.normal(rows, dtype=torch.float16)),
            maker.normal(rows, maker.sized(64, 4096), dtype=torch.float16),
        ),
    )


@case
def mhc(maker):
    n, h = (maker.sized(16, 4096), maker.sized(64, 2560))
    a = maker.normal(n, 4, h)
    return each(
        lambda: gems.mhc_pre(
            a,
            maker.normal(24, 4 * h, dtype=torch.float32, scale=0.02),
            maker.normal(3, dtype=torch.float32),
            maker.normal(24, dtype=torch.float32),
            1e-06,
            1e-06,
            1e-06,
            1.0,
            20,
        ),
        lambda: gems.mhc_post(
            maker.normal(n, h),
            a,
            uniform(maker, n, 4, 1, dtype=torch.float32),
            uniform(maker, n, 4, 4, dtype=torch.float32),
        ),
        lambda: gems.mhc_bwd(
            gems.sinkhorn_forward(uniform(maker, n * 16, 4, 4, dtype=torch.float32))[0],
            maker.normal(n * 16, 4, 4, dtype=torch.float32),
        ),
    )
