"""Prompts to texts: a decoder of Llama's shape with random weights, whose keys and values lie in pages.

python examples/decoder.py
python examples/decoder.py --device cuda --dtype f16 --layers 8 --width 4096 --heads 32 --kv-heads 8 --hidden 14336
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np

import beside_torch
from decoder_numpy import BASE, EPS, Array, Layer, Sizes, Weights, numpy_logits, random_weights
from tiledsl import ops, tile

DTYPES: dict[str, tuple[Any, float]] = {"f32": (np.float32, 1e-3), "f16": (np.float16, 0.1)}
"""With the largest error of logits, whose size is about 1."""


@tile.kernel
def embed(tokens: Any, words: Any) -> Any:
    """x[B, S, W] for tokens[B, S]."""
    return words[tokens]


@tile.kernel
def before_attention(x: Any, lengths: Any, scale: Any, qkv: Any, heads: int, kv_heads: int) -> Any:
    """q[B, H, S, D], k and v[B, G, S, D] of x[B, S, W], the last tokens of sequences that are now `lengths[B]` long."""
    batch, count, width = x.shape
    head = width // heads
    parts = (ops.rms_norm(x, x.shape[-1], scale, eps=EPS) @ qkv).reshape((batch, count, heads + 2 * kv_heads, head))
    parts = parts.transpose((0, 2, 1, 3))
    positions = tile.arange(count) + (lengths[:, None] - count)
    turns = tile.exp2(tile.arange(head // 2).to(tile.f32) * (-2 * np.log2(BASE) / head))
    angles = positions.to(tile.f32)[:, None, :, None] * turns
    cos, sin = tile.cos(angles), tile.sin(angles)
    q = ops.rotary_embedding(parts[:, :heads], cos, sin)
    k = ops.rotary_embedding(parts[:, heads : heads + kv_heads], cos, sin)
    return q, k, parts[:, heads + kv_heads :]


@tile.kernel
def store(
    keys: tile.Tensor,
    values: tile.Tensor,
    k: tile.Tensor,
    v: tile.Tensor,
    tables: tile.Tensor,
    lengths: tile.Tensor,
) -> None:
    """Puts k and v[B, G, S, D] of the last tokens of each sequence into its pages, keys and values[X, P, G, D]."""
    B, G, S, _ = k.shape
    X, P = keys.shape[0], keys.shape[1]
    B, _ = tables.shape
    B = lengths.shape[0]
    for b, g, s in tile.grid(B, G, S, block=(1, 1, tile.auto)):
        position = s.index + (lengths[b] - S)
        page = tile.where(position >= 0, tables[b, position // P], X)  # tokens before the first one are stored nowhere
        keys[page, position % P, g, :] = k[b, g, s, :]
        values[page, position % P, g, :] = v[b, g, s, :]


@tile.kernel
def after_attention(x: Any, seen: Any, out: Any, scale: Any, gate_up: Any, down: Any) -> Any:
    """x[B, S, W] and what its heads have seen [B, H, S, D], through the rest of a layer."""
    x = x + seen.transpose((0, 2, 1, 3)).reshape(x.shape) @ out
    gate, up = tile.split(ops.rms_norm(x, x.shape[-1], scale, eps=EPS) @ gate_up, 2, axis=-1)
    return x + (tile.silu(gate) * up) @ down


@tile.kernel
def logits_of(x: Any, scale: Any, head: Any) -> Any:
    """Logits[B, V] behind the last token of each sequence, f32."""
    return tile.dot(ops.rms_norm(x[:, -1], x.shape[-1], scale, eps=EPS), head)


@tile.kernel
def largest(logits: Any) -> Any:
    """The next tokens[B, 1]: the likeliest."""
    return tile.argmax(logits, axis=-1).to(tile.i32)[:, None]


@tile.kernel
def drawn(logits: Any, lengths: Any, temperature: float, seed: int) -> Any:
    """The next tokens[B, 1], each as often as softmax(logits / temperature) says (the largest of sums with Gumbel's
    noise); the same for the same seed, place in the batch and length."""
    batch, count = logits.shape
    numbers = (lengths[:, None].to(tile.i64) * batch + tile.arange(batch)[:, None]) * count + tile.arange(count)
    chance = tile.maximum(tile.rand(seed, numbers), 1e-30)
    return largest(logits / temperature - tile.log(-tile.log(chance)))


@tile.kernel
def longer(lengths: tile.Tensor) -> None:
    """Each sequence has one token more."""
    B = lengths.shape[0]
    for b in tile.grid(B):
        lengths[b] += 1


class Decoder:
    """The weights, and pages for `batch` sequences of `longest` tokens. `to` puts arrays where it is computed."""

    def __init__(self, weights: Weights, batch: int, longest: int, page: int, to: Any = np.asarray) -> None:
        sizes, self.weights = weights.sizes, weights
        pages = -(-longest // page)
        shape = (batch * pages, page, sizes.kv_heads, sizes.head)
        # pages of a sequence need not lie side by side: they are given out as sequences grow
        self.tables = to(np.array([range(b, batch * pages, batch) for b in range(batch)], np.int32))
        dtype = weights.words.dtype
        self.words, self.last, self.head = (to(x) for x in (weights.words, weights.last, weights.head))
        self.layers = [Layer(*(to(x) for x in vars(layer).values())) for layer in weights.layers]
        self.caches = [(to(np.zeros(shape, dtype)), to(np.zeros(shape, dtype))) for _ in weights.layers]

    def logits(self, tokens: Any, lengths: Any) -> Any:
        """Logits[B, V] behind tokens[B, S], the last ones of sequences that are `lengths` long with them. Shorter
        prompts begin later in their row. The pages get the keys and values of these tokens."""
        sizes = self.weights.sizes
        x = embed(tokens, self.words)
        for layer, (keys, values) in zip(self.layers, self.caches):
            q, k, v = before_attention(x, lengths, layer.first, layer.qkv, sizes.heads, sizes.kv_heads)
            store(keys, values, k, v, self.tables, lengths)
            seen = ops.attention(q, keys, values, seq_lens=lengths, block_tables=self.tables, causal=True)
            x = after_attention(x, seen, layer.out, layer.second, layer.gate_up, layer.down)
        return logits_of(x, self.last, self.head)


def prompts(sizes: Sizes, batch: int, longest: int, seed: int) -> tuple[Array, Array]:
    """Random tokens[B, longest] and lengths[B]: each prompt stands at the end of its row."""
    random = np.random.default_rng(seed)
    lengths = random.integers(max(1, longest // 2), longest + 1, batch).astype(np.int32)
    lengths[0] = longest
    return random.integers(0, sizes.vocabulary, (batch, longest)).astype(np.int32), lengths


def generate(
    decoder: Decoder, tokens: Any, lengths: Any, count: int, temperature: float, seed: int
) -> tuple[list[Any], list[Any], tuple[float, float]]:
    """So many tokens [B, 1] more, the logits that they were taken from, and the seconds for prompts and for the rest.
    `lengths` grow."""
    begin = time.perf_counter()
    logits = [decoder.logits(tokens, lengths)]
    found: list[Any] = []
    middle = begin
    for number in range(count):
        found.append(drawn(logits[-1], lengths, temperature, seed) if temperature else largest(logits[-1]))
        if number == 0:
            beside_torch.finish(found[0])
            middle = time.perf_counter()
        if number + 1 < count:
            longer(lengths)
            logits.append(decoder.logits(found[-1], lengths))
    beside_torch.finish(found[-1])
    return found, logits, (middle - begin, time.perf_counter() - middle)


def largest_error(decoder: Decoder, tokens: Array, lengths: Array, found: Array, logits: Array) -> float:
    """Of logits[B, T, V] of all steps, beside those in f64 of each whole sequence."""
    worst = 0.0
    for b, length in enumerate(lengths):
        whole = np.concatenate([tokens[b, tokens.shape[1] - length :], found[b, :-1]])
        expected = numpy_logits(whole, decoder.weights)[length - 1 :]
        worst = max(worst, float(np.max(np.abs(logits[b] - expected))))
    return worst


def on_cuda() -> Any:
    """Puts an array on the GPU, as a tensor of PyTorch."""
    torch = beside_torch.cuda_torch()

    def to(x: Array) -> Any:
        return torch.from_numpy(x).cuda()

    return to


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults = {**vars(Sizes()), "batch": 2, "prompt": 12, "tokens": 16, "page": 16, "seed": 0}
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value, help="(default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: the likeliest token (default)")
    parser.add_argument("--dtype", choices=list(DTYPES), default="f32", help="of the weights, and between kernels")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    sizes = Sizes(**{name: getattr(options, name) for name in vars(Sizes())})
    dtype, tolerance = DTYPES[options.dtype]
    to = on_cuda() if options.device == "cuda" else np.asarray
    decoder = Decoder(
        random_weights(sizes, options.seed, dtype), options.batch, options.prompt + options.tokens, options.page, to
    )
    tokens, lengths = prompts(sizes, options.batch, options.prompt, options.seed)

    def run() -> tuple[list[Any], list[Any], tuple[float, float]]:
        copied = to(np.array(lengths))
        return generate(decoder, to(tokens), copied, options.tokens, options.temperature, options.seed)

    run()  # the first time kernels are compiled
    found, logits, (first, rest) = run()
    steps = options.batch * (options.tokens - 1)
    texts = np.concatenate([np.asarray(beside_torch.on_host(step)) for step in found], axis=1)
    every = np.stack([np.asarray(beside_torch.on_host(step)) for step in logits], axis=1)
    for text in texts[:4]:
        print("tokens", *text.tolist())
    print(
        f"prompts of up to {options.prompt} tokens: {1e3 * first:.2f} ms; then {steps / max(rest, 1e-9):.0f} tokens/s"
    )
    error = largest_error(decoder, tokens, lengths, texts, every)
    print(f"largest error of logits beside NumPy in float64: {error:.2e} (at most {tolerance})")
    if not error <= tolerance:
        sys.exit("the logits differ")


if __name__ == "__main__":
    main()
