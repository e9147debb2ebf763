"""Well-known architectures of PyTorch with random weights: are they right, how long do they take to compile and to run.

    python -m benchmarks.torch_models [resnet50 bert ...] [--threads 2]

Prints a row for each: the largest difference beside eager PyTorch by the largest result, seconds to import and compile
it cold (and warm, from the disk cache), and milliseconds of a call beside eager. Needs torchvision and transformers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch

import tiledsl

TOLERANCE = 1e-3


def torchvision() -> Any:
    """The package; where its C extension does not load, with the names that it declares at import."""
    try:
        return import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        LIBRARIES.append(library)
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        return import_module("torchvision")


LIBRARIES: list[Any] = []
"""Declarations last as long as these do."""


def _image(name: str, size: int = 224) -> tuple[Any, tuple[Any, ...]]:
    return getattr(torchvision().models, name)(weights=None), (torch.randn(1, 3, size, size),)


class LastState(torch.nn.Module):
    """A model of transformers whose result is the first tensor that it gives."""

    def __init__(self, model: Any, **settings: Any) -> None:
        torch.nn.Module.__init__(self)
        self.model = model
        self.settings = settings

    def forward(self, given: Any) -> Any:
        return self.model(given, return_dict=False, **self.settings)[0]


def transformers() -> Any:
    """The package, which looks at torchvision too."""
    torchvision()
    return import_module("transformers")


def _transformer(kind: str, length: int, settings: dict[str, Any], **call: Any) -> tuple[Any, tuple[Any, ...]]:
    models = transformers()
    config = getattr(models, f"{kind}Config")(**settings)
    model = LastState(getattr(models, f"{kind}Model")(config), **call)
    return model, (torch.randint(0, config.vocab_size, (1, length)),)


def _whisper() -> tuple[Any, tuple[Any, ...]]:
    models = transformers()
    config = models.WhisperConfig(encoder_layers=4, d_model=384, encoder_attention_heads=6, encoder_ffn_dim=1536)
    encoder = models.WhisperModel(config).encoder
    return LastState(encoder), (torch.randn(1, 80, 3000),)


LLAMA = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 2, "num_attention_heads": 8,
         "num_key_value_heads": 2, "vocab_size": 8000}  # fmt: skip
MAMBA = {"hidden_size": 256, "num_hidden_layers": 2, "vocab_size": 1000}
MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "resnet18": lambda: _image("resnet18"),
    "resnet50": lambda: _image("resnet50"),
    "mobilenet_v2": lambda: _image("mobilenet_v2"),
    "vit_b_16": lambda: _image("vit_b_16"),
    "bert": lambda: _transformer("Bert", 128, {}),
    "gpt2": lambda: _transformer("GPT2", 128, {}, use_cache=False),
    "llama": lambda: _transformer("Llama", 128, LLAMA, use_cache=False),
    "whisper": _whisper,
    "mamba": lambda: _transformer("Mamba", 32, MAMBA, use_cache=False),
}


def _fastest(call: Callable[[], Any], least: int = 3, seconds: float = 2.0) -> float:
    """Milliseconds of the fastest of some calls."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < least or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found) * 1e3


def made(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model for inference, with random weights by a fixed seed, and its arguments."""
    torch.manual_seed(0)
    model, arguments = MODELS[name]()
    for parameter in model.parameters():  # some begin as zeros, which would hide what comes before
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    return model.eval(), arguments


def measured(name: str) -> str:
    """One row of the table."""
    model, arguments = made(name)
    with torch.no_grad():
        expected = model(*arguments)
        eager = _fastest(lambda: model(*arguments))
    seconds: list[tuple[float, float]] = []
    module: Any = None
    for _ in range(2):  # cold, then from the disk cache
        start = time.perf_counter()
        graph = tiledsl.from_torch(model, *arguments)
        written = time.perf_counter()
        module = tiledsl.fuse(graph).build("cpu")
        seconds.append((written - start, time.perf_counter() - written))
    arrays = [argument.numpy() for argument in arguments]
    actual = torch.from_numpy(module(*arrays))
    error = float((actual - expected).abs().max() / expected.abs().max())
    own = _fastest(lambda: module(*arrays))
    kernels = len(module.kernels)
    verdict = "right" if error <= TOLERANCE else "WRONG"
    (cold_import, cold), (warm_import, warm) = seconds
    return (
        f"{name:14} {verdict} {error:8.1e}  {cold_import:7.1f} {cold:7.1f} {warm_import:7.1f} {warm:7.1f}"
        f"  {kernels:7}  {own:8.1f} {eager:8.1f} {eager / own:6.2f}"
    )


def main(arguments: Sequence[str]) -> int:
    """Prints the table; 0 if all are right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all if none is named")
    parser.add_argument("--threads", type=int, default=2, help="that PyTorch may use")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    print(f"{'':14} {'':5} {'error':>8}  {'import':>7} {'compile':>7} {'again':>7} {'warm':>7}"
          f"  {'kernels':>7}  {'ms':>8} {'eager':>8} {'ratio':>6}")  # fmt: skip
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEDSL_CACHE_DIR"] = folder
        for name in options.models or MODELS:
            try:
                row = measured(name)
            except Exception as error:
                row = f"{name:14} FAILED {type(error).__name__}: {' '.join(str(error).split())[:300]}"
            failed = failed or " right " not in row
            print(row, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
