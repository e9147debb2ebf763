"""The operators, a module for each family: importing them fills the register."""

from types import ModuleType

from tiledsl.importers.onnx.operators import (
    attention,
    casts,
    control,
    elementwise,
    gathers,
    host,
    images,
    interpolation,
    normalisation,
    products,
    quantised,
    random,
    recurrent,
    reductions,
    scatters,
    sequences,
    shapes,
    spectral,
)

FAMILIES: tuple[ModuleType, ...] = (
    elementwise, products, reductions, normalisation, attention, shapes, gathers, scatters, images, interpolation,
    recurrent, spectral, quantised, casts, random, sequences, control, host,
)  # fmt: skip
"""The modules, in the order of the documentation."""
