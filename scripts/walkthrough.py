"""The page that walks through the pipeline: a described matmul, and its IR after each pass, from a run."""

from __future__ import annotations

import difflib
import inspect
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import tilewright as tw
import tilewright.language as tl

#: sections of arXiv 2108.13191 that passes stand for
_PAPER = {
    "lower-dot": "3.2, 3.4", "form-fusion-groups": "3.3", "vectorize": "3.7", "schedule-programs": "3.9",
    "assign-layouts": "3.2, 3.9", "select-mma": "3.4", "promote-accumulator": "3.4",
    "promote-shared": "3.3", "swizzle-shared": "3.3", "pipeline-loads": "3.5, 3.10",
    "insert-barriers": "3.6", "vectorize-accesses": "3.7",
}  # fmt: skip
_OPENING = """# Lowering walkthrough

A kernel is lowered by a list of passes over one IR. First a vector addition, whose IR fits on a screen; then a
[matmul](#a-described-matmul) with every pass that changes it. `tilewright show FILE.py:KERNEL` prints the same for any kernel.

## A vector addition

```python
{source}
```

The front end writes **tile IR**: `tensor<1024xf32>` is a tile on which one program computes, and loads and stores take tiles of pointers. After
`cse` (in this section the attributes that carry alignment and operand segments are left out):

```mlir
{front}
```

`raise-access` finds that the pointers are a base and a stride, and that the mask is an upper bound: a **structured access**
(`tile.load_view` takes the base, the stride and the bound). What follows needs no tiles of pointers.

```mlir
{raised}
```

On an **NVIDIA GPU** `assign-layouts` decides which thread holds which element (`r` registers, `l` lanes, `w` warps: the offset that each bit of
the index adds), and `vectorize-accesses` that four elements are one access:

```mlir
{gpu}
```

```
{ptx}
```

On a **CPU** `vectorize` writes loops over chunks of vectors; this one is for full chunks, another, with lane masks, for the rest. Where the arrays
might overlap, a test selects loops that keep the kernel's order.

```mlir
{cpu}
```

## A described matmul

```python
{code}
```

`generator/program.py` builds tile IR for the contraction and its configuration, here `form="listing1"`, which loads and stores C in
every k step, as in listing 1 of arXiv 2108.13191 (the default form has accumulators from the start). Numbers in headings are sections of that paper.
Every pass can be disabled (`--disable NAME`, see [passes](passes.md)), and `python -m benchmarks.ablation` measures the effect of each. Passes that
changed nothing are listed, not shown. Click on a line to unfold the IR, or the difference from the stage before.
"""


@tw.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x + y, mask=at < n)


@dataclass
class _Stage:
    name: str
    text: str
    counts: Counter[str] = field(default_factory=Counter)
    changed: bool = True


def page() -> str:
    """The text of docs/walkthrough.md."""
    from tilewright.backends import registry
    from tilewright.passes.registry import all_passes

    listing = "promote-accumulator" in all_passes()
    parts = [_opening()]
    for title, target, options, config in _targets(listing):
        stages = _stages(_module(target, config), registry.machine(target), options)
        parts += [f"### {title}\n", f"`{config.text}`\n", *_sections(stages)]
    return "\n".join(parts).rstrip("\n") + "\n"


def _opening() -> str:
    """The vector addition at five levels."""
    from tilewright.backends import registry
    from tilewright.backends.base import Options
    from tilewright.runtime.compiler import build_ir

    types: dict[str, Any] = {name: "*fp32:16" for name in ("x_ptr", "y_ptr", "out_ptr")} | {
        "n": "i32"
    }
    kernel = add.compile(types, {"BLOCK": 1024}, target="sm_90a")

    def stages(target: str) -> list[_Stage]:
        module = build_ir(add, kernel.signature, Options())
        return _stages(module, registry.machine(target), {})

    gpu, cpu = stages("sm_90a"), stages("cpu:x86-64-v4")
    last = {stage.name: stage for stage in gpu}
    ptx = kernel.asm["ptx"].splitlines()
    accesses = [line.strip() for line in ptx if "global" in line and "v4" in line]
    vectors = next(stage.text for stage in cpu if stage.name == "vectorize")
    loop = re.search(r"^( *)scf\.for .*?^\1\}", vectors, re.M | re.S)
    if loop is None:
        raise SystemExit("docs/walkthrough.md: no loop over vectors")
    return _OPENING.format(
        source=inspect.getsource(add.fn).strip(),
        front=_plain(next(s.text for s in gpu if s.name == "cse")),
        raised=_plain(last["raise-access"].text),
        gpu=_plain(last["vectorize-accesses"].text),
        ptx="\n".join(accesses),
        cpu=_plain(inspect.cleandoc("\n" + loop[0])),
        code=_CODE.strip(),
    )


def _plain(text: str) -> str:
    """IR without the attributes that only passes read."""
    for pattern in (
        r" \{tile\.divisibility = [^}]*\}", r" \{tile\.name = [^}]*\}", r" attributes \{[^}]*\}",
        r",? ?operandSegmentSizes = array<[^>]*>(?:, )?", r",? ?tile\.assumes = #tile\.assumes<.*?\]>(?=[,}])",
        r" <\{\}>", r" \{\}(?= :)",
    ):  # fmt: skip
        text = re.sub(pattern, "", text)
    return text.rstrip()


_CODE = """
c = tilewright.matmul(a, b, out_dtype=float32, epilogue=[tilewright.epilogue.bias(x), "gelu"], config=start)
"""


def _targets(listing: bool) -> list[tuple[str, str, dict[str, Any], Any]]:
    from tilewright.generator import MatmulConfig

    form = "listing1" if listing else "tiled"
    gpu = MatmulConfig(128, 128, 64, 8, num_warps=8, num_stages=3, form=form)
    cpu = MatmulConfig(64, 64, 64, 8, form=form)
    return [
        ("On an NVIDIA GPU: sm_90a, fp16", "sm_90a", {"num_warps": 8, "num_stages": 3}, gpu),
        ("On a CPU: x86-64 with AVX-512, fp32", "cpu:x86-64-v4", {}, cpu),
    ]


def _module(target: str, config: Any) -> Any:
    """Tile IR of `gelu(a @ b + x)` with row-major operands, sizes divisible by 16."""
    from tilewright import dtypes
    from tilewright.dtypes import constexpr, pointer_type
    from tilewright.generator import Contraction, Extra, Operand, Step
    from tilewright.generator.program import INTEGER, POINTER, Program

    kind = dtypes.float32 if target.startswith("cpu") else dtypes.float16
    steps = (Step("add", (Extra(kind, "n"),)), Step("gelu"))
    contraction = Contraction(Operand(kind), Operand(kind), Operand(dtypes.float32), epilogue=steps)
    program = Program(contraction, config)
    signature: dict[str, Any] = {}
    for p in program.parameters:
        unit = p.kind == INTEGER and p.name in ("a_k", "b_n", "out_n", "x0_n")
        kind_of = {POINTER: pointer_type(p.dtype) if p.dtype else None, INTEGER: dtypes.int32}
        signature[p.name] = constexpr(1) if unit else kind_of.get(p.kind, p.dtype)
    aligned = {name: 16 for name, item in signature.items() if not isinstance(item, constexpr)}
    return program.build(signature, aligned, name="matmul")


def _stages(module: Any, target: Any, options: dict[str, Any]) -> list[_Stage]:
    from tilewright.backends import registry
    from tilewright.backends.base import Options
    from tilewright.ir.text import print_ir
    from tilewright.passes.base import functions_of
    from tilewright.passes.manager import run_pipeline

    def stage(name: str, now: Any, changed: bool = True) -> _Stage:
        names = Counter(op.name for op in now.walk())
        return _Stage(name, print_ir(now), names, changed)

    stages = [stage("the generator", module)]

    def observe(name: str, seconds: float, changed: bool, now: Any) -> None:
        stages.append(stage(name, now, changed))

    backend = registry.get(target.name)
    for function in functions_of(module):
        function.attributes.update(backend.facts(Options(**options), target))
    run_pipeline(module, backend.passes(), target, verify="off", observer=observe)
    return stages


def _sections(stages: list[_Stage]) -> list[str]:
    lines: list[str] = []
    before = stages[0]
    idle: list[str] = []
    for stage in stages:
        if not stage.changed:
            idle.append(stage.name)
            continue
        if idle:
            lines.append(f"Nothing to do: {', '.join(dict.fromkeys(idle))}.\n")
            idle = []
        lines += _section(stage, before)
        before = stage
    if idle:
        lines.append(f"Nothing to do: {', '.join(dict.fromkeys(idle))}.\n")
    return lines


def _section(stage: _Stage, before: _Stage) -> list[str]:
    paper = _PAPER.get(stage.name)
    lines = [f"#### {stage.name}{f' ({paper})' if paper else ''}\n"]
    if stage is not before:
        lines.append(_essence(stage.name) + "\n")
        change = _change(before.counts, stage.counts)
        lines += [change + "\n"] if change else []
    lines.append(f"<details><summary>{sum(stage.counts.values())} operations</summary>\n")
    lines += [*_listing(stage, before), "</details>\n"]
    return lines


def _listing(stage: _Stage, before: _Stage) -> list[str]:
    """The IR, or what changed in it where that is much shorter."""
    now, then = stage.text.rstrip("\n").split("\n"), before.text.rstrip("\n").split("\n")
    changes = _diff(then, now)
    if stage is not before and len(changes) < 0.6 * len(now):
        return ["```diff", *changes, "```\n"]
    return ["```mlir", *now, "```\n"]


_NUMBER = re.compile(r"%\d+\b")


def _diff(then: list[str], now: list[str], context: int = 2) -> list[str]:
    """A unified diff of lines that differ in more than the numbers of values."""
    plain = [[_NUMBER.sub("%_", line) for line in text] for text in (then, now)]
    matcher = difflib.SequenceMatcher(None, plain[0], plain[1], autojunk=False)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(context):
        lines.append(f"@@ line {group[0][3] + 1} @@")
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                lines += [f" {line}" for line in now[j1:j2]]
            else:
                lines += [f"-{line}" for line in then[i1:i2]]
                lines += [f"+{line}" for line in now[j1:j2]]
    return lines


def _essence(name: str) -> str:
    """The first paragraph of what the pass says of itself."""
    from tilewright.passes.registry import lookup

    kind = lookup(name)
    text = inspect.cleandoc(kind.__doc__ or "")
    return text.split("\n\n")[0].removesuffix(":")


def _change(before: Counter[str], after: Counter[str]) -> str:
    """Which operations came and which went, most first."""
    came, went = after - before, before - after

    def listed(found: Counter[str]) -> str:
        shown = [f"{n} `{name}`" for name, n in sorted(found.items(), key=lambda x: (-x[1], x[0]))]
        return ", ".join(shown[:8]) + (" …" if len(shown) > 8 else "")

    parts = [f"New: {listed(came)}."] if came else []
    parts += [f"Gone: {listed(went)}."] if went else []
    return " ".join(parts)
