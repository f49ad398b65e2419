"""Convolutions, pools, resizing and padding of flag_gems."""

from __future__ import annotations

import torch

from third_party_gems import case, each, experimental_op, gems

# ---- convolutions, pools, resizing, padding ------------------------------------------------------------


@case
def conv2d(maker):
    n, c, h = (maker.sized(2, 32), maker.sized(8, 128), maker.sized(9, 56))
    return each(
        lambda: gems.conv2d(
            maker.normal(n, c, h, h, dtype=torch.float16),
            maker.normal(c, c, 3, 3, dtype=torch.float16),
            None,
            1,
            1,
        )
    )


@case
def conv2d_fp32_strided(maker):
    n, c, h = (maker.sized(2, 32), maker.sized(8, 64), maker.sized(11, 112))
    return each(
        lambda: gems.conv2d(
            maker.normal(n, c, h, h, dtype=torch.float32),
            maker.normal(c, c, 3, 3, dtype=torch.float32),
            maker.normal(c, dtype=torch.float32),
            2,
            1,
        )
    )


@case
def conv1d(maker):
    return each(
        lambda: gems.conv1d(
            maker.normal(
                maker.sized(2, 32), maker.sized(8, 128), maker.sized(33, 4096), dtype=torch.float16
            ),
            maker.normal(maker.sized(8, 128), maker.sized(8, 128), 3, dtype=torch.float16),
            None,
            1,
            1,
        )
    )


@case
def conv3d(maker):
    return each(
        lambda: gems.conv3d(
            maker.normal(
                maker.sized(2, 8),
                maker.sized(8, 32),
                *maker.sized((5, 6, 7), (16, 56, 56)),
                dtype=torch.float16,
            ),
            maker.normal(maker.sized(8, 64), maker.sized(8, 32), 3, 3, 3, dtype=torch.float16),
            None,
            1,
            1,
        )
    )


@case
def conv_depthwise2d(maker):
    c = maker.sized(8, 256)
    return each(
        lambda: gems._conv_depthwise2d(
            maker.normal(
                maker.sized(2, 16), c, maker.sized(9, 56), maker.sized(9, 56), dtype=torch.float16
            ),
            maker.normal(c, 1, 3, 3, dtype=torch.float16),
            [3, 3],
            None,
            [1, 1],
            [1, 1],
            [1, 1],
        )
    )


@case
def pool(maker):
    a = maker.normal(
        maker.sized(2, 16), maker.sized(3, 128), maker.sized(10, 112), maker.sized(10, 112)
    )

    def f():
        y, j = gems.max_pool2d_with_indices(a, [3, 3], [2, 2], [1, 1], [1, 1])
        return [
            y,
            j,
            gems.max_pool2d_backward(
                maker.normal(*y.shape), a, j, [3, 3], [2, 2], [1, 1], [1, 1], False
            ),
        ]

    def k():
        y = gems.avg_pool2d(a, [3, 3], [2, 2], [1, 1])
        return [
            y,
            gems.avg_pool2d_backward(
                maker.normal(*y.shape), a, [3, 3], [2, 2], [1, 1], False, True, None
            ),
        ]

    return each(f, k)


@case
def upsample(maker):
    a = maker.normal(
        maker.sized(2, 16),
        maker.sized(3, 64),
        maker.sized(9, 128),
        maker.sized(9, 128),
        dtype=torch.float32,
    )
    h = maker.sized(9, 128)
    return each(
        lambda: gems.upsample_nearest2d(a, (2 * h, 2 * h)),
        lambda: gems.upsample_bicubic2d(a, (2 * h, 2 * h)),
        lambda: gems._upsample_bicubic2d_aa(a, (h // 2, h // 2)),
        lambda: gems._upsample_bicubic2d_aa_backward(
            maker.normal(*a.shape[:2], h // 2, h // 2, dtype=torch.float32),
            (h // 2, h // 2),
            tuple(a.shape),
            False,
        ),
    )


@case
def upsample_1d(maker):
    a = maker.normal(
        maker.sized(2, 32), maker.sized(3, 128), maker.sized(33, 4096), dtype=torch.float32
    )
    n = 2 * a.shape[-1]
    return each(
        lambda: gems.upsample_nearest1d(a, (n,)),
        lambda: gems.upsample_linear1d(a, [n], False),
        lambda: gems._upsample_nearest_exact1d(a, [n]),
        lambda: gems.upsample_nearest3d(
            maker.normal(
                maker.sized(2, 4),
                maker.sized(3, 16),
                *maker.sized((4, 5, 6), (16, 64, 64)),
                dtype=torch.float32,
            ),
            maker.sized((8, 10, 12), (32, 128, 128)),
        ),
    )


@case
def pad(maker):
    a = maker.normal(
        maker.sized(2, 16), maker.sized(3, 64), maker.sized(9, 256), maker.sized(11, 256)
    )
    return each(
        lambda: gems.constant_pad_nd(a, [2, 3, 1, 4], 1.0),
        lambda: gems.reflection_pad2d(a, [2, 3, 1, 4]),
        lambda: gems.pad(a, [2, 3, 1, 4], mode="reflect"),
        lambda: gems.pad(a, [2, 3, 1, 4], mode="replicate"),
        lambda: gems.pad(a, [2, 3, 1, 4], mode="circular"),
    )


@case
def pad_1d3d(maker):
    a = maker.normal(maker.sized(2, 64), maker.sized(3, 256), maker.sized(33, 2048))
    b = maker.normal(maker.sized(2, 4), maker.sized(3, 16), *maker.sized((4, 5, 6), (16, 128, 128)))
    return each(
        lambda: gems.reflection_pad1d(a, [2, 3]),
        lambda: gems.replication_pad1d(a, [2, 3]),
        lambda: gems.replication_pad3d(b, [1, 2, 1, 2, 1, 2]),
        lambda: experimental_op("replication_pad2d").replication_pad2d(b[0], [1, 2, 1, 2]),
    )


@case
def im2col(maker):
    return each(
        lambda: experimental_op("im2col").im2col(
            maker.normal(
                maker.sized(2, 16), maker.sized(3, 32), maker.sized(9, 64), maker.sized(9, 64)
            ),
            [3, 3],
            [1, 1],
            [1, 1],
            [1, 1],
        ),
        lambda: gems.pixel_unshuffle(
            maker.normal(
                maker.sized(2, 16), maker.sized(3, 64), maker.sized(8, 256), maker.sized(8, 256)
            ),
            2,
        ),
        lambda: experimental_op("pixel_shuffle").pixel_shuffle(
            maker.normal(
                maker.sized(2, 16), maker.sized(8, 64), maker.sized(8, 128), maker.sized(8, 128)
            ),
            2,
        ),
    )
