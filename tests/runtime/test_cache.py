"""The disk cache: atomic, checked, bounded, shared between processes; keys change when they must."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.runtime import kernels
from tests.runtime.fake_backend import ADD, FakeBackend, use
from tests.runtime.kernels import add_kernel

import tilewright as tw
from tilewright.backends.base import LaunchPlan
from tilewright.runtime.cache import DiskCache
from tilewright.runtime.dependencies import dependencies_of


@pytest.fixture
def cache(tmp_path):
    return DiskCache(tmp_path / "kernels")


def test_round_trip(cache):
    key = cache.key("a", "b")
    assert cache.load(key) is None
    assert cache.store(key, {"object": b"\0\n\1" * 1000, "plan": b"{}", "empty": b""})
    assert cache.load(key) == {"object": b"\0\n\1" * 1000, "plan": b"{}", "empty": b""}
    assert cache.key("a", "b") != cache.key("ab", "") != cache.key("", "ab")
    assert cache.directory.stat().st_mode & 0o077 == 0
    assert [p.name for p in cache.directory.glob("*/*")] == [key + ".entry"]


@pytest.mark.parametrize("damage", ["cut", "flip", "swap", "empty", "garbage"])
def test_damage_is_a_miss(cache, damage):
    key, other = cache.key("one"), cache.key("two")
    cache.store(key, {"object": b"code" * 100})
    cache.store(other, {"object": b"other" * 100})
    path = cache.path(key)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-7] ^= 1
    path.write_bytes(
        {
            "cut": data[:-1], "flip": data, "swap": cache.path(other).read_bytes(), "empty": b"",
            "garbage": os.urandom(300),
        }[damage]
    )  # fmt: skip
    assert cache.load(key) is None
    assert not path.exists() and cache.load(other) is not None


def test_unusable_folders_are_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    blocked = DiskCache(tmp_path / "file" / "below")
    assert (
        not blocked.store(blocked.key("x"), {"a": b""}) and blocked.load(blocked.key("x")) is None
    )
    assert blocked.evict() == 0


def test_eviction_drops_the_oldest(cache):
    cache.limit_bytes = 5000
    keys = [cache.key(str(i)) for i in range(10)]
    for i, key in enumerate(keys):
        cache.store(key, {"object": bytes(900)})
        if cache.path(key).exists():
            os.utime(cache.path(key), (time.time() - 1000 + i,) * 2)
    cache.evict()
    kept = [cache.load(key) is not None for key in keys]
    assert kept == [False] * 6 + [True] * 4 or kept == [False] * 5 + [True] * 5


def test_many_writers(cache):
    keys = [cache.key(str(i)) for i in range(4)]
    payload = {key: {"object": key.encode() * 500} for key in keys}

    def work(seed):
        for i in range(40):
            key = keys[(seed + i) % 4]
            cache.store(key, payload[key])
            found = cache.load(keys[(seed + i + 1) % 4])
            assert found is None or found == payload[keys[(seed + i + 1) % 4]]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


# ---- kernels in the cache --------------------------------------------------------------------------


def launch():
    x, y, out = (np.arange(64, dtype=np.float32) for _ in range(3))
    compiled = add_kernel[(1,)](x, y, out, 64, BLOCK=64)
    np.testing.assert_array_equal(out, x + y)
    return compiled


def test_second_time_is_read_from_disk():
    with use(FakeBackend(ADD, BLOCK=64)) as backend:
        assert not launch().from_cache
        add_kernel._launcher = add_kernel._run = None
        again = launch()
        assert again.from_cache and len(backend.compiled) == 1 and "llvm" in again.asm


def test_damaged_kernel_is_rebuilt(private_cache):
    with use(FakeBackend(ADD, BLOCK=64)) as backend:
        launch()
        for path in private_cache.glob("kernels/*/*.entry"):
            data = bytearray(path.read_bytes())
            data[-5] ^= 0xFF
            path.write_bytes(data)
        add_kernel._launcher = add_kernel._run = None
        assert not launch().from_cache and len(backend.compiled) == 2


def test_settings_change_the_key(monkeypatch):
    with use(FakeBackend(ADD, BLOCK=64)) as backend:
        first = launch()
        monkeypatch.setenv("TILEWRIGHT_DISABLE", "cse")
        second = launch()
        monkeypatch.setenv("TILEWRIGHT_DEBUG", "1")
        third = launch()
        assert len({first.hash, second.hash, third.hash}) == 3 and third.options.debug
        monkeypatch.delenv("TILEWRIGHT_DISABLE")
        monkeypatch.delenv("TILEWRIGHT_DEBUG")
        assert launch() is first and len(backend.compiled) == 3


def test_plan_survives():
    plan = LaunchPlan("k", (), 64, 3.5, (), False, {"a": 1})
    assert LaunchPlan.from_json(plan.to_json()) == plan


def test_dependencies(monkeypatch):
    texts = dependencies_of(kernels.uses_globals).texts
    assert any("SCALE=" in t for t in texts) and any("def helper" in t for t in texts)
    assert not any("tl." in t and "=" in t and "def" not in t for t in texts)

    import types

    version = types.SimpleNamespace(hip=None)
    module = types.ModuleType("fake_torch")
    module.version = types.ModuleType("fake_torch.version")
    module.version.hip = version.hip

    def make():
        @tw.jit
        def kernel(x):
            if module.version.hip is None:
                pass

        return kernel

    kernel = make()
    before = kernel.cache_key
    assert make().cache_key == before
    module.version.hip = "6.0"
    assert make().cache_key != before and kernel.cache_key != before


SCRIPT = """
import json, sys, time
import numpy as np
import llvmlite.binding
sys.path.insert(0, {root!r})
start = time.process_time()  # not the time of others that the machine is busy with
import tilewright
loaded = time.process_time() - start
from tests.runtime import kernels
x, y, out = (np.arange(64, dtype=np.float32) for _ in range(3))
start = time.process_time()
compiled = kernels.add_kernel[(1,)](x, y, out, 64, BLOCK=64)
first = time.process_time() - start
assert np.array_equal(out, x + y)
print(json.dumps([compiled.from_cache, "xdsl" in sys.modules, "torch" in sys.modules, loaded, first]))
"""


def test_other_process_needs_no_ir_stack(private_cache):
    root = str(Path(__file__).resolve().parents[2])
    with use(FakeBackend(ADD, BLOCK=64)):
        launch()
    times = []
    for _ in range(3):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(root=root)],
            env={**os.environ, "TILEWRIGHT_CACHE_DIR": str(private_cache)},
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        from_cache, xdsl, torch, *taken = json.loads(run.stdout)
        assert from_cache and not xdsl and not torch
        times.append(taken)
    loaded, first = (min(of_runs) for of_runs in zip(*times, strict=True))
    assert loaded < 0.25 and first < 1.0


def test_import_is_light():
    code = (
        "import sys, tilewright; bad = [m for m in ('xdsl', 'torch', 'llvmlite', 'numpy', 'typer',"
        " 'pandas', 'matplotlib') if m in sys.modules]; print(bad)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_stores_sweep_the_folder_now_and_then(cache):
    """Every store of every process counts, and a sweep follows a sixteenth of the limit."""
    cache.limit_bytes = 64 << 10
    for i in range(200):
        other = type(cache)(cache.directory, cache.limit_bytes)
        other.store(other.key(str(i)), {"blob": bytes(1000)})
    size = sum(p.stat().st_size for p in cache.directory.glob("*/*.entry"))
    assert 32 << 10 < size <= (64 << 10) * 17 // 16
