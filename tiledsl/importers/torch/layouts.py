"""How tensors of PyTorch go into compiled graphs and come out of them: without a copy, where strides say a view.

A graph takes row-major arrays. A tensor whose axes lie in another order in memory (`channels_last`, a transposed
weight) is passed in that order, and transposed in the graph, where that costs nothing; so are results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tiledsl.frontend.language.values import TensorSpec
from tiledsl.frontend.trace.array_types import array_dtype
from tiledsl.importers.torch.axis_order import Layout
from tiledsl.ir.dtypes import to_numpy


def spec_of(tensor: Any, layout: Layout) -> TensorSpec:
    """What a tensor is to the trace, as it is passed."""
    shape = tuple(1 if axis in layout.repeated else int(tensor.shape[axis]) for axis in layout.order)
    dtype = array_dtype(tensor)
    assert dtype is not None, f"{tensor.dtype} goes to PyTorch"
    return TensorSpec(shape, dtype)


_BITS = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
"""Dtypes that NumPy does not know: they go there as their bits."""


def to_numpy_array(tensor: Any) -> Any:
    """A tensor in CPU memory as an array over the same memory."""
    tensor = tensor.detach()
    bits = _BITS.get(tensor.dtype)
    if bits is None:
        return tensor.numpy()
    dtype = array_dtype(tensor)
    assert dtype is not None
    return tensor.view(bits).numpy().view(to_numpy(dtype))


def to_tensor(array: Any, dtype: Any) -> Any:
    """An array as a tensor over the same memory."""
    bits = _BITS.get(dtype)
    if bits is None:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(np.int16 if bits is torch.int16 else np.uint8)).view(dtype)
