"""User hooks that launches and loads call: those of `triton.knobs.runtime`, for profilers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.runtime.compiled import CompiledKernel

Hook = Callable[..., Any]

launch_hooks: list[Hook] = []
"""The hooks of all launches. Generated launch functions test this list, and take the slow path while it has any."""


class HookChain:
    """Hooks called in the order of their addition, or in reverse; false without any."""

    def __init__(self, reversed: bool = False, also: list[Hook] | None = None) -> None:
        self.calls: list[Hook] = []
        self.reversed = reversed
        self._also = also

    def add(self, hook: Hook) -> None:
        """Append a hook, unless it is one of the chain."""
        if hook not in self.calls:
            self.replace([*self.calls, hook])

    def remove(self, hook: Hook) -> None:
        """Remove a hook, if it is one of the chain."""
        self.replace([other for other in self.calls if other != hook])

    def replace(self, hooks: Sequence[Hook]) -> None:
        """Make `hooks` the chain's."""
        if self._also is not None:
            for hook in self.calls:
                self._also.remove(hook)
            self._also += hooks
        self.calls = list(hooks)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        for hook in [*reversed(self.calls)] if self.reversed else [*self.calls]:
            hook(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self.calls)


before_launch, after_launch = HookChain(also=launch_hooks), HookChain(True, also=launch_hooks)
"""`launch_enter_hook`, `launch_exit_hook`: called with a `LaunchMetadata` around every launch."""
before_load, after_load = HookChain(), HookChain(True)
"""`kernel_load_start_hook`, `kernel_load_end_hook`: `hook(module, function, name, metadata_group, hash)`."""


class LaunchMetadata:
    """What hooks of launches are given; `get()` also calls the kernel's `launch_metadata`, once."""

    def __init__(self, data: dict[str, Any], more: Callable[[], Mapping[str, Any]] | None) -> None:
        self.data, self._more = data, more

    def get(self) -> dict[str, Any]:
        """`name`, `function`, `stream`, and what the kernel's `launch_metadata(grid, metadata, arguments)` returns."""
        if self._more is not None:
            more, self._more = self._more, None
            self.data.update(more())
        return self.data


@contextmanager
def around_launch(
    compiled: CompiledKernel, grid: Any, values: Sequence[Any], stream: Any
) -> Generator[None]:
    """Call the hooks of launches around one of `compiled` with these values of its parameters."""
    if not launch_hooks:
        yield
        return
    kernel = compiled.function
    describe, names = getattr(kernel, "launch_metadata", None), getattr(kernel, "arg_names", ())
    given = LaunchMetadata(
        {"name": compiled.name, "function": compiled, "stream": stream},
        describe
        and (lambda: describe(grid, compiled.metadata, dict(zip(names, values, strict=False)))),
    )
    before_launch(given)
    yield
    after_launch(given)
