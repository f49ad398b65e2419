"""Every common mistake in a kernel gives one clear error; its full text is held in `golden/`."""

import importlib.util
from pathlib import Path

import pytest

from tilewright import dtypes
from tilewright.errors import CompilationError
from tilewright.frontend import build
from tilewright.language.kernel_function import KernelFunction

_FILE = Path(__file__).parent / "mistakes.py"
_spec = importlib.util.spec_from_file_location("tilewright_mistakes", _FILE)
mistakes = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mistakes)

KERNELS = sorted(
    name
    for name, value in vars(mistakes).items()
    if isinstance(value, KernelFunction) and not name.startswith("_")
)


def signature_of(fn: KernelFunction) -> dict:
    """fp32 pointers for `*_ptr`, i32 for the rest, 24 for constexpr parameters."""
    found = {}
    for p in fn.params:
        if p.is_constexpr:
            found[p.name] = dtypes.constexpr(24)
        elif p.name.endswith("_ptr"):
            found[p.name] = dtypes.pointer_type(dtypes.float32)
        else:
            found[p.name] = dtypes.int32
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_mistake(name, golden):
    fn = getattr(mistakes, name)
    with pytest.raises(CompilationError) as caught:
        build(fn, signature_of(fn), {})
    error = caught.value
    assert error.location is not None
    assert error.location.file == str(_FILE)
    golden(str(error).replace(str(_FILE), "mistakes.py") + "\n", f"{name}.txt")
