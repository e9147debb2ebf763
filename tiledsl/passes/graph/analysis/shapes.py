"""Shapes of graphs whose sizes are numbers, as all are that passes of this folder work on."""

from __future__ import annotations

import math

from tiledsl.ir import graph_ops as ops
from tiledsl.ir.core import Value
from tiledsl.ir.type_rules import tensor_type


def sizes_of(value: Value) -> tuple[int, ...]:
    """The shape of a tensor, as numbers. AssertionError for a symbol: `with_sizes` comes before these passes."""
    shape = tensor_type(value).shape
    sizes = tuple([size for size in shape if isinstance(size, int)])
    assert len(sizes) == len(shape), f"%{value.name} has no numbers for sizes: {value.type}"
    return sizes


def axis_sizes(op: ops.Contract) -> dict[str, int]:
    """The sizes of a product's axes, by their names."""
    a, b, _ = op.axis_names()
    return {**dict(zip(a, sizes_of(op.a))), **dict(zip(b, sizes_of(op.b)))}


def volume(value: Value) -> int:
    """How many elements a tensor has."""
    return math.prod(sizes_of(value))


def bytes_of(value: Value) -> int:
    """How many bytes the elements of a tensor take."""
    return (volume(value) * tensor_type(value).dtype.bits + 7) // 8
