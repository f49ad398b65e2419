"""Operators of flash-linear-attention (fla-core) and Liger-Kernel, forward and backward: tilewright, Triton, float64.

    python benchmarks/third_party.py [--device cuda|cpu] [--site FOLDER …] [--only REGEX] [--out FOLDER]

Both packages are found on `sys.path` (`--site` adds folders). Each operator runs in a process of its own, once under
tilewright (in Triton's name) and once under Triton, in fp32 and bf16, so that a fault costs one operator; processes
run beside each other, and `--out` keeps what is done: the same command goes on where it was stopped. A result is an
output or a gradient. It is *wrong* if its relative error (2-norm) against the float64 reference exceeds the type's
bound and twice Triton's error; without a reference, if it differs from Triton's by more than the bound and twice what
Triton's own results differ between two runs. On the CPU there is no Triton: the bound alone counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BOUNDS = {"fp32": 5e-3, "bf16": 3e-2}
"""Relative errors that are rounding's: products of fp32 are those of TF32 on a GPU."""
ENVIRONMENT = {
    "TORCH_COMPILE_DISABLE": "1",
    "FLA_DISABLE_BACKEND_DISPATCH": "1",
    "TILEWRIGHT_CACHE_AUTOTUNING": "0",
}


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--site", action="append", default=[], help="a folder of packages")
    parser.add_argument("--only", default="", help="operators whose package/name matches")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--length", type=int, default=0, help="of sequences (0: 500, 100 on a CPU)")
    parser.add_argument("--configs", type=int, default=2, help="of each autotuner, at most")
    parser.add_argument("--jobs", type=int, default=0, help="processes at once (0: cores - 2)")
    parser.add_argument("--case-limit", type=float, default=150, help="seconds of one process")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds in all")
    parser.add_argument("--out", default=str(Path(tempfile.gettempdir()) / "third_party"))
    parser.add_argument("--again", action="store_true", help="run what is done already, too")
    parser.add_argument("--no-triton", action="store_true")
    parser.add_argument("--worker", nargs=2, metavar=("OPERATOR", "IMPLEMENTATION"))
    return parser.parse_args()


# ---- one operator in one process -----------------------------------------------------------------------


def thinned(autotuner, configs):
    """Make autotuners keep a few of their configurations, and drop names in `key` that are no parameters."""
    import inspect

    old = autotuner.__init__
    signature = inspect.signature(old)

    def init(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs).arguments
        all_ = given.get("configs") or []
        if len(all_) > configs:
            step = (len(all_) - 1) / max(1, configs - 1)
            given["configs"] = [all_[round(i * step)] for i in range(configs)]
        given["key"] = [name for name in given["key"] if name in given["arg_names"]]
        rest = {k: v for k, v in given.items() if k not in ("self", "kwargs", "_")}
        old(self, **rest)

    autotuner.__init__ = init


def installed(implementation, configs):
    """Put an implementation under the name `triton`; gives the names of the kernels that it launches."""
    if implementation == "tilewright":
        from tilewright.integrations import triton as drop_in

        drop_in.install()
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    thinned(Autotuner, configs)
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
    """References that compute in float32 whatever they are given compute in float64."""
    import torch

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


def flat(value):
    """The tensors in nested tuples and lists."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in flat(item)]
    return []


def evaluated(problem, function, double=False):
    """Outputs and gradients of inputs, for random gradients of all outputs that have one."""
    import numpy
    import torch

    def argument(position, value):
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        value = value.detach().clone()
        value = value.double() if double else value
        return value.requires_grad_(position in problem.differentiable)

    inputs = [argument(i, value) for i, value in enumerate(problem.inputs)]
    outputs = flat(function(*inputs))
    ends = [t for t in outputs if t.requires_grad]
    if ends:
        chance = numpy.random.default_rng(1)
        drawn = [torch.from_numpy(chance.standard_normal(t.shape)) for t in ends]
        seeds = [  # rounded as the operator's are
            s.to(problem.dtype).to(t.device, t.dtype) for s, t in zip(drawn, ends, strict=True)
        ]
        torch.autograd.backward(ends, seeds)
    grads = [t.grad for t in inputs if isinstance(t, torch.Tensor) and t.grad is not None]
    return [t.detach().double().cpu() for t in (*outputs, *grads)]


def difference(found, wanted):
    """Relative 2-norm of a difference; infinite where shapes or what is finite differ."""
    import torch

    if found.shape != wanted.shape:
        return float("inf")
    finite = torch.isfinite(found)
    if bool((finite != torch.isfinite(wanted)).any()):
        return float("inf")
    off = torch.linalg.vector_norm((found - wanted)[finite])
    size = torch.linalg.vector_norm(wanted[finite])
    return float(off / size) if float(size) else float(off)


def work(args):
    """Run one operator under one implementation; write the results and what is known of them."""
    name, implementation = args.worker
    out = Path(args.out) / implementation
    launched = installed(implementation, args.configs)
    import torch

    torch.set_num_threads(1 if args.device == "cpu" else 4)
    if args.device == "cpu":
        torch.cpu.device = lambda index: contextlib.nullcontext()
    sys.path.insert(0, str(HERE))
    from third_party_cases import CASES, Maker, load

    load()

    record = {}
    stored = {}
    for dtype in args.dtypes.split(","):
        launched.clear()
        start = time.monotonic()
        facts = record[dtype] = {"status": "fault"}
        write(out / f"{name.replace('/', '.')}.json", record)
        try:
            maker = Maker(args.device, dtype, args.length)
            problem = CASES[name](maker)
            results = evaluated(problem, problem.operator)
            again = evaluated(problem, problem.operator)
            facts["seconds"] = round(time.monotonic() - start, 1)
            facts["repeats"] = [difference(a, b) for a, b in zip(again, results, strict=True)]
            stored[dtype] = results
            if problem.reference is not None:
                with in_double():
                    wanted = evaluated(problem, problem.reference, double=True)
                if len(wanted) != len(results):
                    facts["note"] = f"{len(results)} results, the reference has {len(wanted)}"
                facts["errors"] = [difference(a, b) for a, b in zip(results, wanted, strict=False)]
            facts["status"] = "ok"
        except Exception as error:
            if os.environ.get("THIRD_PARTY_TRACEBACK"):
                raise
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            facts["error"] = f"{type(error).__name__}: {' | '.join(lines[:3])[:300]}"
        facts["kernels"] = list(launched)
        write(out / f"{name.replace('/', '.')}.json", record)
    torch.save(stored, out / f"{name.replace('/', '.')}.pt")


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


# ---- all of them ---------------------------------------------------------------------------------------


def names(args):
    """Operators, read from the files so that this process needs neither package."""
    found = []
    for package in ("fla", "liger"):
        text = (HERE / f"third_party_{package}.py").read_text()
        found += [f"{package}/{n}" for n in re.findall(r"^@case\ndef (\w+)\(", text, re.MULTILINE)]
    return [n for n in found if re.search(args.only, n)]


class Run:
    """One process."""

    def __init__(self, name, implementation, args, environment):
        self.name, self.implementation, self.start = name, implementation, time.monotonic()
        self.files = Path(args.out) / implementation / name.replace("/", ".")
        self.files.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", name, implementation]
        self.log = open(f"{self.files}.log", "wb")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            command,
            stdout=self.log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    def ended(self, limit):
        code, over = self.process.poll(), time.monotonic() - self.start > limit
        if code is None and not over:
            return False
        if code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        path = Path(f"{self.files}.json")
        record = json.loads(path.read_text()) if path.exists() else {"?": {"status": "fault"}}
        for facts in record.values():
            if facts["status"] == "fault" and "error" not in facts:
                how = "time limit" if code is None else f"exit status {code}"
                facts["error"] = f"{how}: {tail(self.files)}"
        write(path, record)
        self.log.close()
        return True


def tail(files):
    lines = Path(f"{files}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else ""


def run_all(args, todo):
    """Run processes, some at once, each operator's two after one another."""
    jobs = args.jobs or max(1, (os.cpu_count() or 2) - 2)
    environment = os.environ | ENVIRONMENT
    for name in ("TRITON_CACHE_DIR", "TILEWRIGHT_CACHE_DIR"):
        environment.setdefault(name, str(Path(args.out) / name.lower()))
    folders = [str(HERE.parent / "src"), *map(os.path.abspath, args.site)]
    folders += filter(None, [environment.get("PYTHONPATH")])
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    start, running = time.monotonic(), []
    while todo or running:
        late = time.monotonic() - start > args.limit
        while todo and not late and len(running) < jobs:
            running.append(Run(*todo.pop(0), args, environment))
        for run in [r for r in running if r.ended(0 if late else args.case_limit)]:
            running.remove(run)
        if late and not running:
            break
        time.sleep(0.1)
    return todo


def loaded(args, implementation, name):
    path = Path(args.out) / implementation / f"{name.replace('/', '.')}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def worst(values):
    return max(values, default=0.0)


def judged(args, name, dtype):
    """(verdict, error, Triton's error, difference, facts) of an operator in one type."""
    ours, theirs = (loaded(args, i, name).get(dtype, {}) for i in ("tilewright", "triton"))
    if ours.get("status") != "ok":
        verdict = "FAULT" if ours else "not run"
        refused = ours.get("error", "").startswith(
            ("AssertionError", "NotImplementedError", "TypeError")
        )
        if (
            refused
            and not ours.get("kernels")
            and ours["error"] == theirs.get("error", ours["error"])
        ):
            verdict = "refused"  # by the package, before any kernel
        return verdict, None, None, None, ours, theirs
    bound, apart = BOUNDS[dtype], None
    if theirs.get("status") == "ok":
        import torch

        stored = [
            torch.load(Path(args.out) / i / f"{name.replace('/', '.')}.pt")[dtype]
            for i in ("tilewright", "triton")
        ]
        apart = [difference(a, b) for a, b in zip(*stored, strict=True)]
    verdict = "ok"
    if "errors" in ours:
        limits = [max(bound, 2 * e) for e in theirs.get("errors", [])] or [bound] * len(
            ours["errors"]
        )
        if any(not e <= limit for e, limit in zip(ours["errors"], limits, strict=True)):
            verdict = "WRONG"
    elif apart is not None:
        limits = [max(bound, 2 * r) for r in theirs["repeats"]]
        if any(not d <= limit for d, limit in zip(apart, limits, strict=True)):
            verdict = "DIFFERS"
    else:
        verdict = "unchecked"
    if theirs and theirs.get("status") != "ok":
        verdict += " (Triton fails)"
    errors, other = ours.get("errors"), theirs.get("errors")
    return (
        verdict, errors and worst(errors), other and worst(other), apart and worst(apart), ours, theirs,
    )  # fmt: skip


def report(args, all_):
    print(
        "| operator | type | kernels | verdict | error | Triton's | difference | repeats | s | Triton's s |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    counts: dict[str, int] = {}
    for name in all_:
        for dtype in args.dtypes.split(","):
            verdict, error, other, apart, ours, theirs = judged(args, name, dtype)
            counts[verdict] = counts.get(verdict, 0) + 1
            cells = ["" if x is None else f"{x:.1e}" for x in (error, other, apart)]
            repeats = worst(ours.get("repeats", []))
            print(
                f"| {name} | {dtype} | {len(ours.get('kernels', []))} | {verdict} | {' | '.join(cells)} | "
                f"{repeats:.0e} | {ours.get('seconds', '')} | {theirs.get('seconds', '')} |"
            )
            if "error" in ours or "error" in theirs or "note" in ours:
                print(
                    f"  {ours.get('error', '')} {ours.get('note', '')} {'Triton: ' + theirs['error'] if 'error' in theirs else ''}"
                )
            if verdict.startswith(("WRONG", "DIFFERS", "FAULT")):
                print(
                    f"  kernels: {' '.join(ours.get('kernels', []))}; errors {ours.get('errors')}"
                )
    print(", ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    return counts


def main():
    args = options()
    if not args.length:
        args.length = 500 if args.device == "cuda" else 100
    if args.worker:
        work(args)
        return 0
    all_ = names(args)
    wanted = ["tilewright"] if args.no_triton or args.device == "cpu" else ["tilewright", "triton"]
    todo = [(n, i) for n in all_ for i in wanted if args.again or not loaded(args, i, n)]
    start = time.monotonic()
    left = run_all(args, todo)
    counts = report(args, all_)
    print(f"{time.monotonic() - start:.0f} s, {len(left)} processes not started")
    return int(any(v.startswith(("WRONG", "DIFFERS", "FAULT")) for v in counts))


if __name__ == "__main__":
    sys.exit(main())
