import pytest


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    for name in ("INTERPRET", "DEBUG", "ALWAYS_COMPILE"):
        monkeypatch.delenv(f"TILEWRIGHT_{name}", raising=False)
        monkeypatch.delenv(f"TRITON_{name}", raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def fresh_kernels():
    from tests.runtime import kernels

    for value in vars(kernels).values():
        if hasattr(value, "pre_run_hooks"):
            value._launcher = value._run = value._dependencies = None
            value.pre_run_hooks.clear()
