"""Group 5: messages, help texts, options of commands, titles of pages."""

import re

SUBJECT = "[docs] Rename titles, messages, help texts and options to the field's terms"
BODY = """tilewright generate --explain-config, show --resume-after and export --output; the old
spellings (--explain-config, --from, --to) work for a release, with a note."""

TITLES = {
    "tilewright: the pages": "Documentation", "Architecture: the rooms and the contracts between them": "Architecture",
    "How kernels get onto an NVIDIA GPU": "NVIDIA backend", "Products that are described, not written": "Generated matmuls",
    "Four ways to say it": "Entry points", "How tiles are chosen": "Cost model and tile selection",
    "Finding what is wrong with a kernel": "Debugging kernels", "Ahead of time: kernels for C programs": "Ahead-of-time compilation",
    "From a description to machine code, pass by pass": "Lowering walkthrough", "The interpreter is the referee": "Reference interpreter",
    "A PTX emulator": "PTX emulator", "Proof on a GPU": "Hardware tests", "Asynchronous copies and products": "Asynchronous copies and MMA",
    "Products by type": "MMA instructions by type", "Launches that overlap": "Programmatic dependent launch", "Arguments that overlap": "Aliasing rules",
    "Boxes and their coordinates": "TMA tensor maps", "Several blocks a program": "Clusters (`num_ctas`)", "Packed once": "Prepacked operands",
    "Results that are read, too": "Aliasing of `out`", "Fails, or slower than wanted": "Known issues",
    "5. A program of several blocks is one program with more warps": "5. `num_ctas` as one program over a cluster",
    "7. One barrier, behind the product; then a warp of its own": "7. Single barrier after the MMA, producer warp",
    "9. Loops with several products: one ring, one barrier, left operands in registers": "9. Pipelining loops with several dots",
    "10. Operands across k pass through registers": "10. RS wgmma for MN-major tf32", "11. Results leave in parts": "11. Epilogue subtiles",
    "12. Boxes for two blocks, where rows begin inside of lines": "12. TMA multicast for unaligned row pitches",
}
HELP = {
    "Of the launch, for a GPU: num_warps=8,num_stages=4 …": "GPU launch options, e.g. num_warps=8,num_stages=4.",
    "Another machine than this CPU, e.g. sm_90a.": "Target to compile for (default: this CPU), e.g. sm_90a.",
    "Extents that the file leaves open: m=512,n=512,k=64.": "Extents that the file leaves open, e.g. m=512,n=512,k=64.",
    "Of arrays without one, e.g. fp16.": "Data type of arrays without one, e.g. fp16.",
    "In place of the model's choice: block_m=128,num_stages=3.": "Override the model's choice, e.g. block_m=128,num_stages=3.",
    "Say how the tiles were chosen.": "Explain the choice of tiles.",
    "Make a program of a described matmul: say what was read, choose tiles, show the IR.": "Compile a matmul from MLIR or Python loops: print what was read, the tiles chosen and the IR.",
    "Say what a kernel is specialised on and why, and what was made of it.": "Explain a kernel's specialization, passes and launch plan.",
    "Of the C function and the files (default: the kernel's).": "Name of the C function and the files (default: the kernel's).",
    "Of a kernel: 97 or 8,8,2.": "Launch grid of the kernel, e.g. 97 or 8,8,2.", "How long to measure.": "Milliseconds to measure for.",
    "Of an ablation: cpu, or cuda.": "Target of the ablation: cpu or cuda.",
    "Of an ablation's product: 4096 or 512,512,256.": "Matmul size of the ablation, e.g. 4096 or 512,512,256.",
    "Of an ablation's operands: float16, bfloat16, float32.": "Operand type of the ablation: float16, bfloat16 or float32.",
    "The pass after which a dump stands.": "Resume a dump after this pass.", "Which function of the file.": "Function of the file to compile.",
    "Draw which thread holds what into this picture (-: only the table).": "Draw the layouts to this picture (-: print the table only).",
}


def slug(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def titles(t):
    for old, new in TITLES.items():
        t.sub(rf"^(#+ ){re.escape(old)}$", lambda m, new=new: m[1] + new, "*.md", flags=re.M)
        t.sub(rf'(""")(#+ ){re.escape(old)}$', lambda m, new=new: m[1] + m[2] + new, "scripts/*.py", must=False, flags=re.M)
        t.sub(rf"#{slug(old)}(?=\))", f"#{slug(new)}", "*.md scripts/*.py", must=False)
        t.sub(rf"\[{re.escape(old)}\]", f"[{new}]", "*.md scripts/*.py", must=False)


def messages(t):
    t.sub(r"is no grid extent", "is not a valid grid extent", "src/*.py tests/*.py")
    t.sub(r"is no grid(?=[\"',])", "is not a valid grid", "src/*.py", but="*/drivers/*", must=False)
    t.sub(r"(f\"'\{given\}' for parameter '\{p\.name\}') is no type", r"\1 is an unknown type", "src/tilewright/runtime/jit.py", must=False)
    t.sub(r"(for parameter '(?:\{p\.name\}|\w+)') is no type", r"\1 is an unknown type", "src/*.py tests/*.py tests/*.txt", must=False)
    t.sub(r"\ba (\{type\(\w+\)\.__name__\}|list) is no array with strides", r"expected an array with strides, got a \1", "src/*.py tests/*.py tests/*.txt", must=False)
    t.sub(r"\ba (\{type\(\w+\)\.__name__\}|list) is no array\b", r"expected an array, got a \1", "src/*.py tests/*.py tests/*.txt", must=False)
    t.sub(r"there is no option (?=\{|')", "unknown option ", "src/*.py tests/*.py tests/*.txt")
    t.sub(r"'(\{text\}|warps=2)' is no option", r"unknown option '\1'", "src/tilewright/cli/options.py tests/cli/*.py")
    t.sub(r"is no mapping", "is not a mapping", "src/*.py tests/*.py")
    t.sub(r"the source of (kernel )?('?\{[\w.]+\}'?) is not to be had(?:: (\{error\})| \((\{error\})\))", lambda m: f"cannot read the source of {m[1] or ''}{m[2]}: {m[3] or m[4]}", "src/*.py")
    t.sub(r"if the source is not to be had", "if the source cannot be read", "src/*.py", must=False)
    t.sub(r'"what is to be measured\?"', '"nothing to benchmark"', "src/*.py")
    t.sub(r"an async copy to it is in flight (missing gpu.async_wait)", "an async copy to it is in flight (missing gpu.async_wait)", "*.py *.md")
    t.sub(r'match="(an async copy to it is in flight )\(missing gpu\.async_wait\)"', r'match=r"\1\\(missing gpu\\.async_wait\\)"', "tests/interpreter/*.py", must=False)
    t.sub(r'f"waits forever: \{expected\} expected, \{copied\} bytes being copied"', 'f"deadlock: {expected} bytes expected, {copied} in flight"', "src/*.py")
    t.sub(r'"waits forever: only the warp that copies waits for stages released"', '"deadlock: only the producer warp waits for released stages"', "src/*.py")
    t.sub(r'"ends, but the warp that copies waits forever for a stage"', '"ends, but the producer warp waits for a stage (deadlock)"', "src/*.py")
    t.sub(r"waits forever(?=[\"|)])", "deadlock", "tests/interpreter/*.py", must=False)
    t.sub(r"[Cc]ontract of execution, design §4a(?:\.3)?|aliasing rules \(design §4a\.3\)", "aliasing rules, docs/gpu.md", "src/*.py", must=False)
    t.sub(r"Contract of execution \(design §4a\.3\)", "Aliasing rules (docs/gpu.md)", "src/*.py", must=False)
    t.sub(r" \(design §4a\.3\)", " (docs/gpu.md, aliasing rules)", "src/*.py", must=False)
    t.sub(r"the aliasing rules", "the aliasing rules", "*.py *.md", must=False)
    t.sub(r"aliasing rules", "aliasing rules", "*.py *.md", must=False)
    t.sub(r"\b([Tt]he) (?:seed )?example kernels", r"\1 example kernels (`examples/seeds`)", "*.py *.md", but="benchmarks/gpu_kernels.py", must=False)
    t.sub(r"\bdocuments' kernels", "example kernels", "*.py *.md", must=False)
    t.sub(r"sums begin as zeros, C is written once", "zero-initialized accumulator, single store", "src/*.py tests/*.py docs/*.md")
    t.sub(r'"a warp of its own copies"', '"warp specialization"', "src/tilewright/testing/*.py tests/*.py")


def explanations(t):
    file = "src/tilewright/generator/model.py"
    t.edit(
        file,
        ('lines.append("  beside:")', 'lines.append("  alternatives:")'),
        ('f"    {other.tiling}: {slower:+.0%}, {other.programs} programs in {other.waves} "\n', 'f"    {other.tiling}: {slower:+.0%}, {other.programs} programs in {_waves(other)}, "\n'),
        ('f"waves ({other.wave_utilization:.0%} filled), {other.bound}"', 'f"wave utilization {other.wave_utilization:.0%}, bound by {other.bound}"'),
        ('f"{best.programs} programs in {best.waves} waves, {best.wave_utilization:.0%} of their places taken"', 'f"{best.programs} programs in {_waves(best)}, wave utilization {best.wave_utilization:.0%}"'),
        ("of the multiply-add rate; limit: {best.bound}", "of the multiply-add rate; bound by {best.bound}"),
        ('f"not the larger {e.tiling.block_m}x{e.tiling.block_n}: {e.waves} waves are filled to "\n', 'f"not the larger {e.tiling.block_m}x{e.tiling.block_n}: wave utilization "\n'),
        ('            f"{e.wave_utilization:.0%}"', '            f"{e.wave_utilization:.0%} in {_waves(e)}"'),
    )
    text = t.texts[file]
    if "def _waves(" not in text:
        t.set(file, text.rstrip("\n") + '\n\n\ndef _waves(estimate: Estimate) -> str:\n    """The number of waves, for explanations."""\n    return f"{estimate.waves} wave{\'s\' if estimate.waves > 1 else \'\'}"\n')
    t.edit(
        "tests/generator/test_model.py",
        ('"  128 programs in 1 waves, 97% of their places taken"', '"  128 programs in 1 wave, wave utilization 97%"'),
        ("not the larger 128x192: 1 waves are filled to 73%", "not the larger 128x192: wave utilization 73% in 1 wave"),
        ("of the multiply-add rate; limit: shared memory", "of the multiply-add rate; bound by shared memory"), ('lines[6] == "  beside:"', 'lines[6] == "  alternatives:"'),
    )
    t.sub(r"\| product \| tiles \| programs \| waves \| filled \| limit \|", "| matmul | tiles | programs | waves | wave utilization | bound by |", "scripts/*.py docs/*.md", must=False)


def options(t):
    app = "src/tilewright/cli/app.py"
    for old, new in HELP.items():
        if old in t.texts[app]:
            t.edit(app, (old, new))
        else:
            t.warn(f"{app}: no help {old!r}")
    t.edit(app, ('"--explain-config"', '"--explain-config"'), ('"--from"', '"--resume-after"'), ('typer.Option("--to", help="Folder', 'typer.Option("--output", help="Folder'))
    t.edit("src/tilewright/cli/show.py", ("--from goes with a dump", "--resume-after goes with a dump"), ("FILE.mlir --from …", "FILE.mlir --resume-after …"))
    t.sub(r'"--from"', '"--resume-after"', "tests/cli/*.py")
    t.sub(r"--from goes with", "--resume-after goes with", "tests/cli/*.py tests/*.txt", must=False)
    t.sub(r"--explain-config\b", "--explain-config", "tests/cli/*.py docs/*.md README.md scripts/*.py", but="docs/commands.md")
    t.sub(r'"--to"', '"--output"', "tests/cli/*.py")
    t.sub(r"(tilewright export [^\n`]*)--to\b", r"\1--output", "*.md *.py", must=False)
    main = "src/tilewright/cli/main.py"
    t.edit(
        main,
        ("def main(arguments", '''#: deprecated options: (command, old spelling) → new spelling
_RENAMED = {
    ("generate", "--explain-config"): "--explain-config",
    ("show", "--from"): "--resume-after",
    ("export", "--to"): "--output",
}


def _current(arguments: Sequence[str]) -> list[str]:
    """`arguments` with the present spelling of options; a note to stderr names each deprecated one."""
    found = list(arguments)
    for i, text in enumerate(found[1:], 1):
        option, equals, value = text.partition("=")
        new = _RENAMED.get((found[0], option))
        if new is not None:
            print(f"note: {option} is now called {new}; the old name will be removed", file=sys.stderr)
            found[i] = f"{new}{equals}{value}"
    return found


def main(arguments'''),
        ("        app(list(sys.argv[1:] if arguments is None else arguments), prog_name", "        app(_current(sys.argv[1:] if arguments is None else arguments), prog_name"),
    )
    test = "tests/cli/test_generate_export.py"
    text = t.texts[test]
    if "test_old_options" not in text:
        text = text.rstrip("\n") + '''


def test_old_options_still_work_and_say_so(tmp_path, capsys):
    (tmp_path / "product.mlir").write_text(TEXT)
    assert main(["generate", str(tmp_path / "product.mlir"), "--explain-config", "--target", "sm_90a"]) == 0
    said = capsys.readouterr()
    assert "waves" in said.out or "wave " in said.out
    assert "note: --explain-config is now called --explain-config" in said.err
    place = str(Path(__file__).parent / "kernels.py") + ":add_kernel"
    command = ["export", place, "-s", "BLOCK=64", f"--to={tmp_path}", "--name", "add"]
    assert main(command) == 0 and (tmp_path / "add.h").is_file()
    assert "note: --to is now called --output" in capsys.readouterr().err
'''
        if "from pathlib import Path" not in text:
            text = re.sub(r"^(import |from )", r"from pathlib import Path\n\n\1", text, count=1, flags=re.M)
        t.set(test, text)
    t.edit(test, ('and "waves" in out', 'and "wave utilization" in out'))
    # benchmarks
    places = "benchmarks/*.py tests/testing/*.py docs/*.md Makefile README.md"
    for old, new in {"--sums": "--accumulator", "--rehearse": "--dry-run", "--open": "--uncertain"}.items():
        t.sub(rf"(?<![\w-]){old}\b(?!-)", new, places)
        name, other = old[2:], new[2:].replace("-", "_")
        t.sub(rf"\bgiven\.{name}\b", f"given.{other}", "benchmarks/*.py")


def apply(t):
    titles(t)
    messages(t)
    explanations(t)
    options(t)


#: phrases that mean one thing wherever they stand
PROSE = [
    (r"\bproof is in flight\b", "proof is in progress"), (r"\bunder way\b", "in flight"), (r"\bUnder way\b", "In flight"),
    (r"\bgiven back\b", "released"), (r"\breckoned\b", "estimated"), (r"\bmachine for PTX\b", "PTX emulator"),
    (r"\bdescribed product(s?)\b", r"described matmul\1"), (r"\bDescribed product(s?)\b", r"Described matmul\1"),
    (r"\b([Tt])he slow way\b", r"\1he slow path"), (r"\b([Tt])he fast way\b", r"\1he fast path"),
    (r"\blane by lane\b", "element-wise"), (r"\bLane by lane\b", "Element-wise"), (r"\bwarp group(s?)\b(?![\"'])", r"warpgroup\1"),
    (r"\b(program|block)(s?) an SM\b", r"\1\2 per SM"), (r"\ba SM\b(?![\w.=(])", "an SM"), (r"\bA SM\b", "An SM"),
    (r"(?<![\w.\"'`])multiprocessors(?![\w.=(:\"'\]])", "SMs"), (r"(?<![\w.\"'`])multiprocessor(?![\w.=(:\"'\]])", "SM"),
    (r"\bwait forever\b", "deadlock"), (r"\bfor ever\b", "forever"),
]


def prose(t):
    for pattern, new in PROSE:
        t.sub(pattern, new, "*.py *.md", must=False)


_apply = apply


def apply(t):
    _apply(t)
    prose(t)
