"""What type checkers make of a user's file: mypy checks it against the installed package, pyright with the rest."""

from typing import Any

import numpy as np
from typing_extensions import assert_type

import tiledsl
from tiledsl import tile


@tile.kernel
def doubled(x: tile.Tensor, block: tile.constexpr = tile.auto) -> tile.Tensor:
    N = x.shape[0]
    y = tile.empty(N, x.dtype)
    for n in tile.grid(N, block=block):
        y[n] = x[n] * 2
    return y


@tile.kernel
def both(x: tile.Tensor) -> tuple[tile.Tile, tile.Tile]:
    return x + 1, tile.softmax(x, axis=-1) @ x.mT


array = np.ones((4, 4), np.float32)

assert_type(doubled, tiledsl.Kernel[tile.Tensor])
assert_type(doubled(array[0], block=2), tile.Tensor)
assert_type(doubled(array[0], out=array[1]), tile.Tensor)
assert_type(both(array), tuple[tile.Tile, tile.Tile])

summed: Any = np.asarray(doubled(array[0])) + np.asarray(both(array)[0])
moved: Any = doubled(array[0]).cpu()
text: str = doubled.compile(array[0], arch="sm_90").source
