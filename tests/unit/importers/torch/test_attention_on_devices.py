"""The operators that attention is on devices: their graphs are written down for tensors there, and run here."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

fake_tensor: Any = pytest.importorskip("torch._subclasses.fake_tensor")
proxy_tensor: Any = pytest.importorskip("torch.fx.experimental.proxy_tensor")

from tiledsl.importers.torch.compile_graph import CompiledGraph  # noqa: E402

ATEN = torch.ops.aten
ROWS, COLUMNS, WIDTH = 5, 7, 8
SCALE = 0.3


def flash(q: Any, k: Any, v: Any, bias: Any, grad: Any, causal: bool) -> list[Any]:
    out, total, *rest = ATEN._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=SCALE)
    seq_q, seq_k, max_q, max_k, state, unused, _ = rest
    of_q, of_k, of_v = ATEN._scaled_dot_product_flash_attention_backward(
        grad, q, k, v, out, total, seq_q, seq_k, max_q, max_k, 0.0, causal, state, unused, scale=SCALE
    )
    return [out, of_q, of_k, of_v]


def efficient(q: Any, k: Any, v: Any, bias: Any, grad: Any, causal: bool) -> list[Any]:
    out, total, seed, offset = ATEN._scaled_dot_product_efficient_attention(
        q, k, v, bias, True, 0.0, causal, scale=SCALE
    )
    gradients = ATEN._scaled_dot_product_efficient_attention_backward(
        grad, q, k, v, bias, out, total, seed, offset, 0.0, [True, True, True, True], causal, scale=SCALE
    )
    return [out, *gradients]


def cudnn(q: Any, k: Any, v: Any, bias: Any, grad: Any, causal: bool) -> list[Any]:
    out, total, *rest = ATEN._scaled_dot_product_cudnn_attention(q, k, v, bias, True, 0.0, causal, scale=SCALE)
    seq_q, seq_k, max_q, max_k, seed, offset, _ = rest
    gradients = ATEN._scaled_dot_product_cudnn_attention_backward(
        grad, q, k, v, out, total, seed, offset, bias, seq_q, seq_k, max_q, max_k, 0.0, causal, scale=SCALE
    )
    return [out, *gradients]


def expected(q: Any, k: Any, v: Any, bias: Any, grad: Any, causal: bool) -> list[Any]:
    leaves = [value.clone().requires_grad_() for value in (q, k, v, bias)]
    scores = leaves[0] @ leaves[1].mT * SCALE + leaves[3]
    if causal:
        scores = scores.masked_fill(torch.ones(ROWS, COLUMNS).tril() == 0, float("-inf"))
    out = torch.softmax(scores, -1) @ leaves[2]
    return [out.detach(), *torch.autograd.grad(out, leaves, grad)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("formula", [flash, efficient, cudnn])
def test_attention_and_its_gradients(formula: Any, causal: bool) -> None:
    def normal(*shape: int) -> Any:
        return torch.randn(2, 3, *shape)

    q, k, v, grad = normal(ROWS, WIDTH), normal(COLUMNS, WIDTH), normal(COLUMNS, WIDTH), normal(ROWS, WIDTH)
    bias = torch.zeros(2, 3, ROWS, COLUMNS) if formula is flash else normal(ROWS, COLUMNS)
    given = (q, k, v, bias, grad)

    def written(*tensors: Any) -> list[Any]:
        return formula(*tensors, causal)

    with fake_tensor.FakeTensorMode(), torch.no_grad():
        there = [torch.empty(tensor.shape, device="cuda") for tensor in given]
        traced = proxy_tensor.make_fx(written, tracing_mode="real")(*there)
    compiled = CompiledGraph(traced, there, "attention")
    assert not compiled.fallbacks
    wanted = expected(*given, causal)
    actual = compiled(*given)
    for mine, theirs in zip(actual, wanted):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
