"""One case of `third_party_speed.py` as a program: an operator forward and backward, at a size that its authors measure.

    python benchmarks/third_party_speed_case.py fla/chunk_gla [--tiny]

Whatever is imported as `triton` runs the kernels. `--tiny`: sizes for a CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parent))
from third_party_cases import CASES, Maker, Problem, load
from third_party_references import flat

os.environ |= {
    "TORCH_COMPILE_DISABLE": "1",
    "FLA_DISABLE_BACKEND_DISPATCH": "1",
    "TILEWRIGHT_CACHE_AUTOTUNING": "0",
}
LISTS = (
    "third_party_tutorials",
    "third_party_gems_pointwise",
    "third_party_gems_rows",
    "third_party_gems_products",
    "third_party_gems_images",
    "third_party_gems_data",
    "third_party_gems_attention",
)
"""More operators, without references."""
ROUTINES: dict[str, Callable[[Maker], object]] = {}
"""Operators that are only run."""

SIZES: dict[str, dict[str, int]] = {
    "fla": {"length": 4096, "heads": 16, "depth": 128, "rows": 8192, "hidden": 4096, "vocabulary": 65536},
    "liger": {"length": 2048, "heads": 32, "depth": 128, "rows": 8192, "hidden": 4096, "vocabulary": 16384},
    "third_party_liger_losses": {"rows": 1024, "vocabulary": 128256},
    "third_party_fla_rwkv": {"depth": 64, "heads": 32, "hidden": 2048},
}  # fmt: skip
"""Of packages and of lists of operators: Llama 3's (8 B) where sizes are a model's."""
OWN_SIZES: dict[str, dict[str, int]] = {
    "fla/cross_entropy": {"rows": 4096},
    "fla/cross_entropy_smooth_softcap": {"rows": 4096},
    "fla/fused_linear_cross_entropy": {"rows": 4096, "hidden": 2048},
    "fla/fused_kl_div": {"rows": 2048, "hidden": 1024},
    "fla/bitlinear": {"hidden": 2048},
    "fla/fused_recurrent_momentum_delta_rule": {"length": 256},
    "fla/parallel_nsa": {"batch": 1},
    "fla/deltaformer_attn": {"batch": 1, "heads": 8},
    "liger/attn_res": {"rows": 1024},
    "liger/mhc_pre": {"rows": 1024},
    "liger/mhc_post_res": {"rows": 1024},
    "liger/mhc_coeffs": {"rows": 2048},
}


class SpeedMaker(Maker):
    """Makes large inputs where they are used."""

    large = True

    def __init__(self, case: str, module: str) -> None:
        super().__init__("cuda", "bf16", 4096)
        self.drawn = torch.Generator(device="cuda").manual_seed(0)
        package = case.partition("/")[0]
        for sizes in (SIZES.get(package), SIZES.get(module), OWN_SIZES.get(plain(case))):
            vars(self).update(sizes or {})

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None):
        return self._made(torch.randn, shape, lambda x: x.mul_(scale), dtype)

    def unit(self, *shape: int, dtype: torch.dtype | None = None):
        return self._made(torch.randn, shape, lambda x: functional.normalize(x, dim=-1), dtype)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype | None = None):  # fmt: skip
        return self._made(torch.rand, shape, lambda x: x.mul_(high - low).add_(low), dtype)

    def gate(self, *shape: int, dtype: torch.dtype | None = None):
        return self._made(torch.randn, shape, lambda x: functional.logsigmoid(x.add_(2)), dtype)

    def integers(self, high: int, *shape: int):
        return torch.randint(0, high, shape, generator=self.drawn, device=self.device)

    def _made(self, draw: Any, shape: Any, change: Any, dtype: torch.dtype | None):
        value = draw(shape, generator=self.drawn, device=self.device)
        return change(value).to(dtype or self.dtype)


def plain(case: str) -> str:
    """A case without its variant."""
    return case.removesuffix("_states").removesuffix("_packed")


def routine(package: str) -> Callable[[Callable[[Maker], object]], Any]:
    """A decorator that adds a function that runs an operator itself."""

    def add(function: Callable[[Maker], object]) -> Any:
        ROUTINES[f"{package}/{function.__name__}"] = function
        return function

    return add


def names() -> list[str]:
    """All cases; neither package nor GPU is needed."""
    load()
    for name in LISTS:
        importlib.import_module(name)
    return [*CASES, *ROUTINES]


def run(case: str, tiny: bool) -> None:
    """Run an operator forward and backward."""
    names()
    function = CASES.get(case) or ROUTINES[case]
    module = _module_of(function)
    maker = Maker("cpu", "bf16", 101) if tiny else SpeedMaker(case, module)
    if case in ROUTINES:
        function(maker)
        return
    problem: Problem = CASES[case](maker)
    inputs = [_argument(problem, i, value) for i, value in enumerate(problem.inputs)]
    if not problem.differentiable:
        with torch.no_grad():
            problem.operator(*inputs)
        return
    ends = [t for t in flat(problem.operator(*inputs)) if t.requires_grad]
    torch.autograd.backward(ends, [torch.randn_like(t) for t in ends])


def _module_of(function: Any) -> str:
    """The list that a case is in."""
    for cell in function.__closure__ or ():  # a variant
        if callable(cell.cell_contents) and hasattr(cell.cell_contents, "__module__"):
            return cell.cell_contents.__module__
    return function.__module__


def _argument(problem: Problem, position: int, value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.detach().clone().requires_grad_(position in problem.differentiable)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("case")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if args.tiny:
        torch.cpu.device = lambda index: contextlib.nullcontext()
        torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=4)
    torch.compile = lambda function=None, **_: function or (lambda function: function)
    run(args.case, args.tiny)
    if torch.cuda.is_available():
        torch.cuda.synchronize()


if __name__ == "__main__":  # as the module that lists of operators know
    importlib.import_module("third_party_speed_case").main()
