"""Structural equality of modules."""

from __future__ import annotations

from tiledsl.ir.core import Module


def same_module(a: Module, b: Module, *, locations: bool = True) -> bool:
    """Whether two modules are the same but for the names of values, and for locations unless they are asked for."""
    return a.structure(locations=locations) == b.structure(locations=locations)
