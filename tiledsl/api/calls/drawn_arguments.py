"""Arguments for launches whose values nobody knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiledsl.autotune.measuring.tensors import tensors_of
from tiledsl.ir.dtypes import from_numpy
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.programs.interface import Interface


def drawn_arguments(
    interface: Interface, sizes: Mapping[str, int], strides: Sequence[tuple[int, ...]] | None = None
) -> list[Array]:
    """Normal numbers for floats, and 0 for all else, which is a subscript wherever there is one."""
    random: Any = np.random.default_rng(0)
    arrays: list[Array] = []
    for tensor in tensors_of(interface, sizes, strides):
        if tensor.is_given:
            dtype = from_numpy(tensor.dtype)
            is_float = dtype is not None and dtype.is_float
            content: Any = random.standard_normal(tensor.shape) if is_float else np.zeros(tensor.shape)
            arrays.append(content.astype(tensor.dtype))
    return arrays
