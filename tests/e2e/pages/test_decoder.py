"""`examples/decoder.py`: prompts of unlike lengths, texts step by step, keys and values in pages."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decoder import Decoder, drawn, generate, largest_error, prompts, store
from decoder_numpy import Sizes, numpy_logits, random_weights

ROOT = Path(__file__).resolve().parents[3]
SMALL = Sizes(layers=2, width=32, heads=4, kv_heads=2, hidden=48, vocabulary=50)


@pytest.mark.parametrize(
    "options",
    [
        "",
        pytest.param("--temperature 0.8 --dtype f16", marks=pytest.mark.slow),
        "--batch 3 --prompt 33 --tokens 20 --page 8 --heads 8 --kv-heads 1 --layers 1",
        pytest.param("--batch 1 --prompt 1 --tokens 2 --page 64 --kv-heads 4 --temperature 2", marks=pytest.mark.slow),
    ],
)
def test_the_example(options: str) -> None:
    command = [sys.executable, "examples/decoder.py", *options.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tokens/s" in done.stdout
    assert "largest error of logits" in done.stdout


def texts(temperature: float, seed: int, batch: int = 3) -> Any:
    decoder = Decoder(random_weights(SMALL), batch, 20, 4)
    tokens, lengths = prompts(SMALL, batch, 9, 1)
    found, logits, _ = generate(decoder, tokens, lengths.copy(), 8, temperature, seed)
    every = np.concatenate(found, axis=1)
    assert largest_error(decoder, tokens, lengths, every, np.stack(logits, axis=1)) < 1e-4
    return every


def test_the_likeliest_tokens_and_drawn_ones() -> None:
    assert np.array_equal(texts(0.0, 0), texts(0.0, 5))
    assert np.array_equal(texts(1.5, 3), texts(1.5, 3))
    assert not np.array_equal(texts(1.5, 3), texts(1.5, 4))


def test_a_wrong_logit_is_noticed() -> None:
    decoder = Decoder(random_weights(SMALL), 1, 20, 4)
    tokens, lengths = prompts(SMALL, 1, 9, 1)
    found, logits, _ = generate(decoder, tokens, lengths.copy(), 4, 0.0, 0)
    logits[2] = logits[2] + 0.01
    error = largest_error(decoder, tokens, lengths, np.concatenate(found, axis=1), np.stack(logits, axis=1))
    assert error == pytest.approx(0.01, abs=1e-3)


def test_a_prompt_may_come_in_parts() -> None:
    weights, (tokens, _) = random_weights(SMALL), prompts(SMALL, 2, 12, 1)
    decoder = Decoder(weights, 2, 16, 4)
    for end in (5, 8, 12):
        before = {5: 0, 8: 5, 12: 8}[end]
        logits: Any = decoder.logits(np.ascontiguousarray(tokens[:, before:end]), np.full(2, end, np.int32))
        expected = np.stack([numpy_logits(row[:end], weights)[-1] for row in tokens])
        assert np.allclose(logits, expected, atol=1e-4)


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    logits = np.tile(np.log(np.array([0.5, 0.2, 0.2, 0.1], np.float32)), (4000, 1))
    got: Any = drawn(logits, np.full(4000, 7, np.int32), 1.0, 11)
    shares = np.bincount(np.reshape(got, -1), minlength=4) / 4000
    assert np.allclose(shares, [0.5, 0.2, 0.2, 0.1], atol=0.03)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_what_goes_into_pages(arch: str) -> None:
    random = np.random.default_rng(0)
    k, v = (random.standard_normal((2, 2, 6, 8)).astype(np.float16) for _ in range(2))
    keys, values = (np.zeros((7, 4, 2, 8), np.float16) for _ in range(2))
    tables, lengths = np.array([[6, 0, 3], [2, 5, 1]], np.int32), np.array([9, 4], np.int32)
    store.emulate(keys, values, k, v, tables, lengths, arch=arch, seed=0)
    for cache, new in ((keys, k), (values, v)):
        expected = np.zeros_like(cache)
        for b, length in enumerate(lengths):
            for s in range(6):
                position = length - 6 + s
                if position >= 0:
                    expected[tables[b, position // 4], position % 4] = new[b, :, s]
        assert np.array_equal(cache, expected)
