"""The table of operations on images, with NumPy oracles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.cases import Case
from support.cell_cases import ALL
from support.map_cases import join_maps
from support.op_cases import ops

Pair = tuple[int, int]


@dataclass(frozen=True)
class Windows:
    """Windows over images [n, channels, height, width]."""

    images: tuple[int, int, int, int]
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    ceil: bool = False
    wide: bool = False

    def __str__(self) -> str:
        named = ("k", self.kernel), ("s", self.stride), ("p", self.padding)
        sizes = "x".join(map(str, self.images))
        settings = "".join(
            f"_{n}{a}-{b}" for n, (a, b) in (*named, ("d", self.dilation))
        )
        return f"{sizes}{settings}{'_ceil' * self.ceil}"

    @property
    def places(self) -> Pair:
        """Returns the number of windows along both axes."""
        found = []
        for size, k, s, p, d in zip(
            self.images[2:],
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            strict=True,
        ):
            rest = size + 2 * p - d * (k - 1) - 1
            count = (rest + (s - 1) * self.ceil) // s + 1
            if self.ceil and (count - 1) * s >= size + p:
                count -= 1
            found.append(count)
        return found[0], found[1]

    def cells(self, x: np.ndarray, outside: float) -> np.ndarray:
        """Returns windows as [kernel cells, n, channels, out height, out width]."""
        far = [
            s * n + d * k
            for s, n, d, k in zip(
                self.stride, self.places, self.dilation, self.kernel, strict=True
            )
        ]
        (above, before), (height, width) = self.padding, self.images[2:]
        padded = np.full(
            (*x.shape[:2], height + above + far[0], width + before + far[1]), outside
        )
        padded[:, :, above : above + height, before : before + width] = x
        taps = []
        for u in range(self.kernel[0]):
            for v in range(self.kernel[1]):
                rows = np.arange(self.places[0]) * self.stride[0] + u * self.dilation[0]
                columns = np.arange(self.places[1]) * self.stride[1]
                columns = columns + v * self.dilation[1]
                taps.append(padded[:, :, rows[:, None], columns])
        return np.array(taps)


def convolution(w: Windows, out: int, groups: int, bias: bool) -> Case:
    n, channels = w.images[:2]
    weight = (out, channels // groups, *w.kernel)

    def oracle(x: Any, kernel: Any, shift: Any = None) -> np.ndarray:
        cells = w.cells(x, 0.0)
        flat = kernel.reshape(out, channels // groups, -1)
        parts = [
            np.einsum("tncij,oct->noij", own, mine)
            for own, mine in zip(
                np.split(cells, groups, 2), np.split(flat, groups, 0), strict=True
            )
        ]
        y = np.concatenate(parts, 1)
        return y if shift is None else y + shift[:, None, None]

    sums = [np.prod(weight[1:]), n * np.prod(w.places), out * np.prod(w.kernel)]
    products = n * np.prod(w.places) * np.prod(weight)
    return Case(
        "conv2d",
        f"{w}_o{out}g{groups}{'_bias' * bias}",
        (w.images, weight, (out,))[: 3 if bias else 2],
        lambda x, kernel, shift=None: ops().conv2d(
            x, kernel, shift, w.stride, w.padding, w.dilation, groups
        ),
        oracle,
        wide=w.wide,
        # In the emulation each weight takes a block of 256 fibers.
        vast=bool(products > 2**24 or np.prod(weight) > 2**14),
        terms=int(max(1, *sums)),
        cancels=1.0,
    )


def convolutions() -> Iterator[Case]:
    for bias in (True, False):
        for w, out, groups in [
            (Windows((1, 1, 1, 1), (1, 1)), 1, 1),
            (Windows((2, 3, 5, 4), (1, 1)), 2, 1),  # computed as a product of pixels
            (Windows((2, 3, 5, 4), (1, 1), stride=(2, 2)), 2, 1),
            (Windows((2, 3, 5, 7), (3, 3), padding=(1, 1)), 5, 1),
            (Windows((1, 2, 6, 5), (3, 2), (2, 1), (1, 0)), 3, 1),
            (Windows((1, 4, 5, 6), (3, 3), (1, 2), (2, 1), (2, 1)), 6, 2),
            (Windows((2, 3, 4, 4), (2, 3), padding=(0, 1)), 3, 3),  # by channel
            (Windows((1, 2, 1, 2), (3, 3), padding=(3, 2)), 1, 1),  # mostly padding
            (Windows((1, 1, 1, 1), (1, 1), (7, 7), (5, 5)), 1, 1),  # only padding
            (Windows((0, 2, 4, 3), (3, 3)), 2, 1),
        ]:
            yield convolution(w, out, groups, bias)
    wide = [
        (Windows((3, 33, 29, 31), (3, 3), padding=(1, 1)), 48, 1),
        (Windows((9, 16, 15, 14), (7, 7), (2, 2), (3, 3)), 40, 1),
        (Windows((2, 24, 17, 16), (3, 3), (2, 2), (1, 1)), 36, 3),
        (Windows((1, 96, 28, 28), (3, 3), padding=(1, 1)), 128, 1),  # bands of rows
        (Windows((5, 64, 9, 8), (1, 1)), 72, 1),
    ]
    for w, out, groups in wide:
        large = Windows(**{**vars(w), "wide": True})
        yield convolution(large, out, groups, bias=True)


POOLED = [
    Windows((1, 1, 1, 1), (1, 1)),
    Windows((2, 3, 6, 7), (2, 2), (2, 2)),
    Windows((2, 3, 5, 7), (3, 3), (2, 2), (1, 1)),
    Windows((1, 17, 6, 6), (3, 3), (2, 2), ceil=True),
    Windows((1, 2, 7, 4), (3, 2), (3, 3), (1, 1), ceil=True),
    Windows((2, 1, 4, 9), (1, 4), (1, 2), (0, 2)),
    Windows((1, 3, 5, 5), (5, 5)),
    Windows((0, 3, 4, 4), (2, 2), (2, 2)),
    Windows((3, 65, 27, 33), (3, 3), (2, 2), (1, 1), wide=True),
    Windows((2, 96, 28, 28), (3, 3), (2, 2), ceil=True, wide=True),
]
DILATED = Windows((2, 2, 9, 7), (3, 2), (2, 1), (1, 1), (2, 3))


def pools() -> Iterator[Case]:
    for w in [*POOLED, DILATED]:
        yield Case(
            "max_pool2d",
            str(w),
            (w.images,),
            lambda x, w=w: ops().max_pool2d(
                x, w.kernel, w.stride, w.padding, w.dilation, w.ceil
            ),
            lambda x, w=w: w.cells(x, -np.inf).max(0),
            wide=w.wide,
            terms=int(np.prod(w.kernel)),
            cancels=1.0,
        )
    for w in POOLED:
        for padded in (True, False):
            yield Case(
                "avg_pool2d",
                f"{w}{'_padded' * padded}",
                (w.images,),
                lambda x, w=w, padded=padded: ops().avg_pool2d(
                    x, w.kernel, w.stride, w.padding, w.ceil, padded
                ),
                lambda x, w=w, padded=padded: means(w, x, padded),
                wide=w.wide,
                terms=int(np.prod(w.kernel)),
                cancels=1.0,
            )


def means(w: Windows, x: np.ndarray, padded: bool) -> np.ndarray:
    """Returns means over each window's cells in the image, or in the padded image."""
    counted = np.ones_like(x)
    if padded:
        sides = [(p, p) for p in w.padding]
        counted = np.pad(counted, [(0, 0), (0, 0), *sides], constant_values=1)
        height, width = counted.shape[2:]
        images = (*x.shape[:2], height, width)
        grown = Windows(images, w.kernel, w.stride, ceil=w.ceil)
        rows, columns = w.places
        cells = grown.cells(counted, 0.0)[..., :rows, :columns]
        return w.cells(x, 0.0).sum(0) / cells.sum(0)
    return w.cells(x, 0.0).sum(0) / w.cells(counted, 0.0).sum(0)


DIVIDED = [  # images, output size
    ((1, 1, 1, 1), (1, 1)),
    ((2, 3, 6, 7), (3, 2)),
    ((2, 17, 5, 4), (1, 1)),
    ((1, 2, 7, 4), (5, 3)),  # windows share pixels
    ((2, 3, 2, 3), (5, 4)),  # more windows than pixels
    ((1, 5, 4, 9), (4, 9)),
    ((1, 3, 1, 8), (1, 5)),
    ((0, 3, 4, 4), (2, 2)),
    ((3, 65, 29, 31), (6, 7)),
    ((2, 96, 28, 28), (1, 1)),
]


def adaptive_pools() -> Iterator[Case]:
    for images, size in DIVIDED:
        for name, taken in ("avg", np.mean), ("max", np.max):

            def oracle(x, size=size, taken=taken):
                (height, width), (rows, columns) = x.shape[2:], size
                return np.array(
                    [
                        [
                            taken(
                                x[
                                    :,
                                    :,
                                    i * height // rows : -(-(i + 1) * height // rows),
                                    j * width // columns : -(
                                        -(j + 1) * width // columns
                                    ),
                                ],
                                axis=(2, 3),
                            )
                            for j in range(columns)
                        ]
                        for i in range(rows)
                    ]
                ).transpose(2, 3, 0, 1)

            op = f"adaptive_{name}_pool2d"
            yield Case(
                op,
                "x".join(map(str, images)) + "_to{}-{}".format(*size),
                (images,),
                lambda x, op=op, size=size: getattr(ops(), op)(x, size),
                oracle,
                wide=images[1] > 20,
                terms=int(
                    np.prod(
                        [-(-a // b) + 1 for a, b in zip(images[2:], size, strict=True)]
                    )
                ),
                cancels=1.0,
            )


def normalised() -> Iterator[Case]:
    def call(x: Any, weight: Any, bias: Any) -> Any:
        return ops().batch_norm(x, weight, bias, training=True, eps=1e-3)

    def oracle(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        mean, variance = (
            f(x, axis=(0, 2, 3), keepdims=True) for f in (np.mean, np.var)
        )
        scaled = (x - mean) / np.sqrt(variance + 1e-3)
        return scaled * weight[:, None, None] + bias[:, None, None]

    for shape in [(1, 3, 2, 1), (2, 5, 3, 7)]:
        yield Case(
            "batch_norm",
            "images_" + "x".join(map(str, shape)),
            (shape, shape[1:2], shape[1:2]),
            call,
            oracle,
            terms=int(np.prod(shape)),
            cancels=1.0,
        )


def relative_positions() -> Iterator[Case]:
    """Yields images of the given widths, whose last row may be incomplete."""
    for n in ALL:
        for reach, width in ((1, 5), (2, 40)) if n.wide else ((0, 1), (1, 2), (3, 5)):
            rows = sum(n.queries) * n.heads

            def spread(a, b, n=n, reach=reach, width=width):
                tall = n.split_tokens(a.reshape(-1, n.heads * a.shape[1]), n.queries)
                broad = n.split_tokens(b.reshape(-1, n.heads * b.shape[1]), n.queries)
                maps = []
                for down, across, q, k in zip(
                    tall, broad, n.queries, n.n_k, strict=True
                ):
                    places = offsets(q, k, reach, width)
                    maps.append(
                        sum(
                            np.take_along_axis(
                                part, np.broadcast_to(at, (n.heads, q, k)), 2
                            )
                            for part, at in zip((down, across), places, strict=True)
                        )
                    )
                return join_maps(maps)

            yield Case(
                "relative_2d",
                f"{n}_D{reach}_W{width}",
                ((rows, 2 * reach + 1), (rows, 2 * width - 1)),
                lambda a, b, n=n: ops().relative_2d(a, b, n.packing),
                spread,
                wide=n.wide,
                terms=n.longest,
                cancels=1.0,
            )


def offsets(q: int, k: int, reach: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices of the row and column distances of each cell."""
    i, j = np.arange(q)[:, None], np.arange(k)
    down = np.clip(j // width - i // width, -reach, reach)
    return reach + down, width - 1 + j % width - i % width


def image_cases() -> list[Case]:
    """Returns every case of an op that works on images."""
    makers = (convolutions, pools, adaptive_pools, normalised, relative_positions)
    return [case for maker in makers for case in maker()]
