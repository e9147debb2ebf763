"""`tiledsl.from_torch`: what the graph of a model is, and that it computes what the model does."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import TileUnsupportedError  # noqa: E402


class Gated(torch.nn.Module):
    """Two layers with a gate between them; takes and gives nested structures."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 8)
        self.second.weight = torch.nn.Parameter(self.first.weight.detach().t().contiguous())
        self.register_buffer("scale", torch.tensor([2.0]))

    def forward(self, x: Any, options: dict[str, Any], factor: float = 1.0) -> Any:
        hidden = torch.nn.functional.gelu(self.first(x)) * options["gate"]
        return {"y": self.second(hidden) * self.scale * factor, "hidden": (hidden, None)}


def agree(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_nested_arguments_and_results() -> None:
    model, x, gate = Gated().eval(), torch.randn(3, 8), torch.rand(16)
    graph = tiledsl.from_torch(model, x, {"gate": gate}, factor=3.0)
    assert graph.name == "Gated"
    assert list(graph.tensor_arguments) == ["x", "options"]
    result = tiledsl.fuse(graph).build("cpu")(x, {"gate": gate})
    expected = model(x, {"gate": gate}, 3.0)
    agree(result["y"], expected["y"])
    agree(result["hidden"][0], expected["hidden"][0])
    assert result["hidden"][1] is None


def test_parameters_are_the_weights_themselves() -> None:
    model = Gated().eval()
    graph = tiledsl.from_torch(model, torch.randn(3, 8), {"gate": torch.rand(16)})
    assert set(graph.constants) == {"first_weight", "first_bias", "second_weight", "second_bias", "scale"}
    weight: Any = graph.constants["first_weight"]
    assert weight.data_ptr() == model.first.weight.data_ptr()


def test_tied_weights_are_one() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 8, bias=False)).eval()
    model[1].weight = model[0].weight
    graph = tiledsl.from_torch(model, torch.randn(3, 8))
    assert len(graph.constants) == 1


def test_sizes_that_are_left_open_have_names() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    graph = tiledsl.from_torch(model, torch.randn(6, 8), dynamic_shapes={"input": {0: batch}})
    built = tiledsl.fuse(graph).build("cpu")
    assert built.fused.symbols == ("batch",)
    for size in (3, 5):
        x = torch.randn(size, 8)
        agree(built(x), model(x))


def test_a_function() -> None:
    def formula(a: Any, b: Any) -> Any:
        return torch.softmax(a @ b, -1)

    a, b = torch.randn(3, 4), torch.randn(4, 5)
    agree(tiledsl.from_torch(formula, a, b)(a, b), formula(a, b))


@pytest.mark.parametrize("shape", [(), (6,), (2, 6)])
def test_products_of_three(shape: tuple[int, ...]) -> None:
    model, x, y = torch.nn.Bilinear(3, 4, 5), torch.randn(*shape, 3), torch.randn(*shape, 4)
    agree(tiledsl.from_torch(model, x, y)(x, y), model(x, y))


def test_powers_of_two() -> None:
    def formula(x: Any, n: Any) -> Any:
        return torch.ldexp(x, n)

    x, n = torch.randn(5), torch.tensor([0, 3, -2, 10, 1])
    agree(tiledsl.from_torch(formula, x, n)(x, n), formula(x, n))


def test_locations_are_the_models_lines() -> None:
    graph = tiledsl.from_torch(Gated().eval(), torch.randn(3, 8), {"gate": torch.rand(16)})
    lines = {op.location.file for op in graph.module.entry.body.ops}
    assert lines == {__file__}


def test_an_operator_without_a_formula_is_named_with_its_module() -> None:
    class Inner(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.qr(x)[0]

    with pytest.raises(TileUnsupportedError, match=r"aten.linalg_qr.default in `0` \(Inner\)") as caught:
        tiledsl.from_torch(torch.nn.Sequential(Inner()), torch.randn(4, 4))
    assert "return torch.linalg.qr(x)[0]" in str(caught.value)


def test_an_error_of_a_formula_names_the_module() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train()
    with pytest.raises(tiledsl.TileError, match=r"in aten.dropout.default in `1` \(Dropout\)"):
        tiledsl.from_torch(model, torch.randn(4, 4))


def test_a_model_that_changes_its_buffers_is_refused() -> None:
    model = torch.nn.BatchNorm1d(4).train()
    with pytest.raises(TileUnsupportedError, match="changes running_mean"):
        tiledsl.from_torch(model, torch.randn(4, 4))


def test_an_error_shows_the_expression_and_the_calls_that_led_to_it() -> None:
    class Inner(torch.nn.Module):
        def rotated(self, x: Any) -> Any:
            return 1 + torch.linalg.qr(x)[0]

        def forward(self, x: Any) -> Any:
            return self.rotated(x) * torch.linalg.eigh(x)[0]

    with pytest.raises(TileUnsupportedError) as caught:
        tiledsl.from_torch(torch.nn.Sequential(Inner()), torch.randn(4, 4))
    assert caught.value.location is not None
    assert [place.source for place in caught.value.location.chain()] == ["torch.linalg.qr(x)", "self.rotated(x)"]
    assert "and aten._linalg_eigh.default in `0` (Inner)" in str(caught.value)


def test_what_no_line_of_the_users_calls_is_located_where_the_model_is_read() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.RReLU()).train()
    with pytest.raises(TileUnsupportedError, match="where it draws random numbers") as caught:
        tiledsl.from_torch(model, torch.randn(4, 4))
    assert caught.value.location is not None
    assert caught.value.location.source == "tiledsl.from_torch(model, torch.randn(4, 4))"


def test_an_export_that_fails_prints_nothing_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    def formula(x: Any) -> Any:
        print("looks", file=sys.stderr)
        return x if x.max() > 0 else -x

    with pytest.raises(TileUnsupportedError):
        tiledsl.from_torch(formula, torch.zeros(3))
    assert capfd.readouterr().err == "looks\n"


def test_a_number_of_values_stays_a_tensor() -> None:
    def formula(x: Any) -> Any:
        largest = x.abs().max().item()
        return (x / largest).clamp(-largest, largest) + 2 * largest

    x = torch.randn(5)
    agree(tiledsl.from_torch(formula, x)(x), formula(x))


def test_open_sizes_are_numbers() -> None:
    def formula(x: Any) -> Any:
        return x.reshape(x.shape[0], -1) * x.shape[0] / x.numel()

    shapes = {"x": {0: torch.export.Dim("batch", min=2, max=64)}}
    built = tiledsl.fuse(tiledsl.from_torch(formula, torch.randn(6, 2, 3), dynamic_shapes=shapes)).build("cpu")
    x = torch.randn(4, 2, 3)
    agree(built(x), formula(x))


def test_of_both_branches_of_a_condition_one_is_chosen() -> None:
    class Chosen(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.first = torch.nn.Linear(3, 3)
            self.second = torch.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return torch.cond(x.max() > 0, self.first, self.other, (x,))

        def other(self, x: Any) -> Any:
            return self.second(x).relu()

    model = Chosen().eval()
    graph = tiledsl.from_torch(model, torch.ones(2, 3))
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        agree(graph(x), model(x))


def test_a_branch_without_a_formula_is_refused() -> None:
    def scaled(x: Any) -> Any:
        return torch.linalg.eigh(x)[0] * x

    def formula(x: Any) -> Any:
        return torch.cond(x.max() > 0, scaled, torch.relu, (x,))

    with pytest.raises(TileUnsupportedError, match=r"aten\._linalg_eigh"):
        tiledsl.from_torch(formula, torch.eye(3))


def test_what_pytorch_cannot_take_apart_is_an_error_of_this_package() -> None:
    with pytest.raises(tiledsl.TileRuntimeError, match="`CrossMapLRN2d` raises while it is written down"):
        tiledsl.from_torch(torch.nn.CrossMapLRN2d(3), torch.randn(1, 4, 5, 5))
