"""Formulas in the emulator, beside what their graph means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tiledsl
from tiledsl.api.graphs.emulate_graph import emulate_graph
from tiledsl.api.programs.emulate import Request


def emulated(formula: Callable[..., Any], arrays: Sequence[Any], seed: int = 0) -> tuple[Any, Any]:
    """The one result of a formula's kernels for sm_90, emulated in the order of a seed, and what its graph gives."""
    graph = tiledsl.trace(formula, *arrays)
    expected = np.asarray(graph(*arrays))
    return np.asarray(emulate_graph(graph, arrays, {}, None, Request(arch="sm_90", seed=seed)).result), expected
