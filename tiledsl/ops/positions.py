"""Tables of rows, and positions of tokens."""

from __future__ import annotations

from typing import Any

from tiledsl import tile
from tiledsl.ops.checks import as_tensor, refuse_rank, refuse_shapes, require_float, require_integers, widened


@tile.kernel
def embedding(indices: Any, weight: Any) -> Any:
    """weight[indices]: of `indices` [...] and `weight` [V, D], the rows [..., D], of the dtype of `weight`.

    An index outside of the table (negative ones are) gives zeros. Raises TileTypeError unless indices are integers.
    """
    indices, weight = as_tensor(indices), as_tensor(weight)
    require_integers("ops.embedding", indices)
    if weight.ndim != 2:
        refuse_rank("ops.embedding", weight, "[V, D]", "give a table with one row for each index")
    return tile.take(weight, indices, axis=0)


@tile.kernel
def rotary_embedding(x: Any, cos: Any, sin: Any, *, interleaved: bool = False) -> Any:
    """Pairs of elements of the last axis, rotated by an angle for each position and pair.

    `x` is [..., S, D], `cos` and `sin` [S, D / 2] (or anything that broadcasts to [..., S, D / 2]). With (a, b) a pair:
    (a * cos - b * sin, b * cos + a * sin). Pair i is elements i and i + D / 2 (GPT-NeoX, Llama), or 2 * i and 2 * i + 1
    if `interleaved` (GPT-J). In f32 for narrow floats; the dtype of `x`. Raises TileShapeError if shapes do not fit.
    """
    name = "ops.rotary_embedding"
    x, cos, sin = as_tensor(x), as_tensor(cos), as_tensor(sin)
    require_float(name, x)
    if x.ndim < 2 or (isinstance(x.shape[-1], int) and x.shape[-1] % 2):
        refuse_rank(name, x, "[..., S, D] with an even D", "rotate the even part alone, and join it with the rest")
    half = x.shape[-1] // 2
    for table in (cos, sin):
        wanted = (*x.shape[:-1], half)
        given = table.shape
        if not given or len(given) > x.ndim or any(n not in (1, w) for n, w in zip(given[::-1], wanted[::-1])):
            reason = "tables have a column for each pair of elements"
            refuse_shapes(name, table, x, reason, f"give them the shape [{x.shape[-2]}, {half}]")
    if interleaved:
        # each element of a pair meets the other one at the flipped coordinate of an axis of two: nothing is copied
        pairs = x.reshape((*x.shape[:-1], half, 2))
        other = tile.take(pairs, 1 - tile.arange(2), axis=-1)
        c, s = widened(cos)[..., None], widened(sin)[..., None]
        sign = (tile.arange(2) * 2 - 1).to(s.dtype)
        rotated = widened(pairs) * c + widened(other) * (s * sign)
        return rotated.to(x.dtype).reshape(x.shape)
    c, s = widened(cos), widened(sin)
    a, b = widened(x[..., :half]), widened(x[..., half:])
    return tile.concat([a * c - b * s, b * c + a * s], axis=-1).to(x.dtype)
