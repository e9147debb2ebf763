"""Random numbers in models that are compiled: PyTorch's, by their seed, and no kernel is cut by drawing them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import TilePerformanceWarning  # noqa: E402
from tiledsl.importers.torch.backend import COMPILED  # noqa: E402

F = torch.nn.functional


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    torch.manual_seed(0)
    torch._dynamo.reset()
    COMPILED.clear()
    yield
    torch._dynamo.reset()


def stages() -> list[int]:
    """How many stages each compiled graph has, forward graphs before backward ones."""
    return [len(graph.stages) for graph in sorted(COMPILED, key=lambda graph: graph.name)]


def seeded(fn: Callable[..., Any], *args: Any) -> Any:
    torch.manual_seed(7)
    return fn(*args)


def whole(model: Any) -> Any:
    return torch.compile(model, backend=tiledsl.torch.backend, options={"fallback": False})


def layers() -> Any:
    drops = (torch.nn.Dropout(0.3), torch.nn.Dropout1d(0.2), torch.nn.AlphaDropout(0.2), torch.nn.Dropout(1.0))
    return torch.nn.Sequential(torch.nn.Linear(8, 8), *drops[:2], torch.nn.ReLU(), *drops[2:], torch.nn.Linear(8, 8))


def test_dropout_in_training_draws_what_eager_pytorch_draws_and_cuts_nothing() -> None:
    model, x = layers(), torch.randn(3, 8)
    other = copy.deepcopy(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TilePerformanceWarning)
        actual, expected = seeded(whole(model), x), seeded(other, x)
    torch.testing.assert_close(actual, expected)
    assert stages() == [2]  # the draws, and one graph
    text = tiledsl.torch.explain()
    assert "by PyTorch: aten.native_dropout.default in `L['fn'].1` (Dropout) (random numbers)" in text
    assert "unwritten" not in text
    actual.pow(2).sum().backward()
    expected.pow(2).sum().backward()
    assert stages() == [2, 1]
    for mine, theirs in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(mine.grad, theirs.grad)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("last", [False, True])
def test_dropout_of_other_dtypes_and_orders(dtype: str, last: bool) -> None:
    x = torch.randn(2, 3, 4, 5).to(getattr(torch, dtype))
    if last:
        x = x.to(memory_format=torch.channels_last)

    def formula(x: Any) -> Any:
        return F.dropout(x * 2, 0.4) + 1

    torch.testing.assert_close(seeded(whole(formula), x), seeded(formula, x), rtol=0.02, atol=0.02)


def likes(x: Any) -> Any:
    return (x * 2 + torch.rand_like(x * 3)).relu() + torch.randn(3, 8) + torch.randint(0, 5, (3, 8))


def fills(x: Any) -> Any:
    y = torch.empty_like(x * 2).uniform_(-1, 1) + (x * 1).normal_() + (x + 1).exponential_(2.0)
    return y + torch.randint_like(x + 1, 9) + torch.bernoulli(torch.sigmoid(x))


def noisy_attention(x: Any) -> Any:
    return F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.3) + F.gumbel_softmax(x)


@pytest.mark.parametrize("formula", [likes, fills, noisy_attention])
def test_what_draws_is_one_stage_before_one_graph(formula: Callable[..., Any]) -> None:
    x = torch.randn(3, 8)
    torch.testing.assert_close(seeded(whole(formula), x), seeded(formula, x))
    assert stages() == [2]


def test_draws_that_read_values_keep_their_turn() -> None:
    """`multinomial` needs what is computed; `rand` does not, but comes after it."""

    def formula(x: Any) -> Any:
        picked = torch.multinomial(torch.softmax(x, -1), 4, replacement=True)
        return torch.gather(x, 1, picked) + torch.rand(3, 4)

    x = torch.randn(3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        actual = seeded(torch.compile(formula, backend=tiledsl.torch.backend), x)
    torch.testing.assert_close(actual, seeded(formula, x))


def test_open_sizes() -> None:
    def formula(x: Any) -> Any:
        return F.dropout(x * 2, 0.5) + torch.rand_like(x)

    x = torch.randn(5, 4)
    torch._dynamo.mark_dynamic(x, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        torch.testing.assert_close(seeded(torch.compile(formula, backend=tiledsl.torch.backend), x), seeded(formula, x))


def test_gradients_of_a_leaky_relu_with_drawn_slopes() -> None:
    def formula(x: Any) -> Any:
        return F.rrelu(x * 2, 0.1, 0.4, training=True).sum()

    x = torch.randn(4, 5, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        seeded(torch.compile(formula, backend=tiledsl.torch.backend), x).backward()
    seeded(formula, y).backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_a_checkpoint_draws_the_same_again() -> None:
    layer = torch.nn.Linear(8, 8)

    def inner(x: Any) -> Any:
        return F.dropout(torch.relu(layer(x)), 0.5)

    def formula(x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False).sum()

    x = torch.randn(4, 8, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        seeded(torch.compile(formula, backend=tiledsl.torch.backend), x).backward()
    seeded(formula, y).backward()
    torch.testing.assert_close(x.grad, y.grad)


def test_what_pytorch_runs_of_inputs_alone_comes_first() -> None:
    def formula(x: Any) -> Any:
        return torch.linalg.qr(x)[0] + torch.relu(x * 2)

    x = torch.randn(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TilePerformanceWarning)
        torch.testing.assert_close(torch.compile(formula, backend=tiledsl.torch.backend)(x), formula(x))
    assert stages() == [2]
