"""What is recorded of a program, and how the program is run for that."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import tilewright.language as tl  # noqa: E402
from tilewright.compare.program import (  # noqa: E402
    _call_once,
    _run_last_sizes,
    _same_values,
    run_program,
)
from tilewright.compare.record import Recorder, _thinned  # noqa: E402
from tilewright.compare.translate import Translator, _holds_triton  # noqa: E402


def kernel_of(function):
    names = list(function.__code__.co_varnames[: function.__code__.co_argcount])
    return SimpleNamespace(fn=function, arg_names=names)


def copy(x, n, KIND: "tl.constexpr"):
    """A kernel's function."""


def test_specializations():
    kernel, key = kernel_of(copy), f"{__name__}.copy"
    recorder = Recorder(specializations=2)
    wide = torch.zeros(8, dtype=torch.float64)
    launches = [(torch.zeros(4), 1, 0), (torch.zeros(8), 8, 0), (wide, 8, 0), (wide, 8, 1)]
    for arguments in launches:
        recorder.saw(kernel, (1,), arguments, {"num_warps": 4})
    assert list(recorder.launches) == [key, f"{key}#2"]
    first, second = recorder.launches.values()
    assert (first.launches, first.arguments[0].shape) == (2, (8,))
    assert second.arguments[0].dtype == torch.float64


@pytest.mark.parametrize(
    ("count", "kept"), [(1, [0]), (2, [0, 6]), (3, [0, 3, 6]), (9, [*range(7)])]
)
def test_thinned_configurations(count, kept):
    class Tuner:
        def __init__(self, fn, configs, key=()):
            self.configs = configs

    Tuner.__init__ = _thinned(Tuner.__init__, count)
    assert Tuner(None, configs=list(range(7))).configs == kept
    assert Tuner(None, None).configs is None


def test_uninitialized_tensors_are_zero():
    with _same_values():
        x = torch.rand(3)
        made = [
            torch.empty(5),
            torch.empty_like(x),
            x.new_empty(4),
            torch.empty_strided((2,), (2,)),
        ]
        assert not any(t.any() for t in made)
        assert torch.empty(3, device="meta").is_meta
    with _same_values():
        assert torch.equal(torch.rand(3), x)
    assert torch.empty.__module__ != "tilewright.compare.program"


def test_benchmarks_are_cut_short(capsys):
    seen = []

    def run(**given):
        seen.append(given)
        if given["provider"] == "torch":
            raise ValueError("no torch")

    plot = SimpleNamespace(
        x_names=["M", "N"], x_vals=[1, 2, 3], line_arg="provider", line_vals=["torch", "triton"], args={"K": 4}
    )  # fmt: skip
    assert _run_last_sizes(SimpleNamespace(benchmarks=[plot], fn=run), print_data=True) is None
    assert [x["provider"] for x in seen] == ["torch", "triton"]
    assert {(x["M"], x["N"], x["K"]) for x in seen} == {(3, 3, 4)}
    assert "no torch" in capsys.readouterr().err
    assert _call_once(lambda: None, quantiles=[0.5, 0.2, 0.8]) == [1.0] * 3
    assert _call_once(lambda: None, 25, 100, return_mode="median") == 1.0


@pytest.mark.parametrize("launched", [False, True])
def test_test_functions(tmp_path, monkeypatch, launched):
    """Pytest runs a file that launches nothing by itself."""
    monkeypatch.setattr(sys, "argv", ["program"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "functions.py"
    file.write_text(
        f"def test_one():\n    open({str(tmp_path / 'ran')!r}, 'w')\n    assert False\n"
    )
    error = run_program(str(file), (), lambda: launched)
    assert (tmp_path / "ran").exists() is not launched
    assert ("pytest ended with exit status 1" in error) is not launched


def test_modules_that_reach_triton_through_their_package():
    package, inner, plain = (ModuleType(n) for n in ("shop", "shop.kernels", "shop.plain"))
    kind = type("JITFunction", (), {"__module__": "triton.runtime.jit"})
    package.inner, inner.parent, inner.kernel = inner, package, kind()
    plain.other = ModuleType("elsewhere")
    plain.other.kernel = kind()
    assert _holds_triton(package, set()) and _holds_triton(inner, set())
    assert not _holds_triton(plain, set())


def test_precision_of_dots(monkeypatch):
    """A dot of fp32 tiles is TF32, as Triton's is."""
    assert Translator().kernel(kernel_of(copy)).dot_precision == "tf32"
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    assert Translator().kernel(kernel_of(copy)).dot_precision == "ieee"


language = ModuleType("triton.language")
TritonsConstexpr = type("constexpr", (SimpleNamespace,), {"__module__": "triton.language.core"})
TritonsConstexprFunction = type(
    "ConstexprFunction", (SimpleNamespace,), {"__module__": "triton.runtime.jit"}
)


def float_of(bits):
    return language.float32 if bits == 32 else language.float16


def neither(bits):
    return bits


wrapped, decorated = TritonsConstexpr(value=float_of), TritonsConstexprFunction(fn=float_of)


def convert(x, BITS: "tl.constexpr"):
    return x.to(wrapped(BITS)), x.to(decorated(BITS)), neither(BITS)


def test_functions_of_compile_time():
    """A function that a kernel calls while it is compiled gives tilewright's types."""
    names = Translator().kernel(kernel_of(convert)).fn.__globals__
    assert names["wrapped"].value(32) is tl.float32 and names["decorated"](16) is tl.float16
    assert names["neither"] is neither


def test_the_drop_in_stays_where_the_program_has_installed_it(monkeypatch):
    """Its modules can still be imported after kernels were translated."""
    from tilewright.integrations import triton

    known = triton.is_installed()
    triton.install()
    try:
        Translator().kernel(kernel_of(convert))
        assert triton.is_installed() and __import__("triton.compiler")
    finally:
        if not known:
            triton.uninstall()
