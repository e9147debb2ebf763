"""The operators, a module for each family: importing them fills the register."""

from tiledsl.importers.onnx.operators import (
    casts,
    control,
    elementwise,
    gathers,
    host,
    products,
    reductions,
    sequences,
    shapes,
)

FAMILIES = (elementwise, products, reductions, shapes, gathers, casts, sequences, control, host)
"""The modules, in the order of the documentation."""
