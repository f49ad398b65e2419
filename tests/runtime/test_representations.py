"""What objects look like at a prompt and in a notebook."""

import re

import numpy as np

import tilewright as tw
import tilewright.language as tl


@tw.jit
def shown(x_ptr, n, BLOCK: tl.constexpr = 16):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 1.0, mask=i < n)


def test_kernels(monkeypatch):
    shown._launcher = shown._run = None
    name = r"JITFunction\(tests.runtime.test_representations:shown\(x_ptr, n, BLOCK: constexpr=16\), .*test_representations.py:\d+"
    assert re.fullmatch(name + r"\)", repr(shown))
    x = np.zeros(16, np.float32)
    shown[(1,)](x, 10)
    assert re.fullmatch(name + r", 1 specialization compiled\)", repr(shown))
    shown[(1,)](x, 10, BLOCK=8)
    assert repr(shown).endswith(", 2 specializations compiled)")
    assert "<pre>def shown" in shown._repr_html_() and "i &lt; n" in shown._repr_html_()
    assert repr(shown[(3, 2)]) == "<bound method shown[grid] of (3, 2)>"
    assert "<lambda>" in repr(shown[lambda meta: (1,)])


def test_compiled_kernels():
    x = np.zeros(64, np.float32)
    compiled = shown[(1,)](x[:16], 10)
    texts = (
        "shown(x_ptr: *fp32:16, n: i32, BLOCK=16) for cpu: 0 bytes per thread scratch",
        "shown(x_ptr: *fp32, n: i32, BLOCK=16) for cpu: 0 bytes per thread scratch",
    )
    assert repr(compiled) in [f"<CompiledKernel {text}>" for text in texts]
    gpu = shown.compile({"x_ptr": "*fp32:16", "n": "i32"}, target="sm_90a")
    assert re.match(
        r"<CompiledKernel shown\(x_ptr: \*fp32:16, n: i32, BLOCK=16\) for sm_90a: .* registers, 0 bytes shared>",
        repr(gpu),
    )
    page = gpu._repr_html_()
    assert "<td>num_warps=4, num_stages=3</td>" in page and "<td>target</td><td>sm_90a</td>" in page
    assert re.fullmatch(
        r"functools.partial\(<function shown.run at .*>, \(4,\)\)", repr(compiled[(4,)])
    )


def test_autotuners():
    configs = [tw.Config({"BLOCK": b}) for b in (16, 32)]
    tuner = tw.autotune(configs, key=["n"])(tw.heuristics({"num_warps": lambda args: 4})(shown))
    assert repr(tuner) == "<Autotuner of shown: 2 configurations; key n>"
    assert "<Heuristics for num_warps of JITFunction(" in repr(tuner.fn)
    tuner[(1,)](np.zeros(32, np.float32), 10)
    assert re.fullmatch(
        r"<Autotuner of shown: 2 configurations; key n; 1 tuned; best so far: BLOCK: \d+, .* \([\d.e+-]+ ms\)>",
        repr(tuner),
    )
    page = tuner._repr_html_()
    assert page.count(" ms</td>") == 2 and page.count("<td>best</td>") == 1
    assert "<function shown.run at" in repr(tuner[(2,)]) and "grid=(2,)" in repr(tuner[(2,)])
