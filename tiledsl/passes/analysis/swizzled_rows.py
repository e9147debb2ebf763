"""How much of a sum a block takes whose operands tensor cores read by rows of a swizzle."""

from __future__ import annotations

ROW_BYTES = (128, 64, 32)
"""Of rows of a swizzle, the widest first."""


def depth_of_rows(length: int, width: int) -> int:
    """Elements of `width` bytes in such a row: of the widths of which blocks go the least beyond `length`, the
    largest."""
    sizes = [row // width for row in ROW_BYTES]
    return min(sizes, key=lambda size: (-(-length // size) * size, -size))
