"""torch.compile on a GPU: Inductor with tilewright beside Inductor with Triton.

    python benchmarks/inductor_gpu.py                      every row
    python benchmarks/inductor_gpu.py --only unet --seconds 100

Two processes, one per compiler, compile each model in turn, without caches; then they are timed in turns, five rounds,
and the least time of each counts. A call of a small model waits for the host, whose part is torch's own, so the time
of the kernels on the GPU stands beside it. Compilation is measured from the first call to its end in CPU seconds of the process
and its compile workers, imports and the creation of the CUDA context excluded. The outputs (and gradients) of both
are compared with eager mode, which Inductor's Triton may differ from as well. Prints a row per model; needs torch and
Triton. tilewright must be installed as a package: torch's compile workers do not find it otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from inductor_models import MODELS

COMPILERS = ("Triton", "tilewright")
ROUNDS = 5


# ---- the process of one compiler -----------------------------------------------------------------------


class Subject:
    """One model: eager mode, what it was compiled to, and its arguments."""

    def __init__(self, torch: Any, name: str, device: str) -> None:
        torch.manual_seed(0)
        self.torch, self.device = torch, device
        self.model, self.args, self.trains, self.mode = MODELS[name](torch, device)
        self.run: Callable[[], Any] = self.eager

    def eager(self) -> Any:
        return self._step(self.model)

    def _step(self, model: Any) -> list[Any]:
        if not self.trains:
            with self.torch.no_grad():
                return [model(*self.args)]
        output = model(*self.args)
        parameters = [each for each in self.model.parameters() if each.requires_grad]
        return [output, *self.torch.autograd.grad(output.float().square().mean(), parameters)]

    def compile(self) -> tuple[float, float]:
        """CPU seconds of the first call, and the largest error relative to eager mode's largest value."""
        torch = self.torch
        expected = self.eager()
        self.synchronize()
        start = cpu_seconds()
        if self.mode == "aoti":
            loaded = packaged(torch, self.model, self.args)
            self.run = lambda: [loaded(*self.args)]
        else:
            compiled = torch.compile(self.model, mode=self.mode)
            self.run = lambda: self._step(compiled)
        found = self.run()
        self.synchronize()
        seconds = cpu_seconds() - start
        error = 0.0
        for a, b in zip(found, expected, strict=True):
            a, b = a.detach(), b.detach()
            scale = max(float(b.abs().max()), 1e-30)
            difference = float((a - b).abs().max()) / scale
            error = max(error, math.inf if math.isnan(difference) else difference)
        return seconds, error

    def synchronize(self) -> None:
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def time(self) -> float:
        """Seconds per call of ten calls."""
        self.run()
        self.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            self.run()
        self.synchronize()
        return (time.perf_counter() - start) / 10

    def time_of_kernels(self) -> float:
        """Seconds that the kernels of a call take on the GPU: the least of ten calls."""
        if self.device != "cuda":
            return math.nan
        profiler, best = self.torch.profiler, math.inf
        for _ in range(10):
            with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
                self.run()
                self.synchronize()
            best = min(best, sum(event.self_device_time_total for event in profile.key_averages()))
        return best * 1e-6


def cpu_seconds() -> float:
    """CPU time of this process and of all processes below it, of those that ended and were awaited as well."""
    used: dict[int, tuple[int, float]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = file.read_text().rpartition(")")[2].split()
            used[int(file.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    total, found = 0.0, {os.getpid()}
    while found:
        total += sum(used[each][1] for each in found)
        found = {each for each, (parent, _) in used.items() if parent in found}
    return total / os.sysconf("SC_CLK_TCK")


def packaged(torch: Any, model: Any, args: Any) -> Any:
    """`model` compiled ahead of time by AOTInductor and loaded again."""
    program = torch.export.export(model, args)
    path = Path(tempfile.mkdtemp()) / "model.pt2"
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))
    return torch._inductor.aoti_load_package(str(path))


def serve(compiler: str, device: str) -> None:
    """Answer requests on standard input, a line each: `compile NAME`, `time`, `kernels`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever torch prints is not an answer
    import torch

    if compiler == "tilewright":
        from tilewright.integrations import inductor

        inductor.install("cuda" if device == "cuda" else "cpu")
    import torch._inductor.config as settings

    settings.force_disable_caches = True
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.ones(8, device=device).sum().item()
    subject: Subject | None = None
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        request, _, rest = line.strip().partition(" ")
        try:
            if request == "compile":
                torch._dynamo.reset()
                subject = Subject(torch, rest, device)
                found: Any = subject.compile()
            else:
                assert subject is not None
                found = (subject.time() if request == "time" else subject.time_of_kernels(),)
            print("ok", *found, file=answers, flush=True)
        except Exception as error:
            traceback.print_exc()
            last = " ".join(f"{type(error).__name__}: {error}".split())
            print("error", last[:700], file=answers, flush=True)


# ---- the process that compares -------------------------------------------------------------------------


class Server:
    """A child process that compiles with one compiler."""

    def __init__(self, compiler: str, device: str, log: Any) -> None:
        folder = tempfile.mkdtemp()
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", compiler, "--device", device],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
        )  # fmt: skip

    def ask(self, request: str) -> list[str]:
        """The answer's words after "ok". Raises RuntimeError with the error's text."""
        assert self.process.stdin is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> list[str]:
        assert self.process.stdout is not None
        status, *rest = self.process.stdout.readline().split() or ["error", "the process ended"]
        if status == "error":
            raise RuntimeError(" ".join(rest))
        return rest


def compare(servers: dict[str, Server], name: str) -> str:
    """A row of the table."""
    seconds, errors, failed = {}, {}, []
    for compiler, server in servers.items():
        try:
            first, error = map(float, server.ask(f"compile {name}"))
            seconds[compiler], errors[compiler] = first, error
        except RuntimeError as error:
            failed.append(f"{compiler}: {error}")
    best = dict.fromkeys(seconds, math.inf)
    for _ in range(ROUNDS):
        for compiler in best:
            best[compiler] = min(best[compiler], float(servers[compiler].ask("time")[0]))
    kernels = {compiler: float(servers[compiler].ask("kernels")[0]) for compiler in best}
    cells = [name]
    for found, scale, form in ((best, 1e6, ".0f"), (kernels, 1e6, ".0f"), (seconds, 1.0, ".1f")):
        cells += [format(scale * found[c], form) if c in found else "–" for c in COMPILERS]
        whole = len(found) == len(COMPILERS)
        ratio = found["Triton"] / max(found["tilewright"], 1e-9) if whole else math.nan
        cells.append(f"{ratio:.2f}" if whole else "–")
    cells += [f"{errors[c]:.1e}" if c in errors else "–" for c in COMPILERS]
    return "| " + " | ".join(cells) + " |" + "".join(f"\n{text}" for text in failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="part of a model's name")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="start no model after these"
    )
    parser.add_argument("--device", default="cuda", help="cpu tries the program without a GPU")
    parser.add_argument("--log", default=os.devnull, help="file for what torch prints")
    parser.add_argument("--serve", choices=COMPILERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.device)
        return
    end = time.monotonic() + given.seconds
    with open(given.log, "w") as log:
        servers = {compiler: Server(compiler, given.device, log) for compiler in COMPILERS}
        for server in servers.values():
            server.answer()
        print(
            "| model | Triton µs | tilewright µs | ratio | Triton's kernels µs | tilewright's µs | ratio "
            "| Triton compile CPU s | tilewright s | ratio | Triton error | tilewright error |\n"
            + "|---" * 12
            + "|",
            flush=True,
        )
        for name in MODELS:
            if given.only and not any(part in name for part in given.only):
                continue
            if time.monotonic() > end:
                print(f"{name}: no time left")
                continue
            print(compare(servers, name), flush=True)
        for server in servers.values():
            server.process.kill()


if __name__ == "__main__":
    main()
