"""What tracing gives: a GRAPH module, what its parameters stand for, and how arguments and results are put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiledsl.frontend.trace.structures import Sequenced, Static, Structure
from tiledsl.ir.core import Module
from tiledsl.ir.text.printer import print_module


@dataclass(frozen=True)
class TracedGraph:
    """A formula of whole tensors, written down.

    `inputs` are the parameters of the module's entry that are given at each call, in order; `constants` the arrays
    that were read from outside, by the parameter that each became. `arguments` has the structure of each argument of
    the formula by its name, and `result` that of what it returns.
    """

    module: Module
    inputs: tuple[str, ...]
    constants: Mapping[str, object]
    arguments: Mapping[str, Structure]
    result: Structure

    @property
    def name(self) -> str:
        """The formula's name."""
        return self.module.entry.name

    @property
    def tensor_arguments(self) -> dict[str, Structure]:
        """The arguments that hold arrays: those of a call. Static ones are part of the graph."""
        return {name: s for name, s in self.arguments.items() if not _is_static(s)}

    @property
    def statics(self) -> str:
        """The static arguments as text: `causal=True, heads=12`."""
        return ", ".join(f"{name}={s.value!r}" for name, s in self.arguments.items() if isinstance(s, Static))

    def ir(self, *, locations: bool = False) -> str:
        """The IR text, with `loc(...)` for each op if `locations`."""
        return print_module(self.module, locations=locations)

    def __repr__(self) -> str:
        entry = self.module.entry
        types = {p.name: p.type for p in entry.parameters}
        inputs = ", ".join(f"{name}: {types[name]}" for name in self.inputs)
        ops = len(entry.body.ops) - 1
        extra = f", {len(self.constants)} weights" if self.constants else ""
        return f"<graph {self.name}({inputs}): {ops} ops{extra}>"


def _is_static(structure: Structure) -> bool:
    match structure:
        case Static():
            return True
        case Sequenced(_, items):
            return all(map(_is_static, items))
        case _:
            return False
