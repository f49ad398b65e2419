"""Compile a kernel and record the IR after every pass; compile from an edited dump.

`stages_of(kernel, {"x_ptr": "*fp32", "n": "i32", "BLOCK": 1024})` gives the IR after every pass.
`tilewright show --dump DIR` writes each stage to a file; `compile_dump(path)` compiles such a
file, possibly edited, to a kernel, which is launched as `kernel[(97,)](x, y, out, x.size)`.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright import config
from tilewright.backends import registry
from tilewright.backends.base import Argument, Artifact, Options
from tilewright.cli.signature import Signature, resolve
from tilewright.errors import PassError, TilewrightError
from tilewright.runtime.compiler import build_kernel
from tilewright.runtime.interface import innermost
from tilewright.targets import TargetInfo

if TYPE_CHECKING:
    from tilewright.passes.base import Pass
    from tilewright.passes.show import Snapshot

FRONT_END = "front-end"
_HEADER = "// tilewright: "


@dataclass
class Trace:
    """The stages of a pipeline run. `failure` is the error that stopped it, or None."""

    kernel: str
    stages: list[Snapshot]
    module: Any
    target: TargetInfo
    options: Options
    arguments: tuple[Argument, ...] = ()
    cost: float = 0.0
    complete: bool = False
    """Whether the whole pipeline ran, so that machine code can be made."""
    ran: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    """Passes that run with fallback options because another pass is disabled, e.g. `select-mma{wgmma=false}`."""
    failure: TilewrightError | None = None
    signature: Signature = field(default_factory=Signature)
    built: Any = None
    """The front end's `BuiltKernel`; None for a dump."""
    source: tuple[int, str] = (0, "")
    """First line and text of the kernel's source; empty for a dump."""

    def artifact(self) -> Artifact:
        """Machine code. Raises PassError when the pipeline was stopped, or its own failure."""
        if self.failure is not None:
            raise self.failure
        if not self.complete:
            raise PassError(
                f"the pipeline was stopped after {self.stages[-1].name}: there is no machine code",
                help="leave out --after",
            )
        backend = registry.get(self.target.name)
        return backend.assemble(self.module, self.options, self.target, self.arguments, self.cost)

    def dump(self, index: int) -> str:
        """Stage `index` as the text of a dump file, from which `trace_dump` can go on."""
        head = {
            "stage": self.stages[index].name,
            "cost": self.cost,
            "arguments": [list(astuple(a)) for a in self.arguments],
        }
        if self.target.is_gpu:
            head |= {"target": self.target.name, "options": asdict(self.options)}
        return f"{_HEADER}{json.dumps(head)}\n{self.stages[index].text.rstrip()}\n"


def stages_of(
    kernel: Any,
    signature: Mapping[str, Any],
    *,
    stop_after: str | None = None,
    disabled: Collection[str] = (),
    target: TargetInfo | None = None,
) -> list[Snapshot]:
    """The IR of `kernel` from the front end and after every pass.

    Args:
        kernel: a jit function, or one below autotune and heuristics.
        signature: parameter → type text ("*fp32", "i32") or value; omitted parameters get the
            placeholders of `tilewright show`.
        stop_after, disabled: names of passes. `target`: default, this machine.

    Each stage has `.name` (`cse:2` for a second run), `.milliseconds`, `.changed` and `.text`. Raises
    CompilationError, LaunchError and PassError.
    """
    found = resolve(innermost(kernel), signature, kernel)
    result = trace(kernel, found, stop_after=stop_after, disabled=disabled, target=target)
    if result.failure is not None:
        raise result.failure
    return result.stages


def trace(
    kernel: Any,
    signature: Signature,
    *,
    stop_after: str | None = None,
    disabled: Collection[str] = (),
    target: TargetInfo | None = None,
    options: Options | None = None,
) -> Trace:
    """Build `kernel` and run the pipeline, keeping the IR. A pass that fails ends the trace.

    Raises CompilationError for the kernel itself, PassError for names of passes that do not exist.
    """
    import tilewright.frontend.module  # noqa: F401  (imports are not the front end's time)

    kernel = innermost(kernel)
    settings = config.current()
    options = options or Options(debug=bool(kernel.debug or settings.debug))
    start = time.perf_counter()
    built = build_kernel(kernel, signature.types, options)
    seconds = time.perf_counter() - start
    machine: TargetInfo = target or registry.get("cpu").target()
    for function in built.module.body.block.ops:
        function.attributes.update(registry.get(machine.name).facts(options, machine))
    result = Trace(kernel.fn.__name__, [], built.module, machine, options, signature=signature)
    result.built = built
    result.source = kernel.first_line, kernel.src
    result.arguments, result.cost = _launch_facts(built.module)
    if stop_after in (FRONT_END, "input"):
        _run(result, (), None, disabled, FRONT_END, seconds)
        result.complete = False
    else:
        _run(result, _passes(machine), stop_after, disabled, FRONT_END, seconds)
    return result


def _passes(target: TargetInfo) -> tuple[Pass, ...]:
    return registry.get(target.name).passes()


def _launch_facts(module: Any) -> tuple[tuple[Argument, ...], float]:
    from tilewright.backends.cpu.backend import program_cost
    from tilewright.backends.lowering import launch_arguments

    return launch_arguments(module), program_cost(module)


def _run(
    result: Trace,
    passes: tuple[Pass, ...],
    stop_after: str | None,
    disabled: Collection[str],
    first: str,
    seconds: float,
    earlier: Collection[str] = (),
) -> None:
    """Run `passes` on the trace's module; fills stages, ran, dropped, failure and complete.

    `first` is the name of the stage before them, `earlier` names the passes that ran before.
    """
    from tilewright.passes.manager import run_pipeline, without_disabled
    from tilewright.passes.show import Recorder, labels_of

    disabled = [*disabled, *_switched_off(passes)]
    left, result.dropped = without_disabled(passes, disabled)
    result.instead = tuple(p.spec for p in left if p not in passes)
    recorder = Recorder(result.module)
    try:
        run_pipeline(
            result.module, passes, result.target, disabled=disabled, verify="each",
            observer=recorder, stop_after=stop_after,
        )  # fmt: skip
    except TilewrightError as error:
        if len(recorder.snapshots) == 1 and "cannot stop after" in str(error):
            raise
        result.failure = error
    names = [*earlier, *(s.name for s in recorder.snapshots[1:])]
    labels = [first, *labels_of(names)[len(earlier) :]]
    result.stages = [
        replace(s, name=label, seconds=s.seconds if i else seconds)
        for i, (label, s) in enumerate(zip(labels, recorder.snapshots, strict=True))
    ]
    result.ran = tuple(labels[1:])
    result.complete = result.failure is None and len(result.ran) == len(left)


def _switched_off(passes: tuple[Pass, ...]) -> list[str]:
    """The passes that TILEWRIGHT_DISABLE names; launches skip them, too."""
    names = {p.name for p in passes}
    return [name for name in config.current().disabled_passes if name.partition("{")[0] in names]


# ---- dumps -----------------------------------------------------------------------------------------


def trace_dump(
    path: Path,
    *,
    after: str | None = None,
    stop_after: str | None = None,
    disabled: Collection[str] = (),
    target: TargetInfo | None = None,
    options: Options | None = None,
) -> Trace:
    """Run the rest of the pipeline on IR in a file, which may have been edited.

    Args:
        after: the pass after which the IR stands (`cse:2` for a second run; "input" to run all);
            default: from the file's first line, else "input".
        stop_after, disabled, target, options: as in `trace`; default: from the file's first line.

    Raises PassError if the text is not valid IR or the pass does not exist.
    """
    from tilewright.ir.text import parse_ir, verify_ir

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PassError(f"{path} cannot be read: {error}") from None
    header = _header(text)
    after = str(after or header.get("stage") or "input")
    module = parse_ir(text, str(path))
    verify_ir(module, str(path))
    machine: TargetInfo = target or registry.machine(header.get("target", "cpu"))
    given = options or replace(Options(), **header.get("options", {}))
    result = Trace(_kernel_name(module, path), [], module, machine, given)
    if "arguments" in header:
        result.arguments = tuple(Argument(*item) for item in header["arguments"])
        result.cost = float(header.get("cost", 0.0))
    else:
        result.arguments, result.cost = _launch_facts(module)
    passes = _passes(machine)
    position = 0 if after in (FRONT_END, "input") else _position(passes, after)
    earlier = [p.name for p in passes[:position]]
    if stop_after is not None:
        stop_after = _shifted(passes, stop_after, position)
    passes = passes[position:]
    left = {p.name for p in passes}
    off = [name for name in disabled if name in left or name not in earlier]
    _run(result, passes, stop_after, off, after, 0.0, earlier)
    return result


def compile_dump(path: Path, **how: Any) -> Any:
    """A `CompiledKernel` from IR in a file (arguments as `trace_dump`)."""
    from tilewright.runtime.compiled import CompiledKernel

    result = trace_dump(path, **how)
    return CompiledKernel(
        result.artifact(), f"dump {path}", result.options, result.target, None, False
    )


def _header(text: str) -> dict[str, Any]:
    match = re.match(re.escape(_HEADER) + r"(\{.*\})", text)
    if match is None:
        return {}
    try:
        return json.loads(match[1])
    except ValueError as error:
        raise PassError(f"the first line of the dump is damaged: {error}") from None


def _kernel_name(module: Any, path: Path) -> str:
    from xdsl.dialects.func import FuncOp

    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    if len(functions) != 1:
        raise PassError(f"{path} holds {len(functions)} functions; a kernel is one")
    return functions[0].sym_name.data


def _position(passes: tuple[Pass, ...], label: str) -> int:
    """The number of passes up to and including the one that `label` names."""
    from tilewright.passes.show import labels_of

    labels = labels_of(p.name for p in passes)
    name = label.removesuffix(":1")
    if name not in labels:
        raise PassError(
            f"the pipeline has no pass {label}", help=f"passes in order: {', '.join(labels)}"
        )
    return labels.index(name) + 1


def _shifted(passes: tuple[Pass, ...], label: str, position: int) -> str:
    """Renumber the run in `label` relative to the passes from `position` on."""
    end = _position(passes, label)
    if end <= position:
        raise PassError(f"cannot stop after {label}: the dump is from a later stage")
    name = passes[end - 1].name
    return f"{name}:{sum(p.name == name for p in passes[position:end])}"
