"""Windows that are folded as they are, on a CPU: of any size, stride and dilation, along one axis or two."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiledsl
from tiledsl import tile


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32], ids=str)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_folded_windows(dtype: type, data: st.DataObject) -> None:
    size, stride, by = (data.draw(st.integers(1, most)) for most in (5, 3, 2))
    both = data.draw(st.booleans())
    least = (size - 1) * by + 1
    height, width = data.draw(st.integers(least, least + 9)), data.draw(st.integers(least, least + 40))
    x = np.random.default_rng(size * width).integers(-99, 99, (3, height, width)).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[:: 2 * width + 3] = np.nan
    axes = (1, 2) if both else (2,)
    inner = tuple(range(3, 3 + len(axes)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (least,) * len(axes), axes)
    windows = windows[:, :: stride if both else 1, ::stride][..., ::by]
    wanted = np.max(windows[..., ::by, :] if both else windows, axis=inner)
    graph = tiledsl.trace(lambda x: tile.max(tile.window(x, size, axes, stride, by), axis=inner), x)
    np.testing.assert_array_equal(tiledsl.fuse(graph).build("cpu")(x), wanted)
