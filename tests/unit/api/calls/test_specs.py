"""What `compile` takes for an argument."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tiledsl import tile
from tiledsl.api.calls.specs import constant_names, front_end_argument, spec_key
from tiledsl.frontend.kernel.arguments import ConstantArgument, ScalarArgument, TensorArgument
from tiledsl.runtime.calls.specialise import ConstantKey, ScalarKey, TensorKey
from tiledsl.support.errors import TileTypeError


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        (tile.spec(("M", 48, None), tile.f16), TensorKey(tile.f16, ("M", 48, None), 2, (False, True, False))),
        (tile.spec((), tile.i8), TensorKey(tile.i8, (), None, ())),
        (tile.spec((3,), np.float32), TensorKey(tile.f32, (3,), 0, (False,))),  # pyright: ignore[reportArgumentType]
        (np.zeros((3, 32)), TensorKey(tile.f64, (None, None), 1, (False, True))),
        (int, ScalarKey("int")),
        (bool, ScalarKey("bool")),
        (2.5, ScalarKey("float")),
        (np.int8, ScalarKey("int", tile.i8)),
        (np.float16(1), ScalarKey("float", tile.f16)),
        (tile.f32, ConstantKey("tile.f32", tile.f32)),
        ("relu", ConstantKey("'relu'", "relu")),
        (None, ConstantKey("None", None)),
    ],
)
def test_spec_key(spec: object, key: object) -> None:
    assert spec_key("x", spec, constant=False) == key


@pytest.mark.parametrize("spec", [[1, 2], object(), tile.spec((1,), complex)])  # pyright: ignore[reportArgumentType]
def test_what_is_no_spec(spec: object) -> None:
    with pytest.raises(TileTypeError):
        spec_key("x", spec, constant=False)


@pytest.mark.parametrize("size", [-1, "2x", 1.5])
def test_what_is_no_size(size: Any) -> None:
    with pytest.raises(TileTypeError, match="axis 1 of the spec of `x`"):
        spec_key("x", tile.spec((3, size), tile.f32), constant=False)


def test_constants_by_annotation() -> None:
    def function(a: Any, b: tile.constexpr, c: tile.constexpr = 1, d: int = 2) -> None: ...

    assert constant_names(inspect.signature(function)) == {"b", "c"}


def test_constants_by_annotation_that_is_no_text() -> None:
    names = ("a", "b")
    kinds = inspect.Parameter.POSITIONAL_ONLY
    parameters = [inspect.Parameter(n, kinds, annotation=a) for n, a in zip(names, (int, tile.constexpr))]
    assert constant_names(inspect.Signature(parameters)) == {"b"}


@pytest.mark.parametrize(
    ("key", "argument"),
    [
        (TensorKey(tile.f32, (None, 3), 1, (True, False)), TensorArgument(tile.f32, (None, 3), 1, (True, False))),
        (ScalarKey("int", tile.i8), ScalarArgument("int", tile.i8)),
        (ConstantKey("64", 64), ConstantArgument(64)),
    ],
)
def test_front_end_argument(key: Any, argument: object) -> None:
    assert front_end_argument(key) == argument
