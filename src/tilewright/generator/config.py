"""`MatmulConfig`: tiling of a contraction and form of its program."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from tilewright.dtypes import ALL_SCALARS
from tilewright.errors import LaunchError

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
    "multicast-a": {"tma_multicast": True, "multicast_operand": "a"},
    "no-tma": {"use_tma": False}, "no-rs": {"wgmma_rs": False}, "swap": {"swap_operands": True},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Panels:
    """Layout of prepacked operands, packed once for all programs in the order in which the micro-kernel reads.

    A is stored as row-major tiles of block_m × block_k. B is stored as tiles of block_k × block_n, each of
    row-major panels of `columns`, with `rows` consecutive rows interleaved for instructions that add 2 or 4
    adjacent matmuls. Edge tiles are zero-padded.

    Attributes:
        columns: columns per panel; divides block_n.
        rows: interleaved rows, 1, 2 or 4; divides block_k.
        element: short name of the packed element type (fp16 is packed as fp32 where matmuls are computed in
            fp32); "": the operands' own type.
    """

    columns: int
    rows: int = 1
    element: str = ""

    @property
    def text(self) -> str:
        """Short: `p32`, `p32x2 fp32`."""
        rows = f"x{self.rows}" if self.rows > 1 else ""
        return f"p{self.columns}{rows}" + (f" {self.element}" if self.element else "")


@dataclass(frozen=True, slots=True)
class MatmulConfig:
    """Tiles and options of one generated program.

    Attributes:
        block_m, block_n, block_k: extents of the output tile of a program, and of the slices of A and B per
            step of the main loop, any positive integers. Tensor cores of GPUs take those that the shapes of their
            instructions divide: on sm_90a 64 rows, or three times a power of two, and multiples of 16 columns (8
            below 64).
        group_m: rows of tiles in a group of consecutive programs, for reuse of B in L2 (1: row-major order).
        num_warps, num_stages: launch options (GPU).
        split_k: number of programs per output tile, each with a part of K. They write partial results to a
            workspace; a second launch adds them in a fixed order, so results are reproducible.
        persistent: launch one program per SM, which loops over tiles.
        tma_multicast: the CTAs of a cluster of two compute adjacent tiles and multicast their common operand
            (sm_90a, with `persistent`). Other targets compute the two tiles one after the other.
        multicast_operand: which: "b", of vertically adjacent tiles, or "a", of horizontally adjacent ones.
        use_tma: load operands by TMA where possible (sm_90a); False: by threads (`cp.async`).
        wgmma_rs: pass MN-major tf32 operands to tensor cores through registers (pass `select-wgmma-rs`,
            sm_90a); False: transpose them in shared memory.
        form: "tiled", accumulator in registers across the main loop; "listing1", C loaded and stored at every
            step, the starting point of arXiv 2108.13191, which the passes turn into "tiled"; "gemv", a
            reduction for M = 1 or N = 1, which cannot use tensor cores.
        rows_per_load: number of consecutive rows along K, contiguous in memory without gaps, that one load
            covers (form "gemv"). Rows of odd extents start at any address, but every 2nd, 4th or 8th row is
            aligned for vector accesses. Each of the joined rows gives a partial result, as with split_k.
            Requires: K is a multiple of it, and a row is at least as long as a tile.
        swap_operands: compute outᵀ = bᵀ · aᵀ, block_m along N: for small M the larger operand then provides the
            64 rows of `wgmma` (`tilewright.matmul` on a GPU).
        prepack: pack operands once, by separate launches, into a workspace that the programs of all tiles
            read (CPU); None: each program packs its own operands.
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
    multicast_operand: str = "b"
    swap_operands: bool = False
    prepack: Panels | None = None

    def __post_init__(self) -> None:
        for name in ("block_m", "block_n", "block_k", *_NUMBERS.values()):
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
        if self.multicast_operand not in ("a", "b"):
            raise LaunchError(
                f"MatmulConfig: multicast_operand is 'a' or 'b', not {self.multicast_operand!r}"
            )
        if self.rows_per_load > 1 and self.form != "gemv":
            raise LaunchError("MatmulConfig: rows_per_load is for form 'gemv'")
        if self.prepack is not None:
            self._check_panels(self.prepack)
        if self.form == "listing1" and self.split_k > 1:
            raise LaunchError(
                "MatmulConfig: form 'listing1' accumulates in the output, without split-K"
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
        if changes.get("persistent") is False:
            changes.setdefault("tma_multicast", False)
        return replace(self, **changes)

    @property
    def parts(self) -> int:
        """Partial results per output element."""
        return self.split_k * self.rows_per_load

    @property
    def left_out(self) -> tuple[str, ...]:
        """Passes, or forms of passes, that it does without."""
        no_tma = () if self.use_tma else ("pipeline-loads{tma=false}", "specialize-warps")
        return no_tma if self.wgmma_rs else (*no_tma, "select-wgmma-rs")

    @property
    def text(self) -> str:
        """Short and complete: `128x256x64 g8 w8 s4`, for tables and symbol names.

        block_m × block_n × block_k, then g group_m, w num_warps, s num_stages. Non-default fields follow:
        k split_k, j rows_per_load, `persistent`, `multicast` (of B; `multicast-a`), `no-tma`, `no-rs` (without
        `wgmma_rs`), `swap`, the form, and `Panels.text`. `from_text` reads it.
        """
        parts = [f"{self.block_m}x{self.block_n}x{self.block_k}"]
        for letter, name in _NUMBERS.items():
            number = getattr(self, name)
            if number > 1 or letter in "gws":
                parts.append(f"{letter}{number}")
        if self.persistent:
            parts.append("persistent")
        if self.tma_multicast:
            parts.append("multicast" + "-a" * (self.multicast_operand == "a"))
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
