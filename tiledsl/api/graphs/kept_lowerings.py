"""Lowered graphs on disk: which ops are kernels together is decided once for a graph, a target and sizes.

Deciding takes most of the time that a large graph is built in (a DenseNet of 201 layers: minutes), reading the decision
again hardly any. Entries are IR text with locations, so that what is read is what was written, lines of messages
included; a changed compiler, target or graph has another name for its entry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from tiledsl.api.calls.targets import target_of
from tiledsl.ir.core import InvalidIRError, Module
from tiledsl.ir.text.parser import parse_module
from tiledsl.ir.text.printer import print_module
from tiledsl.passes.manager import Pass, PassContext, PassManager
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.cache import DiskCache, compiler_identity, digest, disk_cache
from tiledsl.support.errors import TileError
from tiledsl.support.options import LOG, read_options

WORTH_KEEPING = 0.5
"""Seconds of lowering: what takes less is sooner made again than read."""


def read_or_lower(
    graph: Module, passes: Sequence[Pass], arch: str, given: str, groupings: Mapping[str, bool] | None = None
) -> tuple[Module, list[Note]]:
    """The module that passes make of a graph for a target, and what they had to say: from the disk if it is there.

    `given`: all that the passes were made with, besides the target; `groupings`: as `PassContext` has them. Raises
    TileError as they do.
    """
    options = read_options()
    disk, entry = None, ""
    if options.cache_directory is not None:
        decided = f" {sorted(groupings.items())}" if groupings else ""
        disk, entry = disk_cache(options.cache_directory, options.cache_bytes), _name(graph, arch, given + decided)
        found = _read(disk, entry)
        if found is not None:
            return found
    started, context = time.perf_counter(), PassContext(groupings=groupings or {})
    module = PassManager(passes, between=False).run(graph, context)
    notes = [Note(r.pass_name, r.location.file, r.location.line, r.text) for r in context.remarks]
    notes = list(dict.fromkeys(notes))
    is_text = not any(function.size_origins for function in module.functions)  # which have none
    if disk is not None and is_text and time.perf_counter() - started >= WORTH_KEEPING:
        disk.put(entry, _to_bytes(module, notes))
    return module, notes


def _name(graph: Module, arch: str, given: str) -> str:
    """Changes with all that a lowering depends on."""
    target = target_of(arch)
    text = print_module(graph, locations=True)
    return digest([compiler_identity(), target.name, target.identity(), "graph", given, text])


def _to_bytes(module: Module, notes: Sequence[Note]) -> bytes:
    said = [[note.pass_name, note.file, note.line, note.text] for note in notes]
    return json.dumps({"module": print_module(module, locations=True), "notes": said}).encode()


def _read(disk: DiskCache, entry: str) -> tuple[Module, list[Note]] | None:
    content = disk.get(entry)
    if content is None:
        return None
    try:
        described = json.loads(content)
        return parse_module(described["module"]), [Note(*fields) for fields in described["notes"]]
    except (ValueError, KeyError, TypeError, TileError, InvalidIRError) as error:
        LOG.warning("cache entry %s cannot be read (%s); it is made anew", entry, error)
        disk.drop(entry)
        return None
