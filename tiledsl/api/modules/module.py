"""Modules: what `tiledsl.fuse(graph).build(arch)` gives. They are called with arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiledsl.frontend.trace.structures import Leaf, Sequenced, Structure, build
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.outputs import as_tuple
from tiledsl.runtime.programs.artifact import Note
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.location import BUILTIN, Location

if TYPE_CHECKING:  # what is not, costs start-up time
    from tiledsl.api.modules.module_kernels import ModuleKernel
    from tiledsl.api.modules.module_places import Places
    from tiledsl.api.schedules.built_module import Built
    from tiledsl.api.schedules.module_weights import WeightCache
    from tiledsl.runtime.calls.short_calls import Quick
    from tiledsl.runtime.modules.module_on_cuda import ModuleOnCuda
    from tiledsl.runtime.programs.schedule import Schedule


@dataclass(frozen=True)
class Signature:
    """How arguments are taken apart, and how the result is put together."""

    arguments: Mapping[str, Structure]
    result: Structure

    @property
    def is_plain(self) -> bool:
        """Whether each argument is one array, and the result one or a tuple of them."""
        result = self.result.items if isinstance(self.result, Sequenced) else (self.result,)
        is_tuple = isinstance(self.result, Leaf) or (
            isinstance(self.result, Sequenced) and self.result.kind is tuple and len(result) > 1
        )
        return is_tuple and all(isinstance(part, Leaf) for part in (*self.arguments.values(), *result))


class Builds:
    """A module for each architecture that it was needed for; for one alone if that was said."""

    def __init__(self, fixed: Built | None, build_for: Callable[[str], Built] | None) -> None:
        self._fixed = fixed
        self._build_for = build_for
        self._lock = threading.Lock()
        self.made: dict[str, Built] = {} if fixed is None else {fixed.arch: fixed}

    def get(self, arch: str) -> Built:
        """The module for an architecture, built now if it was not yet; what it was built for, if that was said."""
        if self._fixed is not None:
            return self._fixed
        with self._lock:
            if arch not in self.made:
                assert self._build_for is not None
                self.made[arch] = self._build_for(arch)
            return self.made[arch]


class Module:
    """A graph whose kernels are compiled and whose memory is planned.

    `module(*arguments, out=None)` takes the formula's arguments that hold arrays, in order or by name, as arrays of any
    supported library. It gives what the formula returns: new arrays, or those of `out` (an array, or a tuple of all).
    Several threads may call it at once.
    """

    def __init__(
        self,
        schedule: Schedule,
        weights: Mapping[str, object],
        signature: Signature,
        built: Built | None,
        build_for: Callable[[str], Built] | None = None,
        notes: Sequence[Note] = (),
        unfused_bytes: int | None = None,
        location: Location = BUILTIN,
        cache: WeightCache | None = None,
        *,
        freeze: bool = False,
    ) -> None:
        """Either `built` already, or built by `build_for` at calls, for the architecture of where their arrays are.

        `weights`: an array for each buffer of the schedule that is a constant, by name. `unfused_bytes`: what the graph
        would read and write if each of its ops ran by itself. `cache`: of the weights, if it is shared with others.
        `freeze`: they never change.
        """
        self.name = schedule.name
        self.weights = weights
        self.notes = tuple(notes)
        self.unfused_bytes = unfused_bytes
        self._schedule = schedule
        self._signature = signature
        self._is_plain = signature.is_plain
        self._count = len(signature.arguments)
        self._builds = Builds(built, build_for)
        self._location = location
        self._cache = cache
        self._freeze = freeze

    @cached_property
    def _places(self) -> Places:
        from tiledsl.api.modules.module_places import Places
        from tiledsl.api.schedules.module_weights import WeightCache

        cache = WeightCache() if self._cache is None else self._cache
        return Places(self.name, self.weights, cache, self._builds.get, self._location, freeze=self._freeze)

    def on_device(self, device: int, stream: int) -> ModuleOnCuda:
        """The launches of a call on a CUDA device, for who makes them by himself; its weights are there after what is
        on the stream."""
        return self._places.on_device(device, stream)

    def __call__(self, *args: object, out: object = None, **named: object) -> Any:
        """Runs the module. Nothing is written when arguments do not fit. Raises TileError."""
        try:
            if self._is_plain and not named:
                quick = self._places.quick
                if quick is not None:
                    result = quick(args, out)
                    if result is not MISSED:
                        return result
                if len(args) == self._count:
                    return self._places.call_carefully(args, out)
            from tiledsl.api.calls.structured_calls import flatten_call

            leaves = flatten_call(self.name, self._signature.arguments, args, named)
            results = self._places.call(leaves, out)
            return results if self._is_plain else build(self._signature.result, iter(as_tuple(results)))
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    @property
    def quick(self) -> Quick | None:
        """What makes a call with arrays in order like those of an earlier call, and gives `MISSED` for others."""
        return self._places.quick if self._is_plain else None

    @property
    def built(self) -> Built:
        """The module as it was built, the last time if that was for several architectures.

        Raises TileUnsupportedError if it was not built yet.
        """
        made = list(self._builds.made.values())
        return made[-1] if made else fail("module-not-built", caller_location(), module=self.name)

    def save(self, path: str | Path) -> None:
        """Writes the module, for the architecture that it was built for, to one file, which `tiledsl.load` reads.

        It has the code, the weights and all that running takes: neither a compiler nor the formula is needed there.
        Raises TileUnsupportedError if it was not built yet, OSError where the file cannot be written.
        """
        from tiledsl.api.schedules.module_weights import saved_array
        from tiledsl.api.schedules.saved_module import Saved, save

        weights = {name: saved_array(weight, name) for name, weight in self.weights.items()}
        signature = self._signature
        save(
            path,
            Saved(self.built, weights, dict(signature.arguments), signature.result, self.notes, self.unfused_bytes),
        )

    def explain(self, html: str | Path | None = None) -> str:
        """What the module does, as text: kernels and launches with the bytes that they move, memory, decisions.

        `html`: a file that gets a page with the same and a drawing. Raises TileUnsupportedError if nothing was built.
        """
        from tiledsl.api.pages.explain_module import explain_module

        built = self.built
        if html is not None:
            from tiledsl.api.pages.module_page import module_page

            Path(html).write_text(module_page(built, self.notes, self.unfused_bytes), encoding="utf-8")
        return explain_module(built, self.notes, self.unfused_bytes)

    @property
    def kernels(self) -> dict[str, ModuleKernel]:
        """The kernels by name, each with `source`, `ir(level)`, `resources` and `plan`.

        Raises TileUnsupportedError if nothing was built yet.
        """
        from tiledsl.api.modules.module_kernels import kernels_of

        return kernels_of(self.built)

    def traffic(self) -> tuple[int, int | None]:
        """Bytes that a call reads and writes, by the count of what each kernel reads and makes; and the same if each op
        of the graph ran by itself, where that is known."""
        return self._schedule.traffic, self.unfused_bytes

    def __repr__(self) -> str:
        archs = ", ".join(self._builds.made) or "wherever its arrays are"
        return f"<module {self.name}({', '.join(self._signature.arguments)}) for {archs}>"

    def _repr_html_(self) -> str:
        from tiledsl.api.pages.module_page import module_page
        from tiledsl.api.reports.notebook import framed

        return framed(repr(self), lambda: module_page(self.built, self.notes, self.unfused_bytes))

    def _repr_svg_(self) -> str:
        """The launches and what they hand to each other, drawn."""
        from tiledsl.api.pages.module_page import module_drawing

        return module_drawing(self._schedule)


def load(path: str | Path) -> Module:
    """A module that `Module.save` wrote. Nothing is compiled; one for a GPU needs none until it is called.

    Raises TileRuntimeError for a file that is no saved module or a damaged one, that another version of tiledsl wrote,
    or whose code is for a CPU of another kind; OSError for one that cannot be read.
    """
    from tiledsl.api.schedules.saved_module import load as read

    try:
        saved = read(path)
    except TileError as error:
        raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's
    signature = Signature(saved.arguments, saved.result)
    schedule = saved.built.schedule
    return Module(
        schedule, saved.weights, signature, saved.built, None, saved.notes, saved.unfused_bytes, freeze=True
    )  # fmt: skip
