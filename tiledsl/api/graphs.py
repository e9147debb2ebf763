"""Graphs of whole-tensor ops, and their fusion: named here, not in this version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tiledsl.support.caller import caller_location
from tiledsl.support.errors import fail


def trace(fn: Callable[..., Any], *specs: object) -> NoReturn:
    """Will give the graph of a function of whole tensors. Raises TileUnsupportedError."""
    fail("feature-missing", caller_location(), feature="`trace`", advice=_ADVICE)


def fuse(graph: object) -> NoReturn:
    """Will fuse the ops of a graph on their tiles. Raises TileUnsupportedError."""
    fail("feature-missing", caller_location(), feature="`fuse`", advice=_ADVICE)


_ADVICE = "write the op as one `@tile.kernel` with a `tile.grid`"
