"""The loader on a machine without torch and pytest, and what it leaves behind with them."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

WITHOUT = f"""
import sys
sys.modules["torch"] = sys.modules["pytest"] = sys.modules["pandas"] = None
sys.path.insert(0, {str(EXAMPLES)!r})
import numpy as np
import seeds_loader
assert not seeds_loader.has_torch()
matmul = {{hip: seeds_loader.load("tutorial_matmul", hip=hip) for hip in (None, "6.0")}}
assert [len(m.matmul_kernel.configs) for m in matmul.values()] == [8, 5]
assert matmul["6.0"].torch.version.hip == "6.0"
seed = seeds_loader.load("vector_add")
x = seed.torch.rand(777, device="cuda")
assert (seed.add(x, x) == x + x).all()
assert sys.modules["torch"] is None and sys.modules["pytest"] is None
import tilewright
assert tilewright.testing.do_bench(lambda: seed.add(x, x), warmup=1, rep=1) > 0
"""


def test_without_torch_pytest_and_pandas():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True, timeout=120)


def test_each_load_is_fresh_and_leaves_torch_alone(load):
    loader = sys.modules["seeds_loader"]
    before = sys.modules.get("torch")
    first, second = (loader.load("rope") for _ in range(2))
    assert first is not second and first._rope_embedding is not second._rope_embedding
    assert loader.load("softmax", hip="6.0").torch.version.hip == "6.0"
    assert sys.modules.get("torch") is before or before is None
    with pytest.raises(ValueError, match="no such program: 'attention'; there are vector_add"):
        loader.load("attention")
