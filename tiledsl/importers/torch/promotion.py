"""PyTorch's rules of which dtype an operation works in. They are not NumPy's: i64 with f32 is f32.

Tensors with axes go before those without, and these before Python numbers: of a lower one only its kind counts, and
only if that is higher.
"""

from __future__ import annotations

from typing import Any

from tiledsl.frontend.trace.array_types import as_dtype
from tiledsl.frontend.trace.traced import TracedSize, TracedTensor
from tiledsl.ir.dtypes import DType, bool_, f32, i64, promote
from tiledsl.ops.checks import as_tensor, refuse_option


def named(dtype: Any) -> DType:
    """The dtype that a `torch.dtype` names. Raises TileTypeError for one that kernels do not have."""
    found = as_dtype(dtype)
    if found is None:
        refuse_option("PyTorch", "dtype", dtype, "a real dtype of at most 64 bits", "convert it before")
    return found


def result_dtype(*operands: Any) -> DType:
    """The common dtype of tensors and numbers."""
    levels: list[DType | None] = [None, None, None]
    for value in operands:
        level, dtype = _strength(value)
        before = levels[level]
        levels[level] = dtype if before is None else _common(before, dtype)
    result: DType | None = None
    for dtype in levels:
        if dtype is not None and (result is None or _category(dtype) > _category(result)):
            result = dtype if result is None else _common(dtype, result)
    assert result is not None, "an operation of nothing"
    return result


def float_result(*operands: Any) -> DType:
    """The same for functions that give floats: of integers f32."""
    dtype = result_dtype(*operands)
    return dtype if dtype.is_float else f32


def promoted(*operands: Any) -> list[Any]:
    """The operands in their common dtype; numbers stay numbers where they go with tensors of it."""
    return converted(result_dtype(*operands), *operands)


def floats(*operands: Any) -> list[Any]:
    """The same for functions that give floats."""
    return converted(float_result(*operands), *operands)


def converted(dtype: DType, *operands: Any) -> list[Any]:
    """Operands in a dtype. At least one is a tensor then."""
    values = [value if _is_number(value) else as_tensor(value).to(dtype) for value in operands]
    if all(map(_is_number, values)):
        values[0] = as_tensor(values[0]).to(dtype)
    if dtype.is_integer or dtype == bool_:
        return [value if not isinstance(value, float) else as_tensor(value).to(dtype) for value in values]
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, TracedSize))


def _strength(value: Any) -> tuple[int, DType]:
    if isinstance(value, bool):
        return 2, bool_
    if isinstance(value, (int, TracedSize)):
        return 2, i64
    if isinstance(value, float):
        return 2, f32
    tensor: TracedTensor = as_tensor(value)
    return (0 if tensor.ndim else 1), tensor.dtype


def _category(dtype: DType) -> int:
    return 2 if dtype.is_float else 0 if dtype == bool_ else 1


def _common(a: DType, b: DType) -> DType:
    """Of two tensors with axes."""
    if (a.is_float and b.is_float) or (not a.is_float and not b.is_float):
        return promote(a, b)
    return a if a.is_float else b
