"""From a tiled module to a program of machine code."""

from __future__ import annotations

from tiledsl.backend_cpu.calls.program import Assertion, CpuProgram, TileNote
from tiledsl.backend_cpu.emit.emit_program import emit_program
from tiledsl.backend_cpu.emit.print_calls import format_of
from tiledsl.backend_cpu.llvm import native
from tiledsl.ir.core import Module, Value
from tiledsl.ir.types import format_shape
from tiledsl.passes.machine import CpuMachine


def compile_module(module: Module, machine: CpuMachine) -> CpuProgram:
    """Compiles the entry of a module in form `tile-tiled` for the host; vectors are as wide as `machine` says."""
    emitted = emit_program(module.entry, machine)
    assertions = tuple(Assertion(op.text, op.location) for op in emitted.effects.assertions)
    prints = tuple(format_of(op) for op in emitted.effects.prints)
    tiles = tuple(_tile_note(value, where) for value, where in emitted.effects.residence.items())
    code = native.object_code(emitted.text)
    return CpuProgram(
        code, emitted.text, emitted.layout, emitted.phases, emitted.works, assertions, prints, tiles, machine
    )


def _tile_note(value: Value, where: str) -> TileNote:
    op = value.op
    assert op is not None
    source = op.location.source or f"%{value.name}"
    return TileNote(
        op.location.line, source, f"{value.dtype}{format_shape(value.shape)}", value.tile.level or "", where
    )
