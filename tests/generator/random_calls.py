"""Random calls of `tilewright.matmul` with everything that it takes, and what they must give, in float64.

A call is chosen from a seed alone, as NumPy arrays; `Array.torch` has the same memory, with the same gaps and strides, on
another device. References carry a bound of the error that is allowed: what summing in the accumulator's type may lose,
through every step of the epilogue (by its Lipschitz constant), and every rounding on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tilewright as tw
import tilewright.language as tl

E = tw.epilogue
FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64")
#: relative error of one rounding to a type, its smallest number and its largest
ROUNDING = {
    name: (float(ml_dtypes.finfo(name).eps) / 2, float(ml_dtypes.finfo(name).smallest_subnormal), float(ml_dtypes.finfo(name).max))
    for name in ("float16", "bfloat16", "float32", "float64")
} | {
    name: tuple(float(getattr(ml_dtypes.finfo(getattr(ml_dtypes, name)), f)) / (2 if f == "eps" else 1) for f in ("eps", "smallest_subnormal", "max"))
    for name in ("float8_e4m3fn", "float8_e5m2")
}  # fmt: skip
_erf = np.vectorize(math.erf, otypes=[float])
SLOPE = tl.constexpr(0.25)


@tw.jit
def leaky_of_the_user(x):
    return tl.where(x > 0, x, x * SLOPE)


@tw.jit
def gated(x, gate, shift):
    return x * tl.sigmoid(gate.to(tl.float32)) + shift


@tw.jit
def clipped(x, low):
    return tl.maximum(x.to(tl.float32), low.to(tl.float32))


def element(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


class Array:
    """A view of a buffer: some extents, strides and an offset, as somebody's slices would have them."""

    def __init__(self, rng, shape, dtype, layout, values):
        self.shape, self.dtype = tuple(shape), dtype
        order = list(range(len(shape)))
        if layout == "column" and len(shape) > 1:
            order[-2:] = order[-1], order[-2]
        if layout == "any":
            rng.shuffle(order)
        self.strides, step = [0] * len(shape), 1
        factor = {"gaps": 2, "any": 3}.get(layout, 1)
        for place, axis in enumerate(reversed(order)):
            gap = factor if layout == "any" or (layout == "gaps" and place == 1) else 1
            step *= gap
            self.strides[axis] = step
            step *= max(1, shape[axis])
        if layout == "pitch":  # rows that begin at multiples of something larger
            step = 1
            for axis in reversed(order):
                self.strides[axis] = step
                step *= max(1, shape[axis])
                if axis == order[-1]:
                    step = -(-step // 8) * 8 + 8
        if layout == "broadcast" and shape:
            self.strides[int(rng.integers(len(shape)))] = 0
        self.offset = int(rng.integers(1, 4)) if layout == "misaligned" else 0
        self.flipped = int(rng.integers(len(shape))) if layout == "reversed" and shape else None
        reach = sum((n - 1) * s for n, s in zip(shape, self.strides, strict=True) if n > 0)
        self.buffer = values(max(1, reach + 1 + self.offset + 3)).astype(element(dtype))
        self.before = self.buffer.copy()

    @property
    def numpy(self):
        size = self.buffer.itemsize
        strides = [s * size for s in self.strides]
        view = np.ndarray(self.shape, self.buffer.dtype, self.buffer, self.offset * size, strides)
        return view if self.flipped is None else np.flip(view, self.flipped)

    def torch(self, device):
        """The same on a device; arrays that run backwards, which torch has none of, as they stand in memory."""
        import torch

        raw = torch.from_numpy(self.buffer.view(np.uint8).copy()).to(device)
        self.moved = raw.view(getattr(torch, self.dtype))
        self.flipped = None
        return self.moved.as_strided(self.shape, self.strides, self.offset)

    def back(self):
        """Take over what a device has written."""
        import torch

        self.buffer = self.moved.view(torch.uint8).cpu().numpy().view(self.buffer.dtype)

    @property
    def outside_is_as_before(self):
        mask = np.ones(self.buffer.shape, bool)
        np.ndarray(self.shape, bool, mask, self.offset, self.strides)[...] = False
        same = self.buffer.view(np.uint8) == self.before.view(np.uint8)
        return bool(same.reshape(len(mask), -1)[mask].all())


@dataclass
class RandomCall:
    """Arguments of a call; arrays are `Array`s. `full`: the result's shape with the axes that vectors lack."""

    a: Array
    b: Array
    out: Array | None
    options: dict[str, Any]
    parts: list[tuple[str, Any]]
    out_dtype: str
    full: tuple[int, ...]

    def __str__(self):
        options = {
            n: v if not isinstance(v, Array) else (v.shape, v.dtype)
            for n, v in self.options.items()
        }
        steps = [kind for kind, _ in self.parts]
        return f"{self.a.dtype} {self.b.dtype} {self.full} k={self.a.shape} out={self.out_dtype} {steps} {options}"

    def arguments(self, give):
        """Operands, result and options with `give(array)` for every array."""
        options = {n: give(v) if isinstance(v, Array) else v for n, v in self.options.items()}
        parts = []
        for kind, value in self.parts:
            arrays = [give(x) if isinstance(x, Array) else x for x in value]
            parts.append(_part(kind, arrays))
        if parts:
            options["epilogue"] = parts[0] if len(parts) == 1 else parts
        return give(self.a), give(self.b), None if self.out is None else give(self.out), options


def _part(kind, x):
    if kind in ("bias n", "bias m"):
        return E.bias(x[0], kind[-1])
    if kind in ("scale n", "scale m"):
        return E.scale(x[0], kind[-1])
    makers = {
        "residual": E.residual, "scale": E.scale, "scale array": E.scale, "cast": lambda t: E.cast(getattr(tl, t)),
        "leaky": E.leaky_relu, "gated": lambda *y: E.apply(gated, *y), "clipped": lambda *y: E.apply(clipped, *y),
        "function": lambda: leaky_of_the_user,
    }  # fmt: skip
    return makers[kind](*x) if kind in makers else kind


#: name: (function, largest slope)
SMOOTH = {
    "silu": (lambda x: x / (1 + np.exp(-np.clip(x, -700, None))), 1.1),
    "gelu": (lambda x: x * 0.5 * (1 + _erf(x * math.sqrt(0.5))) if x.size else x, 1.13),
    "gelu_tanh": (
        lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), 1.13,
    ),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-np.clip(x, -700, None))), 0.25),
    "tanh": (np.tanh, 1.0),
}  # fmt: skip
SHARP = {
    "relu": (lambda x: np.maximum(x, 0), 1.0),
    "leaky_relu": (lambda x: np.where(x >= 0, x, 0.01 * x), 1.0),
    "function": (lambda x: np.where(x > 0, x, 0.25 * x), 1.0),
}
LAYOUTS = (
    "row",
    "row",
    "row",
    "column",
    "pitch",
    "gaps",
    "any",
    "broadcast",
    "misaligned",
    "reversed",
)


class _Maker:
    def __init__(self, seed, sizes):
        self.rng, self.sizes = np.random.default_rng(seed), sizes

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, p):
        return bool(self.rng.random() < p)

    def array(self, shape, dtype, layouts=LAYOUTS):
        def values(count):
            if dtype in INTEGERS:
                return self.rng.integers(0 if dtype[0] == "u" else -9, 10, count)
            found = self.rng.standard_normal(count).astype(np.float32)
            if self.nonfinite and count:
                for x in (np.inf, -np.inf, np.nan):
                    found[self.rng.integers(count)] = x
            return found

        return Array(self.rng, shape, dtype, self.pick(*layouts), values)

    def broadcast_shape(self, shape):
        """A shape that broadcasts to `shape`."""
        found = [1 if self.chance(0.25) else n for n in shape]
        return (
            tuple(found[int(self.rng.integers(len(found) + 1)) :])
            if self.chance(0.3)
            else tuple(found)
        )

    def call(self):
        kinds = [(x, x) for x in (*FLOATS, "float16", "bfloat16", *INTEGERS)]
        left, right = self.pick(*kinds, ("float8_e4m3fn", "float8_e5m2"))
        self.integers = left in INTEGERS
        self.nonfinite = not self.integers and self.chance(0.1)
        m, n, k = (int(self.pick(*self.sizes)) for _ in range(3))
        batch = self.pick((), (), (), (3,), (2, 3), (1,), (4, 1, 2))
        lead_a, lead_b = self._batches(batch), self._batches(batch)
        shape_a, shape_b = (*lead_a, m, k), (*lead_b, k, n)
        options: dict[str, Any] = {}
        drop = []
        if not lead_a and self.chance(0.1):
            shape_a, m = (k,), 1
            drop.append(-2)
        elif self.chance(0.2):
            shape_a, options["trans_a"] = (*lead_a, k, m), True
        if not lead_b and self.chance(0.1):
            shape_b, n = (k,), 1
            drop.append(-1)
        elif self.chance(0.2):
            shape_b, options["trans_b"] = (*lead_b, n, k), True
        a, b = self.array(shape_a, left), self.array(shape_b, right)
        full = (*np.broadcast_shapes(lead_a, lead_b), m, n)
        steps = self._steps(full, left, options)
        out_dtype = self._out_dtype(left, options)
        out = None
        if self.chance(0.3) or options.get("accumulate") is True:
            shown = tuple(x for i, x in enumerate(full) if i - len(full) not in drop)
            layouts = ("row", "column", "pitch", "gaps", "any", "misaligned", "reversed")
            out = self.array(shown, out_dtype, layouts)
            options.pop("out_dtype", None)
        return RandomCall(a, b, out, options, steps, out_dtype, full)

    def _batches(self, batch):
        if self.chance(0.3):
            return ()
        return tuple(1 if self.chance(0.2) else x for x in batch)

    def _steps(self, full, dtype, options):
        other = lambda: dtype if self.chance(0.7) else self.pick("float32", "float16", "bfloat16")
        if self.chance(0.3):
            options["alpha"] = self.pick(0.5, 2.0, -1.0, 0.0)
        if self.chance(0.2):
            options |= {
                "c": self.array(self.broadcast_shape(full), other()),
                "beta": self.pick(1.0, 2.0, -0.5),
            }
        elif self.chance(0.1):
            options |= {"accumulate": True, "beta": self.pick(1.0, 0.5)}
        elif dtype == "float16" and not self.nonfinite and self.chance(0.2):
            options["accumulate"] = tl.float16
        if dtype == "float32" and self.chance(0.3):
            options["precision"] = self.pick("tf32", "bf16x6", "tf32x3")
        steps = []
        names = [*SHARP, "bias n", "bias m", "residual", "scale", "scale n", "scale m", "scale array", "cast", "leaky",
                 "clipped"]  # fmt: skip
        if not self.nonfinite:
            names += [*SMOOTH, "gated"]
        for _ in range(int(self.pick(0, 0, 1, 1, 2, 3, 5))):
            kind = str(self.pick(*names))
            if kind in SMOOTH or kind in SHARP:
                steps.append((kind, ()))
            elif kind == "scale":
                steps.append((kind, (self.pick(0.75, -2.0),)))
            elif kind == "leaky":
                steps.append((kind, (self.pick(0.2, 0.0),)))
            elif kind == "cast":
                steps.append((kind, (self.pick("float16", "bfloat16", "float32"),)))
            elif kind[-2:] in (" m", " n"):
                lead = full[:-2] if self.chance(0.3) else ()
                steps.append(
                    (kind, (self.array((*lead, full[-1 if kind[-1] == "n" else -2]), other()),))
                )
            else:
                count = 2 if kind == "gated" else 1
                arrays = tuple(
                    self.array(self.broadcast_shape(full) or (1,), other()) for _ in range(count)
                )
                steps.append((kind, arrays))
        return steps

    def _out_dtype(self, left, options):
        usual = {"float8_e4m3fn": "float16", "float8_e5m2": "float16", "int64": "int64"}.get(left)
        usual = usual or ("int32" if self.integers else left)
        if not self.chance(0.3):
            return usual
        # a float result of integers is exact; integers of what is not an integer would depend on the last bit
        found = self.pick("float32", "float64", "float16", "bfloat16")
        options["out_dtype"] = np.dtype(found) if found != "bfloat16" else element(found)
        return found


def random_call(seed, sizes):
    """A call that `seed` decides, with extents among `sizes`."""
    return _Maker(seed, sizes).call()


def reference(call, matmul=np.matmul):
    """The result, by `matmul` of float64 arrays, and the error that it may have; before the call, which may write to
    what is read."""
    a, b = (x.numpy.astype(np.float64) for x in (call.a, call.b))
    o = call.options
    k = a.shape[-1]
    if o.get("trans_a") and a.ndim > 1:
        a, k = np.swapaxes(a, -1, -2), a.shape[-2]
    if o.get("trans_b") and b.ndim > 1:
        b = np.swapaxes(b, -1, -2)
    a = a[None] if a.ndim == 1 else a
    b = b[:, None] if b.ndim == 1 else b
    with np.errstate(all="ignore"):
        x, size = matmul(a, b), matmul(np.abs(a), np.abs(b))
        eps = {"float64": 2.0**-53}.get(call.a.dtype, 2.0**-24)
        if call.a.dtype in INTEGERS:
            eps = 0.0
        eps = 2.0**-11 if o.get("accumulate") is tl.float16 else eps
        # tensor cores keep two bits less than fp32 while they add up the products of one instruction
        bound = eps * size * 4 * (k + 2)
        if o.get("precision") == "tf32":
            bound = bound + size * 2.0**-9  # wgmma drops the low 13 bits of each operand
        if call.a.dtype.startswith("float8"):
            bound = bound + size * 2.0**-13  # fp8 units add in 14 bits
        unit = 2.0**-53 if call.a.dtype == "float64" else 2.0**-24
        return _epilogue(call, x, bound, unit)


def _epilogue(call, x, bound, unit):
    o = call.options

    def rounded(x, bound, kind=None):
        eps, least, _ = (unit, 0, 0) if kind is None else ROUNDING[kind]
        return x, bound + eps * (np.abs(x) + bound) * 2 + least

    if "alpha" in o:
        x, bound = rounded(x * o["alpha"], bound * abs(o["alpha"]))
    c = call.out if o.get("accumulate") is True else o.get("c")
    if c is not None:
        old = c.numpy.astype(np.float64)
        old = old.reshape(call.full) if c is call.out else old
        x = x + o.get("beta", 1.0) * old
        x, bound = rounded(x, bound + unit * 2 * np.abs(old))
    x, bound = np.broadcast_to(x, call.full), np.broadcast_to(bound, call.full)
    for kind, value in call.parts:
        arrays = [y.numpy.astype(np.float64) if isinstance(y, Array) else y for y in value]
        if kind[-2:] == " m":
            arrays = [arrays[0][..., None]]
        elif kind[-2:] == " n":
            arrays = [arrays[0][..., None, :]]
        x, bound = rounded(
            *_step(kind, x, bound, arrays, unit), arrays[0] if kind == "cast" else None
        )
        if kind == "cast":
            x = np.where(np.abs(x) > ROUNDING[arrays[0]][2], np.copysign(np.inf, x), x)
    return rounded(x, bound, call.out_dtype if call.out_dtype in ROUNDING else None)


def _step(kind, x, bound, arrays, unit):
    if kind in SHARP or kind in SMOOTH:
        function, slope = (SHARP | SMOOTH)[kind]
        return function(x), bound * slope + 8 * unit * (np.abs(x) + 1)
    y = arrays[0]
    if kind.startswith("bias") or kind == "residual":
        return x + y, bound + unit * np.abs(y)
    if kind.startswith("scale"):
        return x * y, bound * np.abs(y)
    if kind == "leaky":
        return np.where(x >= 0, x, x * y), bound
    if kind == "clipped":
        # in fp32; as the language's maximum, a number before NaN
        finite = [np.nan_to_num(v, posinf=0.0, neginf=0.0) for v in (bound, np.abs(x), np.abs(y))]
        return np.fmax(x, y), finite[0] + 2.0**-23 * (finite[1] + finite[2])
    if kind == "gated":
        return x / (1 + np.exp(-y)) + arrays[1], bound + 2.0**-20 * (np.abs(x) + np.abs(arrays[1]))
    return x, bound  # a cast: rounded by the caller


def compare(call, result, value, bound):
    """A sentence about what is wrong with `result` (NumPy), or nothing; `value`, `bound`: what `reference` gave."""
    value, bound = (v.reshape(result.shape) for v in np.broadcast_arrays(value, bound))
    found = result.astype(np.float64)
    with np.errstate(all="ignore"):
        if call.out_dtype in INTEGERS:  # cut off after the point, where rounding does not reach
            beyond = np.abs(value) >= 2.0 ** (8 * element(call.out_dtype).itemsize - 1)
            close = np.abs(value - np.round(value)) <= bound
            ok = (
                beyond
                | np.isnan(value)
                | np.where(close, np.abs(found - value) <= 1 + bound, found == np.trunc(value))
            )
        else:
            most = ROUNDING[call.out_dtype][2]
            large = np.abs(value) + bound > most
            infinite = np.where(np.abs(value) > most, np.copysign(np.inf, value), value)
            same = (found == infinite) | (np.isnan(found) & np.isnan(value))
            same |= large & (np.abs(found) >= most) & (np.sign(found) == np.sign(value))
            ok = same | (np.abs(found - value) <= bound)
    if ok.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~ok)[0])
    return f"{int((~ok).sum())} of {ok.size} wrong, first {at}: {found[at]} not {value[at]} ± {bound[at]}"
