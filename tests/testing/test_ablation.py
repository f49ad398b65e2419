"""The ablation: what its switches build, that every step counts, its files; small, on the CPU."""

import json
import sys

import pytest
from benchmarks.ablation import __main__ as command
from benchmarks.ablation import build_for, run_study, switches_of, write_ir, write_report
from benchmarks.ablation.__main__ import main
from benchmarks.ablation.switches import paper_endpoint, without

from tilewright.backends import registry
from tilewright.errors import LaunchError
from tilewright.passes.cpu.dot_plan import DotPlan, plan_dot, simpler_plan

CPU = registry.machine("cpu")


@pytest.fixture(scope="module")
def study():
    return run_study("cpu", (96, 80, 64), rounds=1, milliseconds=1)


def test_every_variant_is_right_and_every_step_changes_the_ir(study):
    keys = [s.key for s in switches_of(CPU)]
    assert [row.on for row in study.added] == [tuple(keys[:i]) for i in range(len(keys) + 1)]
    assert len(study.removed) == len(keys)
    for row in study.rows:
        assert row.changed and row.ir and row.error < 1e-5 and row.milliseconds > 0


def test_files(study, tmp_path):
    page, data, picture = write_report(study, tmp_path, "cpu", ["a note"])
    text = page.read_text()
    assert "a note" in text and "| + register tile | 3.2 |" in text
    assert text.count("\n| ") == 2 + len(study.added) + len(study.removed) + 1
    assert json.loads(data.read_text())["added"][0]["section"] == "listing 1"
    assert picture.read_bytes()[:4] == b"\x89PNG"
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "99-stale.mlir").touch()
    texts = write_ir(study, tmp_path / "ir")
    assert len(texts) == len(study.added) and "func.func" in texts[0].read_text()
    assert sorted(texts) == sorted((tmp_path / "ir").iterdir())
    assert "benchmarks.ablation --target cpu --size 96,80,64 --dtype float32 --ir FOLDER" in text


def test_without_matplotlib_the_tables_are_written(study, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(LaunchError, match=r"tilewright\[report\]"):
        write_report(study, tmp_path, "cpu")
    assert {f.suffix for f in tmp_path.iterdir()} == {".md", ".json"}


def test_what_was_measured_is_kept_where_something_is_wrong(monkeypatch, tmp_path):
    from benchmarks.ablation import run

    error, kept = run._Bench.error, []
    monkeypatch.setattr(
        run._Bench, "error", lambda b, c: error(b, c) if kept else kept.append(0) or 1.0
    )
    with pytest.raises(AssertionError, match=r"listing 1.*wrong by 1 of"):
        run_study("cpu", (48, 32, 40), rounds=1, milliseconds=1, keep=kept.append)
    study = kept[-1]
    assert study.added[0].failure and all(row.milliseconds for row in study.added[1:])
    page, *_ = write_report(study, tmp_path, "cpu")
    assert "wrong by 1 of the sum" in page.read_text()


def test_the_command(tmp_path):
    main(["--size", "48,32,40", "--save", str(tmp_path)])
    assert (tmp_path / "ablation_cpu.md").is_file()
    for size, text in (("0", "has an extent below 1"), ("many", "'many' is not a valid size")):
        with pytest.raises(LaunchError, match=text):
            main(["--size", size])


def test_the_command_writes_the_ir(study, tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(command, "run_study", lambda *a, **named: asked.append((a, named)) or study)
    main(["--target", "sm_90a", "--ir", str(tmp_path)])
    ((arguments, named),) = asked
    assert arguments == ("sm_90a", None, "") and named["only_compile"]
    files = sorted(tmp_path.glob("*.mlir"))
    assert len(files) == len(switches_of(CPU)) + 1
    assert f"{len(files)} files in {tmp_path}" in capsys.readouterr().out


def test_builds():
    assert build_for((), CPU).blocks == (16, 16, 16)
    full = build_for([s.key for s in switches_of(CPU)], CPU)
    assert full.off == () and full.group > 1 and full.form == "tiled"
    hopper = registry.machine("sm_90a")
    none = build_for((), hopper)
    assert "select-mma" in none.off and "select-mma{wgmma=false}" not in none.off
    assert "select-mma{wgmma=false}" in build_for(("tensor cores",), hopper).off
    keys = [s.key for s in switches_of(hopper)]
    assert "latency" in keys and not {"latency", "stages"} & set(without("latency", hopper))
    assert paper_endpoint(hopper).config.form == "tiled"
    assert not {"warp groups", "boxes"} & {s.key for s in switches_of(registry.machine("sm_80"))}


@pytest.mark.parametrize(
    "types", [("f32", "f32", "f32"), ("i8", "i8", "i32"), ("f64", "f64", "f64")]
)
@pytest.mark.parametrize("options", [(False, True, True), (True, False, True), (True, True, False)])
def test_simpler_plans(types, options):
    plan = plan_dot(50, 70, 33, *types, CPU)
    simple = simpler_plan(plan, *options)
    register_tile, unroll, wide = options
    assert simple != plan or not (wide and unroll)
    assert DotPlan.parse(str(simple)) == simple
    assert (simple.micro.rows == simple.micro.vectors == 1) or register_tile
    assert simple.micro.unroll == 1 or unroll
    assert simple.b_layout.width == simple.micro.columns


@pytest.mark.long
def test_every_step_changes_the_ir_on_a_gpu():
    """Without a GPU: all variants for sm_90a are compiled, and none has the IR of the row it is held against."""
    study = run_study("sm_90a", (256, 256, 128), only_compile=True)
    assert (
        len(study.added)
        == len(study.removed) + 1
        == len(switches_of(registry.machine("sm_90a"))) + 1
    )
    assert all(row.changed and row.ir and not row.failure for row in study.rows)
    (papers,) = study.extra
    assert 0 < papers.shared_bytes <= 48 << 10
    assert "mma.sync" in papers.title and "gpu.mma" in papers.ir and "wgmma" not in papers.ir
