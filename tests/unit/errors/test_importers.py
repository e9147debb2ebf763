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


CASES: dict[str, tuple[Callable[[], None], str]] = {
    "torch-absent": (absent, "`tiledsl.from_torch` needs PyTorch, which is not installed"),
    "torch-operators": (unknown_operator, "`formula` has operators for which there is no formula: aten.linalg_qr"),
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
