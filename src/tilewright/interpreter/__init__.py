"""(see docs/architecture.md)"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.interpreter.executor import Executor
else:
    Executor = Any  # for annotations: its module imports those of this package
