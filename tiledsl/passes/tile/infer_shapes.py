"""Puts known sizes in place of symbols, and infers all shapes anew.

infer-shapes{M=64,K=N}:

    func @f(%a: tensor<f32, [M, K]>) {               func @f(%a: tensor<f32, [64, N]>) {
      %x = tile.load(%a, [:, :]) : tile<f32, [M, K]>   =>   %x = tile.load(%a, [:, :]) : tile<f32, [64, N]>

Before: any TILE form. After: the same form; none of the given symbols is left, every result has the shape that its op
implies, and the facts that have become evident are gone. Callers have to see to it that the arrays have those sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tiledsl.ir.core import Function, Module, Op, Value
from tiledsl.ir.substitute import substitute_symbols
from tiledsl.ir.symbolic import Dim, substitute, symbol_name, symbols_of
from tiledsl.ir.types import AxisType, TensorType, TileType, format_shape
from tiledsl.ir.verifier import Form
from tiledsl.passes.manager import PassContext
from tiledsl.support.errors import fail
from tiledsl.support.location import Location
from tiledsl.support.suggest import suggest


@dataclass(frozen=True)
class InferShapes:
    """`sizes` pairs names of symbols with what they are: a number, or another size. Raises TileShapeError for names
    that no function has, and for sizes that contradict its facts or make others negative.
    """

    name: ClassVar[str] = "infer-shapes"
    requires: ClassVar[Form] = Form.TILE
    gives: ClassVar[Form] = Form.TILE
    sizes: tuple[tuple[str, Dim], ...] = ()

    def run(self, module: Module, context: PassContext) -> Module:
        known = _resolve(self.sizes)
        for name, _ in self.sizes:
            if not any(name in _size_names(function) for function in module.functions):
                hint = suggest(name, _size_names(module.entry), "its sizes: " + ", ".join(_size_names(module.entry)))
                fail("pass-size-unknown", module.entry.location, function=module.entry.name, size=name, hint=hint)
        for function in module.functions:
            _check_facts(function, known)
            substitute_symbols(function, known)
            for parameter in function.parameters:
                _check_sizes(parameter, function.location, known)
            for op in function.walk():
                _infer(op, known)
        return module


def _resolve(sizes: tuple[tuple[str, Dim], ...]) -> dict[str, Dim]:
    """Each name by what it is in the end: M=N,N=64 makes both 64."""
    known: dict[str, Dim] = {}
    for name, size in sizes:
        size = substitute(size, known)
        if symbol_name(size) == name:
            continue  # M=N,N=M says nothing new
        known = {other: substitute(dim, {name: size}) for other, dim in known.items()}
        known[name] = size
    return known


def _size_names(function: Function) -> list[str]:
    """The symbols of the parameters' shapes, in order."""
    shapes = [p.type.shape for p in function.parameters if isinstance(p.type, TensorType)]
    return list(dict.fromkeys(name for shape in shapes for dim in shape for name in sorted(symbols_of(dim))))


def _check_facts(function: Function, known: Mapping[str, Dim]) -> None:
    for fact in function.facts:
        value = substitute(fact.dim, known)
        if isinstance(value, int) and value % fact.divisor != 0:
            fail(
                "pass-size-contradiction",
                function.location,
                function=function.name,
                fact=fact,
                size=fact.dim,
                value=value,
                divisor=fact.divisor,
            )


def _infer(op: Op, known: Mapping[str, Dim]) -> None:
    for result, type_ in zip(op.results, op.infer_types()):
        level = result.type.level if isinstance(result.type, TileType) else None
        result.type = TileType(type_.dtype, type_.shape, level) if isinstance(type_, TileType) else type_
        _check_sizes(result, op.location, known)


def _check_sizes(value: Value, location: Location, known: Mapping[str, Dim]) -> None:
    shape = () if isinstance(value.type, AxisType) else value.type.shape
    negative = [dim for dim in shape if isinstance(dim, int) and dim < 0]
    if negative:
        sizes = ", ".join(f"{name} = {dim}" for name, dim in known.items())
        name = f"%{value.name}" if value.name else "a value"
        fail("pass-size-negative", location, sizes=sizes, value=name, shape=format_shape(shape))
