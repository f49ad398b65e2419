"""The kernel line of a machine instruction, for reports of faults.

Kernels are compiled without debug information, which would cost time and space in every one. When a fault is to be
reported the kernel is compiled again with it: the same code comes out (which is compared), and a line table.
"""

from __future__ import annotations

import struct
from typing import Any

from llvmlite import binding, ir
from xdsl.ir import Operation

from tilewright.backends.cpu.target import machine
from tilewright.backends.llvm.types import I32
from tilewright.errors import SourceLocation
from tilewright.ir.location import location_of
from tilewright.targets import TargetInfo


class InstructionPlaces:
    """Marks LLVM instructions with the operations they come from: "line" n of the table is `places[n - 1]`."""

    def __init__(self, module: ir.Module, function: ir.Function) -> None:
        self.places: list[SourceLocation] = []
        self._numbers: dict[SourceLocation, Any] = {}
        self._module = module
        for name, version in (("Dwarf Version", 4), ("Debug Info Version", 3)):
            module.add_named_metadata(
                "llvm.module.flags",
                [ir.Constant(I32, 2), ir.MetaDataString(module, name), ir.Constant(I32, version)],
            )
        file = module.add_debug_info("DIFile", {"filename": "kernel", "directory": "."})
        unit = module.add_debug_info(
            "DICompileUnit",
            {"language": ir.DIToken("DW_LANG_Python"), "file": file, "runtimeVersion": 0,
             "isOptimized": True, "emissionKind": ir.DIToken("LineTablesOnly")},
            is_distinct=True,
        )  # fmt: skip
        module.add_named_metadata("llvm.dbg.cu", unit)
        nothing = module.add_metadata([])
        kind = module.add_debug_info("DISubroutineType", {"types": nothing})
        self._scope = module.add_debug_info(
            "DISubprogram",
            {"name": function.name, "file": file, "line": 1, "type": kind, "unit": unit,
             "spFlags": ir.DIToken("DISPFlagDefinition")},
            is_distinct=True,
        )  # fmt: skip
        function.set_metadata("dbg", self._scope)

    def of(self, op: Operation) -> Any:
        """The debug location for instructions of an operation."""
        place = location_of(op) or SourceLocation("", 0)
        if place not in self._numbers:
            self.places.append(place)
            self._numbers[place] = self._module.add_debug_info(
                "DILocation", {"line": len(self.places), "column": 1, "scope": self._scope}
            )
        return self._numbers[place]


def location_at(
    text: str,
    places: list[SourceLocation],
    target: TargetInfo,
    entry: str,
    code: bytes,
    offset: int,
) -> SourceLocation | None:
    """Where the instruction `offset` bytes after the entry comes from.

    `text` is LLVM IR with debug locations, `code` the object that ran. None where the two are not the same code.
    """
    again = machine(target).emit_object(binding.parse_assembly(text))
    ran, made = _Elf(code), _Elf(again)
    if ran.section(".text") != made.section(".text"):
        return None
    address, found = made.symbol(entry) + offset, None
    for start, line in made.rows():
        if start <= address:
            found = line
    place = places[found - 1] if found else None
    return place if place is not None and place.line else None


class _Elf:
    """What is needed of a 64-bit little-endian object file."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        (offset,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        heads = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        texts = heads[names][4]
        self._sections = {self._text(texts + head[0]): head for head in heads}

    def _text(self, at: int) -> str:
        return self._data[at : self._data.index(b"\0", at)].decode()

    def section(self, name: str) -> bytes:
        head = self._sections.get(name)
        return self._data[head[4] : head[4] + head[5]] if head else b""

    def symbol(self, name: str) -> int:
        """A symbol's offset in its section."""
        texts = self._sections[".strtab"][4]
        for text, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", self.section(".symtab")):
            if self._text(texts + text) == name:
                return value
        raise KeyError(name)

    def rows(self) -> list[tuple[int, int]]:
        """(address, line) of the line table, by address: DWARF 4, chapter 6.2."""
        data = self.section(".debug_line")
        addends = {
            at: more for at, _, more in struct.iter_unpack("<QQq", self.section(".rela.debug_line"))
        }
        (header,) = struct.unpack_from("<I", data, 6)
        least, _, _, base, span, first_special = struct.unpack_from("<BBBbBB", data, 10)
        operands = data[16 : 16 + first_special - 1]
        at, address, line, rows = 10 + header, 0, 1, list[tuple[int, int]]()
        while at < len(data):
            code = data[at]
            at += 1
            if code >= first_special:
                address += least * ((code - first_special) // span)
                line += base + (code - first_special) % span
                rows.append((address, line))
            elif code == 0:
                length, at = _uleb(data, at)
                if data[at] == 2:  # set_address
                    address = addends.get(at + 1, 0)
                elif data[at] == 1:  # end_sequence
                    rows.append((address, 0))
                    line = 1
                at += length
            elif code == 1:  # copy
                rows.append((address, line))
            elif code == 2:
                value, at = _uleb(data, at)
                address += least * value
            elif code == 3:
                value, at = _sleb(data, at)
                line += value
            elif code == 8:
                address += least * ((255 - first_special) // span)
            elif code == 9:
                (value,) = struct.unpack_from("<H", data, at)
                address, at = address + value, at + 2
            else:
                for _ in range(operands[code - 1]):
                    _, at = _uleb(data, at)
        return sorted(rows, key=lambda row: row[0])


def _uleb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _sleb(data: bytes, at: int) -> tuple[int, int]:
    value, end = _uleb(data, at)
    bits = 7 * (end - at)
    return (value - (1 << bits) if value >> (bits - 1) else value), end
