"""Models of `inductor_gpu.py`, with random weights: name -> `make(torch, device)`.

`make` gives the model, its arguments, whether a training step is timed, and `torch.compile`'s mode ("aoti": compiled
ahead of time by AOTInductor). torch is imported by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Made = tuple[Any, tuple[Any, ...], bool, str | None]


def unet(torch: Any, device: str) -> Made:
    """Two resolutions, group normalization, SiLU, attention between, channels last, a training step."""
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
    return model, (x,), True, None


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


MODELS: dict[str, Callable[[Any, str], Made]] = {
    "unet": unet,
    "embeddings": embeddings,
    "aoti": ahead_of_time,
    "max-autotune": max_autotune,
    "max-autotune, graph": max_autotune_graphs,
}
