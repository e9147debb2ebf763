"""Cross-entropy, forward and backward: each row of scores is read once, for its loss and for its gradient.

loss[m] = log(sum over n of e^x[m, n]) - x[m, target[m]]
gradient[m, n] = (softmax(x[m])[n] - (1 if n is target[m], else 0)) / M
"""

from typing import Any

import numpy as np

from entry import Array, Entry, normal
from tiledsl import tile


@tile.kernel
def cross_entropy(x: tile.Tensor, target: tile.Tensor) -> tuple[tile.Tensor, tile.Tensor]:
    M, N = x.shape
    M = target.shape[0]
    loss, gradient = tile.empty(M, tile.f32), tile.empty((M, N), x.dtype)
    for m in tile.grid(M):
        row, hit = x[m, :].to(tile.f32), target[m][:, None] == tile.arange(N)
        top = tile.max(row, axis=1)
        e = tile.exp(row - top[:, None])
        total = tile.sum(e, axis=1)
        loss[m] = tile.log(total) + top - tile.sum(tile.where(hit, row, 0), axis=1)
        gradient[m, :] = (e / total[:, None] - hit.to(tile.f32)) / M
    return loss, gradient


def numpy_cross_entropy(x: Array, target: Array) -> tuple[Array, Array]:
    rows = np.arange(len(x))
    top = x.max(axis=1)
    e = np.exp(x - top[:, None])
    total = e.sum(axis=1)
    gradient = e / total[:, None]
    gradient[rows, target] -= 1
    return np.log(total) + top - x[rows, target], gradient / np.float32(len(x))


def torch_cross_entropy(torch: Any, x: Any, target: Any) -> Any:
    x = x.detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(x, target.long(), reduction="none")
    return loss.detach(), torch.autograd.grad(loss.mean(), x)[0]


def arguments(size: int) -> list[Array]:
    return [normal(size, 8 * size), np.random.default_rng(1).integers(0, 8 * size, size, np.int32)]


ENTRY = Entry(cross_entropy, numpy_cross_entropy, arguments, size=512, small=20, torchs=torch_cross_entropy)

if __name__ == "__main__":
    ENTRY.show(__doc__)
