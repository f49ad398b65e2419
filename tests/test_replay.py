"""`scripts/replay.py`: a commit against itself, and a difference that is made on purpose."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
#: one compilation for the CPU, one for a GPU
SMALL = "relu_kernel"


@pytest.fixture(scope="module")
def replay():
    spec = importlib.util.spec_from_file_location("replay", ROOT / "scripts" / "replay.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["replay"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_source_gives_the_code_that_it_gives(replay):
    results = replay.replay(ROOT, ROOT, ["--only", SMALL])
    assert [r.state for r in results] == ["identical"] * 3, replay.table(results)


def test_another_source_gives_other_code(replay, tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    version = tmp_path / "src/tilewright/backends/nvidia/ptx.py"
    text = version.read_text()
    version.write_text(f"{text}\n\n_as_it_was = to_ptx\n\n\ndef to_ptx(*given):\n"
                       "    return _as_it_was(*given) + '// another line'\n")  # fmt: skip
    results = replay.replay(tmp_path, ROOT, ["--only", SMALL])
    states = {r.name.partition("@")[2]: r.state for r in results}
    assert states == {"x86-64-v3": "identical", "sm_80": "different", "sm_90a": "different"}
    assert [line for r in results for line in r.diff if line == "-// another line"]
    assert "3 compilations: 2 different, 1 identical" in replay.table(results)


def test_only_symbols_and_renamed_fields_of_plans_may_differ(replay, monkeypatch):
    monkeypatch.setitem(replay.RENAMED_PLAN_FIELDS, "cluster", "cluster_size")
    base = {
        "ptx": ".entry mm_turned(.param .u64 mm_turned_param_0)",
        "plan": '{"name": "mm_turned", "cluster": 1}\n',
    }
    here = {
        "ptx": ".entry mm_no_rs(.param .u64 mm_no_rs_param_0)",
        "plan": '{"name": "mm_no_rs", "cluster_size": 1}\n',
    }
    roots = (ROOT, ROOT)
    result = replay.compare("mm", base, here, roots)
    assert (result.state, result.notes) == ("identical", ["symbol mm_turned -> mm_no_rs"])
    changed = replay.compare(
        "mm", base, {**here, "ptx": ".entry mm_no_rs(.param .u64 mm_no_rs_param_0) ret;"}, roots
    )
    assert (
        changed.state == "different"
        and "+.entry kernel_0(.param .u64 kernel_0_param_0) ret;" in changed.diff
    )
    plan = replay.compare(
        "mm", base, {**here, "plan": '{"name": "mm_no_rs", "cluster_size": 2}'}, roots
    )
    assert plan.state == "different"
    assert replay.compare("mm", base, None, roots).state == "only in base"
    failed = {"error": "CompilationError: no"}
    assert replay.compare("mm", base, failed, roots).state == "different"
    assert replay.compare("mm", failed, failed, roots).state == "fails in both"


def test_a_commit_is_checked_out_and_the_checkout_removed(replay):
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    with replay.checkout("HEAD") as place:
        assert (place / "src/tilewright/__init__.py").is_file()
    assert not place.exists()
    listed = subprocess.run(["git", "-C", ROOT, "worktree", "list"], capture_output=True, text=True)
    assert str(place) not in listed.stdout
