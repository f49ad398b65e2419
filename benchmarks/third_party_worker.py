"""Runs operators of third-party packages, one after another, and compares them with float64.

`third_party.py` starts it with the name of an implementation and writes names of cases to its input, one a line; a
line of JSON comes back for each. The process ends itself when its CUDA context is lost.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import time
import traceback
import zlib
from types import SimpleNamespace

import numpy
import torch

UNIT = {"fp32": {"cpu": 2.0**-16, "cuda": 2.0**-11}, "bf16": {"cpu": 2.0**-8, "cuda": 2.0**-8}}
"""Relative errors of one rounding: bf16's and TF32's (products of fp32 on a GPU); fp32's 2⁻²⁴ times 256 summands."""
REFUSALS = AssertionError, NotImplementedError, ImportError, TypeError, ValueError
"""What packages raise for arguments that they do not take."""
ROUNDINGS = 8
"""How many of them an operator may accumulate."""


def thinned(autotuner, count, seed):
    """Make autotuners keep `count` of their configurations, others for each kernel and seed."""
    old = autotuner.__init__
    signature = inspect.signature(old)

    def init(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        all_ = list(given.get("configs") or [])
        name = getattr(given["fn"], "__name__", str(given["arg_names"]))
        first = zlib.crc32(f"{name} {seed}".encode())
        if len(all_) > count:
            given["configs"] = [
                all_[(first + i * len(all_) // count) % len(all_)] for i in range(count)
            ]
        given["key"] = [key for key in given["key"] if key in given["arg_names"]]
        rest = {k: v for k, v in given.items() if k not in ("self", "kwargs", "_")}
        old(self, **rest)

    autotuner.__init__ = init


def installed(implementation, count, seed):
    """Put an implementation under the name `triton`; gives the names of the kernels that it launches."""
    if implementation != "triton":
        from tilewright.integrations import triton as drop_in

        drop_in.install()
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    if count:
        thinned(Autotuner, count, seed)
    launched: dict[str, None] = {}
    jitted = JITFunction
    run = jitted.run

    def noted(self, *args, **kwargs):
        launched[getattr(self.fn, "__name__", "?")] = None
        return run(self, *args, **kwargs)

    jitted.run = noted
    if "__getitem__" in vars(jitted):
        jitted.__getitem__ = lambda self, grid: (
            lambda *a, **k: noted(self, *a, grid=grid, warmup=False, **k)
        )
    return launched


@contextlib.contextmanager
def in_double():
    """References of the packages that compute in float32 whatever they are given compute in float64."""
    names = {"float32": torch.float64, "float": torch.float64}
    old = {name: getattr(torch, name) for name in names}
    convert, default = torch.Tensor.float, torch.get_default_dtype()
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    for name, kind in names.items():
        setattr(torch, name, kind)
    try:
        yield
    finally:
        torch.Tensor.float = convert
        for name, kind in old.items():
            setattr(torch, name, kind)
        torch.set_default_dtype(default)


def evaluated(problem, function, dtype, wide=False, shift=0.0):
    """Outputs and gradients of inputs, by name, for random gradients of all outputs that have one.

    With `wide` the inputs are float64; `shift` moves them by that relative amount, up or down.
    """
    from third_party_references import flat

    chance = torch.Generator().manual_seed(2)

    def argument(position, value):
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        value = value.detach().clone()
        if wide:
            value = value.double()
        if shift:
            moved = torch.randint(0, 2, value.shape, generator=chance).to(value) * 2 - 1
            value = value * (1 + shift * moved)
        return value.requires_grad_(position in problem.differentiable)

    inputs = [argument(i, value) for i, value in enumerate(problem.inputs)]
    outputs = flat(function(*inputs))
    ends = [t for t in outputs if t.requires_grad]
    if ends and problem.differentiable:
        drawn = numpy.random.default_rng(1)
        seeds = [  # rounded as the operator's are
            torch.from_numpy(drawn.standard_normal(tuple(t.shape))).to(dtype).to(t.device, t.dtype)
            for t in ends
        ]
        torch.autograd.backward(ends, seeds)
    results = {f"output {i}": t for i, t in enumerate(outputs)}
    results |= {
        f"gradient of {i}": t.grad
        for i, t in enumerate(inputs)
        if isinstance(t, torch.Tensor) and t.grad is not None
    }
    return {name: t.detach().double().cpu() for name, t in results.items()}


def difference(found, wanted):
    """Relative 2-norm of a difference; infinite where shapes or finite positions differ."""
    if found.shape != wanted.shape:
        return float("inf")
    finite = torch.isfinite(found)
    if bool((finite != torch.isfinite(wanted)).any()):
        return float("inf")
    off = torch.linalg.vector_norm((found - wanted)[finite])
    size = torch.linalg.vector_norm(wanted[finite])
    return float(off / size) if float(size) else float(off)


def compared(problem, dtype, unit, rounds=2):
    """Errors and bounds of each result, the worst of `rounds` runs."""
    runs = [evaluated(problem, problem.operator, dtype) for _ in range(rounds)]
    if problem.inputs[0].is_cuda:
        torch.cuda.synchronize()
    with in_double():
        wanted = evaluated(problem, problem.reference, dtype, wide=True)
        missing = sorted(set(wanted) ^ set(runs[0]))
        if missing:
            raise LookupError(f"only one of operator and reference has {', '.join(missing)}")
        errors = {n: max(difference(run[n], w) for run in runs) for n, w in wanted.items()}
        bounds = dict.fromkeys(errors, max(ROUNDINGS * unit, problem.approximate))
        if any(not e <= bounds[n] for n, e in errors.items()):  # as far as rounded inputs move it
            moved = evaluated(problem, problem.reference, dtype, wide=True, shift=unit)
            for name in bounds:
                sensitive = ROUNDINGS * difference(moved[name], wanted[name])
                bounds[name] = max(bounds[name], min(sensitive, 0.9))  # zeros are never right
    return errors, bounds


def run_case(name, device, sizes, launched):
    """What is known of a case in one type."""
    from third_party_cases import CASES, Maker

    case, _, dtype = name.partition(":")
    start = time.monotonic()
    launched.clear()
    facts = {"status": "fault"}
    try:
        maker = Maker(device, dtype, *sizes)
        problem = CASES[case](maker)
        errors, bounds = compared(problem, maker.dtype, UNIT[dtype][device])
        wrong = [n for n, e in errors.items() if not e <= bounds[n]]
        facts["status"] = "wrong" if wrong else "ok"
        worst = max(errors, key=lambda n: errors[n] / bounds[n])
        facts |= {"worst": worst, "error": errors[worst], "bound": bounds[worst]}
        facts["note"] = problem.note
        facts["errors"], facts["wrong"] = errors, {n: (errors[n], bounds[n]) for n in wrong}
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        facts["message"] = f"{type(error).__name__}: {' | '.join(lines[:3])[:400]}"
        at = traceback.extract_tb(error.__traceback__)
        facts["at"] = [f"{frame.filename}:{frame.lineno}" for frame in at[-6:]]
        if isinstance(error, REFUSALS) and not launched:
            facts["status"] = "refused"  # by the package, before any kernel
    facts["kernels"] = list(launched)
    facts["seconds"] = round(time.monotonic() - start, 1)
    return facts


def context_lost(device):
    if device != "cuda":
        return False
    try:
        torch.cuda.synchronize()
        return bool(torch.zeros(1, device="cuda").add(1).item() != 1)
    except Exception:
        return True


def serve(implementation, device, sizes, configs, seed):
    """Answer the names on the input until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the packages print
    torch.set_num_threads(1 if device == "cpu" else 2)
    if device == "cpu":
        torch.cpu.device = lambda index: contextlib.nullcontext()
        torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=4)
    launched = installed(implementation, configs, seed)
    torch.compile = lambda function=None, **_: function or (lambda function: function)
    from third_party_cases import load

    load()
    for line in sys.stdin:
        facts = run_case(line.strip(), device, sizes, launched)
        lost = facts["status"] == "fault" and context_lost(device)
        facts["context lost"] = lost
        answers.write(json.dumps(facts) + "\n")
        answers.flush()
        if lost:
            os._exit(3)
