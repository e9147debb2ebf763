"""All that traces record: importing this fills the tables of `tiledsl.frontend.trace`."""

from __future__ import annotations

from tiledsl.frontend import (
    trace_elementwise,
    trace_folds,
    trace_joins,
    trace_products,
    trace_shapes,
    trace_subscripts,
)
from tiledsl.frontend.trace import OPERATIONS, WORDS

HANDLERS = (trace_elementwise, trace_folds, trace_joins, trace_products, trace_shapes, trace_subscripts)
"""The modules that register themselves."""

__all__ = ["HANDLERS", "OPERATIONS", "WORDS"]
