"""Element types: their names, sizes, NumPy equivalents and promotion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

Kind = Literal["float", "int", "uint", "bool"]


@dataclass(frozen=True)
class DType:
    """An element type. `bits` is the storage width; `name` is how IR text and users spell it."""

    name: str
    kind: Kind
    bits: int

    @property
    def bytes(self) -> int:
        """Storage of one element in an array, in bytes (4-bit types are packed two to a byte)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"tile.{self.name}"


f64 = DType("f64", "float", 64)
f32 = DType("f32", "float", 32)
f16 = DType("f16", "float", 16)
bf16 = DType("bf16", "float", 16)
f8e4m3 = DType("f8e4m3", "float", 8)
f8e5m2 = DType("f8e5m2", "float", 8)
i64 = DType("i64", "int", 64)
i32 = DType("i32", "int", 32)
i16 = DType("i16", "int", 16)
i8 = DType("i8", "int", 8)
i4 = DType("i4", "int", 4)
u64 = DType("u64", "uint", 64)
u32 = DType("u32", "uint", 32)
u16 = DType("u16", "uint", 16)
u8 = DType("u8", "uint", 8)
u4 = DType("u4", "uint", 4)
bool_ = DType("bool", "bool", 8)

ALL: tuple[DType, ...] = (
    f64, f32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, i4, u64, u32, u16, u8, u4, bool_,
)  # fmt: skip
BY_NAME: dict[str, DType] = {dtype.name: dtype for dtype in ALL}

_NUMPY_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u64": "uint64",
    "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
}  # fmt: skip
_FROM_NUMPY = {numpy_name: BY_NAME[name] for name, numpy_name in _NUMPY_NAMES.items()}
_EXTENSIONS = ("bf16", "f8e4m3", "f8e5m2")


@cache
def to_numpy(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype; bf16 and the 8-bit floats are those of ml_dtypes. 4-bit types have none (KeyError)."""
    name = _NUMPY_NAMES[dtype.name]
    if dtype.name in _EXTENSIONS:
        import ml_dtypes  # here, not above: it costs time, and most programs have no use for it

        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def from_numpy(dtype: np.dtype[Any]) -> DType | None:
    """The element type of a NumPy array, or None if it is not one of ours (complex, object, big-endian ...)."""
    if dtype.byteorder == ">" or (dtype.byteorder == "=" and not np.little_endian):
        return None
    return _FROM_NUMPY.get(str(dtype.name))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def from_array_name(name: str) -> DType | None:
    """The element type that array libraries call `name` (`float32`, `bfloat16`), or None if there is none."""
    return _FROM_NUMPY.get(name)


def is_narrow_float(dtype: DType) -> bool:
    """True for float types whose arithmetic is done in f32: f16, bf16 and the 8-bit floats."""
    return dtype.is_float and dtype.bits < 32


def compute_dtype(dtype: DType) -> DType:
    """The type in which arithmetic on `dtype` is carried out before it is rounded back: f32 for narrow floats."""
    return f32 if is_narrow_float(dtype) else dtype


@cache
def promote(a: DType, b: DType) -> DType:
    """NumPy's result type of two strong operands; bf16 and 8-bit floats follow ml_dtypes (bf16 with f16 is f32).

    >>> promote(i32, f32)
    tile.f64
    """
    if a == b:
        return a
    if a.name in _EXTENSIONS or b.name in _EXTENSIONS:
        extension, other = (a, b) if a.name in _EXTENSIONS else (b, a)
        if other.is_float:
            return other if other.bits >= 32 else f32
        # as NumPy's f16: what has more digits than the float takes the next wider one
        return extension if other.bits <= 8 else f32 if other.bits == 16 else f64
    result = from_numpy(np.promote_types(to_numpy(a), to_numpy(b)))
    assert result is not None
    return result


def promote_weak(strong: DType, weak: Kind) -> DType:
    """The result type of a strong operand and a weak Python scalar (PEP NEP 50): the scalar gives way.

    >>> promote_weak(f16, "float")
    tile.f16
    >>> promote_weak(i32, "float")
    tile.f64
    """
    rank = {"bool": 0, "uint": 1, "int": 1, "float": 2}
    if rank[weak] <= rank[strong.kind]:
        return strong
    return f64 if weak == "float" else i64
