"""Errors travel between processes: workers of `multiprocessing` and of torch.compile pickle them."""

import pickle

import pytest

from tilewright import errors

LOCATION = errors.SourceLocation("kernel.py", 3, 4)
ARGUMENTS = {
    errors.InternalError: ("compiling a kernel", ValueError("no such layout")),
    errors.ClaimError: ("insert-barriers", "order", "two stores are swapped"),
    errors.OutOfResources: (300000, 232448, "shared memory"),
}
CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.TilewrightError)
]


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)
def test_errors_survive_pickling(error):
    raised = error(*ARGUMENTS.get(error, ("the message",)))
    raised.location, raised.context = LOCATION, "x: fp32"
    copy = pickle.loads(pickle.dumps(raised))
    assert type(copy) is error
    assert str(copy) == str(raised) and copy.args == raised.args
    assert copy.location == LOCATION
