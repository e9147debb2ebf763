"""How PyTorch's memory is asked for: by its quick function where that does what `torch.empty` does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.fakes.fake_cuda import FakeTorch
from tiledsl.runtime.arrays.frameworks import Torch, quick_empty


class Made:
    """A tensor, as far as it is looked at."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: object, device: int) -> None:
        self.shape, self.strides, self.dtype, self.device = shape, strides, dtype, device
        self.requires_grad = False

    def is_contiguous(self) -> bool:
        return self.strides == (self.shape[1], 1)


def torch_with(made: Any, current: int = 0) -> Any:
    torch: Any = FakeTorch()
    torch._C._dynamo = SimpleNamespace(guards=SimpleNamespace(_empty_strided_cuda=made))
    torch._C._cuda_getDevice = lambda: current
    return torch


def on_first_device(shape: Any, strides: Any, dtype: Any) -> Made:
    return Made(shape, strides, dtype, 0)


def test_the_quick_function_on_the_current_device() -> None:
    torch = torch_with(on_first_device)
    library = Torch(torch)
    here = library.maker((2, 5), np.dtype(np.float32), 0)(0)
    assert isinstance(here, Made)
    assert (here.shape, here.strides, here.dtype) == ((2, 5), (5, 1), torch.float32)
    there: Any = library.maker((2, 5), np.dtype(np.float32), 1)(0)
    assert [there] == torch.allocated
    assert there.get_device() == 1


def wrong_device(shape: Any, strides: Any, dtype: Any) -> Made:
    return Made(shape, strides, dtype, 7)


def other_parameters() -> None:
    """Takes none of those that are passed."""


@pytest.mark.parametrize("made", [None, wrong_device, other_parameters])
def test_one_that_does_something_else_is_not_used(made: Any) -> None:
    torch = torch_with(made)
    assert quick_empty(torch) is None
    given = Torch(torch).maker((2, 5), np.dtype(np.float32), 0)(0)
    assert [given] == torch.allocated


def test_a_library_without_it() -> None:
    assert quick_empty(FakeTorch()) is None
