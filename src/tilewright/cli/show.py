"""`tilewright show`: a kernel's IR after every pass, on the terminal, as dumps or as a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from tilewright.backends import registry
from tilewright.backends.nvidia.assemble import disassemble
from tilewright.cli import signature as signatures
from tilewright.cli.layouts import draw, from_text, layouts_in, table_of
from tilewright.cli.loading import find_kernel
from tilewright.cli.page import page_of
from tilewright.cli.signature import SHOWN, launch_options, parsed_options
from tilewright.cli.stages import Trace, trace, trace_dump
from tilewright.errors import LaunchError, PassError
from tilewright.passes.registry import lookup
from tilewright.passes.show import render
from tilewright.runtime.backend_compile import assembly_of


@dataclass(frozen=True)
class View:
    """Options of `tilewright show`: which stages to print, which files to write."""

    passes: tuple[str, ...] = ()
    diff: bool = False
    code: str | None = None
    html: Path | None = None
    dump: Path | None = None
    compile_to: Path | None = None
    times: bool = True
    layouts: Path | None = None
    """Where to draw the layouts; `-` for the table alone."""

    @property
    def quiet(self) -> bool:
        """Whether only files are requested."""
        files = (self.html, self.dump, self.compile_to)
        return any(f is not None for f in files) and not self.passes and not self.diff


def show(
    place: str,
    signature: str,
    view: View,
    *,
    stop_after: str | None = None,
    disabled: Sequence[str] = (),
    start: str | None = None,
    target: str | None = None,
    options: Sequence[str] = (),
) -> None:
    """Run the pipeline over `place` (a kernel or a dump) and print or write the stages that `view` selects.

    `target`: a target other than this machine's CPU ("sm_90a"). `options`: launch options ("num_warps=8");
    default: the first configuration of an autotuner.

    If a pass fails, prints the stages before it and then raises its error.
    """
    if view.layouts is not None and _show_layout(place, view.layouts):
        return
    if not place.endswith(".mlir"):  # a dump names its own target
        check_code(view, target)
    _check_names([*view.passes, *([stop_after] if stop_after else [])])
    if place.endswith(".mlir"):
        if signature:
            raise LaunchError("a dump has its types in it: leave out --signature")
        if target or options:
            raise LaunchError(
                "a dump has its target and options in it: leave out --target, --option"
            )
        result = trace_dump(Path(place), after=start, stop_after=stop_after, disabled=disabled)
    else:
        if start:
            raise LaunchError(
                "--resume-after goes with a dump", help="tilewright show FILE.mlir --resume-after …"
            )
        machine = registry.machine(target) if target else None
        found = find_kernel(place)
        types = signatures.of_kernel(found, signature)
        result = trace(
            found.kernel,
            types,
            stop_after=stop_after,
            disabled=disabled,
            target=machine,
            options=launch_options(found, parsed_options(options)),
        )
    present(result, view)


def check_code(view: View, target: str | None) -> None:
    """Raise LaunchError for machine code that a target does not have."""
    kinds = ("llvm", "asm", *(("ptx", "sass") if (target or "").startswith("sm_") else ()))
    if view.code is not None and view.code not in kinds:
        gpu = view.code in ("ptx", "sass")
        raise LaunchError(
            f"--asm takes {', '.join(kinds[:-1])} or {kinds[-1]}, not {view.code}",
            help="name a GPU: --target sm_90a" if gpu else "",
        )


def present(result: Trace, view: View) -> None:
    """Print and write the stages that `view` selects; raises the error that ended the trace."""
    _write_files(result, view)
    if view.layouts is not None and result.failure is None:
        _show_layouts(result, view.layouts)
    elif view.code is None and not view.quiet:
        text = text_of(result, view)
        typer.echo(_coloured(text) if sys.stdout.isatty() else text, nl=False)
    elif view.code is None:
        pass
    elif result.failure is None:
        typer.echo(code_of(result, view.code), nl=False)
    if result.failure is not None:
        raise result.failure
    if view.compile_to is not None:
        _write_object(result, view.compile_to)


def text_of(result: Trace, view: View) -> str:
    """Text of a trace as `show` prints it."""
    lines = []
    if result.signature.types:
        lines.append(f"kernel {result.kernel}({result.signature.line()})")
        if result.signature.guesses:
            lines.append(f"types guessed, --signature says others: {result.signature.guesses}")
    else:
        lines.append(f"kernel {result.kernel}")
    if result.target.is_gpu:
        chosen = asdict(result.options)
        shown = [f"{name}={chosen[name]}" for name in SHOWN if chosen[name] is not None]
        lines.append(f"for {result.target.name}: {', '.join(shown)}")
    if result.dropped:
        lines.append(f"left out: {', '.join(result.dropped)}")
    if result.instead:
        lines.append(f"instead: {', '.join(result.instead)}")
    only = _chosen(result, view.passes)
    stages = render(result.stages, diff=view.diff, only=only, times=view.times)
    return "\n".join(lines) + "\n" + stages


def _coloured(text: str) -> str:
    """`text` with ANSI colors: bold headings, green additions and red deletions of a diff."""
    styled = []
    for line in text.splitlines(keepends=True):
        if line.startswith("---- "):
            line = typer.style(line, bold="(unchanged)" not in line, dim="(unchanged)" in line)
        elif line.startswith(("+", "-")):
            line = typer.style(line, fg="green" if line[0] == "+" else "red")
        styled.append(line)
    return "".join(styled)


def _check_names(names: Sequence[str]) -> None:
    """Raise an error for unknown pass names, with the closest match."""
    for name in names:
        plain = name.partition(":")[0]
        if plain not in ("input", "front-end"):
            lookup(plain)


def _chosen(result: Trace, names: Sequence[str]) -> tuple[str, ...]:
    """Names of stages that `--pass` means: `cse` is every run of it."""
    if not names:
        return ()
    names = ["front-end" if name == "input" else name.removesuffix(":1") for name in names]
    ran = [s.name for s in result.stages]
    found = tuple(n for n in ran if n in names or n.partition(":")[0] in names)
    if not found and result.failure is None:
        off = f"; left out: {', '.join(result.dropped)}" if result.dropped else ""
        raise PassError(f"{', '.join(names)} did not run", help=f"stages: {', '.join(ran)}{off}")
    return found or ("none",)


def code_of(result: Trace, kind: str) -> str:
    """LLVM IR ("llvm") or assembly ("asm": native, or PTX; "ptx", "sass") of a complete trace."""
    artifact = result.artifact()
    if kind == "llvm":
        return artifact.asm["llvm"].rstrip("\n") + "\n"
    if kind == "sass":
        if not artifact.object_code.startswith(b"\x7fELF"):
            raise PassError("there is no SASS: no ptxas was found", help="nvidia-cuda-nvcc has it")
        return disassemble(artifact.object_code).rstrip("\n") + "\n"
    if "ptx" in artifact.asm:
        return artifact.asm["ptx"].rstrip("\n") + "\n"
    return assembly_of(artifact, result.target)


def _show_layouts(result: Trace, path: Path) -> None:
    found = layouts_in(result.module)
    typer.echo(f"kernel {result.kernel} for {result.target.name}\n{table_of(found)}", nl=False)
    if found and str(path) != "-":
        draw(found, path)
        print(f"picture: {path}", file=sys.stderr)


def _show_layout(text: str, path: Path) -> bool:
    """Describe and draw a layout given as text; returns False if the text is not a layout."""
    found = from_text(text)
    if found is None:
        return False
    typer.echo(table_of([found]), nl=False)
    if str(path) != "-":
        draw([found], path)
        print(f"picture: {path}", file=sys.stderr)
    return True


def _write_files(result: Trace, view: View) -> None:
    if view.dump is not None:
        view.dump.mkdir(parents=True, exist_ok=True)
        for i, stage in enumerate(result.stages):
            path = view.dump / f"{i:02}-{stage.name.replace(':', '-')}.mlir"
            path.write_text(result.dump(i), encoding="utf-8")
        print(f"{len(result.stages)} stages in {view.dump}", file=sys.stderr)
    if view.html is not None:
        view.html.parent.mkdir(parents=True, exist_ok=True)
        view.html.write_text(page_of(result), encoding="utf-8")
        print(f"page: {view.html}", file=sys.stderr)


def _write_object(result: Trace, path: Path) -> None:
    """Write the object file and, next to it, the launch plan as JSON."""
    artifact = result.artifact()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(artifact.object_code)
    plan = path.with_suffix(".json")
    plan.write_text(artifact.plan.to_json() + "\n", encoding="utf-8")
    print(f"object: {path}, entry {artifact.entry}; plan: {plan}", file=sys.stderr)
