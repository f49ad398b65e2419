"""torch's own samples of its operators through torch.compile, against eager mode.

    python tests/integrations/inductor/operator_samples.py float32          # 40 minutes
    python tests/integrations/inductor/operator_samples.py int64 --part 3/20
    python tests/integrations/inductor/operator_samples.py float32 --only nn.functional.conv2d --samples 9
    python tests/integrations/inductor/operator_samples.py bfloat16 --device cuda

Of each operator in torch's list (`op_db`) that supports the type, the samples with the most elements are compiled.
Prints a line of JSON per operator: `{"operator", "error"}`. Needs the package `expecttest`, which torch's list imports.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import warnings
from typing import Any

import torch

SECONDS = 120
"""For one sample."""


def tensors(value: Any) -> list[Any]:
    return torch.utils._pytree.tree_leaves(value)


def cloned(value: Any) -> Any:
    """`value` with copies of its tensors: some operators write to them."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, value)


def largest_samples(operator: Any, device: str, dtype: Any, count: int) -> list[Any]:
    torch.manual_seed(0)
    samples = list(operator.sample_inputs(device, dtype, requires_grad=False))

    def elements(index: int) -> int:
        sample = samples[index]
        leaves = tensors((sample.input, sample.args, sample.kwargs))
        return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))

    order = sorted(range(len(samples)), key=lambda i: (-elements(i), i))
    return [samples[i] for i in order[:count]]


def compare(operator: Any, sample: Any) -> None:
    """Compile one sample. Raises what compilation raises, or AssertionError; eager mode's errors are skipped."""

    def function(given: Any, args: Any, kwargs: Any) -> Any:
        return operator.op(given, *args, **kwargs)

    given = (sample.input, sample.args, sample.kwargs)
    torch.manual_seed(1)
    try:
        expected = function(*cloned(given))
    except Exception:  # such as operators for CUDA only
        return
    torch._dynamo.reset()
    given = cloned(given)
    torch.manual_seed(1)
    found = torch.compile(function)(*given)
    assert len(tensors(found)) == len(tensors(expected))
    for a, b in zip(tensors(found), tensors(expected), strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b or a != a
        elif "empty" in operator.name:
            assert a.shape == b.shape
        else:
            tolerance = {torch.float16: 1e-2, torch.bfloat16: 4e-2}.get(b.dtype, 1e-4)
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def stop(*_: Any) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def errors(operator: Any, device: str, dtype: Any, count: int) -> str:
    for sample in largest_samples(operator, device, dtype, count):
        signal.alarm(SECONDS)
        try:
            compare(operator, sample)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:2000]
        finally:
            signal.alarm(0)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("type", choices=["float32", "int64", "float16", "bfloat16"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--part", default="0/1", help="which part of the operators, of how many")
    parser.add_argument("--only", action="append", default=[], help="an operator's name")
    parser.add_argument("--samples", type=int, default=1, help="per operator")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    from tilewright.integrations import inductor

    inductor.install(given.device)
    import torch._inductor.config as settings
    from torch.testing._internal.common_methods_invocations import op_db

    settings.compile_threads, settings.force_disable_caches = 1, True
    settings.fallback_random = True
    signal.signal(signal.SIGALRM, stop)
    dtype, (part, parts) = getattr(torch, given.type), map(int, given.part.split("/"))
    supported = [each for each in op_db if dtype in each.supported_dtypes(given.device)]
    for operator in supported[part::parts]:
        name = ".".join(filter(None, (operator.name, operator.variant_test_name)))
        if not given.only or name in given.only:
            error = errors(operator, given.device, dtype, given.samples)
            print(json.dumps({"operator": name, "error": error}), flush=True)


if __name__ == "__main__":
    main()
