"""flex_attention on the CPU: block sizes, and who gets it. What it computes: `flex…` in workloads.py."""

from __future__ import annotations

import pytest
from tests.integrations.inductor.test_install import run

from tilewright.integrations.inductor import flex
from tilewright.integrations.inductor.flex import Problem

NONE = 1 << 30
"""A block of the block mask where there is no mask."""


@pytest.mark.parametrize(
    ("problem", "head_dim", "forward", "backward"),
    [
        (Problem(1024, 1024, NONE, NONE), 64, (64, 64), (64, 128, 128, 64)),
        (Problem(1024, 1024, 128, 128), 512, (32, 32), (32, 64, 64, 32)),
        (Problem(20, 300, NONE, NONE), 64, (32, 64), (32, 128, 32, 32)),
        (Problem(5, 7, NONE, NONE), 64, (16, 16), (16, 16, 16, 16)),
        (Problem(1024, 1024, 16, 32), 64, (16, 32), (16, 32, 16, 16)),
        (Problem(1024, 1024, 96, 20), 64, (32, 4), (4, 4, 32, 4)),
    ],
)
def test_block_sizes(problem, head_dim, forward, backward):
    assert flex.forward_blocks(problem, head_dim, narrow=False) == forward
    first_queries, first_keys, second_queries, second_keys = backward
    assert flex.backward_blocks(problem, head_dim) == backward
    assert first_keys % first_queries == 0 and second_queries % second_keys == 0
    for queries in (forward[0], first_queries, second_queries):
        assert problem.mask_queries % queries == 0
    for keys in (forward[1], first_keys, second_keys):
        assert problem.mask_keys % keys == 0


@pytest.mark.long
def test_training_with_one_back_end(tmp_path):
    """`backend="tilewright"` can train; what Inductor makes by itself, and eager mode, stay as they were."""
    pytest.importorskip("torch")
    run(
        tmp_path,
        """
        import torch
        from torch.nn.attention.flex_attention import flex_attention
        q = torch.randn(1, 2, 40, 16, requires_grad=True)
        def function(q):
            return flex_attention(q, q, q)
        def gradient(function):
            return torch.autograd.grad(function(q).square().sum(), q)[0]
        found = gradient(torch.compile(function, backend="tilewright", fullgraph=True))
        expected = gradient(lambda q: torch.softmax(q @ q.transpose(-1, -2) / 4, -1) @ q)
        torch.testing.assert_close(found, expected)
        for other in (function, torch.compile(function), torch.compile(function, backend="eager")):
            torch._dynamo.reset()
            try:
                other(q)
            except NotImplementedError as error:
                assert "does not support backward on CPU" in str(error)
            else:
                assert False, other
        """,
    )
