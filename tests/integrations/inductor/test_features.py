"""What Inductor is told that it cannot generate for a CPU, and what it generates wrongly."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tilewright.integrations.inductor import features, wide_indices


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


def test_sums_over_indices_are_torchs_own_on_the_cpu(lowered_on):
    limited = features._without_atomics(None, lambda dtype: dtype == "int64")
    scatter = features._without_scatter(None, lambda *given: given[1] == "prod")
    lowered_on("cpu")
    assert limited("float32") and scatter("op", "sum", "f", "f", "cpu", True)
    assert not scatter("op", "amax", "f", "f", "cpu", True)
    for device, back_end in (("cuda", "triton"), ("cpu", "cpp")):
        lowered_on(device, back_end)
        assert not limited("float32") and limited("int64")
        assert not scatter("op", "sum", "f", "f", device, True)
        assert scatter("op", "prod", "f", "f", device, True)


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


def test_programs_of_reductions_do_not_wait_for_each_other_on_the_cpu():
    use = features._without_cooperation(None, lambda device, numel, reduced: True).__func__
    assert not use(SimpleNamespace(type="cpu"), 2, 40000)
    assert use(SimpleNamespace(type="cuda"), 2, 40000)


def test_sums_over_indices_keep_their_operator_on_the_cpu(monkeypatch):
    """`index_put` with accumulation, which they would become, is four times slower."""
    torch, config = ModuleType("torch"), ModuleType("config")
    aten = SimpleNamespace(index_add=SimpleNamespace(default="add"))
    torch.ops = SimpleNamespace(aten=aten)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    table = {"add": lambda x: "index_put", "other": lambda x: "other"}
    other = table["other"]
    assert features._without_index_put(None, table) is table
    wrapped = table["add"]
    features._without_index_put(None, table)
    assert table["add"] is wrapped and table["other"] is other
    for device, back_end, result in (
        ("cpu", "triton", NotImplemented), ("cpu", "cpp", "index_put"), ("cuda", "triton", "index_put"),
    ):  # fmt: skip
        config.cpu_backend = back_end
        tensor = SimpleNamespace(device=SimpleNamespace(type=device))
        assert table["add"](tensor) is result


def test_index_add_is_done_in_place_on_a_copy(monkeypatch):
    torch, ir = ModuleType("torch"), ModuleType("ir")
    aten = SimpleNamespace(
        index_add=SimpleNamespace(default="add"), index_add_=SimpleNamespace(default="add_")
    )
    torch.ops, done = SimpleNamespace(aten=aten), []
    ir.FallbackKernel = SimpleNamespace(create=lambda *args, **kwargs: done.append((args, kwargs)))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._inductor.ir", ir)
    copy = SimpleNamespace(realize=lambda: done.append("realized"), get_name=lambda: "copy")
    lowerings = {}
    lowering = SimpleNamespace(
        V=SimpleNamespace(graph=SimpleNamespace(mark_buffer_mutated=done.append)),
        clone=lambda x: copy,
        register_lowering=lambda op, **_: lambda f: lowerings.update({op: f}),
    )
    assert features._with_index_add(lowering, lowerings) is lowerings
    assert lowerings["add"]("x", 0, "index", "source", alpha=2) is copy
    assert done == ["realized", (("add_", copy, 0, "index", "source"), {"alpha": 2}), "copy"]


@pytest.mark.parametrize(
    ("number", "written"), [(2**31, "int64"), (-(2**31) - 1, "int64"), (2**31 - 1, "int32"), (-3, "int32")]
)  # fmt: skip
def test_constant_indices_have_a_type_that_holds_them(number, written):
    sympy = pytest.importorskip("sympy")

    def indexing(self, index, *, copy_shape=None):
        assert copy_shape == "shape"
        return SimpleNamespace(index_str=f"tl.full([XBLOCK], {index}, tl.int32)")

    corrected = wide_indices._with_wide_constants(None, indexing)
    found = corrected(None, sympy.Integer(number), copy_shape="shape")
    assert found.index_str == f"tl.full([XBLOCK], {number}, tl.{written})"
