"""Every misuse of a launch gives one clear error; its full text is held in `golden/`."""

import importlib.util
import inspect
import traceback
from pathlib import Path

import pytest

import tilewright
from tilewright.errors import TilewrightError

_FILE = Path(__file__).parent / "launches.py"
_spec = importlib.util.spec_from_file_location("tilewright_launches", _FILE)
launches = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(launches)

PACKAGE = str(Path(tilewright.__file__).parent)
LAUNCHES = [name for name, _ in inspect.getmembers(launches, inspect.isfunction)]


@pytest.mark.parametrize("name", LAUNCHES)
def test_launch(name, golden):
    with pytest.raises(TilewrightError) as caught:
        getattr(launches, name)()
    text = str(caught.value).replace(str(_FILE), "launches.py")
    golden(text + "\n", f"launch_{name}.txt")
    if name != "host_call":  # raised by the kernel object itself: there is no launch to go through
        assert text.startswith("launches.py:")
        assert PACKAGE not in "".join(traceback.format_exception(caught.value))


def test_own_frames_on_request(monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_FULL_TRACEBACK", "1")
    with pytest.raises(TilewrightError) as caught:
        launches.negative_grid()
    assert PACKAGE in "".join(traceback.format_exception(caught.value))


def test_grid_of_no_programs_is_no_error():
    launches.scale[(0,)](launches.X, launches.OUT, 64, 2.0, BLOCK=64)


def test_errors_of_the_callers_own_functions_are_theirs():
    with pytest.raises(KeyError) as caught:
        launches.scale[lambda meta: (meta["BLOK"],)](launches.X, launches.OUT, 64, 2.0, BLOCK=64)
    assert PACKAGE not in "".join(traceback.format_exception(caught.value))
