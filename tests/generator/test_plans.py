"""Calls of `matmul` like one before: native code is called at once, and asks where the arrays are."""

import gc
import random
import weakref

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import LaunchError
from tilewright.runtime.matmul import plan

E = tw.epilogue
CONFIG = tw.MatmulConfig(16, 16, 16)


@pytest.fixture
def ways(monkeypatch):
    """Counts launches by the way they go."""
    counts = {"native": 0, "python": 0}
    last_call = plan.GeneratedKernel.__getitem__

    def counted(self, grid):
        counts["python"] += 1
        return last_call(self, grid)

    monkeypatch.setattr(plan.GeneratedKernel, "__getitem__", counted)
    return counts


def operands(rng, library, odd=False):
    """a, b and out; `odd`: their first elements are at no multiple of 16 bytes."""
    made = [
        np.asarray(rng.standard_normal(20 * 20 + 1), np.float32)[int(odd) :][:400].reshape(20, 20)
        for _ in range(3)
    ]
    return made if library == "numpy" else [library.from_numpy(x) for x in made]


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("options", [{}, {"alpha": 2.0}, {"accumulate": True}, {"bias": True}])
def test_calls_in_any_order(name, options, ways):
    library = name if name == "numpy" else pytest.importorskip(name)
    rng, order = np.random.default_rng(3), random.Random(3)
    for call in range(60):
        odd = order.random() < 0.2
        a, b, out = operands(rng, library, odd)
        given = dict(options)
        if given.pop("bias", False):
            given["epilogue"] = [E.bias(b[0]), "relu"]
        before = np.asarray(out).astype(np.float64)
        assert tw.matmul(a, b, out, config=CONFIG, **given) is out
        x, y = (np.asarray(v).astype(np.float64) for v in (a, b))
        expected = options.get("alpha", 1.0) * x @ y
        expected += before if "accumulate" in options else 0
        if "bias" in options:
            expected = np.maximum(expected + y[0], 0)
        np.testing.assert_allclose(
            np.asarray(out), expected, rtol=1e-4, atol=1e-3, err_msg=str(call)
        )
    assert ways["python"] < 45, "calls like the last one need no Python"


def test_packed_panels_and_parts(ways):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((100, 100)).astype(np.float32) for _ in range(2))
    from tilewright.generator.config import Panels

    for config in (
        tw.MatmulConfig(32, 32, 32, prepack=Panels(32)),
        tw.MatmulConfig(32, 32, 32, split_k=3),
    ):
        for _ in range(6):
            np.testing.assert_allclose(tw.matmul(a, b, config=config), a @ b, rtol=1e-4, atol=1e-4)
    assert ways["python"] <= 2 * (3 + 2)


def test_variables_and_overlaps_are_looked_at_every_time(ways, monkeypatch):
    a, b, out = operands(np.random.default_rng(5), "numpy")
    for _ in range(3):
        tw.matmul(a, b, out, config=CONFIG)
    went = ways["python"]
    tw.matmul(a, b, out, config=CONFIG)
    assert ways["python"] == went
    with monkeypatch.context() as inside:
        inside.setenv("TILEWRIGHT_INTERPRET", "ir")
        tw.matmul(a, b, out, config=CONFIG)
        np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)
    assert ways["python"] == went + 1
    whole = np.zeros((20, 40), np.float32)
    tw.matmul(whole[:, :20], b, out, config=CONFIG)
    with pytest.raises(LaunchError, match="share memory"):
        tw.matmul(a, b, a, config=CONFIG)


@tw.jit
def shifted(x):
    return x + SHIFT


SHIFT = tw.language.constexpr(1)


def test_functions_of_the_user_may_change(monkeypatch):
    a, b, out = operands(np.random.default_rng(6), "numpy")
    for value in (1, 1, 1, 2, 2):
        monkeypatch.setitem(globals(), "SHIFT", tw.language.constexpr(value))
        tw.matmul(a, b, out, config=CONFIG, epilogue=shifted)
        np.testing.assert_allclose(out, a @ b + value, rtol=1e-4, atol=1e-4)


def test_code_is_kept_as_long_as_a_plan_calls_it():
    from tilewright.runtime.matmul.call import _plans

    a, b, out = operands(np.random.default_rng(7), "numpy")
    config = tw.MatmulConfig(16, 16, 32)
    for _ in range(2):
        tw.matmul(a, b, out, config=config)
    launch = list(_plans.values())[-1].launches[0]
    compiled = weakref.ref(launch.kernel.launcher.compiled.popitem()[1])
    for scope, entries in launch.kernel.launcher._keys.values():
        entries.clear()
        scope["_tw_last"] = (None, None)
    gc.collect()
    assert compiled() is not None
    tw.matmul(a, b, out, config=config)
    np.testing.assert_allclose(out, a @ b, rtol=1e-4, atol=1e-4)
