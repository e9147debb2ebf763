"""The specialisations of a kernel: found in memory, loaded from disk, or compiled."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tiledsl.api.calls.plan_sources import BySource
from tiledsl.api.calls.specs import front_end_argument
from tiledsl.api.calls.targets import Target, cuda_services, target_of, worker_threads
from tiledsl.api.programs.compiled import CompiledKernel
from tiledsl.frontend.source.kernel_source import KernelSource
from tiledsl.ir.core import Module
from tiledsl.runtime.calls.captured import Captured, Watched
from tiledsl.runtime.calls.dispatch import Dispatcher, Variant
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.specialise import ArgumentKey, difference
from tiledsl.runtime.programs.artifact import Artifact
from tiledsl.runtime.programs.cache import DiskCache, compiler_identity, digest, disk_cache
from tiledsl.runtime.programs.interface import interface_of
from tiledsl.runtime.programs.plan_source import PlanSource
from tiledsl.runtime.programs.program import HasVariants, Program
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import Label, TileShapeError, TileTypeError, add_place
from tiledsl.support.options import LOG, read_options

if TYPE_CHECKING:
    from tiledsl.runtime.programs.variant_report import VariantMade

Keys = tuple[ArgumentKey, ...]


@dataclass(frozen=True)
class Compilation:
    """One compilation of a kernel: for which arguments, why, how long it took and whether the disk had it.

    For GPUs a specialisation is compiled as far as the choice of a plan, then once for each `plan` that calls need:
    block sizes, sizes that are taken for constants, alignment of arrays. `plan` is empty for the first part.
    """

    arch: str
    specialisation: Mapping[str, str]
    cause: str
    seconds: float
    from_disk: bool
    plan: str = ""


class Specialisations:
    """All that is compiled of one kernel for as long as what it reads from outside of itself stays the same.

    Each specialisation is compiled by one thread, and the others wait.
    """

    def __init__(self, source: KernelSource, parameters: Parameters, cause: str, history: list[Compilation]) -> None:
        """`cause` says why the first one is compiled; every compilation is added to `history`."""
        self._source = source
        self._parameters = parameters
        self._first_cause = cause
        self._history = history
        self._lock = threading.Lock()
        self._in_progress: dict[tuple[str, Keys], threading.Lock] = {}
        self.compiled: dict[tuple[str, Keys], CompiledKernel] = {}
        self.watched: tuple[Watched, ...] = ()
        """Filled at the first compilation: names outside of the kernel, to be compared at each call."""
        self.dispatchers = BySource(self.dispatcher_by)
        """Each knows the launches by the plans of one source."""

    def get(self, target: Target, keys: Keys) -> CompiledKernel:
        """The specialisation for these keys. Raises TileError if the kernel cannot be compiled for them."""
        place = (target.name, keys)
        found = self.compiled.get(place)
        if found is not None:
            return found
        with self._lock:
            lock = self._in_progress.setdefault(place, threading.Lock())
        with lock:
            found = self.compiled.get(place)
            if found is None:
                found = self._load_or_compile(target, keys)
                self.compiled[place] = found
        return found

    def dispatcher_by(self, plans: PlanSource | None) -> Dispatcher:
        """A new dispatcher, whose launches ask a source of plans; by default that of the environment."""

        def choose(keys: Keys, device: int | None) -> Variant:
            return self._choose(keys, device, plans)

        return Dispatcher(self._parameters, choose, worker_threads, cuda_services)

    def plans_changed(self) -> None:
        """Calls ask for their plans anew."""
        for compiled in list(self.compiled.values()):
            compiled.plans_changed()
        self.dispatchers.forget()

    def _choose(self, keys: Keys, device: int | None, plans: PlanSource | None) -> Variant:
        arch = "cpu" if device is None else cuda_services().arch(device)
        variant = self.get(target_of(arch), keys).variant_by(plans)
        if device is None and read_options().checking:
            from tiledsl.api.programs.checked_programs import CheckedFirst  # it is hardly ever asked for

            program: Any = variant.program
            return Variant(variant.interface, CheckedFirst(program, self.lowered(keys).entry))
        return variant

    def lowered(self, keys: Keys) -> Module:
        """The module of the front end for these keys, which `refuse_races` let through. Raises TileError."""
        from tiledsl.frontend.kernel.lower import lower_kernel  # a kernel that the disk cache has does not need it
        from tiledsl.passes.analysis.races import refuse_races

        arguments = {name: front_end_argument(key) for name, key in zip(self._parameters.names, keys)}
        try:
            module = lower_kernel(self._source, arguments)
        except (TileTypeError, TileShapeError) as error:  # it may well be due to what the call passes
            call = caller_location()
            if call is not None:
                keys_text = (str(key).replace("16*?", "?") for key in keys)
                given = ", ".join(f"`{name}` {key}" for name, key in zip(self._parameters.names, keys_text))
                add_place(error, Label(call, f"compiled for {given}"))
            raise
        refuse_races(module.entry)
        return module

    @cached_property
    def _captured(self) -> Captured:
        """What the kernel reads from outside."""
        captured = Captured(self._source.function)
        self.watched = tuple(captured.watched)
        return captured

    def _load_or_compile(self, target: Target, keys: Keys) -> CompiledKernel:
        started = time.perf_counter()
        options = read_options()
        with self._lock:
            captured = self._captured
        cause = self._cause(target, keys)
        disk, entry, stored = None, "", None
        if options.cache_directory is not None:
            disk = disk_cache(options.cache_directory, options.cache_bytes)
            entry = digest([compiler_identity(), target.name, target.identity(), *map(str, keys), *captured.texts])
            stored = _stored(disk, entry, target)
        from_disk = stored is not None
        if stored is not None:
            artifact, program = stored
        else:
            artifact, program = self._compile(target, keys)
            if disk is not None:
                disk.put(entry, artifact.to_bytes())
        found = CompiledKernel(self._parameters, keys, artifact, program, cause)
        seconds = time.perf_counter() - started
        self._note(Compilation(target.name, found.specialisation, cause, seconds, from_disk))
        if isinstance(program, HasVariants):
            self._watch(found, program)
        return found

    def _watch(self, compiled: CompiledKernel, program: HasVariants) -> None:
        """Has variants noted as compilations when they are made."""
        arch, specialisation = compiled.arch, compiled.specialisation

        def note(made: VariantMade) -> None:
            self._note(Compilation(arch, specialisation, made.cause, made.seconds, made.from_disk, made.plan))

        program.watch(note)

    def _note(self, made: Compilation) -> None:
        self._history.append(made)
        how = "loaded from the disk cache" if made.from_disk else "compiled"
        plan = f" with plan ({made.plan})" if made.plan else ""
        LOG.info("%s %s for %s in %.3f s%s: %s", self._source.name, how, made.arch, made.seconds, plan, made.cause)

    def _compile(self, target: Target, keys: Keys) -> tuple[Artifact, Program]:
        module = self.lowered(keys)
        made = target.compile(module)
        program = made.program
        return Artifact(target.name, interface_of(module.entry), made.stages, made.notes, program.to_bytes()), program

    def _cause(self, target: Target, keys: Keys) -> str:
        """Why there is no specialisation for these keys yet: what differs from the nearest one that there is."""
        earlier = [known for arch, known in list(self.compiled) if arch == target.name]
        if not earlier:
            return self._first_cause
        names = self._parameters.names
        return "; ".join(min((difference(names, known, keys) for known in earlier), key=len))


def _stored(disk: DiskCache, entry: str, target: Target) -> tuple[Artifact, Program] | None:
    """What the disk has under that name. An entry that cannot be read is dropped."""
    content = disk.get(entry)
    if content is None:
        return None
    try:
        artifact = Artifact.from_bytes(content)
        return artifact, target.from_bytes(artifact.program)
    except (ValueError, KeyError, TypeError, IndexError, struct.error) as error:
        LOG.warning("cache entry %s cannot be read (%s); it is made anew", entry, error)
        disk.drop(entry)
        return None
