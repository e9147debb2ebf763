"""Operators that the host runs, in NumPy: their sizes depend on data, or no kernel is worth its while."""

# traced tensors have no types, nor have the objects of ONNX
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tiledsl.importers.onnx.model import Array
from tiledsl.importers.onnx.register import operator


@operator("NonZero", since=9, kind="host")
def nonzero(x: Array) -> Any:
    return np.array(np.nonzero(x), np.int64).reshape((x.ndim, -1))


@operator("Compress", since=9, kind="host")
def compress(x: Array, condition: Array, *, axis: int | None = None) -> Any:
    source = x.reshape(-1) if axis is None else x
    at = 0 if axis is None else axis
    return np.take(source, np.flatnonzero(condition[: source.shape[at]]), axis=at)


@operator("Unique", since=11, kind="host")
def unique(x: Array, *, axis: int | None = None, sorted: int = 1) -> Any:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=0 if axis is None else axis)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        first, inverse, counts = first[order], place[inverse], counts[order]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


@operator("NonMaxSuppression", since=10, kind="host")
def non_max_suppression(
    boxes: Array,
    scores: Array,
    most: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    *,
    center_point_box: int = 0,
) -> Any:
    """Boxes in the order of their scores, without those that cover one that was taken before too well."""
    limit = 0 if most is None else int(np.ravel(most)[0])
    overlap = 0.0 if iou_threshold is None else float(np.ravel(iou_threshold)[0])
    found: list[tuple[int, int, int]] = []
    for batch, corners in enumerate(_corners(boxes, center_point_box)):
        for kind, row in enumerate(scores[batch]):
            order = [int(i) for i in np.argsort(-row, kind="stable")]
            if score_threshold is not None:
                order = [i for i in order if row[i] > float(np.ravel(score_threshold)[0])]
            taken: list[int] = []
            for i in order:
                if len(taken) == limit:
                    break
                if all(_shared(corners[i], corners[j]) <= overlap for j in taken):
                    taken.append(i)
            found += [(batch, kind, i) for i in taken]
    return np.array(found, np.int64).reshape((-1, 3))


def _corners(boxes: Array, centres: int) -> Array:
    """Boxes by their lower and upper corners."""
    if centres:
        middle, half = boxes[..., [1, 0]], boxes[..., [3, 2]] / 2
        return np.concatenate([middle - half, middle + half], axis=-1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    return np.concatenate([low, high], axis=-1)


def _shared(a: Array, b: Array) -> float:
    """What two boxes have in common, as a part of what they cover together."""
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    together = float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - common
    return common / together if together > 0 else 0.0


@operator("BitCast", since=26, kind="host")
def bit_cast(x: Array, *, to: int) -> Any:
    return np.ascontiguousarray(x).view(helper.tensor_dtype_to_np_dtype(to)).reshape(x.shape)


@operator("TfIdfVectorizer", since=9, kind="host")
def tf_idf(
    x: Array,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Any,
    ngram_indexes: Any,
    pool_int64s: Any = None,
    pool_strings: Any = None,
    weights: Any = None,
) -> Any:
    """How often each phrase of a pool stands in each row, with gaps of up to `max_skip_count`."""
    pool = list(pool_int64s if pool_strings is None else pool_strings)
    phrases: dict[tuple[Any, ...], int] = {}
    for length, (start, stop) in enumerate(zip(ngram_counts, [*ngram_counts[1:], len(pool)]), start=1):
        for at in range(start, stop, length):
            phrases[tuple(pool[at : at + length])] = len(phrases)
    counts = np.zeros((*x.shape[:-1], max(ngram_indexes) + 1), np.float32)
    for index in np.ndindex(*x.shape[:-1]):
        row = x[index].tolist()
        for length in range(min_gram_length, max_gram_length + 1):
            for gap in range(1, max_skip_count + 2 if length > 1 else 2):
                for at in range(len(row) - (length - 1) * gap):
                    phrase = phrases.get(tuple(row[at : at + length * gap : gap][:length]))
                    if phrase is not None:
                        counts[(*index, ngram_indexes[phrase])] += 1
    scale = np.ones(len(ngram_indexes)) if weights is None else np.array(weights)
    factors = np.zeros(counts.shape[-1], np.float32)
    factors[list(ngram_indexes)] = scale
    if mode == "TF":
        return counts
    present = (counts > 0).astype(np.float32) if mode == "IDF" else counts
    return (present * factors).astype(np.float32)


@operator("Det", since=11, kind="host")
def determinant(x: Array) -> Any:
    return np.asarray(np.linalg.det(x.astype(np.float64)), x.dtype)


@operator("MelWeightMatrix", since=17, kind="host")
def mel_weights(bins: Array, length: Array, rate: Array, low: Array, high: Array, *, output_datatype: int = 1) -> Any:
    """Triangles on the mel scale, a column for each."""
    count, size = int(bins), int(length)
    mels = 2595 * np.log10(1 + np.array([float(low), float(high)]) / 700)
    step = (mels[1] - mels[0]) / (count + 2)
    edges = 700 * (10 ** ((np.arange(count + 2) * step + mels[0]) / 2595) - 1)
    places = ((size + 1) * edges / float(rate)).astype(np.int64)
    result = np.zeros((size // 2 + 1, count))
    for i in range(count):
        first, middle, last = places[i : i + 3]
        if middle == first:
            result[middle, i] = 1
        else:
            for j in range(first, middle + 1):
                result[j, i] = (j - first) / (middle - first)
        for j in range(middle, last):
            if last > middle:
                result[j, i] = (last - j) / (last - middle)
    return result.astype(helper.tensor_dtype_to_np_dtype(output_datatype))
