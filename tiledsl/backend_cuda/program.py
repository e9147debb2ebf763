"""A specialisation on NVIDIA GPUs: its TILE module, and a variant of code for each plan that calls have asked for.

The sizes and alignments of a call choose a plan (`passes/gpu/plans/choose_plans.py`); calls with one plan share code.
Variants are kept in memory, loaded once per device, and on disk beside the specialisation.
"""

from __future__ import annotations

import json
import re
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tiledsl.backend_cuda.build.nvrtc import nvrtc_identity
from tiledsl.backend_cuda.build.stored_variant import variant_from_json, variant_to_json
from tiledsl.backend_cuda.build.variant import Variant
from tiledsl.backend_cuda.chosen_plans import read_or_choose
from tiledsl.backend_cuda.frame.overlap_kernels import CAPABILITY
from tiledsl.backend_cuda.library.library import mark, why_no_library
from tiledsl.backend_cuda.measured_plans import Choice, read_or_ask
from tiledsl.backend_cuda.planned_program import PlannedProgram
from tiledsl.ir.core import Module, Value
from tiledsl.ir.text.printer import print_module
from tiledsl.ir.tile_ops import Empty
from tiledsl.ir.types import TensorType
from tiledsl.passes.gpu.plan import Plan, parse_plan, why_no_plan
from tiledsl.passes.gpu.plans.choose_plans import choose_plans
from tiledsl.passes.gpu.plans.describe_plan import plan_differences
from tiledsl.passes.gpu.plans.plans_on_demand import PlansOnDemand
from tiledsl.passes.gpu_machine import architecture_of, gpu_machine
from tiledsl.runtime.programs.alignment import default_lying, row_alignment
from tiledsl.runtime.programs.artifact import Note
from tiledsl.runtime.programs.cache import DiskCache, compiler_identity, digest, disk_cache
from tiledsl.runtime.programs.plan_source import Answer, PlanQuestion, PlansFor, PlanSource, sizes_in_order
from tiledsl.runtime.programs.variant_report import ProgramReport, VariantMade
from tiledsl.support.errors import TileResourceError
from tiledsl.support.location import Location
from tiledsl.support.options import LOG, read_options

if TYPE_CHECKING:
    from tiledsl.backend_cuda.driver.loaded import BoundKernels, LoadedKernels
    from tiledsl.backend_cuda.library.library_kernels import BoundLibrary

_MAGIC = b"tiledsl for CUDA\n"
_LENGTH = struct.Struct("<Q")
_NAME = re.compile(r"%[\w.]+")
"""Of a value. Names of sizes and blocks, which plans speak of, are written without a sign."""
_OWN_NAME = re.compile(r"\b[A-Za-z]\w*_\b")
"""In CUDA C, of what is named after the user's names: it ends with a stroke, and nothing else does."""
_COMMENT = re.compile(r"//[^\n]*")
"""What says where in the user's program code is from: lines of its own, and there may be none."""


class _Known:
    """The variants of a program, and who wants to be told of new ones."""

    def __init__(self) -> None:
        self.variants: dict[Plan, Variant] = {}
        self.listeners: list[Callable[[VariantMade], None]] = []
        self.lock = threading.Lock()


@dataclass(frozen=True)
class _Stored:
    """A module as text, and of its function what messages say."""

    text: str
    name: str
    location: Location
    identity: str

    @cached_property
    def module(self) -> Module:
        from tiledsl.ir.text.parser import parse_module  # 0.02 s, which a compilation need not pay

        return parse_module(self.text)


class CudaProgram:
    """Compiled for one architecture. `module` is in form `tile-placed`; its sizes may be symbols.

    `sizes`: those that people who ask for the default variant have in mind. A module from the disk (`_Stored`) is read
    when a plan has to be chosen for it, or code to be made.
    """

    def __init__(self, module: Module | _Stored, arch: str, sizes: Mapping[str, int] | None = None) -> None:
        self._module = module
        self.arch = arch
        self.sizes = dict(sizes or {})
        self._known = _Known()

    @property
    def module(self) -> Module:
        """What is compiled."""
        return self._module.module if isinstance(self._module, _Stored) else self._module

    @property
    def name(self) -> str:
        """Of its function."""
        return self._module.name if isinstance(self._module, _Stored) else self._module.entry.name

    @property
    def location(self) -> Location:
        """Of its function in the user's program."""
        return self._module.location if isinstance(self._module, _Stored) else self._module.entry.location

    @property
    def variants(self) -> Mapping[Plan, Variant]:
        """Every variant so far, by the plan that was asked for."""
        return self._known.variants

    def default_variant(self) -> Variant:
        """The code for `sizes`, and a guess for those that are not among them; for arrays aligned as well as rows of
        these sizes allow."""
        return self.variant(self._default_plans)

    def with_sizes(self, sizes: Mapping[str, int]) -> CudaProgram:
        """The same program, with other sizes in mind."""
        other = CudaProgram(self._module, self.arch, sizes)
        other._known = self._known
        return other

    def planned(
        self,
        sizes: Mapping[str, int],
        alignment: Sequence[int],
        lying: Sequence[int] = (),
        /,
        *,
        chained: bool,
        plans: PlansFor | None = None,
    ) -> PlannedProgram:
        """The code for these sizes and alignments as a program; compiled now if nobody has. `chained`: as one of a
        chain of others. `plans`: asked for a plan before the model is."""
        chained = chained and gpu_machine(self.arch).capability >= CAPABILITY
        call = sizes, alignment, lying
        choice = Choice() if plans is None else self._asked(plans, call, chained)
        if choice.plan is not None:
            variant = self.variant([choice.plan])
            instead = None if variant.product is None else self.picked(*call, chained=chained)
            return PlannedProgram(self.name, self.location, variant, choice.origin, instead)
        return PlannedProgram(self.name, self.location, self.picked(*call, chained=chained), choice.origin)

    def picked(
        self, sizes: Mapping[str, int], alignment: Sequence[int], lying: Sequence[int], *, chained: bool = False
    ) -> Variant:
        """The code for a call by the plan of the model; compiled now if nobody has."""
        choose = partial(self.plans, sizes, alignment, lying)
        plans = read_or_choose(_disk(), self.text, self.arch, (sizes, alignment, lying), choose)
        return self.variant(plans.chained(chained))

    def _asked(
        self, plans: PlansFor, call: tuple[Mapping[str, int], Sequence[int], Sequence[int]], chained: bool
    ) -> Choice:
        """What a source has for a call, now or when it was asked before."""

        def ask() -> Choice:
            return self.choice(plans.source, self.question(*call, plans.device), chained)

        found = read_or_ask(_disk(), [self.arch, str(chained), mark(), self.text], call, plans, ask)
        if found.origin:
            LOG.info("plan of %s: %s", self.name, found.origin)
        return found

    def plans(self, sizes: Mapping[str, int], alignment: Sequence[int], lying: Sequence[int]) -> PlansOnDemand:
        """The plans that the model has for a call, the best first."""
        return choose_plans(self.module.entry, gpu_machine(self.arch), sizes, alignment, lying)

    def question(
        self, sizes: Mapping[str, int], alignment: Sequence[int], lying: Sequence[int], device: str = ""
    ) -> PlanQuestion:
        """What a source of plans is asked for a call. `device`: where it is made, in words."""
        return PlanQuestion(
            self.identity, architecture_of(self.arch), device, sizes_in_order(sizes), alignment=tuple(alignment),
            lying=tuple(lying),
        )  # fmt: skip

    def tuned(self, source: PlanSource, question: PlanQuestion, chained: bool = False) -> Variant | None:
        """The code by the plan that a source has; None where it has none, or one that is no plan for the question."""
        plan = self.choice(source, question, chained).plan
        return None if plan is None else self.variant([plan])

    def choice(self, source: PlanSource, question: PlanQuestion, chained: bool = False) -> Choice:
        """The plan that a source has, if it is one for the question, and makes the code that was measured. Compiles
        it."""
        answer = source.plan_for(question)
        if answer is None:
            return Choice()
        absent: str | None = None
        try:
            plan = parse_plan(answer.plan)
            reason = why_no_plan(plan, dict(question.sizes), question.alignment)
            if reason is None and plan.library is not None:
                reason = absent = why_no_library(plan.library.version)
            if reason is None and answer.code and not self._makes(plan, answer.code, chained):
                reason = "its code is another one than that which was measured"
            if reason is None:
                plan = replace(plan, chained=chained and plan.library is None)
                self.variant([plan])
                return Choice(plan, answer.origin)
        except ValueError as error:
            reason = str(error)
        except TileResourceError as error:
            reason = error.message
        source.refused(question, answer, reason, expected=absent is not None)
        return Choice(None, f"the model's; the plan ({answer.plan}), {answer.origin}, is not used: {reason}")

    def _makes(self, plan: Plan, code: str, chained: bool) -> bool:
        """Whether a plan makes the code of a digest. Plans are measured by themselves: where one is of a `chained`
        launch, the code that it would make by itself is written, and not compiled."""
        if not chained or plan.library is not None:
            return code_digest(self.variant([plan])) == code
        from tiledsl.backend_cuda.build.compile import sources_by  # costs start-up time

        return code in map(digest_of_source, sources_by(self.module, self.arch, plan))

    def watch(self, listener: Callable[[VariantMade], None]) -> None:
        """Has every further variant told to `listener`."""
        self._known.listeners.append(listener)

    def report(self) -> ProgramReport:
        """What there is to know of the program and its variants."""
        from tiledsl.backend_cuda.build.report_variant import report_variant  # costs start-up time
        from tiledsl.passes.analysis.least_traffic import least_traffic
        from tiledsl.passes.gpu.plans.refused_plans import refused_plans

        machine, traffic = gpu_machine(self.arch), least_traffic(self.module.entry)
        first = self._default_plans[0]
        variants = sorted(self.variants.items(), key=lambda pair: pair[0] != first)  # the others stay in order
        return ProgramReport(
            sizes=self.sizes,
            read_bytes=traffic.read,
            written_bytes=traffic.written,
            partly=traffic.partly,
            bytes_per_second=machine.memory_bytes_per_second,
            variants=tuple(report_variant(variant, machine, self._tensors) for _, variant in variants),
            has_default=first in self.variants,
            refused=tuple(
                Note("plans", one.location.file, one.location.line, one.reason)
                for one in refused_plans(self.module.entry, machine, self.sizes, self._default_alignment)
            ),
        )

    @cached_property
    def _values(self) -> list[Value]:
        """The tensors, parameters first."""
        function = self.module.entry
        made = [op.result for op in function.body.ops if isinstance(op, Empty)]
        return [value for value in (*function.parameters, *made) if isinstance(value.type, TensorType)]

    @cached_property
    def _tensors(self) -> list[str]:
        """Their names."""
        return [value.name for value in self._values]

    @cached_property
    def _default_plans(self) -> PlansOnDemand:
        types = [value.type for value in self._values]
        lying = [default_lying(type_) for type_ in types if isinstance(type_, TensorType)]
        return self.plans(self.sizes, self._default_alignment, lying)

    @cached_property
    def _default_alignment(self) -> list[int]:
        """Of arrays that begin at multiples of 16 bytes, and whose rows lie one after the other."""
        types = [value.type for value in self._values]
        return [row_alignment(type_, self.sizes) for type_ in types if isinstance(type_, TensorType)]

    @cached_property
    def identity(self) -> str:
        """A digest of the TILE module, wherever it stands in files, and whatever its function and values are called."""
        if isinstance(self._module, _Stored):
            return self._module.identity
        text = print_module(self.module).replace(f"func @{self.module.entry.name}(", "func @kernel(")
        return digest([_numbered(_NAME, text)])

    @cached_property
    def text(self) -> str:
        """The TILE module, with locations."""
        if isinstance(self._module, _Stored):
            return self._module.text
        return print_module(self._module, locations=True)

    def to_bytes(self) -> bytes:
        """Everything in one piece, for the disk; variants stand there by themselves."""
        places = [[p.file, p.line, p.column, p.end_line, p.end_column] for p in self.location.chain()]
        described = {"module": self.text, "arch": self.arch, "name": self.name, "places": places}
        described["identity"] = self.identity
        return _MAGIC + json.dumps(described).encode()

    @staticmethod
    def from_bytes(data: bytes) -> CudaProgram:
        """The inverse of `to_bytes`. ValueError if the data is something else."""
        if not data.startswith(_MAGIC):
            raise ValueError("not a compiled program")
        described: dict[str, Any] = json.loads(data[len(_MAGIC) :])
        location: Location | None = None
        for place in reversed(described["places"]):
            location = Location(*place, caller=location)
        if location is None:
            raise ValueError("a compiled program without a place")
        stored = _Stored(described["module"], described["name"], location, described["identity"])
        return CudaProgram(stored, described["arch"])

    def load(self) -> LoadedCudaProgram:
        """For calls in this process. Code goes to a device when it is first asked for there."""
        return LoadedCudaProgram(self)

    def load_with(self, plans: PlanSource) -> LoadedCudaProgram:
        """The same; the plans are those that `plans` has for a call, if it has any."""
        return LoadedCudaProgram(self, plans)

    def variant(self, plans: Sequence[Plan]) -> Variant:
        """The variant for the best of the plans: known, from the disk, or compiled now."""
        known = self._known
        found = known.variants.get(plans[0])
        if found is None:
            with known.lock:
                found = known.variants.get(plans[0])
                if found is None:
                    found = self._find(plans)
        return found

    def _find(self, plans: Sequence[Plan]) -> Variant:
        started = time.perf_counter()
        cause = self._cause(plans[0])
        variant, from_disk = self._load_or_compile(plans)
        self._known.variants[plans[0]] = variant
        made = VariantMade(str(variant.plan), cause, time.perf_counter() - started, from_disk)
        for listener in self._known.listeners:
            listener(made)
        return variant

    def _cause(self, plan: Plan) -> str:
        """Why there is no code for a plan yet: what is different in the nearest one that there is."""
        if not self.variants:
            return "first sizes"
        differences = [plan_differences(known, plan, self._tensors) for known in self.variants]
        return "; ".join(min(differences, key=len))

    def _load_or_compile(self, plans: Sequence[Plan]) -> tuple[Variant, bool]:
        """The variant, and whether the disk had it."""
        if plans[0].library is not None:
            from tiledsl.backend_cuda.library.library_variant import library_variant  # costs start-up time

            return library_variant(self.module, self.arch, plans[0]), False
        disk = _disk()
        entry = digest([compiler_identity(), nvrtc_identity(), self.arch, self.text, repr(plans[0])])
        stored = None if disk is None else disk.get(entry)
        if disk is not None and stored is not None:
            try:
                return _from_disk(stored), True
            except (ValueError, KeyError, TypeError, struct.error):
                LOG.warning("a stored variant of %s cannot be read; it is made anew", self.name)
                disk.drop(entry)
        from tiledsl.backend_cuda.build.compile import compile_variant  # costs start-up time, and the disk may have it

        variant = compile_variant(self.module, self.arch, plans)
        if disk is not None:
            text = json.dumps(variant_to_json(variant)).encode()
            disk.put(entry, _LENGTH.pack(len(text)) + text + variant.cubin)
        return variant, False


def code_digest(variant: Variant) -> str:
    """Of the CUDA C of a variant, which with the compiler of CUDA C decides on machine code: without comments, which
    name the user's lines, and whatever kernels and values are called."""
    return digest_of_source(variant.source)


def digest_of_source(source: str) -> str:
    """The same of CUDA C."""
    lines = [line.strip() for line in _COMMENT.sub("", source).splitlines()]
    return digest([_numbered(_OWN_NAME, "\n".join(line for line in lines if line))])


def _numbered(name: re.Pattern[str], text: str) -> str:
    """A text whose names are numbers, in the order of their first places."""
    numbers: dict[str, str] = {}
    return name.sub(lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), text)


def _from_disk(stored: bytes) -> Variant:
    (length,) = _LENGTH.unpack_from(stored)
    end = _LENGTH.size + length
    return variant_from_json(json.loads(stored[_LENGTH.size : end]), stored[end:])


@dataclass(frozen=True)
class BoundDescription:
    """The sizes of a call, and the plan of the code for them."""

    sizes: Mapping[str, int]
    plan: str

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        return f"{sizes}: {self.plan}" if sizes else self.plan


class LoadedCudaProgram:
    """A program in this process: `bind_cuda` it to sizes, then call it."""

    def __init__(self, program: CudaProgram, plans: PlanSource | None = None) -> None:
        self.program = program
        self.plans = plans
        self._loaded: dict[tuple[Plan, int], LoadedKernels] = {}
        self._lock = threading.Lock()

    def bind_cuda(
        self,
        symbols: Mapping[str, int],
        strides: Sequence[tuple[int, ...]],
        alignment: tuple[int, ...],
        device: int,
        lying: tuple[int, ...] = (),
    ) -> BoundKernels | BoundLibrary:
        """Chooses a plan for those sizes and alignments, compiles it if nobody has, and loads it on the device."""
        from tiledsl.backend_cuda.driver.devices import describe_device  # the driver: not for those who only compile
        from tiledsl.backend_cuda.driver.loaded import LoadedKernels

        program = self.program
        variant = None
        if self.plans is not None:
            question = program.question(symbols, alignment, lying, describe_device(device))
            variant = program.tuned(self.plans, question)
            if variant is not None and variant.product is not None:
                from tiledsl.backend_cuda.library.library_kernels import bound_library

                described = BoundDescription(symbols, str(variant.plan))
                named = program.name, program.location
                bound = bound_library(variant.product, variant.plan.library, strides, device, named, described)
                if not isinstance(bound, str):
                    return bound
                self.plans.refused(question, Answer(str(variant.plan)), bound, expected=True)
                variant = None
        if variant is None:
            variant = program.variant(program.plans(symbols, alignment, lying))
        with self._lock:
            loaded = self._loaded.get((variant.plan, device))
            if loaded is None:
                loaded = LoadedKernels(
                    variant.cubin, variant.program, device,
                    name=program.name, arch=program.arch, location=program.location,
                )  # fmt: skip
                self._loaded[variant.plan, device] = loaded
        return loaded.bind(symbols, strides, BoundDescription(symbols, str(variant.plan)))


def _disk() -> DiskCache | None:
    options = read_options()
    return None if options.cache_directory is None else disk_cache(options.cache_directory, options.cache_bytes)
