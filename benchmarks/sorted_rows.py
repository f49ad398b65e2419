"""Rows of the speed table whose programs sort a row, select its largest elements, or compute gradients of layer norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import row_kernel_programs as programs
import tilewright as tw
import tilewright.language as tl
from protocol import Row

if TYPE_CHECKING:
    from cpu_kernels import Settings


@tw.jit
def sort_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at, columns = tl.program_id(0) * n, tl.arange(0, BLOCK)
    tl.store(out_ptr + at + columns, tl.sort(tl.load(x_ptr + at + columns)))


@tw.jit
def topk_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, K: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    largest = tl.topk(tl.load(x_ptr + row * n + columns), K)
    tl.store(out_ptr + row * K + tl.arange(0, K), largest)


def sort(s: Settings) -> Iterator[Row]:
    from cpu_kernels import compared, verify

    row = Row(
        "sort", "tl.sort of a row, fp32, one program a row, against torch.sort(x).values", 1.0
    )
    for n in s.pick([64, 256, 1024, 4096], [64, 1024]):
        rows = (1 << 20) // n
        x, out = s.array(rows, n), s.array(rows, n, random=False)
        verify(
            lambda: sort_kernel[(rows,)](x, out, n, BLOCK=n),  # noqa: B023
            (lambda: out.copy_(s.torch.sort(x, 1).values)) if s.torch else None,  # noqa: B023
            out, 0.0, f"sort {n}",
        )  # fmt: skip
        peer = (lambda: s.torch.sort(x, 1)) if s.torch else None  # noqa: B023
        ours = {"": lambda: sort_kernel[(rows,)](x, out, n, BLOCK=n)}  # noqa: B023
        row.points.append(compared(f"{rows} x {n}", ours, peer, floor=1.0))
    yield row


def topk(s: Settings) -> Iterator[Row]:
    from cpu_kernels import compared, verify

    row = Row(
        "topk", "tl.topk of a row, fp32, one program a row, against torch.topk(x, k).values", 1.0
    )
    sizes = [(256, 8), (1024, 8), (1024, 64), (4096, 8), (4096, 64)]
    for n, k in s.pick(sizes, [(1024, 8), (4096, 64)]):
        rows = (1 << 20) // n
        x, out = s.array(rows, n), s.array(rows, k, random=False)
        verify(
            lambda: topk_kernel[(rows,)](x, out, n, BLOCK=n, K=k),  # noqa: B023
            (lambda: out.copy_(s.torch.topk(x, k).values)) if s.torch else None,  # noqa: B023
            out, 0.0, f"topk {n} {k}",
        )  # fmt: skip
        peer = (lambda: s.torch.topk(x, k)) if s.torch else None  # noqa: B023
        ours = {"": lambda: topk_kernel[(rows,)](x, out, n, BLOCK=n, K=k)}  # noqa: B023
        row.points.append(compared(f"{rows} x {n}, k = {k}", ours, peer, floor=1.0))
    yield row


def layer_norm_backward(s: Settings) -> Iterator[Row]:
    from cpu_kernels import compared, verify

    row = Row("layer-norm-backward", "gradients of layer norm's input, fp32, against "
              "torch.ops.aten.native_layer_norm_backward", 1.0)  # fmt: skip
    for n in s.pick([512, 1000, 4096, 16384], [512, 4096]):
        rows = (1 << 22) // n
        x, dy, dx, w = s.array(rows, n), s.array(rows, n), s.array(rows, n), s.array(n)
        mean, rstd = s.array(rows), s.array(rows)
        block = 1 << (n - 1).bit_length()

        def launch(
            given: tuple[Any, ...] = (x, w, dy, mean, rstd, dx), n: int = n, block: int = block
        ) -> None:
            programs.layer_norm_backward[(given[3].shape[0],)](*given, n, BLOCK=block)

        peer = None
        if s.torch:
            mean.copy_(x.mean(1))
            rstd.copy_(1 / (x.var(1, unbiased=False) + 1e-5).sqrt())

            def peer(
                x: Any = x,
                w: Any = w,
                dy: Any = dy,
                n: int = n,
                m: Any = mean[:, None],
                r: Any = rstd[:, None],
            ) -> Any:
                return s.torch.ops.aten.native_layer_norm_backward(
                    dy, x, [n], m, r, w, w, [True, False, False]
                )[0]

        verify(launch, peer and (lambda: dx.copy_(peer())), dx, 1e-5, f"layer norm backward {n}")  # noqa: B023
        row.points.append(compared(f"{rows} x {n}", {"": launch}, peer, floor=1.0))
    yield row


FAMILIES = {"sort": sort, "topk": topk, "layer-norm-backward": layer_norm_backward}
