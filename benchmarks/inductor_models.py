"""Models of `inductor_gpu.py`, with random weights: name -> `make(torch, device)`.

`make` gives the model, its arguments, whether a training step is timed, and `torch.compile`'s mode ("aoti": compiled
ahead of time by AOTInductor). torch is imported by the caller. ResNet-50 and ViT are torchvision's, BERT, GPT-2, Llama,
T5 and Whisper are those of transformers, with their published widths and fewer layers (`LAYERS`): Inductor compiles
each layer again, and repeated layers take the same kernels. Nothing is dropped out, so that gradients can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Made = tuple[Any, tuple[Any, ...], bool, str | None]
LAYERS = 3


def _hidden_states(torch: Any, model: Any, names: tuple[str, ...]) -> Any:
    """A model of transformers as a module from positional arguments to its last hidden states."""

    class HiddenStates(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: Any) -> Any:
            return self.model(**dict(zip(names, args, strict=True))).last_hidden_state

    return HiddenStates()


def _tokens(torch: Any, device: str, batch: int, length: int) -> Any:
    return torch.randint(0, 30000, (batch, length), device=device)


def _language_model(torch: Any, device: str, model: Any, batch: int, length: int) -> Made:
    model = _hidden_states(torch, model, ("input_ids",)).to(device, torch.bfloat16).eval()
    return model, (_tokens(torch, device, batch, length),), False, None


def resnet50(torch: Any, device: str) -> Made:
    """32 images of 224x224, fp16, channels last."""
    import torchvision

    model = torchvision.models.resnet50(weights=None).to(device, torch.float16)
    model = model.to(memory_format=torch.channels_last).eval()
    x = torch.randn(32, 3, 224, 224, device=device, dtype=torch.float16)
    return model, (x.to(memory_format=torch.channels_last),), False, None


def vit(torch: Any, device: str) -> Made:
    """ViT-B/16, 16 images."""
    import torchvision

    model = torchvision.models.VisionTransformer(224, 16, LAYERS, 12, 768, 3072)
    torch.nn.init.normal_(model.heads.head.weight, std=0.02)  # torchvision begins with zeros
    x = torch.randn(16, 3, 224, 224, device=device, dtype=torch.bfloat16)
    return model.to(device, torch.bfloat16).eval(), (x,), False, None


def bert(torch: Any, device: str) -> Made:
    """BERT base, 16 sequences of 512."""
    import transformers

    config = transformers.BertConfig(
        num_hidden_layers=LAYERS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    return _language_model(torch, device, model, 16, 512)


def gpt2(torch: Any, device: str) -> Made:
    """GPT-2, 8 sequences of 1024."""
    import transformers

    config = transformers.GPT2Config(
        n_layer=LAYERS, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    return _language_model(torch, device, transformers.GPT2Model(config), 8, 1024)


def llama(torch: Any, device: str) -> Made:
    """Llama 3.2 1B, 2 sequences of 2048."""
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=2048, intermediate_size=8192, num_hidden_layers=LAYERS, num_attention_heads=32,
        num_key_value_heads=8, use_cache=False,
    )  # fmt: skip
    return _language_model(torch, device, transformers.LlamaModel(config), 2, 2048)


def t5(torch: Any, device: str) -> Made:
    """T5 base's encoder, 16 sequences of 512."""
    import transformers

    config = transformers.T5Config(
        d_model=768, d_ff=3072, num_heads=12, num_layers=LAYERS, use_cache=False, dropout_rate=0.0
    )
    return _language_model(torch, device, transformers.T5EncoderModel(config), 16, 512)


def whisper(torch: Any, device: str) -> Made:
    """The encoder of Whisper small, 4 pieces of 30 seconds."""
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        d_model=768, encoder_layers=LAYERS, encoder_attention_heads=12, encoder_ffn_dim=3072
    )
    model = _hidden_states(torch, WhisperEncoder(config), ("input_features",))
    x = torch.randn(4, 80, 3000, device=device, dtype=torch.bfloat16)
    return model.to(device, torch.bfloat16).eval(), (x,), False, None


def mixture(torch: Any, device: str) -> Made:
    """Two layers of eight experts, two for each of 4096 tokens, which gates weigh."""
    nn = torch.nn

    class Experts(nn.Module):
        def __init__(self, width: int = 1024, inner: int = 2048, experts: int = 8) -> None:
            super().__init__()
            self.norm, self.gate = nn.RMSNorm(width), nn.Linear(width, experts)
            self.up = nn.Parameter(torch.randn(experts, width, 2 * inner) * width**-0.5)
            self.down = nn.Parameter(torch.randn(experts, inner, width) * inner**-0.5)

        def forward(self, x: Any) -> Any:
            tokens = self.norm(x)
            weights, chosen = torch.topk(self.gate(tokens).softmax(-1), 2)
            dense = torch.zeros_like(self.gate(tokens)).scatter(1, chosen, weights)
            first, second = torch.einsum("nd,edf->enf", tokens, self.up).chunk(2, -1)
            each = torch.bmm(nn.functional.silu(first) * second, self.down)
            return x + torch.einsum("end,ne->nd", each, dense)

    model = nn.Sequential(Experts(), Experts()).to(device, torch.bfloat16)
    x = torch.randn(4096, 1024, device=device, dtype=torch.bfloat16)
    return model, (x,), False, None


def mamba(torch: Any, device: str) -> Made:
    """Two selective state spaces (Gu and Dao 2023) of 16 steps, one after the other, in fp32. Inductor takes minutes for more."""
    nn = torch.nn
    functional = nn.functional

    class Mixer(nn.Module):
        def __init__(self, width: int = 768, inner: int = 1536, states: int = 16) -> None:
            super().__init__()
            self.norm, self.enter = nn.RMSNorm(width), nn.Linear(width, 2 * inner)
            self.convolution = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
            self.steps, self.mixed = nn.Linear(inner, inner), nn.Linear(inner, 2 * states)
            self.decay = nn.Parameter(torch.rand(inner, states).log())
            self.leave = nn.Linear(inner, width)

        def forward(self, x: Any) -> Any:
            hidden, gate = self.enter(self.norm(x)).chunk(2, -1)
            hidden = self.convolution(hidden.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
            hidden = functional.silu(hidden)
            step = functional.softplus(self.steps(hidden))
            writes, reads = self.mixed(hidden).chunk(2, -1)
            decays = torch.exp(-step.unsqueeze(-1) * self.decay.exp())
            added = (step * hidden).unsqueeze(-1) * writes.unsqueeze(2)
            state, outputs = torch.zeros_like(added[:, 0]), []
            for i in range(x.shape[1]):
                state = decays[:, i] * state + added[:, i]
                outputs.append((state * reads[:, i].unsqueeze(1)).sum(-1))
            return x + self.leave(torch.stack(outputs, 1) * functional.silu(gate))

    x = torch.randn(8, 16, 768, device=device)
    return nn.Sequential(Mixer(), Mixer()).to(device), (x,), False, None


def training(make: Callable[[Any, str], Made]) -> Callable[[Any, str], Made]:
    """A step of training in place of inference."""

    def trained(torch: Any, device: str) -> Made:
        model, args, _, mode = make(torch, device)
        return model.train(), args, True, mode

    return trained


def autotuned(make: Callable[[Any, str], Made]) -> Callable[[Any, str], Made]:
    """The same with products chosen by measurement."""

    def tuned(torch: Any, device: str) -> Made:
        return (*make(torch, device)[:3], "max-autotune-no-cudagraphs")

    return tuned


def unet(torch: Any, device: str) -> Made:
    """Two resolutions, group normalization, SiLU, attention between, channels last."""
    nn = torch.nn

    class Residual(nn.Module):
        def __init__(self, given: int, width: int) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.GroupNorm(8, given), nn.SiLU(), nn.Conv2d(given, width, 3, padding=1)
            )
            self.second = nn.Sequential(
                nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1)
            )
            self.skip = nn.Conv2d(given, width, 1)

        def forward(self, x: Any) -> Any:
            return self.second(self.first(x)) + self.skip(x)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Conv2d(4, 64, 3, padding=1)
            self.down = Residual(64, 128)
            self.middle = Residual(128, 128)
            self.attention = nn.MultiheadAttention(128, 4, batch_first=True)
            self.up = Residual(128 + 64, 64)
            self.leave = nn.Conv2d(64, 4, 3, padding=1)

        def forward(self, x: Any) -> Any:
            high = self.enter(x)
            low = self.middle(self.down(nn.functional.avg_pool2d(high, 2)))
            tokens = low.flatten(2).transpose(1, 2)
            mixed, _ = self.attention(tokens, tokens, tokens, need_weights=False)
            low = low + mixed.transpose(1, 2).reshape(low.shape)
            wide = nn.functional.interpolate(low, scale_factor=2, mode="nearest")
            return self.leave(self.up(torch.cat([wide, high], 1)))

    model = UNet().to(device, memory_format=torch.channels_last)
    x = torch.randn(4, 4, 64, 64, device=device).to(memory_format=torch.channels_last)
    return model, (x,), False, None


def embeddings(torch: Any, device: str) -> Made:
    """Two embeddings, added and normalized, with a projection: a training step."""
    nn = torch.nn

    class Embeddings(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(20000, 512), nn.Embedding(512, 512)
            self.norm, self.out = nn.LayerNorm(512), nn.Linear(512, 512)

        def forward(self, rows: Any) -> Any:
            places = torch.arange(rows.shape[1], device=rows.device)
            return self.out(self.norm(self.words(rows) + self.places(places)).relu())

    rows = torch.randint(0, 20000, (16, 512), device=device)
    return Embeddings().to(device), (rows,), True, None


def _perceptron(torch: Any, device: str, half: bool = True) -> tuple[Any, tuple[Any, ...]]:
    nn = torch.nn
    model = nn.Sequential(
        nn.LayerNorm(512), nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.LayerNorm(512)
    )
    x = torch.randn(1024, 512, device=device)
    model = model.to(device)
    return (model.half(), (x.half(),)) if half else (model, (x,))


def max_autotune(torch: Any, device: str) -> Made:
    """A perceptron between two layer norms, whose products are chosen by measurement."""
    return (*_perceptron(torch, device), False, "max-autotune-no-cudagraphs")


def max_autotune_graphs(torch: Any, device: str) -> Made:
    """The same in a CUDA graph."""
    return (*_perceptron(torch, device), False, "max-autotune")


def ahead_of_time(torch: Any, device: str) -> Made:
    """The perceptron with a softmax, compiled by AOTInductor."""
    model, args = _perceptron(torch, device, half=False)
    return torch.nn.Sequential(model, torch.nn.Softmax(-1)), args, False, "aoti"


INFERENCE: dict[str, Callable[[Any, str], Made]] = {
    "ResNet-50": resnet50,
    "ViT": vit,
    "BERT": bert,
    "GPT-2": gpt2,
    "Llama": llama,
    "T5": t5,
    "Whisper": whisper,
    "mixture of experts": mixture,
    "Mamba": mamba,
    "UNet": unet,
}
MODELS: dict[str, Callable[[Any, str], Made]] = {
    **INFERENCE,
    **{f"{name}, training": training(make) for name, make in INFERENCE.items()},
    "embeddings": embeddings,
    "aoti": ahead_of_time,
    **{f"{name}, max-autotune": autotuned(INFERENCE[name]) for name in ("Llama", "GPT-2", "ViT")},
    "max-autotune": max_autotune,
    "max-autotune, graph": max_autotune_graphs,
}
