"""The C function that an exported kernel becomes: its parameters, its error codes, its header."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.backends.base import Argument, LaunchPlan, TargetInfo
from tilewright.dtypes import constexpr
from tilewright.errors import LaunchError
from tilewright.runtime.export import grids

#: what the C function returns: 0, these, or one of the sums below
BAD_GRID, OUT_OF_MEMORY = 1, 2
#: + index of the parameter: it is no multiple of what the kernel was compiled for
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
#: words that cannot name a parameter: C's, and those of the launcher itself
_C_WORDS = frozenset((
    "auto", "case", "char", "const", "default", "do", "double", "enum", "extern", "float", "goto",
    "inline", "int", "long", "register", "restrict", "short", "signed", "sizeof", "static",
    "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "bool", "true",
    "false", "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t",
    "uint64_t", "CUstream", "main", "gx", "gy", "gz", "code", "failed", "result", "maps", "fault",
    "params", "config", "cluster", "capturing", "site", "here", "encode",
))  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """A parameter of the C function. `argument` is the kernel's, None for the host's own."""

    name: str
    c_type: str
    says: str
    argument: Argument | None = None


@dataclass(frozen=True)
class Interface:
    """The C function of a kernel for a target.

    `grid` computes the grid from the arguments; without one its extents are parameters.
    """

    name: str
    plan: LaunchPlan
    target: TargetInfo
    arguments: tuple[Parameter, ...]
    grid: tuple[grids.Node, ...] | None
    constants: tuple[tuple[str, str], ...]
    sizes: tuple[str, ...] = ()
    """Integers that only the grid needs: parameters after the kernel's."""

    @property
    def gpu(self) -> bool:
        return self.target.name != "cpu"

    @functools.cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """All parameters of the C function, in order."""
        taken = {p.name for p in self.arguments}
        more = [Parameter(_free(n, taken), "int64_t", "for the grid") for n in self.sizes]
        if self.grid is None:
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

    @property
    def extents(self) -> tuple[grids.Node, grids.Node, grids.Node]:
        """The grid: expressions of arguments, or the parameters that hold it."""
        if self.grid is None:
            start = len(self.arguments) + len(self.sizes)
            x, y, z = (grids.Name(p.name) for p in self.parameters[start : start + 3])
            return x, y, z
        one = grids.Number(1)
        x, y, z = (*self.grid, one, one)[:3]
        return x, y, z

    @property
    def prototype(self) -> str:
        """The declaration, without semicolon."""
        listed = ", ".join(
            f"{p.c_type}{'' if p.c_type.endswith('*') else ' '}{p.name}" for p in self.parameters
        )
        return f"int {self.name}({listed})"


def interface_of(
    plan: LaunchPlan,
    target: TargetInfo,
    name: str,
    grid: Sequence[str | int] | None,
    signature: Mapping[str, Any],
    sizes: Sequence[str] = (),
) -> Interface:
    """The C function called `name` for a compiled kernel.

    `grid` gives expressions (`grids.parse_grid`), `signature` the kernel's parameter types, of which
    constexprs matter, `sizes` integers besides the kernel's that the grid names. Raises LaunchError for a name or a grid that cannot be.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in _C_WORDS:
        raise LaunchError(f"'{name}' cannot be the name of a C function")
    values = {n: _constant(item) for n, item in signature.items()}
    known = {n: v for n, v in values.items() if v is not _NOTHING}
    taken: set[str] = {name}
    arguments = tuple(_parameter(a, i, taken) for i, a in enumerate(plan.arguments))
    parsed = None
    twice = taken.intersection(sizes)
    if twice:
        raise LaunchError(f"the kernel has a parameter {', '.join(sorted(twice))} already")
    if grid is not None:
        integers = [*(a.name for a in plan.arguments if a.kind in ("int", "uint")), *sizes]
        renamed = {a.name: p.name for a, p in zip(plan.arguments, arguments, strict=True)}
        renamed |= {size: size for size in sizes}
        parsed = tuple(_renamed(e, renamed) for e in grids.parse_grid(grid, known, integers))
    listed = tuple((n, _value_text(v)) for n, v in known.items())
    return Interface(name, plan, target, arguments, parsed, listed, tuple(sizes))


_NOTHING = object()


def _constant(item: Any) -> Any:
    kind = getattr(item, "type", None)
    return kind.value if isinstance(kind, constexpr) else _NOTHING


def _value_text(value: Any) -> str:
    """A constexpr's value for people."""
    text = getattr(getattr(value, "fn", None), "__name__", "") or repr(value)
    return " ".join(text.split())[:200]


def _renamed(node: grids.Node, names: Mapping[str, str]) -> grids.Node:
    if isinstance(node, grids.Name):
        return grids.Name(names[node.name])
    if isinstance(node, grids.Operation):
        return grids.Operation(node.kind, _renamed(node.left, names), _renamed(node.right, names))
    return node


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


def asserts_of(plan: LaunchPlan) -> list[str]:
    """What each failing `device_assert` says, as the inside of a C string."""
    texts = []
    for site in plan.asserts:
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
        plan=interface.plan,
        constants=[(n, v.replace("*/", "* /")) for n, v in interface.constants],
        asserts=asserts_of(interface.plan),
        grid=[grids.formula(e) for e in interface.grid] if interface.grid else None,
    )


def render(template: str, **values: Any) -> str:
    """One of the C templates beside this file, filled in."""
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
