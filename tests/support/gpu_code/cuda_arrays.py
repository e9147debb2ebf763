"""Arrays on a GPU: PyTorch's or CuPy's, whichever there is. Imports neither before it is asked."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

TORCH_NAMES = {"bfloat16": "bfloat16", "float8_e4m3fn": "float8_e4m3fn", "float8_e5m2": "float8_e5m2"}
"""Dtypes that NumPy alone does not have, by their name in `ml_dtypes`."""


@dataclass(frozen=True)
class Framework:
    """How arrays get to the device and back."""

    name: str
    put: Callable[[Array], Any]
    take: Callable[[Any], Array]
    is_tensor: Callable[[Any], bool]
    synchronise: Callable[[], None]


def _torch() -> Framework:
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise ImportError("PyTorch sees no CUDA device")

    def put(array: Array) -> Any:
        flat: Any = np.ascontiguousarray(array)
        name = str(flat.dtype)
        if name in TORCH_NAMES:
            bits = np.uint8 if flat.itemsize == 1 else np.int16
            raw = torch.from_numpy(flat.view(bits))
            return raw.cuda().view(getattr(torch, TORCH_NAMES[name])).reshape(array.shape)
        return torch.from_numpy(flat).cuda().reshape(array.shape)

    def take(tensor: Any) -> Array:
        if not torch.is_tensor(tensor):  # a NumPy array: a kernel that takes no arrays runs on the CPU
            return np.asarray(tensor)
        name = str(tensor.dtype).removeprefix("torch.")
        if name in TORCH_NAMES:
            raw = tensor.contiguous().view(torch.uint8 if tensor.element_size() == 1 else torch.int16)
            return raw.cpu().numpy().view(getattr(ml_dtypes, name)).reshape(tuple(tensor.shape))
        return tensor.cpu().numpy()

    return Framework("torch", put, take, torch.is_tensor, torch.cuda.synchronize)


def _cupy() -> Framework:
    cupy: Any = importlib.import_module("cupy")
    if not cupy.cuda.is_available():
        raise ImportError("CuPy sees no CUDA device")
    return Framework(
        "cupy",
        cupy.asarray,
        cupy.asnumpy,  # takes NumPy's arrays too
        lambda value: isinstance(value, cupy.ndarray),
        lambda: cupy.cuda.get_current_stream().synchronize(),
    )


@cache
def framework(name: str) -> Framework | str:
    """The framework `torch` or `cupy`, or why it cannot be used."""
    try:
        return _torch() if name == "torch" else _cupy()
    except Exception as error:  # a broken installation fails in ways of its own
        return f"{type(error).__name__}: {error}"


@cache
def any_framework() -> Framework | str:
    """The first that can be used, or why none can."""
    reasons: list[str] = []
    for name in ("torch", "cupy"):
        found = framework(name)
        if isinstance(found, Framework):
            return found
        reasons.append(f"{name}: {found}")
    return "; ".join(reasons)
