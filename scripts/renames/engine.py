"""Editing a worktree by tables: words, attributes, patterns, exact places, files."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import sys
from pathlib import Path

#: never touched: measured results, the documents' programs, data that must stay readable
FROZEN = ("benchmarks/results/*", "examples/seeds/*", "src/tilewright/generator/tuned/*")
TEXT = (".py", ".md", ".mlir", ".tile", ".txt", ".toml", ".jinja", "Makefile", ".json")


class Tree:
    def __init__(self, root: Path, frozen: tuple[str, ...] = FROZEN) -> None:
        self.root, self.frozen = root, frozen
        self.warnings: list[str] = []
        self.texts: dict[str, str] = {}
        self.dirty: set[str] = set()
        self.load()

    def git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["git", "-C", str(self.root), *arguments], capture_output=True, text=True)
        if check and done.returncode:
            raise SystemExit(f"git {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def load(self) -> None:
        self.texts.clear()
        self.dirty.clear()
        for name in self.git("ls-files").splitlines():
            frozen = any(fnmatch.fnmatch(name, pattern) for pattern in self.frozen)
            if name.endswith(TEXT) and not frozen and (self.root / name).is_file():
                self.texts[name] = (self.root / name).read_text(encoding="utf-8")

    def save(self) -> list[str]:
        """Write changed files; their names."""
        for name in self.dirty:
            (self.root / name).write_text(self.texts[name], encoding="utf-8")
        changed = sorted(self.dirty)
        self.dirty.clear()
        return changed

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        print(f"  ! {text}", file=sys.stderr)

    def files(self, globs: str | tuple[str, ...] = "*", but: str | tuple[str, ...] = ()) -> list[str]:
        """Names that match one of the globs (`*` crosses folders)."""
        wanted = globs.split() if isinstance(globs, str) else globs
        without = but.split() if isinstance(but, str) else but
        return [
            n for n in self.texts
            if any(fnmatch.fnmatch(n, g) for g in wanted) and not any(fnmatch.fnmatch(n, g) for g in without)
        ]

    def set(self, name: str, text: str) -> None:
        if text != self.texts[name]:
            self.texts[name] = text
            self.dirty.add(name)

    def sub(self, pattern: str, repl, globs="*", but=(), must=True, flags=0) -> int:
        """Replace a pattern; the number of places."""
        compiled, total = re.compile(pattern, flags), 0
        for name in self.files(globs, but):
            text, count = compiled.subn(repl, self.texts[name])
            total += count
            if count:
                self.set(name, text)
        if must and not total:
            self.warn(f"nothing matches {pattern!r} in {globs!r}")
        return total

    def words(self, table: dict[str, str], globs="*", but=(), must=True) -> None:
        """Whole words, everywhere in a file (code, strings, comments)."""
        pattern = re.compile(r"(?<![\w])(" + "|".join(map(re.escape, sorted(table, key=len, reverse=True))) + r")(?!\w)")
        seen: set[str] = set()

        def put(match: re.Match[str]) -> str:
            seen.add(match[1])
            return table[match[1]]

        for name in self.files(globs, but):
            self.set(name, pattern.sub(put, self.texts[name]))
        if must:
            for word in table:
                if word not in seen:
                    self.warn(f"no word {word!r} in {globs!r}")

    def attrs(self, table: dict[str, str], globs, but=(), owner: str = r"[\w\])]", must=True) -> None:
        """`owner.name` and keyword `name=` are different things: only the former."""
        for old, new in table.items():
            self.sub(rf"(?<={owner})\.{old}\b(?!\()" if owner.startswith("[") else rf"\b({owner})\.{old}\b",
                     f".{new}" if owner.startswith("[") else rf"\1.{new}", globs, but, must)

    def keywords(self, callee: str, table: dict[str, str], globs="*.py", must=False) -> None:
        """`callee(... name=value ...)`: keyword names, in calls that may span lines."""
        for file in self.files(globs):
            text = self.texts[file]
            if not re.search(rf"\b(?:{callee})\(", text):
                continue
            pieces, last = [], 0
            for match in re.finditer(rf"\b(?:{callee})\(", text):
                if match.end() < last:
                    continue
                depth, at = 1, match.end()
                while depth and at < len(text):
                    depth += (text[at] in "([{") - (text[at] in ")]}")
                    at += 1
                inner = text[match.end():at]
                for old, new in table.items():
                    inner = re.sub(rf"(?<![\w.]){old}=(?!=)", f"{new}=", inner)
                pieces += [text[last:match.end()], inner]
                last = at
            self.set(file, "".join([*pieces, text[last:]]))

    def edit(self, name: str, *pairs: tuple[str, str], must=True) -> None:
        """Exact text in one file."""
        if name not in self.texts:
            self.warn(f"no file {name}")
            return
        for old, new in pairs:
            if old not in self.texts[name]:
                if must and new not in self.texts[name]:
                    self.warn(f"{name}: no {old!r}")
                continue
            self.set(name, self.texts[name].replace(old, new))

    def move(self, old: str, new: str) -> None:
        """`git mv`; texts are saved first."""
        self.save()
        if not (self.root / old).exists():
            if not (self.root / new).exists():
                self.warn(f"no file {old}")
            return
        self.git("mv", old, new)
        if old in self.texts:
            self.texts[new] = self.texts.pop(old)
            self.texts = dict(sorted(self.texts.items()))


import ast


def symbols(t: Tree, table: dict[str, dict[str, str]], verify: bool = True) -> None:
    """Rename names of modules: {module: {old: new}}, in the module, where they are imported, and as `module.name`.

    Only names that refer to the module's are touched: a parameter or local variable of the same name in a function is
    reported and left alone with its function.
    """
    origin = {f"{m}.{old}": new for m, names in table.items() for old, new in names.items()}
    mentioned = {old for names in table.values() for old in names}
    seen: set[str] = set()
    for name in [n for n in t.texts if n.endswith(".py")]:
        text = t.texts[name]
        if not any(old in text for old in mentioned):
            continue
        module = name.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        tree = ast.parse(text)
        local: dict[str, str] = {}
        modules: dict[str, str] = {}
        places: set[tuple[int, int, str, str]] = set()
        for old, new in table.get(module, {}).items():
            local[old] = new
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    if full in origin:
                        seen.add(full)
                        places.add((alias.lineno, alias.col_offset, alias.name, origin[full]))
                        if alias.asname is None or alias.asname == alias.name:
                            local[alias.name] = origin[full]
                            if alias.asname:
                                line = text.splitlines()[alias.lineno - 1]
                                places.add((alias.lineno, line.index(f" as {alias.asname}", alias.col_offset) + 4, alias.name, origin[full]))
                    elif full in table:
                        modules[alias.asname or alias.name] = full
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in table:
                        modules[alias.asname or alias.name] = alias.name
        if not local and not modules:
            continue
        _uses(t, name, tree, text, local, modules, origin, places)
        lines = text.splitlines(keepends=True)
        for line, column, old, new in sorted(places, reverse=True):
            raw = lines[line - 1].encode()
            if raw[column:column + len(old)].decode(errors="replace") != old:
                t.warn(f"{name}:{line}: no {old} at {column}")
                continue
            lines[line - 1] = (raw[:column] + new.encode() + raw[column + len(old):]).decode()
        text = "".join(lines)
        if local:  # `name` in docstrings and comments, names in __all__
            either = "|".join(map(re.escape, local))
            text = re.sub(rf"(?<=`)({either})(?=[`(])", lambda m: local[m[1]], text)
        t.set(name, text)
    for module, names in table.items() if verify else ():
        path = module.replace(".", "/")
        if not any(n in t.texts for n in (f"src/{path}.py", f"{path}.py", f"src/{path}/__init__.py")):
            t.warn(f"no module {module}")
            continue
        for old in names:
            file = next(n for n in (f"src/{path}.py", f"{path}.py", f"src/{path}/__init__.py") if n in t.texts)
            if re.search(rf"^(?:def|class) {old}\b|^{old}\b.*=", t.texts[file], re.M):
                t.warn(f"{module}.{old} is still there")
            elif not re.search(rf"^(?:def|class) {names[old]}\b|^{names[old]}\b", t.texts[file], re.M):
                t.warn(f"{module} has no {old}")


def _bound(function: ast.AST) -> set[str]:
    """Names that a function binds itself (parameters, assignments, loops)."""
    found: set[str] = set()
    arguments = function.args
    for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if a is not None:
            found.add(a.arg)
    pending = list(function.body) if isinstance(function.body, list) else [function.body]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            found.add(node.id)
        pending.extend(ast.iter_child_nodes(node))
    return found


def _uses(t, name, tree, text, local, modules, origin, places) -> None:
    lines = text.splitlines()

    def definition(node):
        """The column of the name behind `def` or `class`."""
        keyword = "class" if isinstance(node, ast.ClassDef) else "def"
        line = lines[node.lineno - 1]
        at = line.index(f"{keyword} ", node.col_offset) + len(keyword) + 1
        return node.lineno, len(line[:at].encode())

    def visit(node, hidden, top):
        for child in ast.iter_child_nodes(node):
            inside = hidden
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                inside = hidden | (_bound(child) & (set(local) | set(modules)))
            if top and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and child.name in local:
                line, column = definition(child)
                places.add((line, column, child.name, local[child.name]))
            if isinstance(child, ast.Name) and child.id in local and child.id not in inside:
                places.add((child.lineno, child.col_offset, child.id, local[child.id]))
            elif isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
                owner = child.value.id
                if owner in modules and owner not in inside:
                    new = origin.get(f"{modules[owner]}.{child.attr}")
                    if new is not None:
                        column = child.value.end_col_offset + 1
                        if child.end_lineno == child.value.end_lineno:
                            places.add((child.lineno, column, child.attr, new))
            # annotations in quotes
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value in local and _is_annotation(node):
                places.add((child.lineno, child.col_offset + 1, child.value, local[child.value]))
            defaults = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            if defaults:  # decorators, defaults and annotations are evaluated outside
                for part in (*child.decorator_list, *child.args.defaults, *[d for d in child.args.kw_defaults if d], *([child.returns] if child.returns else []),
                             *[a.annotation for a in (*child.args.posonlyargs, *child.args.args, *child.args.kwonlyargs) if a.annotation]):
                    holder = ast.Expr(part)
                    visit(holder, hidden, False)
                for part in child.body:
                    visit(ast.Module([part], []), inside, False)
                continue
            visit(child, inside, top and isinstance(child, (ast.If, ast.Try)))

    visit(tree, set(), True)


def _is_annotation(node) -> bool:
    return isinstance(node, (ast.arg, ast.AnnAssign, ast.Subscript, ast.BinOp))
