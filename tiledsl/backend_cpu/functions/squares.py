"""Squares of vectors, transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from tiledsl.backend_cpu.llvm.writer import FunctionWriter, VectorType


def transpose(writer: FunctionWriter, type_: VectorType, rows: Sequence[str]) -> list[str]:
    """The columns of a square of vectors: halves change places across the diagonal, then halves of those."""
    vectors, lanes = list(rows), type_.lanes
    distance = lanes // 2
    while distance:
        low = [lane if not lane & distance else lanes + lane - distance for lane in range(lanes)]
        high = [lane + distance if not lane & distance else lanes + lane for lane in range(lanes)]
        for first in (row for row in range(lanes) if not row & distance):
            a, b = vectors[first], vectors[first + distance]
            vectors[first] = _shuffle(writer, type_, a, b, low)
            vectors[first + distance] = _shuffle(writer, type_, a, b, high)
        distance //= 2
    return vectors


def _shuffle(writer: FunctionWriter, type_: VectorType, a: str, b: str, lanes: Sequence[int]) -> str:
    picked = ", ".join(f"i32 {lane}" for lane in lanes)
    return writer.emit(f"shufflevector {type_} {a}, {type_} {b}, <{len(lanes)} x i32> <{picked}>")
