"""How a model's weights are passed to a compiled graph, found once: the same ones come with every call."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from tiledsl.importers.torch.layouts import to_numpy_array


class KeptWeights:
    """What is passed for the inputs of a stage. For a parameter it is kept as long as the parameter lives and its
    memory stays where it is."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[Any], int, Any]] = {}
        """By place: a parameter, its address, and what is passed for it."""

    def passed(self, tensors: Sequence[Any], on_cuda: bool) -> list[Any]:
        """The tensors without their gradients; arrays over their memory, if they are not `on_cuda`."""
        return [self._one(place, tensor, on_cuda) for place, tensor in enumerate(tensors)]

    def _one(self, place: int, tensor: Any, on_cuda: bool) -> Any:
        if tensor.__class__ is not torch.nn.Parameter:
            return tensor.detach() if on_cuda else to_numpy_array(tensor)
        address = tensor.data_ptr()
        kept = self._kept.get(place)
        if kept is not None and kept[0]() is tensor and kept[1] == address:
            return kept[2]
        made = tensor.detach() if on_cuda else to_numpy_array(tensor)

        def forget(reference: object) -> None:
            if place in self._kept and self._kept[place][0] is reference:
                del self._kept[place]

        self._kept[place] = (weakref.ref(tensor, forget), address, made)
        return made
