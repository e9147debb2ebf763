"""Large products in f32 between other ops: every group has a price and a plan, whether its products become planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

import tiledsl
from tiledsl import ops, tile

Step = Callable[[Any], Any]

BEFORE: dict[str, Step] = {
    "as it is": lambda x: x,
    "normed": lambda x: ops.layer_norm(x, x.shape[-1]),
    "turned": lambda x: x.T,
    "scaled": lambda x: x * 0.5 + 1,
    "rows backwards": lambda x: x[::-1],
}
AFTER: dict[str, Step] = {
    "as it is": lambda y: y,
    "softmax": lambda y: ops.softmax(y, -1),
    "softmax of columns": lambda y: ops.softmax(y, 0),
    "sum of rows": lambda y: tile.sum(ops.sigmoid(y), axis=1, keepdims=True),
    "sum of columns": lambda y: tile.sum(y, axis=0),
    "largest": lambda y: tile.argmax(y, axis=1),
    "running sum": lambda y: ops.cumsum(y, 1),
    "joined": lambda y: ops.concat([y, y * 2], 1),
    "every other": lambda y: y[:, ::2],
    "with itself": lambda y: y @ y.T,
}
SIZES = st.sampled_from([64, 129, 512, 1000, 2048, 8192])


@given(st.sampled_from(list(BEFORE)), st.sampled_from(list(AFTER)), SIZES, SIZES, SIZES)
@settings(max_examples=5, deadline=None)
def test_every_group_is_planned(before: str, after: str, m: int, n: int, k: int) -> None:
    note(f"{before}, {after}: {m} x {n} x {k}")

    def formula(x: Any, w: Any) -> Any:
        return AFTER[after](BEFORE[before](x) @ w)

    x = tile.spec((k, m) if before == "turned" else (m, k), tile.f32)
    graph = tiledsl.trace(formula, x, tile.spec((k, n), tile.f32))
    audit = tiledsl.fuse(graph).audit("sm_90")
    assert 0 < audit.floor <= 1.01 * audit.predicted
