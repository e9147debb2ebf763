"""From a lowered graph, its weights, and what calls pass, to a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiledsl.api.modules.module import Module, Signature
from tiledsl.api.schedules.built_module import Build, build_for
from tiledsl.api.schedules.module_weights import WeightCache, check_weights
from tiledsl.api.schedules.schedule_graph import schedule_graph
from tiledsl.frontend.trace.structures import Leaf, Sequenced, Structure
from tiledsl.ir.core import Module as IRModule
from tiledsl.ir.types import TensorType
from tiledsl.runtime.programs.artifact import Note


def build_module(
    lowered: IRModule,
    constants: Mapping[str, object],
    inputs: Sequence[str],
    arch: str | None = None,
    notes: Sequence[Note] = (),
    arguments: Mapping[str, Structure] | None = None,
    result: Structure | None = None,
    unfused_bytes: int | None = None,
    cache: WeightCache | None = None,
    build: Build = build_for,
    *,
    freeze: bool = False,
) -> Module:
    """A module of a lowered graph, as docs/graphs.md describes one.

    `inputs` are the parameters of the entry that calls pass, in order; `constants` has arrays for all others. `arch`:
    `cpu`, `reference`, a GPU's (`sm_90`; no GPU is needed), or None: that of the arrays of each call. `notes` are what
    passes had to say. `arguments` and `result` are structures as a `Graph` has them; without them the module takes its
    inputs and gives a tensor, or a tuple of them. `cache`: of the weights, for several modules of one graph. `build`
    compiles the functions of a schedule. `freeze`: no weight ever changes. Raises TileError for weights that do not
    fit, and for what cannot be compiled.
    """
    entry = lowered.entry
    types = {p.name: p.type for p in entry.parameters if p.name not in inputs and isinstance(p.type, TensorType)}
    check_weights(types, constants, entry.name)
    scheduled = schedule_graph(lowered, inputs, types.keys())
    schedule = scheduled.schedule
    built = None if arch is None else build(scheduled, arch)
    weights = {**{name: constants[name] for name in types}, **scheduled.literals}
    if arguments is None:
        arguments = {name: Leaf(name) for name in inputs}
    if result is None:
        leaves = tuple(Leaf(f"out_{number}") for number in range(len(schedule.outputs)))
        result = leaves[0] if len(leaves) == 1 else Sequenced(tuple, leaves)
    every = (*notes, *(Note("schedule-graph", "", 0, remark) for remark in scheduled.remarks))
    signature = Signature(arguments, result)
    return Module(
        schedule, weights, signature, built, lambda wanted: build(scheduled, wanted), every, unfused_bytes,
        entry.location, cache, freeze=freeze,
    )  # fmt: skip
