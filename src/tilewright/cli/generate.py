"""`tilewright generate`: from a description (MLIR text, Python loops) to IR and machine code."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from tilewright import config as settings
from tilewright import dtypes
from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.cli.loading import load_place
from tilewright.cli.show import View, check_code, present
from tilewright.cli.signature import Signature
from tilewright.cli.stages import trace
from tilewright.errors import LaunchError
from tilewright.generator.choice import explain
from tilewright.generator.config import MatmulConfig
from tilewright.runtime.export.matmul import export_matmul
from tilewright.runtime.matmul import kernels_of
from tilewright.runtime.matmul.described import Described, from_mlir, signature_of
from tilewright.runtime.matmul.prepare import Prepared

_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True)
class Given:
    """Command-line arguments besides the description."""

    function: str | None = None
    target: str | None = None
    sizes: str = ""
    dtype: str | None = None
    config: str | None = None


def generate(
    place: str,
    given: Given,
    view: View,
    *,
    stop_after: str | None = None,
    disabled: Sequence[str] = (),
) -> None:
    """Recognize the contraction at `place`, choose a configuration, run the pipeline, show it."""
    check_code(view, given.target)
    _, found = _prepared(place, given)
    machine = found.target
    for i, kernel in enumerate(kernels_of(found)):
        types = signature_of(kernel, found)
        options = replace(
            Options(debug=settings.current().debug),
            **(kernel.launch_options() if machine.is_gpu else {}),
        )
        signature = Signature(types, dict.fromkeys(types, "given"))
        result = trace(
            kernel, signature, stop_after=stop_after, disabled=[*options.disable, *disabled],
            target=machine, options=options,
        )  # fmt: skip
        present(result, _numbered(view, i))


def without_view(place: str, given: Given, folder: Path | None, why: bool) -> None:
    """Write the matmul as files for C programs into `folder`, or say why its tiles were chosen."""
    described, found = _prepared(place, given)
    p = found.problem
    if why:
        print(explain(found.contraction, p.m, p.n, p.k, found.target, p.batches))
    if folder is None:
        return
    # actual sizes and strides, with divisibility by 16 as in the description
    plain = replace(found.contraction, size_divisors=())
    made = export_matmul(
        plain, folder, described.name, sizes=(p.m, p.n, p.k), batch=p.batches, target=found.target,
        config=found.config, aligned=p.n % 16 == 0 and p.k % 16 == 0,
    )  # fmt: skip
    print(f"{made.prototype};\n{made.header}\n{made.code}")


def load(place: str, function: str | None) -> Described:
    """Load the description that a command-line location names."""
    if place.endswith(".mlir"):
        return from_mlir(Path(place), function)
    module, name = load_place(place)
    name = name or function or ""
    nests = {n: v for n, v in vars(module).items() if isinstance(v, Described)}
    if not name and len(nests) == 1:
        name = next(iter(nests))
    if name not in nests:
        known = f"it has {', '.join(nests)}" if nests else "it has no tilewright.loop_nest"
        raise LaunchError(f"{place} names no description: {known}", help="write FILE.py:NAME")
    return nests[name]


def _prepared(place: str, given: Given) -> tuple[Described, Prepared]:
    """The description, and its contraction for packed arrays of the sizes given with its configuration, which are printed."""
    described = load(place, given.function)
    names = [a.name for a in described.description.arguments if a.is_array]
    types = {}
    if given.dtype is not None:
        try:
            kind = dtypes.from_short_name(given.dtype)
        except KeyError:
            raise LaunchError(f"unknown dtype {given.dtype}", help="fp16, bf16, fp32 …") from None
        types = dict.fromkeys(names, kind)
    machine = registry.machine(given.target or "cpu")
    chosen = described.prepared(machine, types, _assignments(given.sizes))
    if given.config is not None:
        # packing that was chosen belongs to the tiles that were
        changed = chosen.config.with_(prepack=None).with_(**_options(given.config))
        chosen = replace(chosen, config=changed)
    print(summary(described, chosen), file=sys.stderr)
    return described, chosen


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of `a=1,b=2`."""
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = (word.strip() for word in part.partition("="))
        yield name, value


def _assignments(text: str) -> dict[str, int]:
    """`a=1,b=2` as a mapping."""
    return {name: _number(name, value) for name, value in _pairs(text)}


def _number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise LaunchError(f"'{name}={value}' is not NAME=NUMBER")
    return int(value)


def _options(text: str) -> dict[str, Any]:
    """`block_m=128,persistent=true,form=listing1` as fields of `MatmulConfig`."""
    kinds = {f.name: type(f.default) for f in fields(MatmulConfig) if f.name != "prepack"}
    found: dict[str, Any] = {}
    for name, value in _pairs(text):
        kind = kinds.get(name)
        if kind is None:
            raise LaunchError(
                f"MatmulConfig has no field {name} to be given here", help=", ".join(kinds)
            )
        if kind is bool and value.lower() not in _TRUTH:
            raise LaunchError(f"'{name}={value}' is neither {name}=true nor {name}=false")
        found[name] = (
            _TRUTH[value.lower()]
            if kind is bool
            else value
            if kind is str
            else _number(name, value)
        )
    return found


def summary(described: Described, found: Prepared) -> str:
    """Summarize the recognized contraction and its configuration."""
    p, c = found.problem, found.contraction
    batch = "x".join(map(str, p.batch)) + " x " if p.batch else ""
    orders = ", ".join(f"{name} {o.dtype} {o.order}" for name, o in c.matrices)
    steps = " -> ".join(s.kind for s in c.epilogue)
    lines = [
        f"{described.name} ({described.description.place}): {batch}{p.m} x {p.n} x {p.k}",
        f"  {orders}; accumulator {c.accumulator_type}" + (f"; epilogue {steps}" if steps else ""),
        f"  configuration {found.config.text} for {found.target.name}",
    ]
    return "\n".join(lines)


def _numbered(view: View, number: int) -> View:
    """Files of the second program of a split matmul get names of their own."""
    if number == 0:
        return view

    def other(path: Path | None) -> Path | None:
        return None if path is None else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")

    return replace(
        view, html=other(view.html), dump=other(view.dump), compile_to=other(view.compile_to)
    )
