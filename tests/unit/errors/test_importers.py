"""What importing models says of what it cannot do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

import tiledsl
from tiledsl import TileError


def absent() -> None:
    with patch.object(tiledsl, "find_spec", return_value=None):
        _ = tiledsl.from_torch


def unknown_operator() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return torch.linalg.qr(x)[0]

    tiledsl.from_torch(formula, torch.zeros(2, 2))


def needs_fallback() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return torch.linalg.qr(x)[0]

    try:
        torch.compile(formula, backend=tiledsl.torch.backend, fullgraph=True)(torch.zeros(2, 2))
    except torch._dynamo.exc.BackendCompilerFailed as error:
        raise error.inner_exception from None


def not_callable() -> None:
    pytest.importorskip("torch")
    tiledsl.torch.custom_op(3)


def complex_elements() -> None:
    torch = pytest.importorskip("torch")
    operator = tiledsl.torch.custom_op(tiledsl.ops.relu, "tiledsl_tests::relu")
    operator(torch.zeros(4, 2, dtype=torch.complex64, device="meta"))


def changed_argument() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return x.add_(1)

    tiledsl.from_torch(formula, torch.zeros(2, 2))


def all_in_one_tuple() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any, y: Any) -> Any:
        return x + y

    tiledsl.from_torch(formula, (torch.zeros(2, 2), torch.zeros(2, 2)))


def random_numbers() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return x + torch.randn_like(x)

    tiledsl.from_torch(formula, torch.zeros(3))


def in_training() -> None:
    torch = pytest.importorskip("torch")
    tiledsl.from_torch(torch.nn.Dropout(0.5).train(), torch.zeros(3))


def complex_model() -> None:
    torch = pytest.importorskip("torch")
    tiledsl.from_torch(torch.polar, torch.ones(3), torch.ones(3))


def size_of_values() -> None:
    torch = pytest.importorskip("torch")
    tiledsl.from_torch(torch.unique, torch.zeros(3))


def decision_by_values() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    tiledsl.from_torch(formula, torch.zeros(3))


def count_by_values() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return torch.zeros(int(x.max()))

    tiledsl.from_torch(formula, torch.zeros(3))


def size_that_is_not_open() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return x + torch.zeros(4)

    tiledsl.from_torch(formula, torch.zeros(4), dynamic_shapes={"x": {0: torch.export.Dim("length")}})


def shapes_of_another_argument() -> None:
    torch = pytest.importorskip("torch")
    tiledsl.from_torch(torch.nn.ReLU(), torch.zeros(4), dynamic_shapes={"y": {0: torch.export.Dim("length")}})


def unknown_argument() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any, options: Any) -> Any:
        return x * options.scale

    tiledsl.from_torch(formula, torch.zeros(4), TileError())


def unknown_result() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return {x}

    tiledsl.from_torch(formula, torch.zeros(4))


def error_of_its_own() -> None:
    torch = pytest.importorskip("torch")

    def formula(x: Any) -> Any:
        return x + dict[str, Any]()["bias"]

    tiledsl.from_torch(formula, torch.zeros(4))


CASES: dict[str, tuple[Callable[[], None], str]] = {
    "torch-absent": (absent, "`tiledsl.from_torch` needs PyTorch, which is not installed"),
    "torch-operators": (unknown_operator, "`formula` has operators for which there is no formula: aten.linalg_qr"),
    "torch-random": (
        random_numbers,
        "return x + torch.randn_like(x)\n      |                    ^^^^^^^^^^^^^^^^^^^\n",
    ),
    "torch-training": (
        in_training,
        "`dropout` is in training, where it draws random numbers (p=0.5); graphs draw none",
    ),
    "torch-complex": (complex_model, "`polar` has complex elements: aten.polar.default is of torch.complex64"),
    "torch-data-sizes": (size_of_values, "in `unique` the size of what aten._unique2.default gives depends on values"),
    "torch-branch": (decision_by_values, "`formula` decides by the values of a tensor, `x.sum() > 0`; a graph"),
    "torch-number": (count_by_values, "`formula` makes a Python number of the values of a tensor, `int(x.max())`;"),
    "torch-dynamic": (size_that_is_not_open, "specialized it to be a constant (4)"),
    "torch-dynamic-form": (
        shapes_of_another_argument,
        "must be the arg names ['input'] of `inputs`, but here they are",
    ),
    "torch-argument": (unknown_argument, "`formula` is given a TileError; graphs take tensors, numbers"),
    "torch-result": (unknown_result, "`formula` returns a set; graphs return tensors"),
    "torch-raises": (error_of_its_own, "`formula` raises while it is written down: KeyError: 'bias'"),
    "torch-fallback": (needs_fallback, "some cannot be: aten.linalg_qr.default: there is no formula for it"),
    "torch-custom-op": (not_callable, "an operator is made of a kernel or a function, not of a int"),
    "torch-custom-dtype": (complex_elements, "kernels know no elements of torch.complex64"),
    "torch-changes": (changed_argument, "`formula` changes x, and a graph changes nothing that it is given"),
    "torch-example": (all_in_one_tuple, "argument that is a tuple of 2: missing a required argument: 'y'"),
}


@pytest.mark.parametrize("code", CASES)
def test_message(code: str) -> None:
    provoke, message = CASES[code]
    with pytest.raises(TileError) as caught:
        provoke()
    assert caught.value.code == code
    assert message in str(caught.value)
