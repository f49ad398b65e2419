"""The wheel holds the package and nothing else, and works from there."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tilewright"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    (path,) = folder.glob("*.whl")
    return path


def test_nothing_but_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if not n.endswith("/")}
    info = {n for n in names if n.split("/")[0].endswith(".dist-info")}
    expected = {
        f"tilewright/{f.relative_to(PACKAGE).as_posix()}"
        for f in PACKAGE.rglob("*")
        if f.suffix in (".py", ".typed", ".jinja", ".json")
    }
    assert names - info == expected
    assert {n.split("/")[1] for n in info} >= {"METADATA", "RECORD", "WHEEL", "entry_points.txt"}
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (archive.read(n).decode() for n in info if n.endswith("/METADATA"))
    assert "License-Expression: MIT" in metadata and "License-File: LICENSE" in metadata
    assert (
        "Author: The tilewright authors" in metadata and "Classifier: Typing :: Typed" in metadata
    )
    assert "Requires-Dist: matplotlib>=3.9; extra == 'report'" in metadata
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < 2 << 20


def test_it_runs_from_the_wheel(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "tilewright", "doctor"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "TILEWRIGHT_CACHE_DIR": str(tmp_path / "c")},
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert str(tmp_path) in "".join(run.stdout.split())
