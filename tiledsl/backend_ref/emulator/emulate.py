"""Runs functions in GPU form: `emulate`, the entry of the emulator."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiledsl.backend_ref import memory
from tiledsl.backend_ref.arguments import Argument, bind_arguments
from tiledsl.backend_ref.emulator.agents.agent import Shared
from tiledsl.backend_ref.emulator.launches import Launches, check_carried
from tiledsl.backend_ref.execute_tile import EXECUTORS as TILE_EXECUTORS
from tiledsl.backend_ref.execution import Execution, Executor, small_blocks
from tiledsl.backend_ref.scalar_functions import Array
from tiledsl.ir import tile_ops
from tiledsl.ir.core import Function, Op, Value
from tiledsl.ir.gpu import gpu_ops
from tiledsl.ir.types import TensorType
from tiledsl.support.errors import make_error
from tiledsl.support.location import Location


@dataclass(frozen=True)
class EmulatorWarning:
    """Something that is slow but right: bank conflicts. As text it has the user's line."""

    code: str
    message: str
    location: Location
    count: int
    """How many turns of shared memory it costs in all."""
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Emulation:
    """What a function returned, and what is to be said of how it ran."""

    results: tuple[Array, ...]
    warnings: tuple[EmulatorWarning, ...]
    read_bytes: int
    """Of tensors in global memory, by all programs: each element as often as it is asked for. A block of a cluster that
    gets what another asked for has asked for it as well."""
    written_bytes: int
    """Likewise; atomics read and write."""


def emulate(
    function: Function,
    arguments: Sequence[Argument],
    *,
    seed: int | None = 0,
    output: Callable[[str], None] = print,
    addresses: Mapping[str, int] | tuple[int, ...] | None = None,
) -> Emulation:
    """Runs a function in GPU form on NumPy arrays and numbers, in the order of its parameters.

    Arrays that are stored to are changed in place. `seed` decides who runs when, and in which order programs run; None:
    the threads of each role run in step, in the order of the programs. `output` takes each line of `tile.print`.
    `addresses`: for tensors, by name or in order, new ones last, the address of the first element modulo 16 (0, unless
    told).

    Raises TileRuntimeError for what is wrong with the program (the codes `emulator-...` of the catalogue), and the
    errors of `execute_tile.execute` for arguments that do not fit and for `tile.assert`.
    """
    draw = None if seed is None else random.Random(seed)
    return run(function, arguments, draw, draw, output, addresses or {})


def run(
    function: Function,
    arguments: Sequence[Argument],
    interleaving: random.Random | None,
    order: random.Random | None,
    output: Callable[[str], None],
    addresses: Mapping[str, int] | tuple[int, ...],
) -> Emulation:
    """The same; `interleaving` decides who runs when, `order` shuffles programs."""
    sizes, values = bind_arguments(function, arguments)
    shared = Shared()
    launches = Launches(shared, interleaving)
    executors: dict[type[Op], Executor] = {**_OUTSIDE, gpu_ops.Launch: launches.run}
    task = f"emulating `{function.name}`"
    execution = Execution(executors, sizes, small_blocks, output, order, symbols=dict(sizes), task=task)
    tensors = _tensors(function)
    if not isinstance(addresses, tuple):
        addresses = tuple(addresses.get(value.name, 0) for value in tensors)
    launches.addresses = {value: address for value, address in zip(tensors, addresses) if address}
    for op in function.body.walk():
        if isinstance(op, gpu_ops.Launch):
            check_carried(op)
    with np.errstate(all="ignore"):
        results = execution.run(function.body, values)
    return Emulation(results, tuple(_warnings(shared)), shared.read_bytes, shared.written_bytes)


def _tensors(function: Function) -> list[Value]:
    made = [op.result for op in function.body.ops if isinstance(op, tile_ops.Empty)]
    return [*(value for value in function.parameters if isinstance(value.type, TensorType)), *made]


_OUTSIDE: dict[type[Op], Executor] = {
    tile_ops.Constant: TILE_EXECUTORS[tile_ops.Constant],
    tile_ops.Size: TILE_EXECUTORS[tile_ops.Size],
    tile_ops.Map: TILE_EXECUTORS[tile_ops.Map],
    tile_ops.Cast: TILE_EXECUTORS[tile_ops.Cast],
    tile_ops.For: TILE_EXECUTORS[tile_ops.For],
    tile_ops.If: TILE_EXECUTORS[tile_ops.If],
    tile_ops.Empty: memory.empty,
}
"""The ops of a function outside of its launches."""


def _warnings(shared: Shared) -> list[EmulatorWarning]:
    found: list[EmulatorWarning] = []
    for op, (turns, ideal, count) in shared.conflicts.items():
        buffer = op.operands[_buffer_operand(op)].name
        error = make_error(
            "emulator-bank-conflicts", op.location, op=op.name, turns=turns, ideal=ideal, count=count, buffer=buffer
        )
        found.append(
            EmulatorWarning(error.code, error.message, op.location, count * (turns - ideal), str(error).lstrip("\n"))
        )
    return found


def _buffer_operand(op: Op) -> int:
    assert isinstance(op, (gpu_ops.Read, gpu_ops.Write, gpu_ops.Copy))
    return op.operands.index(op.buffer)
