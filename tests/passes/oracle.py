"""A second, slow meaning of tile IR: one lane at a time, every access bounds-checked.

It knows only what the programs of these tests use, shares no code with the interpreter or a back end,
and so tells whether a pass kept a program's results without trusting either.
"""

import numpy as np

from tilewright.dialects import tile
from tilewright.dialects.tile import PtrType, element_of, shape_of

TYPES = {"i1": np.bool_, "i8": np.int8, "i32": np.int32, "i64": np.int64, "f16": np.float16, "f32": np.float32}  # fmt: skip
SEGMENT = 1 << 40  # addresses of buffer k start at k * SEGMENT
ENDS = ("scf.yield", "scf.condition", "tile.yield", "func.return")


class OutOfBounds(Exception):
    """A lane reads or writes outside every buffer."""


def dtype_of(value):
    element = element_of(value)
    return np.int64 if isinstance(element, PtrType) else TYPES[str(element)]


def execute(module, arguments, grid):
    """Run the module's function for every program of `grid` on copies of the array arguments.

    An array argument, or a pair (array, first element), is a pointer; anything else a scalar. Returns
    the arrays after the run.
    """
    function = module.body.block.first_op
    buffers, values = [], []
    for argument, parameter in zip(arguments, function.body.block.args, strict=True):
        array, first = argument if isinstance(argument, tuple) else (argument, 0)
        if isinstance(array, np.ndarray):
            values.append(np.array(len(buffers) * SEGMENT + first * array.itemsize))
            buffers.append(array.copy())
        else:
            values.append(np.array(array).astype(dtype_of(parameter)))
    for z, y, x in np.ndindex(*reversed(grid)):
        program = Program(buffers, (x, y, z), grid)
        program.block(function.body.block, dict(zip(function.body.block.args, values, strict=True)))
    return buffers


def truncated_division(a, b):
    a, b = a.astype(np.int64), np.where(b == 0, 1, b).astype(np.int64)
    quotient = np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)
    return quotient, a - quotient * b


def unsigned(a):
    return a.astype({1: np.uint8, 4: np.uint32, 8: np.uint64}[a.itemsize])


BINARY = {
    "addi": np.add, "addf": np.add, "subi": np.subtract, "subf": np.subtract,
    "muli": np.multiply, "mulf": np.multiply, "divf": np.divide, "andi": np.bitwise_and,
    "ori": np.bitwise_or, "xori": np.bitwise_xor, "minsi": np.minimum, "maxsi": np.maximum, "maximumf": np.maximum,
    "maxnumf": np.fmax,
    "divsi": lambda a, b: truncated_division(a, b)[0],
    "remsi": lambda a, b: truncated_division(a, b)[1],
    "divui": lambda a, b: unsigned(a) // np.maximum(unsigned(b), 1),
}  # fmt: skip
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}  # fmt: skip
CASTS = ("extsi", "trunci", "sitofp", "extf", "truncf")


class Program:
    def __init__(self, buffers, ids, grid):
        self.buffers, self.ids, self.grid = buffers, ids, grid

    def block(self, block, env):
        """Execute a block; what its terminator yields."""
        for op in block.ops:
            if op.name in ENDS:
                return [env[v] for v in op.operands]
            values = self.op(op, env)
            for result, value in zip(op.results, values, strict=True):
                assert np.shape(value) == shape_of(result), (op.name, np.shape(value))
                env[result] = np.asarray(value).astype(dtype_of(result))
        raise AssertionError("no terminator")

    def op(self, op, env):
        operands = [env[v] for v in op.operands]
        dialect, _, name = op.name.partition(".")
        if name == "constant":
            return [np.array(op.value.value.data)]
        with np.errstate(all="ignore"):
            if dialect == "arith" and name in BINARY:
                return [BINARY[name](*operands)]
            if dialect == "arith" and name in CASTS:
                return [operands[0]]  # the caller converts
            if name == "extui":
                return [unsigned(operands[0])]
            if op.name == "math.exp":
                return [np.exp(operands[0])]
        found = getattr(self, f"{dialect}_{name}")(op, env, *operands)
        return found if isinstance(found, list) else [found]

    # ---- values ----------------------------------------------------------------------------------

    def tile_program_id(self, op, env):
        return self.ids[op.axis.value.data]

    def tile_arange(self, op, env):
        return np.arange(op.start.value.data, op.end.value.data)

    def tile_splat(self, op, env, x):
        return np.full(shape_of(op.result), x)

    def tile_broadcast(self, op, env, x):
        return np.broadcast_to(x, shape_of(op.result))

    def tile_expand_dims(self, op, env, x):
        return np.expand_dims(x, op.axis.value.data)

    def tile_reshape(self, op, env, x):
        return x.reshape(shape_of(op.result))

    def tile_trans(self, op, env, x):
        return np.transpose(x, op.permutation)

    def tile_hint(self, op, env, x):
        return x

    def tile_cmpi(self, op, env, a, b):
        predicate = op.predicate.data
        if predicate.startswith("u"):
            a, b = unsigned(a), unsigned(b)
        return COMPARE[predicate[-2:]](a, b)

    def tile_cmpf(self, op, env, a, b):
        return COMPARE[op.predicate.data[1:]](a, b)

    def tile_select(self, op, env, condition, a, b):
        return np.where(condition, a, b)

    def tile_addptr(self, op, env, pointer, offset):
        size = np.dtype(TYPES[str(element_of(op.pointer).pointee)]).itemsize
        return pointer + offset.astype(np.int64) * size

    def tile_dot(self, op, env, a, b, c):
        return c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)

    def tile_reduce(self, op, env, x):
        x = np.moveaxis(x, op.axis.value.data, 0)
        total = np.array(x[0])
        block = op.combine.block
        for row in x[1:]:
            for lane in np.ndindex(total.shape):
                inner = {**env, block.args[0]: total[lane], block.args[1]: row[lane]}
                total[lane] = self.block(block, inner)[0]
        return total

    # ---- memory ----------------------------------------------------------------------------------

    def element(self, address):
        number, rest = divmod(int(address) + SEGMENT // 2, SEGMENT)
        buffer = self.buffers[number] if 0 <= number < len(self.buffers) else np.empty(0)
        index = (rest - SEGMENT // 2) // max(buffer.itemsize, 1)
        if not 0 <= index < buffer.size:
            raise OutOfBounds(f"element {index} of {buffer.size}")
        return buffer, index

    def read(self, addresses, lanes, other, kind):
        out = np.array(np.broadcast_to(other, addresses.shape), dtype=kind)
        for lane in np.argwhere(lanes):
            buffer, index = self.element(addresses[tuple(lane)])
            out[tuple(lane)] = buffer[index]
        return out

    def write(self, addresses, lanes, values):
        for lane in np.argwhere(lanes):
            buffer, index = self.element(addresses[tuple(lane)])
            buffer[index] = values[tuple(lane)]
        return []

    def tile_load(self, op, env, pointers, *rest):
        lanes = env[op.mask] if op.mask else np.ones(pointers.shape, bool)
        other = env[op.other] if op.other else 0
        return self.read(pointers, lanes, other, dtype_of(op.result))

    def tile_store(self, op, env, pointers, values, *rest):
        lanes = env[op.mask] if op.mask else np.ones(pointers.shape, bool)
        return self.write(pointers, lanes, values)

    def view(self, op, shape, env):
        """Addresses and lanes of a view, by the words of the dialect."""
        starts, sizes, indices = ([env[v] for v in group] for group in (op.starts, op.sizes, op.indices))  # fmt: skip
        limits, lanes, total = tile.view_limits(op), np.ones(shape, bool), np.zeros(shape, np.int64)
        for d, kind in enumerate(tile.view_kinds(op)):
            i = np.arange(shape[d], dtype=np.int64)
            along = [-1 if k == d else 1 for k in range(len(shape))]
            if kind == "strided":
                term = i * env[op.strides[d]]
            elif kind == "wrapped":
                start, size = starts.pop(0), sizes.pop(0)
                assert start >= 0 and size > 0, (start, size)
                term = (start + i) % size * env[op.strides[d]]
            else:
                term = indices.pop(0)
            total = total + term.reshape(along)
            if d in limits:
                lanes = lanes & (i < env[limits[d]]).reshape(along)
        if op.mask is not None:
            lanes = lanes & env[op.mask]
        size = np.dtype(TYPES[str(element_of(op.base).pointee)]).itemsize
        return env[op.base] + total * size, lanes

    def tile_load_view(self, op, env, *rest):
        addresses, lanes = self.view(op, shape_of(op.result), env)
        other = env[op.other] if op.other is not None else 0
        return self.read(addresses, lanes, other, dtype_of(op.result))

    def tile_store_view(self, op, env, *rest):
        return self.write(*self.view(op, shape_of(op.value), env), env[op.value])

    # ---- control ---------------------------------------------------------------------------------

    def scf_if(self, op, env, condition):
        region = op.true_region if condition else op.false_region
        return self.block(region.block, env) if region.blocks else []

    def scf_for(self, op, env, lower, upper, step, *carried):
        block = op.body.block
        for i in range(int(lower), int(upper), int(step)):
            env[block.args[0]] = np.array(i).astype(dtype_of(block.args[0]))
            env.update(zip(block.args[1:], carried, strict=True))
            carried = self.block(block, env)
        return list(carried)

    def scf_while(self, op, env, *carried):
        while True:
            env.update(zip(op.before_region.block.args, carried, strict=True))
            condition, *carried = self.block(op.before_region.block, env)
            if not condition:
                return carried
            env.update(zip(op.after_region.block.args, carried, strict=True))
            carried = self.block(op.after_region.block, env)
