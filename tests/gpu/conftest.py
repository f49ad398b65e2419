"""Tests that need an NVIDIA GPU; everywhere else they are skipped."""

import pytest


def _missing() -> str:
    """Why nothing here can run, or ""."""
    from tilewright.errors import UnsupportedTarget
    from tilewright.runtime.drivers.cuda import driver

    try:
        if driver().device_count == 0:
            return "no GPU"
        driver().device(0)
    except UnsupportedTarget as error:
        return error.message
    try:
        import torch
    except ImportError:
        return "no torch"
    return "" if torch.cuda.is_available() else "torch has no CUDA"


def pytest_collection_modifyitems(items):
    mine = [item for item in items if "tests/gpu/" in str(item.path).replace("\\", "/")]
    why = _missing() if mine else ""
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if why:
            item.add_marker(pytest.mark.skip(reason=f"needs an NVIDIA GPU: {why}"))
