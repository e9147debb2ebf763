"""The formulas of ATen operators, a module for each family. Importing this fills the register."""

from tiledsl.importers.torch.operators import (
    attention,
    comparisons,
    convolutions,
    creation,
    elementwise,
    folds,
    indexing,
    linear_algebra,
    normalisation,
    pooling,
    products,
    recurrent,
    resizing,
    shapes,
    special,
    strided,
    tables,
    transformer,
    vision,
)

__all__ = [
    "attention", "comparisons", "convolutions", "creation", "elementwise", "folds", "indexing",
    "linear_algebra", "normalisation",
    "pooling", "products", "recurrent", "resizing", "shapes", "special", "strided", "tables", "transformer", "vision",
]  # fmt: skip
