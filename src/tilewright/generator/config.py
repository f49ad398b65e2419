"""`MatmulConfig`: how a contraction is divided among programs, and what form its program takes."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from tilewright.dtypes import ALL_SCALARS
from tilewright.errors import LaunchError
from tilewright.generator.deprecated import CONFIG_FIELDS, accepts, current

FORMS = ("tiled", "listing1", "gemv")
#: words of `MatmulConfig.text`
_NUMBERS = {
    "g": "group_m",
    "w": "num_warps",
    "s": "num_stages",
    "k": "split_k",
    "j": "rows_per_load",
}
_FLAGS = {
    "persistent": {"persistent": True}, "multicast": {"tma_multicast": True},
    "no-tma": {"use_tma": False}, "no-rs": {"wgmma_rs": False}, "swap": {"swap_operands": True},
}  # fmt: skip
#: deprecated words, which stored texts have
_OLD_WORDS = {"pairs": "multicast", "threads": "no-tma", "turned": "no-rs", "vector": "gemv"}


@dataclass(frozen=True, slots=True)
class Panels:
    """How operands are packed, once and for all programs, in the order in which products read them.

    A stands in tiles of block_m × block_k, row after row. B stands in tiles of block_k × block_n; within one
    in panels of `columns`, row after row, of which `rows` neighbours are interleaved: what an instruction
    that adds 2 or 4 neighbouring products takes. Tiles at the edges are filled up with zeros.

    Attributes:
        columns: of a panel; block_n is a multiple of it.
        rows: 1, 2 or 4; block_k is a multiple of it.
        element: the short name of the type that packed elements have (fp16 is packed as fp32 where
            products are made in fp32); "": the operands' own.
    """

    columns: int
    rows: int = 1
    element: str = ""

    @property
    def text(self) -> str:
        """Short: `p32`, `p32x2 fp32`."""
        rows = f"x{self.rows}" if self.rows > 1 else ""
        return f"p{self.columns}{rows}" + (f" {self.element}" if self.element else "")


@accepts(CONFIG_FIELDS)
@dataclass(frozen=True, slots=True)
class MatmulConfig:
    """Tiles and options of one generated program.

    Attributes:
        block_m, block_n, block_k: extents of the tile of C that a program computes, and of the
            slices of A and B that it multiplies at a time. Any positive integers for the interpreter
            and the CPU; GPUs take powers of two, and on sm_90a three times such, and from 64 on columns by 16.
        group_m: rows of tiles that neighbouring programs share, so that they find B in the L2 cache
            (1: tiles in row order).
        num_warps, num_stages: launch options (GPU).
        split_k: programs that share the sums of one tile. They write partial sums to a workspace; a
            second program adds them in a fixed order, so results are reproducible.
        persistent: one program per SM, each of which computes many tiles.
        tma_multicast: two tiles, one below the other, are made by neighbouring blocks, which fetch what both need of B once
            (sm_90a, with `persistent`). Elsewhere a program makes one after the other.
        use_tma: operands come by the tensor memory accelerator where they can (sm_90a); False: threads
            copy them.
        wgmma_rs: tf32 operands that lie across k reach tensor cores through registers (pass
            `select-wgmma-rs`, sm_90a); False: they are turned in shared memory.
        form: "tiled", sums in registers across the k loop; "listing1", C loaded and stored at every
            step, the starting point of arXiv 2108.13191, from which passes come to "tiled";
            "gemv", a reduction for M = 1 or N = 1, where nothing is there for tensor cores.
        rows_per_load: so many rows across which K lies, which follow each other in memory without gaps, are
            read as one (form "gemv"). Rows of odd extents begin anywhere, but every 2nd, 4th or 8th on a
            boundary that wide accesses need. Sums of each of the joined rows are parts, as with split_k. K
            must be a multiple of it, and a row at least a tile long.
        swap_operands: the program computes outᵀ = bᵀ · aᵀ, block_m along N: where M is small, the operand whose rows
            `wgmma` takes 64 at a time is then the large one (`tilewright.matmul` on a GPU).
        prepack: operands are packed once by programs of their own, into a workspace that all tiles'
            programs read (CPU); without it every program packs what it needs.
    """

    block_m: int = 64
    block_n: int = 64
    block_k: int = 32
    group_m: int = 8
    num_warps: int = 4
    num_stages: int = 3
    split_k: int = 1
    persistent: bool = False
    use_tma: bool = True
    wgmma_rs: bool = True
    form: str = "tiled"
    rows_per_load: int = 1
    tma_multicast: bool = False
    swap_operands: bool = False
    prepack: Panels | None = None

    def __post_init__(self) -> None:
        for name in (
            "block_m",
            "block_n",
            "block_k",
            "group_m",
            "num_warps",
            "num_stages",
            "split_k",
            "rows_per_load",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise LaunchError(f"MatmulConfig: {name} must be a positive integer, not {value!r}")
        if self.num_warps & (self.num_warps - 1) and self.num_warps % 4:
            raise LaunchError(
                f"MatmulConfig: num_warps={self.num_warps} is neither a power of two nor a multiple"
                " of 4"
            )
        if self.form not in FORMS:
            raise LaunchError(
                f"MatmulConfig: unknown form {self.form!r}", help=f"forms: {', '.join(FORMS)}"
            )
        if self.tma_multicast and not self.persistent:
            raise LaunchError("MatmulConfig: tma_multicast is for persistent programs")
        if self.rows_per_load > 1 and self.form != "gemv":
            raise LaunchError("MatmulConfig: rows_per_load is for form 'gemv'")
        if self.prepack is not None:
            self._check_panels(self.prepack)
        if self.form == "listing1" and self.split_k > 1:
            raise LaunchError(
                "MatmulConfig: form 'listing1' keeps sums in the output, not in parts"
            )

    def _check_panels(self, panels: Panels) -> None:
        if self.form != "tiled" or self.split_k > 1 or self.persistent:
            raise LaunchError("MatmulConfig: prepack is for form 'tiled', K whole, not persistent")
        if self.block_n % panels.columns or self.block_k % panels.rows:
            raise LaunchError(
                f"MatmulConfig: panels of {panels.columns} columns and {panels.rows} interleaved rows "
                f"do not divide a tile of {self.block_k} x {self.block_n}"
            )

    def with_(self, **changes: Any) -> MatmulConfig:
        """A copy with some fields changed (`tma_multicast` goes with persistent programs)."""
        changes = current(changes, CONFIG_FIELDS)
        if changes.get("persistent") is False:
            changes.setdefault("tma_multicast", False)
        return replace(self, **changes)

    @property
    def parts(self) -> int:
        """Sums of each element that are added up in the end."""
        return self.split_k * self.rows_per_load

    @property
    def left_out(self) -> tuple[str, ...]:
        """Passes, or forms of passes, that it does without."""
        boxes = () if self.use_tma else ("pipeline-loads{tma=false}", "specialize-warps")
        return boxes if self.wgmma_rs else (*boxes, "select-wgmma-rs")

    @property
    def text(self) -> str:
        """Short and complete: `128x256x64 g8 w8 s4`, for tables and symbol names.

        block_m × block_n × block_k, then g group_m, w num_warps, s num_stages. What is not as by default follows:
        k split_k, j rows_per_load, `persistent`, `multicast`, `no-tma`, `no-rs` (without
        `wgmma_rs`), `swap`, the form, and `Panels.text`. `from_text` reads it.
        """
        parts = [f"{self.block_m}x{self.block_n}x{self.block_k}", f"g{self.group_m}"]
        parts += [f"w{self.num_warps}", f"s{self.num_stages}"]
        if self.split_k > 1:
            parts.append(f"k{self.split_k}")
        if self.rows_per_load > 1:
            parts.append(f"j{self.rows_per_load}")
        if self.persistent:
            parts.append("persistent")
        if self.tma_multicast:
            parts.append("multicast")
        if not self.use_tma:
            parts.append("no-tma")
        if not self.wgmma_rs:
            parts.append("no-rs")
        if self.swap_operands:
            parts.append("swap")
        if self.form != "tiled":
            parts.append(self.form)
        if self.prepack is not None:
            parts.append(self.prepack.text)
        return " ".join(parts)

    @staticmethod
    def from_text(text: str) -> MatmulConfig:
        """The configuration that `text` tells of. Raises LaunchError for words that it does not have."""
        tile, *words = text.split() or [""]
        sizes = tile.split("x")
        given: dict[str, Any] = {}
        if len(sizes) != 3 or not all(size.isdecimal() for size in sizes):
            raise LaunchError(
                f"MatmulConfig: {text!r} does not begin with a tile such as 128x256x64"
            )
        for i, word in enumerate(words):
            word = _OLD_WORDS.get(word, word)
            if word in _FLAGS:
                given |= _FLAGS[word]
            elif word in FORMS:
                given["form"] = word
            elif word[0] in _NUMBERS and word[1:].isdecimal():
                given[_NUMBERS[word[0]]] = int(word[1:])
            elif i >= len(words) - 2 and (found := re.fullmatch(r"p(\d+)(?:x(\d+))?", word)):
                element = "".join(words[i + 1 :])
                if element and element not in {t.short_name for t in ALL_SCALARS}:
                    raise LaunchError(f"MatmulConfig: unknown dtype {element!r} in {text!r}")
                given["prepack"] = Panels(int(found[1]), int(found[2] or 1), element)
                break
            else:
                raise LaunchError(f"MatmulConfig: unknown word {word!r} in {text!r}")
        block_m, block_n, block_k = map(int, sizes)
        return MatmulConfig(block_m, block_n, block_k, **given)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> MatmulConfig:
        """A configuration from stored data. Raises LaunchError for fields that do not exist."""
        data = current(data, CONFIG_FIELDS, warn=False)
        known = {item.name for item in fields(MatmulConfig)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise LaunchError(f"MatmulConfig has no field {', '.join(unknown)}")
        return MatmulConfig(**data)
