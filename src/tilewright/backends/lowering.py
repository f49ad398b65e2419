"""Common base of the backends: run a pass pipeline, then generate code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from tilewright import config
from tilewright.backends.base import Argument, Artifact, Options
from tilewright.dialects import tile
from tilewright.errors import CompilationError
from tilewright.ir.location import location_of
from tilewright.ir.text import print_ir
from tilewright.ir.types import language_type
from tilewright.ir.walk import closure, incoming
from tilewright.passes.base import Pass, functions_of
from tilewright.passes.manager import run_pipeline
from tilewright.targets import TargetInfo


class LoweringBackend(ABC):
    """A backend (`backends.base.Backend`) that lowers tile IR with a pass pipeline and then generates code."""

    name: ClassVar[str]
    level: ClassVar[str]
    """Name of the IR after the last pass, among a kernel's texts."""

    refuses: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """Unsupported operations: reason, and alternative."""

    @abstractmethod
    def target(self) -> TargetInfo:
        """Return the host's device, or the default target of this family."""

    @abstractmethod
    def passes(self) -> tuple[Pass, ...]:
        """Return the passes of the pipeline."""

    @abstractmethod
    def assemble(
        self,
        module: ModuleOp,
        options: Options,
        target: TargetInfo,
        arguments: tuple[Argument, ...],
        cost: float = 0.0,
    ) -> Artifact:
        """Generate code for a module that the pipeline has lowered.

        `arguments` and `cost` are those of the tile IR (`launch_arguments`, `cost`).
        """

    def cost(self, module: ModuleOp) -> float:
        """Estimate the run time of one program of a tile IR module in ns; 0 if the backend does not use it."""
        return 0.0

    def facts(self, options: Options, target: TargetInfo) -> dict[str, Attribute]:
        """Return the options that passes read, as attributes of the kernel's function."""
        return {}

    def compile(self, module: ModuleOp, options: Options, target: TargetInfo) -> Artifact:
        """Lower a tile IR module (consumed) to code for `target`."""
        arguments, cost = launch_arguments(module), self.cost(module)
        self.lower(module, options, target)
        return self.assemble(module, options, target, arguments, cost)

    def lower(self, module: ModuleOp, options: Options, target: TargetInfo) -> None:
        """Run the pipeline on a tile IR module, in place."""
        settings = config.current()
        self._check(module, target)
        for function in functions_of(module):
            function.attributes.update(self.facts(options, target))
        run_pipeline(
            module,
            self.passes(),
            target,
            disabled=(*options.disable, *settings.disabled_passes),
            verify="each" if settings.verify_each_pass else "off",
        )

    def _check(self, module: ModuleOp, target: TargetInfo) -> None:
        """Raise CompilationError for an operation that this backend does not support."""
        for op in module.walk():
            if op.name in self.refuses:
                message, help_text = self.refuses[op.name]
                raise CompilationError(message, help=help_text, location=location_of(op))
            if target.is_gpu and isinstance(op, tile.AtomicRMWOp) and op.sem.data == tile.EXCLUSIVE:
                raise CompilationError(
                    'sem="exclusive" promises that a launch runs on one thread, which only CPUs have',
                    help='use sem="relaxed"',
                    location=location_of(op),
                )

    def texts(self, module: ModuleOp, options: Options, target: TargetInfo) -> dict[str, str]:
        """Return the IR before the first pass ("tile") and after the last pass (`level`)."""
        tile_text = print_ir(module)
        self.lower(module, options, target)
        return {"tile": tile_text, self.level: print_ir(module)}


def launch_arguments(module: ModuleOp) -> tuple[Argument, ...]:
    """The runtime arguments of a kernel, with which pointers it may write through."""
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    written = _written_arguments(function)
    result = []
    for i, arg in enumerate(function.body.block.args):
        attrs = function.arg_attrs.data[i].data if function.arg_attrs else {}
        name = attrs.get("tile.name")
        divisor: Any = attrs.get("tile.divisibility")
        divisible = 1 if divisor is None else divisor.value.data
        label = name.data if isinstance(name, StringAttr) else f"arg{i}"
        kind = arg.type
        text = language_type(kind).short_name
        if isinstance(kind, tile.PtrType):
            result.append(Argument(label, "pointer", text, i in written, divisible))
        else:
            word = "int" if isinstance(kind, IntegerType) else "float"
            result.append(Argument(label, word, text, False, divisible))
    return tuple(result)


def _written_arguments(function: func.FuncOp) -> set[int]:
    """Indices of arguments that a stored-through or atomic pointer can come from."""
    body = function.body.block

    def origins(value: SSAValue) -> list[SSAValue]:
        sources = [] if value.owner is body else _sources(value)
        pointers = [v for v in sources if isinstance(tile.element_of(v), tile.PtrType)]
        # offsets do not matter; a pointer made of an integer may come from anywhere in it
        return pointers or sources

    stores = (tile.StoreOp, tile.AtomicRMWOp, tile.AtomicCASOp)
    pointers = [op.pointer for op in function.walk() if isinstance(op, stores)]
    reached = set(closure(pointers, origins))
    return {argument.index for argument in body.args if argument in reached}


def _sources(value: SSAValue) -> list[SSAValue]:
    """Values that `value` is made of, or that control flow may give it."""
    passed = incoming(value)
    op = value.owner if isinstance(value.owner, Operation) else value.owner.parent_op()
    if passed is not None or op is None or isinstance(op, scf.ForOp):
        return passed or []
    ends = [r.block.last_op for r in op.regions if r.blocks]
    return [*op.operands, *(v for end in ends if end is not None for v in end.operands)]
