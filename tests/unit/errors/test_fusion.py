"""Messages of `fuse` and of what it builds."""

from __future__ import annotations

from typing import Any, cast

import pytest

import tiledsl
from tiledsl import TileError, tile


def _double(x: Any) -> Any:
    return x * 2


def test_what_is_no_graph() -> None:
    with pytest.raises(TileError, match=r"`fuse` takes a graph, not a value of type `function`"):
        tiledsl.fuse(cast("Any", _double))


def test_open_sizes() -> None:
    fused = tiledsl.fuse(tiledsl.trace(_double, tile.spec(("N", 4), tile.f32)))
    with pytest.raises(TileError, match=r"leaves sizes open that are needed here: N\n(.|\n)*build\(arch, N=128\)"):
        fused.ir()


def test_saving_what_is_not_built() -> None:
    module = tiledsl.fuse(tiledsl.trace(_double, tile.spec(("N", 4), tile.f32))).build("cpu")
    with pytest.raises(TileError, match=r"`save` of `_double`, for which 0 modules have been made"):
        module.save("nowhere")
