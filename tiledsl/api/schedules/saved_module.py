"""Modules in files: one zip file with everything that running takes, and nothing that has to be compiled.

header.json       format, version, architecture, schedule, plan of memory, structure of arguments and results, notes
programs/0 ..     what the back end keeps of each program
weights/0.npy ..  weights, with their names in the header
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiledsl.api.calls.structured_calls import structure_from_json, structure_to_json
from tiledsl.api.calls.targets import saved_program, target_of
from tiledsl.api.schedules.built_module import Built
from tiledsl.frontend.trace.structures import Structure
from tiledsl.ir.dtypes import BY_NAME, to_numpy
from tiledsl.runtime.arrays.arrays import Array
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.schedule import Schedule
from tiledsl.runtime.programs.stored_schedule import (
    memory_from_json,
    memory_to_json,
    schedule_from_json,
    schedule_to_json,
)
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.version import VERSION

FORMAT = 3
_DAMAGE = (zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError, EOFError, struct.error, NotImplementedError)


@dataclass(frozen=True)
class Saved:
    """What a file has."""

    built: Built
    weights: dict[str, Array]
    arguments: dict[str, Structure]
    result: Structure
    notes: tuple[Note, ...]
    unfused_bytes: int | None


def save(path: str | Path, module: Saved) -> None:
    """Writes a module to a file. OSError where it cannot be written."""
    built = module.built
    header = {
        "format": FORMAT,
        "version": VERSION,
        "arch": built.arch,
        "identity": built.identity,
        "schedule": schedule_to_json(built.schedule),
        "memory": memory_to_json(built.memory),
        "programs": len(built.programs),
        "weights": [[name, _dtypes(built.schedule)[name]] for name in module.weights],
        "arguments": {name: structure_to_json(structure) for name, structure in module.arguments.items()},
        "result": structure_to_json(module.result),
        "notes": [[note.pass_name, note.file, note.line, note.text] for note in module.notes],
        "unfused_bytes": module.unfused_bytes,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr("header.json", json.dumps(header))
        for number, program in enumerate(built.programs):
            file.writestr(f"programs/{number}", program.to_bytes())
        for number, array in enumerate(module.weights.values()):
            stream = io.BytesIO()
            np.save(stream, _bits(array), allow_pickle=False)
            file.writestr(f"weights/{number}.npy", stream.getvalue())


def load(path: str | Path) -> Saved:
    """Reads a file that `save` wrote.

    Raises TileRuntimeError for a file that is no saved module, or was saved by another version or for a CPU of another
    kind; OSError for one that cannot be read.
    """
    try:
        with zipfile.ZipFile(path) as file:
            header: dict[str, Any] = json.loads(file.read("header.json"))
            if [header["format"], header["version"]] != [FORMAT, VERSION]:
                actual = f"{header['version']} (format {header['format']})"
                expected = f"{VERSION} (format {FORMAT})"
                fail("saved-version", caller_location(), file=path, actual=actual, expected=expected)
            identity = target_of(header["arch"]).identity()
            if identity != header["identity"]:
                fail("saved-machine", caller_location(), file=path, actual=header["identity"], expected=identity)
            return _read(file, header)
    except TileError:
        raise
    except _DAMAGE as error:
        fail("saved-damaged", caller_location(), file=path, reason=str(error) or type(error).__name__)


def _read(file: zipfile.ZipFile, header: dict[str, Any]) -> Saved:
    read_program = saved_program(header["arch"])
    programs = tuple(read_program(file.read(f"programs/{number}")) for number in range(header["programs"]))
    weights: dict[str, Array] = {}
    for number, (name, dtype) in enumerate(header["weights"]):
        bits: Any = np.load(io.BytesIO(file.read(f"weights/{number}.npy")), allow_pickle=False)
        weights[name] = bits.view(to_numpy(BY_NAME[dtype]))
    built = Built(
        header["arch"],
        header["identity"],
        schedule_from_json(header["schedule"]),
        memory_from_json(header["memory"]),
        programs,
    )
    return Saved(
        built,
        weights,
        {name: structure_from_json(stored) for name, stored in header["arguments"].items()},
        structure_from_json(header["result"]),
        tuple(Note(*fields) for fields in header["notes"]),
        header["unfused_bytes"],
    )


def _bits(array: Any) -> Array:
    """The elements as whole numbers: bf16 and the 8-bit floats have no name in such files."""
    return array.view(f"u{array.itemsize}")


def _dtypes(schedule: Schedule) -> dict[str, str]:
    """The dtype of each weight, by its name."""
    return {schedule.buffers[number].name: schedule.buffers[number].dtype.name for number in schedule.constants}
