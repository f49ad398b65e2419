"""Group 2: passes, their options, and the vocabulary of the pass class; old spellings stay as aliases."""

import re

SUBJECT = "[passes] Rename passes and options to the field's terms; keep old spellings for a release"
BODY = """disable=, Config(disable=), TILEWRIGHT_DISABLE and --disable still take the old names
and options (passes/renamed.py) and warn. No generated code changes."""

PASSES = {
    "select-wgmma-rs": "select-wgmma-rs", "multicast-tma-loads": "multicast-tma-loads", "lower-stores-to-tma": "lower-stores-to-tma",
    "strip-mine-tiles": "strip-mine-tiles", "cache-in-shared": "cache-in-shared", "reduce-num-warps": "reduce-num-warps",
    "emulate-fp32-dots": "emulate-fp32-dots", "partition-loops": "partition-loops", "vectorize-accesses": "vectorize-accesses",
    "form-fusion-groups": "form-fusion-groups", "elide-packing": "elide-packing", "reuse-output-buffer": "reuse-output-buffer",
}
#: by the new name of the pass
OPTIONS = {
    "promote-accumulator": {"apart": "assume-noalias"},
    "pipeline-loads": {"lag": "mma-in-flight", "boxes": "tma", "several": "multiple-dots", "parts": "epilogue-subtiles", "limit": "max-shared-bytes"},
    "specialize-warps": {"everywhere": "all-loops", "parts": "epilogue-subtiles"},
    "lower-stores-to-tma": {"slots": "epilogue-stages"},
    "promote-shared": {"registers": "register-operands"},
    "lower-dot": {"wide": "full-width-vectors"},
    "strip-mine-tiles": {
        "registers": "elements-per-thread", "all-registers": "elements-per-cta", "share": "strip-elements-per-thread",
        "code": "max-instructions", "crowd": "max-pressure", "whole": "skip-if-fits", "keep": "mark-cacheable",
    },
    "batch-loads": {"words": "registers-per-thread", "all-words": "registers-per-cta"},
    "reduce-num-warps": {"share": "elements-per-thread", "schedulers": "schedulers-per-sm"},
    "vectorize-accesses": {"widest": "max-bytes"},
    "vectorize": {"partition-loops": "partition-loops"},
}
VOCABULARY = {"about": "relevant_ops", "settles": "idempotent", "without": "fallback_options", "required": "mandatory_reason"}


def snake(name):
    return name.replace("-", "_")


def camel(name):
    return "".join(p.capitalize() for p in name.split("-"))


CLASSES = {camel(o): camel(n) for o, n in PASSES.items()} | {"EmulateFp32Dots": "EmulateFp32Dots", "SelectWgmmaRs": "SelectWgmmaRs"}
FOLDER = {name: "cpu" if name in ("form-fusion-groups", "elide-packing", "reuse-output-buffer") else "gpu" for name in PASSES}


def specs(t):
    """Options in texts: `name{a=1 b=2}` and `name{a}` (prose), before the names of passes change."""
    old_name = {new: old for old, new in PASSES.items()}
    for name, table in OPTIONS.items():
        before = old_name.get(name, name)
        table_of = dict(table)

        def inner(match):
            text = re.sub(r"(?<![\w-])(" + "|".join(sorted(table_of, key=len, reverse=True)) + r")(?==)", lambda m: table_of[m[1]], match[2])
            return f"{match[1]}{text}{match[3]}"

        t.sub(rf"(?<![\w-])({re.escape(before)}\{{)([^{{}}\n]*=[^{{}}\n]*)(\}})", inner, "*.py *.mlir *.md Makefile", must=False)


def fields(t):
    """The options as fields of their classes, in the pass's own file, and as keywords of calls."""
    old_name = {new: old for old, new in PASSES.items()}
    for name, table in OPTIONS.items():
        before = old_name.get(name, name)
        place = "cpu/" if name in ("lower-dot", "vectorize") else "" if name == "promote-accumulator" else "gpu/"
        file = f"src/tilewright/passes/{place}{snake(before)}.py"
        names = {snake(o): snake(n) for o, n in table.items()}
        text = t.texts.get(file)
        if text is None:
            t.warn(f"no file {file}")
            continue
        start = text.index(f"class {camel(before)}(Pass)")
        end = re.compile(r"^(?:class |def |@dataclass)", re.M).search(text, start + 10)
        stop = end.start() if end else len(text)
        body = text[start:stop]
        for old, new in names.items():
            body, count = re.subn(rf"^(    ){old}(: \w+ = )", rf"\1{new}\2", body, flags=re.M)
            if not count:
                t.warn(f"{file}: no option {old}")
            body = re.sub(rf"\bself\.{old}\b", f"self.{new}", body)
        text = text[:start] + body + text[stop:]
        for old, new in names.items():  # planners hold the pass as `options`; a pass asks another's as `asked`
            text = re.sub(rf"\b(self\.options|options|asked|given)\.{old}\b", rf"\1.{new}", text)
        t.set(file, text)
        t.keywords(camel(before), names)
    # options by the names of passes, in tests
    for name, table in OPTIONS.items():
        before = old_name.get(name, name)
        for old, new in table.items():
            t.sub(rf'("{before}": \{{)"{snake(old)}"(?=:)', rf'\1"{snake(new)}"', "tests/*.py", must=False)
    # options that one pass takes when another does not run
    t.sub(r'"lower-stores-to-tma": \{"parts": False\}', '"lower-stores-to-tma": {"epilogue_subtiles": False}', "src/tilewright/passes/gpu/*.py")
    t.sub(r'"cache-in-shared": \{"keep": False\}', '"cache-in-shared": {"mark_cacheable": False}', "src/tilewright/passes/gpu/*.py")


def names(t):
    table = dict(PASSES)
    pattern = "|".join(table)
    t.sub(rf"(?<![\w-])({pattern})(?![\w-])", lambda m: table[m[1]], "*.py *.mlir *.md *.txt *.toml Makefile scripts/*")
    t.words({camel(o): camel(n) for o, n in PASSES.items()}, "*.py")
    for old, new in PASSES.items():
        folder = FOLDER[old]
        t.move(f"src/tilewright/passes/{folder}/{snake(old)}.py", f"src/tilewright/passes/{folder}/{snake(new)}.py")
        if f"tests/passes/{folder}/{old}.mlir" in t.texts:
            t.move(f"tests/passes/{folder}/{old}.mlir", f"tests/passes/{folder}/{new}.mlir")
    modules = {snake(o): snake(n) for o, n in PASSES.items()}
    t.sub(rf"\b(passes\.(?:gpu|cpu)\.|passes/(?:gpu|cpu)/)({'|'.join(modules)})\b", lambda m: m[1] + modules[m[2]])
    t.sub(rf'(?<=")({"|".join(modules)})(?=")', lambda m: modules[m[1]], "tests/passes/*.py", must=False)
    t.sub(rf"(?<=`)({'|'.join(modules)})(?=\.py`)", lambda m: modules[m[1]], "*.py *.md", must=False)
    for old, new in (("chunk_tiles", "strip_mine_tiles"), ("keep_chunks", "cache_in_shared")):
        t.move(f"tests/passes/test_{old}.py", f"tests/passes/test_{new}.py")
        t.sub(rf"\btest_{old}\b", f"test_{new}", "*.py *.md *.mlir")
    t.sub(r"\bchunk_tiles\b", "strip_mine_tiles", "tests/passes/*.py", must=False)


def vocabulary(t):
    for old, new in VOCABULARY.items():
        t.sub(rf"^(    ){old}(: ClassVar\[)", rf"\1{new}\2", "src/tilewright/passes/*.py tests/*.py", flags=re.M)
        t.sub(rf"\b(current|kind|self|other)\.{old}\b", rf"\1.{new}", "src/tilewright/passes/manager.py scripts/generate_docs.py tests/passes/test_idle_passes.py", must=False)
        t.sub(rf"`Pass\.{old}`", f"`Pass.{new}`", "*.py *.md", must=False)
    t.keywords("Watched", VOCABULARY, "tests/passes/*.py")


def tables(text, width=100):
    passes = "".join(f'    "{o}": "{n}",\n' for o, n in PASSES.items())
    options = ""
    for name, table in OPTIONS.items():
        items = ", ".join(f'"{o}": "{n}"' for o, n in table.items())
        options += f'    "{name}": {{{items}}},\n'
    return text.replace("@PASSES@", passes).replace("@OPTIONS@", options)


RENAMED = tables('''"""Deprecated spellings of passes and of their options: understood for a release, with a warning."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

#: old name → new name
PASSES = {
@PASSES@}
#: new name of a pass → its options, old name → new name
OPTIONS = {
@OPTIONS@}
_SPEC = re.compile(r"\\s*([\\w-]+)\\s*(?:(\\{)(.*)\\})?\\s*", re.DOTALL)
_OPTION = re.compile(r"([A-Za-z_][\\w-]*)(?=\\s*=)")


def current_name(name: str) -> str:
    """The name of a pass now. Warns where `name` is deprecated."""
    new = PASSES.get(name, name)
    if new != name:
        _warn(f"pass {name!r} is now called {new!r}")
    return new


def current_option(pass_name: str, option: str) -> str:
    """The name of an option of the pass `pass_name` now. Warns where `option` is deprecated."""
    new = OPTIONS.get(pass_name, {}).get(option.replace("_", "-"), option)
    if new != option:
        _warn(f"option {option!r} of pass {pass_name!r} is now called {new!r}")
    return new


def current_spec(text: str) -> str:
    """`text`, a pass with or without options in braces, in the present spelling."""
    match = _SPEC.fullmatch(text)
    if match is None:
        return text
    name = current_name(match[1])
    if match[2] is None:
        return name
    options = _OPTION.sub(lambda option: current_option(name, option[1]), match[3])
    return f"{name}{{{options}}}"


def current_specs(texts: Iterable[str]) -> tuple[str, ...]:
    """Each of `texts` in the present spelling."""
    return tuple(current_spec(text) for text in texts)


def _warn(text: str) -> None:
    warnings.warn(f"{text}; the old name will be removed", DeprecationWarning, stacklevel=2)
''')

TEST = '''"""Deprecated spellings of passes, options, fields and command-line options still work, and warn."""

import dataclasses

import pytest

from tilewright.backends.nvidia.pipeline import nvidia_passes
from tilewright.passes import registry, renamed
from tilewright.passes.manager import without_disabled


@pytest.mark.parametrize("old", renamed.PASSES)
def test_every_old_name_of_a_pass_means_the_new_one(old):
    with pytest.warns(DeprecationWarning, match=f"'{old}' is now called"):
        assert registry.lookup(old).name == renamed.PASSES[old]


@pytest.mark.parametrize(
    ("name", "old"), [(name, old) for name, table in renamed.OPTIONS.items() for old in table]
)
def test_every_old_option_means_the_new_one(name, old):
    new = renamed.OPTIONS[name][old].replace("-", "_")
    fields = {f.name: f for f in dataclasses.fields(registry.lookup(name))}
    value = fields[new].default
    text = {True: "false", False: "true"}.get(value, 7) if isinstance(value, bool) else 7
    with pytest.warns(DeprecationWarning, match=f"'{old}' of pass '{name}' is now called"):
        (made,) = registry.parse_pipeline(f"{name}{{{old}={text}}}")
    assert getattr(made, new) != value


def test_passes_are_switched_off_by_their_old_names():
    with pytest.warns(DeprecationWarning, match="now called"):
        old, dropped = without_disabled(nvidia_passes(), ("lower-stores-to-tma", "pipeline-loads{tma=false}"))
    new, also = without_disabled(nvidia_passes(), ("lower-stores-to-tma", "pipeline-loads{tma=false}"))
    assert (old, dropped) == (new, also)


def test_new_names_do_not_warn(recwarn):
    assert renamed.current_specs(("simplify", "swizzle-shared{mode=pad}")) == (
        "simplify", "swizzle-shared{mode=pad}",
    )  # fmt: skip
    assert not [w for w in recwarn if issubclass(w.category, DeprecationWarning)]
'''


def aliases(t):
    (t.root / "src/tilewright/passes/renamed.py").write_text(RENAMED)
    (t.root / "tests/passes/test_renamed.py").write_text(TEST)
    t.edit(
        "src/tilewright/passes/manager.py",
        ("from tilewright.passes.base import Pass\n", "from tilewright.passes.base import Pass\nfrom tilewright.passes.renamed import current_name, current_specs\n"),
        ("    names = {p.name for p in passes}\n    for name in disabled:", "    disabled = current_specs(disabled)\n    names = {p.name for p in passes}\n    for name in disabled:"),
        ('    name, _, count = stop_after.partition(":")\n', '    name, _, count = stop_after.partition(":")\n    name = current_name(name)\n'),
    )
    t.edit(
        "src/tilewright/passes/registry.py",
        ("from tilewright.passes.base import Pass, option_types, read_option, tokenize\n", "from tilewright.passes.base import Pass, option_types, read_option, tokenize\nfrom tilewright.passes.renamed import current_name, current_option\n"),
        ('    module_name = pass_modules().get(name)\n', '    name = current_name(name)\n    module_name = pass_modules().get(name)\n'),
        ('        option = tokens[position].replace("-", "_")\n', '        option = current_option(kind.name, tokens[position]).replace("-", "_")\n'),
    )
    t.edit(
        "src/tilewright/cli/stages.py",
        ("    return [name for name in config.current().disabled_passes if name.partition(\"{\")[0] in names]", "    disabled = current_specs(config.current().disabled_passes)\n    return [name for name in disabled if name.partition(\"{\")[0] in names]"),
        ("    off = [name for name in disabled if name in left or name not in earlier]", "    off = [name for name in current_specs(disabled) if name in left or name not in earlier]"),
    )
    text = t.texts["src/tilewright/cli/stages.py"]
    if "import current_specs" not in text:
        t.set("src/tilewright/cli/stages.py", text.replace("from tilewright.runtime.interface import", "from tilewright.passes.renamed import current_specs\nfrom tilewright.runtime.interface import", 1))
        if "import current_specs" not in t.texts["src/tilewright/cli/stages.py"]:
            t.warn("cli/stages.py: no place for the import of current_specs")


    t.edit("tests/passes/test_layout.py", ('"pipeline", "show"}', '"pipeline", "renamed", "show"}'))


def apply(t):
    specs(t)
    fields(t)
    vocabulary(t)
    names(t)
    aliases(t)
