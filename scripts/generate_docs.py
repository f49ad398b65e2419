"""Write the pages that are made from the source: reference, passes, operations, commands, tutorials.

python scripts/generate_docs.py            # write them
python scripts/generate_docs.py --check    # exit status 1 if one is out of date
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import inspect
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_NOTE = "<!-- made by scripts/generate_docs.py from the source: edit there -->\n"


def passes_page() -> str:
    """The pipelines in order, and what each pass is for."""
    from tilewright.backends.cpu.pipeline import cpu_passes
    from tilewright.backends.nvidia import pipeline as nvidia
    from tilewright.passes.pipeline import shared_passes
    from tilewright.passes.registry import all_passes

    shared = len(shared_passes())
    pipelines = {"a CPU": cpu_passes(), "an NVIDIA GPU": nvidia.nvidia_passes()}
    parts_of = {
        "a CPU": (shared_passes, cpu_passes),
        "an NVIDIA GPU": (
            shared_passes, nvidia.tile_passes, nvidia.shared_memory_passes, nvidia.access_passes,
        ),
    }
    reasons = {
        title: [reason for function in functions for reason in _reasons(function)]
        for title, functions in parts_of.items()
    }
    found = all_passes()
    parts = [
        _NOTE,
        "# Passes\n",
        "The compiler is a list of named passes over one IR. `tilewright show FILE.py:KERNEL` prints "
        "the IR after each (`--target sm_90a`: of a GPU); `--disable NAME` leaves one out, with those "
        "that need it, and results stay right.\n",
    ]
    for title, pipeline in pipelines.items():
        parts += [f"## The list for {title}\n", *_numbered(pipeline, shared, reasons[title]), ""]
    parts.append("## What each does\n")
    order = dict.fromkeys(p.name for pipeline in pipelines.values() for p in pipeline)
    others = sorted(name for name in found if name not in order)
    for name in [*order, *others]:
        users = [t for t, pipeline in pipelines.items() if name in {p.name for p in pipeline}]
        parts.append(_pass_section(found[name], users))
    return "\n".join(parts).rstrip("\n") + "\n"


def _numbered(pipeline: Any, shared: int, reasons: list[str]) -> list[str]:
    return [
        f"{i}. [{p.name}](#{p.name}){' `' + p.spec + '`' if p.spec != p.name else ''}"
        + (f": {reason}" if reason else "")
        + (" (the last pass that every target runs)" if i == shared else "")
        for i, (p, reason) in enumerate(zip(pipeline, reasons, strict=True), 1)
    ]


def _reasons(function: Any) -> list[str]:
    """The comments beside the passes of a pipeline: why each stands where it stands."""
    source = inspect.getsource(inspect.unwrap(function))
    lines = source[source.rindex("return (") :].splitlines()
    return [
        m[1] or ""
        for line in lines
        if (m := re.match(r"        [A-Z]\w*\(.*\),(?:  # (.*))?$", line))
    ]


def _pass_section(kind: Any, users: list[str]) -> str:
    text = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
    text = text.removeprefix(f"`{kind.name}`: ")
    path = Path(inspect.getfile(kind)).relative_to(ROOT)
    lines = [f"### {kind.name}\n", text[:1].upper() + text[1:].removesuffix(":") + "\n"]
    if kind.requires:
        lines.append(f"Needs: {', '.join(f'[{n}](#{n})' for n in kind.requires)}.\n")
    fields = dataclasses.fields(kind)
    if fields:
        options = ", ".join(f"`{f.name.replace('_', '-')}={_option(f.default)}`" for f in fields)
        lines.append(f"Options: {options}.\n")
    if kind.mandatory_reason:
        lines.append(f"Cannot be left out: {kind.mandatory_reason}.\n")
    for other, changed in kind.fallback_options.items():
        values = ", ".join(f"`{k.replace('_', '-')}={_option(v)}`" for k, v in changed.items())
        lines.append(f"Without [{other}](#{other}): {values}.\n")
    if len(users) < 2:
        lines.append(f"In the list for {users[0]}.\n" if users else "In no list.\n")
    lines.append(f"[Source, with the whole essay](../{path.as_posix()})\n")
    return "\n".join(lines)


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def commands_page() -> str:
    """Every command with its arguments and options."""
    import typer.main

    from tilewright.cli.app import app

    parts = [
        _NOTE,
        "# The `tilewright` command\n",
        "Also `python -m tilewright`. A fault in a kernel or in its use gives status 1, wrong usage 2.\n",
    ]
    _describe(typer.main.get_command(app), "tilewright", parts)
    return "\n".join(parts).rstrip("\n") + "\n"


def _describe(command: Any, path: str, parts: list[str]) -> None:
    children = getattr(command, "commands", None)
    if children:
        for name, child in children.items():
            _describe(child, f"{path} {name}", parts)
        return
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    words = " ".join(p.metavar or p.name.upper() for p in arguments)
    parts.append(f"## {path}{' ' + words if words else ''}\n")
    parts.append(inspect.cleandoc(command.help or "") + "\n")
    rows = [(p.metavar or p.name.upper(), getattr(p, "help", "")) for p in arguments]
    rows += [(", ".join([*p.opts, *p.secondary_opts]), p.help or "") for p in options]
    if rows:
        parts += ["| | |", "|---|---|"]
        parts += [f"| `{name.replace('|', chr(92) + '|')}` | {text} |" for name, text in rows]
        parts.append("")


#: operations that never reach code generation: what becomes of them on the way to a CPU
_LOWERED = {
    "program_id num_programs": "`schedule-programs`: loop counters and launch arguments",
    "load_view store_view": "`vectorize`: `cpu.vector_load`, `cpu.gather` and their stores",
    "reduce scan yield": "`vectorize`: element-wise, then across the lanes",
    "dot": "`lower-dot`, `plan-scratch`, `vectorize`: packing and a micro-kernel, `cpu.call_microkernel`",
    "histogram": "`plan-scratch`: `cpu.histogram_buffers`",
    "assert": "`schedule-programs`: `cpu.fault_if`",
    "assume": "`schedule-programs`: dropped",
    "barrier": "`schedule-programs`: dropped; a program runs on one thread, in order",
    "fusion_group yield read write scratch": "`vectorize`: loops over chunks, addresses",
    "inline_asm": "refused: PTX is for NVIDIA GPUs",
    "buffer_dot": "`vectorize`: `cpu.call_microkernel`",
    "prepacked": "`plan-scratch`: `cpu.buffer_from_ptr`",
    "buffer_from_ptr": "`vectorize`: the pointer itself",
    "histogram_buffers": "`vectorize`: a loop over lanes",
}  # fmt: skip
_WAYS = {name: text for names, text in _LOWERED.items() for name in names.split()}


def operations_page() -> str:
    """Every operation with where it means something; an operation without a way is an error."""
    from tilewright.backends.cpu import codegen
    from tilewright.backends.llvm.elementwise import rule_names
    from tilewright.backends.nvidia import codegen as nvidia_codegen
    from tilewright.dialects import cpu, tile
    from tilewright.interpreter import executor, registry

    interpreted = {*registry.names(), *executor.handled_names()}
    generated = {*rule_names(), *(kind.name for kind in codegen.HANDLERS)}
    on_nvidia = {*rule_names(), *(kind.name for kind in nvidia_codegen.HANDLERS)}
    parts = [
        _NOTE,
        "# Operations\n",
        "Every operation of the IR: its meaning (the interpreter executes it), and how each back end lowers it, by code "
        "generation or by the pass that rewrites it. Upstream operations are those of MLIR's `arith`, `math` and "
        "`scf`.\n",
    ]
    for title, dialect in (("The tile dialect", tile.Tile), ("The cpu dialect", cpu.Cpu)):
        gpu = dialect is tile.Tile
        head = "| operation | | interpreter | CPU |" + (" NVIDIA |" if gpu else "")
        parts += [f"## {title}\n", head, "|---|---|---|---|" + ("---|" if gpu else "")]
        for kind in dialect.operations:
            text = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
            text = text.replace("|", "\\|").split(". ")[0].rstrip(".")
            run = "yes" if kind.name in interpreted else _missing(kind.name)
            way = "code generation" if kind.name in generated else _way(kind)
            row = f"| `{kind.name}` | {text} | {run} | {way} |"
            if gpu:
                row += (
                    f" {'code generation' if kind.name in on_nvidia else _on_nvidia(kind.name)} |"
                )
            parts.append(row)
        parts.append("")
    parts += _gpu_table(interpreted)
    parts += [
        "## Upstream operations\n",
        "| operation | interpreter | CPU and NVIDIA |",
        "|---|---|---|",
    ]
    upstream = {n for n in interpreted | generated if n.startswith(("arith.", "math.", "scf."))}
    for name in sorted(upstream):
        run = "yes" if name in interpreted else _missing(name)
        parts.append(f"| `{name}` | {run} | {_upstream_way(name, generated)} |")
    return "\n".join(parts).rstrip("\n") + "\n"


def _gpu_table(interpreted: set[str]) -> list[str]:
    """The gpu dialect: all of it is lowered by code generation for NVIDIA GPUs."""
    from tilewright.backends.nvidia import codegen
    from tilewright.dialects import gpu

    generated = {kind.name for kind in codegen.HANDLERS}
    parts = ["## The gpu dialect\n", "| operation | | interpreter | NVIDIA |", "|---|---|---|---|"]
    for kind in gpu.Gpu.operations:
        text = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
        text = text.replace("|", "\\|").split(". ")[0].rstrip(".")
        run = "yes" if kind.name in interpreted else _missing(kind.name)
        way = "code generation" if kind.name in generated else _missing(kind.name)
        parts.append(f"| `{kind.name}` | {text} | {run} | {way} |")
    return [*parts, ""]


def _upstream_way(name: str, generated: set[str]) -> str:
    if name in generated:
        return "code generation"
    if name in ("scf.yield", "scf.condition"):
        return "with its loop or branch"
    if name.startswith("math."):
        return "as `tile.libm`: a call a lane"
    return _missing(name)


def _way(kind: Any) -> str:
    from tilewright.passes.cpu.nest.values import SHAPES

    if kind in SHAPES:
        return "`vectorize`: coordinates of the chunk, or lanes picked"
    return _WAYS.get(kind.name.partition(".")[2]) or _missing(kind.name)


def _on_nvidia(name: str) -> str:
    return "with its reduction or scan" if name == "tile.yield" else _missing(name)


def _missing(name: str) -> str:
    raise SystemExit(f"docs/operations.md: nothing says what becomes of {name}")


_CHOICES = """# Cost model and tile selection

`generator/gpu_model.py` estimates the time of each tile configuration of a matmul, and `generator/model.py` takes the fastest, in about a
millisecond, without measuring anything:

    launch + waves of programs · (begin + steps + end) + reduction of split K

`generator/tuning.py` holds configurations that were measured on a kind of machine; they take precedence
(`benchmarks/tune_matmul.py` measures; nothing is measured when a matmul runs). `tilewright.matmul(…, config=…)` takes
another configuration, and `tilewright.generator.choice.explain` prints the estimates behind a choice.

An fp16 matmul on an H100 or H200, as the model alone sees it:

```
{example}
```

The model's choices for fp16 on that chip, squares and matmuls with fewer tiles than SMs (without the table of measured configurations):

| matmul | tiles | programs | waves | wave utilization | bound by |
|---|---|---:|---:|---:|---|
{rows}

## On a CPU

`generator/cpu_model.py` weighs two forms. Every program packs the panels that it multiplies, which costs
`(block_m + block_n) · K` elements a tile; or both operands are packed once, before, for all programs
([generator.md](generator.md#prepacked-operands)), which costs each operand once and two launches more. Tiles are bounded
by the L2 cache, blocks divide the extents evenly, in multiples of 16. On a core with AVX-512
(with bf16 dot instructions) and 1 MB of L2 cache, two of them:

```
{cpu_example}
```

| matmul | type | tiles | packed | programs |
|---|---|---|---|---:|
{cpu_rows}
"""


def walkthrough_page() -> str:
    """A matmul through both pipelines, with the IR after each pass."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import walkthrough

    return f"{_NOTE}\n{walkthrough.page()}"


def choices_page() -> str:
    """What the model chooses for matmuls of several sizes."""
    from tilewright.backends import registry
    from tilewright.generator import model

    target = registry.machine("sm_90a")
    sizes = [(1, n, n, n) for n in (1024, 1536, 2048, 2560, 3072, 4096, 6144, 8192, 16384)]
    sizes += [
        (1, 1024, 1024, 8192),
        (1, 128, 4096, 4096),
        (1, 4096, 16, 4096),
        (1, 256, 256, 16384),
    ]
    sizes += [(64, 512, 512, 512), (1, 1000, 1000, 1000)]
    rows = []
    for batch, m, n, k in sizes:
        best = model.choose(model.Workload(m, n, k, batch), target).best
        name = f"{batch} of " * (batch > 1) + f"{m} x {n} x {k}"
        cells = [name, str(best.tiling), str(best.programs), str(best.waves)]
        rows.append(f"| {' | '.join([*cells, f'{best.wave_utilization:.0%}', best.bound])} |")
    example = model.choose(model.Workload(1536, 1536, 1536), target).explain(3)
    cpu_example, cpu_rows = _cpu_choices()
    page = _CHOICES.format(
        example=example, rows="\n".join(rows), cpu_example=cpu_example, cpu_rows="\n".join(cpu_rows)
    )
    return f"{_NOTE}\n{page}"


def _cpu_choices() -> tuple[str, list[str]]:
    """A choice explained, and the choices for matmuls of several sizes, on a made-up CPU."""
    from tilewright import dtypes
    from tilewright.backends.base import TargetInfo
    from tilewright.generator import Contraction, Operand
    from tilewright.generator.choice import choose, explain

    features = ("avx2", "fma", "avx512f", "avx512vl", "avx512vnni", "avx512bf16", "clzero")
    target = TargetInfo("cpu", "x86_64-unknown-linux-gnu", "znver4", features, 512, 32, cores=2)
    rows = []
    for kind in (dtypes.float32, dtypes.bfloat16):
        contraction = Contraction(*[Operand(kind)] * 3)
        for m, n, k in ((64, 64, 64), (300, 300, 300), (512, 512, 512), (1000, 1000, 1000),
                        (4096, 4096, 4096), (20, 2048, 2048), (4096, 16, 4096)):  # fmt: skip
            c = choose(contraction, m, n, k, target)
            tiles = f"{c.block_m}x{c.block_n}x{c.block_k}"
            count = -(-m // c.block_m) * -(-n // c.block_n)
            packed = "in every program" if c.prepack is None else f"once, {c.prepack.text}"
            rows.append(f"| {m} x {n} x {k} | {kind.short_name} | {tiles} | {packed} | {count} |")
    single = Contraction(*[Operand(dtypes.float32)] * 3)
    return explain(single, 1024, 1024, 1024, target), rows


def tutorial_page(script: Path) -> str:
    """A tutorial script as a page: its docstring, the text of its `# %%` cells, and their code."""
    source = script.read_text(encoding="utf-8")
    head, *cells = re.split(r"^# %% ", source, flags=re.M)
    parts = [_NOTE, inspect.cleandoc(ast.literal_eval(head.strip())), ""]
    for cell in cells:
        text = re.match(r"(.*\n(?:# .*\n)*)", cell)
        if text is None:
            raise SystemExit(f"{script.name}: a cell without text")
        words = re.sub(r"^# ", "", text[1], flags=re.M).strip()
        parts += [words, "", "```python", cell[text.end() :].strip("\n"), "```", ""]
    parts.append(
        f"[The script](../../examples/tutorials/{script.name}): run it with `python {script.name}`."
    )
    return "\n".join(parts) + "\n"


TUTORIALS = sorted((ROOT / "examples" / "tutorials").glob("[0-9]*.py"))


def reference_page(name: str) -> str:
    """A page of `reference_docs`."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import reference_docs

    return f"{_NOTE}\n{reference_docs.PAGES[name]()}"


PAGES: dict[str, Callable[[], str]] = {
    **{
        name: functools.partial(reference_page, name)
        for name in (
            f"docs/reference/{n}.md" for n in ("language", "runtime", "errors", "environment")
        )
    },
    **{
        f"docs/tutorials/{script.stem.replace('_', '-')}.md": functools.partial(
            tutorial_page, script
        )
        for script in TUTORIALS
    },
    "docs/choices.md": choices_page,
    "docs/walkthrough.md": walkthrough_page,
    "docs/passes.md": passes_page,
    "docs/commands.md": commands_page,
    "docs/operations.md": operations_page,
}


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.write_text(text, encoding="utf-8")
    print(", ".join(stale) or "nothing", "out of date" if check else "written")
    return int(check and bool(stale))


if __name__ == "__main__":
    raise SystemExit(main())
