"""Arguments for the kernels of `large_tiles`, of any size: NumPy arrays, constants, grid."""

from __future__ import annotations

from typing import Any

import numpy as np

Arguments = tuple[dict[str, Any], dict[str, Any], tuple[int, int, int]]

#: kernels whose programs go through one row, or several
OF_ROWS = (
    "cross_entropy", "divergence", "jensen_shannon", "group_norm", "layer_norm_blocks",
    "dropout_add", "largest_of_blocks", "until_small", "rms_norm_rows", "layer_norm_backward",
    "layer_norm", "softmax", "softmax_backward", "softmax_rows", "softmax_if", "mean_of_rows",
    "linear_recurrence", "count_with_atomics", "cumulative", "cumulative_blocks",
)  # fmt: skip
OF_TILES = (
    "softmax_tiles", "sums_of_columns", "sums_in_the_loop", "sums_of_rows", "transpose",
    "transpose_loop", "copy_tiles", "cumulative_tiles",
)  # fmt: skip
#: kernels that take a row in blocks, so that it may be longer than one
IN_BLOCKS = (
    "cross_entropy", "divergence", "jensen_shannon", "group_norm", "layer_norm_blocks",
    "dropout_add", "largest_of_blocks", "count_with_atomics", "cumulative_blocks",
)  # fmt: skip


def arguments(name: str, block: int, seed: int = 0) -> Arguments:
    """Arguments of a kernel for blocks of `block` elements, or of tiles of `block` rows and columns."""
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float32)

    def positive(*shape: int) -> Any:
        return np.abs(normal(*shape)) + np.float32(0.1)

    if name in OF_TILES:
        return _of_tiles(name, block, normal, positive)
    n = 2 * block + block // 2 + 3 if name in IN_BLOCKS else block - 5
    rows = {"rows": 5, "n": n}
    given: dict[str, dict[str, Any]] = {
        "cross_entropy": {
            "x": normal(3, n), "labels": np.array([5, -100, 77], np.int32), "loss": normal(3),
            "n": n, "scale": 2,
        },
        "divergence": {"p": normal(3, n), "t": positive(3, n), "loss": normal(3), "n": n},
        "jensen_shannon": {
            "x": normal(3, n), "y": normal(3, n), "loss": normal(3, n), "slope": normal(3, n),
            "n": n, "beta": 0,
        },
        "group_norm": {
            "x": normal(3, n // 2 * 2), "out": normal(3, n // 2 * 2), "mean": normal(3),
            "rstd": normal(3), "weight": normal(2), "bias": normal(2), "size": n // 2 * 2,
            "per_channel": n // 2,
        },
        "layer_norm_blocks": {
            "x": normal(3, n), "weight": normal(n), "bias": normal(n), "out": normal(3, n),
            "mean": normal(3), "rstd": normal(3), "n": n,
        },
        "dropout_add": {"x": normal(n), "y": normal(n), "out": normal(n), "n": n, "seed": 7},
        "largest_of_blocks": {
            "x": normal(3, n), "values": normal(3), "places": np.zeros(3, np.int32), "n": n,
        },
        "until_small": {"x": normal(3, n), "n": n, "limit": 3},
        "rms_norm_rows": {
            "x": normal(5, n), "weight": normal(n), "out": normal(5, n), "rstd": normal(5), **rows,
        },
        "layer_norm_backward": {
            "x": normal(6, n), "w": normal(n), "mean": normal(6), "rstd": normal(6),
            "dy": normal(6, n), "dx": normal(6, n), "dw": normal(3, n), "db": normal(3, n),
            "rows": 2, "n": n,
        },
        "layer_norm": {
            "x": normal(3, n), "weight": normal(n), "bias": normal(n), "out": normal(3, n),
            "mean": normal(3), "rstd": normal(3), "n": n,
        },
        "softmax": {"x": normal(3, n), "out": normal(3, n), "n": n},
        "softmax_backward": {
            "p": positive(3, n) / np.float32(n), "dp": normal(3, n), "dx": normal(3, n), "n": n,
        },
        "softmax_rows": {"x": normal(5, n), "out": normal(5, n), **rows},
        "softmax_if": {
            "x": normal(3, n), "out": normal(3, n), "lengths": np.array([n, 0, 17], np.int32),
            "n": n,
        },
        "mean_of_rows": {"x": normal(5, 2 * block), "out": normal(2 * block), "rows": 5, "n": 2 * block - 7},
        "linear_recurrence": {
            "a": normal(5, 2 * block), "x": normal(5, 2 * block), "out": normal(5, 2 * block),
            "steps": 5, "n": 2 * block - 7,
        },
        "count_with_atomics": {
            "x": random.integers(0, 16, n).astype(np.int32), "counts": np.zeros(16, np.int32),
            "n": n,
        },
        "cumulative": {"x": normal(3, n), "out": normal(3, n), "n": n},
        "cumulative_blocks": {"x": normal(3, n), "out": normal(3, n), "n": n},
    }  # fmt: skip
    constants: dict[str, Any] = {"BLOCK": block}
    if name == "rms_norm_rows":
        constants["CAST"] = True
    few = ("rms_norm_rows", "softmax_rows", "mean_of_rows", "linear_recurrence", "dropout_add")
    programs = 2 if name in (*few, "count_with_atomics") else 3
    return given[name], constants, (programs, 1, 1)


def _of_tiles(name: str, block: int, normal: Any, positive: Any) -> Arguments:
    """The same for kernels with tiles of two dimensions."""
    m, n = 2 * block - 3, 2 * block - 5
    if name in ("softmax_tiles", "cumulative_tiles"):
        n = block - 5
    out = {
        "sums_of_columns": (n,), "sums_in_the_loop": (n,), "sums_of_rows": (m,),
        "transpose": (n, m), "transpose_loop": (n, m),
    }.get(name, (m, n))  # fmt: skip
    given = {"x": positive(m, n) if name == "sums_of_rows" else normal(m, n)}
    if name == "copy_tiles":
        given["y"] = normal(m, n)
    given |= {"out": normal(*out), "M": m, "N": n}
    return given, {"BM": block, "BN": block}, (2, 2 if name == "transpose" else 1, 1)
