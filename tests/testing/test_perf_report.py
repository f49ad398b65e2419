"""`perf_report`: measuring, tables, files, and how it does without pandas."""

import csv
import subprocess
import sys

import pytest

from tilewright.testing import Benchmark, Mark, perf_report
from tilewright.testing.perf_report import ResultTable


def make(**changes):
    options = {
        "x_names": ["n"], "x_vals": [1, 2, 4], "line_arg": "provider", "line_vals": ["a", "b"],
        "line_names": ["A", "B"], "plot_name": "plot", "args": {"scale": 10},
    }  # fmt: skip
    return Benchmark(**{**options, **changes})


def measure(n, provider, scale):
    value = n * scale + (provider == "b")
    return float(value), value - 0.5, value + 0.5


def test_tables_hold_values_and_bands():
    (table,) = perf_report(make())(measure).tables()
    assert table.columns == ["n", "A", "B"]
    assert table.rows == [[1, 10.0, 11.0], [2, 20.0, 21.0], [4, 40.0, 41.0]]
    assert table.band(1) == ([10.5, 20.5, 40.5], [11.5, 21.5, 41.5])


def test_several_x_names_take_tuples_or_one_value_for_all():
    seen = []

    def fn(M, N, provider, scale):
        seen.append((M, N))
        return 1.0

    bench = make(x_names=["M", "N"], x_vals=[(1, 2), 3], line_vals=["a"], line_names=["A"])
    perf_report(bench)(fn).run()
    assert seen == [(1, 2), (3, 3)]
    with pytest.raises(ValueError, match="2 x_names need as many values"):
        perf_report(make(x_names=["M", "N"], x_vals=[(1, 2, 3)]))(fn).run()


def test_printing_needs_no_pandas(capsys):
    perf_report(make(ylabel="GB/s"))(measure).run(print_data=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "plot:"
    assert lines[1].split() == ["n", "A", "(GB/s)", "B", "(GB/s)"]
    assert lines[2].split() == ["0", "1", "10.000000", "11.000000"]


def test_difference_column():
    mark = perf_report(make())(measure)
    pytest.importorskip("pandas")
    frame = mark.run(return_df=True, diff_col=True)
    assert list(frame["Diff"]) == [1.0, 1.0, 1.0]


def test_list_of_benchmarks_gives_a_list_of_frames():
    pytest.importorskip("pandas")
    frames = perf_report([make(), make(plot_name="other")])(measure).run(return_df=True)
    assert [list(frame.columns) for frame in frames] == [["n", "A", "B"]] * 2


def test_files(tmp_path):
    bench = make(x_log=True, styles=[("blue", "-"), ("green", "--")], plot_name="a-plot")
    folder = tmp_path / "new"
    perf_report([bench])(measure).run(save_path=folder, show_plots=False, save_precision=2)
    assert (folder / "a-plot.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "a-plot.csv").open() as stream:
        assert next(csv.reader(stream)) == ["n", "A", "B"]
        assert next(csv.reader(stream)) == ["1", "10.00", "11.00"]
    page = (folder / "results.html").read_text()
    assert "a-plot.png" in page and "<td>21.000000</td>" in page


def test_showing_without_a_display(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("MPLBACKEND", "agg")
    perf_report(make())(measure).run(show_plots=True)


def test_calling_the_mark_measures_one_point():
    mark = perf_report(make())(measure)
    assert isinstance(mark, Mark)
    assert mark(3, "a", 2)[0] == 6.0


def test_wrong_uses():
    with pytest.raises(ValueError, match="2 line_vals and 1 line_names"):
        make(line_names=["A"])
    with pytest.raises(ValueError, match="returned 2 values"):
        perf_report(make())(lambda **_: (1, 2)).run()


def test_missing_pandas_is_said_before_measuring(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    calls = []
    with pytest.raises(ImportError, match=r"tilewright\[report\]"):
        perf_report(make())(lambda **_: calls.append(1) or 1.0).run(return_df=True)
    assert not calls


def test_none_and_repeated_names():
    table = ResultTable(["x", "L", "L"], [[1, None, 2.0]], [[None, None]], [[None, None]], 1)
    assert table.band(0) == (None, None)
    assert table.line(0)[0] != table.line(0)[0]
    pandas = pytest.importorskip("pandas")
    assert isinstance(table.to_dataframe(), pandas.DataFrame)


def test_import_is_light():
    code = (
        "import sys, tilewright.testing\n"
        "heavy = {'matplotlib', 'pandas', 'torch', 'xdsl', 'llvmlite'} & sys.modules.keys()\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
