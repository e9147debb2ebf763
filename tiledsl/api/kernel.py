"""`@tile.kernel`: a Python function that compiles itself for the arguments that it meets."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NoReturn

from tiledsl.api.compiled import CompiledKernel
from tiledsl.api.specs import constant_names, front_end_argument, spec_key
from tiledsl.api.targets import Target, target_of, worker_threads
from tiledsl.frontend.kernel_source import KernelSource
from tiledsl.runtime.artifact import Artifact
from tiledsl.runtime.cache import DiskCache, compiler_identity, digest, disk_cache
from tiledsl.runtime.captured import Captured
from tiledsl.runtime.dispatch import Dispatcher, Variant
from tiledsl.runtime.interface import interface_of
from tiledsl.runtime.parameters import Parameters
from tiledsl.runtime.specialise import ArgumentKey, difference
from tiledsl.support.caller import caller_location
from tiledsl.support.errors import TileError, fail
from tiledsl.support.options import LOG, read_options


@dataclass(frozen=True)
class Compilation:
    """One compilation of a kernel: for which arguments, why, how long it took and whether the disk had it."""

    arch: str
    specialisation: Mapping[str, str]
    cause: str
    seconds: float
    from_disk: bool


class Kernel:
    """A kernel. Calling it compiles it, once for each specialisation, and runs it.

    Safe to call from several threads: each specialisation is compiled by one, and the others wait.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any]) -> None:
        """Raises TileSyntaxError for what is not a plain function. The source is not read yet."""
        self._source = KernelSource(function)
        self.__wrapped__: FunctionType = self._source.function
        functools.update_wrapper(self, function)
        signature = self._source.signature
        self._parameters = Parameters(self._source.name, signature, constant_names(signature), self._source.definition)
        self._dispatcher = Dispatcher(self._parameters, self._choose, worker_threads)
        self._takes_out = "out" in self._parameters.names
        self._lock = threading.Lock()
        self._captured: Captured | None = None
        self._compiled: dict[tuple[str, tuple[ArgumentKey, ...]], CompiledKernel] = {}
        self._in_progress: dict[tuple[str, tuple[ArgumentKey, ...]], threading.Lock] = {}
        self._last_change = ""
        self.recompiles: list[Compilation] = []
        """Every compilation so far, in order."""

    def __call__(self, *args: object, out: object = None, **kwargs: object) -> Any:
        """Runs the kernel on NumPy arrays (or others in CPU memory) and gives what it returns.

        `out`: an array, or a tuple of them, to take the place of the tensors that the kernel makes and returns.
        Nothing is written when arguments do not fit. Raises TileError.
        """
        captured = self._captured
        if captured is not None and captured.watched:
            self._forget_if_changed(captured)
        if out is not None and self._takes_out:
            kwargs["out"], out = out, None
        try:
            return self._dispatcher.call(args, kwargs, out)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def compile(self, *specs: object, arch: str | None = None, **named: object) -> CompiledKernel:
        """Compiles for arguments like `specs`: arrays, `tile.spec(shape, dtype)`, number types, numbers; and constants.

        `arch` is `cpu` (the default) or `reference`, which runs the kernel by NumPy. Raises TileError.
        """
        target = target_of(arch or "cpu")
        if self._captured is not None:
            self._forget_if_changed(self._captured)
        try:
            return self._get(target, self._spec_keys(specs, named))
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def ir(self, *specs: object, level: str = "tile", stage: str = "", arch: str | None = None, **named: object) -> str:
        """The IR for arguments like `specs`; see `compile` and `CompiledKernel.ir`."""
        return self.compile(*specs, arch=arch, **named).ir(level, stage=stage)

    def explain(self) -> str:
        """Every compilation so far with its cause, and what was chosen in each."""
        if not self._compiled:
            return f"{self._source.name}: not compiled yet"
        return "\n\n".join(compiled.explain() for compiled in self._compiled.values())

    def emulate(self, *args: object, arch: str | None = None, **kwargs: object) -> NoReturn:
        """Raises TileUnsupportedError: there is no GPU IR yet whose execution could be emulated."""
        advice = 'run `kernel.compile(..., arch="reference")`, the meaning of the kernel by NumPy'
        fail("feature-missing", caller_location(), feature="`emulate`", advice=advice)

    def __repr__(self) -> str:
        return f"<tile.kernel {self._source.name}{self._source.signature}>"

    # Finding and making specialisations

    def _spec_keys(self, specs: tuple[object, ...], named: Mapping[str, object]) -> tuple[ArgumentKey, ...]:
        values = zip(self._parameters.names, self._parameters.arrange(specs, named))
        return tuple(spec_key(name, value, name in self._parameters.constants) for name, value in values)

    def _choose(self, keys: tuple[ArgumentKey, ...]) -> Variant:
        return self._get(target_of("cpu"), keys).variant

    def _get(self, target: Target, keys: tuple[ArgumentKey, ...]) -> CompiledKernel:
        place = (target.name, keys)
        found = self._compiled.get(place)
        if found is not None:
            return found
        with self._lock:
            lock = self._in_progress.setdefault(place, threading.Lock())
        with lock:
            found = self._compiled.get(place)
            if found is None:
                found = self._load_or_compile(target, keys)
                self._compiled[place] = found
        return found

    def _load_or_compile(self, target: Target, keys: tuple[ArgumentKey, ...]) -> CompiledKernel:
        started = time.perf_counter()
        options = read_options()
        captured = self._capture()
        entry = disk = None
        if captured is not None and options.cache_directory is not None:
            disk = disk_cache(options.cache_directory, options.cache_bytes)
            entry = digest([compiler_identity(), target.name, target.identity(), *map(str, keys), *captured.texts])
        cause = self._cause(target, keys)
        compiled = self._from_disk(disk, entry, target, keys, cause) if disk and entry else None
        from_disk = compiled is not None
        if compiled is None:
            artifact, program = self._make(target, keys)
            compiled = CompiledKernel(self._parameters, keys, artifact, program, cause)
            if disk and entry:
                disk.put(entry, artifact.to_bytes())
        seconds = time.perf_counter() - started
        self.recompiles.append(Compilation(target.name, compiled.specialisation, cause, seconds, from_disk))
        how = "loaded from the disk cache" if from_disk else "compiled"
        LOG.info("%s %s for %s in %.3f s: %s", self._source.name, how, target.name, seconds, cause)
        return compiled

    def _capture(self) -> Captured | None:
        """What the kernel reads from outside. None where its source cannot be read, of which the front end tells."""
        with self._lock:
            if self._captured is None:
                try:
                    self._captured = Captured(self._source.function)
                except (OSError, TypeError):
                    return None
            return self._captured

    def _from_disk(
        self, disk: DiskCache, entry: str, target: Target, keys: tuple[ArgumentKey, ...], cause: str
    ) -> CompiledKernel | None:
        content = disk.get(entry)
        if content is None:
            return None
        artifact = Artifact.from_bytes(content)
        return CompiledKernel(self._parameters, keys, artifact, target.from_bytes(artifact.program), cause)

    def _make(self, target: Target, keys: tuple[ArgumentKey, ...]) -> tuple[Artifact, Any]:
        from tiledsl.frontend.lower import lower_kernel  # a kernel that the disk cache has does not need it

        arguments = {name: front_end_argument(key) for name, key in zip(self._parameters.names, keys)}
        module = lower_kernel(self._source, arguments)
        interface = interface_of(module.entry)
        made = target.compile(module)
        return Artifact(target.name, interface, made.stages, made.notes, made.program.to_bytes()), made.program

    def _cause(self, target: Target, keys: tuple[ArgumentKey, ...]) -> str:
        """Why there is no specialisation for these keys yet: what differs from the nearest one that there is."""
        earlier = [known for arch, known in self._compiled if arch == target.name]
        if not earlier:
            return self._last_change or "first use"
        names = self._parameters.names
        return "; ".join(min((difference(names, known, keys) for known in earlier), key=len))

    def _forget_if_changed(self, captured: Captured) -> None:
        """Drops what was compiled with a global, a closure variable or a helper that is another one now."""
        changed = captured.changed()
        if changed is None:
            return
        with self._lock:
            if self._captured is captured:
                self._last_change = f"`{changed.name}`, read from outside of the kernel, has changed"
                self._captured = None
                self._compiled = {}
                self._in_progress = {}
                self._source = KernelSource(self._source.function)
                self._dispatcher.forget()


def kernel(function: Callable[..., Any]) -> Kernel:
    """Makes a kernel of a function: `@tile.kernel`. Raises TileSyntaxError for what is not a plain function."""
    return Kernel(function)
