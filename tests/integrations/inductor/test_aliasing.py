"""Which parameters of Inductor's kernels no other one overlaps."""

from __future__ import annotations

import pytest

from tilewright.integrations.inductor.aliasing import noalias_arguments

NAMES = ("in_out_ptr0", "in_ptr0", "in_ptr1", "out_ptr0", "ks0", "xnumel", "XBLOCK")
STORE = "    tl.store(out_ptr0 + (x0), tmp1, xmask)\n"


@pytest.mark.parametrize(
    ("mutated", "source", "apart"),
    [
        ([], STORE, {"in_out_ptr0", "in_ptr0", "in_ptr1", "out_ptr0"}),
        (["in_out_ptr0"], STORE, {"in_out_ptr0", "in_ptr0", "in_ptr1", "out_ptr0"}),
        (["in_ptr0", "out_ptr0"], STORE, set()),
        (["out_ptr0"], STORE, {"in_out_ptr0", "in_ptr0", "in_ptr1"}),
        ([], "tl.store(out_ptr0 + (x0 + 64*tmp4), tmp1, xmask)\n", {"in_out_ptr0", "in_ptr0", "in_ptr1"}),
        ([], "tl.atomic_add(out_ptr0 + (x0 + y0), tmp1, xmask)\n", {"in_out_ptr0", "in_ptr0", "in_ptr1"}),
        (None, STORE, set()),
    ],
    ids=["new buffers", "reused buffer", "updated parameter", "written parameter", "indexed store", "atomic", "unknown"],
)  # fmt: skip
def test_arguments(mutated: list[str] | None, source: str, apart: set[str]) -> None:
    meta = {} if mutated is None else {"mutated_arg_names": mutated}
    assert set(noalias_arguments(NAMES, meta, source)) == apart
