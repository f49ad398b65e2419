"""Tuples of tensors, and empty ones, as arguments: launched like as many arguments, without being looked at again."""

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import LaunchError, OutOfBoundsError
from tilewright.runtime.launch import Launcher

torch = pytest.importorskip("torch")


def copying():
    @tw.jit
    def copy_all(sources, targets, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        for i in tl.static_range(COUNT):
            value = tl.load(sources[i] + lanes, mask=lanes < n)
            tl.store(targets[i] + lanes, value, mask=lanes < n)

    return copy_all


@pytest.fixture
def slow(monkeypatch):
    """The launches that have gone the slow path."""
    found, before = [], Launcher.slow
    monkeypatch.setattr(Launcher, "slow", lambda *given: found.append(given) or before(*given))
    return found


def launched(kernel, kinds, n=20, shift=0, **options):
    sources = tuple(torch.arange(64).to(kind)[shift:] for kind in kinds)
    targets = tuple(torch.zeros_like(source) for source in sources)
    kernel[(1,)](sources, targets, n, COUNT=len(kinds), BLOCK=32, **options)
    for source, target in zip(sources, targets, strict=True):
        assert torch.equal(target[:n], source[:n]) and not target[n:].any()


def test_the_slow_path_is_taken_once(slow):
    kernel = copying()
    for _ in range(3):
        launched(kernel, [torch.float32] * 3)
    assert len(slow) == 1


def test_other_lengths_types_and_addresses(slow):
    kernel = copying()
    cases = [[torch.float32] * 2, [torch.float32] * 3, [torch.float32, torch.int64], [torch.int8]]
    for _ in range(2):
        for kinds in cases:
            launched(kernel, kinds)
            before = len(slow)
            launched(kernel, kinds, shift=1)
            assert len(slow) == before
    assert len(kernel._launcher.compiled) == len(cases)


def test_items_that_are_no_tensors():
    @tw.jit
    def scaled(pair, out):
        tl.store(out + tl.arange(0, 16), tl.load(pair[0] + tl.arange(0, 16)) * pair[1])

    x, out = torch.arange(16.0), torch.zeros(16)
    for factor in (2, 3.0, 1, True, 5):
        scaled[(1,)]((x, factor), out)
        assert torch.equal(out, x * factor)


def test_bounds_of_items_are_checked():
    kernel = copying()
    for _ in range(2):
        launched(kernel, [torch.float32] * 2, check="bounds")
    with pytest.raises(OutOfBoundsError):
        launched(kernel, [torch.float32] * 2, n=32, shift=40, check="bounds,views")
    with pytest.raises(OutOfBoundsError):
        launched(kernel, [torch.float32] * 2, n=32, shift=40, check="bounds,views")


def test_empty_tensors_take_the_slow_path_once(slow):
    @tw.jit
    def joined(first, second, out, n, m):
        lanes = tl.arange(0, 16)
        tl.store(out + lanes, tl.load(first + lanes, mask=lanes < n), mask=lanes < n)
        tl.store(out + n + lanes, tl.load(second + lanes, mask=lanes < m), mask=lanes < m)

    x, nothing, out = torch.arange(16.0), torch.empty(0), torch.zeros(16)
    for _ in range(3):
        joined[(1,)](x, nothing, out, 16, 0)
        assert torch.equal(out, x)
    assert len(slow) == 1
    for _ in range(2):
        with pytest.raises(LaunchError):
            joined[(1,)](x, torch.empty(0, device="meta"), out, 16, 0)
    joined[(1,)](nothing, x, out, 0, 16)
    assert torch.equal(out, x) and not nothing.data_ptr()
