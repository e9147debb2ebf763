"""The encoder of examples/minilm.py on a device, with random weights: its own are in a package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minilm import build
from minilm_numpy import least_cosine, numpy_embed
from tests.support.generators.random_encoder import random_texts, random_weights
from tests.support.gpu_code.cuda_arrays import Framework


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, 0.9999), (np.float16, 0.999)])
@pytest.mark.parametrize(("batch", "length"), [(1, 128), (5, 37), (16, 128)])
def test_embeddings(cuda: Framework, batch: int, length: int, dtype: Any, least: float) -> None:
    weights = random_weights()
    tokens, mask = random_texts(batch, length)
    module = build(weights.to(dtype), batch, length)
    given = [cuda.put(array) for array in (tokens, mask)]
    embeddings = cuda.take(module(*given))
    assert least_cosine(embeddings, numpy_embed(tokens, mask, weights)) >= least
    for _ in range(3):  # by a CUDA graph
        np.testing.assert_array_equal(cuda.take(module(*given)), embeddings)
