"""What modules compute from weights alone: once, and anew where a weight was changed."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from tests.support.fakes.fake_cuda import FakeCuda, FakeTensor, fake_cuda
from tests.support.generators.random_lowered import RandomLowered, lowered_graphs
from tests.support.graph_texts import CALLEES
from tiledsl.api.modules.build_module import build_module
from tiledsl.api.modules.module import Module, load
from tiledsl.api.modules.prepared_weights import is_fixed
from tiledsl.api.schedules.module_weights import WeightCache
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.support.errors import TileError

TEXT = (
    """
func @model(%x: tensor<f32, [6, 4]>, %w: tensor<f32, [4, 6]>) {
  %d = graph.call([%w]) {callee = double} : tensor<f32, [6, 4]>
  %y = graph.call([%x, %d]) {callee = add} : tensor<f32, [6, 4]>
  graph.return([%y])
}
"""
    + CALLEES
)
"""x + 2 w.T, whose second term is a kernel of its own"""

ARANGE: Any = np.arange(24, dtype=np.float32)
W = ARANGE.reshape(4, 6)
X: Any = np.full((6, 4), 0.5, np.float32)


@pytest.fixture
def cuda() -> Any:
    with fake_cuda() as fake:
        yield fake


def made(weight: object, arch: str | None = None, **settings: Any) -> Module:
    return build_module(parse_module(TEXT), {"w": weight}, ["x"], arch, **settings)


def launches(cuda: FakeCuda, module: Module, calls: int, expected: Any) -> list[int]:
    """How many kernels each of some calls runs, those of graphs included."""
    counts: list[int] = []
    for _ in range(calls):
        before = len(cuda.runs)
        np.testing.assert_array_equal(module(cuda.tensor(X)).host, expected)
        counts.append(len(cuda.runs) - before)
    return counts


@pytest.mark.parametrize("arch", [None, "sm_90"])
def test_what_depends_on_weights_alone_is_computed_once(cuda: FakeCuda, arch: str | None) -> None:
    assert launches(cuda, made(W, arch), 3, X + 2 * W.T) == [2, 1, 1]
    assert launches(cuda, made(cuda.tensor(W), arch), 3, X + 2 * W.T) == [2, 1, 1]


def test_it_is_computed_anew_after_a_change(cuda: FakeCuda) -> None:
    weight = cuda.tensor(W)
    module = made(weight)
    assert launches(cuda, module, 2, X + 2 * W.T) == [2, 1]
    weight.copy_(FakeTensor(W + 3))
    assert launches(cuda, module, 3, X + 2 * (W + 3).T) == [2, 1, 1]


def test_modules_that_compute_the_same_of_weights_share_it(cuda: FakeCuda) -> None:
    cache = WeightCache()
    first, second = (made(W, arch, cache=cache) for arch in (None, "sm_90"))
    assert launches(cuda, first, 2, X + 2 * W.T) == [2, 1]
    assert launches(cuda, second, 2, X + 2 * W.T) == [1, 1]
    assert cuda.driver.calls.count("cuMemcpyHtoDAsync") == 1


def test_a_change_is_not_taken_in_while_a_graph_is_captured(cuda: FakeCuda) -> None:
    weight = cuda.tensor(W)
    module = made(weight)
    launches(cuda, module, 2, X + 2 * W.T)
    weight.copy_(FakeTensor(W + 3))
    cuda.driver.capturing = True
    with pytest.raises(TileError, match="its weights were changed") as caught:
        module(cuda.tensor(X))
    assert caught.value.code == "cuda-capture"
    cuda.driver.capturing = False
    assert launches(cuda, module, 2, X + 2 * (W + 3).T) == [2, 1]


def test_arrays_that_anybody_may_change_are_read_at_each_call() -> None:
    weight = W.copy()
    plain, frozen = made(weight, "cpu"), made(weight, "cpu", freeze=True)
    for module in (plain, frozen):
        np.testing.assert_array_equal(module(X), X + 2 * W.T)
    weight += 1
    np.testing.assert_array_equal(plain(X), X + 2 * (W + 1).T)
    np.testing.assert_array_equal(frozen(X), X + 2 * W.T)


def test_tensors_of_pytorch_on_a_cpu() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.nn.Parameter(torch.from_numpy(W.copy()))
    module = made(weight, "cpu")
    x = torch.from_numpy(X)
    for _ in range(3):
        np.testing.assert_array_equal(module(x), X + 2 * W.T)
    with torch.no_grad():
        weight += 1
    for _ in range(3):
        np.testing.assert_array_equal(module(x), X + 2 * (W + 1).T)
        np.testing.assert_array_equal(module(X), X + 2 * (W + 1).T)


def test_weights_that_are_fixed() -> None:
    torch = pytest.importorskip("torch")
    read_only, view = W.copy(), W.copy()
    read_only.flags.writeable = False
    shown = view[:2]
    shown.flags.writeable = False
    with torch.inference_mode():
        unwatched = torch.zeros(3)
    bits = np.frombuffer(io.BytesIO(W.tobytes()).getvalue(), np.float32)
    weights = (W, read_only, shown, read_only[1:], bits, torch.zeros(3), unwatched)
    found = [is_fixed(weight, on_device=False) for weight in weights]
    assert found == [False, True, False, True, True, True, False]
    assert is_fixed(W, on_device=True)


def test_a_saved_module_prepares_its_weights(tmp_path: Any, cuda: FakeCuda) -> None:
    path = tmp_path / "model.tile"
    made(W, "sm_90").save(path)
    assert launches(cuda, load(path), 3, X + 2 * W.T) == [2, 1, 1]


@given(lowered_graphs())
def test_random_graphs_give_the_same_when_they_are_frozen(graph: RandomLowered) -> None:
    *names, weight = graph.names
    *arguments, values = graph.arguments()
    module = build_module(graph.module, {weight: values}, names, "reference", freeze=True)
    for _ in range(2):
        for actual, expected in zip(as_tuple(module(*arguments)), graph.expected()):
            np.testing.assert_array_equal(actual, expected)
