"""What the commands' tests share."""

from collections.abc import Iterator

import pytest

from tilewright.integrations import triton


@pytest.fixture(autouse=True)
def triton_as_before() -> Iterator[None]:
    """A command that loads a program lets `triton` mean tilewright in its process, which is that of other tests here."""
    before = triton.is_installed()
    yield
    if not before:
        triton.uninstall()
