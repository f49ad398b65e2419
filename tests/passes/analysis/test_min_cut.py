"""Minimum vertex cuts, against all subsets of small random graphs."""

import itertools
import random

from tilewright.passes.gpu.analysis.min_cut import min_vertex_cut


def separates(cut, operands, sources, sinks):
    """Whether every path from the sources to the sinks goes through `cut`."""
    pending, seen = [s for s in sinks if s not in cut], set()
    while pending:
        node = pending.pop()
        if node in sources:
            return False
        if node not in seen:
            seen.add(node)
            pending += [o for o in operands[node] if o not in cut]
    return True


def test_no_set_of_less_weight_separates():
    rng = random.Random(1)
    for _ in range(100):
        count = rng.randrange(2, 8)
        weights = {i: rng.choice((1, 2, 2, 4)) for i in range(count)}
        operands = {i: [j for j in range(i) if rng.random() < 0.4] for i in range(count)}
        sources = {i for i in range(count) if not operands[i]}
        sinks = set(rng.sample(range(count), rng.randrange(1, count)))
        cut = min_vertex_cut(weights, operands, sources, sinks)
        subsets = itertools.chain.from_iterable(
            itertools.combinations(range(count), n) for n in range(count + 1)
        )
        least = min(
            sum(weights[i] for i in s) for s in subsets if separates(s, operands, sources, sinks)
        )
        assert separates(cut, operands, sources, sinks)
        assert sum(weights[i] for i in cut) == least


def test_of_equal_cuts_the_one_near_the_sinks_is_taken():
    operands = {"load": [], "exp": ["load"], "scaled": ["exp"]}
    assert min_vertex_cut(dict.fromkeys(operands, 4), operands, ["load"], ["scaled"]) == {"scaled"}
    weights = {"load": 2, "exp": 4, "scaled": 4}
    assert min_vertex_cut(weights, operands, ["load"], ["scaled"]) == {"load"}
