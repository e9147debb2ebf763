"""Kernels and formulas as operators of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import tile  # noqa: E402


@tile.kernel
def scale(x: Any, factor: float) -> Any:
    M, N = x.shape
    y = tile.empty((M, N), x.dtype)
    for m, n in tile.grid(M, N):
        y[m, n] = x[m, n] * factor
    return y


@tile.kernel
def halves(x: Any) -> Any:
    return tile.split(tile.softmax(x), 2, axis=-1)


SCALE = tiledsl.torch.custom_op(scale, "tiledsl_tests::scale")
HALVES = tiledsl.torch.custom_op(halves, "tiledsl_tests::halves", results=2)


def model(x: Any) -> Any:
    first, second = HALVES(SCALE(torch.relu(x), 2.0))
    return first + second


def expected(x: Any) -> Any:
    first, second = torch.softmax(torch.relu(x) * 2.0, -1).chunk(2, -1)
    return first + second


def test_called() -> None:
    x = torch.randn(3, 4)
    torch.testing.assert_close(SCALE(x, 3.0), x * 3.0)
    torch.testing.assert_close(model(x), expected(x))
    half = x.to(torch.bfloat16)
    torch.testing.assert_close(SCALE(half, 2.0), half * 2.0)


def test_pytorch_agrees_with_the_declaration() -> None:
    torch.library.opcheck(SCALE, (torch.randn(3, 4), 2.0))
    torch.library.opcheck(HALVES, (torch.randn(3, 4),))


@pytest.mark.parametrize("backend", ["eager", tiledsl.torch.backend])
def test_compiled(backend: Any) -> None:
    torch._dynamo.reset()
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(model, backend=backend, fullgraph=True)(x), expected(x))


def test_sizes_may_be_open() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    for size in (3, 5):
        x = torch.randn(size, 4)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), expected(x))


def test_imported_the_kernel_is_in_the_graph() -> None:
    x = torch.randn(3, 4)
    graph = tiledsl.from_torch(model, x)
    assert "{callee = scale}" in graph.ir()
    np.testing.assert_allclose(tiledsl.fuse(graph).build("cpu")(x), expected(x).numpy(), rtol=1e-5)


def test_gradients_can_be_added() -> None:
    operator = tiledsl.torch.custom_op(scale, "tiledsl_tests::scale_with_gradient")

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    def backward(ctx: Any, grad: Any) -> Any:
        return operator(grad, ctx.factor), None

    operator.register_autograd(backward, setup_context=keep)
    x = torch.randn(3, 4, requires_grad=True)
    operator(x, 3.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3, 4), 3.0))
