"""Random masks and indices of wrapping, narrowed and hashed integers: machine code does what the interpreter does."""

import random

import numpy as np
import pytest
from tests.passes.analysis.engines import run
from tests.passes.analysis.test_programs import from_text

PROGRAMS = 16
"""Programs per part; one in four runs as PTX, too."""
_TYPES = (
    "tl.int8",
    "tl.uint8",
    "tl.int16",
    "tl.uint16",
    "tl.int32",
    "tl.uint32",
    "tl.int64",
    "tl.uint64",
)
_CONSTANTS = (1, 2, 3, 7, 16, 100, 255, 1000, 12345, 65537, 0x3779B1, 1103515245, 2**31 - 1)


class Source:
    """A kernel with loads under random masks from random places, in a loop."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def expression(self, depth, names):
        pick, r = self.random.random(), self.random
        if depth == 0 or pick < 0.15:
            return r.choice(names)
        inner = self.expression(depth - 1, names)
        if pick < 0.3:
            return f"({inner}).to({r.choice(_TYPES)})"
        if pick < 0.4:
            return f"(({inner}).to(tl.int64) {r.choice(['<<', '>>'])} {r.choice([1, 4, 28, 31])})"
        if pick < 0.5:
            wide = f"({inner}).to({r.choice(_TYPES[4:])})"
            return f"({wide} {r.choice(['//', '%', '&', '^', '|'])} {r.choice([3, 7, 64, 1000])})"
        if pick < 0.75:
            number = r.choice(_CONSTANTS)
            fitting = (
                "tl.int64"
                if number > 100 and r.random() < 0.3
                else r.choice(["tl.int32", "tl.uint32"])
            )
            return f"(({inner}).to({fitting}) {r.choice(['+', '-', '*'])} {number})"
        other = self.expression(depth - 1, names)
        return f"(({inner}) {r.choice(['+', '-', '*'])} ({other}).to(tl.int32).to(({inner}).dtype))"

    def text(self):
        r = self.random
        scalar = self.expression(2, ["pid", "n", "i", "i"])
        names = ["o", "o", "pid", "n", "i", "c"]
        masks = [
            f"(({self.expression(2, names)}).to({r.choice(_TYPES[4:])}) {r.choice(['<', '<=', '>', '>='])} {self.bound(names)})"
            for _ in range(2)
        ]
        index = r.choice([
            f"(({self.expression(2, names)}).to(tl.uint32) + o.to(tl.uint32)) % 97",
            f"(({self.expression(2, names)}).to(tl.int32) & 63) + o",
            "o + (i & 3)",
            "(pid * B + o) % (n * n + 40)",
        ])  # fmt: skip
        return f"""
@tw.jit
def kernel(x, y, n, B: tl.constexpr):
    pid = tl.program_id(0)
    o = tl.arange(0, B)
    c = o
    for i in range({r.choice(["0", "1"])}, 5, {r.choice(["1", "2"])}):
        s = {scalar}
        mask = {f" {r.choice(['&', '&', '|'])} ".join(masks)}
        v = tl.load(x + ({index}), mask=mask, other=-1)
        tl.store(y + (pid * 5 + i) * B + o, v + 1, mask=o < (s + 0).to(tl.int32) % 128 + 40)
        c += {r.choice(["1", "3", "n"])}
"""

    def bound(self, names):
        return self.random.choice(
            ["n", "40", "100", "0", self.expression(1, names), "(n * 3 - i * 65536)"]
        )


def check(seed, ptx):
    kernel = from_text(Source(seed).text(), f"<random masks {seed}>")
    n = random.Random(seed).choice([0, 3, 37, -5, 70000])
    args = [np.arange(200, dtype=np.int32), np.zeros(3 * 5 * 32, np.int32), n]
    expected = run("interpreter", kernel, (3,), args, {"B": 32})
    for engine in ("cpu", "ptx") if ptx else ("cpu",):
        found = run(engine, kernel, (3,), args, {"B": 32})
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{engine}, {Source(seed).text()}")


@pytest.mark.parametrize("part", range(2))
def test_random_masks(part):
    for seed in range(part * PROGRAMS, (part + 1) * PROGRAMS):
        check(seed, ptx=seed % 4 == 0)


@pytest.mark.long
def test_many_random_masks():
    for seed in range(1000, 3000):
        check(seed, ptx=True)
