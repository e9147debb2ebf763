"""Models of PyTorch: `tiledsl.from_torch`, and what `tiledsl.torch` has."""

from tiledsl.importers.torch.from_torch import from_torch

__all__ = ["from_torch"]
