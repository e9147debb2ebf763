"""Operators as models of PyTorch call them: each against eager PyTorch."""

# PyTorch's types are not read here
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
import tiledsl  # noqa: E402
from tiledsl import TileError  # noqa: E402

functional: Any = torch.nn.functional
linalg: Any = torch.linalg


def flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, (tuple, list)) else [value]


def check(formula: Any, *args: Any) -> None:
    """A formula gives what eager PyTorch gives, in its shapes and dtypes."""
    actual, expected = flat(tiledsl.from_torch(formula, *args)(*args)), flat(formula(*args))
    assert len(actual) == len(expected)
    for got, wanted in zip(actual, expected):
        got = np.asarray(got)
        assert (got.shape, got.dtype) == (tuple(wanted.shape), wanted.detach().numpy().dtype)
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def floats(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def ints(high: int, *shape: int) -> Any:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(high))


def put(at: Callable[[Any, Any], Any], x: Any, mask: Any, value: Any) -> Any:
    """x[...] = value, at a subscript that a mask makes."""
    y = x.clone()
    y[at(y, mask)] = value
    return y


def spd(x: Any) -> Any:
    """A positive definite matrix."""
    return x @ x.mT + torch.eye(x.shape[-1])


NAN, INF = float("nan"), float("inf")
HOLES = torch.tensor([[1.0, NAN, 3.0, 2.0, -INF], [NAN, NAN, 5.0, 1.0, 1.0]])
ROWS = torch.tensor([True, False, True])
COLUMNS = torch.tensor([False, True, True, False])
SCALAR = torch.tensor(0.5)
TARGETS = torch.tensor([[3, 0, -1, 1], [0, -1, 1, 2], [1, 2, 3, 0]])

FORMULAS: dict[str, tuple[Any, ...]] = {
    "histc": (lambda x: torch.histc(x, 10, -1.0, 1.0), floats(50)),
    "histc of all": (lambda x: torch.histc(x, 7), floats(50)),
    "histc of one value": (lambda x: torch.histc(x, 4), torch.ones(5)),
    "histogram": (lambda x: torch.histogram(x, 10, range=(-1.0, 1.0), density=True), floats(50)),
    "histogram of one": (lambda x: torch.histogram(x, 2), floats(1)),
    "weights of samples": (
        lambda i, w, t: functional.embedding_bag(i, t, per_sample_weights=w, mode="sum"),
        ints(10, 3, 5), torch.rand(3, 5), floats(10, 4),
    ),
    "mask of rows": (lambda x, m: put(lambda _, m: m, x, m, 1.5), floats(3, 4), ROWS),
    "mask of rows, a row": (lambda x, m, v: put(lambda _, m: m, x, m, v), floats(3, 4), ROWS, floats(4)),
    "mask of columns": (lambda x, m: put(lambda _, m: (slice(None), m), x, m, -1.0), floats(3, 4), COLUMNS),
    "mask of columns, a column": (
        lambda x, m, v: put(lambda _, m: (slice(None), m), x, m, v), floats(3, 4), COLUMNS, floats(3, 1),
    ),
    "mask of two axes": (lambda x, v: put(lambda y, _: y[..., 0] > 0, x, None, v), floats(2, 4, 3), floats(1, 3)),
    "put": (lambda x, i, v: x.put(i, v), floats(5, 4), torch.tensor([1, -1]), floats(2)),
    "put and add": (lambda x, i, v: x.put(i, v, accumulate=True), floats(5, 4), torch.tensor([1, 1, -1]), floats(3)),
    "index_reduce": (lambda x, i, v: x.index_reduce(0, i, v, "prod"), floats(5, 4), ints(5, 3), floats(3, 4)),
    "index_reduce of one": (lambda x, i, v: x.index_reduce(0, i, v, "amin"), SCALAR, ints(1, 1), SCALAR - 1),
    "index_reduce alone": (
        lambda x, i, v: x.index_reduce(1, i, v, "amax", include_self=False), floats(5, 4), ints(4, 2), floats(5, 2),
    ),
    "diagonal_scatter": (lambda x, d: x.diagonal_scatter(d, offset=1), floats(4, 5), floats(4)),
    "diagonal_scatter below": (lambda x, d: x.diagonal_scatter(d, -2, 1, 2), floats(2, 4, 5), floats(2, 2)),
    "fill_diagonal_": (lambda x: x.clone().fill_diagonal_(7), floats(4, 5)),
    "searchsorted of a number": (lambda e: torch.searchsorted(e, 0.5), floats(6).sort().values),
    "bucketize of a number": (lambda e: torch.bucketize(2, e, right=True), ints(5, 6).sort().values),
    "repeat_interleave": (
        lambda x, r: torch.repeat_interleave(x, r, dim=0, output_size=6), floats(3, 2), torch.tensor([1, 0, 5]),
    ),
    "nanmedian": (lambda x: (torch.nanmedian(x), torch.nanmedian(x, 1, True)), HOLES),
    "mode": (lambda x: torch.mode(x, 0, keepdim=True), ints(3, 8, 4)),
    "dist": (lambda x, y: torch.dist(x, y, 3), floats(5, 4), floats(5, 4) + 1),
    "angle": (torch.angle, HOLES),
    "windows": (
        lambda x: [
            x * w(5, periodic=p)
            for w in (torch.hann_window, torch.hamming_window, torch.kaiser_window, torch.blackman_window,
                      torch.bartlett_window)
            for p in (False, True)
        ],
        floats(2, 5),
    ),
    "fake_quantize": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -8, 7), floats(9)),
    "fake_quantize of channels": (
        lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 0, -8, 7),
        floats(2, 9), torch.tensor([0.1, 0.3]), torch.tensor([0, 3], dtype=torch.int32),
    ),
    "multilabel_margin_loss": (lambda x, t: functional.multilabel_margin_loss(x, t, reduction="none"),
                               floats(3, 4), TARGETS),
    "multilabel_margin_loss of one": (functional.multilabel_margin_loss, floats(4), TARGETS[0]),
    "inv": (linalg.inv, spd(floats(2, 3, 3))),
    "inv with exchanged rows": (torch.inverse, torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [4.0, -3.0, 8.0]])),
    "solve": (linalg.solve, spd(floats(2, 3, 3)), floats(3, 2)),
    "solve of a vector": (linalg.solve, spd(floats(3, 3)), floats(3)),
    "solve from the right": (lambda a, b: linalg.solve(a, b, left=False), spd(floats(2, 3, 3)), floats(2, 2, 3)),
    "det": (lambda x: (linalg.det(x), torch.logdet(x @ x.mT), linalg.slogdet(x)), floats(5, 3, 3)),
    "det of what is singular": (linalg.det, torch.ones(2, 3, 3)),
    "cholesky": (lambda x: (linalg.cholesky(x), linalg.cholesky(x, upper=True)), spd(floats(2, 3, 3))),
    "cholesky_solve": (torch.cholesky_solve, floats(2, 3, 2), linalg.cholesky(spd(floats(2, 3, 3)))),
    "solve_triangular": (
        lambda a, b: linalg.solve_triangular(a, b, upper=False), spd(floats(3, 3)).tril(), floats(3, 2),
    ),
    "solve_triangular from the right": (
        lambda a, b: linalg.solve_triangular(a, b, upper=True, left=False, unitriangular=True),
        floats(2, 3, 3).triu(1) + torch.eye(3), floats(2, 2, 3),
    ),
    "cov": (lambda x, f, a: torch.cov(x, correction=0, fweights=f, aweights=a), floats(3, 9), ints(3, 9) + 1,
            floats(9).abs()),
    "cov of one": (torch.cov, floats(9)),
    "corrcoef": (lambda x: (torch.corrcoef(x), x.corrcoef(), x[0].corrcoef()), floats(3, 9)),
    "gaussian_nll_loss": (
        lambda x, y, v: functional.gaussian_nll_loss(x, y, v, full=True), floats(3, 4), floats(3, 4) + 1,
        floats(3, 1).abs(),
    ),
    "ctc_loss": (
        lambda x, t, n: functional.ctc_loss(x, t, torch.tensor([6, 4]), n, reduction="none"),
        floats(6, 2, 4).log_softmax(-1), torch.tensor([[1, 1, 2], [3, 3, 0]]), torch.tensor([3, 2]),
    ),
    "ctc_loss of one": (
        lambda x, t: functional.ctc_loss(x, t, (3,), (3,), zero_infinity=True), floats(3, 4), torch.tensor([1, 1, 2]),
    ),
    "ctc_loss of no label": (
        lambda x, t: functional.ctc_loss(x, t, (3, 3), (0, 1)), floats(3, 2, 4), torch.tensor([[1], [2]]),
    ),
    "rrelu": (lambda x: functional.rrelu(x, training=False), floats(9)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name: str) -> None:
    check(*FORMULAS[name])


@settings(max_examples=8)
@given(st.data())
def test_bags_of_rows(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(["sum", "mean", "max"]))
    padding = data.draw(st.none() | st.integers(0, 5))
    last = data.draw(st.booleans())
    rows = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=7))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    offsets = [0, *cuts, len(rows)] if last else [0, *cuts]
    model = torch.nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding, include_last_offset=last)
    check(model.eval(), torch.tensor(rows), torch.tensor(offsets))


def test_bags_of_the_same_size() -> None:
    check(torch.nn.EmbeddingBag(10, 4).eval(), ints(10, 3, 5))


def test_rows_of_a_limited_norm() -> None:
    model = torch.nn.Embedding(10, 4, max_norm=1.0)
    x = ints(10, 3)
    actual = tiledsl.from_torch(model, x)(x)  # what PyTorch writes to the table gives the same rows again
    np.testing.assert_allclose(np.asarray(actual), model(x).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_a_total_that_is_not_said_is_refused() -> None:
    with pytest.raises(TileError, match="say how many there are: `output_size=n`"):
        tiledsl.from_torch(lambda x: torch.repeat_interleave(x, x, dim=0), ints(3, 4))
