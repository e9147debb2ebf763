"""`torch.compile(model, backend=tiledsl.torch.backend)`: what the model does, and what is not compiled."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import TilePerformanceWarning  # noqa: E402
from tiledsl.importers.torch import compile_graph  # noqa: E402
from tiledsl.importers.torch.axis_order import layout_of  # noqa: E402


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    torch.manual_seed(0)
    torch._dynamo.reset()
    compile_graph.WARNED.clear()
    yield
    torch._dynamo.reset()


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=tiledsl.torch.backend, **options)


def whole(model: Any) -> Any:
    """The model without a fallback: an operator that PyTorch runs is an error."""
    return compiled(model, options={"fallback": False})


def agree(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_a_model() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    x = torch.randn(5, 8)
    with torch.no_grad():
        agree(whole(model)(x), model(x))


def test_training() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    other, x = copy.deepcopy(model), torch.randn(5, 8)
    whole(model)(x).pow(2).sum().backward()
    other(x).pow(2).sum().backward()
    for mine, theirs in zip(model.parameters(), other.parameters()):
        agree(mine.grad, theirs.grad)


def test_batch_norm_updates_its_running_statistics() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU()).train()
    other, x = copy.deepcopy(model), torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        agree(whole(model)(x), other(x))
    agree(model[1].running_mean, other[1].running_mean)
    agree(model[1].running_var, other[1].running_var)


def test_mutation_and_views() -> None:
    def formula(x: Any, y: Any) -> Any:
        x.add_(1)
        x[0] = y.sum()
        return x * 2, x.view(-1)

    x, y = torch.randn(3, 4), torch.randn(4)
    other = x.clone()
    results, expected = compiled(formula)(x, y), formula(other, y)
    agree(x, other)
    agree(results[0], expected[0])
    assert results[1].data_ptr() == x.data_ptr()


def test_what_has_no_formula_is_run_by_pytorch_and_named_once() -> None:
    def formula(x: Any) -> Any:
        return torch.relu(torch.linalg.qr(x * 2)[0]) + torch.linalg.qr(x)[0]

    x = torch.randn(4, 4)
    with pytest.warns(TilePerformanceWarning, match="PyTorch runs aten.linalg_qr.default: there is no formula") as said:
        agree(compiled(formula)(x), formula(x))
    assert len([warning for warning in said if warning.category is TilePerformanceWarning]) == 1
    text = tiledsl.torch.explain()
    assert "4 stages" in text
    assert "by PyTorch: aten.linalg_qr.default (there is no formula for it)" in text


@pytest.mark.parametrize("how", [{"fullgraph": True}, {"options": {"fallback": False}}])
def test_without_a_fallback_that_is_an_error(how: dict[str, Any]) -> None:
    def formula(x: Any) -> Any:
        return torch.linalg.qr(x)[0]

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"aten.linalg_qr.default: there is no formula"):
        compiled(formula, **how)(torch.randn(4, 4))


def test_channels_last_stays() -> None:
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        agree(whole(model)(x), model(x))


def test_layouts_are_views_where_they_can_be() -> None:
    image = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
    layout = layout_of(tuple(image.shape), image.stride())
    assert (layout.order, layout.copied) == ((0, 2, 3, 1), False)
    assert layout.stored(image).data_ptr() == image.data_ptr()
    assert layout_of((3, 4), (0, 1)).repeated == (0,)
    assert layout_of((3, 4), (8, 2)).copied
    assert layout_of((1, 4), (7, 1)).is_plain


DTYPES = ["float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "bool"]


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str) -> None:
    dtype = getattr(torch, name)
    x = (torch.randn(4, 5) * 3).to(dtype)

    def formula(x: Any) -> Any:
        return x.sum(0) + x * 3

    agree(whole(formula)(x), formula(x), 1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-5)


def test_autocast() -> None:
    model = torch.nn.Linear(8, 8)

    def formula(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    x = torch.randn(3, 8)
    with torch.no_grad():
        agree(whole(formula)(x), formula(x), 2e-2)


def test_marked_sizes_are_not_compiled_into_the_model() -> None:
    counts: list[int] = []

    def formula(x: Any) -> Any:
        return torch.softmax(x @ x.t(), -1).sum(0)

    def counting(module: Any, example: Any, **settings: Any) -> Any:
        counts.append(1)
        return tiledsl.torch.backend(module, example, **settings)

    model = torch.compile(formula, backend=counting)
    for size in (3, 5, 7):
        x = torch.randn(size, 6)
        torch._dynamo.mark_dynamic(x, 0)
        agree(model(x), formula(x))
    assert len(counts) == 1


class Tied(torch.nn.Module):
    """A table that is read at both ends, with a dropout between."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        self.table = torch.nn.Embedding(10, 8)
        self.drop = torch.nn.Dropout(0.3)
        self.head = torch.nn.Linear(8, 10, bias=False)
        self.head.weight = self.table.weight

    def forward(self, indices: Any) -> Any:
        return self.head(self.drop(self.table(indices)))


def test_tied_weights_and_dropout() -> None:
    model = Tied()
    indices = torch.randint(0, 10, (3, 4))
    with torch.no_grad():
        agree(whole(model.eval())(indices), model(indices))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        torch.manual_seed(1)
        dropped = compiled(model.train())(indices)
        torch.manual_seed(1)
        agree(dropped, model(indices))


def test_the_entry_point_is_the_backend() -> None:
    found: list[Callable[..., Any]] = [tiledsl.torch.backend]
    from importlib.metadata import entry_points

    found += [point.load() for point in entry_points(group="torch_dynamo_backends") if point.name == "tiledsl"]
    assert set(found) == {tiledsl.torch.backend}


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [
        ((3, 4), (4, 1), 0), ((4, 3), (1, 4), 0), ((2, 2), (5, 2), 1), ((3, 3), (2, 1), 4), ((2, 3), (0, 1), 2),
        ((), (), 5), ((2, 0), (1, 1), 0), ((4, 3, 1), (1, 4, 7), 12),
    ],
)  # fmt: skip
@pytest.mark.parametrize("turned", [False, True])
def test_as_strided(size: Any, stride: Any, offset: int, turned: bool) -> None:
    def formula(x: Any) -> Any:
        y = (x.mT if turned else x) * 2
        return torch.as_strided(y, size, stride, offset) + 1

    x = torch.randn(6, 4)
    with torch.no_grad():
        torch.testing.assert_close(whole(formula)(x), formula(x))


def test_as_strided_of_more_than_the_tensor_is_left_to_pytorch() -> None:
    def formula(x: Any) -> Any:
        return torch.as_strided(x[2:], (3, 4), (4, 1), 0) + 1

    x = torch.randn(6, 4)
    with torch.no_grad(), pytest.warns(tiledsl.TilePerformanceWarning, match="as_strided"):
        torch.testing.assert_close(compiled(formula)(x), formula(x))


def test_gradients_of_log_sigmoid() -> None:
    x = torch.randn(6, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    whole(torch.nn.functional.logsigmoid)(x).sum().backward()
    torch.nn.functional.logsigmoid(y).sum().backward()
    agree(x.grad, y.grad)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_that_pytorch_runs_as_one_operator(norm_first: bool, activation: str) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        16, 4, 24, activation=activation, norm_first=norm_first, batch_first=True
    ).eval()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        agree(whole(layer)(x), layer(x), 1e-4)
