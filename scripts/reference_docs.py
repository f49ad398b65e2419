"""The reference pages, made from docstrings: language, runtime, errors, environment variables."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def language_page() -> str:
    """Every name of `tilewright.language`."""
    import tilewright.language as tl

    groups = {
        "Programs, control and hints": "program_id num_programs range static_range condition static_assert static_print"
        " device_print device_assert debug_barrier assume multiple_of max_contiguous max_constancy",
        "Making tiles": "arange zeros zeros_like full full_like cast to_tensor",
        "Shapes": "broadcast broadcast_to expand_dims unsqueeze squeeze reshape view ravel trans permute join split"
        " interleave cat flip gather swizzle2d",
        "Memory": "load store make_block_ptr advance make_tensor_descriptor load_tensor_descriptor store_tensor_descriptor",
        "Atomics": "atomic_add atomic_and atomic_or atomic_xor atomic_max atomic_min atomic_xchg atomic_cas atomic_load"
        " atomic_store atomic_poll",
        "Matmuls": "dot dot_scaled",
        "Reductions, scans, sorting": "sum max min argmax argmin xor_sum reduce_or reduce cumsum cumprod associative_scan"
        " histogram sort topk bitonic_merge",
        "Element-wise functions": "where maximum minimum clamp add sub mul abs cdiv ceil floor cos sin exp exp2 log log2 sqrt"
        " sqrt_rn rsqrt erf tanh sigmoid softmax fma fdiv div_rn umulhi map_elementwise inline_asm_elementwise"
        " extern_elementwise",
        "Random numbers": "rand rand4x randn randn4x randint randint4x philox philox_impl uint_to_uniform_float"
        " pair_uniform_to_normal",
    }
    names = {name for text in groups.values() for name in text.split()}
    missing = names - set(tl.__all__)
    if missing:
        raise SystemExit(f"docs/reference/language.md: not in tl: {sorted(missing)}")
    parts = [
        "# Language reference\n",
        "`import tilewright.language as tl`. Signatures and semantics are Triton's; differences are listed in "
        "[the kernel language](../language.md). Methods of a tile (`x.sum(0)`) are the functions with that tile as the first argument.\n",
    ]
    for title, text in groups.items():
        parts += [f"## {title}\n", *_entries(tl, text.split(), "tl")]
    others = [name for name in tl.__all__ if name not in names]
    values = [n for n in others if isinstance(getattr(tl, n), tl.dtype)]
    modules = [n for n in others if isinstance(getattr(tl, n), types.ModuleType)]
    parts += ["## Element types\n", ", ".join(f"`tl.{n}`" for n in values) + "\n"]
    parts += ["## Modules\n", "| | |", "|---|---|"]
    parts += [f"| `tl.{n}` | {_summary(getattr(tl, n))} |" for n in modules]
    rest = sorted(set(others) - set(values) - set(modules))
    parts += ["", "## Types and compile-time values\n", *_entries(tl, rest, "tl")]
    library = tl.libdevice
    parts += [
        "## libdevice\n",
        "`tl.math.NAME`, `tl.libdevice.NAME` and `tl.extra.libdevice.NAME`:\n",
        "| | |",
        "|---|---|",
    ]
    parts += [f"| `{n}` | {_summary(getattr(library, n))} |" for n in sorted(library.__all__)]
    return _joined(parts)


def runtime_page() -> str:
    """What `tilewright` and `tilewright.testing` export, and the public classes of descriptors and compiled kernels."""
    import tilewright
    from tilewright import testing
    from tilewright.runtime import descriptors

    skipped = {
        n for n in tilewright.__all__ if isinstance(getattr(tilewright, n), types.ModuleType)
    }
    errors = {
        n
        for n in tilewright.__all__
        if inspect.isclass(v := getattr(tilewright, n)) and issubclass(v, Exception)
    }
    names = [n for n in tilewright.__all__ if n not in skipped | errors]
    parts = [
        "# Runtime reference\n",
        "`import tilewright as tw`. Errors are [on their own page](errors.md), environment variables [on another](environment.md).\n",
        "## tilewright\n", *_entries(tilewright, names, "tw", members=True),
        "## tilewright.epilogue\n",
        *_entries(tilewright.epilogue, [n for n in dir(tilewright.epilogue) if not n.startswith("_")
            and callable(getattr(tilewright.epilogue, n)) and n.islower()], "tw.epilogue"),
        "## tilewright.testing\n", *_entries(testing, testing.__all__, "tilewright.testing"),
        "## tilewright.runtime.descriptors\n",
        *_entries(descriptors, ["TensorDescriptor"], "tilewright.runtime.descriptors"),
    ]  # fmt: skip
    return _joined(parts)


def errors_page() -> str:
    """Every class of error."""
    from tilewright import errors

    parts = [
        "# Errors\n",
        "Messages name the kernel's file, line and column, show the line, and end with `help:` and one thing to do. Errors carry "
        "`message`, `help` and `location`. `TILEWRIGHT_FULL_TRACEBACK=1` keeps tilewright's own frames in tracebacks.\n",
        "| class | also a | raised when |", "|---|---|---|",
    ]  # fmt: skip
    for name, kind in vars(errors).items():
        if (
            inspect.isclass(kind)
            and issubclass(kind, Exception)
            and kind.__module__ == errors.__name__
        ):
            bases = ", ".join(f"`{b.__name__}`" for b in kind.__bases__)
            parts.append(f"| `{name}` | {bases} | {_summary(kind)} |")
    return _joined(parts)


def environment_page() -> str:
    """The table of settings, which the README holds and a test compares with `config.py`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Settings\n(.*?)(?=^## )", readme, re.M | re.S)
    if section is None:
        raise SystemExit("docs/reference/environment.md: no settings in README.md")
    return "# Environment variables\n" + section[1]


def _entries(module: Any, names: Iterable[str], prefix: str, members: bool = False) -> list[str]:
    parts: list[str] = []
    for name in names:
        value = getattr(module, name)
        parts += [
            f"### {prefix}.{name}\n",
            f"```python\n{prefix}.{name}{_signature(value)}\n```\n",
            _document(value) + "\n",
        ]
        if members and inspect.isclass(value):
            rows = [
                (n, v) for n, v in vars(value).items()
                if not n.startswith("_") and (inspect.isfunction(v) or isinstance(v, property)) and inspect.getdoc(v)
            ]  # fmt: skip
            parts += ["| | |", "|---|---|"] if rows else []
            parts += [
                f"| `.{n}{'' if isinstance(v, property) else _signature(v).replace('|', chr(92) + '|')}` | {_summary(v)} |"
                for n, v in rows
            ]
            parts += [""] if rows else []
    return parts


def _signature(value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r": [^,()=]*(?:\[[^\]]*\])?[^,()=]*(?=[,)=])", "", text.partition(" -> ")[0])
    text = re.sub(r"\bself(, )?", "", text)
    return re.sub(r"<[^>]*>", "…", text).replace("= ", "=")


def _document(value: Any) -> str:
    """A docstring as Markdown: `Args:` and its kin become lists."""
    lines: list[str] = []
    listed = False
    for line in (inspect.getdoc(value) or "").replace("<", "&lt;").split("\n"):
        if re.fullmatch(r"(Args|Returns|Raises|Attributes):", line):
            listed = True
            lines += [f"**{line[:-1]}**", ""]
        elif listed and (item := re.match(r"    (\S[^:]*): (.*)", line)):
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif listed and line.startswith("    "):
            lines.append("  " + line.strip())
        else:
            listed = False
            lines.append(line)
    return "\n".join(lines)


def _summary(value: Any) -> str:
    text = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")
    return text.replace("|", "\\|").replace("<", "&lt;")


def _joined(parts: list[str]) -> str:
    return "\n".join(parts).rstrip("\n") + "\n"


PAGES = {
    "docs/reference/language.md": language_page,
    "docs/reference/runtime.md": runtime_page,
    "docs/reference/errors.md": errors_page,
    "docs/reference/environment.md": environment_page,
}
