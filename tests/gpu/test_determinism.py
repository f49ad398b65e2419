"""A hundred launches of the same kernel on the same data give the same bits."""

import pytest

torch = pytest.importorskip("torch")
REPEATS = 100


def test_a_hundred_launches_agree():
    from tests.gpu.programs import programs

    differ = []
    for program in programs():
        program.run()
        torch.cuda.synchronize()
        first = [out.clone() for out in program.outputs]
        agree = torch.ones((), device="cuda", dtype=torch.bool)
        for _ in range(REPEATS):
            for out in program.outputs:
                out.zero_()
            program.again()
            program.launch()
            for a, b in zip(first, program.outputs, strict=True):
                if program.exact:
                    agree &= torch.equal(a.view(torch.uint8), b.view(torch.uint8))
                else:  # additions of floats in any order
                    agree &= torch.allclose(a, b, rtol=1e-4, atol=1e-4)
        if not agree:
            differ.append(program.name)
    assert not differ
