"""Autotuning and heuristics over kernels that are plain Python and a clock that only they turn."""

import json
import math
import re
import time
import weakref

import numpy as np
import pytest

from tilewright.backends.base import Argument, LaunchPlan
from tilewright.errors import AutotuneError, CompilationError, LaunchError, OutOfResources
from tilewright.runtime.autotune import Autotuner, Config, autotune
from tilewright.runtime.heuristics import Heuristics, heuristics
from tilewright.runtime.interface import KernelInterface


class Clock:
    """Stands for the module `time` where runs are measured: a busy machine cannot change the times."""

    def __init__(self):
        self.nanoseconds = 0

    def perf_counter_ns(self):
        self.spend(0.1)  # nothing takes no time at all
        return self.nanoseconds

    def spend(self, milliseconds):
        self.nanoseconds += int(milliseconds * 1e6)


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("tilewright.runtime.timing.time", clock)
    monkeypatch.setattr(FakeKernel, "clock", clock, raising=False)
    return clock


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEWRIGHT_CACHE_AUTOTUNING", raising=False)
    monkeypatch.delenv("TRITON_CACHE_AUTOTUNING", raising=False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    return tmp_path


class Compiled:
    def __init__(self, written):
        arguments = [Argument("x_ptr", "pointer", "*fp32", "x_ptr" in written)]
        arguments += [Argument("out_ptr", "pointer", "*fp32", "out_ptr" in written)]
        self.plan = LaunchPlan("k", tuple(arguments))


class FakeKernel(KernelInterface):
    """Takes `cost(BLOCK)` ms and adds x to out in place; counts what it is asked to do."""

    clock: Clock

    arg_names = ("x_ptr", "out_ptr", "n", "BLOCK", "EVEN")

    def __init__(self, cost=lambda block: block / 10, written=("out_ptr",), key="kernel"):
        self.cost, self.written, self.cache_key = cost, written, key
        self.compiled, self.runs, self.fails = [], [], {}

    @staticmethod
    def fn():
        pass

    def run(self, x_ptr, out_ptr, n, *, grid, warmup=False, BLOCK=16, EVEN=None, **options):
        if warmup:
            if BLOCK in self.fails:
                raise self.fails[BLOCK]
            self.compiled.append(BLOCK)
            return Compiled(self.written)
        self.runs.append((BLOCK, EVEN, options, grid({"BLOCK": BLOCK}) if callable(grid) else grid))
        self.clock.spend(self.cost(BLOCK))
        out_ptr += x_ptr
        return None


def blocks(*sizes, **options):
    return [Config({"BLOCK": size}, **options) for size in sizes]


def arrays(n=8):
    return np.ones(n, np.float32), np.zeros(n, np.float32)


def tuned(kernel, configs, **options):
    options.setdefault("key", ["n"])
    return autotune(configs, **options)(kernel)


def test_fastest_wins_and_arrays_are_as_after_one_run():
    kernel = FakeKernel()
    tuner = tuned(kernel, blocks(32, 8, 16))
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    assert tuner.best_config.kwargs == {"BLOCK": 8}
    np.testing.assert_array_equal(out, np.ones(8))
    assert kernel.runs[-1][0] == 8
    assert tuner.bench_time > 0 and set(tuner.configs_timings) == set(tuner.configs)
    assert all(len(times) == 3 for times in tuner.configs_timings.values())
    assert tuner.base_fn is FakeKernel.fn and tuner.keys == ["n"] and tuner.fn is kernel


def test_grid_callable_sees_the_choice():
    kernel = FakeKernel()
    x, out = arrays()
    tuned(kernel, blocks(4, 8))[lambda meta: (meta["BLOCK"],)](x, out, 8)
    assert all(run[3] == (run[0],) for run in kernel.runs)


def test_new_key_or_dtype_tunes_again_and_old_ones_do_not():
    kernel = FakeKernel()
    tuner = tuned(kernel, blocks(4, 8))
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    count = len(kernel.runs)
    tuner[(1,)](x, out, 8)
    assert len(kernel.runs) == count + 1
    tuner[(1,)](x, out, 9)
    assert len(tuner.cache) == 2
    tuner[(1,)](x.astype(np.float64), out.astype(np.float64), 9)
    assert len(tuner.cache) == 3
    assert tuner.get_best_config(8).kwargs == {"BLOCK": 4}
    with pytest.raises(AutotuneError, match="no configuration has been chosen for n=77"):
        tuner.get_best_config(77)


def test_clearing_the_cache_and_keys_by_keyword_tune_again():
    kernel = FakeKernel()
    tuner = tuned(kernel, blocks(4, 8))
    x, out = arrays()
    for _ in range(3):
        tuner[(1,)](x, out, n=8)
        tuner[(1,)](x, out, 8)
    assert len(tuner.cache) == 1
    tuner.cache.clear()
    tuner[(1,)](x, out, 8)
    assert len(tuner.cache) == 1


def test_ties_go_to_the_first_in_the_list():
    tuner = tuned(FakeKernel(), blocks(8, 4, 16), do_bench=lambda fn, quantiles: next(times))
    times = iter([[1.015, 1, 2], [1.0, 1, 2], [1.03, 1, 2]])
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    assert tuner.best_config.kwargs == {"BLOCK": 8}


def test_configurations_that_mean_the_same_are_timed_once():
    kernel = FakeKernel()
    configs = [
        *blocks(4, num_warps=4), *blocks(4, num_warps=8), *blocks(4, num_stages=0),
        Config({"BLOCK": 4, "waves_per_eu": 2, "kpack": 1}), *blocks(8),
    ]  # fmt: skip
    tuner = tuned(kernel, configs)
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    assert kernel.compiled == [4, 8]
    assert tuner.best_config is configs[0]
    assert tuner.configs_timings[configs[0]] == tuner.configs_timings[configs[3]]
    assert kernel.runs[-1][2] == {"num_warps": 4, "num_stages": 3, "num_ctas": 1}


def test_all_the_same_needs_no_timing():
    kernel = FakeKernel()
    configs = [*blocks(4, num_warps=1), *blocks(4, num_warps=2)]
    x, out = arrays()
    tuned(kernel, configs)[(1,)](x, out, 8)
    assert kernel.compiled == [] and len(kernel.runs) == 1


def test_failing_configurations_are_left_out():
    kernel = FakeKernel()
    kernel.fails = {4: OutOfResources(300, 200, "shared memory"), 8: CompilationError("no\nwhy")}
    tuner = tuned(kernel, blocks(4, 8, 16, 32))
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    assert tuner.best_config.kwargs == {"BLOCK": 16}
    assert math.isinf(tuner.configs_timings[tuner.configs[0]][0])
    assert tuner.failures[tuner.configs[1]] == "CompilationError: no"


def test_all_failing_lists_each_reason():
    kernel = FakeKernel()
    kernel.fails = {4: OutOfResources(300, 200, "registers"), 8: CompilationError("bad shape")}
    x, out = arrays()
    with pytest.raises(AutotuneError) as caught:
        tuned(kernel, blocks(4, 8))[(1,)](x, out, 8)
    assert "BLOCK: 4" in str(caught.value) and "registers, Required: 300" in str(caught.value)
    assert "BLOCK: 8" in str(caught.value) and "bad shape" in str(caught.value)
    kernel.fails = {4: CompilationError("kernel is wrong"), 8: CompilationError("kernel is wrong")}
    with pytest.raises(CompilationError, match="kernel is wrong"):
        tuned(kernel, blocks(4, 8))[(1,)](x, out, 8)


def test_other_errors_surface_and_arrays_are_restored():
    class Broken(FakeKernel):
        def run(self, *args, warmup=False, BLOCK=0, **kwargs):
            super().run(*args, warmup=warmup, BLOCK=BLOCK, **kwargs)
            if BLOCK == 8 and not warmup:
                raise ZeroDivisionError

    x, out = arrays()
    with pytest.raises(ZeroDivisionError):
        tuned(Broken(), blocks(4, 8))[(1,)](x, out, 8)
    np.testing.assert_array_equal(out, np.zeros(8))


# ---- what is put back --------------------------------------------------------------------------------


def test_memory_outside_a_view_is_put_back_too():
    class Wide(FakeKernel):
        def run(self, x_ptr, out_ptr, n, *, warmup=False, **kwargs):
            if not warmup:
                out_ptr.base[...] += 1
            return Compiled(self.written)

    base = np.zeros((4, 6), np.float32)
    tuned(Wide(), blocks(4, 8))[(1,)](np.ones(1), base[1:2, ::2], 8)
    np.testing.assert_array_equal(base, np.ones((4, 6)))


@pytest.mark.parametrize(
    "view", [np.s_[::-1], np.s_[:, ::2], np.s_[1:, 1:], np.s_[:0], np.s_[0, 0]]
)
def test_any_strides(view):
    from tilewright.runtime.snapshot import Snapshot

    base = np.arange(35, dtype=np.float32).reshape(5, 7)
    expected, part = base.copy(), base[view]
    kept = Snapshot([part, part, 3, None, "text"])
    part += 1
    kept.restore()
    np.testing.assert_array_equal(base, expected)


def test_torch_tensors_are_put_back():
    torch = pytest.importorskip("torch")
    from tilewright.runtime.snapshot import Snapshot

    base = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4)
    expected = base.clone()
    weight = torch.nn.Parameter(base.t()[1:])
    kept = Snapshot([weight, torch.zeros(1).expand(5)])
    with torch.no_grad():
        weight += 1
    kept.restore()
    assert torch.equal(base, expected)


def test_what_is_kept_stays_alive():
    from tilewright.runtime.snapshot import Snapshot

    array = np.ones(3)
    alive = weakref.ref(array)
    kept = Snapshot([(array,)])
    del array
    assert alive() is not None
    kept.restore()


def test_read_only_and_unwritten_arrays_are_not_copied():
    from tilewright.runtime.snapshot import Snapshot

    x = np.ones(4)
    x.flags.writeable = False
    assert Snapshot([x, 1.5]).nbytes == 0


def test_wrapped_arrays_and_tuples_of_arrays():
    from tilewright.runtime.snapshot import Snapshot
    from tilewright.runtime.tensor_wrapper import reinterpret

    x, y = np.zeros(4, np.int8), np.zeros(4)
    kept = Snapshot([reinterpret(x, np.dtype(np.uint8)), (1, [y])])
    x += 1
    y += 1
    kept.restore()
    assert not x.any() and not y.any()


def test_reset_to_zero_and_restore_value_before_every_run():
    class Records(FakeKernel):
        seen = []

        def run(self, x_ptr, out_ptr, n, *, warmup=False, **kwargs):
            if not warmup:
                self.seen.append((float(x_ptr[0]), float(out_ptr[0])))
                out_ptr += 1
                x_ptr += 1
            return Compiled(())

    kernel = Records()
    x, out = np.full(4, 5.0), np.full(4, 7.0)
    tuner = tuned(kernel, blocks(4, 8), reset_to_zero=["out_ptr"], restore_value=["x_ptr"])
    tuner[(1,)](x, out, 8)
    *timed, final = kernel.seen
    assert set(timed) == {(5.0, 0.0)} and final == (5.0, 7.0)


# ---- choosing what to time ------------------------------------------------------------------------


def test_early_prune_and_cost_model():
    kernel = FakeKernel()
    seen = {}

    def early(configs, named, **kwargs):
        seen.update(named=named, kwargs=kwargs)
        return [c for c in configs if c.kwargs["BLOCK"] < 32]

    def model(BLOCK, n, num_warps, **others):
        return abs(BLOCK - n)

    prune = {"early_config_prune": early, "perf_model": model, "top_k": 2}
    tuner = tuned(kernel, blocks(4, 8, 16, 32), prune_configs_by=prune)
    x, out = arrays()
    tuner[(1,)](x, out, 14, EVEN=True)
    assert seen["named"]["n"] == 14 and seen["kwargs"] == {"EVEN": True}
    assert sorted(set(kernel.compiled)) == [8, 16]


def test_share_of_the_list_and_wrong_pruning():
    kernel = FakeKernel()
    prune = {"perf_model": lambda BLOCK, **_: -BLOCK, "top_k": 0.5}
    x, out = arrays()
    tuned(kernel, blocks(4, 8, 16, 32), prune_configs_by=prune)[(1,)](x, out, 1)
    assert kernel.compiled == [16, 32]
    with pytest.raises(AutotuneError, match="No valid autotuner configs after pruning"):
        empty = {"early_config_prune": lambda *_, **__: []}
        tuned(kernel, blocks(4, 8), prune_configs_by=empty)[(1,)](x, out, 1)
    with pytest.raises(LaunchError, match="has no 'topk'"):
        tuned(kernel, blocks(4), prune_configs_by={"topk": 3})
    with pytest.raises(LaunchError, match="top_k=0"):
        tuned(kernel, blocks(4), prune_configs_by={"top_k": 0})


def test_hooks_of_autotuner_and_configuration():
    events = []
    configs = [Config({"BLOCK": b}, pre_hook=lambda a: events.append(a["BLOCK"])) for b in (4, 8)]
    kernel = FakeKernel()
    tuner = tuned(
        kernel, configs,
        pre_hook=lambda args, reset_only: events.append("reset" if reset_only else "pre"),
        post_hook=lambda args, exception: events.append("post"),
    )  # fmt: skip
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    timed = len(kernel.runs) - 1
    assert events.count("pre") == events.count("post") == timed
    assert events[:3] == ["pre", 4, "post"] and events[-2:] == ["reset", 4]
    assert events.count(4) + events.count(8) == timed + 1


def test_how_long_to_measure():
    x, out = arrays()
    runs = {}
    for warmup, rep in ((0, 1), (0, 30), (30, 1)):
        kernel = FakeKernel(cost=lambda block: 1, key=f"{warmup} {rep}")
        tuned(kernel, blocks(4, 8), warmup=warmup, rep=rep, key=["n"])[(1,)](x, out, 8)
        runs[warmup, rep] = len(kernel.runs)
    assert runs[0, 30] >= runs[0, 1] + 20
    assert runs[30, 1] >= runs[0, 1] + 20


@pytest.mark.parametrize("flag", [True, False])
def test_results_are_kept_whatever_cache_results_says(flag):
    x, out = arrays()
    for count in (2, 0):
        kernel = FakeKernel()
        tuned(kernel, blocks(4, 8), cache_results=flag)[(1,)](x, out, 8)
        assert len(kernel.compiled) == count
        assert kernel.runs[-1][0] == 4


@pytest.mark.parametrize("terminal", [True, False])
def test_a_progress_bar_on_terminals(terminal, monkeypatch, capfd):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("tilewright.runtime.tuning_progress._SILENT_SECONDS", 0)
    pytest.importorskip("rich.progress")
    x, out = arrays()

    def slow_bench(call, quantiles):
        time.sleep(0.2)
        return [1.5, 1.5, 1.5]

    tuned(FakeKernel(), blocks(4, 8), do_bench=slow_bench)[(1,)](x, out, 8)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capfd.readouterr().err)
    assert ("autotuning kernel: 2 compiled" in text) == terminal
    assert ("2 timed, best 1.5 ms" in text) == terminal


def test_short_tuning_shows_no_bar(monkeypatch, capfd):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    x, out = arrays()
    tuned(FakeKernel(), blocks(4, 8))[(1,)](x, out, 8)
    assert capfd.readouterr().err == ""


def test_single_configuration_is_used_as_it_is():
    kernel = FakeKernel()
    tuner = tuned(kernel, blocks(64))
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    assert len(kernel.runs) == 1 and tuner.get_best_config(8).kwargs == {"BLOCK": 64}


def test_wrong_names_and_conflicts():
    with pytest.warns(UserWarning, match="key names 'm', which fn does not have") as caught:
        tuner = tuned(FakeKernel(), blocks(4), key=["m", "n"])
    assert "x_ptr, out_ptr, n, BLOCK, EVEN" in str(caught[0].message)
    assert tuner.keys == ["n"]
    with pytest.raises(LaunchError, match="reset_to_zero names 'o'"):
        tuned(FakeKernel(), blocks(4), reset_to_zero=["o"])
    with pytest.raises(LaunchError, match="list of Config"):
        tuned(FakeKernel(), [{"BLOCK": 4}])
    x, out = arrays()
    for configs in (blocks(4), blocks(4, 8)):
        tuner = tuned(FakeKernel(), configs)
        for _ in range(2):
            with pytest.raises(LaunchError, match="'BLOCK' is given by the launch and by"):
                tuner[(1,)](x, out, 8, BLOCK=4)
            tuner[(1,)](x, out, 8)


def test_warmup_compiles_all():
    kernel = FakeKernel()
    x, out = arrays()
    assert len(tuned(kernel, blocks(4, 8)).warmup(x, out, 8, grid=(1,))) == 2
    assert kernel.compiled == [4, 8] and not kernel.runs


def test_nothing_is_timed_when_kernels_run_as_python(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    kernel = FakeKernel()
    tuner = tuned(kernel, blocks(8, 4))
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    assert [run[0] for run in kernel.runs] == [8] and not tuner.cache and not kernel.compiled


def test_printing(monkeypatch, capsys):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    x, out = arrays()
    tuner = tuned(FakeKernel(), blocks(4, 8))
    tuner[(1,)](x, out, 8)
    tuner[(1,)](x, out, 8)
    text = capsys.readouterr().out
    assert text.count("autotuning for function fn") == 1
    assert "best config selected: BLOCK: 4, num_warps: 4, num_ctas: 1, num_stages: 3" in text
    assert "disk" not in text
    tuned(FakeKernel(), blocks(4, 8, 2))[(1,)](x, out, 8)
    assert "2 of 3 timings read from disk" in capsys.readouterr().out


# ---- results on disk --------------------------------------------------------------------------------


def test_results_are_kept_and_one_more_configuration_times_only_that():
    x, out = arrays()
    tuned(FakeKernel(), blocks(8, 4))[(1,)](x, out, 8)
    again = FakeKernel()
    tuner = tuned(again, blocks(8, 4))
    tuner[(1,)](x, out, 8)
    assert tuner.best_config.kwargs == {"BLOCK": 4} and len(again.runs) == 1
    more = FakeKernel()
    tuner = tuned(more, blocks(8, 4, 2))
    tuner[(1,)](x, out, 8)
    assert more.compiled == [2] and tuner.best_config.kwargs == {"BLOCK": 2}


def test_failing_configurations_are_left_out_where_the_others_are_known():
    x, out = arrays()
    for _ in range(2):
        kernel = FakeKernel()
        kernel.fails = {4: OutOfResources(300, 200, "shared memory")}
        tuner = tuned(kernel, blocks(4, 8))
        tuner[(1,)](x, out, 8)
        assert (
            tuner.best_config.kwargs == {"BLOCK": 8} and list(tuner.failures) == tuner.configs[:1]
        )


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "identity": 3}'])
def test_a_damaged_file_counts_as_absent(cache, text):
    x, out = arrays()
    tuned(FakeKernel(), blocks(8, 4))[(1,)](x, out, 8)
    (file,) = (cache / "tuning").glob("*.json")
    file.write_text(text)
    kernel = FakeKernel()
    tuned(kernel, blocks(8, 4))[(1,)](x, out, 8)
    assert kernel.compiled == [8, 4]
    assert len(json.loads(file.read_text())["timings"]) == 2


def test_another_kernel_or_launch_option_is_another_record(cache):
    x, out = arrays()
    tuned(FakeKernel(), blocks(8, 4))[(1,)](x, out, 8)
    tuned(FakeKernel(key="other"), blocks(8, 4))[(1,)](x, out, 8)
    tuned(FakeKernel(), blocks(8, 4))[(1,)](x, out, 8, EVEN=True)
    assert len(list((cache / "tuning").glob("*.json"))) == 3


def test_not_kept_where_it_is_switched_off_or_measured_otherwise(cache, monkeypatch):
    x, out = arrays()
    bench = lambda fn, quantiles: [1.0, 1.0, 1.0]
    tuned(FakeKernel(), blocks(8, 4), do_bench=bench)[(1,)](x, out, 8)
    monkeypatch.setenv("TRITON_CACHE_AUTOTUNING", "0")
    tuned(FakeKernel(), blocks(8, 4))[(1,)](x, out, 8)
    assert not (cache / "tuning").exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file"))
    x, out = arrays()
    tuned(FakeKernel(), blocks(8, 4))[(1,)](x, out, 8)
    np.testing.assert_array_equal(out, np.ones(8))


# ---- Config and heuristics ------------------------------------------------------------------------


def test_config_text_equality_and_keywords():
    config = Config({"BLOCK": 4, "waves_per_eu": 2}, num_warps=8, num_stages=0)
    assert str(config) == (
        "BLOCK: 4, waves_per_eu: 2, num_warps: 8, num_ctas: 1, num_stages: 0, maxnreg: None"
    )
    assert repr(config) == "Config({'BLOCK': 4, 'waves_per_eu': 2}, num_warps=8, num_stages=0)"
    assert config == Config({"waves_per_eu": 2, "BLOCK": 4}, num_warps=8, num_stages=0)
    assert len({config, Config({"BLOCK": 4, "waves_per_eu": 2}, 8, 0)}) == 1
    assert config != Config({"BLOCK": 4}) and Config({"L": [1]}) in {Config({"L": [1]})}
    assert config.all_kwargs() == {
        "BLOCK": 4, "waves_per_eu": 2, "num_warps": 8, "num_stages": 0, "num_ctas": 1,
    }  # fmt: skip
    assert "maxnreg" in Config({}, maxnreg=64).all_kwargs()


EVEN = {"EVEN": lambda args: args["n"] % args["BLOCK"] == 0}


def test_heuristics_inside_autotune_see_its_choice():
    kernel = FakeKernel()
    tuner = autotune(blocks(16, 3), key=["n"])(heuristics(EVEN)(kernel))
    assert isinstance(tuner, Autotuner) and tuner.base_fn is FakeKernel.fn
    x, out = arrays()
    tuner[(1,)](x, out, 16)
    assert {(run[0], run[1]) for run in kernel.runs} == {(16, True), (3, False)}


def test_heuristics_outside_autotune():
    kernel = FakeKernel()
    outer = heuristics({"EVEN": lambda args: args["n"] % 2 == 0})(
        autotune(blocks(4, 8), key=["n"])(kernel)
    )
    assert isinstance(outer, Heuristics)
    x, out = arrays()
    outer[(1,)](x, out, 16)
    assert {run[1] for run in kernel.runs} == {True}
    assert outer.get_best_config(16).kwargs == {"BLOCK": 4}


def test_heuristics_in_order_and_wrong_names():
    kernel = FakeKernel()
    stacked = heuristics({"BLOCK": lambda a: a["n"] * 2, "EVEN": lambda a: a["BLOCK"] == 6})(kernel)
    x, out = arrays()
    stacked[(1,)](x, out, 3)
    assert kernel.runs[0][:2] == (6, True)
    with pytest.raises(LaunchError, match="'ODD' is not a parameter"):
        heuristics({"ODD": lambda a: 1})(kernel)
    heuristics({"num_warps": lambda a: 8})(kernel)  # an option of the launch


def test_two_threads_tune_once():
    from concurrent.futures import ThreadPoolExecutor

    kernel = FakeKernel()
    tuner = tuned(kernel, blocks(4, 8))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: tuner[(1,)](*arrays(), 8), range(4)))
    assert kernel.compiled == [4, 8]


def test_tuners_of_other_projects_measure_one_configuration_at_a_time():
    class Own(Autotuner):
        def run(self, *args, **kwargs):
            self.nargs = dict(zip(self.arg_names, args, strict=False))
            times = {c: self._bench(*args, config=c, **kwargs) for c in self.configs}
            best = min(times, key=lambda c: times[c][0])
            self.pre_hook({**self.nargs, **kwargs, **best.all_kwargs()}, reset_only=True)
            self.post_hook(self.nargs, exception=None)
            return self.fn.run(*args, **kwargs, **best.all_kwargs()), times

    kernel = FakeKernel()
    kernel.fails = {2: OutOfResources(1, 0, "shared memory")}
    tuner = Own(kernel, kernel.arg_names, blocks(32, 8, 2), ["n"], reset_to_zero=["out_ptr"])
    x, out = arrays()
    _, times = tuner[(1,)](x, out, 8)
    low, high, never = (times[c] for c in (tuner.configs[1], tuner.configs[0], tuner.configs[2]))
    assert len(low) == 3 and low[0] < high[0] and never == [math.inf] * 3
    assert kernel.runs[-1][0] == 8
    np.testing.assert_array_equal(out, np.ones(8))


def test_hooks_hear_of_what_does_not_compile():
    events = []
    kernel = FakeKernel()
    kernel.fails = {4: CompilationError("bad shape")}
    tuner = tuned(
        kernel, blocks(4, 8, 16),
        pre_hook=lambda args, reset_only: events.append(("pre", args["BLOCK"], reset_only)),
        post_hook=lambda args, exception: events.append(("post", args["BLOCK"], exception)),
    )  # fmt: skip
    x, out = arrays()
    tuner[(1,)](x, out, 8)
    assert events[0] == ("pre", 4, False) and events[1][1] == 4
    assert isinstance(events[1][2], CompilationError)
    assert events[-1] == ("pre", tuner.best_config.kwargs["BLOCK"], True)
