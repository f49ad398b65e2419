"""Results that share memory with what is read: errors where it gives garbage, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import LaunchError

E = tw.epilogue


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("form", ["tiled", "listing1"])
def test_an_operand_is_no_result(form):
    x, y = arrays((40, 40), (40, 40))
    config = tw.MatmulConfig(16, 16, 16, form=form)
    for out in (x, y, x.T, x[::-1]):
        with pytest.raises(LaunchError, match=r"out and [ab] share memory"):
            tw.matmul(x, y, out, config=config)


def test_arrays_that_overlap_in_part():
    whole, y = arrays((40, 80), (40, 40))
    with pytest.raises(LaunchError, match="out and a share memory"):
        tw.matmul(whole[:, 20:60], y, whole[:, :40])


def test_neighbours_in_one_array_do_not_share():
    whole, y = arrays((40, 80), (40, 40))
    reference = whole[:, 40:] @ y
    tw.matmul(whole[:, 40:], y, whole[:, :40])
    np.testing.assert_allclose(whole[:, :40], reference, rtol=1e-12, atol=1e-12)
    reference = whole[:, 1::2] @ y
    tw.matmul(whole[:, 1::2], y, whole[:, ::2])
    np.testing.assert_allclose(whole[:, ::2], reference, rtol=1e-12, atol=1e-12)


def test_what_an_epilogue_reads_may_be_the_result_itself():
    x, y, out = arrays((40, 40), (40, 40), (40, 40))
    reference = x @ y + 2 * out
    tw.matmul(x, y, out, c=out, beta=2.0)
    np.testing.assert_allclose(out, reference, rtol=1e-12, atol=1e-12)
    reference = x @ y + out
    tw.matmul(x, y, out, epilogue=E.residual(out))
    np.testing.assert_allclose(out, reference, rtol=1e-12, atol=1e-12)


def test_what_an_epilogue_reads_may_not_be_another_view_of_it():
    x, y, out = arrays((40, 40), (40, 40), (40, 40))
    for part in (E.residual(out.T), E.bias(out[0])):
        with pytest.raises(LaunchError, match="array 1 of the epilogue share memory"):
            tw.matmul(x, y, out, epilogue=part)
    with pytest.raises(LaunchError, match="out and c share memory"):
        tw.matmul(x, y, out, c=out.T)


def test_every_call_is_checked():
    """The plan of a shape is kept; its arrays are others each time."""
    x, y, out = arrays((40, 40), (40, 40), (40, 40))
    tw.matmul(x, y, out)
    with pytest.raises(LaunchError, match="share memory"):
        tw.matmul(x, y, x)
    tw.matmul(x, y, out)


def test_sums_in_the_result_stay_in_registers():
    """Listing 1 through `promote-accumulator`, which may assume that the result is apart."""
    from tilewright import dtypes as t
    from tilewright.backends import registry
    from tilewright.generator import Contraction, MatmulConfig, Operand
    from tilewright.runtime.export.matmul import argument_types
    from tilewright.runtime.matmul.kernels import kernels

    stores = {}
    for apart in (True, False):
        contraction = Contraction(*[Operand(t.float32)] * 3)
        (kernel,) = kernels(contraction, MatmulConfig(32, 32, 32, form="listing1"), apart)
        types = argument_types(kernel.program, True)
        module = kernel.compile(types, None, registry.get("cpu").target()).asm["cpu"]
        after = module[module.index("cpu.call_microkernel") :].splitlines()[1].strip()
        stores[apart] = not after.startswith("}")
    assert stores == {True: False, False: True}  # the loop ends behind the product, or C is stored
