"""Models of PyTorch: `tiledsl.from_torch`, and what `tiledsl.torch` has."""

from tiledsl.importers.torch.backend import backend, explain
from tiledsl.importers.torch.custom_op import custom_op
from tiledsl.importers.torch.from_torch import from_torch

__all__ = ["backend", "custom_op", "explain", "from_torch"]
