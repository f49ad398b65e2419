"""Collects the FileCheck cases in `*.mlir` beside the Python tests."""

from pathlib import Path

from tilewright.testing import filecheck


def pytest_collect_file(file_path: Path, parent):
    return filecheck.collect(file_path, parent)
