# ruff: noqa: E402, F841, PERF401, SIM105, SIM115
"""Kernels with one common mistake each. The golden files show what is said about them."""

from tilewright import language as tl
from tilewright.language.kernel_function import KernelFunction as jit


@jit
def arange_not_a_power_of_two(x_ptr):
    offs = tl.arange(0, 100)
    tl.store(x_ptr + offs, offs)


@jit
def int_accumulator_becomes_float(x_ptr, n):
    acc = 0
    for i in range(n):
        acc += tl.load(x_ptr + i)
    tl.store(x_ptr, acc)


@jit
def set_inside_the_loop_used_after(x_ptr, n):
    for i in range(n):
        v = tl.load(x_ptr + i)
    tl.store(x_ptr, v)


@jit
def set_in_one_branch(x_ptr, n):
    if n > 3:
        v = 1.0
    tl.store(x_ptr, v)


@jit
def index_out_of_range(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 8))
    tl.store(x_ptr, x[8])


@jit
def slice_not_a_power_of_two(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr + tl.arange(0, 8), x[:7])


@jit
def runtime_slice(x_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr + tl.arange(0, 16), x[:n])


@jit
def loop_over_a_tensor(x_ptr):
    for v in tl.load(x_ptr + tl.arange(0, 16)):
        tl.store(x_ptr, v)


@jit
def index_used_after_its_loop(x_ptr, n):
    for x_ptr in range(n):
        tl.device_print("index", x_ptr)
    tl.store(x_ptr, 1.0)


@jit
def float_bound(x_ptr, n):
    for i in range(n / 2):
        tl.store(x_ptr + i, 1.0)


@jit
def constant_of_a_runtime_value(x_ptr, n):
    SIZE: tl.constexpr = n * 2
    tl.store(x_ptr + tl.arange(0, SIZE), 1.0)


@jit
def wrong_arguments_of_a_helper(x_ptr, n):
    tl.store(x_ptr, _needs_constexpr(n, 3))


@jit
def none_in_one_branch(x_ptr, n):
    mask = None
    if n > 3:
        mask = tl.arange(0, 16) < n
    tl.store(x_ptr + tl.arange(0, 16), 1.0, mask=mask)


@jit
def unknown_method(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).summ())


@jit
def division_by_zero(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, BLOCK // (BLOCK - 24))


TABLE = [1, 2, 3]


@jit
def global_list(x_ptr):
    tl.store(x_ptr, TABLE[1])


@jit
def keyword_and_star(*pointers):
    tl.store(pointers[0], 1.0)


@jit
def item_assignment(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    x[0] = 1.0
    tl.store(x_ptr + tl.arange(0, 16), x)


@jit
def tile_as_condition(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    if x > 0:
        tl.store(x_ptr, 1.0)


@jit
def shapes_do_not_match(x_ptr, y_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    y = tl.load(y_ptr + tl.arange(0, 32))
    tl.store(x_ptr + tl.arange(0, 16), x + y)


@jit
def runtime_shape(x_ptr, n):
    acc = tl.zeros((n,), dtype=tl.float32)
    tl.store(x_ptr + tl.arange(0, 16), acc)


@jit
def runtime_arange(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, n), 1.0)


@jit
def _helper(x):
    return tl.exponential(x)


@jit
def unknown_function_in_helper(x_ptr):
    x = tl.load(x_ptr)
    y = _helper(x)
    tl.store(x_ptr, y)


@jit
def unknown_name(x_ptr):
    value = tl.load(x_ptr)
    tl.store(x_ptr, valeu)  # noqa: F821


@jit
def unknown_keyword(x_ptr):
    tl.load(x_ptr, msk=True)


def _plain(x):
    return x + 1


@jit
def plain_function_on_a_tensor(x_ptr):
    tl.store(x_ptr, _plain(tl.load(x_ptr)))


@jit
def return_from_kernel(x_ptr):
    return tl.load(x_ptr)


@jit
def branches_disagree(x_ptr, n):
    if n > 3:
        v = tl.load(x_ptr)
    else:
        v = tl.load(x_ptr + tl.arange(0, 8))
    tl.store(x_ptr, tl.sum(v, 0))


@jit
def loop_changes_shape(x_ptr, n):
    acc = tl.load(x_ptr)
    for i in range(n):
        acc = acc + tl.load(x_ptr + tl.arange(0, 16) + i)
    tl.store(x_ptr + tl.arange(0, 16), acc)


@jit
def constexpr_parameter_at_run_time(x_ptr, n):
    tl.store(x_ptr, _needs_constexpr(n))


@jit
def _needs_constexpr(N: tl.constexpr):
    return tl.sum(tl.arange(0, N))


@jit
def a_type_of_other_chips(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).to(tl.float8e4b8).to(tl.float32))


@jit
def endless_loop(x_ptr):
    while True:
        tl.store(x_ptr, 1.0)


@jit
def endless_recursion(x_ptr):
    tl.store(x_ptr, _calls_itself(tl.load(x_ptr)))


@jit
def _calls_itself(x):
    return _calls_itself(x) + 1


@jit
def try_statement(x_ptr):
    try:
        tl.store(x_ptr, 1.0)
    except ValueError:
        pass


@jit
def lambda_expression(x_ptr):
    f = lambda v: v + 1
    tl.store(x_ptr, f(1.0))


@jit
def static_assert_fails(x_ptr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 16 == 0, "BLOCK must be a multiple of 16")
    tl.store(x_ptr, 1.0)


@jit
def f_string_of_a_tensor(x_ptr, n):
    tl.device_print(f"n is {n}")


@jit
def store_through_an_integer(n):
    tl.store(n, 1.0)


@jit
def wrong_dot_shapes(x_ptr):
    a = tl.zeros((16, 32), tl.float32)
    b = tl.zeros((16, 32), tl.float32)
    tl.store(x_ptr, tl.sum(tl.sum(tl.dot(a, b), 0), 0))


@jit
def wide_characters(x_ptr):
    数 = tl.load(x_ptr + tl.arange(0, 16)); tl.store(x_ptr, 数 + tl.arange(0, 32))  # noqa: E702  # fmt: skip


@jit
def host_function(x_ptr):
    tl.store(x_ptr, len(open("data.txt").read()))


import numpy as np  # here, so that the lines above keep their numbers


@jit
def function_of_numpy(x_ptr):
    tl.store(x_ptr, np.exp(tl.load(x_ptr)))


@jit
def function_of_numpy_unlike_any(x_ptr):
    tl.store(x_ptr, np.trapezoid(tl.load(x_ptr)))


@jit
def list_that_grows(x_ptr):
    parts = []
    for i in tl.static_range(4):
        parts.append(tl.load(x_ptr + i))
    tl.store(x_ptr, parts[0])


@jit
def dot_of_integers_and_floats(x_ptr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i[:, None] * 16 + i[None, :])
    tl.store(x_ptr, tl.sum(tl.dot(x.to(tl.int8), x)))


@jit
def name_that_the_language_lacks(x_ptr):
    tl.store(x_ptr, tl.gelu(tl.load(x_ptr)))


@jit
def shape_of_a_pointer(x_ptr):
    tl.store(x_ptr, x_ptr.shape[0])


@jit
def stride_of_a_pointer(x_ptr):
    tl.store(x_ptr, x_ptr.stride(0))


@jit
def index_of_a_pointer(x_ptr):
    i = tl.arange(0, 16)
    tl.store(x_ptr + i, x_ptr[i] + 1)


@jit
def vector_for_a_column(x_ptr):
    i = tl.arange(0, 16)
    tl.store(x_ptr + i[:, None] * 32 + tl.arange(0, 32), tl.broadcast_to(i, (16, 32)))


@jit
def type_of_numpy(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).to(np.float16))


@jit
def number_for_a_mask(x_ptr):
    i = tl.arange(0, 16)
    tl.store(x_ptr + i, tl.load(x_ptr + i, 16))


@jit
def strides_of_a_descriptor(x_ptr):
    desc = tl.make_tensor_descriptor(x_ptr, [16, 16], [16], [8, 8])
    tl.store(x_ptr, tl.sum(desc.load([0, 0])))


@jit
def type_of_python(x_ptr):
    tl.store(x_ptr + tl.arange(0, 16), tl.zeros((16,), tl.float))


@jit
def shapes_of_a_conditional_expression(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    for i in range(5):
        x = x.reshape(4, 4) if i == 3 else x


@jit
def array_given_for_a_number(x_ptr, n_ptr):
    offsets = tl.arange(0, 16)
    tl.store(x_ptr + offsets, 1.0, mask=offsets < n_ptr)


@jit
def tile_equals_none(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    if x == None:  # noqa: E711
        x = 0.0
    tl.store(x_ptr + tl.arange(0, 16), x)


@jit
def pointer_differs_from_none(x_ptr):
    if x_ptr != None:  # noqa: E711
        tl.store(x_ptr, 1.0)


@jit
def tile_equals_text(x_ptr):
    tl.store(x_ptr, tl.where(tl.load(x_ptr) == "relu", 1.0, 0.0))


@jit
def block_pointer_moved_by_a_sum(x_ptr):
    p = tl.make_block_ptr(x_ptr, (8, 8), (8, 1), (0, 0), (8, 8), (1, 0))
    p += 8
    tl.store(p, tl.load(p))


@jit
def sort_of_the_first_dimension(x_ptr):
    offsets = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    tl.store(x_ptr + offsets, tl.sort(tl.load(x_ptr + offsets), dim=0))


@jit
def cdiv_by_none(x_ptr, n):
    tl.store(x_ptr, tl.cdiv(n, None))


@jit
def cdiv_by_zero(x_ptr):
    tl.store(x_ptr, tl.cdiv(8, 0))


@jit
def tuples_subtracted(x_ptr, n):
    tl.store(x_ptr, (n, 1) - (1, 1))


@jit
def slice_by_tuple(x_ptr):
    x = tl.load(x_ptr + tl.arange(0, 16))
    tl.store(x_ptr, x[(0, 1) :])


@jit
def zeros_like_a_pointer(x_ptr):
    tl.store(x_ptr, tl.zeros_like(x_ptr))


@jit
def abs_of_a_tuple(x_ptr, n):
    tl.store(x_ptr, abs((n, 1)))


@jit
def max_of_a_tuple_and_a_number(x_ptr):
    tl.store(x_ptr, max((1, 2), 1))


@jit
def extern_call_without_a_table(x_ptr, n):
    tl.store(x_ptr, tl.extern_elementwise("libdevice", "", n, {}))


@jit
def hint_that_loops_lack(x_ptr, n):
    for i in tl.range(n, stages=3):
        tl.store(x_ptr + i, 1.0)


@jit
def assignment_through_a_pointer(x_ptr):
    i = tl.arange(0, 16)
    x_ptr[i] = 1.0


@jit
def reduction_along_a_dimension_too_many(x_ptr):
    tl.store(x_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, 16)), axis=1))


@jit
def else_of_a_loop(x_ptr, n):
    for i in range(n):
        if tl.load(x_ptr + i) > 0:
            break
    else:
        tl.store(x_ptr, 1.0)


@jit
def attribute_that_types_lack(x_ptr):
    tl.store(x_ptr, x_ptr.dtype.bits)
