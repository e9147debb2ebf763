"""Calls IR text as a kernel would be called: for tests of what no kernel of the language can say."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from tiledsl.backend_ref.program import ReferenceProgram
from tiledsl.ir.text.parser import parse_module
from tiledsl.runtime.calls.dispatch import Dispatcher, Variant
from tiledsl.runtime.calls.parameters import Parameters
from tiledsl.runtime.calls.specialise import ArgumentKey
from tiledsl.runtime.programs.interface import interface_of
from tiledsl.support.location import BUILTIN


def compiled_text(text: str) -> Callable[..., object]:
    """The entry of a module as a function of arrays and numbers, run by the reference executor."""
    module = parse_module(text)
    interface = interface_of(module.entry)
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(p.name, kinds) for p in interface.parameters])
    parameters = Parameters(interface.name, signature, frozenset(), BUILTIN)
    variant = Variant(interface, ReferenceProgram(module).load())

    def choose(keys: Sequence[ArgumentKey], device: int | None) -> Variant:
        del keys
        return variant

    dispatcher = Dispatcher(parameters, choose, lambda: 1)

    def call(*args: object, out: object = None, **kwargs: object) -> object:
        return dispatcher.call(args, kwargs, out)

    return call
