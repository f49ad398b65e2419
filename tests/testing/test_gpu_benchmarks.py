"""The benchmarks of products on a GPU, as far as they run without one: rehearsed, and what they compile."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def cases(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_cases

    return gpu_cases


def rehearsed(tmp_path, script, *options):
    command = [sys.executable, str(BENCHMARKS / script), "--dry-run", "--to", str(tmp_path)]
    done = subprocess.run([*command, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_products_beside_cublas(tmp_path):
    text = rehearsed(
        tmp_path,
        "generated_matmul.py",
        "--only",
        "small",
        "squares",
        "--range",
        "1024",
        "1536",
        "256",
    )
    rows = json.loads((tmp_path / "generated_matmul.json").read_text())["rows"]
    kinds = {"small": 5, "vector": 3, "squares fp16": 3, "squares bf16": 3}
    assert {k: sum(r["kind"] == k for r in rows) for k in kinds} == kinds
    assert "| squares fp16 | 1024 |" in (tmp_path / "generated_matmul.md").read_text()
    assert (tmp_path / "generated_matmul.png").is_file() and "copy rate" in text
    # what there is no time for is named, and earlier rows stay
    text = rehearsed(
        tmp_path, "generated_matmul.py", "--only", "large", "layouts", "--seconds", "0"
    )
    assert (
        "no time for 9 rows: NN 4096" not in text and "no time for 9 rows: layouts NN 4096" in text
    )
    assert len(json.loads((tmp_path / "generated_matmul.json").read_text())["rows"]) == len(rows)


@pytest.mark.slow
def test_searching(tmp_path):
    rehearsed(
        tmp_path,
        "tune_matmul.py",
        "--sizes",
        "1536",
        "--dtypes",
        "float16",
        "--accumulator",
        "float16",
    )
    rows = json.loads((tmp_path / "tuning_a-rehearsal.json").read_text())["rows"]
    assert "float16 1536x1536x1536 sums float16" in {row["work"] for row in rows}
    assert all(len(row["ms"]) > 4 for row in rows)
    assert "The model's choice reaches" in (tmp_path / "tuning_a-rehearsal.md").read_text()


def test_configurations_in_words(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import tune_matmul
    from tilewright.generator import MatmulConfig

    for *_, texts in tune_matmul.OPEN:
        assert all(MatmulConfig.from_text(text).text == text for text in texts)


def test_beginnings_cover_the_whole(cases):
    order = cases.spread(list(range(61)))
    assert sorted(order) == list(range(61)) and order[:4] == [0, 32, 16, 48]


def test_what_is_collected_is_what_a_call_launches(cases, monkeypatch, tmp_path):
    """Nothing is left to be compiled when calls are timed."""
    from tilewright.backends import registry
    from tilewright.runtime import compile_variants

    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))

    def made():
        a, b = cases.random(96, 64, dtype=torch.float32), cases.random(64, 80, dtype=torch.float32)
        out, bias = cases.empty(96, 80, dtype=torch.float32), cases.random(80, dtype=torch.float32)
        steps = [cases.tw.epilogue.bias(bias), "gelu"]
        split = cases.tw.generator.MatmulConfig(32, 32, 32, split_k=2)
        yield case(a, b, out)
        yield case(a, b, out, epilogue=steps)
        yield case(a, b, out, config=split)

    def case(a, b, out, **options):
        def call():
            cases.matmul(a, b, out=out, **options)

        return cases.Case("test", "", {"tilewright": call}, out)

    collector = cases.collected(made(), registry.get("cpu").target())
    compiled = cases.compile_all(collector, processors=2)
    assert len(compiled) >= 4 and not any(each.failure for each in compiled)
    for kernel, _ in collector.found.values():
        kernel._launcher = kernel._run = None

    def refuse(*arguments):
        raise AssertionError("compiled while it is timed")

    monkeypatch.setattr(compile_variants.Variants, "best", refuse)
    with cases.rehearsing(shrink=1):
        for each in made():
            each.calls["tilewright"]()
            assert np.isfinite(each.out.numpy()).all()
