"""The answer of a short way that a call cannot take."""

from __future__ import annotations

from typing import Any

MISSED: Any = object()
"""What a short way gives for a call that must go the careful way; nothing was run."""
