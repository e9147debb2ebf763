"""The operators that are known: one function for each operator and range of opsets.

A function takes the inputs of a node in order, tensors of the formula under way or None where one is left out, and the
attributes as keywords; it gives the outputs. So it is a formula like any other:

    @operator("Elu", since=6)
    def elu(x, *, alpha=1.0):
        return ops.elu(x, alpha)

Inputs that are named in `known` come as NumPy arrays: sizes depend on their values. A parameter `node` gets the `Call`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operator:
    """What an operator means from opset `since` on, until the next entry."""

    name: str
    domain: str
    since: int
    run: Callable[..., Any]
    known: frozenset[str]
    kind: str
    """`formula`; `host`: NumPy arrays in, a list of arrays out; `values`: works with values of the walk themselves, and
    may give NotImplemented for what ONNX's own definition is to do."""
    inputs: tuple[str, ...]
    required: int
    """How many inputs have to be there."""
    spread: bool
    """Whether there may be more inputs than names."""
    attributes: frozenset[str]
    needed: tuple[str, ...]
    """Attributes that have to be there."""
    takes_node: bool

    @property
    def title(self) -> str:
        """The operator with its domain, unless that is ONNX's own."""
        return f"{self.domain}.{self.name}" if self.domain else self.name


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
"""The entries of each operator by domain and name, the newest last."""


def operator(
    *names: str, since: int = 1, known: Iterable[str] = (), domain: str = "", kind: str = "formula"
) -> Callable[[F], F]:
    """Registers a function for some operators."""

    def register(fn: F) -> F:
        parameters = inspect.signature(fn).parameters.values()
        inputs = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        keywords = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        needed = tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty)
        for name in names:
            entry = Operator(
                name, domain, since, fn, frozenset(known), kind, tuple(p.name for p in inputs),
                sum(p.default is p.empty for p in inputs), any(p.kind is p.VAR_POSITIONAL for p in parameters),
                keywords - {"node"}, tuple(name for name in needed if name != "node"), "node" in keywords,
            )  # fmt: skip
            entries = OPERATORS.setdefault((domain, name), [])
            assert all(e.since != since for e in entries), f"{name} of opset {since} is registered twice"
            entries.append(entry)
            entries.sort(key=lambda e: e.since)
        return fn

    return register


def find(domain: str, name: str, version: int) -> Operator | None:
    """The meaning of an operator in an opset; None if it is not known there."""
    entries = [entry for entry in OPERATORS.get((domain, name), []) if entry.since <= version]
    return entries[-1] if entries else None
