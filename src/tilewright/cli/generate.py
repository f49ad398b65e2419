"""`tilewright generate`: from a description (MLIR text, Python loops) to IR and machine code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright import config as settings
from tilewright.backends import registry
from tilewright.backends.base import Options
from tilewright.cli.show import View, check_code, present
from tilewright.cli.signature import Signature
from tilewright.cli.stages import trace
from tilewright.errors import LaunchError
from tilewright.generator.config import MatmulConfig
from tilewright.runtime.described import Described, from_mlir, signature_of
from tilewright.runtime.matmul import kernels_of
from tilewright.runtime.matmul_prepare import Prepared


@dataclass(frozen=True)
class Given:
    """What the command line says besides the description."""

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
    """Recognise the contraction at `place`, choose a configuration, run the pipeline, show it."""
    check_code(view, given.target)
    described = load(place, given.function)
    machine = registry.machine(given.target) if given.target else registry.get("cpu").target()
    found = prepared(described, machine, given)
    print(summary(described, found), file=sys.stderr)
    for i, kernel in enumerate(kernels_of(found)):
        types = signature_of(kernel, found)
        options = replace(
            Options(debug=settings.current().debug),
            **(kernel.launch_options() if machine.name != "cpu" else {}),
        )
        signature = Signature(types, dict.fromkeys(types, "given"))
        result = trace(
            kernel, signature, stop_after=stop_after, disabled=disabled, target=machine,
            options=options,
        )  # fmt: skip
        present(result, _numbered(view, i))


def without_view(place: str, given: Given, folder: Path | None, why: bool) -> None:
    """Write the product as files for C programs into `folder`, or say why its tiles were chosen."""
    from tilewright.generator.choice import explain
    from tilewright.runtime.export.matmul import export_matmul

    described = load(place, given.function)
    machine = registry.machine(given.target) if given.target else registry.get("cpu").target()
    found = prepared(described, machine, given)
    p = found.problem
    print(summary(described, found), file=sys.stderr)
    if why:
        print(explain(found.contraction, p.m, p.n, p.k, found.target, p.batches))
    if folder is None:
        return
    # sizes and strides as they are; multiples of 16 where those of the description are
    plain = replace(found.contraction, units=())
    made = export_matmul(
        plain, folder, described.name, sizes=(p.m, p.n, p.k), batch=p.batches, target=found.target,
        config=found.config, aligned=p.n % 16 == 0 and p.k % 16 == 0,
    )  # fmt: skip
    print(f"{made.prototype};\n{made.header}\n{made.code}")


def load(place: str, function: str | None) -> Described:
    """The description that a place on the command line names."""
    if place.endswith(".mlir"):
        return from_mlir(Path(place), function)
    from tilewright.cli.loading import load_place

    module, name = load_place(place)
    name = name or function or ""
    nests = {n: v for n, v in vars(module).items() if isinstance(v, Described)}
    if not name and len(nests) == 1:
        name = next(iter(nests))
    if name not in nests:
        known = f"it has {', '.join(nests)}" if nests else "it has no tilewright.loop_nest"
        raise LaunchError(f"{place} names no description: {known}", help="write FILE.py:NAME")
    return nests[name]


def prepared(described: Described, machine: Any, given: Given) -> Prepared:
    """The contraction for packed arrays of the sizes given, and its configuration."""
    from tilewright import dtypes

    names = [a.name for a in described.description.arguments if a.is_array]
    types = {}
    if given.dtype is not None:
        try:
            kind = dtypes.from_short_name(given.dtype)
        except KeyError:
            raise LaunchError(
                f"there is no dtype {given.dtype}", help="fp16, bf16, fp32 …"
            ) from None
        types = dict.fromkeys(names, kind)
    chosen = described.prepared(machine, types, _assignments(given.sizes))
    if given.config is None:
        return chosen
    # packing that was chosen belongs to the tiles that were
    wanted = _assignments(given.config, strings=("form",))
    changed = chosen.config.with_(panels=None).with_(**wanted)
    return replace(chosen, config=changed)


def _assignments(text: str, strings: Sequence[str] = ()) -> dict[str, Any]:
    """`a=1,b=2` as a mapping."""
    found: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        if name in strings:
            found[name] = value
        elif name in ("persistent", "boxes"):
            found[name] = value.lower() in ("1", "true", "yes")
        elif not equals or not value.isdigit():
            raise LaunchError(f"'{part}' is no NAME=NUMBER")
        else:
            found[name] = int(value)
    unknown = set(found) - set(MatmulConfig.__dataclass_fields__) if strings else set[str]()
    if unknown:
        raise LaunchError(f"MatmulConfig has no field {', '.join(sorted(unknown))}")
    return found


def summary(described: Described, found: Prepared) -> str:
    """What was read, and how it will be computed."""
    p, c = found.problem, found.contraction
    batch = "x".join(map(str, p.batch)) + " x " if p.batch else ""
    orders = ", ".join(f"{name} {o.dtype} {o.order}" for name, o in c.matrices)
    steps = " -> ".join(s.kind for s in c.epilogue)
    lines = [
        f"{described.name} ({described.description.place}): {batch}{p.m} x {p.n} x {p.k}",
        f"  {orders}; sums {c.sums}" + (f"; epilogue {steps}" if steps else ""),
        f"  configuration {found.config.text} for {found.target.name}",
    ]
    return "\n".join(lines)


def _numbered(view: View, number: int) -> View:
    """Files of the second program of a split product get names of their own."""
    if number == 0:
        return view

    def other(path: Path | None) -> Path | None:
        return None if path is None else path.with_name(f"{path.stem}-{number + 1}{path.suffix}")

    return replace(
        view, html=other(view.html), dump=other(view.dump), compile_to=other(view.compile_to)
    )
