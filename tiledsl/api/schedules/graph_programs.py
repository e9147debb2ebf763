"""Programs for the functions of a graph: each distinct one is compiled once, and kept in the artifact cache."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tiledsl.api.calls.targets import Target
from tiledsl.ir.core import Function, Module
from tiledsl.ir.text.printer import print_module
from tiledsl.runtime.programs.artifact import Artifact
from tiledsl.runtime.programs.cache import compiler_identity, digest, disk_cache
from tiledsl.runtime.programs.interface import interface_of
from tiledsl.runtime.programs.program import Program
from tiledsl.support.options import LOG, read_options
from tiledsl.support.progress import Progress


@dataclass(frozen=True)
class CompiledFunction:
    """A function of a graph with its program. `from_disk`: whether the artifact cache had it."""

    artifact: Artifact
    program: Program
    seconds: float
    from_disk: bool


def compile_functions(functions: Sequence[Function], target: Target) -> list[CompiledFunction]:
    """The programs of these functions. Raises TileError for one that cannot be compiled.

    What takes more than 10 seconds says so on standard error."""
    progress = Progress(f"compiling kernels for {target.name}", len(functions))
    compiled: list[CompiledFunction] = []
    for function in functions:
        compiled.append(compile_function(function, target))
        progress.step()
    return compiled


def compile_function(function: Function, target: Target) -> CompiledFunction:
    """The program of one function: from the disk, or compiled now and put there."""
    started = time.perf_counter()
    options = read_options()
    module = Module([function])
    disk, entry = None, ""
    if options.cache_directory is not None:
        disk = disk_cache(options.cache_directory, options.cache_bytes)
        entry = digest([compiler_identity(), target.name, target.identity(), "function", print_module(module)])
        content = disk.get(entry)
        if content is not None:
            try:
                artifact = Artifact.from_bytes(content)
                program = target.from_bytes(artifact.program)
                return CompiledFunction(artifact, program, time.perf_counter() - started, True)
            except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
                LOG.warning("cache entry %s cannot be read (%s); it is made anew", entry, error)
                disk.drop(entry)
    made = target.compile(module)
    artifact = Artifact(target.name, interface_of(function), made.stages, made.notes, made.program.to_bytes())
    if disk is not None:
        disk.put(entry, artifact.to_bytes())
    seconds = time.perf_counter() - started
    LOG.info("@%s compiled for %s in %.3f s", function.name, target.name, seconds)
    return CompiledFunction(artifact, made.program, seconds, False)
