"""Objects set aside from the garbage collector while a kernel is compiled come back afterwards."""

import gc
import sys
import weakref

import pytest

from tilewright.runtime.compiler import gc_frozen


class Node:
    """Something that refers to itself."""

    def __init__(self):
        self.me = self


@pytest.fixture(autouse=True)
def nothing_frozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_objects_come_back():
    node = Node()
    gone = weakref.ref(node)
    with gc_frozen():
        del node
        gc.collect()
        assert gone() is not None
        assert gc.isenabled()
    gc.collect()
    assert gone() is None


def test_new_objects_are_collected_meanwhile():
    with gc_frozen():
        gone = weakref.ref(Node())
        gc.collect()
        assert gone() is None


def test_an_error_does_not_leave_them_aside():
    with pytest.raises(ValueError), gc_frozen():
        raise ValueError
    assert gc.get_freeze_count() == 0


def test_what_the_program_has_frozen_stays_frozen():
    gc.freeze()
    with gc_frozen(), gc_frozen():
        pass
    assert gc.get_freeze_count() > 0


def test_what_the_interpreter_has_set_aside_does_not_count(monkeypatch):
    monkeypatch.setattr(gc, "get_freeze_count", lambda: 375)  # Python 3.12's own
    usual = gc.get_threshold()
    with gc_frozen():
        assert gc.get_threshold() > usual
    assert gc.get_threshold() == usual


def test_modules_of_the_first_compilation_are_old_at_its_end(monkeypatch):
    monkeypatch.delitem(sys.modules, "xdsl.ir", raising=False)
    usual = gc.get_threshold()
    with gc_frozen():
        modules = [Node() for _ in range(usual[0] * 10)]
    assert gc.get_count()[0] < len(modules) // 2
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == usual
    assert any(known is modules[0] for known in gc.get_objects(2))
