"""All that traces record: importing this fills the tables of `tiledsl.frontend.trace.trace`."""

from __future__ import annotations

from tiledsl.frontend.trace import (
    trace_elementwise,
    trace_folds,
    trace_joins,
    trace_products,
    trace_shapes,
    trace_subscripts,
)
from tiledsl.frontend.trace.trace import OPERATIONS, WORDS

HANDLERS = (trace_elementwise, trace_folds, trace_joins, trace_products, trace_shapes, trace_subscripts)
"""The modules that register themselves."""

__all__ = ["HANDLERS", "OPERATIONS", "WORDS"]
