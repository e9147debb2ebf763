"""Whole networks in f16 beside PyTorch, eager and compiled, all as CUDA graphs, and beside their predictions.

Images lie with channels last. Weights are random; results are checked against those of eager PyTorch in f32, and are to
be as near to them as eager PyTorch in f16, within a factor. Times are of a call, in turns, the L2 cache flushed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import tiledsl
from benchmarks.gpu.device import describe, machine_at_hand
from benchmarks.gpu.peers.common import first_line
from benchmarks.gpu.results import Results, microseconds, verdict
from benchmarks.gpu.timing import Clock, in_turns
from benchmarks.gpu.workers import Turn, in_workers
from benchmarks.gpu.zoo import Outcome, add_outcome, clock_of_process

COLUMNS = ("what", "us", "kernels", "predicted", "measured / it", "eager us", "compiled us", "peer / ours", "bar", "")
OURS, EAGER, COMPILED = "fused", "eager", "compiled"
COMPILE_MODE = os.environ.get("TILEDSL_MODELS_COMPILE", "max-autotune-no-cudagraphs")
"""The mode of torch.compile; `default` takes a minute less for each network."""
SLACK = 4.0
"""How many times as far from f32 as eager PyTorch in f16 a result may be."""
PATIENCE = 420.0
"""Seconds for a network."""
BARS = {1: 1.3}
"""By batch; 1.1 for others."""
NETWORKS = ("resnet50", "mobilenet_v2", "vit_b_16", "bert")
BATCHES = (1, 64)


def measure(torch: Any, only: str = "") -> Results:
    """Measures the networks whose name and batch, as in `bert, batch 64`, contain `only`: each in a process of its own,
    which compiles while others do and measures alone."""
    results = Results("models", "Whole networks", COLUMNS, describe(torch))
    results.start()
    names = [
        name for batch in BATCHES for name in (f"{network}, batch {batch}" for network in NETWORKS) if only in name
    ]
    for name, found in in_workers(names, _in_worker, len(names), PATIENCE):
        add_outcome(name, found, results)
    return results


def _in_worker(name: str, turn: Turn) -> Outcome:
    torch: Any = importlib.import_module("torch")
    torch.set_num_threads(1)
    network, _, batch = name.partition(", batch ")
    return outcome(torch, name, *_network(torch, network, int(batch)), int(batch), clock_of_process(), turn)


def _network(torch: Any, name: str, batch: int) -> tuple[Any, Any]:
    """A network in f32 on the device, and what it is given."""
    from benchmarks.torch_models import made  # needs torchvision and transformers

    model, (given,) = made(name)
    given = torch.cat([given.roll(shift, -1) for shift in range(batch)])
    return model.cuda(), given.cuda()


def outcome(torch: Any, name: str, model: Any, given: Any, batch: int, clock: Clock, turn: Turn) -> Outcome:
    """Checks and times a network; times when it is its `turn`."""
    with torch.no_grad():
        wide = model(given)
        model = model.to(torch.float16)
        if given.is_floating_point():
            given = given.half().contiguous(memory_format=torch.channels_last)
            model = model.to(memory_format=torch.channels_last)
        eager = partial(model, given)
        narrow = eager()
        fused = tiledsl.fuse(tiledsl.from_torch(model, given))
        audit = fused.audit(machine_at_hand())
        call = partial(fused.build(), given)
        ours, theirs = (float((torch.as_tensor(made).float() - wide).abs().max()) for made in (call(), narrow))
        if not ours <= SLACK * theirs:
            return Outcome([], {}, [], f"is {ours:.1e} away from f32, eager PyTorch {theirs:.1e}")
        contenders: dict[str, Callable[[], object]] = {OURS: call, EAGER: _captured(torch, eager)}
        notes: list[str] = []
        try:
            compiled = torch.compile(model, dynamic=False, mode=COMPILE_MODE)
            contenders[COMPILED] = _captured(torch, partial(compiled, given))
        except Exception as failure:  # the other peer is still worth knowing
            notes.append(f"{name}: torch.compile: {first_line(str(failure))}")
        with turn:
            times = in_turns(clock, contenders)
    return _row(name, times, audit.predicted, sum(kernel.runs for kernel in audit.kernels), batch, notes)


def _row(name: str, times: Any, predicted: float, kernels: int, batch: int, notes: list[str]) -> Outcome:
    mine, bar = times[OURS].median, BARS.get(batch, 1.1)
    peer = min(times[who].median for who in times if who != OURS)
    met = peer / mine >= bar
    cells = [
        name, microseconds(mine), str(kernels), microseconds(predicted), f"{mine / predicted:.2f}",
        *(microseconds(times[who].median) if who in times else "" for who in (EAGER, COMPILED)),
        f"{peer / mine:.2f}", f"{bar}", verdict(met),
    ]  # fmt: skip
    numbers = {"what": name, "times": times, "predicted": predicted, "peer": peer / mine, "bar": bar, "met": met}
    return Outcome(cells, numbers, notes)


def _captured(torch: Any, call: Callable[[], object]) -> Callable[[], object]:
    """Replays the launches of a call. Its first calls are made before."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()

    def replay(kept: object = kept) -> None:  # what it writes to stays
        graph.replay()

    return replay
