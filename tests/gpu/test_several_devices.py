"""Two GPUs in one process: launches go to the device of their arrays, on that device's stream."""

import threading

import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.errors import DeviceAssertError, LaunchError
from tilewright.runtime.drivers.cuda import driver
from tilewright.testing import do_bench

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
DEVICES = ("cuda:0", "cuda:1")


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@tw.jit(debug=True)
def checked(x_ptr, limit, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.device_assert(x < limit, "too large")


def arrays(device, n=1000):
    x, y = (torch.randn(n, device=device) for _ in range(2))
    return x, y, torch.full_like(x, float("nan"))


@pytest.mark.parametrize("current", [0, 1])
def test_the_device_of_the_arrays_counts(current):
    """Whichever is current, and that stays what it was."""
    with torch.cuda.device(current):
        for where in (0, 1, 0, 1):
            x, y, out = arrays(f"cuda:{where}")
            for _ in range(2):
                compiled = add[(2,)](x, y, out, 1000, BLOCK=512)
            torch.testing.assert_close(out, x + y)
            out.zero_()
            compiled[(2,)](x, y, out, 1000)
            torch.testing.assert_close(out, x + y)
        assert torch.cuda.current_device() == driver().current_device() == current


def test_addresses_go_to_the_current_device():
    """A compiled kernel that is given plain addresses has nothing else to go by."""
    x, y, out = arrays("cuda:1")
    compiled = add[(2,)](x, y, out, 1000, BLOCK=512)
    out.zero_()
    with torch.cuda.device(1):
        compiled[(2,)](x.data_ptr(), y.data_ptr(), out.data_ptr(), 1000)
    torch.testing.assert_close(out, x + y)


def test_each_device_has_its_stream():
    """Work that waits on one device's stream does not hold up the other's launches."""
    sides = [torch.cuda.Stream(device=d) for d in DEVICES]
    sets = [arrays(d) for d in DEVICES]
    for x, y, out in sets:
        add[(2,)](x, y, out, 1000, BLOCK=512)
        out.zero_()
    for device in DEVICES:
        torch.cuda.synchronize(device)
    with torch.cuda.stream(sides[0]):
        torch.cuda._sleep(1_000_000_000)
        sets[0][0].fill_(1.0)
        with torch.cuda.stream(sides[1]):  # now current on its device; the other's stays current
            for x, y, out in sets:
                add[(2,)](x, y, out, 1000, BLOCK=512)
    sides[1].synchronize()
    assert not sides[0].query(), "the first device's work ended too early to show anything"
    torch.testing.assert_close(sets[1][2], sets[1][0] + sets[1][1])
    sides[0].synchronize()
    torch.testing.assert_close(sets[0][2], 1.0 + sets[0][1])


def test_arrays_of_two_devices_are_an_error():
    x, y, out = arrays("cuda:0")
    add[(2,)](x, y, out, 1000, BLOCK=512)
    with pytest.raises(LaunchError, match="'x_ptr' is on GPU 0 and 'y_ptr' on GPU 1"):
        add[(2,)](x, y.to("cuda:1"), out, 1000, BLOCK=512)
    compiled = add[(2,)](x, y, out, 1000, BLOCK=512)
    with pytest.raises(LaunchError, match="'x_ptr' is on GPU 0 and 'out_ptr' on GPU 1"):
        compiled[(2,)](x, y, out.to("cuda:1"), 1000)
    add[(2,)](x, y, out, 1000, BLOCK=512)
    torch.testing.assert_close(out, x + y)


class Interface:
    def __init__(self, tensor):
        self.tensor, self.__cuda_array_interface__ = tensor, tensor.__cuda_array_interface__


@pytest.mark.parametrize("current", [0, 1])
def test_the_protocols_say_the_device(current):
    with torch.cuda.device(current):
        for device in DEVICES:
            x, y, out = arrays(device)
            add[(2,)](Interface(x), Interface(y), Interface(out), 1000, BLOCK=512)
            torch.cuda.synchronize(device)
            torch.testing.assert_close(out, x + y)


def test_every_program_on_both():
    """Loaded, launched in turn, the same bits: shared memory limits, tensor maps, clusters."""
    from tests.gpu.programs import programs

    both = [programs(device) for device in DEVICES]
    names = [torch.cuda.get_device_name(d) for d in DEVICES]
    for one, other in zip(*both, strict=True):
        for program in (one, other):
            program.run()
        for device in DEVICES:
            torch.cuda.synchronize(device)
        for a, b in zip(one.outputs, other.outputs, strict=True):
            a, b = a.cpu().float(), b.cpu().float()
            assert a.isfinite().all() and b.isfinite().all(), one.name
            # `programs` seeds the generators of both devices alike
            if names[0] == names[1] and one.exact:
                assert torch.equal(a, b), one.name


def test_threads_on_their_own_devices():
    failures = []

    def work(device):
        try:
            torch.cuda.set_device(device)
            x, y, out = arrays(device, 100_000)
            for _ in range(200):
                add[(200,)](x, y, out, 100_000, BLOCK=512)
            torch.cuda.synchronize(device)
            torch.testing.assert_close(out, x + y)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(DEVICES[i % 2],)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_assertions_on_both():
    for device in (*DEVICES, *DEVICES):
        x = torch.arange(64, device=device, dtype=torch.float32)
        checked[(1,)](x, 64.0, BLOCK=64)
        with pytest.raises(DeviceAssertError, match="too large"):
            checked[(1,)](x, 63.0, BLOCK=64)


def test_graphs_on_the_second_device():
    with torch.cuda.device(1):
        x, y, out = arrays("cuda:1")
        add[(2,)](x, y, out, 1000, BLOCK=512)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            add[(2,)](x, y, out, 1000, BLOCK=512)
        x.fill_(1.0)
        y.fill_(2.0)
        graph.replay()
        torch.cuda.synchronize()
        assert (out == 3.0).all()


def test_tuning_and_timing_on_the_second_device(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    tuned = tw.autotune([tw.Config({"BLOCK": b}) for b in (64, 1024)], ["n"])(add)
    n = 1 << 20
    for device in reversed(DEVICES):
        with torch.cuda.device(device):
            x, y, out = arrays(device, n)
            tuned[lambda meta: (tw.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
            torch.testing.assert_close(out, x + y)
            assert all(0 < times[0] < 10 for times in tuned.configs_timings.values())
            took = do_bench(lambda x=x, y=y, out=out: torch.add(x, y, out=out))
            assert 0.0005 < took < 1
