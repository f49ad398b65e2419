"""The C function that an exported kernel becomes: its parameters, its error codes, its header."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.backends.base import Argument, Artifact, LaunchPlan
from tilewright.dtypes import constexpr
from tilewright.errors import LaunchError
from tilewright.runtime.compiled import CompiledKernel
from tilewright.runtime.export.grids import parse_grid
from tilewright.targets import TargetInfo

#: results of the C function: 0, these, or one of the offsets below plus an index
BAD_GRID, OUT_OF_MEMORY = 1, 2
#: + index of a parameter that violates the divisibility the kernel was compiled for
NOT_A_MULTIPLE = 100
#: + which `device_assert`
ASSERT_FAILED = 1000
#: + CUresult
CUDA_ERROR = 100_000

_C_TYPES = {
    "i1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "fp32": "float", "fp64": "double",
    "fp16": "uint16_t", "bf16": "uint16_t", "fp8e4nv": "uint8_t", "fp8e5": "uint8_t",
}  # fmt: skip
#: identifiers that cannot name a parameter: C keywords and the launcher's own names
_C_WORDS = frozenset((
    "auto", "case", "char", "const", "default", "do", "double", "enum", "extern", "float", "goto",
    "inline", "int", "long", "register", "restrict", "short", "signed", "sizeof", "static",
    "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "bool", "true",
    "false", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
    "uint64_t", "CUstream", "main", "gx", "gy", "gz", "code", "failed", "result", "maps", "fault",
    "params", "config", "cluster", "capturing", "site", "here", "encode", "extents", "memory", "done",
))  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """A parameter of the C function. `argument` is the kernel's, None for the host's own."""

    name: str
    c_type: str
    says: str
    argument: Argument | None = None


@dataclass(frozen=True)
class Part:
    """A kernel that a C function launches, and its grid: expressions, or None if the caller passes it."""

    compiled: CompiledKernel
    grid: Sequence[str | int] | None


@dataclass(frozen=True)
class Workspace:
    """Memory that the C function has while it runs; `size` in bytes. Starts on a cache line."""

    name: str
    size: str


@dataclass(frozen=True)
class Launch:
    """One kernel of the C function: the C names of its arguments, its grid, the number of its first assertion."""

    artifact: Artifact
    arguments: tuple[str, ...]
    grid: tuple[str, ...] | None
    first_assert: int

    @property
    def plan(self) -> LaunchPlan:
        return self.artifact.plan


@dataclass(frozen=True)
class Interface:
    """The C function of kernels for a target, which are launched in order.

    Grids are computed from the arguments; a kernel without one (it is the only one then) makes its extents
    parameters.
    """

    name: str
    target: TargetInfo
    arguments: tuple[Parameter, ...]
    launches: tuple[Launch, ...]
    constants: tuple[tuple[str, str], ...]
    sizes: tuple[str, ...] = ()
    """Integers that only grids need: parameters after the kernels'."""
    workspaces: tuple[Workspace, ...] = ()

    @property
    def gpu(self) -> bool:
        return self.target.is_gpu

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters of the C function, in order."""
        taken = {p.name for p in self.arguments} | {w.name for w in self.workspaces}
        more = [Parameter(_free(n, taken), "int64_t", "for the grid") for n in self.sizes]
        if self.launches[0].grid is None:
            more += [
                Parameter(_free(f"grid_{axis}", taken), "int64_t", f"programs along {axis}")
                for axis in "xyz"
            ]
        if self.gpu:
            more.append(Parameter(_free("stream", taken), "CUstream", "NULL: the default stream"))
        else:
            says = "threads to use; 1: the caller's only, 0: one for each core"
            more.append(Parameter(_free("threads", taken), "int", says))
        return (*self.arguments, *more)

    def extents(self, launch: Launch) -> tuple[str, str, str]:
        """A kernel's grid: expressions of arguments, or the parameters that hold it."""
        if launch.grid is None:
            start = len(self.arguments) + len(self.sizes)
            x, y, z = (p.name for p in self.parameters[start : start + 3])
            return x, y, z
        x, y, z = (*launch.grid, "1", "1")[:3]
        return x, y, z

    @property
    def prototype(self) -> str:
        """The declaration, without semicolon."""
        listed = ", ".join(
            f"{p.c_type}{'' if p.c_type.endswith('*') else ' '}{p.name}" for p in self.parameters
        )
        return f"int {self.name}({listed})"


def interface_of(
    parts: Sequence[Part],
    name: str,
    sizes: Sequence[str] = (),
    workspaces: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
) -> Interface:
    """Build the interface of the C function `name`, which launches `parts` in order.

    Arguments with the same name share a parameter. Those named in `workspaces` are no parameters but memory
    whose size in bytes the expression gives. `sizes`: further integers that grids use. `order`: names of the
    leading parameters. Raises LaunchError for an invalid name or grid.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _C_WORDS:
        raise LaunchError(f"'{name}' cannot be the name of a C function")
    made = workspaces or {}
    known: dict[str, Any] = {}
    for part in parts:
        values = {n: _constant(item) for n, item in part.compiled.signature.items()}
        known |= {n: v for n, v in values.items() if v is not _NOTHING}
    merged = _merged(a for part in parts for a in part.compiled.plan.arguments)
    listed = [a for a in merged if a.name not in made]
    if order:
        place = {each: i for i, each in enumerate(order)}
        listed.sort(key=lambda a: place.get(a.name, len(place)))
    taken: set[str] = {name}
    arguments = tuple(_parameter(a, i, taken) for i, a in enumerate(listed))
    twice = taken.intersection(sizes)
    if twice:
        raise LaunchError(f"the kernel has a parameter {', '.join(sorted(twice))} already")
    renamed = {a.name: p.name for a, p in zip(listed, arguments, strict=True)}
    integers = {a.name: renamed[a.name] for a in listed if a.kind in ("int", "uint")}
    parsed = functools.partial(
        parse_grid, constants=known, integers=integers | {size: size for size in sizes}
    )
    memory = {each: _free(each, taken) for each in made}
    launches: list[Launch] = []
    asserts = 0
    for part in parts:
        plan = part.compiled.plan
        names = tuple((renamed | memory)[a.name] for a in plan.arguments)
        grid = None if part.grid is None else parsed(part.grid)
        launches.append(Launch(part.compiled.artifact, names, grid, asserts))
        asserts += len(plan.asserts)
    return Interface(
        name,
        parts[0].compiled.target,
        arguments,
        tuple(launches),
        tuple((n, _value_text(v)) for n, v in known.items()),
        tuple(sizes),
        tuple(Workspace(memory[each], parsed([size])[0]) for each, size in made.items()),
    )


def _merged(arguments: Iterable[Argument]) -> list[Argument]:
    """Merge arguments by name: written if any kernel writes, with the strictest divisibility of all kernels."""
    found: dict[str, Argument] = {}
    for a in arguments:
        before = found.get(a.name, a)
        found[a.name] = replace(
            before,
            written=a.written or before.written,
            divisible=max(a.divisible, before.divisible),
        )
    return list(found.values())


_NOTHING = object()


def _constant(item: Any) -> Any:
    kind = getattr(item, "type", None)
    return kind.value if isinstance(kind, constexpr) else _NOTHING


def _value_text(value: Any) -> str:
    """A constexpr's value for people."""
    text = getattr(getattr(value, "fn", None), "__name__", "") or repr(value)
    return " ".join(text.split())[:200]


def _free(name: str, taken: set[str]) -> str:
    while name in taken or name in _C_WORDS:
        name += "_"
    taken.add(name)
    return name


def _parameter(argument: Argument, index: int, taken: set[str]) -> Parameter:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", argument.name)
    name = _free(plain if plain[:1].isalpha() else f"argument{index}", taken)
    says = argument.type
    if argument.divisible > 1:
        what = "aligned to" if argument.kind == "pointer" else "a multiple of"
        says += f", {what} {argument.divisible}{' bytes' if argument.kind == 'pointer' else ''}"
    if argument.kind != "pointer":
        return Parameter(name, _C_TYPES[argument.type], says, argument)
    element = argument.type.removeprefix("*").removeprefix("k")
    says += ", written" if argument.written else ", only read"
    held = _C_TYPES.get(element, "void")
    return Parameter(name, f"{'' if argument.written else 'const '}{held} *", says, argument)


def asserts_of(interface: Interface) -> list[str]:
    """The messages of `device_assert`s, escaped for C string literals."""
    texts = []
    for site in (site for launch in interface.launches for site in launch.plan.asserts):
        where = f"{Path(site.file).name}:{site.line}: " if site.file else ""
        texts.append(c_string(f"{where}device_assert failed: {site.message}"))
    return texts


def c_string(text: str) -> str:
    """`text` as the inside of a C string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(ch if 32 <= ord(ch) < 127 else f"\\{ord(ch) & 255:03o}" for ch in escaped)


def header_of(interface: Interface) -> str:
    """The C header."""
    return render(
        "header.h.jinja",
        f=interface,
        constants=[(n, v.replace("*/", "* /")) for n, v in interface.constants],
        asserts=asserts_of(interface),
        kernels=", ".join(launch.plan.name for launch in interface.launches),
        grids=[
            _formula(" x ".join(launch.grid))
            for launch in interface.launches
            if launch.grid is not None
        ],
        memory=[_formula(w.size) for w in interface.workspaces],
    )


def _formula(expression: str) -> str:
    """A grid as readers of C write it."""
    return expression.replace("//", "/")


def render(template: str, **values: Any) -> str:
    """Render a C template from this folder."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    codes = {
        "BAD_GRID": BAD_GRID, "OUT_OF_MEMORY": OUT_OF_MEMORY, "NOT_A_MULTIPLE": NOT_A_MULTIPLE,
        "ASSERT_FAILED": ASSERT_FAILED, "CUDA_ERROR": CUDA_ERROR,
    }  # fmt: skip
    return environment.get_template(template).render(**codes, **values)
