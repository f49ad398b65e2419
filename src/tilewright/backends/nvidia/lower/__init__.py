"""Operations on tiles with layouts as LLVM IR for one thread, by kind of operation."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.backends.nvidia.codegen import KernelCodegen
else:
    KernelCodegen = Any  # for annotations: its module imports those of this package
