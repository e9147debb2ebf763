"""Advice for a name that is not known: the one that may have been meant."""

from __future__ import annotations

from collections.abc import Iterable


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """`` did you mean `x`? ``, where one of the known names is close; else the other advice."""
    close = nearest(name, known)
    return otherwise if close is None else f"did you mean `{close}`?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that slips of the fingers make into `name`, or that begins like it; the first of equals.

    >>> nearest("sclae", ["case", "scale"]), nearest("output", ["a", "out"]), nearest("z", ["x"])
    ('scale', 'out', None)
    """
    scored = [(score, other) for other in known if (score := _score(name, other)) is not None]
    return min(scored, key=lambda pair: pair[0])[1] if scored else None


def _score(name: str, other: str) -> float | None:
    """How far two names are apart; None where they have nothing to do with each other."""
    if name.lower() == other.lower():
        return 0.5
    most = max(len(name), len(other)) // 3  # slips: one in 3 to 5 letters, two in 6 to 8
    if abs(len(name) - len(other)) <= most:
        slips = distance(name, other)
        if slips <= most:
            return slips
    short, long = sorted((name, other), key=len)
    begins = long.startswith(short) and (len(short) >= 3 or len(long) <= 2)
    return 10 + len(long) - len(short) if begins else None


def distance(a: str, b: str) -> int:
    """How many letters must be put in, taken out, replaced, or swapped with their neighbours, to make `b` of `a`."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        last, before, row = before, row, [i + 1]
        for j, y in enumerate(b):
            best = min(before[j + 1] + 1, row[j] + 1, before[j] + (x != y))
            if i and j and x == b[j - 1] and y == a[i - 1]:
                best = min(best, last[j - 1] + 1)
            row.append(best)
    return row[-1]
