"""Launches that are wrong in one way each; `test_launch_errors.py` holds what they say."""

import numpy as np

import tilewright as tw
import tilewright.language as tl

X, OUT = np.zeros(64, np.float32), np.zeros(64, np.float32)
LOCKED = np.zeros(64, np.float32)
LOCKED.flags.writeable = False


@tw.jit
def scale(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, x * factor, mask=offsets < n)


@tw.jit
def outer(x_ptr, y_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M))
    y = tl.load(y_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, M), x + y)


@tw.jit
def steps(x_ptr, step, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK) * step, 1.0)


@tw.autotune(configs=[tw.Config({"BLOCK": 32}), tw.Config({"BLOCK": 64})], key=["n"])
@tw.jit
def tuned(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * factor, mask=offsets < n)


class OnAnotherDevice:
    """As much of a tensor on an unknown accelerator as a launch looks at."""

    class device:
        type = "xpu"

        def __str__(self):
            return "xpu:0"

    device = device()
    dtype = np.dtype(np.float32)
    shape = (64,)

    def data_ptr(self):
        return 0xDEAD0000


def too_few_arguments():
    scale[(1,)](X, OUT, BLOCK=64)


def too_many_arguments():
    scale[(1,)](X, OUT, 64, 2.0, 64, 1)


def missing_constexpr():
    scale[(1,)](X, OUT, 64, 2.0)


def unknown_keyword():
    scale[(1,)](X, OUT, 64, 2.0, BLOK=64)


def list_for_an_array():
    scale[(1,)]([1.0], OUT, 64, 2.0, BLOCK=64)


def text_for_a_number():
    scale[(1,)](X, OUT, "64", 2.0, BLOCK=64)


def number_for_an_array():
    scale[(1,)](5, OUT, 64, 2.0, BLOCK=64)


def none_for_an_array():
    scale[(1,)](None, OUT, 64, 2.0, BLOCK=64)


def complex_array():
    scale[(1,)](X.astype(np.complex64), OUT, 64, 2.0, BLOCK=64)


def foreign_byte_order():
    scale[(1,)](X.astype(">f4"), OUT, 64, 2.0, BLOCK=64)


def integer_of_more_than_64_bits():
    scale[(1,)](X, OUT, 1 << 70, 2.0, BLOCK=64)


def array_for_a_constexpr():
    scale[(1,)](X, OUT, 64, 2.0, BLOCK=X)


def array_on_another_device():
    scale[(1,)](OnAnotherDevice(), OUT, 64, 2.0, BLOCK=64)


def read_only_output():
    scale[(1,)](X, LOCKED, 64, 2.0, BLOCK=64)


def float_as_offset():
    steps[(1,)](X, 0.5, BLOCK=64)


def block_not_a_power_of_two():
    scale[(1,)](X, OUT, 64, 2.0, BLOCK=100)


def shapes_that_do_not_match():
    outer[(1,)](X, X, OUT, M=32, N=16)


def no_grid():
    scale.run(X, OUT, 64, 2.0, BLOCK=64)


def empty_grid():
    scale[()](X, OUT, 64, 2.0, BLOCK=64)


def negative_grid():
    scale[(-1,)](X, OUT, 64, 2.0, BLOCK=64)


def four_dimensional_grid():
    scale[(1, 1, 1, 2)](X, OUT, 64, 2.0, BLOCK=64)


def float_grid():
    scale[(64 / 64,)](X, OUT, 64, 2.0, BLOCK=64)


def grid_function_gives_nothing():
    scale[lambda meta: None](X, OUT, 64, 2.0, BLOCK=64)


def host_call():
    scale(X, OUT, 64, 2.0, 64)


def tuned_parameter_given():
    tuned[(1,)](X, OUT, 64, 2.0, BLOCK=64)


def tuned_with_too_few_arguments():
    tuned[(1,)](X, OUT)


def types_without_one():
    scale.compile({"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}, {"BLOCK": 64})


def types_that_do_not_exist():
    scale.compile(x_ptr="*fp31", out_ptr="*fp32", n="i32", factor="fp32", BLOCK=64)


def types_with_options_that_do_not_fit():
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "factor": "fp32"}
    scale.compile(types, {"BLOCK": 64}, target="sm_90a", num_warps=3)


def unknown_option():
    types = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "factor": "fp32"}
    scale.compile(types, {"BLOCK": 64}, options={"num_warp": 4})


def warps_that_no_machine_has():
    scale[(1,)](X, OUT, 64, 2.0, BLOCK=64, num_warps=0)


def stages_below_zero():
    scale[(1,)](X, OUT, 64, 2.0, BLOCK=64, num_stages=-1)


def too_many_programs():
    scale[(2**31,)](X, OUT, 64, 2.0, BLOCK=64)


def lambda_for_a_kernel():
    tw.jit(lambda x_ptr: None)[(1,)](X)
