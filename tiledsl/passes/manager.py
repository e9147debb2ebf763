"""Runs passes one after the other, with a check of the module's form between them.

    manager = PassManager([Canonicalise(), PlaceLevels()])
    placed = manager.run(module, PassContext())

A pass is a frozen dataclass: its fields are its options, `name` is what it is called in text, `requires` and `gives`
are the forms of the module before and after it. A pass that cannot do its work leaves the module as it is and says
why in a remark; only a contract of the user's that cannot be kept is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from tiledsl.ir.core import Function, Module
from tiledsl.ir.tile_ops import Grid, Range
from tiledsl.ir.types import BlockSize, TileType
from tiledsl.ir.verifier import Form, verify
from tiledsl.passes.machine import CpuMachine, host
from tiledsl.support.errors import TileError, fail
from tiledsl.support.location import Location

TILE_FORMS = (Form.TILE, Form.TILE_PLACED, Form.TILE_TILED)
"""Each of these holds wherever a later one does."""
FORMS = (Form.GRAPH, *TILE_FORMS, Form.GPU)
"""In the order of lowering. A GPU module is no TILE module any more, and a TILE module no graph."""
APART = (Form.GRAPH, Form.GPU)
"""Forms that hold nowhere else."""


def stronger(a: Form, b: Form) -> Form:
    """The one of two forms that is further down."""
    return max(a, b, key=FORMS.index)


def holds(required: Form, form: Form) -> bool:
    """Whether a module in `form` is in `required` too."""
    if required in APART or form in APART:
        return required is form
    return stronger(form, required) is form


@dataclass(frozen=True)
class Remark:
    """What a pass has to say about the program, for `explain()`."""

    pass_name: str
    location: Location
    text: str

    def __str__(self) -> str:
        return f"{self.location}: {self.pass_name}: {self.text}"


@dataclass
class PassContext:
    """What passes know besides the module, and what they found out about it."""

    machine: CpuMachine = field(default_factory=host)
    remarks: list[Remark] = field(default_factory=list[Remark])
    printed: list[str] = field(default_factory=list[str])
    """Lines that passes were asked to print."""
    groupings: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """What was measured of kernels that may be one, by the key of the tie: whether they are to be."""

    def remark(self, pass_name: str, location: Location, text: str) -> None:
        """Notes something for `explain()`."""
        self.remarks.append(Remark(pass_name, location, text))


class Pass(Protocol):
    """What every pass has. The pass owns the module that it is given: it may change it, and returns what it became."""

    name: ClassVar[str]
    """What the pass is called in text: `infer-tiling`."""
    requires: ClassVar[Form]
    """The weakest form that the pass can work on."""
    gives: ClassVar[Form]
    """The form that it leads to. A module that has a stronger one keeps it."""

    def run(self, module: Module, context: PassContext) -> Module:
        """Does the work."""
        ...


@dataclass(frozen=True)
class PassManager:
    """Passes in order. `dump` is given the module as it comes in, under the name `input`, and after every pass.

    `verify`: whether the module's form is checked. With `between` it is after every pass, as tests of passes want it;
    without, once, after the last one: what is illegal then is checked pass by pass, to name the one that made it so.
    """

    passes: Sequence[Pass]
    verify: bool = True
    between: bool = True
    dump: Callable[[str, Module], None] | None = None

    def run(self, module: Module, context: PassContext | None = None) -> Module:
        """The module after all passes; the one given stays as it is.

        Raises TileError for a module that is not legal, for a pass that needs a stronger form than it would find, and
        for contracts that a pass cannot keep.
        """
        context = context or PassContext()
        form = form_of(module)
        if self.verify:
            verify(module, form if form in APART else Form.TILE)
        self._check_order(module, form)
        if not self.verify or self.between:
            return self._run(module, form, context)
        try:
            return self._run(module, form, context)
        except TileError:
            raise
        except Exception:
            # a bug of a pass: the first one that leaves an illegal module is told, if there is one
            again = PassContext(context.machine, groupings=context.groupings)
            replace(self, between=True, dump=None)._run(module, form, again)
            raise

    def _run(self, module: Module, form: Form, context: PassContext) -> Module:
        module = module.clone()
        self._dump("input", module)
        for place, step in enumerate(self.passes):
            module = step.run(module, context)
            form = stronger(form, step.gives)
            self._dump(step.name, module)
            if self.verify and (self.between or place == len(self.passes) - 1):
                _verify_after(step, module, form)
        return module

    def _check_order(self, module: Module, form: Form) -> None:
        for step in self.passes:
            if not holds(step.requires, form):
                location = module.entry.location if module.functions else None
                fix = _HOW_TO_REACH[step.requires] if form is not Form.GPU else "run it before the module is lowered"
                fail("pass-form", location, name=step.name, form=form.value, requires=step.requires.value, how=fix)
            form = stronger(form, step.gives)

    def _dump(self, name: str, module: Module) -> None:
        if self.dump is not None:
            self.dump(name, module)


_HOW_TO_REACH = {
    Form.TILE: "start from a module of TILE ops",
    Form.TILE_PLACED: "run `place-levels` before it",
    Form.TILE_TILED: "run `place-levels,infer-tiling` before it",
    Form.GPU: "lower the module for a GPU before it",
    Form.GRAPH: "start from a module of GRAPH ops",
}


def _verify_after(step: Pass, module: Module, form: Form) -> None:
    try:
        verify(module, form)
    except TileError as error:
        # The user's module was legal: this is a bug of the pass, not of the user's.
        raise AssertionError(f"the pass {step.name} made an illegal module:{error}") from error


def form_of(module: Module) -> Form:
    """The form that a module's ops, levels and blocks speak of, the strongest one. It is not verified."""
    if module.functions and _is_graph(module.entry):
        return Form.GRAPH
    tiles_are_placed = blocks_are_chosen = True
    for op in module.walk():
        if op.name.startswith("gpu."):
            return Form.GPU
        arguments = [argument for body in op.bodies.values() for argument in body.arguments]
        for value in (*op.results, *arguments):
            if isinstance(value.type, TileType) and value.type.shape and value.type.level is None:
                tiles_are_placed = False
        if isinstance(op, (Grid, Range)) and BlockSize.auto() in op.blocks:
            blocks_are_chosen = False
    if not tiles_are_placed:
        return Form.TILE
    return Form.TILE_TILED if blocks_are_chosen else Form.TILE_PLACED


def _is_graph(function: Function) -> bool:
    last = function.body.terminator
    return last is not None and last.name.startswith("graph.")
