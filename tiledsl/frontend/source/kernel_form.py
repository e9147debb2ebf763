"""Which of the two forms a kernel has: tile form has a loop over `tile.grid`, tensor form is a formula of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

from tiledsl.frontend.language import program as language
from tiledsl.frontend.source.kernel_source import KernelSource


def mentions_grid(source: KernelSource) -> bool:
    """Whether the code mentions `tile.grid`, under any name. Its source text is not needed."""
    code = source.function.__code__
    names = set(_names_in(code))
    for name in (*names, *code.co_varnames, *code.co_cellvars):  # a local may bear the name of the language
        _, found = source.lookup(name)
        if found is language.grid:
            return True
        if "grid" in names and getattr(found, "grid", None) is language.grid:
            return True
    return False


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
