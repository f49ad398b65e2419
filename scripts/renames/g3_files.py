"""Group 3: files and modules."""

import ast
import re

from engine import symbols

SUBJECT = "[layout] Rename modules after what they compute, in the field's terms"
BODY = """Files only: no line of code changes but imports and paths in prose."""

MOVES = """
src/tilewright/passes/gpu/analysis/anchor_layouts.py anchor_layouts
src/tilewright/passes/gpu/analysis/loop_carried.py loop_carried
src/tilewright/passes/gpu/analysis/tma_tiles.py tma_tiles
src/tilewright/passes/gpu/analysis/tma_stores.py tma_stores
src/tilewright/passes/gpu/analysis/dot_chains.py dot_chains
src/tilewright/passes/gpu/analysis/loop_dots.py loop_dots
src/tilewright/passes/gpu/analysis/strip_plan.py strip_plan
src/tilewright/passes/gpu/analysis/strips.py strips
src/tilewright/passes/gpu/analysis/register_operands.py register_operands
src/tilewright/passes/gpu/analysis/cluster_loops.py cluster_loops
src/tilewright/passes/gpu/analysis/num_ctas.py num_ctas
src/tilewright/passes/gpu/analysis/epilogue_subtiles.py epilogue_subtiles
src/tilewright/passes/gpu/analysis/copy_engines.py copy_engines
src/tilewright/passes/gpu/analysis/register_pressure.py register_pressure
src/tilewright/passes/gpu/analysis/shared_allocation.py shared_allocation
src/tilewright/passes/gpu/analysis/clobbers.py clobbers
src/tilewright/passes/analysis/upper_bounds.py upper_bounds
src/tilewright/passes/analysis/disjoint_rows.py disjoint_rows
src/tilewright/passes/analysis/aliasing.py aliasing
src/tilewright/passes/cpu/nest/transpose_blocks.py transpose_blocks
src/tilewright/passes/cpu/nest/alias_checks.py alias_checks
src/tilewright/dialects/tile/layout_verification.py layout_verification
src/tilewright/dialects/tile/hints_and_io.py hints_and_io
src/tilewright/dialects/operand_segments.py operand_segments
src/tilewright/backends/nvidia/lower/tma.py tma
src/tilewright/backends/nvidia/lower/local_transpose.py local_transpose
src/tilewright/backends/nvidia/lower/convert_layout.py convert_layout
src/tilewright/backends/nvidia/lower/programmatic_launch.py programmatic_launch
src/tilewright/backends/nvidia/lower/store_scheduling.py store_scheduling
src/tilewright/backends/nvidia/lower/vector_access.py vector_access
src/tilewright/backends/nvidia/lower/wgmma_rs.py wgmma_rs
src/tilewright/layouts/wgmma_partition.py wgmma_partition
src/tilewright/generator/accumulator_types.py accumulator_types
src/tilewright/generator/scalar_accumulators.py scalar_accumulators
src/tilewright/generator/linalg_named_ops.py linalg_named_ops
src/tilewright/generator/linalg_contractions.py linalg_contractions
src/tilewright/generator/gemv_rows.py gemv_rows
src/tilewright/generator/recognize.py recognize
src/tilewright/generator/mlir_parser.py mlir_parser
src/tilewright/generator/hardware_rates.py hardware_rates
src/tilewright/interpreter/producer_warp.py producer_warp
src/tilewright/interpreter/async_tma_stores.py async_tma_stores
src/tilewright/runtime/output_aliasing.py output_aliasing
src/tilewright/runtime/dynamo.py dynamo
src/tilewright/runtime/gc_pause.py gc_pause
src/tilewright/runtime/fast_path.py fast_path
src/tilewright/runtime/drivers/argument_guards.py argument_guards
src/tilewright/runtime/backend_compile.py backend_compile
tests/mn_major_dots.py mn_major_dots
tests/mixed_precision_dots.py mixed_precision_dots
tests/non_pow2_tiles.py non_pow2_tiles
tests/ptx/emulator.py emulator
tests/ptx/warp_collectives.py warp_collectives
tests/ptx/wgmma_state.py wgmma_state
benchmarks/gpu_pass_ablation.py gpu_pass_ablation
benchmarks/concurrent_kernels.py concurrent_kernels
"""


def table():
    found = []
    for line in MOVES.strip().splitlines():
        old, new = line.split()
        found.append((old, f"{old.rpartition('/')[0]}/{new}.py"))
    return found


def dotted(path):
    return path.removeprefix("src/").removesuffix(".py").replace("/", ".")


def stem(path):
    return path.rpartition("/")[2].removesuffix(".py")


def imported_modules(t, modules):
    """`from package import module` and the uses of that name in the file."""
    for name in [n for n in t.texts if n.endswith(".py")]:
        text = t.texts[name]
        tree = ast.parse(text)
        local = {}
        places = []  # (line, column, old, new)
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
                continue
            for alias in node.names:
                new = modules.get(f"{node.module}.{alias.name}")
                if new is not None:
                    places.append((alias.lineno, alias.col_offset, alias.name, stem_of(new)))
                    if alias.asname is None:
                        local[alias.name] = stem_of(new)
        if not places:
            continue
        shadowed = {a.arg for node in ast.walk(tree) if isinstance(node, ast.arguments) for a in (*node.args, *node.kwonlyargs, *node.posonlyargs)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in local:
                if node.value.id in shadowed:
                    t.warn(f"{name}:{node.lineno}: {node.value.id} is a parameter, too")
                places.append((node.value.lineno, node.value.col_offset, node.value.id, local[node.value.id]))
            elif isinstance(node, ast.Name) and node.id in local:
                places.append((node.lineno, node.col_offset, node.id, local[node.id]))
        lines = text.splitlines(keepends=True)
        for line, column, old, new in sorted(set(places), reverse=True):
            raw = lines[line - 1].encode()
            if raw[column:column + len(old)].decode() != old:
                t.warn(f"{name}:{line}: no {old} at {column}")
                continue
            lines[line - 1] = (raw[:column] + new.encode() + raw[column + len(old):]).decode()
        t.set(name, "".join(lines))


def stem_of(module):
    return module.rpartition(".")[2]


def apply(t):
    moves = table()
    modules = {dotted(old): dotted(new) for old, new in moves}
    packages = {}
    for old, new in modules.items():
        packages.setdefault(old.rpartition(".")[0], {})[stem_of(old)] = stem_of(new)
    symbols(t, packages, verify=False)
    names = "|".join(re.escape(m) for m in sorted(modules, key=len, reverse=True))
    t.sub(rf"(?<![\w.])({names})(?=[\s\"'`.:,)]|$)(?!\.py)", lambda m: modules[m[1]], flags=re.M)
    # without the package's name, in prose and contracts
    short = {m.removeprefix("tilewright."): n.removeprefix("tilewright.") for m, n in modules.items() if m.startswith("tilewright.")}
    t.sub(rf"(?<=`)({'|'.join(map(re.escape, sorted(short, key=len, reverse=True)))})(?=[`.])(?!\.py|\.md)", lambda m: short[m[1]], "*.py *.md", must=False)
    # paths: with any number of leading folders
    tails = {}
    for old, new in moves:
        parts = old.removeprefix("src/tilewright/").split("/")
        for i in range(len(parts) - 1):
            tails["/".join(parts[i:])] = "/".join([*parts[i:-1], f"{stem(new)}.py"])
    pattern = "|".join(map(re.escape, sorted(tails, key=len, reverse=True)))
    t.sub(rf"(?<![\w/.])((?:src/tilewright/)?)({pattern})\b", lambda m: m[1] + tails[m[2]], must=False)
    alone = {stem(old): stem(new) for old, new in moves if stem(old) in ALONE}
    t.sub(rf"(?<=`)({'|'.join(alone)})\.py(?=`)", lambda m: f"{alone[m[1]]}.py", "*.md *.py", must=False)
    loaded = {stem(old): stem(new) for old, new in moves if stem(old) in BY_NAME}
    either = "|".join(loaded)
    places = "tests/*.py benchmarks/*.py"
    t.sub(rf'(?<=["`])({either})(?=["`])(?!": )', lambda m: loaded[m[1]], places, must=False)
    t.sub(rf"^(\s*(?:import|from) )({either})\b", lambda m: m[1] + loaded[m[2]], places, must=False, flags=re.M)
    t.sub(rf"\b({either})\.(?=[a-zA-Z_])(?!py\b)", lambda m: loaded[m[1]] + ".", places, must=False)
    for old, new in moves:
        t.move(old, new)
    tests(t)


#: file names that mean one thing wherever they are written without a folder
ALONE = ("key_code", "conditions", "untraced", "back_end", "chunk_plan", "row_operands", "group_products", "box_stores", "exchange")
BY_NAME = ("turned_products", "mixed_products", "odd_blocks", "gpu_switches", "meeting_kernels")
#: test files that are named after a module or a pass
TESTS = {
    "tests/passes/test_mn_major_dots.py": "test_mn_major_dots", "tests/ptx/test_mn_major_dots.py": "test_mn_major_dots",
    "tests/passes/test_mixed_precision_dots.py": "test_mixed_precision_dots", "tests/passes/test_non_pow2_tiles.py": "test_non_pow2_tiles",
    "tests/gpu/test_non_pow2_tiles.py": "test_non_pow2_tiles", "tests/gpu/test_tma_stores.py": "test_tma_stores",
    "tests/layouts/test_wgmma_partition.py": "test_wgmma_partition", "tests/generator/test_gemv_rows.py": "test_gemv_rows",
    "tests/generator/test_aliasing.py": "test_aliasing", "tests/runtime/test_argument_guards.py": "test_argument_guards",
    "tests/backends/nvidia/test_local_transpose.py": "test_local_transpose", "tests/backends/nvidia/test_wgmma_rs.py": "test_wgmma_rs",
    "tests/backends/nvidia/test_programmatic_launch.py": "test_programmatic_launch", "tests/passes/test_tma_tiles.py": "test_tma_tiles",
    "tests/gpu/test_tma_tiles.py": "test_tma_tiles", "tests/passes/test_strips_in_loops.py": "test_strips_in_loops",
    "tests/gpu/test_strips.py": "test_strips", "tests/ptx/test_strips.py": "test_strips",
}


def tests(t):
    for old, new in TESTS.items():
        if old not in t.texts:
            t.warn(f"no file {old}")
            continue
        folder = old.rpartition("/")[0]
        t.sub(rf"\b{re.escape(old)}\b", f"{folder}/{new}.py", must=False)
        t.sub(rf"\b{re.escape(dotted(old))}\b", dotted(f"{folder}/{new}.py"), "*.py", must=False)
        t.sub(rf"(?<=[\"`/]){stem(old)}(?=\.py[\"`])", new, f"{folder}/*.py", must=False)
        t.move(old, f"{folder}/{new}.py")
