"""The check of PyTorch's by which calls are recognised, where PyTorch is installed; a device is not needed."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tiledsl.runtime.calls.torch_calls import guards_of, likeness

torch: Any = pytest.importorskip("torch")


def pair(**named: Any) -> tuple[Any, Any]:
    return torch.empty(8, 6, **named), torch.empty(3, **named)


def test_a_check_knows_its_like() -> None:
    check = likeness(torch, pair())
    assert check is not None
    assert check(*pair()) is True


@pytest.mark.parametrize(
    "other",
    [
        lambda: torch.empty(8, 7),
        lambda: torch.empty(6, 8).t(),
        lambda: torch.empty(16, 6)[::2],
        lambda: torch.empty(8, 6, 1),
        lambda: torch.empty(8, 6).half(),
        lambda: torch.empty(8, 6).bfloat16().half(),
        lambda: torch.empty(8, 6, requires_grad=True),
        lambda: torch.nn.Parameter(torch.empty(8, 6)),
        lambda: torch.empty(8, 6, dtype=torch.complex64).conj().imag,
        lambda: torch.empty(8, 6, device="meta"),
        lambda: 1.0,
        lambda: None,
    ],
)
def test_a_check_knows_what_is_unlike(other: Any) -> None:
    check = likeness(torch, pair())
    assert check is not None
    assert check(other(), pair()[1]) is False


def test_the_state_of_pytorch_counts() -> None:
    """Gradients: the check says no, rather than yes to a tensor whose gradient is asked for."""
    with torch.no_grad():
        check = likeness(torch, pair(requires_grad=True))
        assert check is not None
        assert check(*pair(requires_grad=True)) is True
    assert check(*pair(requires_grad=True)) is False
    assert check(*pair()) is False


def test_a_check_that_sees_too_little_is_not_used() -> None:
    class Careless:
        def __init__(self, *tensors: object, **named: object) -> None: ...

        def check(self, *tensors: object) -> bool:
            return True

    fields = {name: getattr(torch, name) for name in ("empty", "nn", "float16", "enable_grad", "_neg_view")}
    careless = SimpleNamespace(_dynamo=SimpleNamespace(guards=SimpleNamespace(TensorGuards=Careless)))
    for internals in (careless, SimpleNamespace(_dynamo=None), None):
        module = ModuleType("torch")
        vars(module).update(fields, _C=internals)
        assert guards_of(module) is None
