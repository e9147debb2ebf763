"""Activations, normalisations and losses, against PyTorch in f64."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportCallIssue=false
# ruff: noqa: B023 - what loops make is called at once

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.op_checks import F16, F32, F64, Array, agree, meant, normal
from tiledsl import TileError, ops

torch = pytest.importorskip("torch")
F = torch.nn.functional

X = np.concatenate([normal(4, 6, scale=3.0), np.array([[0.0, 0.5, -0.5, 30.0, -30.0, 6.0]])]).astype(F32)


def exact(*arrays: Array) -> list[Any]:
    """The arrays as tensors of f64."""
    return [torch.tensor(v.astype(F64) if v.dtype.kind == "f" else v) for v in arrays]


ACTIVATIONS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (ops.relu6, F.relu6), (ops.hardtanh, F.hardtanh), (ops.hardsigmoid, F.hardsigmoid), (ops.mish, F.mish),
    (ops.selu, F.selu), (ops.celu, F.celu), (ops.softsign, F.softsign), (ops.softshrink, F.softshrink),
    (ops.hardshrink, F.hardshrink), (ops.tanhshrink, F.tanhshrink), (ops.logsigmoid, F.logsigmoid),
    (ops.softmin, lambda x: F.softmin(x, -1)), (ops.logsumexp, lambda x: torch.logsumexp(x, -1)),
    (lambda x: ops.logsumexp(x, None, keepdims=True), lambda x: torch.logsumexp(x, (0, 1), keepdim=True)),
    (ops.glu, F.glu), (lambda x: ops.glu(x[:4], 0), lambda x: F.glu(x[:4], 0)),
    (lambda x: ops.celu(x, 2.5), lambda x: F.celu(x, 2.5)),
    (lambda x: ops.hardtanh(x, -2, 0.5), lambda x: F.hardtanh(x, -2, 0.5)),
    (lambda x: ops.threshold(x, 0.5, -3), lambda x: F.threshold(x, 0.5, -3)),
    (lambda x: ops.softshrink(x, 1.25), lambda x: F.softshrink(x, 1.25)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ACTIVATIONS)))
def test_activations(case: int) -> None:
    ours, theirs = ACTIVATIONS[case]
    for dtype in (F32, F16):
        x = X.astype(dtype)
        meant(ours, [x], theirs(exact(x)[0]).numpy())


def test_activations_compiled() -> None:
    every = tuple(ours for ours, _ in ACTIVATIONS)
    wanted = tuple(theirs(exact(X)[0]).numpy() for _, theirs in ACTIVATIONS)
    agree(lambda x: tuple(ours(x) for ours in every), [X], wanted)


def test_prelu_and_integers() -> None:
    x = normal(2, 3, 4)
    for w in (normal(1), normal(3)):
        meant(ops.prelu, [x, w], F.prelu(*exact(x, w)).numpy())
    w = normal(3, 1)
    meant(ops.prelu, [x, w], np.where(x > 0, x, x * w))
    meant(lambda x, w: ops.prelu(x, w, axis=-1), [x, normal(4)], np.where(x > 0, x, x * normal(4)))
    whole = np.array([-3, 4, 9], np.int32)
    meant(ops.relu6, [whole], [0, 4, 6])
    meant(lambda x: ops.logsumexp(x), [np.array([-np.inf, -np.inf], F32)], -np.inf)


IMAGE, WEIGHT, BIAS = normal(2, 6, 4, 5) * 2 + 1, normal(6), normal(6, seed=1)


def test_norms() -> None:
    x, w, b = exact(IMAGE, WEIGHT, BIAS)
    for groups in (1, 2, 3, 6):
        wanted = F.group_norm(x, groups, w, b).numpy()
        meant(lambda x, w, b: ops.group_norm(x, groups, w, b), [IMAGE, WEIGHT, BIAS], wanted, terms=9)
        given = np.ascontiguousarray(np.moveaxis(IMAGE, 1, -1))
        meant(
            lambda x, w, b: ops.group_norm(x, groups, w, b, axis=-1),
            [given, WEIGHT, BIAS],
            np.moveaxis(wanted, 1, -1),
            terms=9,
        )
    agree(lambda x, w, b: ops.group_norm(x, 3, w, b), [IMAGE, WEIGHT, BIAS], F.group_norm(x, 3, w, b).numpy(), terms=9)
    wanted = F.instance_norm(x, weight=w, bias=b).numpy()
    meant(lambda x, w, b: ops.instance_norm(x, w, b), [IMAGE, WEIGHT, BIAS], wanted, terms=9)
    meant(lambda x: ops.instance_norm(x[0]), [IMAGE], F.layer_norm(x[0], (5,)).numpy(), terms=9)
    half = IMAGE.astype(F16)
    meant(lambda x: ops.group_norm(x, 2), [half], F.group_norm(exact(half)[0], 2).numpy(), terms=2)


def test_batch_norm_in_training() -> None:
    mean, variance = normal(6, seed=2), normal(6, seed=3) ** 2
    for unbiased in (True, False):
        x, w, b, m, v = exact(IMAGE, WEIGHT, BIAS, mean, variance)
        wanted = F.batch_norm(x, m, v, w, b, training=True, momentum=0.3).numpy()
        own = IMAGE.astype(F64).mean((0, 2, 3)), IMAGE.astype(F64).var((0, 2, 3))
        running = v.numpy() if unbiased else 0.7 * variance + 0.3 * own[1]
        (agree if unbiased else meant)(
            lambda x, w, b, m, v: ops.batch_norm_training(x, m, v, w, b, 0.3, unbiased=unbiased),
            [IMAGE, WEIGHT, BIAS, mean, variance], (wanted, m.numpy(), running, *own), terms=9,
        )  # fmt: skip


def test_norms_of_vectors_and_of_neighbours() -> None:
    x = exact(IMAGE)[0]
    for p in (1, 2, 3.5, np.inf):
        for axis in (1, -1):
            meant(lambda x: ops.lp_normalize(x, p, axis), [IMAGE], F.normalize(x, p, axis).numpy(), terms=4)
    for size in (1, 3, 4):
        wanted = F.local_response_norm(x, size, 0.1, 0.6, 2.0).numpy()
        meant(lambda x: ops.local_response_norm(x, size, 0.1, 0.6, 2.0), [IMAGE], wanted, terms=4)
    squares = np.pad(IMAGE.astype(F64) ** 2, ((0, 0), (0, 2), (0, 0), (0, 0)))
    near = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    wanted = IMAGE / (2.0 + 0.1 * near / 3) ** 0.6
    meant(lambda x: ops.local_response_norm(x, 3, 0.1, 0.6, 2.0, before=0), [IMAGE], wanted, terms=4)


LOSSES: list[tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = [
    (ops.mse_loss, F.mse_loss, {}), (ops.l1_loss, F.l1_loss, {}), (ops.smooth_l1_loss, F.smooth_l1_loss, {"beta": 0.7}),
    (ops.smooth_l1_loss, F.smooth_l1_loss, {"beta": 0.0}), (ops.huber_loss, F.huber_loss, {"delta": 1.5}),
    (ops.bce_with_logits_loss, F.binary_cross_entropy_with_logits, {}),
    (ops.kl_div, F.kl_div, {"log_target": True}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(reduction: str) -> None:
    x, y = normal(4, 6), normal(4, 6, seed=1)
    for ours, theirs, options in LOSSES:
        wanted = theirs(*exact(x, y), reduction=reduction, **options).numpy()
        meant(lambda x, y: ours(x, y, reduction=reduction, **options), [x, y], wanted, terms=24)
    shares, target = 1 / (1 + np.exp(-x)), (y > 0).astype(F32)
    shares[0, :2], target[0, :2] = (0.0, 1.0), (1.0, 0.0)
    wanted = F.binary_cross_entropy(*exact(shares, target, abs(y)), reduction=reduction).numpy()
    meant(lambda x, y, w: ops.bce_loss(x, y, w, reduction=reduction), [shares, target, abs(y)], wanted, terms=24)
    more = abs(normal(6, seed=4))
    wanted = F.binary_cross_entropy_with_logits(
        *exact(x, target), pos_weight=exact(more)[0], reduction=reduction
    ).numpy()
    meant(
        lambda x, y, w: ops.bce_with_logits_loss(x, y, pos_weight=w, reduction=reduction),
        [x, target, more], wanted, terms=24,
    )  # fmt: skip
    some = np.where(target > 0, abs(y), 0)
    wanted = F.kl_div(*exact(x, some), reduction=reduction).numpy()
    meant(lambda x, y: ops.kl_div(x, y, reduction=reduction), [x, some], wanted, terms=24)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses_of_classes(reduction: str) -> None:
    weight = abs(normal(5, seed=7)) + 0.1
    options: dict[str, Any] = {"reduction": reduction, "ignore_index": 2}
    for shape in ((4, 5), (3, 5, 2)):
        x = normal(*shape)
        target = np.random.default_rng(3).integers(0, 5, (shape[0], *shape[2:]))
        target.reshape(-1)[:2] = 2, 1
        for given in ((), (weight,)):
            wanted = F.nll_loss(*exact(x, target), *exact(*given), **options).numpy()
            meant(lambda x, t, *w: ops.nll_loss(x, t, *w, **options), [x, target, *given], wanted, terms=9)
            for smoothing in (0.0, 0.2):
                wanted = F.cross_entropy(
                    *exact(x, target), *exact(*given), label_smoothing=smoothing, **options
                ).numpy()
                meant(
                    lambda x, t, *w: ops.cross_entropy(x, t, *w, label_smoothing=smoothing, **options),
                    [x, target, *given], wanted, terms=9,
                )  # fmt: skip
    agree(
        lambda x, t, w: ops.cross_entropy(x, t, w, label_smoothing=0.2, **options), [x, target, weight], wanted, terms=9
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ops.glu(X[:, :5]), r"not one whose axis -1 has two halves"),
        (lambda: ops.celu(X, 0), r"`alpha` is 0, not another number than 0"),
        (lambda: ops.prelu(X, normal(4)), r"there is one weight for each element of axis 1"),
        (lambda: ops.group_norm(IMAGE, 4), r"`groups` is 4, not a divisor of the 6 channels"),
        (lambda: ops.group_norm(IMAGE, 2, BIAS[:3]), r"there is one number for each channel"),
        (lambda: ops.batch_norm_training(IMAGE, BIAS[:3], BIAS), r"there is one number for each channel"),
        (lambda: ops.lp_normalize(X, 0), r"`p` is 0, not a number above 0"),
        (lambda: ops.local_response_norm(IMAGE, 3, before=3), r"`before` is 3, not an int from 0 to 2"),
        (lambda: ops.local_response_norm(IMAGE, 0), r"`size` is 0, not an int from 1 on"),
        (lambda: ops.mse_loss(X, X, reduction="max"), r"`reduction` is 'max', not"),
        (lambda: ops.huber_loss(X, X, delta=0), r"`delta` is 0, not a number above 0"),
        (lambda: ops.nll_loss(X, np.zeros(4, int)), r"the target has all axes of the input but the classes"),
        (lambda: ops.nll_loss(X, np.zeros(5, int), X[0, :2]), r"there is one weight for each class"),
    ],
)  # fmt: skip
def test_bad_arguments(call: Any, message: str) -> None:
    with pytest.raises(TileError, match=message):
        call()
