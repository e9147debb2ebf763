"""Models of PyTorch: `tiledsl.from_torch`, and what `tiledsl.torch` has."""

from tiledsl.importers.torch.backend import backend, explain
from tiledsl.importers.torch.from_torch import from_torch

__all__ = ["backend", "explain", "from_torch"]
