"""The formulas of ATen operators, a module for each family. Importing this fills the register."""

from tiledsl.importers.torch.operators import (
    attention,
    comparisons,
    convolutions,
    creation,
    elementwise,
    folds,
    indexing,
    normalisation,
    pooling,
    products,
    recurrent,
    resizing,
    shapes,
    special,
    strided,
    transformer,
    vision,
)

__all__ = [
    "attention", "comparisons", "convolutions", "creation", "elementwise", "folds", "indexing", "normalisation",
    "pooling", "products", "recurrent", "resizing", "shapes", "special", "strided", "transformer", "vision",
]  # fmt: skip
