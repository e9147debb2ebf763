"""Long lists of cases: the ordinary run takes a share of them, `-m slow` the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def share(cases: Sequence[object], every: int) -> list[Any]:
    """The cases as parameters of a test, all but every so many-th of them marked `slow`."""
    return [pytest.param(case, marks=() if n % every == 0 else (pytest.mark.slow,)) for n, case in enumerate(cases)]
