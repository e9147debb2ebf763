"""Advice for a name that is not known: the one that may have been meant."""

from __future__ import annotations

from collections.abc import Iterable


def suggest(name: str, known: Iterable[str], otherwise: str) -> str:
    """`` did you mean `x`? ``, where one of the known names is close; else the other advice."""
    from difflib import get_close_matches  # costs start-up time

    close = get_close_matches(name, list(known), n=1)
    return f"did you mean `{close[0]}`?" if close else otherwise
