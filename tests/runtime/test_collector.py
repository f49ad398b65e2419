"""Objects set aside from the garbage collector while a kernel is compiled come back afterwards."""

import gc
import weakref

import pytest

from tilewright.runtime.collector import objects_set_aside


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
    with objects_set_aside():
        del node
        gc.collect()
        assert gone() is not None
        assert gc.isenabled()
    gc.collect()
    assert gone() is None


def test_new_objects_are_collected_meanwhile():
    with objects_set_aside():
        gone = weakref.ref(Node())
        gc.collect()
        assert gone() is None


def test_an_error_does_not_leave_them_aside():
    with pytest.raises(ValueError), objects_set_aside():
        raise ValueError
    assert gc.get_freeze_count() == 0


def test_what_the_program_has_frozen_stays_frozen():
    gc.freeze()
    with objects_set_aside(), objects_set_aside():
        pass
    assert gc.get_freeze_count() > 0
