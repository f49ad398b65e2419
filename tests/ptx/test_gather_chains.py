"""Several gathers from one tile: it is stored in shared memory once."""

import numpy as np
import pytest
from tests.ptx.launch import run_ptx

import tilewright as tw
import tilewright.language as tl


@tw.jit
def follow(Table, Start, Out, LINKS: tl.constexpr, N: tl.constexpr, SECOND: tl.constexpr):
    """Each lane follows links of a table, and of a second one every other time."""
    n = tl.arange(0, N)
    table, other = tl.load(Table + n), tl.load(Table + N + n)
    at = tl.load(Start + n)
    for link in tl.static_range(LINKS):
        at = (at + tl.gather(other if SECOND and link % 2 else table, at, 0)) % N
    tl.store(Out + n, at)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("second", "stores"), [(False, 1), (True, 6)])
def test_a_table_is_stored_once_for_gathers_in_a_row(target, second, stores):
    links, n = 6, 256
    kernel = follow.compile(
        dict.fromkeys(("Table", "Start", "Out"), "*i32:16"),
        {"LINKS": links, "N": n, "SECOND": second},
        target=target,
        options={"num_warps": 4},
    )
    ptx = kernel.asm["ptx"]
    assert ptx.count("st.shared") <= 2 * stores and ptx.count("bar.sync") <= 2 * stores
    rng = np.random.default_rng(5)
    table, start = rng.integers(0, n, 2 * n, np.int32), rng.permutation(n).astype(np.int32)
    wanted = start
    for link in range(links):
        first = n if second and link % 2 else 0
        wanted = (wanted + table[first + wanted]) % n
    for chance in range(3):
        arguments = [table, start, np.zeros(n, np.int32)]
        out = run_ptx(kernel, arguments, (1, 1, 1), np.random.default_rng(chance))
        np.testing.assert_array_equal(out[2], wanted)
