"""Reads layouts from the text that their `str` writes: `local(2, 1) * spatial(8, 4)`, `rows(0, 1, padding=8)`."""

from __future__ import annotations

import re
from functools import lru_cache

from tiledsl.ir.layouts.buffer_layout import Layout, SharedLayout, Swizzle
from tiledsl.ir.layouts.layout import Digit, RegisterLayout, local, replicate, spatial
from tiledsl.support.suggest import suggest

_FACTOR = re.compile(r"\s*([^\W\d]\w*)\s*\(([\w\s,=/]*(?:\([\w\s,=]*\)[\w\s,=]*)*)\)\s*")
_INTEGER = re.compile(r"\d{1,9}")
_NAMED = re.compile(r"(\w+)\s*=\s*(\w+|\([\w\s,]*\))")
_FACTORS = ("local", "spatial", "replicate")


class LayoutTextError(ValueError):
    """What of a text is no layout, and what to write instead."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        self.fix = fix


@lru_cache(maxsize=4096)
def parse_layout(text: str, rank: int | None = None) -> Layout:
    """The register or shared layout that `text` writes out. Raises LayoutTextError.

    `rank` is that of the tile. It is needed only where every factor is a `replicate`, which does not tell it.
    """
    factors = _factors(text)
    name, arguments = factors[0]
    if name == "rows":
        if len(factors) > 1:
            raise LayoutTextError("a layout of shared memory has no factors", "write `rows(...)` alone")
        return _shared(arguments)
    ranks = {len(_sizes(words)) for word, words in factors if word != "replicate"}
    if not ranks and rank is not None:
        ranks.add(rank)
    if len(ranks) != 1:
        problem = "factors of different ranks" if ranks else "`replicate` does not tell the rank"
        raise LayoutTextError(
            problem, "give every factor one size per axis of the tile, as `local(2, 1) * spatial(8, 4)`"
        )
    (own_rank,) = ranks
    product = local(*(1,) * own_rank)
    for word, words in reversed(factors):
        product = _times(word, words, product)
    return product


def _factors(text: str) -> list[tuple[str, str]]:
    """The name and the arguments of each factor."""
    found: list[tuple[str, str]] = []
    at = 0
    while True:
        match = _FACTOR.match(text, at)
        if match is None:
            raise LayoutTextError(f"`{text[at:].strip()}` is no factor", "write such as `local(2, 1) * spatial(8, 4)`")
        found.append((match[1], match[2]))
        at = match.end()
        if at == len(text):
            return found
        if text[at] != "*":
            raise LayoutTextError(f"`*` is missing before `{text[at:]}`", "write such as `local(2, 1) * spatial(8, 4)`")
        at += 1


_STEP = re.compile(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*")


def _sizes(arguments: str) -> list[tuple[int, int]]:
    """`16/4, 8`: each size, and how far apart overlapping runs begin; 0 where they do not overlap."""
    words = arguments.split(",") if arguments.strip() else []
    found: list[tuple[int, int]] = []
    for word in words:
        match = _STEP.fullmatch(word)
        found += [(int(match[1]), int(match[2]))] if match else [(_integer(word.strip()), 0)]
    return found


def _times(name: str, arguments: str, inner: RegisterLayout) -> RegisterLayout:
    """A factor of a layout, whose elements are each a whole tile of `inner`."""
    if name != "spatial" or "/" not in arguments:
        return _factor(name, arguments, inner.rank) * inner
    shape = list(inner.shape)
    digits: list[Digit] = []
    for axis, (size, step) in enumerate(_sizes(arguments)):
        if "/" in arguments.split(",")[axis] and not 0 < step < inner.shape[axis]:
            problem = f"runs of {inner.shape[axis]} that begin {step} apart do not overlap"
            raise LayoutTextError(problem, "leave out the `/`, or write a smaller step")
        digits.append(Digit(size, axis, step or inner.shape[axis]))
        shape[axis] += (size - 1) * (step or inner.shape[axis])
    return RegisterLayout(shape, [*digits, *inner.thread_digits], inner.slot_digits)


def _factor(name: str, arguments: str, rank: int) -> RegisterLayout:
    sizes = _integers(arguments)
    if 0 in sizes:
        raise LayoutTextError(f"a size of `{name}` is 0", "write sizes of at least 1")
    match name:
        case "local":
            return local(*sizes)
        case "spatial":
            return spatial(*sizes)
        case "replicate":
            if len(sizes) != 1:
                raise LayoutTextError("`replicate` takes one number", "write how many copies there are: `replicate(4)`")
            return replicate(sizes[0], rank)
        case _:
            known = suggest(name, _FACTORS, "factors are: " + ", ".join(_FACTORS))
            raise LayoutTextError(f"there is no factor `{name}`", known)


def _integers(arguments: str) -> tuple[int, ...]:
    """`2, 1`"""
    words = [word.strip() for word in arguments.split(",")] if arguments.strip() else []
    return tuple(map(_integer, words))


def _integer(word: str) -> int:
    if not _INTEGER.fullmatch(word):
        raise LayoutTextError(f"`{word}` is no size", "write whole numbers of at most nine digits")
    return int(word)


def _shared(arguments: str) -> SharedLayout:
    """`0, 1, padding=8`, `0, 1, swizzle=(3, 4, 3), panel=64`"""
    named: dict[str, tuple[int, ...]] = {}
    for match in _NAMED.finditer(arguments):
        named[match[1]] = _integers(match[2].strip("()"))
    order = _integers(_NAMED.sub("", arguments).rstrip(" ,\n\t\r\f"))
    if sorted(order) != list(range(len(order))):
        raise LayoutTextError("the axes of `rows` are not each named once", "write such as `rows(0, 1)`, fastest last")
    padding, swizzle, panel = named.pop("padding", (0,)), named.pop("swizzle", None), named.pop("panel", (0,))
    if named or len(padding) != 1 or len(panel) != 1 or (swizzle is not None and len(swizzle) != 3):
        raise LayoutTextError(
            "`rows` is given what it does not take", "write `padding=8`, `swizzle=(3, 4, 3)` or `panel=64`"
        )
    if swizzle is not None and (not 0 < swizzle[0] <= swizzle[2] or sum(swizzle) > 16):
        raise LayoutTextError(
            f"`swizzle={swizzle}` is none", "write (bits, base, shift) with 0 < bits <= shift, 16 in all at most"
        )
    if panel[0] and (padding[0] or len(order) < 2):
        raise LayoutTextError("panels are of two axes, and not padded", "leave out `panel`, or the padding")
    return SharedLayout(order, padding[0], None if swizzle is None else Swizzle(*swizzle), panel[0])
