"""Group 4: classes, functions, methods, fields."""

from engine import symbols

SUBJECT = "[names] Rename classes, functions and fields to the field's terms"
BODY = """One term per concept: wavefronts, wgmma partitions, TMA tiles, strips, alias
analysis, programmatic launch. No generated code changes."""

L, G, A = "tilewright.layouts", "tilewright.passes.gpu", "tilewright.passes.gpu.analysis"
P, N, C = "tilewright.passes", "tilewright.backends.nvidia", "tilewright.passes.cpu"
R, I, E = "tilewright.runtime", "tilewright.interpreter", "tilewright.generator"

SYMBOLS = {
    f"{L}.banks": {"passes": "wavefronts", "fewest_passes": "min_wavefronts"},
    f"{L}.fragments": {
        "Arrangement": "WarpGrid", "arrange": "choose_warp_grid", "GroupInstruction": "WgmmaInstruction", "parse_group": "parse_wgmma",
        "GroupArrangement": "WarpgroupGrid", "arrange_groups": "choose_warpgroup_grid", "row_layout": "wgmma_a_layout",
        "matrix_lanes": "ldmatrix_lanes", "matrix_layout": "ldmatrix_layout",
    },
    f"{L}.wgmma_partition": {"GroupProduct": "WgmmaPartition", "group_product": "partition_wgmma", "_OTHERS": "OTHER_REGISTERS"},
    f"{L}.shared": {
        "WHOLE": "LINEAR", "CHUNK": "SWIZZLE_ATOM_BYTES", "widest_span": "widest_swizzle", "roomy_span": "padded_swizzle",
        "turns": "is_transposable", "TURNED_BLOCKS": "TRANSPOSE_BLOCKS",
    },
    f"{L}.blocked": {"turning": "smem_transpose_layout", "transposing": "transposed_copy_layout", "outer": "outer_product_layout"},
    f"{P}.analysis.aliasing": {"root_of": "base_argument", "is_apart": "is_noalias", "are_apart": "no_alias"},
    f"{P}.analysis.ranges": {"apart": "are_disjoint"},
    f"{P}.analysis.upper_bounds": {"highest_sum": "max_value"},
    f"{P}.analysis.sign": {"nonnegative": "is_nonnegative"},
    f"{P}.analysis.regions": {},
    f"{A}.anchor_layouts": {"Homes": "AnchorLayouts"},
    f"{A}.loop_dots": {"find_one_product": "find_single_dot", "find_pattern": "find_pipeline_pattern", "Pattern": "PipelinePattern"},
    f"{A}.dot_chains": {"chain_products": "chain_dots"},
    f"{A}.copy_engines": {"Transport": "CopyEngine", "ThreadCopies": "CpAsyncCopies", "BoxCopies": "TmaCopies"},
    f"{A}.tma_tiles": {"Box": "TmaTile", "box_of": "match_tma_tile"},
    f"{A}.tma_stores": {"BoxStore": "TmaStorePlan", "box_store": "plan_tma_store"},
    f"{A}.cluster_loops": {"spread_loop": "cluster_loop", "cluster_of": "cluster_size_of", "shares_boxes": "uses_multicast"},
    f"{A}.register_pressure": {"words_at_once": "peak_live_registers", "instructions_of_an_element": "instructions_per_element"},
    f"{A}.registers": {"registers_of_a_thread": "max_registers_per_thread", "_MOST": "MAX_REGISTERS_PER_THREAD"},
    f"{A}.loop_carried": {"loops_around": "enclosing_loops", "repeats": "is_in_loop", "Carried": "LoopCarriedScalars"},
    f"{A}.strips": {"Kept": "CachePlan", "what_to_keep": "plan_cache", "in_step": "may_interleave", "leaves_alone": "cannot_clobber", "of_program": "is_program_variant", "_BUSY": "_MIN_WARPS_PER_SM"},
    f"{A}.clobbers": {"may_write": "may_clobber"},
    f"{A}.num_ctas": {"blocks_of": "num_ctas_of"},
    f"{A}.barriers": {"drop_barriers": "remove_redundant_barriers"},
    f"{A}.register_operands": {"stays_in_registers": "is_register_operand", "read_for_products": "assign_operand_layout"},
    f"{A}.shared_allocation": {"SharedPlan": "SharedAllocation"},
    f"{G}.insert_barriers": {"_meet": "_loop_conflicts", "_gone_round": "_as_earlier_iteration", "_in_several_warps": "_spans_warps"},
    f"{C}.nest.transpose_blocks": {"is_turned": "is_column_contiguous", "turned_side": "transpose_block_size"},
    f"{C}.analysis.lanes": {"leaves_its_lane": "crosses_lanes"},
    f"{C}.elide_packing": {"_stands_so": "_matches_packed_layout"},
    f"{N}.lower.convert_layout": {"just_met": "follows_barrier", "put": "store_to_shared"},
    f"{N}.lower.wgmma": {"sums_of": "accumulator_registers", "waited": "wait_after_loop", "made_here": "pin_to_block", "_Product": "_WgmmaEmitter"},
    f"{N}.lower.store_scheduling": {"made_when_written": "sink_to_stores"},
    f"{N}.lower.programmatic_launch": {"Overlap": "ProgrammaticLaunch"},
    f"{N}.lower.wgmma_rs": {"ThroughRegisters": "RegisterOperand"},
    f"{N}.lower.local_transpose": {"_WordsTurner": "_WordTranspose", "_BytesTurner": "_ByteTranspose"},
    f"{N}.occupancy": {"blocks_at_once": "resident_ctas", "limit_for_more": "register_limit_for_occupancy", "Block": "CtaResources", "_MOST": "_MAX_THREADS_AND_CTAS_PER_SM", "_FEW": "_MAX_REGISTER_CUT"},
    f"{N}.backend": {"_assembled_again": "_reassemble_with_limit"},
    f"{N}.lower.vector_access": {"load_words": "load_vector", "store_words": "store_vector"},
    f"{E}.accumulator_types": {"check_sums": "check_accumulator_type"},
    f"{E}.scalar_accumulators": {"sums_in_place": "rewrite_scalar_accumulators"},
    f"{E}.program": {"spreads": "has_multi_dim_grid"},
    f"{E}.gemv_rows": {"JoinedRows": "GemvRows"},
    f"{E}.linalg_named_ops": {"NamedProduct": "NamedMatmulOp"},
    f"{E}.tuning": {"_twin": "_same_width_type", "_OTHERS": "_MAX_ALTERNATIVES"},
    f"{E}.affine_loops": {"recognise": "recognize"}, f"{E}.linalg_contractions": {"recognise": "recognize"},
    f"{E}.cpu_model": {"_just": "_round_up_rows", "_even": "_even_blocks", "_held": "_l2_working_set"},
    f"{R}.output_aliasing": {"ResultApart": "OutputAliasCheck", "overlaps_itself": "may_have_internal_overlap", "has_twins": "has_internal_overlap"},
    f"{R}.fast_path": {"KeyCode": "FastPathSource"},
    f"{R}.gc_pause": {"objects_set_aside": "gc_frozen", "_FEW": "_MIN_FROZEN_OBJECTS"},
    f"{R}.dynamo": {"untraced": "dynamo_disabled"},
    f"{R}.descriptors": {"Described": "DescriptorKind"},
    f"{N}.lower.fma": {"_MOST": "_MAX_FMAS_PER_STEP"},
    f"{G}.strip_mine_tiles": {"_OTHERS": "_OTHER_REGISTERS", "_LEAST": "_MIN_ELEMENTS_PER_THREAD", "_MOST": "_MAX_ELEMENTS_PER_THREAD"},
    f"{R}.workers": {"_MOST": "_MAX_WORKERS", "_FEWEST_JOBS": "_MIN_JOBS"},
    f"{I}.producer_warp": {"Role": "ProducerWarp"},
    "tilewright.dialects.operand_segments": {"quick_operand_groups": "fast_operand_segments"},
    "tilewright.dialects.tile.layout_verification": {"corresponds": "verify_compatible", "dot_operands": "verify_dot_layouts", "scanned_in_order": "verify_scan_layout"},
}
#: unique words, wherever they are
WORDS = {
    "is_pure_elementwise": "is_pure_elementwise", "nonnegative_until_it_is": "nonnegative_until_it_is",
    "cluster_barrier": "cluster_barrier", "_cluster_scratch": "_cluster_scratch", "_emit_cta_iteration": "_emit_cta_iteration",
    "emit_grid_dependency_wait": "emit_grid_dependency_wait", "emit_launch_dependents": "emit_launch_dependents", "prefetch_tensor_maps": "prefetch_tensor_maps",
    "InFlightAccumulator": "InFlightAccumulator", "tma_tile_elements": "tma_tile_elements", "synchronize": "synchronize",
    "l1_pack_bytes_per_ns": "l1_pack_bytes_per_ns", "program_pack_bytes_per_ns": "program_pack_bytes_per_ns",
    "single_warpgroup_stall_cycles": "single_warpgroup_stall_cycles", "mma_utilization": "mma_utilization", "REGISTERS_PER_PARTITION": "REGISTERS_PER_PARTITION",
    "paper_endpoint": "paper_endpoint", "report_at_exit": "report_at_exit", "has_disjoint_bits": "has_disjoint_bits",
}
GPU = "src/tilewright/layouts/* src/tilewright/dialects/* src/tilewright/passes/gpu/* src/tilewright/backends/nvidia/* src/tilewright/interpreter/* src/tilewright/generator/* src/tilewright/cli/layouts.py tests/* benchmarks/*"


def methods(t):
    t.sub(r"\b(layout|sums|found|self|operand|part|four|made|both|whole|\w*\))\.covers\b", r"\1.is_surjective", GPU, must=False)
    t.sub(r"\.covers\b(?!\()", ".is_surjective", "tests/layouts/* src/tilewright/dialects/tile/*", must=False)
    t.sub(r"def covers\(self\) -> bool", "def is_surjective(self) -> bool", f"src/{L.replace('.', '/')}/layout.py")
    layout = "src/tilewright/layouts/layout.py"
    t.sub(r"\b(def )run\(self, ", r"\1num_consecutive(self, ", layout)
    t.sub(r"\blayout\.run\(", "layout.num_consecutive(", GPU, but="tests/backends/cpu/* benchmarks/dot_microkernel.py")
    t.sub(r"\)\.run\(0, 4\)", ").num_consecutive(0, 4)", "tests/layouts/*", must=False)
    t.sub(r"(?<=self\.)run\(", "num_consecutive(", layout, must=False)
    t.sub(r"\bdef cut\(self, axis", "def subtile(self, axis", layout)
    t.sub(r"\b(layout|source|sums|thirds|\))\.cut\((?=[\w.\[\]]+, )", r"\1.subtile(", GPU)
    t.sub(r"(permute\(\(1, 0\)\))\.cut\(", r"\1.subtile(", "tests/layouts/*", must=False)
    t.sub(r"`Layout\.cut`", "`Layout.subtile`", "*.py")
    t.sub(r"^    along: int = -1", "    group_dim: int = -1", layout, flags=8)
    t.sub(r"\bself\.along\b", "self.group_dim", layout)
    t.sub(r"\b(layout|plain|wide|sums)\.along\b", r"\1.group_dim", "src/tilewright/backends/nvidia/* src/tilewright/dialects/tile/* src/tilewright/layouts/wgmma_partition.py src/tilewright/passes/gpu/*")
    t.sub(r"(?<=groups=self\.groups, )along=mine", "group_dim=mine", "src/tilewright/layouts/fragments.py")
    t.sub(r"\b(product|found|self|made|group)\.swapped\b", r"\1.swap_ab", "src/tilewright/layouts/wgmma_partition.py src/tilewright/backends/nvidia/lower/wgmma*.py src/tilewright/passes/gpu/*")
    t.sub(r"def swapped\(self\)", "def swap_ab(self)", "src/tilewright/layouts/wgmma_partition.py")
    t.sub(r"def portions\(self, registers", "def k_steps_per_batch(self, registers", "src/tilewright/layouts/wgmma_partition.py")
    t.sub(r"\b(product|found)\.portions\(", r"\1.k_steps_per_batch(", GPU)


def shared_layout(t):
    """Fields and properties of SharedLayout, by the names of what they are asked of."""
    owners = r"(?:self\.)?(?:shared|layout|source|target|held|buffer|place\.shared|self\.a|self\.b|a|b|box|whole|plain)"
    call = r"shared_layout_of\([^()]*(?:\([^()]*\)[^()]*)*\)|parse_shared\([^()]*\)|_shared\([^()]*\)"
    names = {"span": "swizzle_bytes", "dim": "major_dim", "lines": "strided_extent", "length": "contiguous_extent", "pitch": "row_stride_bytes"}
    file = "src/tilewright/layouts/shared.py"
    places = (
        "src/tilewright/dialects/gpu_rules.py src/tilewright/passes/gpu/* src/tilewright/backends/nvidia/lower/* src/tilewright/backends/nvidia/tensor_maps.py"
        " src/tilewright/cli/layouts.py src/tilewright/interpreter/shared_memory.py src/tilewright/generator/* tests/layouts/*"
    )
    for old, new in names.items():
        t.sub(rf"\b(self|layout)\.{old}\b(?!\()", rf"\1.{new}", file)
        t.sub(rf"^    {old}: int\b", f"    {new}: int", file, must=old in ("span", "dim"), flags=8)
        t.sub(rf"^    def {old}\(self\)", f"    def {new}(self)", file, must=old not in ("span", "dim"), flags=8)
        owner = rf"(?:\b{owners}|{call})" if old != "pitch" else rf"(?:\b(?:self\.)?(?:shared|layout|source|target|held|place\.shared)|{call})"
        t.sub(rf"({owner})\.{old}\b(?!\()", rf"\1.{new}", places, but="*/tma_coordinates.py src/tilewright/generator/affine_loops.py src/tilewright/generator/mlir_parser.py", must=False)
    t.sub(r"replace\(layout, span=", "replace(layout, swizzle_bytes=", places)
    t.sub(r"`span`", "`swizzle_bytes`", file)


def instances(t):
    """Fields whose owners are told by their files."""
    t.sub(r"\bgen\.together\b|\bself\.together\(", lambda m: m[0].replace("together", "emit_convergent_asm"), "src/tilewright/backends/*")
    t.sub(r"\bdef together\(", "def emit_convergent_asm(", "src/tilewright/backends/nvidia/codegen.py tests/backends/nvidia/*")
    t.sub(r"\b(gen|self|codegen)\.assembly\(", r"\1.emit_asm(", "src/tilewright/backends/nvidia/* src/tilewright/backends/llvm/*")
    t.sub(r"\bdef assembly\(", "def emit_asm(", "src/tilewright/backends/nvidia/codegen.py tests/backends/nvidia/*")
    t.sub(r'(gen\.role (?:==|=) )"copies"', r'\1"producer"', "src/tilewright/backends/nvidia/*")
    t.sub(r'(gen\.role (?:==|=) )"rest"', r'\1"consumer"', "src/tilewright/backends/nvidia/*")
    t.sub(r'emitted: "copies", "rest" once', 'emitted: "producer", "consumer" once', "src/tilewright/backends/nvidia/codegen.py")
    t.sub(r"\bupon\b", "depends_on", "src/tilewright/testing/ablation/switches.py")


def apply(t):
    symbols(t, {m: n for m, n in SYMBOLS.items() if n})
    t.words({o: n for o, n in WORDS.items() if o != n}, "*.py *.md", must=False)
    methods(t)
    shared_layout(t)
    instances(t)


GEN = "src/tilewright/generator/*.py src/tilewright/runtime/*.py src/tilewright/cli/generate.py src/tilewright/testing/*.py src/tilewright/integrations/*.py tests/*.py benchmarks/*.py scripts/*.py"
CONFIG = {
    "boxes": "use_tma", "through_registers": "wgmma_rs", "pairs": "tma_multicast", "panels": "prepack", "join_rows": "rows_per_load",
}
CONTRACTION = {"wide": "offsets_64bit", "long": "indices_64bit", "scaled": "has_alpha", "units": "size_divisors"}

DEPRECATED = '''"""Names of fields that were renamed: constructors take the old ones for a release, with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

#: old name → new name
CONFIG_FIELDS = {
    "boxes": "use_tma",
    "through_registers": "wgmma_rs",
    "pairs": "tma_multicast",
    "panels": "prepack",
    "join_rows": "rows_per_load",
}
CONTRACTION_FIELDS = {
    "wide": "offsets_64bit",
    "long": "indices_64bit",
    "scaled": "has_alpha",
    "units": "size_divisors",
}
#: old value of `MatmulConfig.form` → new value
FORMS = {"vector": "gemv"}


def current(data: Mapping[str, Any], renamed: Mapping[str, str], warn: bool = True) -> dict[str, Any]:
    """`data` with the present names of fields, and of forms. Warns where one is deprecated, unless data were stored."""
    found = {name: value for name, value in data.items() if name not in renamed}
    for old in renamed.keys() & data.keys():
        found[renamed[old]] = data[old]
        if warn:
            _warn(f"field {old!r} is now called {renamed[old]!r}")
    form = found.get("form")
    if isinstance(form, str) and form in FORMS:
        found["form"] = FORMS[form]
        if warn:
            _warn(f"form {form!r} is now called {FORMS[form]!r}")
    return found


def accepts[T](renamed: Mapping[str, str]) -> Callable[[type[T]], type[T]]:
    """Decorate a dataclass so that its constructor and its attributes understand old names of fields."""

    def decorate(kind: type[T]) -> type[T]:
        construct: Callable[..., None] = kind.__init__

        @functools.wraps(construct)
        def initialize(self: T, *values: Any, **fields: Any) -> None:
            construct(self, *values, **current(fields, renamed))

        setattr(kind, "__init__", initialize)  # noqa: B010 (an assignment is an error to type checkers)
        for old, new in renamed.items():
            setattr(kind, old, property(functools.partial(_read, old, new)))
        return kind

    return decorate


def _read(old: str, new: str, instance: Any) -> Any:
    _warn(f"field {old!r} is now called {new!r}")
    return getattr(instance, new)


def _warn(text: str) -> None:
    warnings.warn(f"{text}; the old name will be removed", DeprecationWarning, stacklevel=4)
'''.replace("def accepts[T](renamed", "T = TypeVar(\"T\")\n\n\ndef accepts(renamed").replace("from typing import Any\n", "from typing import Any, TypeVar\n")

TEST = '''"""Deprecated names of fields, forms and words of configurations are still understood."""

import dataclasses
import json
from pathlib import Path

import pytest

import tilewright.generator
from tilewright import dtypes
from tilewright.generator import Contraction, MatmulConfig, Operand
from tilewright.generator.config import Panels

NEW = MatmulConfig(
    1, 64, 8, 1, 4, 3, 2, persistent=True, use_tma=False, wgmma_rs=False, form="gemv",
    rows_per_load=8, tma_multicast=True,
)  # fmt: skip
OLD = {
    "block_m": 1, "block_n": 64, "block_k": 8, "group_m": 1, "num_warps": 4, "num_stages": 3,
    "split_k": 2, "persistent": True, "boxes": False, "through_registers": False, "form": "vector",
    "join_rows": 8, "pairs": True, "panels": None,
}  # fmt: skip


def test_stored_configurations_are_read_without_a_word(recwarn):
    assert MatmulConfig.from_dict(OLD) == NEW == MatmulConfig.from_dict(dataclasses.asdict(NEW))
    assert MatmulConfig.from_text("1x64x8 g1 w4 s3 k2 j8 persistent pairs threads turned vector") == NEW
    assert MatmulConfig.from_text(NEW.text) == NEW
    tables = list((Path(tilewright.generator.__file__).parent / "tuned").glob("*.json"))
    entries = [e for t in tables for e in json.loads(t.read_text())["entries"].values()]
    assert entries and all(MatmulConfig.from_dict(e["config"]) for e in entries)
    assert all(MatmulConfig.from_text(e["model"]) for e in entries)
    assert not [w for w in recwarn if issubclass(w.category, DeprecationWarning)]


def test_constructors_take_old_names_and_warn():
    with pytest.warns(DeprecationWarning, match="'boxes' is now called 'use_tma'"):
        assert MatmulConfig(use_tma=False) == MatmulConfig(use_tma=False)
    with pytest.warns(DeprecationWarning, match="'vector' is now called 'gemv'"):
        assert MatmulConfig(1, 64, form="gemv").form == "gemv"
    with pytest.warns(DeprecationWarning, match="'panels' is now called 'prepack'"):
        assert MatmulConfig(prepack=Panels(32)).prepack == Panels(32)
    with pytest.warns(DeprecationWarning, match="'through_registers' is now called 'wgmma_rs'"):
        assert dataclasses.replace(NEW, through_registers=True).wgmma_rs
    with pytest.warns(DeprecationWarning, match="'join_rows' is now called 'rows_per_load'"):
        assert NEW.with_(rows_per_load=4).rows_per_load == 4
    half = Operand(dtypes.float16)
    with pytest.warns(DeprecationWarning, match="'scaled' is now called 'has_alpha'"):
        assert Contraction(half, half, half, has_alpha=True) == Contraction(half, half, half, has_alpha=True)


def test_old_attributes_are_read_and_warn():
    with pytest.warns(DeprecationWarning, match="'pairs' is now called 'tma_multicast'"):
        assert NEW.pairs
    half = Operand(dtypes.float16)
    with pytest.warns(DeprecationWarning, match="'units' is now called 'size_divisors'"):
        assert Contraction(half, half, half).units == ()
'''


def configuration(t):
    """MatmulConfig."""
    file = "src/tilewright/generator/config.py"
    text = t.texts[file]
    for old, new in CONFIG.items():
        import re

        text = re.sub(rf"^(    ){old}(: )", rf"\1{new}\2", text, flags=re.M)
        text = re.sub(rf"\bself\.{old}\b", f"self.{new}", text)
        text = re.sub(rf"^(        ){old}(: )", rf"\1{new}\2", text, flags=re.M)  # the docstring's list
        text = re.sub(rf'"{old}"', f'"{new}"', text)
    t.set(file, text)
    t.edit(
        file,
        ('FORMS = ("tiled", "listing1", "vector")', 'FORMS = ("tiled", "listing1", "gemv")'),
        ('"tma_multicast": {"tma_multicast": True}', '"multicast": {"tma_multicast": True}'),
        ('"threads": {"use_tma": False}, "turned": {"wgmma_rs": False}', '"no-tma": {"use_tma": False}, "no-rs": {"wgmma_rs": False}'),
        ('            "vector", a reduction', '            "gemv", a reduction'), ('(form "vector")', '(form "gemv")'),
        ('self.form != "gemv"', 'self.form != "gemv"'), ("join_rows is for form 'vector'", "rows_per_load is for form 'gemv'"),
        ("pairs are for persistent programs", "tma_multicast is for persistent programs"),
        ("panels are for form", "prepack is for form"), ("(pairs go with persistent programs)", "(`tma_multicast` goes with persistent programs)"),
        ('parts.append("tma_multicast")', 'parts.append("multicast")'), ('parts.append("threads")', 'parts.append("no-tma")'), ('parts.append("turned")', 'parts.append("no-rs")'),
        ("k split_k, j join_rows, `persistent`, `pairs`, `threads` (without boxes), `turned` (not through\n        registers), the form", "k split_k, j rows_per_load, `persistent`, `multicast`, `no-tma`, `no-rs` (without\n        `wgmma_rs`), the form"),
        ("            if word in _FLAGS:", "            word = _OLD_WORDS.get(word, word)\n            if word in _FLAGS:"),
        ("        known = {item.name for item in fields(MatmulConfig)}\n        unknown = sorted(set(data) - known)", "        data = current(data, CONFIG_FIELDS, warn=False)\n        known = {item.name for item in fields(MatmulConfig)}\n        unknown = sorted(set(data) - known)"),
        ('        if changes.get("persistent") is False:', '        changes = current(changes, CONFIG_FIELDS)\n        if changes.get("persistent") is False:'),
        ("from tilewright.errors import LaunchError\n", "from tilewright.errors import LaunchError\nfrom tilewright.generator.deprecated import CONFIG_FIELDS, accepts, current\n"),
        ("@dataclass(frozen=True, slots=True)\nclass MatmulConfig:", "@accepts(CONFIG_FIELDS)\n@dataclass(frozen=True, slots=True)\nclass MatmulConfig:"),
        ("\n\n@dataclass(frozen=True, slots=True)\nclass Panels:", '#: deprecated words, which stored texts have\n_OLD_WORDS = {"pairs": "multicast", "threads": "no-tma", "turned": "no-rs", "vector": "gemv"}\n\n\n@dataclass(frozen=True, slots=True)\nclass Panels:'),
    )
    (t.root / "src/tilewright/generator/deprecated.py").write_text(DEPRECATED)
    (t.root / "tests/generator/test_deprecated.py").write_text(TEST)
    owners = r"(?:config|self\.config|chosen|changed|found|other|CONFIG|program\.config|body\.config|packed=True\)|gpu\)|AVX512\)|amx\)|p32x2 fp32\"\)|persistent=False\))"
    but = "src/tilewright/generator/config.py src/tilewright/generator/workload.py tests/generator/test_deprecated.py"
    for old, new in CONFIG.items():
        t.sub(rf"(?<=[.\w)])(?<!self)(?:(?<=config)|(?<=chosen)|(?<=changed)|(?<=found)|(?<=other)|(?<=CONFIG)|(?<=\)))\.{old}\b(?!\()", f".{new}", GEN, but=but, must=False)
        t.sub(rf"`MatmulConfig\.{old}`", f"`MatmulConfig.{new}`", "*.py *.md", must=False)
    t.keywords(r"MatmulConfig|\.with_|with_", CONFIG, GEN.replace("tests/*.py", "tests/generator/*.py tests/gpu/*.py tests/ptx/*.py tests/runtime/*.py tests/backends/*.py tests/cli/*.py"))
    t.sub(r"\breplace\(config, (?=[^()]*(pairs|boxes|panels|join_rows|through_registers)=)([^()]*)\)", lambda m: "replace(config, " + _kw(m[2]) + ")", GEN, must=False)
    t.sub(r'(?<=form=)"vector"', '"gemv"', GEN)
    t.sub(r'(\bform (?:==|!=) )"vector"', r'\1"gemv"', GEN)
    t.sub(r"form 'vector'", "form 'gemv'", "tests/generator/*.py src/tilewright/generator/*.py", must=False)
    t.sub(r'the "vector" form', 'the "gemv" form', "src/tilewright/generator/*.py", must=False)
    t.edit("src/tilewright/cli/generate.py", ('f.name != "panels"', 'f.name != "prepack"'), ("    for name, value in _pairs(text):\n        kind = kinds.get(name)", "    for given, value in _pairs(text):\n        name = CONFIG_FIELDS.get(given, given)\n        kind = kinds.get(name)"),
           ("from tilewright.generator.config import MatmulConfig\n", "from tilewright.generator.config import MatmulConfig\nfrom tilewright.generator.deprecated import CONFIG_FIELDS\n"))
    t.edit("tests/cli/test_generate_export.py", ("pairs=yes,through_registers=false,boxes=0", "tma_multicast=yes,wgmma_rs=false,use_tma=0"), ("persistent pairs threads turned", "persistent multicast no-tma no-rs"),
           ('"pairs": "neither pairs=true"', '"tma_multicast": "neither tma_multicast=true"'), ('"panels=3": "no field panels"', '"prepack=3": "no field prepack"'), ('"pairs=true,persistent=false": "pairs are for', '"tma_multicast=true,persistent=false": "tma_multicast is for'))
    t.sub(r'"boxes=false"', '"use_tma=false"', "tests/generator/test_descriptions.py")
    t.edit("tests/generator/test_packing.py", ('"panels": Panels(32), **wrong', '"prepack": Panels(32), **wrong'), ('match="panels"', 'match="prepack"'), must=False)
    t.sub(r"`(boxes|through_registers|join_rows)=", lambda m: f"`{CONFIG[m[1]]}=", "docs/generator.md")
    t.sub(r"^\| `(pairs|panels)(?=`|=)", lambda m: f"| `{CONFIG[m[1]]}", "docs/generator.md", must=False, flags=8)
    t.sub(r"(?<=`)(pairs|panels|join_rows)(?=`)", lambda m: CONFIG[m[1]], "docs/generator.md", must=False)
    t.sub(r"`threads` without boxes, `turned` not\s+through\s+registers,", "`no-tma`, `no-rs`,", "docs/generator.md", must=False)
    t.sub(r'`form="gemv"`', '`form="gemv"`', "docs/generator.md")
    t.sub(r"persistent=true,pairs=true", "persistent=true,tma_multicast=true", "docs/generator.md")
    # tokens in texts of configurations that tests and benchmarks write
    t.sub(r"(\d+x\d+x\d+[\w ]*(?:persistent|\{tile\} persistent)) pairs\b", r"\1 multicast", "tests/*.py benchmarks/*.py docs/*.md", but="tests/generator/test_deprecated.py", must=False)
    t.sub(r"persistent pairs\b", "persistent multicast", "benchmarks/*.py docs/choices.md", must=False)


def _kw(text):
    import re

    for old, new in CONFIG.items():
        text = re.sub(rf"\b{old}=", f"{new}=", text)
    return text


def contractions(t):
    file = "src/tilewright/generator/contraction.py"
    import re

    text = t.texts[file]
    for old, new in CONTRACTION.items():
        text = re.sub(rf"^(    ){old}(: )", rf"\1{new}\2", text, flags=re.M)
        text = re.sub(rf"\bself\.{old}\b", f"self.{new}", text)
        text = re.sub(rf"`{old}`", f"`{new}`", text)
        text = re.sub(rf"^(        ){old}(: )", rf"\1{new}\2", text, flags=re.M)
    text = re.sub(r"    def sums\(self\)", "    def accumulator_type(self)", text).replace("self.sums", "self.accumulator_type")
    if "accepts(CONTRACTION_FIELDS)" not in text:
        text = re.sub(r"(@dataclass\([^\n]*\)\nclass Contraction:)", r"@accepts(CONTRACTION_FIELDS)\n\1", text)
        text = re.sub(r"(from tilewright\.errors import [^\n]*\n)", r"\1from tilewright.generator.deprecated import CONTRACTION_FIELDS, accepts\n", text, count=1)
    t.set(file, text)
    owners = r"\b(contraction|self\.contraction|program\.contraction|found\.contraction|last\.contraction|body\.contraction|counted\.prepared\([^\n]*\)\.contraction)"
    for old, new in {**CONTRACTION, "sums": "accumulator_type"}.items():
        t.sub(rf"(?<=contraction)\.{old}\b", f".{new}", GEN, must=False)
        t.sub(rf"\bc\.{old}\b", f"c.{new}", "src/tilewright/generator/*.py src/tilewright/cli/generate.py", must=False)
        t.sub(rf"`Contraction\.{old}`", f"`Contraction.{new}`", "*.py *.md", must=False)
    t.keywords("Contraction", CONTRACTION, GEN)
    t.sub(r"\breplace\((contraction|PLAIN|found\.contraction|CASES\[[^\]]*\]\[0\]), ([^()]*)", lambda m: f"replace({m[1]}, " + re.sub(r"\b(wide|long|scaled|units)=", lambda k: CONTRACTION[k[1]] + "=", m[2]), GEN, must=False)


def programs(t):
    files = "src/tilewright/generator/*.py src/tilewright/runtime/*.py tests/generator/*.py"
    for old, new in {"apart": "noalias_output", "spread": "multi_dim_grid"}.items():
        t.sub(rf"^    {old}: bool", f"    {new}: bool", "src/tilewright/generator/program.py", flags=8)
        t.sub(rf"\bself\.{old}\b", f"self.{new}", "src/tilewright/generator/program.py")
        t.sub(rf"(?<=program)\.{old}\b", f".{new}", files)
        t.sub(rf"`Program\.{old}`", f"`Program.{new}`", files, must=False)
        t.sub(rf"(?<=[(, ]){old}: bool", f"{new}: bool", "src/tilewright/generator/program.py src/tilewright/runtime/generated.py", must=False)
    for file in ("src/tilewright/generator/program.py", "src/tilewright/runtime/generated.py"):
        t.edit(file, ("config, apart, spread)", "config, noalias_output, multi_dim_grid)"), ("part, apart, spread)", "part, noalias_output, multi_dim_grid)"), ("`apart`, `spread`:", "`noalias_output`, `multi_dim_grid`:"), must=False)
    t.keywords("kernels|programs|Program", {"apart": "noalias_output", "spread": "multi_dim_grid"}, "src/tilewright/*.py tests/*.py benchmarks/*.py scripts/*.py")


def estimates(t):
    file = "src/tilewright/generator/model.py"
    for old, new in {"filled": "wave_utilization", "resident": "ctas_per_sm"}.items():
        t.sub(rf"^    {old}: (float|int)", rf"    {new}: \1", file, flags=8)
        t.sub(rf"\b(best|e|other|choice\.best)\.{old}\b", rf"\1.{new}", f"{file} tests/generator/*.py scripts/generate_docs.py src/tilewright/generator/choice.py")
    for old, new in {"across": "mn_major", "starts": "row_alignment"}.items():
        t.sub(rf"^    {old}: ", f"    {new}: ", "src/tilewright/generator/workload.py", flags=8)
        t.sub(rf"\bself\.{old}\b", f"self.{new}", "src/tilewright/generator/workload.py", must=False)
        t.sub(rf"\bwork\.{old}\b", f"work.{new}", GEN, but="*/integrations/*")
        t.keywords("Workload|replace", {old: new}, "src/tilewright/generator/*.py tests/generator/test_model.py")


def plans(t):
    """LaunchPlan and TensorMap."""
    base = "src/tilewright/backends/base.py"
    for old, new in {"overlaps": "programmatic_launch", "cluster": "cluster_size"}.items():
        t.sub(rf"^    {old}: ", f"    {new}: ", base, flags=8)
        t.sub(rf"(?<=plan)\.{old}\b", f".{new}", "src/*.py src/*.jinja tests/*.py benchmarks/*.py")
        t.keywords("LaunchPlan|artifact|start", {old: new}, "src/tilewright/backends/nvidia/backend.py tests/runtime/test_cuda_driver.py")
        t.sub(rf"`LaunchPlan\.{old}`", f"`LaunchPlan.{new}`", "*.py *.md", must=False)
    names = {"extents": "global_dims", "pitches": "global_strides", "box": "box_dims", "span": "swizzle_bytes"}
    for old, new in names.items():
        t.sub(rf"^    {old}: (tuple|int)", rf"    {new}: \1", base, flags=8)
        t.sub(rf"\bself\.{old}\b", f"self.{new}", base, must=old in ("extents", "pitches"))
        t.sub(rf"\b(tensor_map|recipe)\.{old}\b", rf"\1.{new}", "src/tilewright/runtime/*.py tests/runtime/*.py")
        t.sub(rf"\bbox\.{old}\b", f"box.{new}", "tests/ptx/*.py", must=False)
        t.sub(rf'"{old}"(?=[:,)\]])', f'"{new}"', base, must=old != "span")
        t.keywords("TensorMap|matrix", {old: new}, "src/tilewright/backends/nvidia/tensor_maps.py tests/runtime/test_cuda_driver.py")
        t.sub(rf'"{old}": (?=\(|128)', f'"{new}": ', "tests/runtime/test_cuda_driver.py", must=False)
    t.sub(r"\bmatrix\(\)\.extents\b", "matrix().global_dims", "tests/runtime/*.py", must=False)
    t.sub(r"\bm\.extents\) for m in maps\b", "m.global_dims) for m in maps", "tests/runtime/*.py", must=False)
    t.sub(r'data\["box"\]', 'data["box_dims"]', base, must=False)


def proof(t):
    """The names of plans' fields that replay compares."""
    fields = {"overlaps": "programmatic_launch", "cluster": "cluster_size", "extents": "global_dims", "pitches": "global_strides", "box": "box_dims", "span": "swizzle_bytes"}
    text = "".join(f'    "{o}": "{n}",\n' for o, n in fields.items())
    t.edit("scripts/replay.py", ("RENAMED_PLAN_FIELDS: dict[str, str] = {}", "RENAMED_PLAN_FIELDS: dict[str, str] = {\n" + text + "}"))
    t.edit("tests/test_replay.py", ('monkeypatch.setitem(replay.RENAMED_PLAN_FIELDS, "cluster", "cluster_size")', 'monkeypatch.setitem(replay.RENAMED_PLAN_FIELDS, "cluster", "cluster_size")'))


def constants(t):
    t.sub(r"\b_MOST\b", "_MAX_BLOCKS", "src/tilewright/backends/nvidia/lower/fma.py", must=False) if False else None


def apply(t):
    symbols(t, {m: n for m, n in SYMBOLS.items() if n})
    t.words({o: n for o, n in WORDS.items() if o != n}, "*.py *.md", must=False)
    methods(t)
    shared_layout(t)
    instances(t)
    codegen = "src/tilewright/backends/nvidia/codegen.py"  # 500 lines at most: one import instead of five lines
    t.sub(r"\b(cluster_loop|cluster_size_of|uses_multicast)\(", r"cluster_loops.\1(", codegen)
    t.sub(r"from tilewright\.passes\.gpu\.analysis\.cluster_loops import [^\n(]+$", "from tilewright.passes.gpu.analysis import cluster_loops", codegen, flags=8)
    t.edit(codegen, ("self.cluster, self.shares = cluster_loops.cluster_size_of(function), cluster_loops.uses_multicast(function)", "self.cluster = cluster_loops.cluster_size_of(function)\n        self.shares = cluster_loops.uses_multicast(function)"))
    # functions have 60 lines at most: the longer name wraps the first of 60
    t.sub(r"^(def match_tma_tile\([^\n]*:)$", r"\1  # fmt: skip", "src/tilewright/passes/gpu/analysis/tma_tiles.py", must=False, flags=8)
    t.sub(r'(setattr\(module, )"may_write"', r'\1"may_clobber"', "tests/*.py", must=False)
    configuration(t)
    contractions(t)
    programs(t)
    estimates(t)
    plans(t)
    proof(t)
