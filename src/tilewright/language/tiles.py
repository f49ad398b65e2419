"""Programs and tiles: creation, conversion, shapes, products, hints and debugging."""

from __future__ import annotations

from typing import Any

from tilewright.language.builtin import builtin, stub_like

# ---- program -----------------------------------------------------------------------------------


@builtin()
def program_id(axis: Any) -> Any:
    """int32 index of this program along grid axis 0, 1 or 2 (a constant)."""


num_programs = stub_like(
    program_id, "num_programs", "int32 extent of grid axis 0, 1 or 2 (a constant)."
)
# ---- creation ----------------------------------------------------------------------------------


@builtin()
def arange(start: Any, end: Any) -> Any:
    """int32 tile `[start, start+1, …, end-1]`; both constants, length a power of two."""


@builtin()
def full(shape: Any, value: Any, dtype: Any) -> Any:
    """A tile of constant `shape` whose elements are the scalar `value`, converted to `dtype`."""


@builtin()
def zeros(shape: Any, dtype: Any) -> Any:
    """A tile of zeros of constant `shape`."""


@builtin()
def zeros_like(input: Any) -> Any:
    """Zeros with the shape and type of `input`."""


@builtin()
def full_like(input: Any, value: Any) -> Any:
    """The scalar `value` with the shape and type of `input`."""


@builtin()
def cast(input: Any, dtype: Any, fp_downcast_rounding: Any = None, bitcast: Any = False) -> Any:
    """`input` converted to `dtype`; also the method `x.to(dtype)`.

    Floats round to nearest even; `fp_downcast_rounding="rtz"` rounds towards zero. Float to int
    truncates. `bitcast=True` reinterprets the bits; both types then have one width.
    """


@builtin()
def cat(input: Any, other: Any, can_reorder: Any = False, dim: Any = 0) -> Any:
    """Two tiles one after the other along `dim`; `can_reorder` is ignored."""


# ---- shapes ------------------------------------------------------------------------------------


@builtin()
def broadcast(input: Any, other: Any) -> Any:
    """The pair of both tiles in their common shape."""


@builtin()
def broadcast_to(input: Any, *shape: Any) -> Any:
    """`input` repeated to `shape` (given as numbers or one tuple)."""


@builtin()
def expand_dims(input: Any, axis: Any) -> Any:
    """Insert an extent of 1 at `axis` (an int, or a tuple of them) of the result."""


@builtin()
def unsqueeze(input: Any, dim: Any) -> Any:
    """Insert an extent of 1 at `dim`."""


@builtin()
def squeeze(input: Any, dim: Any) -> Any:
    """Drop dimension `dim`, whose extent is 1."""


@builtin()
def reshape(input: Any, *shape: Any, can_reorder: Any = False) -> Any:
    """The same elements in row-major order with other extents; `can_reorder` is ignored."""


@builtin()
def view(input: Any, *shape: Any) -> Any:
    """Old name of `reshape`."""


@builtin()
def ravel(x: Any, can_reorder: Any = False) -> Any:
    """All elements as one dimension, in row-major order."""


@builtin()
def trans(input: Any, *dims: Any) -> Any:
    """Permute dimensions by `dims`; without them swap the last two (also `x.T`)."""


@builtin()
def permute(input: Any, *dims: Any) -> Any:
    """Dimension d of the result is dimension `dims[d]` of `input`."""


@builtin()
def join(a: Any, b: Any) -> Any:
    """Two tiles of one shape into a new last dimension of extent 2."""


@builtin()
def split(a: Any) -> Any:
    """The two halves of a last dimension of extent 2: the reverse of `join`."""


@builtin()
def interleave(a: Any, b: Any) -> Any:
    """Elements of `a` and `b` in turn along the last dimension."""


@builtin()
def flip(x: Any, dim: Any = None) -> Any:
    """Elements in reverse order along `dim` (default: the last)."""


@builtin()
def gather(src: Any, index: Any, axis: Any) -> Any:
    """`result[i, j] = src[index[i, j], j]` for axis 0, and so on; indices are in range."""


@builtin()
def map_elementwise(scalar_fn: Any, *args: Any, pack: Any = 1) -> Any:
    """What `scalar_fn`, a kernel function of scalars, gives for each element of `args`, which broadcast.

    It only computes: `if`, `while`, helpers and arithmetic, no memory. Its tuple gives a tuple of tiles. With
    `pack` it takes that many neighbors of each argument, and gives as many of each result. Both sides of an `if`
    may be computed.
    """


@builtin()
def where(condition: Any, x: Any, y: Any) -> Any:
    """`x` where `condition` holds, `y` elsewhere; all three broadcast, both sides are evaluated."""


# ---- dots ----------------------------------------------------------------------------------


@builtin()
def dot(
    input: Any,
    other: Any,
    acc: Any = None,
    input_precision: Any = None,
    allow_tf32: Any = None,
    max_num_imprecise_acc: Any = None,
    out_dtype: Any = None,
    trans_a: Any = False,
    trans_b: Any = False,
) -> Any:
    """`input @ other + acc`: `[..., M, K]` times `[..., K, N]`, one element type.

    The result is fp32 (fp64 of fp64; fp16 of fp16 or fp8 when `out_dtype` or `acc` say so). Integers give
    int32 (int64 of 64 bits), also where `out_dtype` is the operands' type or fp32. `input_precision`: "ieee" (the default), "tf32", "tf32x3", "bf16x3", "bf16x6";
    `allow_tf32=True` is the old spelling of "tf32", `trans_a=True` that of `tl.trans(input)`.
    """


@builtin()
def dot_scaled(
    lhs: Any,
    lhs_scale: Any,
    lhs_format: Any,
    rhs: Any,
    rhs_scale: Any,
    rhs_format: Any,
    acc: Any = None,
    fast_math: Any = False,
    lhs_k_pack: Any = True,
    rhs_k_pack: Any = True,
    out_dtype: Any = None,
) -> Any:
    """Dot of microscaled (MX) tiles: (M, K) times (K, N), each element times its group's scale.

    Args:
        lhs, rhs: tiles of the format, or uint8 (uint16) with its bits; e2m1 holds two elements a byte,
            the even one low, along K or, with `k_pack=False`, along M or N.
        lhs_scale, rhs_scale: (M, K/group) and (N, K/group); uint8 powers of two (e8m0, 127 is 1), or
            fp8e4nv; None: no scales.
        lhs_format, rhs_format: "e2m1", "e4m3", "e5m2", "bf16" or "fp16".
        acc: start of the sum; out_dtype: its type, fp32.
        fast_math: a scale of 255 need not be NaN.

    Scaled elements are bf16, or fp16 if one of the formats is, and multiplied as `tl.dot` does.
    Source: OCP Microscaling Formats specification 1.0.
    """


# ---- hints -------------------------------------------------------------------------------------


@builtin()
def multiple_of(input: Any, values: Any) -> Any:
    """Promise that `input` (or the first of each run of lanes) is a multiple of `values`."""


max_contiguous = stub_like(
    multiple_of, "max_contiguous", "Promise that runs of `values` lanes are consecutive numbers."
)
max_constancy = stub_like(
    multiple_of, "max_constancy", "Promise that runs of `values` lanes are equal."
)


@builtin()
def assume(cond: Any) -> Any:
    """Promise that a scalar condition is true."""


@builtin()
def debug_barrier() -> Any:
    """Order this program's earlier memory accesses before its later ones."""


@builtin("loop_condition")
def condition(cond: Any, disable_licm: Any = False) -> Any:
    """`while tl.condition(c):` is `while c:`."""


# ---- debugging ---------------------------------------------------------------------------------


@builtin(host=print)
def static_print(*values: Any, sep: Any = " ", end: Any = "\n", **ignored: Any) -> Any:
    """Print while the kernel is compiled."""


@builtin()
def static_assert(cond: Any, msg: Any = "") -> Any:
    """Stop compilation with `msg` unless the constant `cond` is true."""


@builtin()
def device_print(prefix: Any, *args: Any, hex: Any = False) -> Any:
    """Print scalars and tiles from the running kernel, each line with its program and lane."""


@builtin()
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> Any:
    """Fault with `msg` when a lane of `cond` is false where `mask` holds; only in debug builds."""


@builtin()
def inline_asm_elementwise(
    asm: Any, constraints: Any, args: Any, dtype: Any, is_pure: Any = True, pack: Any = 1
) -> Any:
    """PTX on `pack` elements at a time; only NVIDIA GPUs run it.

    Args:
        asm: instructions, `$0`, `$1` … for registers, results first.
        constraints: a letter a register as in LLVM: "=r,r,r", "=f,f", "=l,l"…; "~{memory}".
        args: tensors, broadcast to one shape. Elements of less than 32 bits share a register.
        dtype: dtype of the result; a tuple of dtypes for several results.
        is_pure: whether it only computes; else it is done as often as written.
        pack: elements that one instance of `asm` works on.
    """


@builtin()
def extern_elementwise(
    lib_name: Any, lib_path: Any, args: Any, arg_type_symbol_dict: Any, is_pure: Any = True
) -> Any:
    """A function of libdevice: `arg_type_symbol_dict` maps dtypes of arguments to (symbol, dtype)."""
