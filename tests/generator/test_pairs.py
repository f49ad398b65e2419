"""Two adjacent tiles, one below the other or side by side, by neighbouring CTAs that fetch what both need once."""

import numpy as np
import pytest
from tests.generator.gpu_level import interpret
from tests.generator.programs import to_gpu
from tests.generator.test_gpu_level import array

import tilewright as tw
from tilewright.backends.base import Options
from tilewright.backends.nvidia.backend import backend
from tilewright.backends.nvidia.target import target_info
from tilewright.dialects import gpu
from tilewright.errors import LaunchError
from tilewright.interpreter.executor import run_module
from tilewright.passes.gpu.analysis.cluster_loops import SHARED, cluster_size_of
from tilewright.passes.gpu.multicast_tma_loads import halves

pytestmark = pytest.mark.sampled(12, full=12)

CONFIG = tw.MatmulConfig(128, 128, 64, 4, 8, 2, persistent=True, tma_multicast=True)


@pytest.mark.parametrize(
    "shape", [(256, 128, 128), (300, 200, 136), (128, 264, 72), (520, 72, 200)]
)
@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_as_a_gpu_would_have_it(shape, batch, turned, target, operand):
    """Rows, or columns, of tiles even and odd in number: there the last pair has a tile beyond the end."""
    rng, (m, n, k) = np.random.default_rng(4), shape
    a = array(rng, (*batch, m, k), "float16", turned[0])
    b = array(rng, (*batch, k, n), "float16", turned[1])
    out = np.full((*batch, m, n), np.nan, np.float16)
    interpret(target_info(target), a, b, out, config=CONFIG.with_(multicast_operand=operand))
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(out - wanted).max() <= 2e-3 * np.abs(wanted).max()


@pytest.mark.parametrize("columns", [152, 176])
def test_large_accumulators(columns):
    """More accumulators than one more warp leaves room for: a producer warpgroup gives its registers away. 152 columns
    are stored in parts of 8."""
    rng, made = np.random.default_rng(7), []
    config = CONFIG.with_(block_m=256, block_n=columns, multicast_operand="a")

    def run(program, target, module, signature, arguments, grid):
        to_gpu(module, program, target.name)
        made.append(module)
        run_module(module, arguments, grid)

    a, b = array(rng, (264, 72), "float16"), array(rng, (72, 320), "float16", True)
    out = np.full((320, 264), np.nan, np.float16).T
    interpret(target_info("sm_90a"), a, b, out, config=config, run=run)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(out - wanted).max() <= 2e-3 * np.abs(wanted).max()
    (producer,) = [op for op in made[0].walk() if isinstance(op, gpu.ProducerWarpOp)]
    assert producer.consumer_registers is not None
    assert producer.consumer_registers.value.data > 168 > producer.producer_registers.value.data
    assert [op for op in made[0].walk() if isinstance(op, gpu.TmaStoreOp)]


OFF = [
    (), ("multicast-tma-loads",), ("specialize-warps",), ("pipeline-loads",), ("pipeline-loads{tma=false}",),
    ("lower-stores-to-tma",), ("promote-shared",), ("insert-barriers",),
]  # fmt: skip


@pytest.mark.parametrize("off", OFF, ids=str)
@pytest.mark.parametrize("half", ["panels", "lines"])
def test_without_passes(off, half):
    """Results are the same; boxes are fetched together where a warp of its own copies them: of a row-major B
    panels each, of a column-major one lines of a panel each."""
    rng, seen = np.random.default_rng(6), []
    a, b = array(rng, (300, 136), "float16"), array(rng, (136, 200), "float16", half == "lines")
    out = np.full((300, 200), np.nan, np.float16)

    def run(program, target, module, signature, arguments, grid):
        to_gpu(module, program, target.name, off)
        seen.append(module)
        run_module(module, arguments, grid)

    interpret(target_info("sm_90a"), a, b, out, config=CONFIG, run=run)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(out - wanted).max() <= 2e-3 * np.abs(wanted).max()
    (module,) = seen
    same = [op for op in module.walk() if isinstance(op, gpu.TmaLoadOp) and SHARED in op.attributes]
    kept = [(), ("lower-stores-to-tma",), ("insert-barriers",), ("pipeline-loads{tma=false}",)]
    assert len(same) == (off in kept)
    assert [halves(op) for op in same] == [half] * len(same)
    (function,) = module.body.block.ops
    assert cluster_size_of(function) == (1 if off == ("multicast-tma-loads",) else 2)


def test_what_the_assembler_gets():
    """Two blocks of a cluster: boxes of B for both, arrivals at both, and a common beginning and end."""
    made = []

    def run(program, target, module, *_):
        options = Options(num_warps=program.config.num_warps, num_stages=program.config.num_stages)
        made.append(backend.compile(module, options, target))

    a, b = np.zeros((512, 136), np.float16), np.zeros((136, 520), np.float16)
    interpret(target_info("sm_90a"), a, b, np.zeros((512, 520), np.float16), config=CONFIG, run=run)
    ptx = made[0].asm["ptx"]
    assert made[0].plan.cluster_size == 2 and made[0].plan.threads == 288
    assert ".reqnctapercluster 2" in ptx and ptx.count("barrier.cluster.wait") == 2
    assert ptx.count("multicast::cluster") == 1 and ptx.count("mapa.shared::cluster") == 2
    assert "mbarrier.init.shared::cta.b64" in ptx and ", 16;" in ptx  # 8 warps of two blocks


def test_on_a_cpu():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((300, 70)), rng.standard_normal((70, 200))
    np.testing.assert_allclose(tw.matmul(a, b, config=CONFIG), a @ b, rtol=1e-11, atol=1e-11)


def test_which_operand():
    assert CONFIG.text.endswith("persistent multicast")
    config = CONFIG.with_(multicast_operand="a")
    assert config.text.endswith("persistent multicast-a")
    assert tw.MatmulConfig.from_text(config.text) == config
    with pytest.raises(LaunchError, match="'a' or 'b', not 'c'"):
        CONFIG.with_(multicast_operand="c")


def test_only_persistent_programs():
    with pytest.raises(LaunchError, match="persistent"):
        tw.MatmulConfig(tma_multicast=True)
    assert not CONFIG.with_(persistent=False).tma_multicast
