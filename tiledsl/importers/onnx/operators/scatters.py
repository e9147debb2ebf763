"""Elements that are written at computed coordinates, and columns of windows."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from typing import Any

from tiledsl import ops, tile
from tiledsl.importers.onnx.call import Call
from tiledsl.importers.onnx.operators.shapes import ints
from tiledsl.importers.onnx.register import operator

_REDUCTIONS = {"none": "set", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _reduction(node: Call, name: str) -> str:
    if name not in _REDUCTIONS:
        node.refuse("reduction", name, ", ".join(_REDUCTIONS))
    return _REDUCTIONS[name]


@operator("Scatter", since=9)
@operator("ScatterElements", since=11)
def scatter_elements(x: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none", node: Call) -> Any:
    return ops.scatter(x, indices, updates, axis, reduce=_reduction(node, reduction))


@operator("ScatterND", since=11)
def scatter_rows(x: Any, indices: Any, updates: Any, *, reduction: str = "none", node: Call) -> Any:
    return ops.scatter_nd(x, indices, updates, reduce=_reduction(node, reduction))


@operator("TensorScatter", since=24)
def tensor_scatter(
    past: Any, update: Any, write_indices: Any = None, *, axis: int = -2, mode: str = "linear", node: Call
) -> Any:
    """`past` with the update of each batch from its place along `axis` on; around the end if `mode` is circular."""
    if mode not in ("linear", "circular"):
        node.refuse("mode", mode, "linear or circular")
    at, size = axis % past.ndim, past.shape[axis]
    first = tile.zeros((past.shape[0],), tile.i64) if write_indices is None else write_indices.to(tile.i64)
    shape = tuple(-1 if i == 0 else 1 for i in range(past.ndim))
    along = tile.arange(update.shape[at]).reshape(tuple(-1 if i == at else 1 for i in range(past.ndim)))
    place = first.reshape(shape) + along
    place = place % size if mode == "circular" else place
    return ops.scatter(past, tile.broadcast_to(place, update.shape), update, at)


@operator("Col2Im", since=18, known=("image_shape", "block_shape"))
def columns_to_image(
    x: Any, image_shape: Any, block_shape: Any, *, dilations: Any = None, pads: Any = None, strides: Any = None,
    node: Call,
) -> Any:  # fmt: skip
    image, block = ints(image_shape), ints(block_shape)
    rank = len(image)
    given = pads or (0,) * (2 * rank)
    pairs = tuple((given[i], given[rank + i]) for i in range(rank))
    spread, steps = tuple(dilations or (1,) * rank), tuple(strides or (1,) * rank)
    if rank > 3:
        node.refuse("image_shape", image, "an image of one to three axes")
    return ops.fold(x, tuple(image), tuple(block), spread, pairs, steps)


@operator("MaxUnpool", since=9, known=("output_shape",))
def max_unpool(
    x: Any, places: Any, output_shape: Any = None, *, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Any:
    """Places are those of the image that the plain sizes give, planes one after the other."""
    rank = x.ndim - 2
    steps, given = strides or (1,) * rank, pads or (0,) * (2 * rank)
    sizes = [
        (n - 1) * s + k - given[i] - given[rank + i]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], steps, kernel_shape))
    ]
    plain = (*x.shape[:2], *sizes)
    flat = ops.scatter(tile.zeros((math.prod(plain),), x.dtype), places.reshape((-1,)), x.reshape((-1,)), 0)
    result = flat.reshape(plain)
    if output_shape is None:
        return result
    return tile.pad(result, tuple((0, wanted - n) for wanted, n in zip(ints(output_shape), plain)))
