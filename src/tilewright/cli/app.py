"""The commands and their options; the sibling modules implement them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import tilewright
from tilewright.cli import completion
from tilewright.errors import LaunchError
from tilewright.targets.nvidia import DEFAULT

_KEEP = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}

app = typer.Typer(
    name="tilewright",
    help="A compiler, in Python, for tile kernels written in the Triton language.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
completion.enable()
cache_app = typer.Typer(help="The disk cache of compiled kernels.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")

SignatureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--signature", "-s",
        help='Types and values, e.g. "x_ptr=*fp32,n=i32,BLOCK=1024"; what is left out is guessed.',
    ),
]  # fmt: skip
PassOption = Annotated[
    list[str] | None,
    typer.Option(
        "--pass", help="Print the IR after these passes only.", autocompletion=completion.passes
    ),
]
DiffOption = Annotated[bool, typer.Option("--diff", help="Print what each pass changed.")]
CodeOption = Annotated[
    str | None,
    typer.Option(
        "--asm",
        metavar="llvm|asm|ptx|sass",
        help="Print machine code instead.",
        autocompletion=completion.codes,
    ),
]
HtmlOption = Annotated[Path | None, typer.Option(help="Write one page with all stages.")]
DumpOption = Annotated[Path | None, typer.Option(help="Write each stage to a file here.")]
CompileOption = Annotated[
    Path | None, typer.Option("--compile", help="Write the object file (and .json plan).")
]
TimesOption = Annotated[bool, typer.Option(help="Print times.")]
DisableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--disable",
        help="Passes to leave out, comma separated (dependents go too), or to run with other options: "
        '"pipeline-loads{tma=false}".',
        autocompletion=completion.passes,
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="Target to compile for (default: this CPU), e.g. sm_90a.",
        autocompletion=completion.targets,
    ),
]
OptionsOption = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", help="GPU launch options, e.g. num_warps=8,num_stages=4."),
]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tilewright {tilewright.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command()
def show(
    place: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL",
            help="FILE.py:KERNEL, or a dump: FILE.mlir; with --layouts also the text of a layout.",
        ),
    ],
    signature: SignatureOption = None,
    passes: PassOption = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            "--stop-after",
            help="Stop after this pass.",
            autocompletion=completion.passes,
        ),
    ] = None,
    disable: DisableOption = None,
    diff: DiffOption = False,
    code: CodeOption = None,
    html: HtmlOption = None,
    dump: DumpOption = None,
    start: Annotated[
        str | None, typer.Option("--resume-after", help="Resume a dump after this pass.")
    ] = None,
    compile_to: CompileOption = None,
    times: TimesOption = True,
    target: TargetOption = None,
    options: OptionsOption = None,
    layouts: Annotated[
        Path | None,
        typer.Option(help="Draw the layouts to this picture (-: print the table only)."),
    ] = None,
) -> None:
    """Print a kernel's IR after every pass, or go on from an edited dump."""
    from tilewright.cli import show as command

    command.show(
        place,
        ",".join(signature or ()),
        command.View(tuple(passes or ()), diff, code, html, dump, compile_to, times, layouts),
        stop_after=after,
        disabled=_names(disable),
        start=start,
        options=tuple(options or ()),
        target=target or (DEFAULT if layouts is not None and not place.endswith(".mlir") else None),
    )


@app.command()
def generate(
    place: Annotated[
        str, typer.Argument(metavar="DESCRIPTION", help="FILE.mlir, or FILE.py:LOOP_NEST.")
    ],
    function: Annotated[str | None, typer.Option(help="Function of the file to compile.")] = None,
    target: TargetOption = None,
    size: Annotated[
        list[str] | None,
        typer.Option(help="Extents that the file leaves open, e.g. m=512,n=512,k=64."),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Data type of arrays without one, e.g. fp16.")
    ] = None,
    configuration: Annotated[
        str | None,
        typer.Option(
            "--config", help="Override the model's choice, e.g. block_m=128,num_stages=3."
        ),
    ] = None,
    passes: PassOption = None,
    after: Annotated[str | None, typer.Option(help="Stop after this pass.")] = None,
    disable: DisableOption = None,
    diff: DiffOption = False,
    code: CodeOption = None,
    html: HtmlOption = None,
    dump: DumpOption = None,
    compile_to: CompileOption = None,
    times: TimesOption = True,
    export: Annotated[
        Path | None, typer.Option(help="Write a C header and an object file or C launcher here.")
    ] = None,
    why: Annotated[
        bool, typer.Option("--explain-config", help="Explain the choice of tiles.")
    ] = False,
) -> None:
    """Compile a matmul from MLIR or Python loops: print what was read, the tiles chosen and the IR."""
    from tilewright.cli import generate as command
    from tilewright.cli.show import View

    view = View(tuple(passes or ()), diff, code, html, dump, compile_to, times)
    given = command.Given(function, target, ",".join(size or ()), dtype, configuration)
    if export is not None or why:
        command.without_view(place, given, export, why)
        return
    command.generate(place, given, view, stop_after=after, disabled=_names(disable))


@app.command()
def explain(
    place: Annotated[str, typer.Argument(metavar="KERNEL", help="FILE.py:KERNEL.")],
    signature: SignatureOption = None,
    disable: DisableOption = None,
    access: Annotated[
        bool,
        typer.Option("--access", help="Explain the form of each load and store."),
    ] = False,
    target: TargetOption = None,
    options: OptionsOption = None,
    json_to: Annotated[
        Path | None, typer.Option("--json", help="Write --access as JSON here (-: print it).")
    ] = None,
) -> None:
    """Explain a kernel's specialization, passes and launch plan, or its memory accesses."""
    if access:
        from tilewright.cli.explain import explain_accesses

        listed = ",".join(signature or ())
        explain_accesses(place, listed, _names(disable), target, tuple(options or ()), json_to)
        return
    if json_to is not None:
        raise LaunchError("--json goes with --access", help="add --access")
    from tilewright.cli.explain import explain as command

    command(place, ",".join(signature or ()), _names(disable), target, tuple(options or ()))


@app.command()
def export(
    place: Annotated[str, typer.Argument(metavar="KERNEL", help="FILE.py:KERNEL.")],
    signature: SignatureOption = None,
    folder: Annotated[Path, typer.Option("--output", help="Folder for the files.")] = Path(),
    name: Annotated[
        str | None,
        typer.Option(help="Name of the C function and the files (default: the kernel's)."),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(help='Programs, from the arguments: "cdiv(n, BLOCK)", "cdiv(M, BM), 8".'),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="cpu (this one), cpu:x86-64-v3, cpu:aarch64 …, or sm_90a …",
            autocompletion=completion.targets,
        ),
    ] = "cpu",
    options: OptionsOption = None,
    disable: DisableOption = None,
) -> None:
    """Compile a kernel ahead of time: a C header, and an object file (CPU) or a C launcher (GPU)."""
    from tilewright.cli.export import export as command

    listed = ",".join(signature or ())
    command(place, listed, folder, name, grid, target, tuple(options or ()), _names(disable))


@app.command(context_settings=_KEEP)
def run(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="A Python program.", metavar="FILE.py")],
    on_cpu: Annotated[
        bool, typer.Option("--on-cpu", help='torch\'s device "cuda" means the CPU.')
    ] = False,
) -> None:
    """Run a program in which `import triton` means tilewright; what follows FILE.py is its own."""
    from tilewright.cli.programs import run_program

    run_program(file, context.args, on_cpu)


@app.command(context_settings=_KEEP)
def compare(
    context: typer.Context,
    program: Annotated[
        str,
        typer.Argument(metavar="PROGRAM", help="FILE.py or MODULE that launches Triton kernels."),
    ],
    kernel: Annotated[
        str, typer.Option("--kernel", help="Only kernels whose name matches this expression.")
    ] = "",
    json_to: Annotated[Path | None, typer.Option("--json", help="Write the rows here.")] = None,
    html_to: Annotated[Path | None, typer.Option("--html", help="Write a page here.")] = None,
    limit: Annotated[
        float, typer.Option(help="Seconds for the program itself under Triton.")
    ] = 600.0,
    kernel_limit: Annotated[
        float, typer.Option(help="Seconds for one kernel, compilation included.")
    ] = 120.0,
    seconds: Annotated[
        float, typer.Option(help="Seconds for timing one kernel (0: compare results only).")
    ] = 1.0,
    configurations: Annotated[
        int, typer.Option(help="Configurations of each autotuner, evenly spaced (0: all).")
    ] = 0,
    specializations: Annotated[
        int, typer.Option(help="Launches of a kernel with different constants or types.")
    ] = 1,
) -> None:
    """Run a program with Triton and replay its kernels under both: results, times, resources, accesses.

    What follows PROGRAM is its own. Without a GPU: Triton's interpreter against native CPU code, results only. Status 1
    when results differ or a kernel fails.
    """
    from tilewright.cli.compare import compare as command
    from tilewright.compare.session import Choice, Limits

    limits = Limits(limit, kernel_limit, seconds)
    choice = Choice(kernel, specializations, configurations)
    if not command(program, context.args, choice, limits, json_to, html_to):
        raise typer.Exit(1)


@app.command()
def bench(
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE.py[:NAME]]",
            help="A file's perf_report functions, or a kernel.",
        ),
    ] = None,
    signature: SignatureOption = None,
    grid: Annotated[
        str | None, typer.Option(help="Launch grid of the kernel, e.g. 97 or 8,8,2.")
    ] = None,
    milliseconds: Annotated[int, typer.Option("--rep", help="Milliseconds to measure for.")] = 100,
    save: Annotated[Path | None, typer.Option(help="Folder for plots and CSV.")] = None,
) -> None:
    """Measure: the project's own tables in a checkout, a file's perf_reports, or one kernel.

    Arrays of a kernel are given with extents: -s "x_ptr=*fp32[98432],n=98432,BLOCK=1024" --grid 97.
    """
    from tilewright.cli import bench as command

    command.bench(place, ",".join(signature or ()), grid, milliseconds, save)


@app.command("completion")
def complete(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL", help="bash, zsh or fish.", autocompletion=completion.shells
        ),
    ],
) -> None:
    """Print the shell's completion script, e.g. eval "$(tilewright completion bash)" in ~/.bashrc."""
    typer.echo(completion.script(shell))


@app.command()
def doctor() -> None:
    """Check this machine and installation; compiles and runs a small kernel."""
    from tilewright.cli.doctor import doctor as command

    if not command():
        raise typer.Exit(1)


@cache_app.command("info")
def cache_info() -> None:
    """Where the cache is, how full, and of what."""
    from tilewright.cli.cache import info

    info()


@cache_app.command("path")
def cache_path() -> None:
    """Print the folder."""
    from tilewright.runtime.cache import default_directory

    typer.echo(default_directory())


@cache_app.command("clear")
def cache_clear() -> None:
    """Delete all entries."""
    from tilewright.cli.cache import clear

    clear()


def _names(lists: list[str] | None) -> tuple[str, ...]:
    found: list[Any] = [name.strip() for text in lists or () for name in text.split(",")]
    return tuple(name for name in found if name)
