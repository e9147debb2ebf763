"""The parameters of a kernel, and how the arguments of a call find them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from tiledsl.support.caller import caller_location
from tiledsl.support.errors import Label, make_error
from tiledsl.support.location import Location
from tiledsl.support.suggest import nearest


@dataclass(frozen=True)
class Parameters:
    """A kernel's signature. `constants` are the names of its compile-time parameters."""

    kernel: str
    signature: inspect.Signature
    constants: frozenset[str]
    location: Location

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.signature.parameters)

    def only(self, names: Sequence[str]) -> Parameters:
        """These parameters alone, none of them compile-time constants."""
        kept = [parameter for name, parameter in self.signature.parameters.items() if name in names]
        return Parameters(self.kernel, inspect.Signature(kept), frozenset(), self.location)

    def arrange(self, args: Sequence[object], kwargs: Mapping[str, object]) -> tuple[object, ...]:
        """The arguments in the order of the parameters, defaults filled in. Raises TileTypeError if they do not fit."""
        remaining = dict(kwargs)
        values: list[object] = []
        positional = 0
        for name, parameter in self.signature.parameters.items():
            by_position = parameter.kind is not inspect.Parameter.KEYWORD_ONLY
            by_name = parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
            if by_position and positional < len(args):
                if by_name and name in remaining:
                    self._fail("call-duplicate", parameter=name)
                values.append(args[positional])
                positional += 1
            elif by_name and name in remaining:
                values.append(remaining.pop(name))
            elif parameter.default is not inspect.Parameter.empty:
                values.append(parameter.default)
            else:
                self._refuse_unknown(remaining)
                self._fail("call-missing", parameter=name)
        self._refuse_unknown(remaining)
        if positional < len(args):
            self._fail("call-extra", most=positional, given=len(args))
        return tuple(values)

    def _refuse_unknown(self, named: Mapping[str, object]) -> None:
        """Raises TileTypeError for an argument of a name that no parameter has."""
        for unknown in named:
            if unknown not in self.names:
                close = nearest(unknown, [*self.names, "out"])
                self._fail("call-unknown", parameter=unknown, hint=f"did you mean `{close}=`? " if close else "")

    def _fail(self, code: str, **names: str | int) -> NoReturn:
        """Raises the error at the call, with the definition as a second place."""
        label = Label(self.location, f"`{self.kernel}` is defined here")
        plain = [p.replace(annotation=inspect.Parameter.empty) for p in self.signature.parameters.values()]
        error = make_error(
            code,
            caller_location(),
            labels=[label],
            notes=(),
            kernel=self.kernel,
            signature=inspect.Signature(plain),
            **names,
        )
        raise error
