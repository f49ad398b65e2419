"""What Inductor is told that it cannot generate for a CPU, and what it generates wrongly."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tilewright.integrations.inductor import corrections, features


@pytest.fixture
def lowered_on(monkeypatch):
    """Stands for torch's modules while an operation on a device is lowered."""

    def set_device(device, back_end="triton"):
        config, virtualized = ModuleType("config"), ModuleType("virtualized")
        config.cpu_backend = back_end
        value = SimpleNamespace(device=SimpleNamespace(type=device))
        node = SimpleNamespace(meta={"val": value})
        virtualized.V = SimpleNamespace(graph=SimpleNamespace(current_node=node))
        monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
        monkeypatch.setitem(sys.modules, "torch._inductor.virtualized", virtualized)

    return set_device


def test_sums_over_indices_are_compiled_on_the_cpu(lowered_on, monkeypatch):
    torch = ModuleType("torch")
    torch.bool, deterministic = "bool", []
    torch.are_deterministic_algorithms_enabled = lambda: bool(deterministic)
    monkeypatch.setitem(sys.modules, "torch", torch)
    falls_back = features._with_scatter(None, lambda *given: True)
    lowered_on("cpu")
    assert not falls_back("op", "sum", "f", "f", "cpu", True)
    assert falls_back("op", "amax", "f", "f", "cpu", True)
    assert falls_back("op", "sum", "bool", "bool", "cpu", True)
    deterministic.append(True)
    assert falls_back("op", "sum", "f", "f", "cpu", True)
    deterministic.clear()
    for device, back_end in (("cuda", "triton"), ("cpu", "cpp")):
        lowered_on(device, back_end)
        assert falls_back("op", "sum", "f", "f", device, True)


def test_scans_are_not_split_on_the_cpu():
    class Scan:
        num_splits = classmethod(lambda cls, device, numel: ("hint", numel // 4096))

    Scan.num_splits = features._in_one_program(None, Scan.num_splits)
    splits = [Scan.num_splits(SimpleNamespace(type=each), numel=65536) for each in ("cpu", "cuda")]
    assert splits == [("hint", 1), ("hint", 16)]


def test_atomic_additions_are_exclusive_on_the_cpu(lowered_on, monkeypatch):
    def store(self, pointer):
        self.append(f"tl.atomic_add({pointer}, sem='relaxed')")

    written, chosen = [], corrections._exclusive(None, store)
    for device in ("cpu", "cuda"):
        graph = SimpleNamespace(
            get_current_device_or_throw=lambda d=device: SimpleNamespace(type=d)
        )
        virtualized = ModuleType("virtualized")
        virtualized.V = SimpleNamespace(graph=graph)
        monkeypatch.setitem(sys.modules, "torch._inductor.virtualized", virtualized)
        chosen(written, "p")
    assert written == [f"tl.atomic_add(p, sem='{sem}')" for sem in ("exclusive", "relaxed")]


def test_sort_is_torchs_own_on_the_cpu():
    class Feature(str):
        name = property(str)

    class Scheduling:
        @classmethod
        def get_backend_features(cls, device):
            return [Feature("SCAN"), Feature("SORT")]

    Scheduling.get_backend_features = features._without_sort(None, Scheduling.get_backend_features)
    assert Scheduling.get_backend_features("cpu") == ["SCAN"]
    assert Scheduling.get_backend_features(SimpleNamespace(type="cuda")) == ["SCAN", "SORT"]


def test_a_guard_of_the_cpu_is_a_context_manager():
    for given, wanted in (
        ("pass", "torch._ops.contextlib.nullcontext()"),
        ("guard(0)", "guard(0)"),
    ):
        assert features._with_guard(None, lambda self, index, of=given: of)(None, 0) == wanted


def test_kernels_of_c_wrappers_are_c_on_the_cpu():
    """torch's C++ wrapper, which AOTInductor writes, passes Triton kernels for a CPU no grid."""
    settings = SimpleNamespace(cpu_backend="triton", cpp_wrapper=True, fx_wrapper=False)
    given = features._with_cpp_kernels(SimpleNamespace(config=settings), lambda **_: {"option": 1})
    assert given(log_cudagraph_skip=False) == {"option": 1, "cpu_backend": "cpp"}
    settings.cpp_wrapper = False  # the backward graph, compiled after the setting's end
    assert given() == {"option": 1, "cpu_backend": "cpp"}
    settings.fx_wrapper = True
    assert given() == {"option": 1}
    settings.cpu_backend, settings.cpp_wrapper = "halide", True
    assert given() == {"option": 1}


def test_the_cpu_may_be_numbered():
    """torch's interface of CPUs has the functions of its general one, which raise."""

    class Interface:
        @staticmethod
        def exchange_device(device):
            raise NotImplementedError

    Interface.exchange_device = features._one_device(None, Interface.exchange_device)
    assert Interface.exchange_device(0) == 0


def test_programs_of_reductions_do_not_wait_for_each_other_on_the_cpu(monkeypatch):
    """Torch 2.13 gives the device, 2.11 and 2.12 a kernel's features."""
    use = features._without_cooperation(None, lambda *given: True).__func__
    graphs = SimpleNamespace(V=SimpleNamespace(graph=None))
    monkeypatch.setitem(sys.modules, "torch._inductor.virtualized", graphs)
    for name in ("cpu", "cuda"):
        device = SimpleNamespace(type=name)
        graphs.V.graph = SimpleNamespace(get_current_device_or_throw=lambda of=device: of)
        assert use(device, 2, 40000) == (name == "cuda")
        assert use(SimpleNamespace(numel=2)) == (name == "cuda")


@pytest.mark.parametrize(
    ("number", "written"), [(2**31, "int64"), (-(2**31) - 1, "int64"), (2**31 - 1, "int32"), (-3, "int32")]
)  # fmt: skip
def test_constant_indices_have_a_type_that_holds_them(number, written):
    sympy = pytest.importorskip("sympy")

    def indexing(self, index, *, copy_shape=None):
        assert copy_shape == "shape"
        return SimpleNamespace(index_str=f"tl.full([XBLOCK], {index}, tl.int32)")

    corrected = corrections._with_wide_constants(None, indexing)
    found = corrected(None, sympy.Integer(number), copy_shape="shape")
    assert found.index_str == f"tl.full([XBLOCK], {number}, tl.{written})"
