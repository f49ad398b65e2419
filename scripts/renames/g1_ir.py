"""Group 1: IR operations, types and attributes."""

SUBJECT = "[dialects] Rename IR operations and attributes to their terms in PTX, Triton and MLIR"
BODY = """One term per concept, and that of the field where there is one: gpu.local_alloc,
gpu.convert_layout, gpu.async_copy, gpu.mbarrier_*, gpu.tma_load, swizzle128,
tile.noalias, cpu.call_microkernel. No generated code changes."""

GPU_OPS = {  # op -> (op, class, class)
    "alloc": ("local_alloc", "LocalAllocOp", "LocalAllocOp"),
    "release": ("local_dealloc", "LocalDeallocOp", "LocalDeallocOp"),
    "convert": ("convert_layout", "ConvertLayoutOp", "ConvertLayoutOp"),
    "part": ("extract_slice", "ExtractSliceOp", "ExtractSliceOp"),
    "turn": ("local_transpose", "LocalTransposeOp", "LocalTransposeOp"),
    "copy": ("async_copy", "AsyncCopyOp", "AsyncCopyOp"),
    "commit": ("async_commit_group", "AsyncCommitGroupOp", "AsyncCommitGroupOp"),
    "wait": ("async_wait", "AsyncWaitOp", "AsyncWaitOp"),
    "barriers": ("mbarrier_init", "MbarrierInitOp", "MbarrierInitOp"),
    "expect": ("mbarrier_arrive_expect_tx", "MbarrierArriveExpectTxOp", "MbarrierArriveExpectTxOp"),
    "arrive": ("mbarrier_arrive", "MbarrierArriveOp", "MbarrierArriveOp"),
    "mbarrier_wait": ("mbarrier_wait", "MbarrierWaitOp", "MbarrierWaitOp"),
    "tma_load": ("tma_load", "TmaLoadOp", "TmaLoadOp"),
    "produce": ("producer_warp", "ProducerWarpOp", "ProducerWarpOp"),
}
GPU_ATTRIBUTES = {
    "same": "multicast", "cluster": "cluster_size", "blocks": "num_ctas", "warps": "num_warps",
    "stages": "num_stages", "kept": "cache_in_shared", "ordered": "barriers_inserted",
    "vector": "vector_width",
}
TILE = {"apart": "noalias", "spread": "parallel_iterations", "as_written": "no_unroll", "gate": "mul_sigmoid"}
CPU = {  # op -> (op, class, class)
    "group": ("fusion_group", "FusionGroupOp", "FusionGroupOp"),
    "group_end": ("yield", "YieldOp", "YieldOp"),
    "in_place": ("prepacked", "PrepackedOp", "PrepackedOp"),
    "buffer_at": ("buffer_from_ptr", "BufferFromPtrOp", "BufferFromPtrOp"),
    "concat": ("from_elements", "FromElementsOp", "FromElementsOp"),
    "dot_call": ("call_microkernel", "CallMicrokernelOp", "CallMicrokernelOp"),
    "dot_buffers": ("buffer_dot", "BufferDotOp", "BufferDotOp"),
}
GPU_FILES = (
    "src/tilewright/dialects/gpu*.py src/tilewright/passes/gpu/* src/tilewright/backends/nvidia/*"
    " src/tilewright/interpreter/*"
)
#: places where a name is not one of the dialect's
NOT_IR = "*/runtime/drivers/* tests/runtime/* benchmarks/*"


def operations(t):
    gpu = {old: new[0] for old, new in GPU_OPS.items()} | GPU_ATTRIBUTES
    t.sub(r"!gpu\.barriers\b", "!gpu.mbarriers")
    t.sub(r'(class MbarriersType\(.*?name = )"gpu\.barriers"', r'\1"gpu.mbarriers"', "src/tilewright/dialects/gpu.py", flags=16)
    names = "|".join(sorted(gpu, key=len, reverse=True))
    # not: tests/gpu.…, passes.gpu.blocks, gpu.launch(…), gpu.py; `gpu.num_stages` of a table of constants is one
    t.sub(rf"(?<![\w./])gpu\.({names})\b(?!\.[a-z]|\()", lambda m: "gpu." + gpu[m[1]], but=NOT_IR)
    # "gpu.async_copy"(…) in the generic syntax
    t.sub(rf"\"gpu\.({names})\"\(", lambda m: f'"gpu.{gpu[m[1]]}"(', but=NOT_IR, must=False)
    t.words({c[1]: c[2] for c in GPU_OPS.values()} | {"MbarriersType": "MbarriersType"}, "*.py")
    t.sub(rf"(?<![\w./])tile\.({'|'.join(TILE)})\b(?!\.[a-z]|\()", lambda m: "tile." + TILE[m[1]])
    # names without the dialect, as tests count operations
    bare = {"tma_load": "tma_load", "mbarrier_wait": "mbarrier_wait"}
    t.sub(r"(?<=[\"'`])(tma_copy|tma_wait)(?=[\"'`])|\b(tma_copy|tma_wait)=", lambda m: bare[m[1] or m[2]] + ("=" if m[2] else ""), "*.py *.md", must=False)
    t.words({"MulSigmoidOp": "MulSigmoidOp"}, "*.py")
    t.sub(r"\bAS_WRITTEN\b", "NO_UNROLL", "*.py")
    cpu = {old: new[0] for old, new in CPU.items()} | {"scheduled": "argument_types"}
    order = "|".join(sorted(cpu, key=len, reverse=True))
    t.sub(rf"(?<![\w./])cpu\.({order})\b(?!\.[a-z])", lambda m: "cpu." + cpu[m[1]], but="tests/runtime/* benchmarks/*")
    t.words({c[1]: c[2] for c in CPU.values()}, "*.py")
    # short forms in drawings of IR, and the table of what becomes of an operation
    t.sub(r"\bgroup_end\b", "cpu.yield", "src/tilewright/passes/cpu/*.py docs/*.md", must=False)
    t.edit("scripts/generate_docs.py", ('"dot_buffers":', '"buffer_dot":'), ('"in_place":', '"prepacked":'), ('"buffer_at":', '"buffer_from_ptr":'))
    t.edit("src/tilewright/dialects/gpu.py", ("    `imprecise` is that of `tile.dot`.", "    `max_num_imprecise_acc` is that of `tile.dot`."))


def operands(t):
    dialect = "src/tilewright/dialects/gpu.py"
    t.words({"source_stage": "source_stage", "lhs_stage": "lhs_stage", "rhs_stage": "rhs_stage"}, "*.py *.md")
    t.sub(r"(?<=[\w)])\.slot\b(?!\()", ".stage", GPU_FILES)
    t.sub(r"\bslot = operand_def", "stage = operand_def", dialect)
    t.sub(r"\$slot\b", "$stage", dialect)
    t.sub(r"[Ss]tage `slot`", lambda m: m[0][0] + "tage `stage`", dialect)
    # the predicate
    t.sub(r"\bactive = operand_def", "pred = operand_def", dialect)
    t.sub(r"\$active\b", "$pred", dialect)
    t.sub(r"`active`", "`pred`", dialect)
    t.sub(r"\bop\.active\b", "op.pred", GPU_FILES)
    # tensor maps
    t.sub(r"\bcorner = var_operand_def", "coords = var_operand_def", dialect)
    t.sub(r"\bpitches = var_operand_def", "global_strides = var_operand_def", dialect)
    t.sub(r"\bextents = var_operand_def", "global_dims = var_operand_def", dialect)
    t.sub(r"`corner`", "`coords`", dialect)
    t.sub(r"`extents`", "`global_dims`", dialect)
    t.sub(r"`pitches`", "`global_strides`", dialect)
    t.sub(r"\bop\.corner\b", "op.coords", GPU_FILES)
    t.sub(r"\bop\.pitches\b", "op.global_strides", GPU_FILES)
    t.sub(r"\bop\.extents\b", "op.global_dims", GPU_FILES)
    # properties
    t.sub(r"\bguarded\b", "range_checked", GPU_FILES + " docs/passes.md tests/passes/*.mlir tests/ir/* tests/interpreter/* docs/operations.md docs/walkthrough.md", but="*/interpreter/races.py */interpreter/memory.py")
    t.sub(r"(class MbarrierInitOp.*?)`warps` says", r"\1`arrival_count` says", dialect, flags=16)
    t.sub(r"(class MbarrierInitOp.*?)\bwarps = opt_prop_def", r"\1arrival_count = opt_prop_def", dialect, flags=16)
    t.sub(r"\$warps\^", "$arrival_count^", dialect)
    t.sub(r"\bop\.warps\b", "op.arrival_count", "*/lower/boxes.py */lower/tma.py */interpreter/shared_memory.py")
    t.edit("src/tilewright/dialects/gpu_rules.py", ("made.warps", "made.arrival_count"))
    t.edit("src/tilewright/passes/gpu/specialize_warps.py", ('properties={"warps": IntegerAttr', 'properties={"arrival_count": IntegerAttr'))
    t.sub(r"(class TmaStoreWaitOp.*?)\bwritten = opt_prop_def", r"\1complete = opt_prop_def", dialect, flags=16)
    t.edit(dialect, ("(`but` $pending^)? (`written` $written^)?", "(`pending` $pending^)? (`complete` $complete^)?"), ("With `written`, until", "With `complete`, until"))
    t.sub(r"\bop\.written\b", "op.complete", "*/lower/boxes.py */lower/tma.py */interpreter/box_stores.py */interpreter/async_tma_stores.py */interpreter/shared_memory.py")
    t.sub(r"\bwritten=UnitAttr\(\)", "complete=UnitAttr()", "src/tilewright/passes/gpu/*.py")
    t.sub(r"(gpu\.tma_store_wait %?[\w{}.+\[\]:% ]+?) but (\d+|\[\[)", r"\1 pending \2", "*.py *.mlir *.md", must=False)
    t.sub(r"(gpu\.tma_store_wait .*?) written\b", r"\1 complete", "*.py *.mlir *.md", must=False)
    # products of tiles
    for name in ("imprecise",):
        t.sub(rf"\b{name} = opt_prop_def", "max_num_imprecise_acc = opt_prop_def", "src/tilewright/dialects/*")
        t.sub(rf"\bop\.{name}\b", "op.max_num_imprecise_acc", "src/tilewright/*.py")
        t.sub(rf'"{name}"(?=:)', '"max_num_imprecise_acc"', "src/tilewright/passes/*")
        t.sub(r"`imprecise`: how many", "`max_num_imprecise_acc`: how many", "src/tilewright/dialects/tile/algebra.py")
    t.edit("src/tilewright/semantics/linalg.py", ("precision=precision, imprecise=imprecise", "input_precision=precision, max_num_imprecise_acc=imprecise"))
    t.sub(r"\bprecision = prop_def", "input_precision = prop_def", "src/tilewright/dialects/tile/algebra.py")
    t.edit("src/tilewright/dialects/tile/algebra.py", ("`,` $precision attr-dict", "`,` $input_precision attr-dict"), ("`precision` is the user's\n    `input_precision` (", "`input_precision` is the user's (\n    "))
    t.sub(r"\bop\.precision\b", "op.input_precision", "src/tilewright/*.py")
    t.sub(r'properties=\{"precision"', 'properties={"input_precision"', "src/tilewright/*.py")
    t.edit("tests/semantics/conftest.py", ("/, precision, imprecise=None", "/, input_precision, max_num_imprecise_acc=None"))
    # CPU
    t.edit("src/tilewright/dialects/cpu.py", ("    space = prop_def", "    iteration_space = prop_def"), ("self.space)", "self.iteration_space)"), ("    ahead = opt_prop_def", "    prefetch_distance = opt_prop_def"), ("`ahead` fetches", "`prefetch_distance` fetches"))
    t.sub(r'"space": Dense', '"iteration_space": Dense', "src/tilewright/passes/cpu/*")
    t.sub(r"<\{space = ", "<{iteration_space = ", "*.py *.md *.mlir")
    t.sub(r"\bop\.ahead\b", "op.prefetch_distance", "src/tilewright/backends/cpu/*")
    t.sub(r'properties\["ahead"\]', 'properties["prefetch_distance"]', "src/tilewright/passes/cpu/*")
    t.sub(r"<\{ahead = |(?<=, )ahead = (?=\d)", lambda m: m[0].replace("ahead", "prefetch_distance"), "*.md *.mlir tests/*.py", must=False)


def tests(t):
    """Substrings that are parts of more names now."""
    t.sub(r"CHECK-NOT: gpu\.barrier$", r"CHECK-NOT: {{gpu\\.barrier\\b}}", "tests/*.mlir", flags=8)
    t.sub(r'text\.index\("gpu\.barrier"\)', r'text.index("gpu.barrier\\n")', "tests/*.py", must=False)
    t.sub(r"\(\?!elect\|expect\)", "(?!elect|mbarrier_arrive)", "tests/*.py", must=False)
    t.sub(r"gpu\\\.\(turn\|shared\)", r"gpu\\.(local_transpose|shared)", "tests/*.py", must=False)


def layouts(t):
    """`span128` -> `swizzle128`, `lines+8` -> `pad8`; `:a` -> `.rs`, `:b` -> `.rs.swap_ab`."""
    t.sub(r"\bdim([01]) span(\d+)", r"dim\1 swizzle\2")
    t.sub(r"\bdim([01]) lines\+(\d+)", r"dim\1 pad\2")
    t.sub(r"(?<=[\"' }])span(?=(?:\d+|\{\{?\.\+)[\"'}])", "swizzle", "tests/*.py tests/*.mlir docs/*.md src/*.py", must=False)
    shared = "src/tilewright/layouts/shared.py"
    t.edit(
        shared,
        ('f"span{self.span}" if self.span != WHOLE else f"lines+{self.pad}"', 'f"swizzle{self.span}" if self.span != WHOLE else f"pad{self.pad}"'),
        (r"(?:span(\d+)|lines\+(\d+))", r"(?:swizzle(\d+)|pad(\d+))"),
    )
    t.sub(r"\"lines\+(\d+)\"", "\"pad\\1\"", "tests/*.py")
    t.sub(r"(wgmma\.k\d+[\w.{}]*):a\b", r"\1.rs", "*.py *.mlir *.md")
    t.sub(r"(wgmma\.k\d+[\w.{}]*):b\b", r"\1.rs.swap_ab", "*.py *.mlir *.md")
    t.sub(r"`.rs` or `.rs.swap_ab`", "`.rs` or `.rs.swap_ab`", "*.py *.md")
    t.edit(
        "src/tilewright/layouts/fragments.py",
        ('through = f":{self.through}" if self.through else ""', 'through = {"": "", "a": ".rs", "b": ".rs.swap_ab"}[self.through]'),
        (r'_GROUP_TEXT = re.compile(r"wgmma\.k(\d+)\.(\w+)(?:\.(\w+))?(?::([ab]))?")', r'_GROUP_TEXT = re.compile(r"wgmma\.k(\d+)\.(\w+?)(?:\.(?!rs\b)(\w+))?(\.rs(?:\.swap_ab)?)?")'),
        ('GroupInstruction(int(k), left, right or left, through or "")', 'GroupInstruction(int(k), left, right or left, _THROUGH[through])'),
        ("def parse_group(text", '_THROUGH = {None: "", ".rs": "a", ".rs.swap_ab": "b"}\n\n\ndef parse_group(text'),
    )


def apply(t):
    operations(t)
    operands(t)
    layouts(t)
    tests(t)
