"""What a kernel's compilation reads is part of its key: values by content, functions transitively, the source as
decorated."""

import dataclasses
import functools
import importlib
import logging
import os
import subprocess
import sys
import textwrap
import threading
from enum import Enum
from types import SimpleNamespace

import numpy as np
import pytest

import tilewright as tw
import tilewright.language as tl
from tilewright.runtime.dependencies import constant_digest, dependencies_of_value
from tilewright.runtime.specialize import constant_text


def stored(kernel, *args, **constants):
    out = np.zeros(1, np.int32)
    kernel[(1,)](out, *args, **constants)
    return int(out[0])


# ---- in one process ----------------------------------------------------------------------------------


class Inner:
    scale = 3


class Settings:
    value = 1
    inner = Inner()

    @property
    def computed(self):
        return float(self.value)

    def doubled(self):
        return 2 * self.value


SETTINGS = Settings()
CONSTANT = tl.constexpr(4)
TABLE = [5, 6]


def plain_helper(x):
    return x + Settings.value + TABLE[0]


@tw.constexpr_function
def constexpr_helper(x):
    return plain_helper(x)


@tw.jit
def reads_class(o):
    tl.store(o, Settings.value)


@tw.jit
def reads_nested(o):
    tl.store(o, SETTINGS.inner.scale)


@tw.jit
def reads_constexpr(o):
    tl.store(o, CONSTANT)


@tw.jit
def calls_helper(o):
    tl.store(o, constexpr_helper(10))


@tw.jit
def calls_method(o):
    tl.store(o, SETTINGS.doubled())


THIS = sys.modules[__name__]

CHANGES = {
    "class attribute": (reads_class, lambda p: p.setattr(Settings, "value", 5), 1, 5),
    "attribute of a held object": (reads_nested, lambda p: p.setattr(SETTINGS.inner, "scale", 7, raising=False), 3, 7),
    "value of a constexpr": (reads_constexpr, lambda p: p.setattr(CONSTANT, "value", 8), 4, 8),
    "class attribute read by a callee": (calls_helper, lambda p: p.setattr(Settings, "value", 5), 16, 20),
    "item of a list read by a callee": (calls_helper, lambda p: p.setattr(THIS, "TABLE", [50]), 16, 61),
    "bytecode of a callee": (calls_helper, lambda p: p.setattr(plain_helper, "__code__", (lambda x: x + 100).__code__), 16, 110),
    "state behind a method": (calls_method, lambda p: p.setattr(SETTINGS, "value", 9, raising=False), 2, 18),
    "the method": (calls_method, lambda p: p.setattr(Settings, "doubled", lambda self: 77), 2, 77),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_between_launches(what, monkeypatch):
    kernel, change, before, after = CHANGES[what]
    assert [stored(kernel) for _ in range(3)] == [before] * 3
    with monkeypatch.context() as patch:
        change(patch)
        assert [stored(kernel) for _ in range(3)] == [after] * 3
    assert stored(kernel) == before


def test_an_item_of_a_list_changed_in_place():
    assert stored(calls_helper) == 16
    TABLE[0] = 50
    assert stored(calls_helper) == 61
    TABLE[0] = 5
    assert stored(calls_helper) == 16


def test_unchanged_state_keeps_the_compiled_kernel(monkeypatch):
    """An object that is replaced by an equal one needs a new fast path, not a new kernel."""
    calls_helper._launcher = calls_helper._run = None
    out = np.zeros(1, np.int32)
    first = calls_helper[(1,)](out)
    monkeypatch.setattr(THIS, "TABLE", list(TABLE))
    assert calls_helper[(1,)](out) is first


@tw.jit
def uses_constant(o, c: tl.constexpr):
    tl.store(o, c.v)


@tw.jit
def calls_constant(o, f: tl.constexpr):
    tl.store(o, f(3))


@dataclasses.dataclass
class Hidden:
    v: int = dataclasses.field(repr=False)


def test_a_dataclass_counts_by_its_fields():
    config = Hidden(1)
    assert stored(uses_constant, config) == 1
    assert stored(uses_constant, Hidden(2)) == 2
    config.v = 3
    assert stored(uses_constant, config) == 3


def test_functions_as_constants_count_by_what_they_do():
    def times(n):
        return lambda x: x * n

    assert [stored(calls_constant, f) for f in (times(2), times(5), lambda x: x + 1)] == [6, 15, 4]


class Mode(Enum):
    FAST = 1
    SLOW = 2


class Slotted:
    __slots__ = ("__secret", "a")

    def __init__(self, a, secret):
        self.a, self.__secret = a, secret


class Listed(list):
    pass


DIFFERENT = [
    1, 1.0, True, None, "a", b"a", (1,), [1], {1: 2}, {2: 1}, {1}, {2}, frozenset((1,)), Mode.FAST, Mode.SLOW,
    Hidden(1), Hidden(2), Slotted(1, 2), Slotted(1, 3), Hidden, Mode, SimpleNamespace(a=1), SimpleNamespace(a=2),
    Listed([1]), Listed([2]), lambda x: x, lambda x: -x, len, max, functools.partial(max, 1), functools.partial(max, 2),
    range(3), range(4), slice(1, 2), np.float32, np.arange(3), np.arange(4), [1, [2]], [1, [3]], {"a": Hidden(1)},
    {"a": Hidden(2)},
]  # fmt: skip


def test_texts_of_constants_tell_values_apart():
    texts = [constant_text(value) for value in DIFFERENT]
    assert len(set(texts)) == len(texts)
    assert texts == [constant_text(value) for value in DIFFERENT]
    assert constant_text(Hidden(1)) == constant_text(Hidden(1))


def test_what_cannot_be_read_is_refused():
    holder = SimpleNamespace(lock=threading.Lock())
    with open(os.devnull) as file:
        for value in (threading.Lock(), file, holder, (x for x in ())):
            assert constant_digest(value) is None
            with pytest.raises(tw.LaunchError, match="content cannot be read"):
                constant_text(value)
    assert constant_digest(SimpleNamespace(logger=logging.getLogger("a"))) is not None


def test_objects_that_hold_themselves():
    ring: list = [1]
    ring.append(ring)
    holder = SimpleNamespace(ring=ring)
    holder.me = holder
    found = dependencies_of_value(holder)
    assert found.hold() and not found.private
    ring.append(3)
    assert not found.hold()


def test_environment_variables_that_a_callee_names(monkeypatch):
    def helper(x):
        return x + int(os.environ.get("TILEWRIGHT_TEST_SCALE", "1"))

    assert stored(calls_constant, helper) == 4
    monkeypatch.setenv("TILEWRIGHT_TEST_SCALE", "7")
    assert stored(calls_constant, helper) == 10


def test_an_unreadable_global_keeps_the_kernel_off_the_disk(private_cache, monkeypatch):
    lock = threading.Lock()

    def helper(x):
        with lock:
            return x + 1

    @tw.jit
    def kernel(o):
        tl.store(o, helper(1))

    assert stored(kernel) == 2
    assert kernel.dependencies.private
    kernel._launcher = kernel._run = None
    out = np.zeros(1, np.int32)
    assert not kernel[(1,)](out).from_cache


# ---- the source ----------------------------------------------------------------------------------------

MODULE = """
import tilewright as tw, tilewright.language as tl

@tw.jit
def first(o):
    tl.store(o, 1)

@tw.jit
def second(o):
    tl.store(o, 2)
"""


def test_a_file_edited_after_import(tmp_path, monkeypatch):
    path = tmp_path / "edited_kernels.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("edited_kernels")
    path.write_text(
        MODULE.replace("import tilewright as tw,", "import tilewright as tw\nimport").replace(
            "@tw.jit\ndef first(o):\n    tl.store(o, 1)\n", ""
        )
    )
    assert [stored(module.first), stored(module.second)] == [1, 2]


def test_a_file_edited_before_it_is_decorated(tmp_path, monkeypatch):
    """Never another function's body."""
    path = tmp_path / "late_kernels.py"
    path.write_text(MODULE.replace("@tw.jit\n", ""))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("late_kernels")
    path.write_text(MODULE.replace("@tw.jit\n", "").replace("first", "other"))
    kernel = tw.jit(module.first)
    with pytest.raises(tw.CompilationError, match="holds another function than 'first'"):
        stored(kernel)
    assert stored(tw.jit(module.second)) == 2


def test_text_of_executed_code():
    scope: dict = {"__name__": "generated"}
    exec(compile(MODULE, tw.register_source(MODULE), "exec"), scope)
    assert stored(scope["second"]) == 2
    exec(MODULE, scope)
    with pytest.raises(
        tw.CompilationError, match="cannot read the source of kernel 'first'.*register_source"[:40]
    ):
        stored(scope["first"])


def run(*arguments, text=None, cache):
    env = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], env=env, capture_output=True, text=True, input=text
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


USE = "import numpy as np; o = np.zeros(1, np.int32); {}; print(o[0])"


def test_python_c(private_cache):
    assert run("-c", MODULE + USE.format("second[(1,)](o)"), cache=private_cache) == "2"


@pytest.mark.slow
def test_edits_between_two_processes(private_cache, tmp_path):
    """A callee's callee in another module, an inherited method, a default, a field that repr leaves out."""
    helper = """
        import dataclasses
        class Base:
            def bias(self): return {0}
        @dataclasses.dataclass(frozen=True)
        class Config(Base):
            v: int = dataclasses.field(default={0}, repr=False)
        def inner(x, y={0}): return x + y
    """
    (tmp_path / "user_kernel.py").write_text(
        textwrap.dedent("""
        import numpy as np, tilewright as tw, tilewright.language as tl
        import user_helper
        @tw.constexpr_function
        def outer(x): return user_helper.inner(x)
        @tw.jit
        def kernel(o, c: tl.constexpr):
            tl.store(o, outer(0)); tl.store(o + 1, c.v); tl.store(o + 2, c.bias())
        o = np.zeros(3, np.int32)
        k = kernel[(1,)](o, user_helper.Config())
        print([*map(int, o)], k.from_cache)
    """)
    )
    seen = []
    for value in (1, 2, 2):
        (tmp_path / "user_helper.py").write_text(textwrap.dedent(helper.format(value)))
        seen.append(run(str(tmp_path / "user_kernel.py"), cache=private_cache))
    assert seen == ["[1, 1, 1] False", "[2, 2, 2] False", "[2, 2, 2] True"]


def test_kernels_are_no_tests():
    assert reads_class.__test__ is False
    assert tw.autotune([tw.Config({})], key=[])(reads_class).__test__ is False


def test_lines_of_faults_after_a_file_has_moved(private_cache, tmp_path):
    """Compiled code names lines: it must not come from the cache with those of an older file."""
    code = textwrap.dedent("""
        import numpy as np
        import tilewright as tw, tilewright.language as tl

        @tw.jit
        def kernel(x):
            tl.device_assert(tl.load(x) == 1, "one")

        try:
            kernel[(1,)](np.zeros(1, np.int32), debug=True)
        except RuntimeError as error:
            print(str(error).partition(": ")[0])
    """)
    file = tmp_path / "asserts.py"
    for padding in (0, 3):
        file.write_text("#\n" * padding + code)
        assert run(str(file), cache=private_cache).strip() == f"{file}:{padding + 7}:5"


@tw.jit
def replaced_callee(o):
    tl.store(o, 1)


@tw.jit
def calls_replaced(o):
    replaced_callee(o)


def test_replaced_source_of_a_callee():
    key, source = calls_replaced.cache_key, replaced_callee.src
    assert stored(calls_replaced) == 1
    replaced_callee._unsafe_update_src(source.replace("1", "2"))
    assert calls_replaced.cache_key != key and stored(calls_replaced) == 2
    replaced_callee._unsafe_update_src(source)
    assert calls_replaced.cache_key == key and stored(calls_replaced) == 1


def applies(function):
    @tw.jit
    def kernel(out_ptr):
        tl.store(out_ptr, function(4.0, 2.0))

    return kernel


def called_from(module):
    @tw.jit
    def kernel(out_ptr):
        tl.store(out_ptr, module.choose(4.0, 2.0))

    return kernel


CHOICE = tl.maximum


@tw.jit
def chooses(out_ptr):
    tl.store(out_ptr, CHOICE(4.0, 2.0))


def test_a_name_for_functions_of_the_language(monkeypatch):
    """Of the same source, with the name bound to another function: in a closure, and changed between launches."""
    out = np.zeros(1)
    for function, expected in ((tl.maximum, 4), (tl.minimum, 2), (max, 4), (min, 2)):
        applies(function)[(1,)](out)
        assert out[0] == expected
        monkeypatch.setitem(globals(), "CHOICE", function)
        for _ in range(2):
            chooses[(1,)](out)
            assert out[0] == expected


def test_a_name_for_modules_of_the_language(monkeypatch):
    first, second = tl.math, tl.core
    monkeypatch.setattr(first, "choose", tl.maximum, raising=False)
    monkeypatch.setattr(second, "choose", tl.minimum, raising=False)
    assert called_from(first).cache_key != called_from(second).cache_key
