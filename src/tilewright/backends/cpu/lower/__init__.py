"""(see docs/architecture.md)"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.backends.cpu.codegen import KernelCodegen
else:
    KernelCodegen = Any  # for annotations: its module imports those of this package
