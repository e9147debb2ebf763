"""`@tile.kernel`: a Python function that compiles itself for the arguments that it meets."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import Parameter
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from tiledsl.api.calls.specs import arch_of_specs, constant_names, spec_key
from tiledsl.api.calls.targets import target_of
from tiledsl.api.programs.compiled import CompiledKernel
from tiledsl.api.programs.specialisations import Compilation, Keys, Specialisations
from tiledsl.frontend.language.active_trace import ACTIVE
from tiledsl.frontend.source.kernel_source import KernelObject, KernelSource
from tiledsl.runtime.calls.captured import Watched, changed
from tiledsl.runtime.calls.missed import MISSED
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.prepared import PreparedCall
from tiledsl.runtime.programs.plan_source import ACTIVE_PLANS
from tiledsl.support.errors import TileError, TilePerformanceWarning

if TYPE_CHECKING:
    from pathlib import Path

    from tiledsl.api.calls.tuning import TuneReport
    from tiledsl.api.kernels.tensor_form import TensorForm
    from tiledsl.api.pages.audit import Audit
    from tiledsl.api.programs.checked_programs import CheckReport
    from tiledsl.api.programs.emulate import Emulated, Request
    from tiledsl.autotune.searching.search import Listener


Result = TypeVar("Result", default=Any)


class _NoSeed(int):
    """The seed 0 of `Kernel.emulate` where none is given: told from a 0 that may be meant for the kernel."""


_FIRST_SEED = _NoSeed()


class Kernel(KernelObject, Generic[Result]):
    """A kernel. Calling it compiles it, once for each specialisation, and runs it. Threads may share it.

    For type checkers a call gives what the function's annotation says (`-> tile.Tensor`).
    """

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Result]) -> None:
        """Raises TileError for what is not a plain function. The source is not read yet."""
        source = KernelSource(function)
        self.__wrapped__: FunctionType = source.function
        functools.update_wrapper(self, function)
        self.parameters = Parameters(source.name, source.signature, constant_names(source.signature), source.definition)
        self._takes_out = "out" in self.parameters.names
        self._lock = threading.Lock()
        self.recompiles: list[Compilation] = []
        """Every compilation so far, in order."""
        self._current = Specialisations(source, self.parameters, "first use", self.recompiles)

    def __call__(self, *args: object, out: object = None, **kwargs: object) -> Result:
        """Runs the kernel on arrays in CPU memory or on one CUDA device, and gives what it returns.

        On a device, on the caller's current stream, and without waiting for it. Outputs are made by the library of the
        first array (PyTorch, CuPy); for others they are `DeviceArray`s.

        `out`: an array, or a tuple of them, to take the place of the tensors that the kernel makes and returns.
        Nothing is written when arguments do not fit. Raises TileError.

        In a formula that `tiledsl.trace` writes down, it stands for what it gives: in tensor form its ops are
        recorded, in tile form a call of it.
        """
        trace = ACTIVE.get()
        if trace is not None:
            from tiledsl.api.kernels.traced_calls import call_in_trace  # costs start-up time

            traced: Any = call_in_trace(self, trace, args, kwargs, out)
            return traced
        current = self._current
        if current.watched and changed(current.watched) is not None:
            current = self._up_to_date()
        if out is not None and self._takes_out:
            kwargs["out"], out = out, None
        plans = ACTIVE_PLANS.get()
        dispatcher = current.dispatchers.default if plans is None else current.dispatchers.of(plans)
        try:
            quick = dispatcher.quick if out is None else dispatcher.quick_into
            if quick is not None and not kwargs:
                result: Any = quick(args, out)
                if result is not MISSED:
                    return result
            call: Callable[..., Any] = self._call_formula if self.is_tensor_form else dispatcher.call
            return call(args, kwargs, out)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def _call_formula(self, args: tuple[object, ...], kwargs: Mapping[str, object], out: object) -> object:
        """Calls a kernel in tensor form; the next calls like this one go the short way."""
        called = self._tensor_form.call(args, kwargs, out)
        if called.quick is not None:
            with self._lock:
                if self._current.watched is not called.watched:
                    self._current = Specialisations(
                        KernelSource(self.__wrapped__), self.parameters, "first use", self.recompiles
                    )
                    self._current.watched = called.watched
                dispatcher = self._current.dispatchers.current()
            if out is None:
                dispatcher.quick = called.quick
            else:
                dispatcher.quick_into = called.quick
        return called.result

    def bind(self, *args: object, out: object = None, stream: int | None = None, **kwargs: object) -> PreparedCall:
        """Prepares a call: everything is checked, compiled and allocated now, and calling the result just launches.

        `stream`: the address of a CUDA stream's handle; default: the caller's current one, now. Raises TileError.
        """
        if out is not None and self._takes_out:
            kwargs["out"], out = out, None
        try:
            if self.is_tensor_form:
                return PreparedCall(self._tensor_form.prepare, args, kwargs, out, self.__name__)
            prepare = self._up_to_date().dispatchers.current().prepare
            return PreparedCall(lambda a, k, o: prepare(a, k, o, stream), args, kwargs, out, self.__name__)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def compile(self, *specs: object, arch: str | None = None, **named: object) -> CompiledKernel:
        """Compiles for arguments like `specs`: arrays, `tile.spec(shape, dtype)`, number types, numbers; and constants.

        `arch` is `cpu`, `reference` (which runs the kernel by NumPy) or a GPU's (`sm_90`; no GPU is needed). Default:
        that of the device where the arrays among `specs` are, or `cpu`. A kernel in tensor form gives a
        `CompiledFormula`. Raises TileError.
        """
        try:
            if self.is_tensor_form:
                compiled: Any = self._tensor_form.compile(
                    specs, named, arch or arch_of_specs((*specs, *named.values()))
                )
                return compiled
            target = target_of(arch or arch_of_specs((*specs, *named.values())))
            compiled = self._up_to_date().get(target, self._spec_keys(specs, named))
            return compiled.with_sizes_of(self.parameters.arrange(specs, named))
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def audit(self, *specs: object, arch: str = "sm_90", **named: object) -> Audit:
        """What the kernel moves and how long it is predicted to take, beside the least that it could.

        `arch`: a GPU's, none of which is needed, or `cpu`: the one at hand. Arguments are those of `compile`; sizes
        that specs leave open are guessed. Nothing is run. Raises TileError.
        """
        from tiledsl.api.graphs.fused import FusedGraph
        from tiledsl.api.pages.audit import audit_program, audited_machine  # costs start-up time
        from tiledsl.backend_cuda.program import CudaProgram
        from tiledsl.ir.text.parser import parse_module

        try:
            audited_machine(self.__name__, arch)
            if self.is_tensor_form:
                graph = self._tensor_form.graph_of(self.parameters.arrange(specs, named))
                return FusedGraph(graph).audit(arch)
            compiled = self._up_to_date().get(target_of(arch), self._spec_keys(specs, named))
            sizes = compiled.sizes_of(self.parameters.arrange(specs, named))
            if isinstance(compiled.program, CudaProgram):
                return audit_program(compiled.program.module.entry, compiled.arch, sizes)
            return audit_program(parse_module(compiled.ir(stage="tiled")).entry, compiled.arch, sizes)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def ir(self, *specs: object, level: str = "tile", stage: str = "", arch: str | None = None, **named: object) -> str:
        """The IR for arguments like `specs`; see `compile` and `CompiledKernel.ir`.

        Of a kernel in tensor form level `graph`, as it was traced, whatever the architecture.
        """
        if level == "graph" and not stage and self.is_tensor_form:
            return self._tensor_form.graph_of(self.parameters.arrange(specs, named)).ir()
        return self.compile(*specs, arch=arch, **named).ir(level, stage=stage)

    @cached_property
    def is_tensor_form(self) -> bool:
        """Whether the kernel is in tensor form: a formula of whole tensors, without `tile.grid`."""
        from tiledsl.frontend.source.kernel_form import mentions_grid

        return not mentions_grid(KernelSource(self.__wrapped__))

    @cached_property
    def _tensor_form(self) -> TensorForm:
        from tiledsl.api.kernels.tensor_form import TensorForm  # costs start-up time

        return TensorForm(self.__wrapped__, self.parameters)

    def explain(self) -> str:
        """Every specialisation with its cause, and what was chosen in each."""
        if self.is_tensor_form:
            return self._tensor_form.explain() or f"{self.__name__}: not compiled yet"
        compiled = list(self._current.compiled.values())
        if not compiled:
            return f"{self.__name__}: not compiled yet"
        launches = [launch for one in self._current.dispatchers.every() for launch in one.launches]
        return "\n\n".join(specialisation.explain(launches) for specialisation in compiled)

    def tune(
        self,
        *args: object,
        seconds: float = 30.0,
        trials: int = 20,
        database: str | Path | None = None,
        listener: Listener | None = None,
        libraries: bool = False,
        **kwargs: object,
    ) -> TuneReport:
        """Measures plans for calls like this one, and keeps what it finds: docs/search.md.

        Plans are run in another process on copies of the arguments, and compared with the reference before they are
        timed; at most `trials` of them beside the model's pick, for about `seconds`. Calls with such arguments then
        take the best one, now and in later processes. `database`: the folder that it is kept in; default: that of
        `tiledsl.tuned`, else of TILEDSL_TUNING, else one in the cache directory. `listener`: is told how it goes on.
        `libraries`: whether calls of cuBLASLt are plans too, on GPUs, where the kernel is one product. Raises TileError
        as a call does, and where there is nothing to measure with.
        """
        from tiledsl.api.calls.tuning import TuneRequest  # costs start-up time
        from tiledsl.api.programs.tune_call import tune_call
        from tiledsl.autotune.searching.search import Silent

        try:
            arguments = self.parameters.arrange(args, kwargs)
            request = TuneRequest(seconds, trials, database, listener or Silent(), libraries=libraries)
            if self.is_tensor_form:
                report = self._tensor_form.tune(arguments, request)
                self._current.plans_changed()
                return report
            code = self._up_to_date()
            report = tune_call(code, self.parameters, arguments, request)
            code.plans_changed()
            return report
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def emulate(
        self,
        *args: object,
        arch: str = "sm_90",
        seed: int | None = _FIRST_SEED,
        out: object = None,
        plan: int | None = None,
        **kwargs: object,
    ) -> Any:
        """Runs the kernel's code for a GPU in the emulator, with no GPU, on CPU memory; gives what it returns.

        Arguments and results are those of a call on the CPU. `seed` picks an order in which threads and copies go on;
        None: threads run in step, which is fast and finds less. `plan`: which of the plans that there are for such
        arrays, from 0 on (default), the one that a launch would take. Raises TileError for what is wrong with the code:
        races, missing fences, deadlocks; and as a call does. Warns (TilePerformanceWarning) of bank conflicts.

        Of a kernel in tensor form each of the kernels that it becomes is run; `plan` then means the last one of those
        that have fewer. If the kernel has a parameter `out` or `seed` (and it is not among `args`), it gets the
        argument of that name. What will take more than about 10 s says so on standard error, and how far it is.
        """
        from tiledsl.api.programs.emulate import Request  # costs start-up time

        names = self.parameters.names
        if out is not None and self._takes_out:
            kwargs["out"], out = out, None
        if seed is not _FIRST_SEED and "seed" in names[len(args) :]:
            kwargs["seed"], seed = seed, _FIRST_SEED
        emulated = self.emulated(args, kwargs, out, Request(arch, 0 if plan is None else plan, seed))
        for warning in emulated.warnings:
            warnings.warn(str(warning).strip(), TilePerformanceWarning, stacklevel=2)
        return emulated.result

    def check(self, *args: object, out: object = None, **kwargs: object) -> CheckReport:
        """Runs the kernel on arrays in CPU memory with a shadow of the memory: op by op, with small blocks.

        Finds races between programs of a grid, reads of what nothing was stored to, subscripts from data that lie
        outside, and results that depend on the sizes of blocks: docs/checking.md. Arguments, `out` and what happens to
        them are those of a call; what the call gives is `.result` of the report. Raises TileError as a call does. If it
        will take more than about 10 s it says so on standard error, and how far it is.
        """
        from tiledsl.api.programs.check_call import check_call  # costs start-up time

        if out is not None and self._takes_out:
            kwargs["out"], out = out, None
        try:
            arguments = self.parameters.arrange(args, kwargs)
            if self.is_tensor_form:
                return self._tensor_form.check(arguments, out)
            return check_call(self._up_to_date(), self.parameters, arguments, out)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def emulated(
        self, args: tuple[object, ...], named: Mapping[str, object], out: object, request: Request
    ) -> Emulated:
        """What `emulate` does, with all that there is to say of it."""
        from tiledsl.api.programs.emulate import emulate_call  # costs start-up time

        try:
            arguments = self.parameters.arrange(args, named)
            if self.is_tensor_form:
                return self._tensor_form.emulated(arguments, out, request)
            return emulate_call(self._up_to_date(), self.parameters, arguments, out, request)
        except TileError as error:
            raise error.with_traceback(None) from error.__cause__  # the user's lines, not the compiler's

    def __repr__(self) -> str:
        return (
            f"<tile.kernel {self.__name__}({', '.join(map(_written, self.parameters.signature.parameters.values()))})>"
        )

    def _repr_html_(self) -> str:
        from tiledsl.api.reports.notebook import folded

        return folded(repr(self), self.explain)

    def __reduce__(self) -> str:
        """Kernels are pickled by name, as functions are."""
        return self.__qualname__

    def _spec_keys(self, specs: tuple[object, ...], named: Mapping[str, object]) -> Keys:
        values = zip(self.parameters.names, self.parameters.arrange(specs, named))
        return tuple(spec_key(name, value, name in self.parameters.constants) for name, value in values)

    def _up_to_date(self) -> Specialisations:
        """The specialisations; new ones if a global, a closure variable or a helper is another one than it was."""
        current = self._current
        other = changed(current.watched)
        if other is None:
            return current
        with self._lock:
            if self._current is current:
                self._current = self._renewed(other)
            return self._current

    def _renewed(self, other: Watched) -> Specialisations:
        cause = f"`{other.name}`, read from outside of the kernel, has changed"
        return Specialisations(KernelSource(self.__wrapped__), self.parameters, cause, self.recompiles)


def _written(parameter: Parameter) -> str:
    """A parameter as people write it: `block: constexpr = 64`."""
    kind: Any = parameter.annotation
    type_ = "" if kind is Parameter.empty else f": {getattr(kind, '__name__', kind)}"
    if getattr(kind, "__module__", "").startswith("tiledsl."):
        type_ = f": tile.{kind.__name__}"
    return f"{parameter.name}{type_}" + ("" if parameter.default is Parameter.empty else f" = {parameter.default!r}")


def kernel(function: Callable[..., Result]) -> Kernel[Result]:
    """Makes a kernel of a function: `@tile.kernel`. Raises TileError for what is not a plain function."""
    return Kernel(function)
