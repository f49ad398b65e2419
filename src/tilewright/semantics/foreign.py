"""`inline_asm_elementwise` and `extern_elementwise`: PTX in the kernel's text, and functions of bitcode libraries."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright import dtypes as t
from tilewright.dtypes import unwrap_constexpr
from tilewright.errors import KernelTypeError
from tilewright.semantics.libdevice import Libdevice
from tilewright.semantics.values import TensorValue, describe

#: bits of the PTX register that a constraint letter asks for (LLVM language reference, NVPTX)
REGISTER_BITS = {"b": 1, "h": 16, "r": 32, "l": 64, "f": 32, "d": 64}

_IMMEDIATES = frozenset(("n", "i"))
"""Constraints of integers that are part of the text."""
_OPERAND = re.compile(r"\$(\$|(\d+)|\{(\d+)\}|\{[^}]*\}?|.?)", re.DOTALL)


def registers(kind: t.dtype, pack: int) -> tuple[int, int]:
    """`(registers, elements in each)` that `pack` elements take: small ones share 32 bits."""
    width = 64 if kind.is_ptr() else max(8, kind.primitive_bitwidth)
    each = min(max(1, 32 // width), pack)
    return pack // each, each


class Foreign(Libdevice):
    """`inline_asm_elementwise` and `extern_elementwise`."""

    def inline_asm_elementwise(
        self, asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any = True, pack: Any = 1
    ) -> Any:
        what = "tl.inline_asm_elementwise"
        text, letters = unwrap_constexpr(asm), unwrap_constexpr(constraints)
        size, pure = unwrap_constexpr(pack), bool(unwrap_constexpr(is_pure))
        if not isinstance(text, str) or not isinstance(letters, str):
            raise KernelTypeError(f"{what}: asm and constraints are texts")
        if not isinstance(size, int) or size < 1 or size & (size - 1):
            raise KernelTypeError(f"{what}: pack={size!r} is not a power of two")
        kinds = unwrap_constexpr(dtype)
        several = isinstance(kinds, (tuple, list))
        results = [unwrap_constexpr(k) for k in kinds] if several else [kinds]
        for kind in results:
            if not isinstance(kind, t.dtype):
                raise KernelTypeError(f"{what}: {describe(kind)} is not a dtype")
        values = [self.to_tensor(v) for v in unwrap_constexpr(args)]
        kept, text, letters = _with_immediates(text, letters, unwrap_constexpr(args), values, size)
        values = self.broadcast_all(kept, what) if kept else []
        _check_operands(text, _check_constraints(letters, results, [v.dtype for v in values], size))
        shape = values[0].shape if values else ()
        types = tuple(kind.with_shape(shape) for kind in results)
        handles = self.builder.op(
            "tile.inline_asm", [v.handle for v in values], types, asm=text, constraints=letters,
            pack=size, pure=pure,
        )  # fmt: skip
        made = tuple(TensorValue(h, k, self) for h, k in zip(handles, types, strict=True))
        return made if several else made[0]

    def extern_elementwise(
        self,
        lib_name: Any,
        lib_path: Any,
        args: Any,
        arg_type_symbol_dict: Any,
        is_pure: Any = True,
    ) -> TensorValue:
        what = "tl.extern_elementwise"
        args, table = unwrap_constexpr(args), unwrap_constexpr(arg_type_symbol_dict)
        if not isinstance(args, tuple | list) or not isinstance(table, Mapping):
            raise KernelTypeError(
                f"{what}: args must be a list of operands and arg_type_symbol_dict a dict,"
                f" got {describe(args)} and {describe(table)}"
            )
        values = self.broadcast_all([self.to_tensor(v) for v in args], what)
        given = tuple(v.dtype for v in values)
        found = next((v for k, v in table.items() if _same_types(k, given)), None)
        if found is None:
            listed = "; ".join(", ".join(map(str, key)) for key in table)
            raise KernelTypeError(
                f"{what}: no function for ({', '.join(map(str, given))})",
                help=f"the table is for {listed}: convert the arguments with .to",
            )
        symbol, result = (unwrap_constexpr(v) for v in found)
        function = self._libdevice_function(symbol)
        if function is None:
            raise KernelTypeError(
                f"{what}: '{symbol}' of {unwrap_constexpr(lib_name) or 'a library'} is not known",
                help="functions of libdevice (__nv_*) are, as far as tl.extra.libdevice has them",
            )
        wanted = len(inspect.signature(function).parameters)
        if len(values) != wanted:
            raise KernelTypeError(f"{what}: '{symbol}' takes {wanted} arguments, got {len(values)}")
        return self.convert(function(*values), unwrap_constexpr(result))

    def _libdevice_function(self, symbol: Any) -> Any:
        """The method for a symbol such as "__nv_asinf": with or without the f of single precision."""
        if not isinstance(symbol, str) or not symbol.startswith("__nv_"):
            return None
        name = symbol.removeprefix("__nv_")
        for each in (name, name.removesuffix("f")):
            found = getattr(self, f"libdevice_{each}", None)
            if found is not None:
                return found
        return None


def _same_types(key: Any, given: Sequence[t.dtype]) -> bool:
    kinds = unwrap_constexpr(key)
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return tuple(unwrap_constexpr(k) for k in kinds) == tuple(given)


def _with_immediates(
    text: str, letters: str, given: Sequence[Any], values: Sequence[TensorValue], pack: int
) -> tuple[list[TensorValue], str, str]:
    """The arguments in registers, and the text and constraints for these: integers whose constraint is "n" or "i" are put into
    the text. Raises KernelTypeError for those that are known at run time only."""
    parts = [part.strip() for part in letters.split(",")]
    if not _IMMEDIATES.intersection(parts):
        return list(values), text, letters
    place = next((i for i, part in enumerate(parts) if not part.startswith("=")), len(parts))
    literals: dict[int, int] = {}
    kept: list[TensorValue] = []
    for argument, value in zip(given, values, strict=True):
        count, _ = registers(value.dtype, pack)
        number = unwrap_constexpr(argument)
        if not _IMMEDIATES.intersection(parts[place : place + count]):
            kept.append(value)
        elif isinstance(number, int):
            literals.update(dict.fromkeys(range(place, place + count), int(number)))
        else:
            raise KernelTypeError(
                f"tl.inline_asm_elementwise: the constraint '{parts[place]}' takes an integer that is known when the "
                f"kernel is compiled, got {describe(argument)}",
                help="pass a number or a tl.constexpr, or take the constraint r",
            )
        place += count
    numbers = [i for i in range(len(parts)) if i not in literals]
    names = {i: f"${n}" for n, i in enumerate(numbers)} | {i: str(v) for i, v in literals.items()}

    def renamed(found: re.Match[str]) -> str:
        number = found[2] or found[3]
        return names.get(int(number), found[0]) if number else found[0]

    return kept, _OPERAND.sub(renamed, text), ",".join(parts[i] for i in numbers)


def _check_constraints(
    text: str, results: Sequence[t.dtype], arguments: Sequence[t.dtype], pack: int
) -> int:
    """The number of registers in the constraints. Raises KernelTypeError unless the values take these."""
    what = "tl.inline_asm_elementwise"
    parts = [part.strip() for part in text.split(",") if part.strip()]
    parts = [part for part in parts if not part.startswith("~{")]
    outputs = [part.lstrip("=&") for part in parts if part.startswith("=")]
    inputs = [part for part in parts if not part.startswith("=")]
    for group, kinds, name in ((outputs, results, "results"), (inputs, arguments, "arguments")):
        wanted = [(k, each) for k in kinds for n, each in [registers(k, pack)] for _ in range(n)]
        if len(group) != len(wanted):
            raise KernelTypeError(
                f"{what}: the constraints '{text}' are for {len(group)} registers of {name}, and "
                f"there are {len(wanted)}",
                help=f"pack={pack}: values of less than 32 bits share a register",
            )
        for letter, (kind, each) in zip(group, wanted, strict=True):
            bits = each * (64 if kind.is_ptr() else max(8, kind.primitive_bitwidth))
            tied = letter.isdigit() and int(letter) < len(outputs)
            room = REGISTER_BITS.get(outputs[int(letter)] if tied else letter)
            if room is None:
                raise KernelTypeError(
                    f"{what}: the constraint '{letter}' is not one of PTX",
                    help="h, r, l are 16, 32 and 64 bits, f and d floats, n an integer, = before a result's",
                )
            exact = letter in ("f", "d")
            if bits > room or (exact and bits != room):
                raise KernelTypeError(
                    f"{what}: '{letter}' is a register of {room} bits, and {each} x {kind} takes "
                    f"{bits}"
                )
    return len(outputs) + len(inputs)


def _check_operands(text: str, count: int) -> None:
    """Raise KernelTypeError for a `$` that LLVM would end the process for."""
    for written, plain, braced in _OPERAND.findall(text):
        number = plain or braced
        if written != "$" and (not number or int(number) >= count):
            raise KernelTypeError(
                f"tl.inline_asm_elementwise: '${written}' in the text is not an operand",
                help=f"$0 to ${count - 1} are those of the constraints, and $$ is a dollar sign"
                if count
                else "there is none: the constraints are empty ($$ is a dollar sign)",
            )


__all__ = ["Foreign", "registers"]
